/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* The redis engine in virtual time: answers of servers, on_error and circuit breakers. */

#include "engine/redis/breaker.h"
#include "engine/redis/engine_kit_test.h"

/* ---- replies of servers ---------------------------------------------------------------------- */

static void a_reply_answers_the_request(void **state)
{
    (void)state;
    world w;
    single s = {0};
    begin(&w, "gcra 10/s burst 5", (weir_redis_options){0});
    assert_int_equal(client.seed, 0x63cbe1e459320dd7U); /* the first number of splitmix64 from 7 */
    assert_false(ask(&w, &s, WEIR_VERB_TAKE, "a", 2));
    assert_int_equal(client.calls, 1);
    assert_int_equal(client.call[0]->deadline_ns, start_ns + 50 * ms_ns);
    assert_int_equal(s.done, 0);
    w.now_ns += ms_ns;
    allow(&w, 3);
    assert_int_equal(s.done, 1);
    assert_int_equal(s.done_ns, w.now_ns);
    assert_int_equal(s.request.decision.remaining, 3);
    assert_false(s.request.by_error);
    assert_int_equal(port_load_relaxed(&w.stats.requests), 1);
    s.request.by_error = true; /* of an earlier use of the batch */
    s.request.reason = "another";
    assert_false(w.engine->calls->submit(w.engine, &s.batch, w.now_ns));
    assert_false(s.request.by_error);
    assert_null(s.request.reason);
    allow(&w, 3);
    end(&w);
}

/* The reason says what happened to the request. */
static void each_outcome_has_a_reason(void **state)
{
    (void)state;
    static const char *const reasons[] = {[WEIR_REDIS_TIMEOUT] = "before the deadline",
                                          [WEIR_REDIS_CONNECTION_LOST] = "broke before the reply",
                                          [WEIR_REDIS_UNREACHABLE] = "no connection",
                                          [WEIR_REDIS_OVERLOADED] = "too many requests",
                                          [WEIR_REDIS_REFUSED] = "with an error"};
    world w;
    begin(&w, "gcra 10/s burst 5", (weir_redis_options){.deadline_ns = 7 * ms_ns});
    for (size_t i = 0; i < sizeof reasons / sizeof *reasons; i++) {
        single s = {.request = {.on_error = WEIR_ON_ERROR_REPORT}};
        if (!reasons[i])
            continue;
        assert_false(ask(&w, &s, WEIR_VERB_TAKE, "a", 1));
        assert_int_equal(client.call[0]->deadline_ns, w.now_ns + 7 * ms_ns);
        end_call(&w, 0, (weir_redis_outcome)i);
        assert_int_equal(s.request.status, WEIR_E_IO);
        assert_non_null(strstr(s.request.reason, reasons[i]));
    }
    end(&w);
}

static void local_decides_in_the_store(void **state)
{
    (void)state;
    world w;
    single s = {0};
    begin(&w, "gcra 10/s burst 5", (weir_redis_options){.on_error = WEIR_REDIS_LOCAL});
    for (int i = 0; i < 2; i++) {
        assert_false(ask(&w, &s, WEIR_VERB_TAKE, "a", 1));
        end_call(&w, 0, WEIR_REDIS_CONNECTION_LOST);
        assert_int_equal(s.request.decision.remaining, 4 - i);
    }
    assert_int_equal(by(&w, WEIR_ON_ERROR_LOCAL), 2);
    end(&w);
}

/* on_error does not decide for a policy that the server does not support. */
static void an_unsupported_policy_is_reported(void **state)
{
    (void)state;
    world w;
    single s = {0};
    begin(&w, "gcra 10/s burst 5", (weir_redis_options){.on_error = WEIR_REDIS_OPEN});
    assert_false(ask(&w, &s, WEIR_VERB_TAKE, "a", 1));
    s.request.status = WEIR_E_UNSUPPORTED;
    s.request.reason = "not exact in doubles";
    end_call(&w, 0, WEIR_REDIS_ANSWERED);
    assert_int_equal(s.done, 1);
    assert_int_equal(s.request.status, WEIR_E_UNSUPPORTED);
    assert_string_equal(s.request.reason, "not exact in doubles");
    assert_false(s.request.by_error);
    end(&w);
}

static void a_batch_ends_once_in_any_order(void **state)
{
    (void)state;
    world w;
    several s;
    begin(&w, "gcra 10/s burst 5", (weir_redis_options){0});
    assert_false(ask_several(&w, &s, 4, false));
    assert_int_equal(client.calls, 4);
    end_call(&w, 2, WEIR_REDIS_TIMEOUT);
    end_call(&w, 2, WEIR_REDIS_CONNECTION_LOST);
    allow(&w, 1);
    assert_int_equal(s.done, 0);
    allow(&w, 2);
    assert_int_equal(s.done, 1);
    assert_true(s.request[2].by_error && s.request[3].by_error);
    assert_int_equal(s.request[0].decision.remaining, 1);
    assert_int_equal(s.request[1].decision.remaining, 2);
    assert_null(s.batch.inside);
    for (size_t i = 0; i < 4; i++) { /* of an earlier use of the batch */
        s.request[i].by_error = true;
        s.request[i].reason = "another";
    }
    assert_false(w.engine->calls->submit(w.engine, &s.batch, w.now_ns));
    for (size_t i = 0; i < 4; i++) {
        assert_false(s.request[i].by_error);
        assert_null(s.request[i].reason);
        allow(&w, 1);
    }
    assert_int_equal(s.done, 2);
    end(&w);
}

static void a_batch_as_one_is_one_call(void **state)
{
    (void)state;
    world w;
    several s;
    begin(&w, "gcra 10/s burst 5", (weir_redis_options){0});
    assert_false(ask_several(&w, &s, 3, true));
    assert_int_equal(client.calls, 1);
    assert_int_equal(client.call[0]->len, 3);
    assert_true(client.call[0]->all);
    client.call[0]->blocking = 1;
    end_call(&w, 0, WEIR_REDIS_ANSWERED);
    assert_int_equal(s.done, 1);
    assert_int_equal(s.batch.blocking, 1);

    assert_false(ask_several(&w, &s, 3, true));
    end_call(&w, 0, WEIR_REDIS_TIMEOUT);
    assert_int_equal(s.done, 1);
    assert_int_equal(s.batch.blocking, 3);
    assert_true(s.request[2].by_error && s.request[2].decision.allowed);
    assert_int_equal(by(&w, WEIR_ON_ERROR_OPEN), 3);
    end(&w);
}

/* ---- on_error -------------------------------------------------------------------------------- */

static void on_error_decides(void **state)
{
    (void)state;
    static const weir_redis_outcome outcomes[] = {WEIR_REDIS_TIMEOUT, WEIR_REDIS_CONNECTION_LOST,
                                                  WEIR_REDIS_UNREACHABLE, WEIR_REDIS_REFUSED,
                                                  WEIR_REDIS_OVERLOADED};
    for (size_t i = 0; i < sizeof outcomes / sizeof *outcomes; i++) {
        world w;
        single s = {0};
        begin(&w, "gcra 10/s burst 5", (weir_redis_options){.on_error = WEIR_REDIS_CLOSED});
        assert_false(ask(&w, &s, WEIR_VERB_TAKE, "a", 1));
        end_call(&w, 0, outcomes[i]);
        assert_int_equal(s.request.status, WEIR_OK);
        assert_true(s.request.by_error);
        assert_false(s.request.decision.allowed);
        assert_int_equal(s.request.decision.retry_after_ns, s_ns);

        s.request.on_error = WEIR_ON_ERROR_OPEN;
        assert_false(ask(&w, &s, WEIR_VERB_TAKE, "a", 1));
        end_call(&w, 0, outcomes[i]);
        assert_true(s.request.decision.allowed && s.request.by_error);
        assert_int_equal(s.request.decision.remaining, 5);

        s.request.on_error = WEIR_ON_ERROR_LOCAL;
        assert_false(ask(&w, &s, WEIR_VERB_TAKE, "a", 1));
        end_call(&w, 0, outcomes[i]);
        assert_true(s.request.decision.allowed && s.request.by_error);
        assert_int_equal(s.request.decision.remaining, 4);

        s.request.on_error = WEIR_ON_ERROR_REPORT;
        assert_false(ask(&w, &s, WEIR_VERB_TAKE, "a", 1));
        end_call(&w, 0, outcomes[i]);
        assert_int_equal(s.request.status, WEIR_E_IO);
        assert_non_null(s.request.reason);
        assert_false(s.request.by_error);
        for (int how = WEIR_ON_ERROR_OPEN; how <= WEIR_ON_ERROR_REPORT; how++)
            assert_int_equal(by(&w, (weir_on_error)how), 1);
        end(&w);
    }
}

static void a_refund_fails_without_a_server(void **state)
{
    (void)state;
    world w;
    single s = {0};
    begin(&w, "gcra 10/s burst 5", (weir_redis_options){.on_error = WEIR_REDIS_OPEN});
    assert_false(ask(&w, &s, WEIR_VERB_REFUND, "a", 1));
    end_call(&w, 0, WEIR_REDIS_TIMEOUT);
    assert_int_equal(s.request.status, WEIR_E_IO);
    assert_false(ask(&w, &s, WEIR_VERB_RESET, "a", 0));
    end_call(&w, 0, WEIR_REDIS_UNREACHABLE);
    assert_int_equal(s.request.status, WEIR_E_IO);
    end(&w);
}

static void an_unsupported_refund_is_not_sent(void **state)
{
    (void)state;
    static const char *const policies[] = {"leaky-queue 1/s depth 3",
                                           "gcra 1/s burst 3 & fixed-window 9/h count-denied"};
    for (size_t i = 0; i < 2; i++) {
        world w;
        single s = {0};
        begin(&w, policies[i], (weir_redis_options){.on_error = WEIR_REDIS_LOCAL});
        assert_true(ask(&w, &s, WEIR_VERB_REFUND, "a", 1));
        assert_int_equal(s.request.status, WEIR_E_UNSUPPORTED);
        assert_non_null(s.request.reason);
        assert_int_equal(client.sent, 0);
        end(&w);
    }
}

static void a_node_in_backoff_is_not_waited_for(void **state)
{
    (void)state;
    world w;
    single s = {0};
    begin(&w, "gcra 10/s burst 5", (weir_redis_options){.on_error = WEIR_REDIS_CLOSED});
    client.is_down = true;
    client.next_ns = start_ns + 300 * ms_ns + 1;
    assert_true(ask(&w, &s, WEIR_VERB_TAKE, "a", 1));
    assert_int_equal(client.sent, 0);
    assert_int_equal(s.request.decision.retry_after_ns, 300 * ms_ns + us_ns);
    assert_int_equal(s.done, 0);
    assert_int_equal(port_load_relaxed(&w.stats.client.unreachable), 1);
    client.next_ns = start_ns + 1; /* at least 1 ms */
    assert_true(ask(&w, &s, WEIR_VERB_TAKE, "a", 1));
    assert_int_equal(s.request.decision.retry_after_ns, ms_ns);
    client.next_ns = 0; /* connecting: it may be up before the deadline */
    assert_false(ask(&w, &s, WEIR_VERB_TAKE, "a", 1));
    client.next_ns = w.now_ns;
    assert_false(ask(&w, &s, WEIR_VERB_TAKE, "b", 1));
    end(&w);
}

static void requests_in_flight_are_limited(void **state)
{
    (void)state;
    world w;
    single s[3] = {0};
    begin(&w, "gcra 10/s burst 5", (weir_redis_options){.in_flight = 2});
    assert_false(ask(&w, &s[0], WEIR_VERB_TAKE, "a", 1));
    assert_false(ask(&w, &s[1], WEIR_VERB_TAKE, "b", 1));
    assert_true(ask(&w, &s[2], WEIR_VERB_TAKE, "c", 1));
    assert_true(s[2].request.by_error);
    allow(&w, 4);
    assert_false(ask(&w, &s[2], WEIR_VERB_TAKE, "c", 1));
    end(&w);
    assert_int_equal(s[0].done + s[1].done + s[2].done, 3);
}

static void without_memory(void **state)
{
    (void)state;
    world w;
    single s = {0};
    several all, each;
    begin(&w, "gcra 10/s burst 5", (weir_redis_options){.on_error = WEIR_REDIS_CLOSED});
    no_memory_from = 0;
    assert_true(ask(&w, &s, WEIR_VERB_TAKE, "a", 1));
    assert_true(s.request.by_error);
    assert_true(ask_several(&w, &all, 3, true));
    assert_int_equal(all.batch.blocking, 0);
    assert_int_equal(all.request[0].decision.retry_after_ns, s.request.decision.retry_after_ns);
    all.batch.blocking = 7;
    all.request[1].on_error = WEIR_ON_ERROR_REPORT; /* the strictest applies to all */
    assert_true(w.engine->calls->submit(w.engine, &all.batch, w.now_ns));
    assert_int_equal(all.request[0].status, WEIR_E_IO);
    assert_int_equal(all.batch.blocking, 3);
    assert_int_equal(by(&w, WEIR_ON_ERROR_REPORT), 3);
    assert_true(ask_several(&w, &each, 2, false));
    assert_false(each.request[1].decision.allowed);
    no_memory_from = -1;
    assert_int_equal(client.sent, 0);
    assert_int_equal(by(&w, WEIR_ON_ERROR_CLOSED), 6);
    end(&w);
}

/* ---- circuit breakers ------------------------------------------------------------------------ */

static void fail_some(world *w, int n, const char *key)
{
    for (int i = 0; i < n; i++) {
        single s = {0};
        assert_false(ask(w, &s, WEIR_VERB_TAKE, key, 1));
        end_call(w, client.calls - 1, WEIR_REDIS_TIMEOUT);
        assert_int_equal(s.done, 1);
    }
}

static void a_breaker_opens_probes_and_closes(void **state)
{
    (void)state;
    world w;
    single s = {0}, probe = {0};
    begin(&w, "gcra 10/s burst 5", (weir_redis_options){.on_error = WEIR_REDIS_CLOSED});
    fail_some(&w, WEIR_BREAKER_FAILURES, "a");
    assert_int_equal(w.lines, 1);
    assert_string_equal(w.line[0], "redis-breaker host:6379 open");
    assert_int_equal(port_load_relaxed(&w.stats.opened), 1);

    /* Answered at once; retry_after is the time until the probe. */
    size_t sent = client.sent;
    assert_true(ask(&w, &s, WEIR_VERB_TAKE, "a", 1));
    assert_int_equal(client.sent, sent);
    int64_t wait_ns = s.request.decision.retry_after_ns;
    assert_in_range(wait_ns, WEIR_BREAKER_PAUSE_NS / 2, WEIR_BREAKER_PAUSE_NS);
    assert_false(weir_redis_engine_would_probe(w.engine, w.now_ns));
    assert_true(weir_redis_engine_would_probe(w.engine, w.now_ns + wait_ns));

    /* Another node has its own breaker. */
    assert_false(ask(&w, &s, WEIR_VERB_TAKE, "1", 1));
    allow(&w, 4);

    /* Exactly one probe. */
    w.now_ns += wait_ns;
    assert_false(ask(&w, &probe, WEIR_VERB_TAKE, "b", 1));
    assert_string_equal(w.line[1], "redis-breaker host:6379 probing");
    assert_false(weir_redis_engine_would_probe(w.engine, w.now_ns));
    assert_true(ask(&w, &s, WEIR_VERB_TAKE, "a", 1));
    assert_int_equal(s.request.decision.retry_after_ns, 50 * ms_ns); /* the probe's deadline */

    /* The probe fails: a longer pause, and no log line. */
    w.now_ns += 50 * ms_ns;
    end_call(&w, 0, WEIR_REDIS_TIMEOUT);
    assert_int_equal(w.lines, 2);
    assert_true(ask(&w, &s, WEIR_VERB_TAKE, "a", 1));
    wait_ns = s.request.decision.retry_after_ns;
    assert_in_range(wait_ns, WEIR_BREAKER_PAUSE_NS, 2 * WEIR_BREAKER_PAUSE_NS);

    w.now_ns += wait_ns;
    assert_false(ask(&w, &probe, WEIR_VERB_TAKE, "b", 1));
    allow(&w, 4);
    assert_string_equal(w.line[2], "redis-breaker host:6379 closed");
    assert_int_equal(w.lines, 3);
    assert_false(weir_redis_engine_would_probe(w.engine, INT64_MAX));
    assert_false(ask(&w, &s, WEIR_VERB_TAKE, "a", 1));
    allow(&w, 4);

    /* It opens again: the first probe is logged again. */
    fail_some(&w, WEIR_BREAKER_FAILURES, "a");
    assert_string_equal(w.line[3], "redis-breaker host:6379 open");
    assert_int_equal(port_load_relaxed(&w.stats.opened), 2);
    w.now_ns += WEIR_BREAKER_PAUSE_NS;
    assert_false(ask(&w, &probe, WEIR_VERB_TAKE, "b", 1));
    assert_string_equal(w.line[4], "redis-breaker host:6379 probing");
    allow(&w, 4);
    end(&w);
}

/* A request that finds too many in flight did not reach the node. The engine has no log here. */
static void overloaded_nodes_open_no_breaker(void **state)
{
    (void)state;
    world w;
    single s = {0};
    is_silent = true;
    begin(&w, "gcra 10/s burst 5", (weir_redis_options){0});
    is_silent = false;
    for (int i = 0; i < 3 * WEIR_BREAKER_FAILURES; i++) {
        assert_false(ask(&w, &s, WEIR_VERB_TAKE, "a", 1));
        end_call(&w, 0, WEIR_REDIS_OVERLOADED);
        assert_int_equal(s.done, 1);
    }
    assert_int_equal(port_load_relaxed(&w.stats.opened), 0);
    fail_some(&w, WEIR_BREAKER_FAILURES, "a");
    assert_int_equal(port_load_relaxed(&w.stats.opened), 1);
    w.now_ns += WEIR_BREAKER_PAUSE_NS;
    assert_false(ask(&w, &s, WEIR_VERB_TAKE, "a", 1)); /* the probe, which is not sent */
    end_call(&w, 0, WEIR_REDIS_OVERLOADED);
    assert_false(ask(&w, &s, WEIR_VERB_TAKE, "a", 1)); /* another probe */
    allow(&w, 4);
    assert_false(weir_redis_engine_would_probe(w.engine, INT64_MAX));
    assert_int_equal(w.lines, 0);
    end(&w);
}

static void a_probe_may_be_abandoned(void **state)
{
    (void)state;
    world w;
    single s = {0};
    begin(&w, "gcra 10/s burst 5", (weir_redis_options){0});
    fail_some(&w, WEIR_BREAKER_FAILURES, "a");
    w.now_ns += WEIR_BREAKER_PAUSE_NS;
    assert_false(ask(&w, &s, WEIR_VERB_TAKE, "b", 1));
    w.engine->calls->abandon(w.engine, &s.batch);
    assert_false(ask(&w, &s, WEIR_VERB_TAKE, "b", 1));
    allow(&w, 4);
    assert_string_equal(w.line[w.lines - 1], "redis-breaker host:6379 closed");
    end(&w);
}

/* An error reply does not count as a failure. */
static void refusals_open_no_breaker(void **state)
{
    (void)state;
    world w;
    single s = {0};
    begin(&w, "gcra 10/s burst 5", (weir_redis_options){0});
    for (int i = 0; i < 3 * WEIR_BREAKER_FAILURES; i++) {
        assert_false(ask(&w, &s, WEIR_VERB_TAKE, "a", 1));
        end_call(&w, 0, i % 2 ? WEIR_REDIS_REFUSED : WEIR_REDIS_TIMEOUT);
    }
    assert_int_equal(w.lines, 0);
    end(&w);
}

/* Submits again from within done(). */
typedef struct again {
    weir_engine_batch batch; /* first */
    weir_engine_request request;
    world *world;
    int left;
} again;

static void ask_again(weir_engine_batch *r, int64_t now_ns)
{
    again *a = (again *)r;
    if (a->left-- > 0)
        (void)a->world->engine->calls->submit(a->world->engine, r, now_ns);
}

static void closing_answers_all_requests(void **state)
{
    (void)state;
    world w;
    single s[4] = {0};
    begin(&w, "gcra 100/s burst 1", (weir_redis_options){.on_error = WEIR_REDIS_CLOSED});
    again a = {.world = &w, .left = 3, .request = request(&w, WEIR_VERB_TAKE, "z", 1)};
    a.batch = (weir_engine_batch){.request = &a.request, .len = 1, .done = ask_again};
    assert_false(w.engine->calls->submit(w.engine, &a.batch, w.now_ns));
    assert_false(ask(&w, &s[0], WEIR_VERB_TAKE, "a", 1));
    allow(&w, 0);
    assert_int_equal(a.left, 2);
    assert_int_equal(client.calls, 2);
    deny(&w, 0, 10 * ms_ns);
    w.now_ns += 10 * ms_ns;
    for (int i = 0; i < 4; i++)
        assert_false(ask(&w, &s[i], WEIR_VERB_TAKE, "a", 1));
    assert_int_equal(client.calls, 5);
    size_t sent = client.sent;
    end(&w);
    assert_int_equal(client.sent, sent); /* what done() submits meanwhile is not sent */
    assert_int_equal(port_load_relaxed(&w.stats.opened), 0);
    assert_int_equal(w.lines, 0);
    for (int i = 0; i < 4; i++) {
        assert_int_equal(s[i].done, 1);
        assert_true(s[i].request.by_error);
    }
}

static void a_batch_may_be_abandoned(void **state)
{
    (void)state;
    world w;
    several s;
    single next = {0};
    begin(&w, "gcra 100/s burst 1", (weir_redis_options){.in_flight = 4});
    assert_false(ask_several(&w, &s, 4, false));
    allow(&w, 0);
    w.engine->calls->abandon(w.engine, &s.batch);
    assert_null(s.batch.inside);
    assert_int_equal(client.calls, 0);
    assert_int_equal(s.done, 0);
    assert_false(ask(&w, &next, WEIR_VERB_TAKE, "a", 1)); /* none of the four is in flight */
    allow(&w, 0);
    assert_int_equal(next.done, 1);
    end(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_reply_answers_the_request),
        cmocka_unit_test(each_outcome_has_a_reason),
        cmocka_unit_test(local_decides_in_the_store),
        cmocka_unit_test(an_unsupported_policy_is_reported),
        cmocka_unit_test(a_batch_ends_once_in_any_order),
        cmocka_unit_test(a_batch_as_one_is_one_call),
        cmocka_unit_test(on_error_decides),
        cmocka_unit_test(a_refund_fails_without_a_server),
        cmocka_unit_test(an_unsupported_refund_is_not_sent),
        cmocka_unit_test(a_node_in_backoff_is_not_waited_for),
        cmocka_unit_test(requests_in_flight_are_limited),
        cmocka_unit_test(without_memory),
        cmocka_unit_test(a_breaker_opens_probes_and_closes),
        cmocka_unit_test(a_probe_may_be_abandoned),
        cmocka_unit_test(refusals_open_no_breaker),
        cmocka_unit_test(closing_answers_all_requests),
        cmocka_unit_test(a_batch_may_be_abandoned),
        cmocka_unit_test(overloaded_nodes_open_no_breaker),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
