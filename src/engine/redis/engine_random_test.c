/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* A random test: two engines, and one server that decides by the core. Requests of every kind,
 * replies in any order or none, abandoned batches, a server that is down at times. Every batch ends
 * once, by its deadline, and no request is denied that the server would allow. */

#include "engine/redis/engine_kit_test.h"

enum { ROUNDS = 64, STEPS = 20000, SEEDS = 12, REQUESTS = 4 };

typedef struct slot {
    weir_engine_batch batch; /* first */
    weir_engine_request request[REQUESTS];
    char key[REQUESTS][4];
    world *world;
    int64_t until_ns;
    bool in_use;
} slot;

static uint64_t seed;
static slot slots[ROUNDS];
static weir_store *server;
static int cached; /* answers from the deny cache */

static uint64_t below(uint64_t n)
{
    seed = seed * 6364136223846793005U + 1442695040888963407U;
    return (seed >> 33) % n;
}

static void check_answers(const weir_engine_batch *r)
{
    bool any_reports = false;
    for (size_t i = 0; i < r->len; i++)
        any_reports = any_reports || (r->all && r->request[i].on_error == WEIR_ON_ERROR_REPORT);
    for (size_t i = 0; i < r->len; i++) {
        const weir_engine_request *q = &r->request[i];
        bool changes = q->verb == WEIR_VERB_REFUND || q->verb == WEIR_VERB_RESET;
        if (q->status == WEIR_E_IO)
            assert_true(changes || any_reports || q->on_error == WEIR_ON_ERROR_REPORT);
        else
            assert_int_equal(q->status, WEIR_OK);
    }
}

static void slot_done(weir_engine_batch *r, int64_t now_ns)
{
    slot *s = (slot *)r;
    assert_true(s->in_use);
    assert_true(now_ns <= s->until_ns);
    check_answers(r);
    s->in_use = false;
}

/* An answer within submit() came from the deny cache. The server would deny, too. */
static void check_cached(const weir_engine_batch *r, int64_t now_ns)
{
    for (size_t i = 0; i < r->len; i++) {
        const weir_engine_request *q = &r->request[i];
        weir_decision d;
        if (q->status != WEIR_OK || q->by_error)
            continue;
        assert_false(q->decision.allowed);
        assert_int_equal(weir_store_peek(server, q->policy, 1, q->key.at, q->key.len, now_ns,
                                         q->verb == WEIR_VERB_GRANT ? 1 : q->cost, &d),
                         WEIR_OK);
        assert_false(d.allowed);
        if (q->cost == 1) /* otherwise smaller costs may have been charged meanwhile */
            assert_true(q->decision.retry_after_ns >= d.retry_after_ns);
        cached++;
    }
}

static void ask_some(world *w)
{
    static const weir_verb rare[] = {WEIR_VERB_PEEK, WEIR_VERB_GRANT, WEIR_VERB_REFUND,
                                     WEIR_VERB_RESET};
    slot *s = &slots[below(ROUNDS)];
    if (s->in_use)
        return;
    *s = (slot){.world = w, .in_use = true, .until_ns = w->now_ns + 50 * ms_ns};
    s->batch = (weir_engine_batch){.request = s->request,
                                   .len = 1 + below(2) * below(REQUESTS),
                                   .all = below(10) == 0,
                                   .done = slot_done};
    for (size_t i = 0; i < s->batch.len; i++) {
        weir_verb verb = s->batch.all || below(8) ? WEIR_VERB_TAKE : rare[below(4)];
        (void)snprintf(s->key[i], sizeof s->key[i], "%c%d", below(2) ? 'a' : '1', (int)below(3));
        s->request[i] = request(w, verb, s->key[i], (int64_t)below(3));
        s->request[i].on_error = (weir_on_error)below(WEIR_ON_ERROR_REPORT + 1);
    }
    if (w->engine->calls->submit(w->engine, &s->batch, w->now_ns)) {
        check_cached(&s->batch, w->now_ns);
        slot_done(&s->batch, w->now_ns);
    }
}

/* The server decides a call. */
static void decide(weir_redis_call *c, int64_t now_ns)
{
    for (size_t i = 0; i < c->len; i++) {
        weir_engine_request *q = &c->request[i];
        int64_t cost = q->verb == WEIR_VERB_GRANT ? 1 : q->cost;
        q->status = WEIR_OK;
        q->granted = 0;
        if (q->verb == WEIR_VERB_RESET)
            q->status = weir_store_reset(server, 1, q->key.at, q->key.len);
        else if (q->verb == WEIR_VERB_REFUND)
            q->status = weir_store_refund(server, q->policy, 1, q->key.at, q->key.len, now_ns, cost,
                                          &q->decision);
        else if (q->verb == WEIR_VERB_TAKE)
            q->status = weir_store_check(server, q->policy, 1, q->key.at, q->key.len, now_ns, cost,
                                         &q->decision);
        if (q->verb == WEIR_VERB_RESET || q->verb == WEIR_VERB_PEEK || q->verb == WEIR_VERB_GRANT)
            q->status = weir_store_peek(server, q->policy, 1, q->key.at, q->key.len, now_ns, cost,
                                        &q->decision);
        assert_int_equal(q->status, WEIR_OK);
    }
    c->blocking = c->len;
}

static void answer_one(world *w)
{
    static const weir_redis_outcome outcomes[] = {WEIR_REDIS_CONNECTION_LOST,
                                                  WEIR_REDIS_UNREACHABLE, WEIR_REDIS_OVERLOADED,
                                                  WEIR_REDIS_REFUSED};
    if (client.calls == 0)
        return;
    size_t at = below(client.calls);
    if (below(20) == 0) {
        end_call(w, at, outcomes[below(4)]);
        return;
    }
    decide(client.call[at], w->now_ns);
    end_call(w, at, WEIR_REDIS_ANSWERED);
}

/* Like the client, ends each call at its deadline. */
static void pass_time(world *a, world *b, int64_t ns)
{
    int64_t to_ns = a->now_ns + ns;
    to(a, to_ns);
    to(b, to_ns);
    for (size_t i = 0; i < client.calls;) {
        if (client.call[i]->deadline_ns > to_ns) {
            i++;
            continue;
        }
        world late = {.now_ns = client.call[i]->deadline_ns};
        end_call(&late, i, WEIR_REDIS_TIMEOUT);
        i = 0;
    }
    to(a, to_ns);
    to(b, to_ns);
    for (int i = 0; i < ROUNDS; i++)
        assert_true(!slots[i].in_use || slots[i].until_ns >= to_ns);
}

static void step(world *a, world *b)
{
    world *w = below(2) ? a : b;
    slot *s = &slots[below(ROUNDS)];
    switch (below(8)) {
    case 0:
    case 1:
    case 2:
        ask_some(w);
        break;
    case 3:
    case 4:
    case 5:
        answer_one(w);
        break;
    case 6:
        if (s->in_use && below(4) == 0) {
            s->in_use = false;
            s->world->engine->calls->abandon(s->world->engine, &s->batch);
        }
        if (below(200) == 0) {
            client.is_down = !client.is_down;
            client.next_ns = below(2) ? 0 : a->now_ns + 20 * ms_ns;
        }
        break;
    default:
        pass_time(a, b, (int64_t)below((uint64_t)(below(50) == 0 ? 60 * ms_ns : ms_ns)));
    }
}

static void random_requests_and_faults(void **state)
{
    (void)state;
    static const char *const policies[] = {"gcra 100/s burst 3", "fixed-window 5/s",
                                           "gcra 1000/s burst 2 & sliding-log 20/s"};
    for (uint64_t i = 0; i < SEEDS; i++) {
        const weir_store_options in = {.memory_bytes = 2 << 20};
        world a, b;
        const char *policy = policies[i % 3];
        seed = 20260101 + i;
        memset(slots, 0, sizeof slots);
        assert_int_equal(weir_store_open(&server, &in), WEIR_OK);
        begin(&a, policy, (weir_redis_options){.in_flight = 100});
        begin_beside(&b, &a, policy, (weir_redis_options){.in_flight = 100});
        for (int k = 0; k < STEPS; k++)
            step(&a, &b);
        for (int k = 0; k < ROUNDS; k++)
            slots[k].until_ns = INT64_MAX;
        a.lines = b.lines = 0;
        end(&b);
        end(&a);
        for (int k = 0; k < ROUNDS; k++)
            assert_false(slots[k].in_use);
        weir_store_close(server);
    }
    assert_true(cached > 1000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(random_requests_and_faults)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
