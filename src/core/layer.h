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

/* Whether the figures of `a` are a request's, and not those of `b`. Both are layers' answers to it,
 * or the answers to several requests that are one: all allow, or both deny. A denial's are those
 * with the longest wait, an allowance's those with the least remaining; of several such, those with
 * the latest reset. False for equal ones: the first of these stays. Pure. */
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

/* The time as which the layer reads now_ns: its own if that is later, because the clock has stepped
 * back since it was charged. Buckets have none. Pure. */
int64_t weir_layer_time(const weir_layer *l, const uint64_t *state, unsigned level, int64_t now_ns);

bool weir_layer_refunds(const weir_layer *l);

/* Gives back `cost` units of what was charged at charged_ns or before, the latest first. What has
 * left the window is not given back. A bucket drains, whoever filled it: there charged_ns says
 * nothing. */
void weir_layer_refund(const weir_layer *l, uint64_t *state, unsigned level, int64_t charged_ns,
                       int64_t now_ns, int64_t cost);

/* Whether weir_refund() serves the policy: all of its layers must. Pure. */
bool weir_policy_refunds(const weir_policy *p);

/* The latest of now_ns and of the times as which the layers read it: a charge that is to be taken
 * back later is made, and noted, as of this time. So each layer finds it where it was counted. A
 * state that is not sound says now_ns. Pure. */
int64_t weir_state_time(const weir_policy *p, const uint64_t *state, unsigned level,
                        int64_t now_ns);

/* As weir_refund(), of units that were charged at charged_ns, which is what weir_state_time() said
 * then. Judged at what it says now. */
WEIR_NODISCARD weir_status weir_refund_charge(const weir_policy *p, uint64_t *state, unsigned level,
                                              int64_t charged_ns, int64_t now_ns, int64_t cost,
                                              weir_decision *ret);

#endif
