/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* The redis engine in virtual time: which requests it answers from the deny cache. */

#include "engine/redis/client/resets.h"
#include "engine/redis/engine_kit_test.h"

static void a_denial_is_cached_until_it_expires(void **state)
{
    (void)state;
    world w;
    single s = {0};
    begin(&w, "gcra 1/s burst 5", (weir_redis_options){0});
    assert_false(ask(&w, &s, WEIR_VERB_TAKE, "a", 1));
    w.now_ns += ms_ns; /* a round trip */
    deny(&w, 0, s_ns);
    assert_int_equal(port_load_relaxed(&w.stats.deny_keys), 1);

    w.now_ns = start_ns + 500 * ms_ns + 1;
    assert_true(ask(&w, &s, WEIR_VERB_TAKE, "a", 1));
    assert_false(s.request.by_error);
    assert_false(s.request.decision.allowed);
    assert_int_equal(s.request.decision.limit, 5);
    assert_int_equal(s.request.decision.retry_after_ns, 501 * ms_ns);
    assert_int_equal(s.request.decision.reset_after_ns, 1501 * ms_ns);
    assert_true(ask(&w, &s, WEIR_VERB_PEEK, "a", 1));
    assert_true(ask(&w, &s, WEIR_VERB_GRANT, "a", 3));
    assert_int_equal(s.request.granted, 0);
    assert_int_equal(port_load_relaxed(&w.stats.deny_hits), 3);
    assert_int_equal(port_load_relaxed(&w.stats.deny_lookups), 4);

    /* A smaller cost and another key are not cached. */
    assert_false(ask(&w, &s, WEIR_VERB_PEEK, "a", 0));
    allow(&w, 0);
    assert_false(ask(&w, &s, WEIR_VERB_TAKE, "ab", 1));
    allow(&w, 0);

    /* The denial expires before one second has passed since the request was sent. */
    w.now_ns = start_ns + s_ns - s_ns / 512 - us_ns - 1;
    assert_true(ask(&w, &s, WEIR_VERB_TAKE, "a", 1));
    w.now_ns++;
    assert_false(ask(&w, &s, WEIR_VERB_TAKE, "a", 1));
    allow(&w, 0);
    end(&w);
}

static void a_reset_or_refund_invalidates(void **state)
{
    (void)state;
    static const weir_verb verbs[] = {WEIR_VERB_RESET, WEIR_VERB_REFUND};
    for (size_t i = 0; i < 2; i++) {
        world w;
        single s = {0};
        begin(&w, "gcra 1/s burst 5", (weir_redis_options){0});
        assert_false(ask(&w, &s, WEIR_VERB_TAKE, "a", 1));
        deny(&w, 0, s_ns);
        assert_true(ask(&w, &s, WEIR_VERB_TAKE, "a", 1));
        assert_false(ask(&w, &s, verbs[i], "a", 1));
        allow(&w, 1);
        assert_false(ask(&w, &s, WEIR_VERB_TAKE, "a", 1));

        /* The denial of an earlier request arrives after the reset: it is not cached. */
        single r = {0};
        assert_false(ask(&w, &r, verbs[i], "a", 1));
        r.request.status = WEIR_OK;
        end_call(&w, 1, WEIR_REDIS_ANSWERED);
        deny(&w, 0, s_ns);
        assert_false(ask(&w, &s, WEIR_VERB_TAKE, "a", 1));
        deny(&w, 0, s_ns);

        /* So may one that was abandoned. */
        assert_false(ask(&w, &r, verbs[i], "a", 1));
        assert_false(ask(&w, &s, WEIR_VERB_TAKE, "a", 1));
        w.engine->calls->abandon(w.engine, &r.batch);
        deny(&w, 0, s_ns);
        assert_false(ask(&w, &s, WEIR_VERB_TAKE, "a", 1));
        deny(&w, 0, s_ns);

        /* A reset without a reply may have been executed: it invalidates, too. */
        assert_false(ask(&w, &r, verbs[i], "a", 1));
        end_call(&w, 0, WEIR_REDIS_TIMEOUT);
        assert_false(ask(&w, &s, WEIR_VERB_TAKE, "a", 1));
        allow(&w, 0);
        end(&w);
    }
}

/* Keys are slices: the bytes after them do not count. */
/* A reset of all keys of the policy: its denials of before are not found, but those of others. */
static void a_reset_of_all_keys_invalidates(void **state)
{
    (void)state;
    static weir_redis_resets resets;
    world w;
    single s = {0};
    begin(&w, "gcra 1/s burst 5", (weir_redis_options){0});
    w.stats.client.resets = &resets;
    for (uint64_t token = 1; token < 4; token++) {
        assert_false(ask(&w, &s, WEIR_VERB_TAKE, "a", 1));
        deny(&w, 0, s_ns);
        assert_true(ask(&w, &s, WEIR_VERB_TAKE, "a", 1));
        weir_redis_resets_set(&resets, &(weir_engine_request){.name = {"other", 5}}, token);
        assert_true(ask(&w, &s, WEIR_VERB_TAKE, "a", 1));
        weir_redis_resets_set(&resets, &s.request, token);
    }
    end(&w);
}

/* It is sent with a random token. It is never answered by on_error. */
static void a_reset_of_all_keys_is_sent(void **state)
{
    (void)state;
    static weir_redis_resets resets;
    world w;
    single s = {0};
    begin(&w, "gcra 1/s burst 5", (weir_redis_options){0});
    assert_true(ask(&w, &s, WEIR_VERB_RESET_ALL, "", 0));
    assert_int_equal(s.request.status, WEIR_E_UNSUPPORTED);
    assert_string_equal(s.request.reason, "this program does not reset all keys of a policy");
    w.stats.client.resets = &resets;
    uint64_t token[2];
    for (int i = 0; i < 2; i++) {
        assert_false(ask(&w, &s, WEIR_VERB_RESET_ALL, "", 0));
        token[i] = client.call[0]->token;
        assert_int_not_equal(token[i], 0);
        end_call(&w, 0, i == 0 ? WEIR_REDIS_ANSWERED : WEIR_REDIS_TIMEOUT);
    }
    assert_int_not_equal(token[0], token[1]);
    assert_int_equal(s.request.status, WEIR_E_IO);
    s.request.on_error = WEIR_ON_ERROR_LOCAL;
    assert_false(ask(&w, &s, WEIR_VERB_RESET_ALL, "", 0));
    end_call(&w, 0, WEIR_REDIS_UNREACHABLE);
    assert_int_equal(s.request.status, WEIR_E_IO);
    assert_int_equal(by(&w, WEIR_ON_ERROR_REPORT), 2);
    end(&w);
}

static void a_reset_finds_the_key_in_other_bytes(void **state)
{
    (void)state;
    world w;
    single s = {0};
    begin(&w, "gcra 1/s burst 5", (weir_redis_options){0});
    assert_false(ask(&w, &s, WEIR_VERB_TAKE, "a", 1));
    deny(&w, 0, s_ns);
    single r = {.request = request(&w, WEIR_VERB_RESET, "ab", 0)};
    r.request.key.len = 1;
    r.batch = (weir_engine_batch){.request = &r.request, .len = 1, .done = on_done};
    assert_false(w.engine->calls->submit(w.engine, &r.batch, w.now_ns));
    allow(&w, 1);
    assert_false(ask(&w, &s, WEIR_VERB_TAKE, "a", 1));
    allow(&w, 1);
    end(&w);
}

/* The timer removes each denial a second after it expired, and is not set if there is none. */
static void expired_denials_are_removed(void **state)
{
    (void)state;
    world w;
    single s = {0};
    begin(&w, "gcra 1/s burst 5", (weir_redis_options){0});
    assert_false(ask(&w, &s, WEIR_VERB_TAKE, "a", 1));
    allow(&w, 1);
    assert_int_equal(w.timer->at_ns, INT64_MAX);
    for (int64_t t = 0; t <= 7; t++) {
        to(&w, start_ns + t * s_ns);
        assert_int_equal(port_load_relaxed(&w.stats.deny_keys), t == 1 || t == 3);
        if (t == 0 || t == 2) {
            assert_false(ask(&w, &s, WEIR_VERB_TAKE, t ? "b" : "a", 1));
            deny(&w, 0, t ? 100 * s_ns : s_ns);
            assert_true(w.timer->at_ns < INT64_MAX);
        }
    }
    assert_int_equal(w.timer->at_ns, INT64_MAX);
    end(&w);
}

/* A timer that expires too early, as timers may, removes nothing and is set again. */
static void an_early_timer_is_set_again(void **state)
{
    (void)state;
    world w;
    single s = {0};
    begin(&w, "gcra 1/s burst 5", (weir_redis_options){0});
    assert_false(ask(&w, &s, WEIR_VERB_TAKE, "a", 1));
    deny(&w, 0, 4 * s_ns);
    to(&w, start_ns + s_ns); /* the first sweep */
    int64_t at_ns = w.timer->at_ns;
    assert_in_range(at_ns, start_ns + s_ns + 1, start_ns + 2 * s_ns);
    w.timer->at_ns = INT64_MAX;
    w.timer->fn(w.timer->ctx, at_ns - 1);
    assert_int_equal(w.timer->at_ns, at_ns);
    assert_int_equal(port_load_relaxed(&w.stats.deny_keys), 1);
    end(&w);
}

/* A lookup removes a denial from before a reset, and the timer of the last one. */
static void a_lookup_removes_an_invalid_denial(void **state)
{
    (void)state;
    world w;
    single s = {0};
    begin(&w, "gcra 1/s burst 5", (weir_redis_options){0});
    assert_false(ask(&w, &s, WEIR_VERB_TAKE, "a", 1));
    assert_int_equal(w.timer->at_ns, INT64_MAX);
    deny(&w, 0, s_ns);
    assert_true(w.timer->at_ns < INT64_MAX);
    assert_false(ask(&w, &s, WEIR_VERB_RESET, "a", 1));
    allow(&w, 5);
    assert_int_equal(port_load_relaxed(&w.stats.deny_keys), 1);
    assert_false(ask(&w, &s, WEIR_VERB_TAKE, "a", 1));
    assert_int_equal(port_load_relaxed(&w.stats.deny_keys), 0);
    assert_int_equal(w.timer->at_ns, INT64_MAX);
    allow(&w, 4);
    end(&w);
}

static uint64_t sum_of_epochs(const world *w, size_t *ret_used)
{
    uint64_t sum = 0;
    *ret_used = 0;
    for (size_t i = 0; i < WEIR_DENY_EPOCHS; i++) {
        uint64_t epoch = port_load_relaxed(&w->stats.deny_epoch[i]);
        sum += epoch;
        *ret_used += epoch > 0;
    }
    return sum;
}

/* A reset counts in the epoch of its key when it is submitted and when it ends. Few keys share
 * an epoch. */
static void resets_advance_the_epoch_of_the_key(void **state)
{
    (void)state;
    enum { KEYS = 20 };
    world w;
    single s = {0};
    size_t used;
    begin(&w, "gcra 1/s burst 5", (weir_redis_options){0});
    for (uint64_t i = 0; i < KEYS; i++) {
        const char key[] = {(char)('a' + i), 'x', '\0'};
        assert_false(ask(&w, &s, WEIR_VERB_RESET, key, 0));
        assert_int_equal(sum_of_epochs(&w, &used), 2 * i + 1);
        allow(&w, 5);
        assert_int_equal(sum_of_epochs(&w, &used), 2 * i + 2);
    }
    assert_true(used >= KEYS - 2);
    end(&w);
}

/* In a batch, a request behind a reset is not answered by an older denial. */
static void a_reset_precedes_later_requests(void **state)
{
    (void)state;
    world w;
    single s = {0};
    several r;
    begin(&w, "gcra 1/s burst 5", (weir_redis_options){0});
    assert_false(ask(&w, &s, WEIR_VERB_TAKE, "a", 1));
    deny(&w, 0, s_ns);
    memset(&r, 0, sizeof r);
    r.request[0] = request(&w, WEIR_VERB_TAKE, "a", 1);
    r.request[1] = request(&w, WEIR_VERB_RESET, "a", 0);
    r.request[2] = request(&w, WEIR_VERB_TAKE, "a", 1);
    r.batch = (weir_engine_batch){.request = r.request, .len = 3, .done = several_done};
    assert_false(w.engine->calls->submit(w.engine, &r.batch, w.now_ns));
    assert_int_equal(client.calls, 2);
    assert_ptr_equal(client.call[0]->request, &r.request[1]);
    assert_ptr_equal(client.call[1]->request, &r.request[2]);
    allow(&w, 5);
    allow(&w, 4);
    assert_int_equal(r.done, 1);
    assert_false(r.request[0].decision.allowed);
    assert_true(r.request[2].decision.allowed);
    end(&w);
}

static void count_denied_is_not_cached(void **state)
{
    (void)state;
    world w;
    single s = {0};
    begin(&w, "sliding-log 5/s count-denied", (weir_redis_options){0});
    for (int i = 0; i < 3; i++) {
        assert_false(ask(&w, &s, WEIR_VERB_TAKE, "a", 1));
        deny(&w, 0, s_ns);
    }
    assert_int_equal(port_load_relaxed(&w.stats.deny_keys), 0);
    end(&w);
}

static void the_cache_may_be_off(void **state)
{
    (void)state;
    world w;
    single s = {0};
    begin(&w, "gcra 1/s burst 5", (weir_redis_options){.deny_cache_bytes = SIZE_MAX});
    for (int i = 0; i < 3; i++) {
        assert_false(ask(&w, &s, WEIR_VERB_TAKE, "a", 1));
        deny(&w, 0, s_ns);
    }
    end(&w);
}

/* A reset by one thread invalidates what another thread has cached. */
static void threads_share_resets(void **state)
{
    (void)state;
    world a, b;
    single s = {0}, t = {0};
    begin(&a, "gcra 100/s burst 1", (weir_redis_options){0});
    begin_beside(&b, &a, "gcra 100/s burst 1", (weir_redis_options){0});
    assert_false(ask(&b, &t, WEIR_VERB_TAKE, "a", 1));
    deny(&b, 0, 10 * ms_ns);
    assert_int_equal(port_load_relaxed(&a.stats.deny_keys), 1);
    assert_true(ask(&b, &t, WEIR_VERB_TAKE, "a", 1));
    assert_false(ask(&a, &s, WEIR_VERB_RESET, "a", 0));
    assert_false(ask(&b, &t, WEIR_VERB_TAKE, "a", 1));
    allow(&a, 1);
    allow(&b, 0);
    end(&b);
    end(&a);
}

/* A server decides by the core, 150 us after each request. Clients send a request every 100 us for
 * 2 s. The cache denies no request that the server would allow, and the server sees few requests
 * beyond those that it allows. */
static void a_hot_key_is_answered_from_the_cache(void **state)
{
    (void)state;
    static const char *const policies[] = {"gcra 100/s burst 1", "gcra 100/s burst 20",
                                           "fixed-window 10/s", "sliding-log 10/s"};
    enum { ASKS = 20000 };
    for (size_t k = 0; k < sizeof policies / sizeof *policies; k++) {
        world w;
        static single s[ASKS];
        begin(&w, policies[k], (weir_redis_options){0});
        const int64_t gap_ns = 100 * us_ns, delay_ns = 300 * us_ns;
        size_t allowed = 0;
        for (size_t i = 0; i < ASKS; i++) {
            to(&w, start_ns + (int64_t)i * gap_ns);
            while (client.calls > 0 &&
                   client.call[0]->deadline_ns - 50 * ms_ns + delay_ns <= w.now_ns) {
                weir_engine_request *q = client.call[0]->request;
                q->status =
                    weir_store_check(w.store, q->policy, q->policy_id, q->key.at, q->key.len,
                                     w.now_ns - delay_ns / 2, q->cost, &q->decision);
                end_call(&w, 0, WEIR_REDIS_ANSWERED);
            }
            if (ask(&w, &s[i], WEIR_VERB_TAKE, "hot", 1)) {
                weir_decision d;
                assert_int_equal(weir_store_peek(w.store, &w.policy, s[i].request.policy_id, "hot",
                                                 3, w.now_ns, 1, &d),
                                 WEIR_OK);
                assert_false(d.allowed);
            }
        }
        for (size_t i = 0; i < ASKS; i++)
            allowed += s[i].request.status == WEIR_OK && s[i].request.decision.allowed;
        assert_int_equal(by(&w, WEIR_ON_ERROR_OPEN), 0);
        assert_true(allowed >= (k < 2 ? 185 : 20)); /* the round trips cost some units */
        assert_true(client.sent < ASKS / 20);
        end(&w);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_denial_is_cached_until_it_expires),
        cmocka_unit_test(a_reset_or_refund_invalidates),
        cmocka_unit_test(a_reset_of_all_keys_invalidates),
        cmocka_unit_test(a_reset_of_all_keys_is_sent),
        cmocka_unit_test(a_reset_finds_the_key_in_other_bytes),
        cmocka_unit_test(expired_denials_are_removed),
        cmocka_unit_test(an_early_timer_is_set_again),
        cmocka_unit_test(a_lookup_removes_an_invalid_denial),
        cmocka_unit_test(resets_advance_the_epoch_of_the_key),
        cmocka_unit_test(a_reset_precedes_later_requests),
        cmocka_unit_test(count_denied_is_not_cached),
        cmocka_unit_test(the_cache_may_be_off),
        cmocka_unit_test(threads_share_resets),
        cmocka_unit_test(a_hot_key_is_answered_from_the_cache),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
