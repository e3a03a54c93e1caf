/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_CORE_LAYER_H
#define WEIR_CORE_LAYER_H
/* One layer of a policy. layer.c dispatches each function to the file that implements the layer's
 * state format. */

#include <weir/weir.h>

#include "core/algorithm.h"
#include "core/check.h"
#include "core/windows.h"

static inline size_t weir_layer_words(const weir_layer *l, unsigned level)
{
    size_t fixed = weir_format_words(l->format);
    if (fixed > 0)
        return fixed;
    return l->format == WEIR_STATE_SLICES ? weir_slices_words(l) : weir_log_words(l, level);
}

/* Whether the state is a ring buffer: of the other formats, any words are sound, and none is ever
 * full. Pure. */
static inline bool weir_layer_is_ring(const weir_layer *l)
{
    return l->format == WEIR_STATE_LOG || l->format == WEIR_STATE_LEASES;
}

void weir_layer_grow(const weir_layer *l, const uint64_t *from, unsigned level, uint64_t *to);

/* Returns false if the words cannot be a state of this layer. No other function accepts such a
 * state. */
bool weir_layer_sound(const weir_layer *l, const uint64_t *state, unsigned level);

/* Returns whether charging `cost` needs a state of the next level. */
bool weir_layer_full(const weir_layer *l, const uint64_t *state, unsigned level, int64_t now_ns,
                     int64_t cost);

/* Returns whether the layer allows `cost`. Writes nothing. */
bool weir_layer_allows(const weir_layer *l, const uint64_t *state, unsigned level, int64_t now_ns,
                       int64_t cost);

/* Decides and charges this layer alone. Sets every field of *ret except `layer`.
 *  state  sound.
 *  count  true: a count-denied layer counts a denied cost. false: a denial writes nothing.
 * Returns false, with nothing written, if the call would write a state that is full. */
bool weir_layer_check(const weir_layer *l, uint64_t *state, unsigned level, int64_t now_ns,
                      int64_t cost, bool count, weir_decision *ret);

/* Returns the time at which the layer decides, or that of a new lease: now_ns, or the latest time
 * in the state if the clock has stepped back since a charge. Buckets store no such time and return
 * now_ns. Pure. */
int64_t weir_layer_time(const weir_layer *l, const uint64_t *state, unsigned level, int64_t now_ns);

/* Refunds up to `cost` units that were charged at of->charged_ns or before, the latest first. Units
 * that have left the window are not refunded. A bucket ignores `of`: its state does not record when
 * it was charged. A concurrent layer gives back all units of the lease, whatever the cost.
 *  of  NULL: the latest charges, and the leases that end first. */
void weir_layer_refund(const weir_layer *l, uint64_t *state, unsigned level, const weir_charged *of,
                       int64_t now_ns, int64_t cost);

/* Moves the end of a lease, see weir_renew(). Other layers do nothing. Returns false, with nothing
 * written, if that would write a state that is full. */
bool weir_layer_renew(const weir_layer *l, uint64_t *state, unsigned level, const weir_charged *of,
                      int64_t until_ns, int64_t now_ns);

/* Lists the words of the layer's state that weir_layer_check() or weir_layer_refund() may write:
 * see weir_state_writes(). `ret` receives indices into `state`.
 * Returns their number, or WEIR_LAYER_WRITES_MAX + 1 if any word may be written. */
enum { WEIR_LAYER_WRITES_MAX = 32 };
size_t weir_layer_writes(const weir_layer *l, const uint64_t *state, unsigned level, int64_t now_ns,
                         int64_t refund, size_t ret[WEIR_LAYER_WRITES_MAX]);

/* Lists words that weir_layer_check() will probably load: see weir_state_loads(). */
enum { WEIR_LAYER_LOADS_MAX = 4 };
size_t weir_layer_loads(const weir_layer *l, uint64_t first, unsigned level,
                        size_t ret[WEIR_LAYER_LOADS_MAX]);

#endif
