/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* The hybrid engine with a virtual clock, on top of a simulated upstream engine. */

#include "engine/engine.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static const int64_t ms = 1000000, start_ns = 1767225600000000000;

/* ---- the simulated upstream engine ----------------------------------------------------------- */

enum { PENDING = 64 };

struct port_timer {
    void (*fn)(void *ctx, int64_t now_ns);
    void *ctx;
    int64_t at_ns;
};

static struct {
    int64_t now_ns;
    port_timer alarm;
    weir_engine_batch *pending[PENDING];
    size_t len;
    bool at_once; /* the upstream engine fails each request at once */
    size_t done;  /* batches that were answered after submit() */
} world;

static port_timer *alarm_new(port_dialer *d, void (*fn)(void *, int64_t), void *ctx)
{
    (void)d;
    world.alarm = (port_timer){fn, ctx, INT64_MAX};
    return &world.alarm;
}

static void alarm_set(port_timer *a, int64_t at_ns)
{
    a->at_ns = at_ns;
}

static void alarm_drop(port_timer *a)
{
    if (a)
        a->at_ns = INT64_MAX;
}

static int64_t dialer_now(port_dialer *d)
{
    (void)d;
    return world.now_ns;
}

static const port_dialer_calls dialer_calls = {
    .new_timer = alarm_new, .set_timer = alarm_set, .free_timer = alarm_drop, .now = dialer_now};
static port_dialer dialer = {&dialer_calls};

static bool sub_batch(weir_engine *e, weir_engine_batch *r, int64_t now_ns)
{
    (void)e;
    (void)now_ns;
    if (world.at_once) {
        for (size_t i = 0; i < r->len; i++)
            r->request[i].status = WEIR_E_IO;
        return true;
    }
    assert_true(world.len < PENDING);
    world.pending[world.len++] = r;
    return false;
}

static void take_out(size_t i)
{
    world.len--;
    memmove(&world.pending[i], &world.pending[i + 1],
            (world.len - i) * sizeof(weir_engine_batch *));
}

static void below_abandon(weir_engine *e, weir_engine_batch *r)
{
    (void)e;
    for (size_t i = 0; i < world.len; i++)
        if (world.pending[i] == r) {
            take_out(i);
            return;
        }
    fail_msg("abandoned a batch that is not in flight");
}

static const weir_engine_calls below_calls = {sub_batch, below_abandon, NULL};
static weir_engine below = {&below_calls};

static void pass_time(int64_t ns)
{
    int64_t until_ns = world.now_ns + ns;
    while (world.alarm.at_ns <= until_ns) {
        if (world.alarm.at_ns > world.now_ns)
            world.now_ns = world.alarm.at_ns;
        world.alarm.at_ns = INT64_MAX;
        world.alarm.fn(world.alarm.ctx, world.now_ns);
    }
    world.now_ns = until_ns;
}

/* ---- requests -------------------------------------------------------------------------------- */

static weir_engine *engine;
static weir_hybrid_stats stats;
static weir_policy policy;
static const char *text;

static void open_with(const char *policy_text, weir_hybrid_options options)
{
    static weir_hybrid_options kept;
    kept = options;
    memset(&world, 0, sizeof world);
    world.now_ns = start_ns;
    memset(&stats, 0, sizeof stats);
    text = policy_text;
    assert_int_equal(weir_policy_parse(&policy, text, strlen(text), NULL, NULL), WEIR_OK);
    weir_hybrid_setup setup = {&kept, &below, &dialer, &stats};
    assert_int_equal(weir_hybrid_engine_open(&engine, &setup), WEIR_OK);
}

static void close_all(void)
{
    engine->calls->close(engine);
    assert_int_equal(world.len, 0);
}

static void done(weir_engine_batch *r, int64_t now_ns)
{
    (void)r;
    assert_int_equal(now_ns, world.now_ns);
    world.done++;
}

static weir_engine_request request(weir_verb verb, const char *key, int64_t cost)
{
    return (weir_engine_request){.verb = verb,
                                 .policy = &policy,
                                 .text = {text, strlen(text)},
                                 .name = {"api", 3},
                                 .key = {key, strlen(key)},
                                 .policy_id = 7,
                                 .cost = cost,
                                 .on_error = WEIR_ON_ERROR_CLOSED};
}

static bool ask(weir_engine_batch *r, weir_engine_request *q, size_t n)
{
    *r = (weir_engine_batch){.request = q, .len = n, .done = done};
    return engine->calls->submit(engine, r, world.now_ns);
}

enum { ALL = -1 };

/* Answers the oldest upstream batch. */
static void answer(int64_t granted, weir_decision d)
{
    assert_true(world.len > 0);
    weir_engine_batch *r = world.pending[0];
    take_out(0);
    for (size_t i = 0; i < r->len; i++) {
        r->request[i].status = WEIR_OK;
        r->request[i].decision = d;
        r->request[i].granted = granted == ALL ? r->request[i].cost : granted;
    }
    r->done(r, world.now_ns);
}

static void answer_nothing(void)
{
    weir_engine_batch *r = world.pending[0];
    take_out(0);
    r->request[0].status = WEIR_E_IO;
    r->done(r, world.now_ns);
}

/* A decision of a window of one second. */
static int64_t reset_ns(void)
{
    return 1000 * ms - (world.now_ns - start_ns) % (1000 * ms);
}

static weir_decision left(int64_t remaining)
{
    return (weir_decision){
        .limit = 1600, .remaining = remaining, .reset_after_ns = reset_ns(), .allowed = true};
}

static weir_decision denied(int64_t retry_ns)
{
    return (weir_decision){.limit = 1600, .retry_after_ns = retry_ns, .reset_after_ns = reset_ns()};
}

/* A take that must be answered without the upstream engine. */
static weir_decision here(const char *key, int64_t cost)
{
    weir_engine_batch r;
    weir_engine_request q = request(WEIR_VERB_TAKE, key, cost);
    assert_true(ask(&r, &q, 1));
    assert_int_equal(q.status, WEIR_OK);
    assert_false(q.by_error);
    return q.decision;
}

/* A take that must be forwarded, and gets d. So does the sync after it. */
static void forwarded(const char *key, int64_t cost, weir_decision d)
{
    weir_engine_batch r;
    weir_engine_request q = request(WEIR_VERB_TAKE, key, cost);
    size_t before = world.done;
    assert_false(ask(&r, &q, 1));
    while (world.done == before || world.len > 0)
        answer(ALL, d);
    assert_int_equal(q.decision.remaining, d.remaining);
    assert_int_equal(q.decision.allowed, d.allowed);
}

/* Makes a key busy: it has a lease, and `remaining` units remain at the server. */
static void make_busy(const char *key, int64_t remaining)
{
    for (int i = 0; i < 3; i++)
        forwarded(key, 1, left(remaining));
}

static const weir_engine_request *pending(void)
{
    assert_int_equal(world.len, 1);
    return &world.pending[0]->request[0];
}

/* ---- postpaid leases ------------------------------------------------------------------------- */

static void test_requests_for_a_quiet_key_are_forwarded(void **unused)
{
    (void)unused;
    open_with("fixed-window 1600/s", (weir_hybrid_options){0});
    for (int i = 0; i < 10; i++) {
        forwarded("quiet", 1, left(1600));
        forwarded("quiet", 1, left(1600));
        pass_time(1000 * ms);
    }
    assert_int_equal(port_load_relaxed(&stats.local), 0);
    assert_int_equal(port_load_relaxed(&stats.requests), 20);
    close_all();
}

static void test_a_busy_key_syncs_every_interval(void **unused)
{
    (void)unused;
    open_with("fixed-window 1600/s", (weir_hybrid_options){0});
    make_busy("busy", 800); /* a lease of 50 */
    for (int i = 1; i <= 20; i++) {
        weir_decision d = here("busy", 1);
        assert_true(d.allowed);
        assert_int_equal(d.remaining, 800 - i);
        assert_int_equal(d.limit, 1600);
    }
    assert_int_equal(world.len, 0);
    pass_time(100 * ms);
    assert_int_equal(pending()->verb, WEIR_VERB_GRANT);
    assert_int_equal(pending()->cost, 20);
    assert_int_equal(pending()->on_error, WEIR_ON_ERROR_REPORT);
    assert_true(here("busy", 1).allowed); /* while the sync is in flight */
    answer(20, left(700));
    assert_int_equal(here("busy", 1).remaining, 698);
    assert_int_equal(port_load_relaxed(&stats.keys), 1);
    engine->calls->close(engine);
    assert_int_equal(world.len, 0); /* closing does not wait for the reply */
    assert_int_equal(port_load_relaxed(&stats.syncs), 2);
}

static void test_a_lease_is_limited(void **unused)
{
    (void)unused;
    open_with("fixed-window 1600/s", (weir_hybrid_options){.count = 40});
    make_busy("busy", 1600); /* a lease of 40: count, not 1600 / 16 */
    for (int i = 0; i < 40; i++) {
        assert_true(here("busy", 1).allowed);
        assert_int_equal(world.len, i >= 19); /* a sync when half of it is used */
    }
    assert_int_equal(pending()->cost, 20);
    weir_engine_batch r;
    weir_engine_request q = request(WEIR_VERB_TAKE, "busy", 1);
    assert_false(ask(&r, &q, 1));
    assert_int_equal(world.len, 2);
    answer(20, left(1580));
    answer(0, left(1579));
    assert_int_equal(world.done, 4);
    assert_true(here("busy", 20).allowed);
    answer(20, left(1500));
    close_all();
}

static void test_uncharged_units_are_overshoot(void **unused)
{
    (void)unused;
    open_with("sliding-log 1600/s", (weir_hybrid_options){0});
    make_busy("busy", 800);
    for (int i = 0; i < 20; i++)
        (void)here("busy", 1);
    pass_time(100 * ms);
    answer(5, denied(30 * ms));
    assert_int_equal(port_load_relaxed(&stats.overshoot), 15);
    assert_false(here("busy", 1).allowed);
    pass_time(100 * ms);
    assert_int_equal(port_load_relaxed(&stats.overshoot_last), 15);
    assert_int_equal(pending()->cost, 15); /* still owed */
    answer(10, denied(30 * ms));
    assert_int_equal(port_load_relaxed(&stats.overshoot), 15); /* counted once */
    forwarded("other", 1, left(1));
    pass_time(100 * ms);
    assert_int_equal(pending()->cost, 5);
    answer(5, left(100));
    assert_int_equal(port_load_relaxed(&stats.overshoot_last), 0);
    close_all();
}

static void test_a_sync_without_a_reply_is_repeated(void **unused)
{
    (void)unused;
    open_with("fixed-window 1600/s", (weir_hybrid_options){0});
    make_busy("busy", 800);
    (void)here("busy", 10);
    pass_time(100 * ms);
    answer_nothing();
    pass_time(100 * ms);
    assert_int_equal(pending()->cost, 10);
    weir_engine_batch r;
    weir_engine_request q = request(WEIR_VERB_TAKE, "busy", 1); /* the lease is no longer valid */
    assert_false(ask(&r, &q, 1));
    answer_nothing();
    answer(0, left(3));
    assert_int_equal(world.done, 4);
    assert_int_equal(q.decision.remaining, 3);
    close_all();
}

static void test_debt_ends_with_the_window(void **unused)
{
    (void)unused;
    open_with("fixed-window 1600/s", (weir_hybrid_options){0});
    make_busy("busy", 800);
    pass_time(950 * ms);
    forwarded("busy", 1, left(800));
    (void)here("busy", 10);
    world.now_ns = start_ns + 1000 * ms - 1001; /* the timer is late */
    (void)here("busy", 1);
    world.now_ns = start_ns + 1000 * ms -
                   1000; /* the window may have ended: the server rounds reset_after up */
    forwarded("busy", 1, left(700));
    world.now_ns = start_ns + 1000 * ms;
    forwarded("busy", 1, left(1599));
    assert_int_equal(here("busy", 1).remaining, 1598);
    close_all();
}

/* ---- prepaid leases -------------------------------------------------------------------------- */

/* The sync follows the forwarded request, so the request can get the last unit. */
static void test_a_sync_follows_the_request(void **unused)
{
    (void)unused;
    open_with("gcra 1/d burst 7", (weir_hybrid_options){0});
    for (int i = 0; i < 2; i++)
        forwarded("busy", 1, left(2 - i));
    weir_engine_batch r;
    weir_engine_request q = request(WEIR_VERB_TAKE, "busy", 1);
    assert_false(ask(&r, &q, 1));
    assert_int_equal(world.len, 2);
    assert_int_equal(world.pending[0]->request[0].verb, WEIR_VERB_TAKE);
    assert_int_equal(world.pending[1]->request[0].verb, WEIR_VERB_GRANT);
    answer(ALL, left(0));
    assert_true(q.decision.allowed);
    answer(0, denied(86400 * 1000 * ms));
    assert_int_equal(world.len, 0);
    close_all();
}

static void test_prepaid_units_are_used(void **unused)
{
    (void)unused;
    open_with("gcra 1000/s burst 1600", (weir_hybrid_options){.idle_ns = 300 * ms});
    make_busy("busy", 1600); /* and prepays one unit */
    assert_int_equal(here("busy", 1).remaining, 1600);
    assert_int_equal(pending()->verb, WEIR_VERB_GRANT);
    assert_int_equal(pending()->cost, 5); /* four times the units used, plus one */
    answer(ALL, left(1595));
    assert_int_equal(here("busy", 3).remaining, 1597);
    assert_int_equal(world.len, 0);
    assert_int_equal(here("busy", 2).remaining, 1595);
    assert_int_equal(pending()->cost, 25);
    answer(2, denied(1 * ms)); /* the server denies: no further sync */
    assert_true(here("busy", 2).allowed);
    assert_int_equal(world.len, 0);
    assert_int_equal(here("busy", 1).retry_after_ns, 100 * ms); /* until the next sync */
    pass_time(100 * ms);
    weir_engine_batch r;
    weir_engine_request q = request(WEIR_VERB_TAKE, "busy", 1);
    assert_false(ask(&r, &q, 1));
    assert_int_equal(pending()->verb, WEIR_VERB_GRANT); /* the request waits for the sync */
    answer(1, denied(1 * ms));
    assert_true(q.decision.allowed);
    pass_time(100 * ms);
    forwarded("busy", 20, left(1000)); /* now units remain */
    assert_true(here("busy", 1).allowed);
    while (world.len > 0)
        answer(ALL, left(900));
    pass_time(300 * ms);
    assert_int_equal(port_load_relaxed(&stats.given_back), 0);
    pass_time(200 * ms);
    assert_int_equal(pending()->verb, WEIR_VERB_REFUND);
    assert_int_equal(pending()->cost, port_load_relaxed(&stats.given_back));
    assert_true(pending()->cost > 0);
    answer(0, left(1600));
    pass_time(100 * ms);
    assert_int_equal(port_load_relaxed(&stats.keys), 0);
    close_all();
}

static void test_closing_gives_units_back(void **unused)
{
    (void)unused;
    open_with("token-bucket 1600 refill 100/s", (weir_hybrid_options){0});
    make_busy("busy", 1600);
    engine->calls->close(engine);
    assert_int_equal(port_load_relaxed(&stats.given_back), 1);
}

/* ---- denials --------------------------------------------------------------------------------- */

static void test_a_denial_is_kept(void **unused)
{
    (void)unused;
    open_with("fixed-window 1600/s", (weir_hybrid_options){0});
    make_busy("busy", 800);
    forwarded("busy", 700, denied(250 * ms));
    assert_int_equal(here("busy", 700).retry_after_ns, 250 * ms);
    pass_time(200 * ms);
    weir_decision d = here("busy", 900);
    assert_false(d.allowed);
    assert_int_equal(d.retry_after_ns, 50 * ms);
    weir_engine_batch r;
    weir_engine_request q = request(WEIR_VERB_PEEK, "busy", 900);
    assert_true(ask(&r, &q, 1));
    assert_false(q.decision.allowed);
    q = request(WEIR_VERB_RESET, "busy", 0);
    assert_false(ask(&r, &q, 1));
    answer(0, left(1600));
    forwarded("busy", 700, left(900));
    pass_time(50 * ms);
    forwarded("busy", 700, left(900));
    close_all();
}

static void test_a_denial_is_kept_for_idle(void **unused)
{
    (void)unused;
    open_with("fixed-window 1600/h", (weir_hybrid_options){.idle_ns = 200 * ms});
    make_busy("busy", 0);
    forwarded("busy", 1, denied(1000000 * ms));
    assert_int_equal(here("busy", 1).retry_after_ns, 1000000 * ms);
    pass_time(199 * ms);
    assert_int_equal(here("busy", 1).retry_after_ns, 999801 * ms);
    pass_time(1 * ms);
    forwarded("busy", 1, left(1600)); /* another engine has reset the key */
    assert_true(here("busy", 1).allowed);
    engine->calls->close(engine);
}

static void test_one_probe_for_many(void **unused)
{
    (void)unused;
    open_with("fixed-window 1600/s", (weir_hybrid_options){0});
    make_busy("busy", 0);
    forwarded("busy", 1, denied(10 * ms));
    pass_time(10 * ms);
    weir_engine_batch first, others;
    weir_engine_request q = request(WEIR_VERB_TAKE, "busy", 1), many[8];
    for (int i = 0; i < 8; i++)
        many[i] = request(WEIR_VERB_TAKE, "busy", 1);
    assert_false(ask(&first, &q, 1));
    assert_false(ask(&others, many, 8));
    assert_int_equal(world.len, 1);
    answer(0, denied(10 * ms));
    assert_int_equal(world.len, 0);
    for (int i = 0; i < 8; i++)
        assert_int_equal(many[i].decision.retry_after_ns, 10 * ms);

    pass_time(10 * ms); /* if the probe is abandoned, the waiting requests are decided again */
    size_t before = world.done;
    assert_false(ask(&first, &q, 1));
    assert_false(ask(&others, many, 8));
    assert_int_equal(world.len, 1);
    engine->calls->abandon(engine, &first);
    assert_int_equal(world.len, 8);
    while (world.len > 0)
        answer(0, denied(10 * ms));
    assert_int_equal(world.done, before + 1);

    pass_time(10 * ms); /* waiting requests may be abandoned, too */
    assert_false(ask(&first, &q, 1));
    assert_false(ask(&others, many, 8));
    engine->calls->abandon(engine, &others);
    answer(0, denied(10 * ms));
    assert_int_equal(world.done, before + 2);
    close_all();
}

/* ---- without a lease ------------------------------------------------------------------------- */

static void always_below(const char *policy_text, const char *key)
{
    open_with(policy_text, (weir_hybrid_options){0});
    for (int i = 0; i < 10; i++)
        forwarded(key, 1, left(1000));
    assert_int_equal(port_load_relaxed(&stats.syncs), 0);
    close_all();
}

static void test_policies_without_a_lease(void **unused)
{
    (void)unused;
    char key[300];
    memset(key, 'k', sizeof key);
    key[sizeof key - 1] = 0;
    always_below("leaky-queue 100/s depth 1600", "busy");
    always_below("gcra 100/s burst 1600 & leaky-queue 100/s depth 1600", "busy");
    always_below("fixed-window 1600/s count-denied", "busy");
    always_below("gcra 100/s burst 3", "busy");
    always_below("sliding-log 15/s", "busy");
    always_below("fixed-window 1600/s", key);
}

static void test_batches_are_forwarded(void **unused)
{
    (void)unused;
    open_with("fixed-window 1600/s", (weir_hybrid_options){0});
    make_busy("busy", 800);
    weir_engine_request q[3] = {request(WEIR_VERB_TAKE, "busy", 1),
                                request(WEIR_VERB_TAKE, "other", 1),
                                request(WEIR_VERB_THROTTLE, "third", 1)};
    weir_engine_batch r;
    assert_false(ask(&r, q, 3)); /* the first is denied by the lease */
    assert_true(q[0].decision.allowed);
    assert_int_equal(world.pending[0]->len, 2);
    world.pending[0]->request[0].by_error = true;
    answer(0, left(3));
    assert_true(q[1].by_error);
    assert_int_equal(q[1].decision.remaining, 3);
    assert_int_equal(q[2].decision.remaining, 3);

    r = (weir_engine_batch){.request = q, .len = 2, .all = true, .done = done};
    assert_false(engine->calls->submit(engine, &r, world.now_ns));
    assert_true(world.pending[0]->all);
    world.pending[0]->blocking = 1;
    answer(0, left(3));
    assert_int_equal(r.blocking, 1);

    assert_false(ask(&r, &q[1], 2));
    engine->calls->abandon(engine, &r);
    assert_int_equal(world.len, 0);
    engine->calls->close(engine);
}

static void test_upstream_may_answer_at_once(void **unused)
{
    (void)unused;
    open_with("gcra 100/s burst 1600", (weir_hybrid_options){0});
    world.at_once = true;
    for (int i = 0; i < 10; i++) {
        weir_engine_batch r;
        weir_engine_request q = request(WEIR_VERB_TAKE, "busy", 1);
        assert_true(ask(&r, &q, 1));
        assert_int_equal(q.status, WEIR_E_IO);
    }
    pass_time(1000 * ms);
    assert_int_equal(world.done, 0);
    close_all();
}

static void test_a_full_table_forwards(void **unused)
{
    (void)unused;
    open_with("fixed-window 1600/m", (weir_hybrid_options){.memory_bytes = 1});
    size_t shares = 0;
    for (int i = 0; i < 20; i++) {
        char key[16];
        (void)snprintf(key, sizeof key, "key %d", i);
        make_busy(key, 800);
        weir_engine_batch r;
        weir_engine_request q = request(WEIR_VERB_TAKE, key, 1);
        if (ask(&r, &q, 1))
            shares++;
        else
            answer(0, left(800));
    }
    assert_int_equal(shares, 8);
    pass_time(100 * ms);
    assert_int_equal(port_load_relaxed(&stats.keys), 8);
    engine->calls->close(engine);
    assert_int_equal(port_load_relaxed(&stats.keys), 0);
}

static void test_options(void **unused)
{
    (void)unused;
    const weir_hybrid_options bad[] = {{.interval_ns = 999999},
                                       {.interval_ns = 60001 * ms},
                                       {.interval_ns = -1},
                                       {.count = -1},
                                       {.idle_ns = -1}};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        weir_engine *e = NULL;
        weir_hybrid_setup setup = {&bad[i], &below, &dialer, &stats};
        assert_int_equal(weir_hybrid_engine_open(&e, &setup), WEIR_E_RANGE);
        assert_null(e);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_requests_for_a_quiet_key_are_forwarded),
        cmocka_unit_test(test_a_busy_key_syncs_every_interval),
        cmocka_unit_test(test_a_lease_is_limited),
        cmocka_unit_test(test_uncharged_units_are_overshoot),
        cmocka_unit_test(test_a_sync_without_a_reply_is_repeated),
        cmocka_unit_test(test_debt_ends_with_the_window),
        cmocka_unit_test(test_prepaid_units_are_used),
        cmocka_unit_test(test_a_sync_follows_the_request),
        cmocka_unit_test(test_closing_gives_units_back),
        cmocka_unit_test(test_a_denial_is_kept),
        cmocka_unit_test(test_a_denial_is_kept_for_idle),
        cmocka_unit_test(test_one_probe_for_many),
        cmocka_unit_test(test_policies_without_a_lease),
        cmocka_unit_test(test_batches_are_forwarded),
        cmocka_unit_test(test_upstream_may_answer_at_once),
        cmocka_unit_test(test_a_full_table_forwards),
        cmocka_unit_test(test_options),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
