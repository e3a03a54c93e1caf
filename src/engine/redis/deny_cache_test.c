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
    assert_true(weir_deny_cache_sound(d));
    for (int i = 0; i < 20; i++) {
        weir_decision core;
        weir_engine_request again = q;
        int64_t now_ns = received_ns + (int64_t)random_below((uint64_t)wait_ns + (uint64_t)ms_ns);
        again.cost = q.cost + (int64_t)random_below(3) * (int64_t)random_below(30);
        again.verb = random_below(2) ? WEIR_VERB_TAKE : WEIR_VERB_PEEK;
        bool denied = weir_deny_cache_find(d, id, 5, now_ns, &again);
        if (!denied) {
            /* The denial is about to expire, or the cost is another. */
            assert_true(again.cost > q.cost || now_ns >= sent_ns + s_ns ||
                        now_ns >= sent_ns + wait_ns - wait_ns / 256 - us_ns);
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

/* ---- what a cached denial answers ------------------------------------------------------------ */

static weir_engine_request denied(const weir_policy *p, const char *name, const char *text,
                                  const char *key, int64_t wait_ns)
{
    weir_engine_request q = request(p, name, text, key, 1);
    q.decision = (weir_decision){.limit = 5, .retry_after_ns = wait_ns, .reset_after_ns = wait_ns};
    return q;
}

/* Returns the wait in ns that the cache answers for a cost, after a cost of 2 was denied for one
 * second under a limit of 50. -1: no answer; INT64_MAX: never allowed. */
static int64_t wait_for(const char *text, int64_t cost)
{
    weir_policy p = parsed(text);
    weir_deny_cache *d;
    weir_engine_request q = denied(&p, "", text, "key", s_ns);
    q.cost = 2;
    q.decision.limit = 50;
    assert_int_equal(weir_deny_cache_open(&d, 4096, secret), WEIR_OK);
    weir_deny_key id = weir_deny_key_of(d, &q);
    weir_deny_cache_add(d, id, 0, start_ns, start_ns, &q);
    q = request(&p, "", text, "key", cost);
    bool found = weir_deny_cache_find(d, id, 0, start_ns, &q);
    weir_deny_cache_close(d);
    assert_true(!found || q.decision.never == (q.decision.retry_after_ns == INT64_MAX));
    return found ? q.decision.retry_after_ns : -1;
}

static void a_larger_cost_waits_longer(void **state)
{
    (void)state;
    static const char *const even[] = {"gcra 7/s burst 50", "token-bucket 50 refill 7/s",
                                       "leaky-bucket 7/s capacity 50"};
    for (size_t i = 0; i < 3; i++) {
        assert_int_equal(wait_for(even[i], 1), -1);
        assert_int_equal(wait_for(even[i], 2), s_ns);
        assert_int_equal(wait_for(even[i], 3), s_ns + 142858 * us_ns); /* rounded up */
        assert_int_equal(wait_for(even[i], 9), 2 * s_ns);
        assert_int_equal(wait_for(even[i], 50), s_ns + 6857143 * us_ns);
        assert_int_equal(wait_for(even[i], 51), INT64_MAX);
    }
    assert_int_equal(wait_for("gcra 1/us burst 50", 3), s_ns + us_ns); /* no part to round up */
    assert_int_equal(wait_for("gcra 3/3001ns burst 50", 3), s_ns + 2 * us_ns); /* 1000 1/3 ns */
    assert_int_equal(wait_for("fixed-window 50/m", 50), s_ns);
    assert_int_equal(wait_for("fixed-window 50/m", 51), INT64_MAX);
    static const char *const others[] = {
        "sliding-log 50/m", "sliding-counter 50/m", "token-bucket 50 refill 5 every 1s",
        "leaky-queue 7/s depth 49", "gcra 7/s burst 50 & gcra 1/s"};
    for (size_t i = 0; i < 5; i++) {
        assert_int_equal(wait_for(others[i], 2), s_ns);
        assert_int_equal(wait_for(others[i], 3), -1);
        assert_int_equal(wait_for(others[i], 51), i == 4 ? -1 : INT64_MAX);
    }
}

/* Asks the cache. Returns next_ns; -2: the cache does not answer. */
static int64_t next_from(weir_deny_cache *d, const weir_engine_request *of, weir_verb verb,
                         bool figures, int64_t now_ns)
{
    weir_engine_request q = *of;
    q.verb = verb;
    q.with_figures = figures;
    q.next_ns = 99;
    return weir_deny_cache_find(d, weir_deny_key_of(d, of), 0, now_ns, &q) ? q.next_ns : -2;
}

/* A denial of more than one unit tells when the next unit comes if the server has told it. */
static void the_next_unit(void **state)
{
    (void)state;
    weir_policy p = parsed("gcra 1/s burst 5");
    weir_deny_cache *d;
    weir_engine_request q = denied(&p, "", "", "key", 3 * s_ns);
    assert_int_equal(weir_deny_cache_open(&d, 4096, secret), WEIR_OK);
    weir_deny_key id = weir_deny_key_of(d, &q);
    weir_deny_cache_add(d, id, 0, start_ns, start_ns, &q); /* of one unit: its own wait */
    assert_int_equal(next_from(d, &q, WEIR_VERB_TAKE, true, start_ns + s_ns / 2), 5 * s_ns / 2);
    q = denied(&p, "", "", "other", 3 * s_ns);
    id = weir_deny_key_of(d, &q);
    q.cost = 2;
    q.next_ns = WEIR_NEXT_UNKNOWN;
    weir_deny_cache_add(d, id, 0, start_ns, start_ns, &q);
    assert_int_equal(next_from(d, &q, WEIR_VERB_TAKE, false, start_ns), WEIR_NEXT_UNKNOWN);
    assert_int_equal(next_from(d, &q, WEIR_VERB_TAKE, true, start_ns), -2);
    q.cost = 3; /* the denial of two units stays, and learns when one is free */
    q.next_ns = 2 * s_ns;
    weir_deny_cache_add(d, id, 0, start_ns, start_ns, &q); /* not asked for: it means nothing */
    assert_int_equal(next_from(d, &q, WEIR_VERB_TAKE, true, start_ns), -2);
    q.with_figures = true;
    q.next_ns = s_ns / 2 - 1;
    weir_deny_cache_add(d, id, 0, start_ns, start_ns, &q);
    q.next_ns = 9 * s_ns;
    weir_deny_cache_add(d, id, 0, start_ns, start_ns, &q);
    q.cost = 2;
    assert_int_equal(next_from(d, &q, WEIR_VERB_TAKE, true, start_ns), s_ns / 2);
    assert_int_equal(next_from(d, &q, WEIR_VERB_PEEK, true, start_ns + s_ns / 4), s_ns / 4);
    assert_int_equal(next_from(d, &q, WEIR_VERB_TAKE, true, start_ns + s_ns / 2), 0);
    q.next_ns = 0; /* now */
    weir_deny_cache_add(d, id, 0, start_ns, start_ns, &q);
    assert_int_equal(next_from(d, &q, WEIR_VERB_TAKE, true, start_ns), 0);
    q.next_ns = INT64_MAX;
    weir_deny_cache_add(d, id, 0, start_ns, start_ns, &q);
    assert_int_equal(next_from(d, &q, WEIR_VERB_TAKE, true, start_ns), -2);
    q.decision.remaining = 1; /* it is free now: the reader sees that */
    weir_deny_cache_add(d, id, 0, start_ns, start_ns, &q);
    assert_int_equal(next_from(d, &q, WEIR_VERB_TAKE, true, start_ns), WEIR_NEXT_UNKNOWN);
    weir_policy two = parsed("gcra 1/s burst 5 & gcra 1/h burst 5"); /* another may have none */
    q.policy = &two;
    assert_int_equal(next_from(d, &q, WEIR_VERB_TAKE, true, start_ns), -2);
    weir_deny_cache_close(d);
}

/* The cache does not know what a window counts. */
static void figures_come_from_the_server(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        uint32_t layer;
        bool answers;
    } rows[] = {{"gcra 1/s burst 5", 0, true},
                {"fixed-window 5/m", 0, false},
                {"sliding-log 5/m & gcra 1/s burst 5", 0, false},
                {"sliding-log 5/m & gcra 1/s burst 5", 1, true},
                {"sliding-log 5/m & block 10m", 1, true}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        weir_policy p = parsed(rows[i].text);
        weir_deny_cache *d;
        weir_engine_request q = denied(&p, "", "", "key", 3 * s_ns);
        q.decision.layer = rows[i].layer;
        assert_int_equal(weir_deny_cache_open(&d, 4096, secret), WEIR_OK);
        weir_deny_cache_add(d, weir_deny_key_of(d, &q), 0, start_ns, start_ns, &q);
        int64_t peeked = next_from(d, &q, WEIR_VERB_PEEK, true, start_ns);
        assert_int_equal(peeked, rows[i].answers ? 3 * s_ns : -2);
        assert_int_equal(next_from(d, &q, WEIR_VERB_PEEK, false, start_ns), 3 * s_ns);
        assert_int_equal(next_from(d, &q, WEIR_VERB_TAKE, true, start_ns), 3 * s_ns);
        weir_deny_cache_close(d);
    }
}

/* The limit comes from the server, so a wait may exceed every time that the policy can yield. */
static void a_wait_beyond_the_clock_is_not_answered(void **state)
{
    (void)state;
    weir_policy p = parsed("gcra 1/3650d burst 2");
    weir_deny_cache *d;
    weir_engine_request q = denied(&p, "", "", "key", s_ns);
    q.decision.limit = q.decision.remaining = WEIR_LIMIT_MAX;
    assert_int_equal(weir_deny_cache_open(&d, 4096, secret), WEIR_OK);
    weir_deny_key id = weir_deny_key_of(d, &q);
    weir_deny_cache_add(d, id, 0, start_ns, start_ns, &q);
    q.cost = WEIR_COST_MAX;
    assert_false(weir_deny_cache_find(d, id, 0, start_ns, &q));
    q.cost = 1;
    assert_true(weir_deny_cache_find(d, id, 0, start_ns, &q));
    assert_int_equal(q.decision.limit, WEIR_LIMIT_MAX);
    assert_int_equal(q.decision.remaining, WEIR_LIMIT_MAX);
    weir_deny_cache_close(d);
}

/* A denial with a wait of d is held for d less 1/512 and 1 us, from the time when the request was
 * sent. Times are rounded up. */
static void a_denial_is_held_for_a_little_less(void **state)
{
    (void)state;
    weir_policy p = parsed("gcra 1/s burst 5");
    weir_deny_cache *d;
    int64_t wait_ns = 512 * ms_ns, end_ns = start_ns + 511 * ms_ns - us_ns;
    weir_engine_request q = denied(&p, "", "", "key", wait_ns);
    q.decision.reset_after_ns = 5 * us_ns;
    q.decision.layer = 3;
    assert_int_equal(weir_deny_cache_open(&d, 4096, secret), WEIR_OK);
    weir_deny_key id = weir_deny_key_of(d, &q);
    weir_deny_cache_add(d, id, 0, start_ns, start_ns + us_ns, &q);
    q.reason = "another";
    q.granted = 7;
    q.by_error = true;
    q.status = WEIR_E_IO;
    assert_true(weir_deny_cache_find(d, id, 0, start_ns + us_ns, &q));
    assert_int_equal(q.decision.retry_after_ns, wait_ns);
    assert_int_equal(q.decision.reset_after_ns, 5 * us_ns);
    assert_int_equal(q.decision.layer, 3);
    assert_int_equal(q.status, WEIR_OK);
    assert_int_equal(q.granted, 0);
    assert_false(q.by_error);
    assert_null(q.reason);
    assert_true(weir_deny_cache_find(d, id, 0, start_ns + 2 * us_ns - 1, &q));
    assert_int_equal(q.decision.retry_after_ns, wait_ns);
    assert_true(weir_deny_cache_find(d, id, 0, start_ns + 6 * us_ns, &q));
    assert_int_equal(q.decision.reset_after_ns, 0);
    assert_true(weir_deny_cache_find(d, id, 0, end_ns - 1, &q));
    assert_int_equal(q.decision.reset_after_ns, 0);
    assert_false(weir_deny_cache_find(d, id, 0, end_ns, &q));
    assert_int_equal(weir_deny_cache_keys(d), 1); /* removed by sweeping */
    weir_deny_cache_close(d);
}

/* Another process may reset the key, so a wait of more than a second is held for a second. */
static void a_denial_is_held_for_a_second_at_most(void **state)
{
    (void)state;
    static const struct {
        int64_t wait_ns, held_ns;
    } rows[] = {{1001957948, 999999999}, /* less its 1/512, which is 1956949 ns, and 1 us */
                {1001957949, 1000000000},
                {1001957950, 1000000000},
                {30 * 86400 * 1000000000LL, 1000000000},
                {INT64_MAX, 1000000000}};
    weir_policy p = parsed("gcra 1/s burst 5");
    weir_deny_cache *d;
    assert_int_equal(weir_deny_cache_open(&d, 4096, secret), WEIR_OK);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        weir_engine_request q = denied(&p, "", "", "key", rows[i].wait_ns);
        weir_deny_key id = weir_deny_key_of(d, &q);
        weir_deny_cache_add(d, id, (uint32_t)i, start_ns, start_ns + s_ns / 2, &q);
        int64_t end_ns = start_ns + rows[i].held_ns;
        assert_true(weir_deny_cache_find(d, id, (uint32_t)i, end_ns - 1, &q));
        assert_false(weir_deny_cache_find(d, id, (uint32_t)i, end_ns, &q));
    }
    weir_deny_cache_close(d);
}

/* ---- which requests -------------------------------------------------------------------------- */

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
    weir_deny_key seen[8], with[2];
    for (size_t i = 0; i < 8; i++) {
        weir_engine_request o = request(&p, others[i][0], others[i][1], others[i][2], 1);
        seen[i] = weir_deny_key_of(d, &o);
        assert_false(weir_deny_cache_find(d, seen[i], 0, start_ns, &o));
        for (size_t k = 0; k < i; k++)
            assert_memory_not_equal(&seen[i], &seen[k], sizeof seen[i]);
    }
    weir_deny_cache_close(d);
    /* Each word of a key depends on its own secret, or on both if a string was hashed first. */
    const uint64_t secrets[][4] = {
        {1, 2, 3, 4}, {9, 2, 3, 4}, {1, 9, 3, 4}, {1, 2, 9, 4}, {1, 2, 3, 9}};
    for (int is_long = 0; is_long < 2; is_long++)
        for (size_t i = 0; i < 5; i++) {
            weir_engine_request o = request(&p, "", "text", is_long ? a_long : "key", 1);
            assert_int_equal(weir_deny_cache_open(&d, 4096, secrets[i]), WEIR_OK);
            with[i > 0] = weir_deny_key_of(d, &o);
            weir_deny_cache_close(d);
            for (size_t k = 0; i > 0 && k < 2; k++)
                assert_int_equal(with[0].word[k] != with[1].word[k], is_long || (i > 2) == k);
        }
}

/* A string of 256 bytes is the longest that is not hashed on its own. */
static void long_strings_are_hashed_first(void **state)
{
    (void)state;
    weir_policy p = parsed("gcra 1/s burst 5");
    weir_deny_cache *d;
    static char of[2][300];
    assert_int_equal(weir_deny_cache_open(&d, 4096, secret), WEIR_OK);
    for (size_t len = 250; len < 262; len++) {
        memset(of, 'x', sizeof of);
        of[0][len] = of[1][len] = '\0';
        of[1][len - 1] = 'y';
        weir_engine_request a = request(&p, of[0], of[0], of[0], 1);
        weir_engine_request b = request(&p, of[0], of[0], of[1], 1);
        weir_deny_key of_a = weir_deny_key_of(d, &a), of_b = weir_deny_key_of(d, &b);
        assert_memory_not_equal(&of_a, &of_b, sizeof of_a);
    }
    weir_deny_cache_close(d);
}

static void only_reads_and_takes_are_cached(void **state)
{
    (void)state;
    weir_policy counted = parsed("gcra 1/s burst 5 & fixed-window 5/s count-denied");
    weir_policy counted_first = parsed("fixed-window 5/s count-denied & gcra 1/s burst 5");
    weir_policy plain = parsed("gcra 1/s burst 5");
    static const bool want[] = {
        [WEIR_VERB_TAKE] = true,   [WEIR_VERB_PEEK] = true,  [WEIR_VERB_REFUND] = false,
        [WEIR_VERB_RESET] = false, [WEIR_VERB_GRANT] = true, [WEIR_VERB_THROTTLE] = false};
    for (int verb = WEIR_VERB_TAKE; verb <= WEIR_VERB_THROTTLE; verb++) {
        weir_engine_request q = request(&plain, "", "", "key", 1);
        q.verb = (weir_verb)verb;
        assert_int_equal(weir_deny_cache_may_hold(&q), want[verb]);
        q.keep = 1;
        assert_false(weir_deny_cache_may_hold(&q));
        q.keep = WEIR_KEEP_PERCENT(1);
        assert_false(weir_deny_cache_may_hold(&q));
        q.keep = 0;
        q.policy = &counted;
        assert_false(weir_deny_cache_may_hold(&q));
        q.policy = &counted_first;
        assert_false(weir_deny_cache_may_hold(&q));
    }
}

static void only_denials_are_added(void **state)
{
    (void)state;
    weir_policy p = parsed("gcra 1/s burst 5");
    weir_deny_cache *d;
    assert_int_equal(weir_deny_cache_open(&d, 4096, secret), WEIR_OK);
    for (int i = 0; i < 11; i++) {
        weir_engine_request q = denied(&p, "", "", "key", s_ns);
        q.status = i == 0 ? WEIR_E_UNSUPPORTED : WEIR_OK;
        q.decision.allowed = i == 1;
        q.decision.never = i == 2;
        q.decision.retry_after_ns = i == 3 ? 0 : i == 4 ? -1 : s_ns;
        q.cost = i == 5 ? 0 : i == 6 ? (int64_t)WEIR_COST_MAX + 1 : 1;
        q.decision.limit = i == 7 ? 0 : i == 8 ? (int64_t)WEIR_LIMIT_MAX + 1 : 5;
        q.decision.remaining = i == 9 ? -1 : i == 10 ? (int64_t)WEIR_LIMIT_MAX + 1 : 0;
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

/* The smallest cost answers most requests, and a denial of another epoch or an expired one none. */
static void the_smallest_cost_is_kept(void **state)
{
    (void)state;
    weir_policy p = parsed("sliding-log 5/m");
    weir_deny_cache *d;
    assert_int_equal(weir_deny_cache_open(&d, 4096, secret), WEIR_OK);
    weir_engine_request small = denied(&p, "", "", "key", s_ns), large = small;
    large.cost = 3;
    weir_deny_key id = weir_deny_key_of(d, &small);
    struct {
        const weir_engine_request *first, *then;
        uint32_t epoch;
        int64_t then_ns;
        bool small_is_answered;
    } each[] = {{&small, &large, 1, 0, true},
                {&large, &small, 1, 0, true},
                {&small, &large, 2, 0, false},
                {&small, &large, 1, 997 * ms_ns, true},
                {&small, &large, 1, s_ns, false}};
    for (size_t i = 0; i < sizeof each / sizeof *each; i++) {
        int64_t now_ns = start_ns + each[i].then_ns;
        weir_deny_cache_add(d, id, 1, start_ns, start_ns, each[i].first);
        weir_deny_cache_add(d, id, each[i].epoch, now_ns, now_ns, each[i].then);
        assert_int_equal(weir_deny_cache_keys(d), 1);
        weir_engine_request q = small;
        assert_int_equal(weir_deny_cache_find(d, id, each[i].epoch, now_ns, &q),
                         each[i].small_is_answered);
        assert_true(weir_deny_cache_sound(d));
        assert_false(weir_deny_cache_find(d, id, 9, now_ns, &q)); /* removes it */
    }
    weir_deny_cache_close(d);
}

/* Adds a denial that expires soon after start_ns + wait_ns. */
static void add(weir_deny_cache *d, weir_deny_key key, int64_t wait_ns)
{
    weir_policy p = parsed("gcra 1/s burst 5");
    weir_engine_request q = denied(&p, "", "", "", wait_ns);
    weir_deny_cache_add(d, key, 0, start_ns, start_ns, &q);
    assert_true(weir_deny_cache_sound(d));
}

static bool has(weir_deny_cache *d, weir_deny_key key)
{
    weir_policy p = parsed("gcra 1/s burst 5");
    weir_engine_request q = request(&p, "", "", "", 1);
    return weir_deny_cache_find(d, key, 0, start_ns, &q);
}

/* A ninth key in a bucket of eight evicts the one that expires first, wherever that is. Keys of
 * other buckets stay. */
static void a_full_bucket_evicts_the_first_to_expire(void **state)
{
    (void)state;
    for (uint64_t bucket = 0; bucket <= UINT64_MAX - (UINT64_MAX >> 3); bucket += UINT64_MAX >> 3)
        for (uint64_t first = 0; first < 8; first++) {
            weir_deny_cache *d;
            assert_int_equal(weir_deny_cache_open(&d, 100, secret), WEIR_OK); /* raised to 4096 */
            for (uint64_t i = 0; i < 8; i++)
                add(d, (weir_deny_key){{bucket, i}}, i == first ? s_ns : (int64_t)(10 + i) * s_ns);
            assert_int_equal(weir_deny_cache_keys(d), 8);
            assert_false(has(d, (weir_deny_key){{bucket, 8}}));
            add(d, (weir_deny_key){{~bucket, 8}}, s_ns);
            add(d, (weir_deny_key){{bucket, 8}}, 5 * s_ns);
            assert_int_equal(weir_deny_cache_keys(d), 9);
            for (uint64_t i = 0; i <= 8; i++)
                assert_int_equal(has(d, (weir_deny_key){{bucket, i}}), i != first);
            assert_true(has(d, (weir_deny_key){{~bucket, 8}}));
            weir_deny_cache_close(d);
        }
}

/* Any smaller size is raised to 4096 bytes, which is 64 entries. */
static void the_smallest_cache_has_64_entries(void **state)
{
    (void)state;
    static const size_t sizes[] = {0, 4095, 4096};
    for (size_t i = 0; i < 3; i++) {
        weir_deny_cache *d;
        assert_int_equal(weir_deny_cache_open(&d, sizes[i], secret), WEIR_OK);
        for (uint64_t k = 0; k < 64; k++)
            add(d, (weir_deny_key){{(k % 8 << 61) + 1, k}}, s_ns);
        assert_int_equal(weir_deny_cache_keys(d), 64);
        weir_deny_cache_close(d);
    }
}

/* The denial of a smaller cost is kept until it expires. */
static void a_smaller_cost_is_kept(void **state)
{
    (void)state;
    const int64_t until_ns = start_ns + 511 * ms_ns - us_ns;
    weir_policy p = parsed("gcra 1/s burst 5");
    for (int64_t late = 0; late < 2; late++) {
        weir_deny_cache *d;
        weir_engine_request q = denied(&p, "", "", "key", 512 * ms_ns);
        assert_int_equal(weir_deny_cache_open(&d, 4096, secret), WEIR_OK);
        weir_deny_key id = weir_deny_key_of(d, &q);
        weir_deny_cache_add(d, id, 0, start_ns, start_ns, &q);
        q.cost = 2;
        weir_deny_cache_add(d, id, 0, start_ns, until_ns - 1 + late, &q);
        q.cost = 1;
        assert_int_equal(weir_deny_cache_find(d, id, 0, start_ns, &q), late == 0);
        weir_deny_cache_close(d);
    }
}

/* A grant of any size is denied if one unit is. */
static void a_grant_is_denied_like_one_unit(void **state)
{
    (void)state;
    weir_policy p = parsed("sliding-log 5/m"); /* another cost needs another answer */
    for (int of_grant = 0; of_grant < 2; of_grant++) {
        weir_deny_cache *d;
        weir_engine_request q = denied(&p, "", "", "key", s_ns);
        assert_int_equal(weir_deny_cache_open(&d, 4096, secret), WEIR_OK);
        weir_deny_key id = weir_deny_key_of(d, &q);
        q.verb = of_grant ? WEIR_VERB_GRANT : WEIR_VERB_TAKE;
        q.cost = of_grant ? 4 : 1;
        weir_deny_cache_add(d, id, 0, start_ns, start_ns, &q);
        for (int64_t cost = 1; cost <= 3; cost++) {
            q.cost = cost;
            q.verb = WEIR_VERB_TAKE;
            assert_int_equal(weir_deny_cache_find(d, id, 0, start_ns, &q), cost == 1);
            q.verb = WEIR_VERB_GRANT;
            assert_true(weir_deny_cache_find(d, id, 0, start_ns, &q));
        }
        weir_deny_cache_close(d);
    }
}

static void fill_stack(char with)
{
    volatile char stack[4096];
    for (size_t i = 0; i < sizeof stack; i++)
        stack[i] = with;
}

/* Equal secrets give equal keys, wherever the cache is and whatever the stack holds. */
static void keys_depend_on_the_secret_alone(void **state)
{
    (void)state;
    static char text[1000];
    weir_policy p = parsed("gcra 1/s burst 5");
    weir_deny_cache *d[2];
    weir_deny_key key[2];
    memset(text, 'x', sizeof text - 1);
    for (size_t i = 0; i < 2; i++) {
        fill_stack(i ? 'a' : 'b');
        weir_engine_request q = request(&p, text, text, text, 1);
        assert_int_equal(weir_deny_cache_open(&d[i], 4096, secret), WEIR_OK);
        key[i] = weir_deny_key_of(d[i], &q);
    }
    assert_memory_equal(&key[0], &key[1], sizeof key[0]);
    for (size_t i = 0; i < 2; i++)
        weir_deny_cache_close(d[i]);
}

/* A sweep reads 4096 buckets, and the next one continues where it ended. */
static void sweeps_go_round(void **state)
{
    (void)state;
    enum { BUCKETS = 10000 };
    weir_deny_cache *d;
    int64_t expired_ns = start_ns + 511 * ms_ns - us_ns + s_ns;
    static const size_t at[] = {0, 4095, 4096, 8191, 8192, BUCKETS - 1};
    assert_int_equal(weir_deny_cache_open(&d, (size_t)BUCKETS * 512, secret), WEIR_OK);
    for (size_t i = 0; i < 6; i++)
        add(d, (weir_deny_key){{UINT64_MAX / BUCKETS * at[i] + UINT32_MAX, i}}, 512 * ms_ns);
    add(d, (weir_deny_key){{0, 9}}, 2 * s_ns); /* not expired */
    for (int i = 0; i < 6; i++)
        weir_deny_cache_sweep(d, expired_ns - 1);
    assert_int_equal(weir_deny_cache_keys(d), 7);
    static const size_t left[] = {5, 3, 1}; /* the sweeps above ended at bucket 4576 */
    for (size_t i = 0; i < 3; i++) {
        weir_deny_cache_sweep(d, expired_ns);
        assert_true(weir_deny_cache_sound(d));
        assert_int_equal(weir_deny_cache_keys(d), left[i]);
    }
    assert_true(has(d, (weir_deny_key){{0, 9}}));
    weir_deny_cache_sweep(d, start_ns + 5 * s_ns);
    for (int i = 0; i < 3; i++)
        weir_deny_cache_sweep(d, start_ns + 5 * s_ns);
    assert_int_equal(weir_deny_cache_keys(d), 0);
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
        weir_engine_request q = denied(&p, "", "", key, i % 10 == 0 ? s_ns : 100 * ms_ns + i);
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
        weir_deny_cache_sweep(d, start_ns + 2 * s_ns);
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
        cmocka_unit_test(a_larger_cost_waits_longer),
        cmocka_unit_test(the_next_unit),
        cmocka_unit_test(figures_come_from_the_server),
        cmocka_unit_test(a_wait_beyond_the_clock_is_not_answered),
        cmocka_unit_test(a_denial_is_held_for_a_little_less),
        cmocka_unit_test(a_denial_is_held_for_a_second_at_most),
        cmocka_unit_test(long_strings_are_hashed_first),
        cmocka_unit_test(the_smallest_cost_is_kept),
        cmocka_unit_test(a_full_bucket_evicts_the_first_to_expire),
        cmocka_unit_test(the_smallest_cache_has_64_entries),
        cmocka_unit_test(a_smaller_cost_is_kept),
        cmocka_unit_test(a_grant_is_denied_like_one_unit),
        cmocka_unit_test(keys_depend_on_the_secret_alone),
        cmocka_unit_test(sweeps_go_round),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
