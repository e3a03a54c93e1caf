/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* The layers' words, one after the other. Logs and slices say which of theirs it can be; of the
 * others, which have one or two, it is all. */

#include "core/writes.h"

#include "core/layer.h"
#include "core/log.h"
#include "core/slices.h"

enum { LAYER_MAX = WEIR_SLICES_WRITES };
_Static_assert((int)LAYER_MAX >= (int)WEIR_LOG_WRITES, "room for either");

/* Of one layer, counted from its first word. Returns LAYER_MAX + 1 if it may be any of them. */
static size_t layer_writes(const weir_layer *l, const uint64_t *state, unsigned level,
                           int64_t now_ns, int64_t refund, size_t ret[LAYER_MAX])
{
    if (l->format == WEIR_STATE_LOG)
        return weir_log_writes(l, state, level, now_ns, refund, ret);
    if (l->format == WEIR_STATE_SLICES && refund == 0)
        return weir_slices_writes(l, state, now_ns, ret);
    return LAYER_MAX + 1;
}

size_t weir_state_writes(const weir_policy *p, const uint64_t *state, unsigned level,
                         int64_t now_ns, int64_t refund, size_t *ret, size_t max)
{
    size_t n = 0, first = 0;
    for (uint32_t i = 0; i < p->layers; i++) {
        const weir_layer *l = &p->layer[i];
        size_t some[LAYER_MAX], words = weir_layer_words(l, level);
        size_t count = layer_writes(l, state + first, level, now_ns, refund, some);
        bool all = count > LAYER_MAX;
        if (all)
            count = words;
        if (count > max - n)
            return max + 1;
        for (size_t k = 0; k < count; k++)
            ret[n++] = first + (all ? k : some[k]);
        first += words;
    }
    return n;
}
