/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* The deny cache agrees with the core at any time and for any cost; and keys, epochs and the fixed
 * memory. */

#include "engine/redis/deny_cache.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static const int64_t us_ns = 1000, ms_ns = 1000000, s_ns = 1000000000;
static const int64_t start_ns = 1767225600000000000;
static const uint64_t secret[4] = {1, 2, 3, 4};

static uint64_t seed = 20260101;

static uint64_t random_below(uint64_t n)
{
    seed = seed * 6364136223846793005U + 1442695040888963407U;
    return (seed >> 33) % n;
}

static weir_engine_request request(const weir_policy *p, const char *name, const char *text,
                                   const char *key, int64_t cost)
{
    return (weir_engine_request){.verb = WEIR_VERB_TAKE,
                                 .policy = p,
                                 .text = {text, strlen(text)},
                                 .name = {name, strlen(name)},
                                 .key = {key, strlen(key)},
                                 .cost = cost};
}

static weir_policy parsed(const char *text)
{
    weir_policy p;
    assert_int_equal(weir_policy_parse(&p, text, strlen(text), NULL, NULL), WEIR_OK);
    return p;
}

/* As servers send times. */
static int64_t whole_us(int64_t ns)
{
    return ns == INT64_MAX ? ns : (ns + us_ns - 1) / us_ns * us_ns;
}

/* ---- against the core ------------------------------------------------------------------------ */

static const char *const policies[] = {
    "gcra 7/s burst 50",
    "gcra 1000003/m burst 20",
    "token-bucket 40 refill 3/h",
    "token-bucket 40 refill 5 every 1s",
    "leaky-bucket 5/s capacity 30",
    "leaky-queue 5/s depth 30",
    "fixed-window 20/s",
    "fixed-window 20/m from-first",
    "sliding-log 20/s",
    "sliding-counter 20/s",
    "sliding-slices 20/s slices 10",
    "gcra 7/s burst 50 & fixed-window 30/m",
};

/* A server denies a request between sent_ns and received_ns. Then the cache and the core answer the
 * same requests. */
static void one_denial(const weir_policy *p, const char *text, const uint64_t *words, int64_t at_ns)
{
    weir_deny_cache *d;
    int64_t sent_ns = at_ns - (int64_t)random_below((uint64_t)ms_ns);
    int64_t received_ns = at_ns + (int64_t)random_below((uint64_t)ms_ns);
    weir_engine_request q = request(p, "", text, "key", 1 + (int64_t)random_below(20));
    assert_int_equal(weir_peek(p, words, 2, at_ns, q.cost, &q.decision), WEIR_OK);
    if (q.decision.allowed || q.decision.never)
        return;
    int64_t wait_ns = q.decision.retry_after_ns;
    q.decision.retry_after_ns = whole_us(wait_ns);
    q.decision.reset_after_ns = whole_us(q.decision.reset_after_ns);
    assert_int_equal(weir_deny_cache_open(&d, 4096, secret), WEIR_OK);
    weir_deny_key id = weir_deny_key_of(d, &q);
    weir_deny_cache_add(d, id, 5, sent_ns, received_ns, &q);
    for (int i = 0; i < 20; i++) {
        weir_decision core;
        weir_engine_request again = q;
        int64_t now_ns = received_ns + (int64_t)random_below((uint64_t)wait_ns + (uint64_t)ms_ns);
        again.cost = q.cost + (int64_t)random_below(3) * (int64_t)random_below(30);
        again.verb = random_below(2) ? WEIR_VERB_TAKE : WEIR_VERB_PEEK;
        bool denied = weir_deny_cache_find(d, id, 5, now_ns, &again);
        if (!denied) {
            /* The denial is about to expire, or the cost is another. */
            assert_true(again.cost > q.cost || now_ns >= sent_ns + wait_ns - wait_ns / 256 - us_ns);
            continue;
        }
        assert_int_equal(weir_peek(p, words, 2, now_ns, again.cost, &core), WEIR_OK);
        const weir_decision *got = &again.decision;
        assert_false(core.allowed);
        assert_int_equal(got->never, core.never);
        assert_int_equal(got->limit, core.limit);
        assert_true(got->remaining <= core.remaining);
        assert_true(got->retry_after_ns >= whole_us(core.retry_after_ns));
        if (!core.never)
            assert_true(got->retry_after_ns <=
                        core.retry_after_ns + received_ns - at_ns + 3 * us_ns);
        assert_true(got->reset_after_ns >= core.reset_after_ns);
        assert_true(got->reset_after_ns <= core.reset_after_ns + received_ns - at_ns + 3 * us_ns);
    }
    weir_deny_cache_close(d);
}

static void it_agrees_with_the_core(void **state)
{
    (void)state;
    for (size_t k = 0; k < sizeof policies / sizeof *policies; k++) {
        weir_policy p = parsed(policies[k]);
        uint64_t *words = calloc(weir_state_words(&p, 2), sizeof *words);
        int64_t now_ns = start_ns;
        for (int i = 0; i < 3000; i++) {
            weir_decision d;
            now_ns += (int64_t)random_below((uint64_t)s_ns / 5);
            if (weir_check(&p, words, 2, now_ns, 1 + (int64_t)random_below(8), &d) == WEIR_E_ROOM)
                memset(words, 0, weir_state_words(&p, 2) * sizeof *words);
            one_denial(&p, policies[k], words, now_ns);
        }
        free(words);
    }
}

/* ---- which requests -------------------------------------------------------------------------- */

static weir_engine_request denied(const weir_policy *p, const char *name, const char *text,
                                  const char *key, int64_t wait_ns)
{
    weir_engine_request q = request(p, name, text, key, 1);
    q.decision = (weir_decision){.limit = 5, .retry_after_ns = wait_ns, .reset_after_ns = wait_ns};
    return q;
}

static void no_key_is_denied_for_another(void **state)
{
    (void)state;
    static char a_long[1000], b_long[1000];
    weir_policy p = parsed("gcra 1/s burst 5");
    weir_deny_cache *d;
    assert_int_equal(weir_deny_cache_open(&d, 4096, secret), WEIR_OK);
    weir_engine_request q = denied(&p, "api", "text", "key", s_ns);
    weir_deny_cache_add(d, weir_deny_key_of(d, &q), 0, start_ns, start_ns, &q);
    assert_true(weir_deny_cache_find(d, weir_deny_key_of(d, &q), 0, start_ns, &q));
    memset(a_long, 'x', sizeof a_long - 1);
    memset(b_long, 'x', sizeof b_long - 1);
    b_long[500] = 'y';
    const char *const others[][3] = {{"", "text", "key"},     {"apit", "ext", "key"},
                                     {"ap", "itext", "key"},  {"api", "textk", "ey"},
                                     {"api", "tex", "tkey"},  {"api", "text", "kex"},
                                     {"api", "text", a_long}, {"api", "text", b_long}};
    weir_deny_key seen[8];
    for (size_t i = 0; i < 8; i++) {
        weir_engine_request o = request(&p, others[i][0], others[i][1], others[i][2], 1);
        seen[i] = weir_deny_key_of(d, &o);
        assert_false(weir_deny_cache_find(d, seen[i], 0, start_ns, &o));
        for (size_t k = 0; k < i; k++)
            assert_memory_not_equal(&seen[i], &seen[k], sizeof seen[i]);
    }
    weir_deny_cache_close(d);
}

static void only_reads_and_takes_are_cached(void **state)
{
    (void)state;
    weir_policy counted = parsed("gcra 1/s burst 5 & fixed-window 5/s count-denied");
    weir_policy plain = parsed("gcra 1/s burst 5");
    static const bool want[] = {
        [WEIR_VERB_TAKE] = true,   [WEIR_VERB_PEEK] = true,  [WEIR_VERB_REFUND] = false,
        [WEIR_VERB_RESET] = false, [WEIR_VERB_GRANT] = true, [WEIR_VERB_THROTTLE] = false};
    for (int verb = WEIR_VERB_TAKE; verb <= WEIR_VERB_THROTTLE; verb++) {
        weir_engine_request q = request(&plain, "", "", "key", 1);
        q.verb = (weir_verb)verb;
        assert_int_equal(weir_deny_cache_may_hold(&q), want[verb]);
        q.policy = &counted;
        assert_false(weir_deny_cache_may_hold(&q));
    }
}

static void only_denials_are_added(void **state)
{
    (void)state;
    weir_policy p = parsed("gcra 1/s burst 5");
    weir_deny_cache *d;
    assert_int_equal(weir_deny_cache_open(&d, 4096, secret), WEIR_OK);
    for (int i = 0; i < 6; i++) {
        weir_engine_request q = denied(&p, "", "", "key", s_ns);
        q.status = i == 0 ? WEIR_E_UNSUPPORTED : WEIR_OK;
        q.decision.allowed = i == 1;
        q.decision.never = i == 2;
        q.decision.retry_after_ns = i == 3 ? 0 : s_ns;
        q.cost = i == 4 ? 0 : 1;
        q.decision.limit = i == 5 ? (int64_t)WEIR_LIMIT_MAX + 1 : 5; /* out of range */
        weir_deny_cache_add(d, weir_deny_key_of(d, &q), 0, start_ns, start_ns, &q);
        assert_int_equal(weir_deny_cache_keys(d), 0);
    }
    weir_deny_cache_close(d);
}

/* ---- memory ---------------------------------------------------------------------------------- */

static void a_new_epoch_invalidates(void **state)
{
    (void)state;
    weir_policy p = parsed("gcra 1/s burst 5");
    weir_deny_cache *d;
    assert_int_equal(weir_deny_cache_open(&d, 4096, secret), WEIR_OK);
    weir_engine_request q = denied(&p, "", "", "key", s_ns);
    weir_deny_key id = weir_deny_key_of(d, &q);
    weir_deny_cache_add(d, id, 7, start_ns, start_ns, &q);
    assert_true(weir_deny_cache_find(d, id, 7, start_ns, &q));
    assert_false(weir_deny_cache_find(d, id, 8, start_ns, &q));
    assert_int_equal(weir_deny_cache_keys(d), 0);
    assert_false(weir_deny_cache_find(d, id, 7, start_ns, &q));
    weir_deny_cache_close(d);
}

static void the_first_to_expire_is_evicted(void **state)
{
    (void)state;
    weir_policy p = parsed("gcra 1/s burst 5");
    weir_deny_cache *d;
    enum { KEYS = 2000 };
    int lost_of_long = 0, lost_of_short = 0;
    assert_int_equal(weir_deny_cache_open(&d, 64 << 10, secret), WEIR_OK);
    for (int i = 0; i < KEYS; i++) { /* every tenth expires late */
        char key[16];
        (void)snprintf(key, sizeof key, "%d", i);
        weir_engine_request q = denied(&p, "", "", key, i % 10 == 0 ? 1000 * s_ns : 100 * s_ns + i);
        weir_deny_cache_add(d, weir_deny_key_of(d, &q), 0, start_ns, start_ns, &q);
    }
    assert_true(weir_deny_cache_keys(d) <= (64 << 10) / 64);
    assert_true(weir_deny_cache_keys(d) > 700);
    for (int i = 0; i < KEYS; i++) {
        char key[16];
        (void)snprintf(key, sizeof key, "%d", i);
        weir_engine_request q = request(&p, "", "", key, 1);
        if (!weir_deny_cache_find(d, weir_deny_key_of(d, &q), 0, start_ns, &q))
            (*(i % 10 == 0 ? &lost_of_long : &lost_of_short))++;
    }
    assert_int_equal(lost_of_long, 0);
    assert_int_equal((size_t)lost_of_short + weir_deny_cache_keys(d), KEYS);

    /* All have expired: sweeping removes them. */
    for (int i = 0; i < 64; i++)
        weir_deny_cache_sweep(d, start_ns + 1002 * s_ns);
    assert_int_equal(weir_deny_cache_keys(d), 0);
    weir_deny_cache_close(d);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(it_agrees_with_the_core),
        cmocka_unit_test(no_key_is_denied_for_another),
        cmocka_unit_test(only_reads_and_takes_are_cached),
        cmocka_unit_test(only_denials_are_added),
        cmocka_unit_test(a_new_epoch_invalidates),
        cmocka_unit_test(the_first_to_expire_is_evicted),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
