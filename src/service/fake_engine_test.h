/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_SERVICE_FAKE_ENGINE_TEST_H
#define WEIR_SERVICE_FAKE_ENGINE_TEST_H
/* A fake engine for tests. It decides by a store of its own, when the test calls fake_reply(), in
 * any order. It checks that the requests did not change in between. */

#include "service/service.h"
#include "store/figures.h"

#include <stdlib.h>
#include <string.h>

#define FAKE __attribute__((unused)) static

enum { FAKE_BATCHES_MAX = 256 };

typedef struct fake_batch {
    weir_engine_batch *batch;
    uint64_t sum; /* a checksum of all that the batch points to */
} fake_batch;

typedef struct fake_engine {
    weir_engine engine;
    weir_store *store;
    bool immediate;      /* answers from within submit() */
    bool reports_next;   /* answers have next_ns, and of a peek figures, if they are wanted */
    bool uses_store_ids; /* keeps states under the ids of the service's store */
    bool by_error;       /* answers by on_error: closed if the rule says so, else open */
    weir_status status;  /* of all answers, if not WEIR_OK */
    const char *reason;  /* for that status */
    size_t submitted;    /* requests submitted */
    size_t resets;       /* of all keys */
    size_t batches, abandoned;
    fake_batch waiting[FAKE_BATCHES_MAX];
} fake_engine;

FAKE uint64_t fake_sum(uint64_t sum, const void *bytes, size_t len)
{
    const uint8_t *at = bytes;
    for (size_t i = 0; i < len; i++)
        sum = (sum ^ at[i]) * UINT64_C(0x100000001b3);
    return (sum ^ len) * UINT64_C(0x100000001b3);
}

FAKE uint64_t fake_sum_request(uint64_t sum, const weir_engine_request *q)
{
    sum = fake_sum(sum, q->text.at, q->text.len);
    sum = fake_sum(sum, q->name.at, q->name.len);
    sum = fake_sum(sum, q->key.at, q->key.len);
    sum = fake_sum(sum, &q->verb, sizeof q->verb);
    return fake_sum(fake_sum(sum, &q->cost, sizeof q->cost), &q->keep, sizeof q->keep);
}

FAKE uint64_t fake_sum_batch(const weir_engine_batch *r)
{
    uint64_t sum = r->all;
    for (size_t i = 0; i < r->len; i++)
        sum = fake_sum_request(sum, &r->request[i]);
    return sum;
}

FAKE void fake_require(bool good)
{
    if (!good)
        abort();
}

/* The id of the states: of the rule's name and the policy text, or that of the service's store. */
FAKE uint64_t fake_policy_id(const fake_engine *f, const weir_engine_request *q)
{
    if (f->uses_store_ids)
        return q->policy_id;
    return fake_sum(fake_sum(1, q->name.at, q->name.len), q->text.at, q->text.len);
}

FAKE void fake_fail_open(weir_engine_request *q)
{
    bool open = q->on_error != WEIR_ON_ERROR_CLOSED;
    q->by_error = true;
    q->status = WEIR_OK;
    q->decision = (weir_decision){.limit = q->policy->layer[0].limit,
                                  .remaining = open ? q->policy->layer[0].limit : 0,
                                  .retry_after_ns = open ? 0 : 1000000000,
                                  .allowed = open};
    q->answer = (weir_throttle_answer){.limited = !open};
}

static weir_status fake_throttle(void *ctx, uint64_t *state, int64_t now_ns)
{
    weir_engine_request *q = ctx;
    q->throttle_status = weir_throttle_check(&q->throttle, state, now_ns, &q->answer);
    return q->throttle_status == WEIR_THROTTLE_OK ? WEIR_OK : WEIR_E_RANGE;
}

FAKE weir_status fake_grant(fake_engine *f, weir_engine_request *q, int64_t now_ns)
{
    const weir_policy *p = q->policy;
    uint64_t id = fake_policy_id(f, q);
    weir_decision d;
    weir_status st = weir_store_peek(f->store, p, id, q->key.at, q->key.len, now_ns, 0, &d);
    q->granted = d.remaining < q->cost ? d.remaining : q->cost;
    if (st == WEIR_OK && q->granted > 0)
        st = weir_store_check(f->store, p, id, q->key.at, q->key.len, now_ns, q->granted, &d);
    return st != WEIR_OK
               ? st
               : weir_store_peek(f->store, p, id, q->key.at, q->key.len, now_ns, 1, &q->decision);
}

/* A reset of all keys has no key: only the name and the text. */
FAKE weir_status key_of_all(fake_engine *f, weir_engine_request *q)
{
    f->resets++;
    q->decision = (weir_decision){.allowed = true};
    return q->key.len == 0 && q->text.len > 0 && q->cost == 0 && q->keep == 0 ? WEIR_OK
                                                                              : WEIR_E_RANGE;
}

FAKE void fake_decide(fake_engine *f, weir_engine_request *q, int64_t now_ns)
{
    const weir_policy *p = q->policy;
    uint64_t id = fake_policy_id(f, q);
    const char *key = q->key.at;
    size_t len = q->key.len;
    if (q->verb == WEIR_VERB_TAKE)
        q->status = weir_store_check_keep(f->store, p, id, key, len, now_ns, q->cost, q->keep,
                                          &q->decision);
    else if (q->verb == WEIR_VERB_GRANT)
        q->status = fake_grant(f, q, now_ns);
    else if (q->verb == WEIR_VERB_PEEK)
        q->status =
            weir_store_peek_keep(f->store, p, id, key, len, now_ns, q->cost, q->keep, &q->decision);
    else if (q->verb == WEIR_VERB_REFUND)
        q->status = weir_store_refund(f->store, p, id, key, len, now_ns, q->cost, &q->decision);
    else if (q->verb == WEIR_VERB_CHARGE) {
        q->status = weir_store_charge(f->store, p, id, key, len, now_ns, q->cost, &q->decision,
                                      &q->granted);
        q->granted = q->cost - 2; /* as if 2 units were over */
    } else if (q->verb == WEIR_VERB_RESET)
        q->status = weir_store_reset(f->store, id, key, len);
    else if (q->verb == WEIR_VERB_RESET_ALL)
        q->status = key_of_all(f, q);
    else if (q->verb == WEIR_VERB_THROTTLE)
        q->status = weir_store_apply(f->store, p, q->policy_id, key, len, now_ns, fake_throttle, q);
    else
        abort();
}

FAKE void fake_decide_all(fake_engine *f, weir_engine_batch *r, int64_t now_ns)
{
    weir_store_request requests[WEIR_TAKE_MANY_MAX];
    fake_require(r->len <= WEIR_TAKE_MANY_MAX);
    for (size_t i = 0; i < r->len; i++) {
        const weir_engine_request *q = &r->request[i];
        requests[i] = (weir_store_request){.policy = q->policy,
                                           .policy_id = fake_policy_id(f, q),
                                           .key = q->key.at,
                                           .key_len = q->key.len,
                                           .cost = q->cost,
                                           .keep = q->keep};
    }
    weir_status st = weir_store_take_many(f->store, requests, r->len, now_ns, &r->blocking);
    for (size_t i = 0; i < r->len; i++) {
        r->request[i].status = requests[i].status;
        if (st == WEIR_OK)
            r->request[i].decision = requests[i].decision;
    }
}

FAKE void fake_find_next(fake_engine *f, weir_engine_request *q, int64_t now_ns)
{
    weir_decision d;
    if (q->status == WEIR_OK && q->verb != WEIR_VERB_THROTTLE && q->verb != WEIR_VERB_RESET &&
        weir_store_peek_keep(f->store, q->policy, fake_policy_id(f, q), q->key.at, q->key.len,
                             now_ns, 1, q->keep, &d) == WEIR_OK)
        q->next_ns = d.retry_after_ns;
    if (q->status == WEIR_OK && q->verb == WEIR_VERB_PEEK)
        fake_require(weir_store_figures(f->store, q->policy, fake_policy_id(f, q), q->key.at,
                                        q->key.len, now_ns, q->decision.layer,
                                        &q->figures) == WEIR_OK);
}

/* Writes the answers to a batch. */
FAKE void fake_answer(fake_engine *f, weir_engine_batch *r, int64_t now_ns)
{
    r->blocking = r->len;
    for (size_t i = 0; i < r->len && f->by_error; i++) {
        fake_fail_open(&r->request[i]);
        if (!r->request[i].decision.allowed && r->blocking == r->len)
            r->blocking = i;
    }
    for (size_t i = 0; i < r->len && f->status != WEIR_OK; i++) {
        r->request[i].status = f->status;
        r->request[i].reason = f->reason;
    }
    if (f->by_error || f->status != WEIR_OK)
        return;
    if (r->all)
        fake_decide_all(f, r, now_ns);
    for (size_t i = 0; i < r->len && !r->all; i++)
        fake_decide(f, &r->request[i], now_ns);
    for (size_t i = 0; i < r->len && f->reports_next; i++) {
        if (r->request[i].with_figures)
            fake_find_next(f, &r->request[i], now_ns);
    }
}

FAKE bool fake_submit(weir_engine *e, weir_engine_batch *r, int64_t now_ns)
{
    fake_engine *f = (fake_engine *)e;
    fake_require(r->len >= 1 && r->len <= WEIR_ENGINE_BATCH_MAX && r->done);
    for (size_t i = 0; i < r->len; i++)
        fake_require((r->request[i].key.len >= 1 || r->request[i].verb == WEIR_VERB_RESET_ALL) &&
                     r->request[i].key.len <= WEIR_KEY_MAX);
    f->submitted += r->len;
    if (f->immediate) {
        fake_answer(f, r, now_ns);
        return true;
    }
    fake_require(f->batches < FAKE_BATCHES_MAX);
    f->waiting[f->batches++] = (fake_batch){r, fake_sum_batch(r)};
    return false;
}

FAKE void fake_remove(fake_engine *f, size_t i)
{
    f->batches--;
    memmove(&f->waiting[i], &f->waiting[i + 1], (f->batches - i) * sizeof f->waiting[0]);
}

FAKE void fake_abandon(weir_engine *e, weir_engine_batch *r)
{
    fake_engine *f = (fake_engine *)e;
    size_t i = 0;
    while (i < f->batches && f->waiting[i].batch != r)
        i++;
    fake_require(i < f->batches);
    fake_remove(f, i);
    f->abandoned++;
}

FAKE void fake_close(weir_engine *e)
{
    fake_engine *f = (fake_engine *)e;
    fake_require(f->batches == 0);
    weir_store_close(f->store);
    free(f);
}

/* Answers the i-th batch in flight, and calls its callback. */
FAKE void fake_reply(fake_engine *f, size_t i, int64_t now_ns)
{
    fake_require(i < f->batches);
    fake_batch waiting = f->waiting[i];
    fake_remove(f, i);
    fake_require(waiting.sum == fake_sum_batch(waiting.batch));
    fake_answer(f, waiting.batch, now_ns);
    waiting.batch->done(waiting.batch, now_ns);
}

FAKE fake_engine *fake_open(void)
{
    static const weir_engine_calls calls = {fake_submit, fake_abandon, fake_close};
    static const uint8_t secret[16] = {1};
    const weir_store_options options = {.memory_bytes = 1 << 20, .secret = secret};
    fake_engine *f = calloc(1, sizeof *f);
    fake_require(f && weir_store_open(&f->store, &options) == WEIR_OK);
    f->engine.calls = &calls;
    return f;
}

#endif
