/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_CORE_LAYER_H
#define WEIR_CORE_LAYER_H
/* One layer, whatever its algorithm: the one place that knows which file serves which state
 * format. */

#include <weir/weir.h>

size_t weir_layer_words(const weir_layer *l, unsigned level);
void weir_layer_grow(const weir_layer *l, const uint64_t *from, unsigned level, uint64_t *to);

/* False if the words cannot be a state of this layer and must not be decided on. */
bool weir_layer_sound(const weir_layer *l, const uint64_t *state, unsigned level);

/* Would charging `cost` need a state of the next level? */
bool weir_layer_full(const weir_layer *l, const uint64_t *state, unsigned level, int64_t now_ns,
                     int64_t cost);

/* Would `cost` be allowed? Writes nothing. */
bool weir_layer_allows(const weir_layer *l, const uint64_t *state, unsigned level, int64_t now_ns,
                       int64_t cost);

/* Decides and charges this layer alone; fills all of *ret but `layer`. The state is sound and, if a
 * write is due, not full.
 *  count  whether a denial is counted if the layer is count_denied; false gives the figures alone.
 *         */
void weir_layer_check(const weir_layer *l, uint64_t *state, unsigned level, int64_t now_ns,
                      int64_t cost, bool count, weir_decision *ret);

/* Whether `a` ranks before `b` as the answer whose figures are reported. Both are the answers of a
 * policy's layers, or those to several requests that are charged as one; both allow or both deny.
 * On a denial the longer wait ranks first, on an allowance the smaller remaining; then the later
 * reset. False if they are equal in all of that, so that the first one stays. Pure. */
static inline bool weir_outranks(const weir_decision *a, const weir_decision *b)
{
    if (a->never != b->never)
        return a->never;
    if (a->retry_after_ns != b->retry_after_ns)
        return a->retry_after_ns > b->retry_after_ns;
    if (a->allowed && a->remaining != b->remaining)
        return a->remaining < b->remaining;
    return a->reset_after_ns > b->reset_after_ns;
}

/* The time at which the layer decides: now_ns, or the later time that it remembers if the clock has
 * stepped back since a charge. Buckets remember none. Pure. */
int64_t weir_layer_time(const weir_layer *l, const uint64_t *state, unsigned level, int64_t now_ns);

bool weir_layer_refunds(const weir_layer *l);

/* Gives back `cost` units of what was charged at charged_ns or before, the latest first. Units that
 * have left the window are not given back. A bucket ignores charged_ns, since it
 * does not remember which request filled it. */
void weir_layer_refund(const weir_layer *l, uint64_t *state, unsigned level, int64_t charged_ns,
                       int64_t now_ns, int64_t cost);

/* Whether weir_refund() serves the policy: all of its layers must. Pure. */
bool weir_policy_refunds(const weir_policy *p);

/* The latest time at which a layer decides; now_ns if the state is not sound. A charge that may be
 * taken back later is made and noted as of this time: then every layer finds it where it counted
 * it. Pure. */
int64_t weir_state_time(const weir_policy *p, const uint64_t *state, unsigned level,
                        int64_t now_ns);

/* As weir_refund(), for units whose time is known. The core alone, as one file, does not call it.
 *  charged_ns  what weir_state_time() returned when they were charged. */
WEIR_NODISCARD __attribute__((unused)) weir_status
weir_refund_charge(const weir_policy *p, uint64_t *state, unsigned level, int64_t charged_ns,
                   int64_t now_ns, int64_t cost, weir_decision *ret);

#endif
