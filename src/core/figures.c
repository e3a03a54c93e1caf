/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* The figures of a layer. Most follow from what remains of the layer alone. */

#include "core/figures.h"

#include "core/layer.h"

/* The units that count against a layer's limit. */
static int64_t count_of(const weir_layer *l, const uint64_t *state, unsigned level, int64_t now_ns)
{
    weir_decision d;
    /* The cast is safe: a cost of 0 writes nothing. */
    bool room = weir_layer_check(l, (uint64_t *)state, level, now_ns, 0, false, &d);
    WEIR_ASSERT(room);
    return d.limit - d.remaining;
}

static void read_layer(const weir_layer *l, const uint64_t *state, unsigned level, int64_t now_ns,
                       weir_figures *ret)
{
    switch (l->format) {
    case WEIR_STATE_WINDOW_WORD:
    case WEIR_STATE_WINDOW_PAIR:
        ret->count = count_of(l, state, level, now_ns);
        if (ret->count > 0 || l->calendar != WEIR_FROM_FIRST)
            ret->start_ns = weir_window_start(l, state, now_ns);
        break;
    case WEIR_STATE_COUNTER:
        ret->start_ns = weir_counter_start(l, state, now_ns);
        weir_counter_counts(l, state, now_ns, &ret->count, &ret->previous);
        break;
    case WEIR_STATE_LOG:
    case WEIR_STATE_LEASES:
    case WEIR_STATE_SLICES:
        ret->count = count_of(l, state, level, now_ns);
        break;
    default: /* buckets and blocks count nothing */
        break;
    }
}

bool weir_figures_of(const weir_policy *p, const uint64_t *state, unsigned level, int64_t now_ns,
                     uint32_t layer, weir_figures *ret)
{
    WEIR_ASSERT(layer < p->layers && now_ns >= 0 && now_ns <= WEIR_NOW_NS_MAX);
    ret->count = ret->previous = ret->start_ns = WEIR_NO_FIGURE;
    if (!weir_state_sound(p, state, level))
        return false;
    for (uint32_t i = 0; i < layer; i++)
        state += weir_layer_words(&p->layer[i], level);
    read_layer(&p->layer[layer], state, level, now_ns, ret);
    return true;
}
