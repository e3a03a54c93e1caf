/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* Decides each request of a key, and counts those that are denied. */

#include "cmd/suggest/suggest.h"

#include "port/assert.h"

/* Returns whether a request is denied. After an error, every request is. */
static bool is_denied(suggest_decider *d, const suggest_request *r)
{
    weir_decision answer;
    if (r->cost == SUGGEST_COST_ABOVE)
        return true;
    weir_status st = key_state_check(&d->state, &d->policy, r->now_ns, r->cost, &answer);
    if (st == WEIR_OK)
        return !answer.allowed;
    d->status = st;
    return true;
}

uint64_t suggest_denied(suggest_decider *d, const suggest_trace *t, uint32_t key, int64_t end_ns,
                        uint64_t denied_max)
{
    uint64_t denied = 0;
    WEIR_ASSERT(key < t->keys && denied_max > 0);
    key_state_reset(&d->state, &d->policy);
    const suggest_request *end = t->request + t->begin[key + 1];
    for (const suggest_request *r = t->request + t->begin[key]; r < end && r->now_ns < end_ns;
         r++) {
        if (is_denied(d, r) && ++denied == denied_max)
            break;
    }
    return denied;
}

void suggest_decide(suggest_decider *d, const suggest_trace *t, uint32_t key, suggest_result *ret)
{
    uint64_t before = 0, after = 0;
    key_state_reset(&d->state, &d->policy);
    for (size_t i = t->begin[key]; i < t->begin[key + 1]; i++) {
        const suggest_request *r = &t->request[i];
        if (is_denied(d, r))
            *(r->now_ns < t->split_ns ? &before : &after) += 1;
    }
    ret->searched.requests_denied += before;
    ret->held_out.requests_denied += after;
    ret->all.requests_denied += before + after;
    ret->searched.keys_denied += before > 0;
    ret->held_out.keys_denied += after > 0;
    ret->all.keys_denied += before + after > 0;
}

suggest_result suggest_totals(const suggest_trace *t)
{
    suggest_result ret = {0};
    for (uint32_t k = 0; k < t->keys; k++) {
        size_t from = t->begin[k], to = t->begin[k + 1], split = from;
        while (split < to && t->request[split].now_ns < t->split_ns)
            split++;
        ret.searched.requests += split - from;
        ret.held_out.requests += to - split;
        ret.searched.keys += split > from;
        ret.held_out.keys += to > split;
    }
    ret.all.requests = t->len;
    ret.all.keys = t->keys;
    return ret;
}

void suggest_decider_free(suggest_decider *d)
{
    key_state_free(&d->state);
}
