/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* The hybrid engine: leases, syncs, denials, and what is forwarded. */

#include "engine/hybrid/hybrid_kit_test.h"
#include "engine/redis/client/resets.h"

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

static const char *slice_text(weir_slice s)
{
    static char text_of[64];
    (void)snprintf(text_of, sizeof text_of, "%.*s", (int)s.len, s.at);
    return text_of;
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
    assert_int_equal(pending()->policy->layers, 1);
    assert_int_equal(pending()->policy->layer[0].limit, 1600);
    assert_string_equal(slice_text(pending()->text), "fixed-window 1600/s");
    assert_string_equal(slice_text(pending()->name), "api");
    assert_string_equal(slice_text(pending()->key), "busy");
    assert_int_equal(pending()->policy_id, 7);
    assert_true(here("busy", 1).allowed); /* while the sync is in flight */
    answer(20, left(700));
    assert_int_equal(here("busy", 1).remaining, 698);
    assert_int_equal(port_load_relaxed(&stats.keys), 1);
    close_all();
    assert_int_equal(port_load_relaxed(&stats.local), 22);
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

/* A sync is due at half of the lease, also if nothing was owed at the last one. */
static void test_a_sync_at_half_of_the_lease(void **unused)
{
    (void)unused;
    open_with("fixed-window 1600/s", (weir_hybrid_options){0});
    make_busy("busy", 800); /* a lease of 50 */
    pass_time(100 * ms);
    (void)here("busy", 24);
    assert_int_equal(world.len, 0);
    (void)here("busy", 1);
    assert_int_equal(pending()->cost, 25);
    close_all();
}

/* Units that are owed are charged at close, also if a sync is in flight, but not after their window
 * has ended. */
static void test_closing_charges_what_is_owed(void **unused)
{
    (void)unused;
    static const uint64_t syncs[] = {1, 2, 0};
    for (int i = 0; i < 3; i++) {
        open_with("fixed-window 1600/s", (weir_hybrid_options){0});
        make_busy("busy", 800);
        (void)here("busy", 10);
        if (i == 1)
            pass_time(100 * ms);
        assert_int_equal(world.len, i == 1);
        if (i == 2)
            world.now_ns = start_ns + 1000 * ms; /* the timer is late */
        close_all();
        assert_int_equal(port_load_relaxed(&stats.syncs), syncs[i]);
    }
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
    for (int i = 0; i < 300; i++) /* the statistics are updated within the interval */
        (void)here("busy", 1);
    assert_int_equal(port_load_relaxed(&stats.overshoot_last), 15);
    forwarded("other", 1, left(1));
    pass_time(100 * ms);
    assert_int_equal(pending()->cost, 5);
    answer(5, left(100));
    assert_int_equal(port_load_relaxed(&stats.overshoot_last), 0);
    close_all();
}

/* The largest overshoot of a key counts. */
static void test_the_largest_overshoot(void **unused)
{
    (void)unused;
    open_with("sliding-log 1600/s", (weir_hybrid_options){0});
    make_busy("a", 800);
    make_busy("b", 800);
    (void)here("a", 20);
    (void)here("b", 20);
    pass_time(100 * ms);
    answer(5, left(800));
    answer(15, left(800));
    assert_int_equal(port_load_relaxed(&stats.overshoot), 20);
    pass_time(100 * ms);
    assert_int_equal(port_load_relaxed(&stats.overshoot_last), 15);
    close_all();
}

/* Also when the overshoot of an interval has just been reported: close_all() expects 0. */
static void test_closing_takes_the_overshoot_back(void **unused)
{
    (void)unused;
    open_with("sliding-log 1600/s", (weir_hybrid_options){0});
    make_busy("busy", 800);
    (void)here("busy", 20);
    pass_time(100 * ms);
    answer(5, left(800));
    pass_time(100 * ms);
    assert_int_equal(port_load_relaxed(&stats.overshoot_last), 15);
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

static void test_a_single_unit_is_given_back(void **unused)
{
    (void)unused;
    open_with("gcra 1000/s burst 1600", (weir_hybrid_options){0});
    make_busy("busy", 1600); /* and prepays one unit */
    pass_time(1100 * ms);
    assert_int_equal(pending()->verb, WEIR_VERB_REFUND);
    assert_int_equal(pending()->cost, 1);
    assert_int_equal(port_load_relaxed(&stats.given_back), 1);
    close_all();
}

static void test_closing_gives_units_back(void **unused)
{
    (void)unused;
    open_with("token-bucket 1600 refill 100/s", (weir_hybrid_options){0});
    make_busy("busy", 1600);
    close_all();
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
    assert_answer(&q, WEIR_OK);
    assert_false(q.decision.allowed);
    assert_int_equal(q.decision.retry_after_ns, 50 * ms);
    q = request(WEIR_VERB_RESET, "busy", 0);
    assert_false(ask(&r, &q, 1));
    answer(0, left(1600));
    forwarded("busy", 700, left(900));
    pass_time(50 * ms);
    forwarded("busy", 700, left(900));
    close_all();
}

/* A cost that can never pass is compared with the limit before it is compared with a denial. */
static void test_a_denial_does_not_cover_never(void **unused)
{
    (void)unused;
    static const char *const policies[] = {
        "gcra 160/h burst 160",
        "token-bucket 160 refill 160/h",
        "token-bucket 160 refill 16 every 1h",
        "leaky-bucket 160/h capacity 160",
        "gcra 1/s burst 200 & token-bucket 160 refill 1/h",
        "fixed-window 160/h",
        "sliding-log 160/h & gcra 1000/h burst 500",
    };
    for (size_t i = 0; i < sizeof policies / sizeof *policies; i++) {
        open_with(policies[i], (weir_hybrid_options){0});
        make_busy("busy", 32);
        forwarded("busy", 80, denied(250 * ms));
        assert_false(here("busy", 160).allowed);
        weir_decision never = {.limit = 160, .never = true, .retry_after_ns = INT64_MAX};
        forwarded("busy", 161, never);
        weir_engine_batch r;
        weir_engine_request q = request(WEIR_VERB_PEEK, "busy", 161);
        assert_false(ask(&r, &q, 1));
        answer(0, never);
        assert_true(q.decision.never);
        assert_false(here("busy", 80).allowed);
        close_all();
    }
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
    close_all();
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
    assert_true(world.alarm.at_ns > world.now_ns);
    assert_int_equal(world.len, 8);
    while (world.len > 0)
        answer(0, denied(10 * ms));
    assert_int_equal(world.done, before + 1);

    pass_time(10 * ms); /* waiting requests may be abandoned, too */
    assert_false(ask(&first, &q, 1));
    assert_false(ask(&others, many, 8));
    engine->calls->abandon(engine, &others);
    assert_null(only_lease()->waits);
    answer(0, denied(10 * ms));
    assert_int_equal(world.done, before + 2);

    pass_time(10 * ms); /* what is answered meanwhile is reported after abandon() */
    weir_decision none = denied(10 * ms);
    assert_false(ask(&first, &q, 1));
    assert_false(ask(&others, many, 8));
    world.immediate = &none;
    engine->calls->abandon(engine, &first);
    assert_null(first.inside);
    assert_int_equal(world.done, before + 2);
    assert_int_equal(world.alarm.at_ns, world.now_ns);
    pass_time(0);
    assert_int_equal(world.done, before + 3);
    close_all();
}

/* ---- without a lease ------------------------------------------------------------------------- */

static void always_below(const char *policy_text, const char *key)
{
    open_with(policy_text, (weir_hybrid_options){0});
    for (int i = 0; i < 10; i++)
        forwarded(key, 1, left(1000));
    pass_time(100 * ms);
    assert_int_equal(port_load_relaxed(&stats.syncs), 0);
    assert_int_equal(port_load_relaxed(&stats.keys), 0);
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
    key[WEIR_LEASE_KEY_MAX + 1] = 0;
    always_below("fixed-window 1600/s", key);
    always_below("fixed-window 1600/s", "");
    key[WEIR_LEASE_KEY_MAX] = 0; /* the longest key with a lease */
    open_with("fixed-window 1600/s", (weir_hybrid_options){0});
    make_busy(key, 800);
    assert_true(here(key, 1).allowed);
    close_all();
}

/* Asks for one request. Returns whether it was answered at once. */
static bool ask_one(weir_verb verb, int64_t cost, weir_decision *ret)
{
    static weir_engine_batch r;
    static weir_engine_request q;
    q = request(verb, "busy", cost);
    bool answered = ask(&r, &q, 1);
    *ret = q.decision;
    return answered;
}

static void test_verbs(void **unused)
{
    (void)unused;
    weir_decision d;
    open_with("fixed-window 1600/s", (weir_hybrid_options){0});
    for (int i = 0; i < 5; i++) { /* a cost of 0 makes no key busy */
        assert_false(ask_one(WEIR_VERB_TAKE, 0, &d));
        answer(0, left(800));
    }
    make_busy("busy", 800); /* a lease of 50 */
    assert_int_equal(here("busy", 10).remaining, 790);
    static const weir_verb reads[] = {WEIR_VERB_PEEK, WEIR_VERB_TAKE};
    for (int i = 0; i < 4; i++) { /* reading charges nothing */
        assert_true(ask_one(reads[i % 2], i % 2 ? 0 : 40, &d));
        assert_true(d.allowed);
        assert_int_equal(d.remaining, 790);
        assert_int_equal(d.reset_after_ns, reset_ns());
    }
    assert_false(ask_one(WEIR_VERB_PEEK, 60, &d)); /* neither allowed nor denied here */
    answer(0, left(800));
    static const weir_verb others[] = {WEIR_VERB_GRANT, WEIR_VERB_THROTTLE};
    for (int i = 0; i < 2; i++) { /* decided by the server, though the lease has a unit */
        assert_false(ask_one(others[i], 1, &d));
        assert_int_equal(pending()->verb, others[i]);
        answer(ALL, left(800));
        assert_true(ask_one(WEIR_VERB_PEEK, 40, &d)); /* and the lease stays */
    }
    static const weir_verb keepers[] = {WEIR_VERB_TAKE, WEIR_VERB_PEEK};
    static const int64_t keeps[] = {1, WEIR_KEEP_PERCENT(1)};
    for (int i = 0; i < 4; i++) { /* a lease does not tell whether units would be left */
        weir_engine_batch r;
        weir_engine_request q = request(keepers[i % 2], "busy", 1);
        q.keep = keeps[i / 2];
        assert_false(ask(&r, &q, 1));
        assert_int_equal(pending()->keep, keeps[i / 2]);
        answer(ALL, left(3)); /* and the lease stays */
        assert_true(ask_one(WEIR_VERB_PEEK, 40, &d));
        assert_int_equal(d.remaining, 790);
    }
    for (int i = 0; i < 2; i++) { /* a refund keeps the debt, and a reset does not */
        weir_verb verb = i ? WEIR_VERB_RESET : WEIR_VERB_REFUND;
        assert_false(ask_one(verb, 1, &d));
        assert_int_equal(pending()->verb, verb);
        answer(0, left(1600));
        forwarded("busy", 1, left(800));
        pass_time(100 * ms);
        assert_int_equal(world.len, i == 0);
        if (i == 0) {
            assert_int_equal(pending()->cost, 10);
            answer(0, left(800)); /* still owed */
        }
    }
    close_all();
}

/* The reply to a request that was sent before a charge, refund or reset says nothing about the key
 * after it. */
static void test_replies_of_before_a_charge(void **unused)
{
    (void)unused;
    static const weir_verb verbs[] = {WEIR_VERB_CHARGE, WEIR_VERB_REFUND, WEIR_VERB_RESET};
    for (size_t i = 0; i < 6; i++) {
        weir_engine_batch r[2];
        weir_engine_request q[2] = {request(WEIR_VERB_TAKE, "busy", 60),
                                    request(verbs[i % 3], "busy", 5000)};
        bool is_sync = i < 3;
        open_with("fixed-window 1600/s", (weir_hybrid_options){0});
        make_busy("busy", 800); /* a lease of 50 */
        (void)here("busy", 10);
        if (is_sync)
            pass_time(100 * ms); /* a sync of what is owed */
        else
            assert_false(ask(&r[0], &q[0], 1));
        assert_false(ask(&r[1], &q[1], 1));
        assert_int_equal(world.len, 2);
        answer(10, left(790));
        answer(0, left(0));
        assert_int_equal(world.len, 0);
        forwarded("busy", 1, left(800));
        assert_int_equal(here("busy", 1).remaining, is_sync || i == 5 ? 799 : 789);
        close_all();
    }
}

/* Another thread, or the client, learns of a reset of all keys of the policy: what is owed, or was
 * prepaid, is dropped. The reset of another policy changes nothing. */
static void test_resets_drop_leases(void **unused)
{
    (void)unused;
    const weir_engine_request other = {.name = {"other", 5}};
    for (int i = 0; i < 4; i++) {
        weir_engine_batch r;
        bool own = i % 2 == 0, by_timer = i >= 2;
        open_with("fixed-window 1600/s", (weir_hybrid_options){0});
        make_busy("busy", 800);
        (void)here("busy", 10);
        weir_engine_request q = request(WEIR_VERB_TAKE, "busy", 1);
        weir_redis_resets_set(&resets, own ? &q : &other, 7);
        if (by_timer)
            pass_time(100 * ms);
        assert_int_equal(world.len, by_timer && !own); /* a sync of what is owed */
        if (by_timer && !own)
            answer(10, left(790));
        assert_int_equal(ask(&r, &q, 1), !own);
        if (own)
            answer(0, left(1600));
        else
            assert_int_equal(q.decision.remaining, 789);
        close_all();
    }
}

static void test_prepaid_units_of_before_a_reset_are_not_given_back(void **unused)
{
    (void)unused;
    open_with("gcra 1000/s burst 1000", (weir_hybrid_options){0});
    make_busy("busy", 900);
    while (world.len > 0)
        answer(pending()->verb == WEIR_VERB_GRANT ? pending()->cost : 0, left(800));
    weir_engine_batch r;
    weir_engine_request q = request(WEIR_VERB_TAKE, "busy", 1);
    assert_true(ask(&r, &q, 1)); /* by the lease */
    weir_redis_resets_set(&resets, &q, 7);
    pass_time(3000 * ms);
    for (size_t i = 0; i < world.len; i++)
        assert_int_not_equal(world.pending[i]->request->verb, WEIR_VERB_REFUND);
    close_all();
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
    weir_engine_request *sent = world.pending[0]->request;
    assert_string_equal(slice_text(sent[0].key), "other");
    assert_string_equal(slice_text(sent[1].key), "third");
    sent[0].by_error = true;
    sent[0].reason = "a reason";
    sent[0].next_ns = 11;
    sent[0].figures = (weir_figures){1, 2, 3};
    sent[1].answer.limit = 16;
    sent[1].throttle_status = WEIR_THROTTLE_ZERO_RATE;
    answer(7, left(3));
    assert_int_equal(q[1].status, WEIR_OK);
    assert_true(q[1].by_error);
    assert_string_equal(q[1].reason, "a reason");
    assert_int_equal(q[1].next_ns, 11);
    assert_int_equal(q[1].figures.count, 1);
    assert_int_equal(q[1].figures.previous, 2);
    assert_int_equal(q[1].figures.start_ns, 3);
    assert_answer(&q[2], WEIR_OK);
    assert_int_equal(q[1].granted, 7);
    assert_int_equal(q[2].answer.limit, 16);
    assert_int_equal(q[2].throttle_status, WEIR_THROTTLE_ZERO_RATE);
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
    close_all();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_requests_for_a_quiet_key_are_forwarded),
        cmocka_unit_test(test_a_busy_key_syncs_every_interval),
        cmocka_unit_test(test_a_lease_is_limited),
        cmocka_unit_test(test_a_sync_at_half_of_the_lease),
        cmocka_unit_test(test_closing_charges_what_is_owed),
        cmocka_unit_test(test_uncharged_units_are_overshoot),
        cmocka_unit_test(test_the_largest_overshoot),
        cmocka_unit_test(test_closing_takes_the_overshoot_back),
        cmocka_unit_test(test_debt_ends_with_the_window),
        cmocka_unit_test(test_a_sync_follows_the_request),
        cmocka_unit_test(test_prepaid_units_are_used),
        cmocka_unit_test(test_a_single_unit_is_given_back),
        cmocka_unit_test(test_closing_gives_units_back),
        cmocka_unit_test(test_a_denial_is_kept),
        cmocka_unit_test(test_a_denial_does_not_cover_never),
        cmocka_unit_test(test_a_denial_is_kept_for_idle),
        cmocka_unit_test(test_one_probe_for_many),
        cmocka_unit_test(test_policies_without_a_lease),
        cmocka_unit_test(test_verbs),
        cmocka_unit_test(test_resets_drop_leases),
        cmocka_unit_test(test_replies_of_before_a_charge),
        cmocka_unit_test(test_prepaid_units_of_before_a_reset_are_not_given_back),
        cmocka_unit_test(test_batches_are_forwarded),
        cmocka_unit_test(test_a_full_table_forwards),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
