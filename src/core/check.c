/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* The decision of a whole policy. If every layer allows a request, every layer is charged;
 * otherwise none is. The state of a key is the concatenation of the states of its layers. layer.c
 * dispatches to the algorithms. */

#include "core/check.h"

#include "core/algorithm.h"
#include "core/block.h"
#include "core/layer.h"
#include "port/assert.h"

size_t weir_state_words(const weir_policy *p, unsigned level)
{
    WEIR_ASSERT(p->layers >= 1 && p->layers <= WEIR_LAYERS_MAX);
    size_t words = weir_layer_words(&p->layer[0], level);
    for (uint32_t i = 1; i < p->layers; i++)
        words += weir_layer_words(&p->layer[i], level);
    return words;
}

void weir_state_grow(const weir_policy *p, const uint64_t *from, unsigned level, uint64_t *to)
{
    WEIR_ASSERT(level < WEIR_LEVEL_MAX);
    for (uint32_t i = 0; i < p->layers; i++) {
        weir_layer_grow(&p->layer[i], from, level, to);
        from += weir_layer_words(&p->layer[i], level);
        to += weir_layer_words(&p->layer[i], level + 1);
    }
}

bool weir_state_sound(const weir_policy *p, const uint64_t *state, unsigned level)
{
    for (uint32_t i = 0; i + 1 < p->layers; i++) {
        if (!weir_layer_sound(&p->layer[i], state, level))
            return false;
        state += weir_layer_words(&p->layer[i], level);
    }
    return weir_layer_sound(&p->layer[p->layers - 1], state, level);
}

/* The functions with `keep` are always inlined, so that weir_check(), which keeps 0, is compiled
 * without it. */
__attribute__((always_inline)) static inline bool all_allow(const weir_policy *p,
                                                            const uint64_t *state, unsigned level,
                                                            int64_t now_ns, int64_t cost,
                                                            int64_t keep)
{
    for (uint32_t i = 0; i < p->layers; i++) {
        const weir_layer *l = &p->layer[i];
        if (!weir_layer_allows(l, state, level, now_ns, cost + weir_kept_of(l, keep)))
            return false;
        state += weir_layer_words(l, level);
    }
    return true;
}

/* Returns the state of the policy's block, or NULL if it has none. */
static uint64_t *block_of(const weir_policy *p, uint64_t *state, unsigned level)
{
    if (!weir_policy_blocks(p))
        return NULL;
    for (uint32_t i = 0; i + 1 < p->layers; i++)
        state += weir_layer_words(&p->layer[i], level);
    return state;
}

/* Returns whether a layer that the request will write must grow first. */
static bool any_full(const weir_policy *p, const uint64_t *state, unsigned level, int64_t now_ns,
                     int64_t cost, bool allowed)
{
    for (uint32_t i = 0; i < p->layers; i++) {
        const weir_layer *l = &p->layer[i];
        if ((allowed || l->count_denied) && weir_layer_full(l, state, level, now_ns, cost))
            return true;
        state += weir_layer_words(l, level);
    }
    return false;
}

/* Copies all fields except delay_ns, one by one: a struct copy may become a call of memcpy(). */
static void copy_decision(weir_decision *to, const weir_decision *from, uint32_t layer)
{
    to->limit = from->limit;
    to->remaining = from->remaining;
    to->retry_after_ns = from->retry_after_ns;
    to->reset_after_ns = from->reset_after_ns;
    to->layer = layer;
    to->allowed = from->allowed;
    to->never = from->never;
}

/* Charges every layer. *ret describes the layer that ranks first by weir_outranks(). */
__attribute__((always_inline)) static inline void charge_all(const weir_policy *p, uint64_t *state,
                                                             unsigned level, int64_t now_ns,
                                                             int64_t cost, int64_t keep,
                                                             weir_decision *ret)
{
    int64_t delay_ns = 0;
    for (uint32_t i = 0; i < p->layers; i++) {
        weir_decision d;
        bool room = weir_layer_check(&p->layer[i], state, level, now_ns, cost, true, &d);
        d.remaining -= weir_kept_of(&p->layer[i], keep);
        WEIR_ASSERT(room && d.allowed && d.remaining >= 0);
        if (d.delay_ns > delay_ns)
            delay_ns = d.delay_ns;
        if (i == 0 || weir_outranks(&d, ret))
            copy_decision(ret, &d, i);
        state += weir_layer_words(&p->layer[i], level);
    }
    ret->delay_ns = delay_ns;
}

/* Computes the fields of a denial. If `count` is set, the count-denied layers count the cost first,
 * without what it keeps. *ret then describes the layer that ranks first by weir_outranks() among
 * those that deny the request. */
__attribute__((always_inline)) static inline void deny_all(const weir_policy *p, uint64_t *state,
                                                           unsigned level, int64_t now_ns,
                                                           int64_t cost, int64_t keep, bool count,
                                                           weir_decision *ret)
{
    bool first = true;
    for (uint32_t i = 0; i < p->layers; i++) {
        const weir_layer *l = &p->layer[i];
        weir_decision d;
        int64_t kept = weir_kept_of(l, keep);
        bool allows = weir_layer_allows(l, state, level, now_ns, cost + kept);
        bool counted = count && l->count_denied && (allows || kept > 0);
        if (counted) { /* the layer may deny the request once it has counted it */
            bool room = weir_layer_check(l, state, level, now_ns, cost, true, &d);
            WEIR_ASSERT(room);
            allows = weir_layer_allows(l, state, level, now_ns, cost + kept);
        }
        if (!allows) {
            bool room =
                weir_layer_check(l, state, level, now_ns, cost + kept, count && !counted, &d);
            WEIR_ASSERT(room && !d.allowed);
            d.remaining = d.remaining > kept ? d.remaining - kept : 0;
            if (first || weir_outranks(&d, ret))
                copy_decision(ret, &d, i);
            first = false;
        }
        state += weir_layer_words(l, level);
    }
    WEIR_ASSERT(!first);
    ret->delay_ns = 0;
}

static inline bool has_ring(const weir_policy *p)
{
    for (uint32_t i = 0; i < p->layers; i++) {
        if (weir_layer_is_ring(&p->layer[i]))
            return true;
    }
    return false;
}

static weir_status validate(const weir_policy *p, const uint64_t *state, unsigned level,
                            int64_t now_ns, int64_t cost)
{
    return weir_is_in_range(level, now_ns, cost) &&
                   (!has_ring(p) || weir_state_sound(p, state, level))
               ? WEIR_OK
               : WEIR_E_RANGE;
}

static weir_status validate_keep(const weir_policy *p, const uint64_t *state, unsigned level,
                                 int64_t now_ns, int64_t cost, int64_t keep)
{
    return weir_keep_is_good(keep) ? validate(p, state, level, now_ns, cost) : WEIR_E_RANGE;
}

__attribute__((always_inline)) static inline weir_status
check_layers(const weir_policy *p, uint64_t *state, unsigned level, int64_t now_ns, int64_t cost,
             int64_t keep, weir_decision *ret)
{
    bool allowed = all_allow(p, state, level, now_ns, cost, keep);
    uint64_t *block = allowed || cost == 0 ? NULL : block_of(p, state, level);
    bool count = !block || weir_block_allows(block, now_ns); /* nothing counts during a block */
    if (count && has_ring(p) && any_full(p, state, level, now_ns, cost, allowed))
        return WEIR_E_ROOM;
    if (block && count)
        weir_block_begin(&p->layer[p->layers - 1], block, now_ns);
    if (allowed)
        charge_all(p, state, level, now_ns, cost, keep, ret);
    else
        deny_all(p, state, level, now_ns, cost, keep, count, ret);
    return WEIR_OK;
}

static weir_status check_valid(const weir_policy *p, uint64_t *state, unsigned level,
                               int64_t now_ns, int64_t cost, weir_decision *ret)
{
    if (p->layers > 1)
        return check_layers(p, state, level, now_ns, cost, 0, ret);
    if (!weir_layer_check(&p->layer[0], state, level, now_ns, cost, true, ret))
        return WEIR_E_ROOM;
    ret->layer = 0;
    return WEIR_OK;
}

weir_status weir_check(const weir_policy *p, uint64_t *state, unsigned level, int64_t now_ns,
                       int64_t cost, weir_decision *ret)
{
    weir_status st = validate(p, state, level, now_ns, cost);
    return st == WEIR_OK ? check_valid(p, state, level, now_ns, cost, ret) : st;
}

weir_status weir_check_sound(const weir_policy *p, uint64_t *state, unsigned level, int64_t now_ns,
                             int64_t cost, int64_t keep, weir_decision *ret)
{
    if (keep != 0)
        return weir_check_keep(p, state, level, now_ns, cost, keep, ret);
    return weir_is_in_range(level, now_ns, cost) ? check_valid(p, state, level, now_ns, cost, ret)
                                                 : WEIR_E_RANGE;
}

weir_status weir_check_keep(const weir_policy *p, uint64_t *state, unsigned level, int64_t now_ns,
                            int64_t cost, int64_t keep, weir_decision *ret)
{
    if (keep == 0)
        return weir_check(p, state, level, now_ns, cost, ret);
    weir_status st = validate_keep(p, state, level, now_ns, cost, keep);
    return st == WEIR_OK ? check_layers(p, state, level, now_ns, cost, keep, ret) : st;
}

weir_status weir_peek_keep(const weir_policy *p, const uint64_t *state, unsigned level,
                           int64_t now_ns, int64_t cost, int64_t keep, weir_decision *ret)
{
    weir_status st = validate_keep(p, state, level, now_ns, cost, keep);
    if (st != WEIR_OK)
        return st;
    /* The cast is safe: a cost of 0 and a denial that is not counted write nothing. */
    uint64_t *at = (uint64_t *)state;
    if (all_allow(p, state, level, now_ns, cost, keep))
        charge_all(p, at, level, now_ns, 0, keep, ret);
    else
        deny_all(p, at, level, now_ns, cost, keep, false, ret);
    return WEIR_OK;
}

weir_status weir_peek(const weir_policy *p, const uint64_t *state, unsigned level, int64_t now_ns,
                      int64_t cost, weir_decision *ret)
{
    return weir_peek_keep(p, state, level, now_ns, cost, 0, ret);
}

weir_status weir_block_if_denied(const weir_policy *p, uint64_t *state, unsigned level,
                                 int64_t now_ns, int64_t cost, int64_t keep, weir_decision *ret)
{
    weir_status st = weir_peek_keep(p, state, level, now_ns, cost, keep, ret);
    if (st != WEIR_OK || ret->allowed || cost == 0)
        return st;
    uint64_t *block = block_of(p, state, level);
    if (block && weir_block_allows(block, now_ns)) {
        weir_block_begin(&p->layer[p->layers - 1], block, now_ns);
        deny_all(p, state, level, now_ns, cost, keep, false, ret);
    }
    return WEIR_OK;
}

int64_t weir_state_time(const weir_policy *p, const uint64_t *state, unsigned level, int64_t now_ns)
{
    int64_t latest_ns = now_ns;
    if (!weir_state_sound(p, state, level))
        return now_ns;
    for (uint32_t i = 0; i < p->layers; i++) {
        int64_t time_ns = weir_layer_time(&p->layer[i], state, level, now_ns);
        if (time_ns > latest_ns)
            latest_ns = time_ns;
        state += weir_layer_words(&p->layer[i], level);
    }
    return latest_ns;
}

static void refund_all(const weir_policy *p, uint64_t *state, unsigned level,
                       const weir_charged *of, int64_t now_ns, int64_t cost)
{
    for (uint32_t i = 0; i < p->layers; i++) {
        weir_layer_refund(&p->layer[i], state, level, of, now_ns, cost);
        state += weir_layer_words(&p->layer[i], level);
    }
}

weir_status weir_refund(const weir_policy *p, uint64_t *state, unsigned level, int64_t now_ns,
                        int64_t cost, weir_decision *ret)
{
    weir_status st = validate(p, state, level, now_ns, cost);
    if (st == WEIR_OK && !weir_policy_can(p, WEIR_CAN_REFUND))
        st = WEIR_E_UNSUPPORTED;
    if (st != WEIR_OK)
        return st;
    refund_all(p, state, level, NULL, now_ns, cost);
    return weir_check(p, state, level, now_ns, 0, ret);
}

weir_status weir_refund_charge(const weir_policy *p, uint64_t *state, unsigned level,
                               const weir_charged *of, int64_t now_ns, int64_t cost,
                               weir_decision *ret)
{
    weir_status st = validate(p, state, level, now_ns, cost);
    if (st == WEIR_OK && cost > 0 && !weir_policy_can(p, WEIR_CAN_REFUND))
        st = WEIR_E_UNSUPPORTED;
    if (st != WEIR_OK)
        return st;
    int64_t time_ns = weir_state_time(p, state, level, now_ns);
    refund_all(p, state, level, of, time_ns, cost);
    return weir_check(p, state, level, now_ns, 0, ret);
}

weir_status weir_renew(const weir_policy *p, uint64_t *state, unsigned level,
                       const weir_charged *of, int64_t ttl_ns, int64_t now_ns, weir_decision *ret,
                       int64_t *ret_ends_ns)
{
    weir_status st = validate(p, state, level, now_ns, of->units);
    if (st != WEIR_OK)
        return st;
    int64_t time_ns = weir_state_time(p, state, level, now_ns);
    uint64_t *at = state;
    for (uint32_t i = 0; i < p->layers; i++) { /* one layer at most has leases */
        if (!weir_layer_renew(&p->layer[i], at, level, of, time_ns + ttl_ns, time_ns))
            return WEIR_E_ROOM;
        at += weir_layer_words(&p->layer[i], level);
    }
    *ret_ends_ns = time_ns + ttl_ns;
    return weir_check(p, state, level, now_ns, 0, ret);
}

/* The used share of a layer, from a peek with cost 0. A running block and a layer in debt are the
 * last to be evicted; a block that is remembered has used up its limit. */
static unsigned used_of(const weir_layer *l, const weir_decision *peek)
{
    if (!peek->allowed)
        return WEIR_USED_MAX;
    if (!weir_layer_is_block(l))
        return weir_used_share(peek->limit, peek->remaining);
    return peek->reset_after_ns > 0 ? WEIR_USED_MAX / 2 + 1 : 0;
}

weir_usage weir_usage_of(const weir_policy *p, const uint64_t *state, unsigned level,
                         int64_t now_ns)
{
    weir_usage usage = {0, 0};
    if (now_ns < 0 || now_ns > WEIR_NOW_NS_MAX || !weir_state_sound(p, state, level))
        return usage;
    for (uint32_t i = 0; i < p->layers; i++) {
        weir_decision peek;
        /* The cast is safe: a cost of 0 writes nothing. */
        bool room =
            weir_layer_check(&p->layer[i], (uint64_t *)state, level, now_ns, 0, false, &peek);
        WEIR_ASSERT(room);
        unsigned used = used_of(&p->layer[i], &peek);
        if (peek.reset_after_ns > usage.fresh_after_ns)
            usage.fresh_after_ns = peek.reset_after_ns;
        if (used > usage.used)
            usage.used = used;
        state += weir_layer_words(&p->layer[i], level);
    }
    return usage;
}

int64_t weir_fresh_after(const weir_policy *p, const uint64_t *state, unsigned level,
                         int64_t now_ns)
{
    return weir_usage_of(p, state, level, now_ns).fresh_after_ns;
}

size_t weir_state_writes(const weir_policy *p, const uint64_t *state, unsigned level,
                         int64_t now_ns, int64_t refund, size_t *ret, size_t max)
{
    size_t n = 0, first = 0;
    if (p->layers == 1 && max >= WEIR_LAYER_WRITES_MAX) { /* as below, with less work */
        size_t count = weir_layer_writes(&p->layer[0], state, level, now_ns, refund, ret);
        if (count <= WEIR_LAYER_WRITES_MAX)
            return count;
    }
    for (uint32_t i = 0; i < p->layers; i++) {
        const weir_layer *l = &p->layer[i];
        size_t some[WEIR_LAYER_WRITES_MAX], words = weir_layer_words(l, level);
        size_t count = weir_layer_writes(l, state + first, level, now_ns, refund, some);
        bool all = count > WEIR_LAYER_WRITES_MAX;
        if (all)
            count = words;
        WEIR_ASSERT(n <= max);
        if (count > max - n)
            return max + 1;
        for (size_t k = 0; k < count; k++)
            ret[n++] = first + (all ? k : some[k]);
        first += words;
    }
    return n;
}

size_t weir_state_loads(const weir_policy *p, uint64_t first, unsigned level,
                        size_t ret[WEIR_STATE_LOADS])
{
    return weir_layer_loads(&p->layer[0], first, level, ret);
}
