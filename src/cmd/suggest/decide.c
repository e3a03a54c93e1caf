/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* Calls weir_check() for each request of a key. A sliding log grows in a buffer that the next keys
 * use again. */

#include "cmd/suggest/decide.h"

#include "port/port.h"

#include <string.h>

/* Ensures that the state has `words` words. Keeps the first `used`. */
static bool reserve(suggest_decider *d, size_t words, size_t used)
{
    if (words <= d->words)
        return true;
    uint64_t *wider = port_zalloc(words, sizeof *wider);
    if (!wider) {
        d->status = WEIR_E_NOMEM;
        return false;
    }
    if (used > 0)
        memcpy(wider, d->state, used * sizeof *wider);
    port_free(d->state);
    d->state = wider;
    d->words = words;
    return true;
}

/* Moves the state to the next level. weir_state_grow() needs two buffers. */
static bool grow(suggest_decider *d, unsigned *level)
{
    size_t words = weir_state_words(&d->policy, *level);
    size_t next = weir_state_words(&d->policy, *level + 1);
    if (!reserve(d, words + next, words))
        return false;
    memcpy(d->state + next, d->state, words * sizeof *d->state);
    weir_state_grow(&d->policy, d->state + next, *level, d->state);
    ++*level;
    return true;
}

/* Begins a key, with full quota. Returns false if there is no memory. */
static bool begin(suggest_decider *d, unsigned *level)
{
    size_t words = weir_state_words(&d->policy, 0);
    *level = 0;
    if (!reserve(d, words, 0))
        return false;
    memset(d->state, 0, words * sizeof *d->state);
    return true;
}

/* Returns whether a request is denied. After an error, every request is. */
static bool is_denied(suggest_decider *d, unsigned *level, const suggest_request *r)
{
    weir_decision answer;
    if (r->cost == SUGGEST_COST_ABOVE)
        return true;
    for (;;) {
        weir_status st = weir_check(&d->policy, d->state, *level, r->now_ns, r->cost, &answer);
        if (st == WEIR_OK)
            return !answer.allowed;
        if (st != WEIR_E_ROOM)
            d->status = st;
        if (st != WEIR_E_ROOM || !grow(d, level))
            return true;
    }
}

uint64_t suggest_denied(suggest_decider *d, const suggest_trace *t, uint32_t key, int64_t end_ns,
                        uint64_t denied_max)
{
    uint64_t denied = 0;
    unsigned level;
    if (!begin(d, &level))
        return denied_max;
    const suggest_request *end = t->request + t->begin[key + 1];
    for (const suggest_request *r = t->request + t->begin[key]; r < end && r->now_ns < end_ns;
         r++) {
        if (is_denied(d, &level, r) && ++denied == denied_max)
            break;
    }
    return denied;
}

void suggest_decide(suggest_decider *d, const suggest_trace *t, uint32_t key, suggest_result *ret)
{
    uint64_t before = 0, after = 0;
    unsigned level;
    if (!begin(d, &level))
        return;
    for (size_t i = t->begin[key]; i < t->begin[key + 1]; i++) {
        const suggest_request *r = &t->request[i];
        if (is_denied(d, &level, r))
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
    port_free(d->state);
}
