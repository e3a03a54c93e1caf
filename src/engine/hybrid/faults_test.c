/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* The hybrid engine: timers, errors and late replies of the upstream engine, requests that wait,
 * and no memory. */

#include "engine/hybrid/hybrid_kit_test.h"

/* No units of the busy key remain, and the wait of its denial has just ended. */
static void open_exhausted(void)
{
    open_with("fixed-window 1600/s", (weir_hybrid_options){0});
    make_busy("busy", 0);
    forwarded("busy", 1, denied(10 * ms));
    pass_time(10 * ms);
}

/* The same for a prepaid lease: the next request needs a sync. */
static void open_exhausted_bucket(void)
{
    open_with("gcra 1000/s burst 1600", (weir_hybrid_options){0});
    make_busy("busy", 1600);
    assert_true(here("busy", 1).allowed);
    answer(0, denied(1 * ms));
    pass_time(100 * ms);
}

/* A request and the first sync of a prepaid lease are in flight. */
static void open_with_a_sync(weir_engine_batch *r, weir_engine_request *q)
{
    open_with("gcra 100/s burst 1600", (weir_hybrid_options){.idle_ns = 500 * ms});
    for (int k = 0; k < 2; k++)
        forwarded("busy", 1, left(1600));
    *q = request(WEIR_VERB_TAKE, "busy", 1);
    assert_false(ask(r, q, 1));
    assert_int_equal(world.len, 2);
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

static void test_upstream_may_answer_at_once(void **unused)
{
    (void)unused;
    open_with("gcra 100/s burst 1600", (weir_hybrid_options){0});
    world.fails_at_once = true;
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

/* A request for an exhausted key needs a sync, which fails at once: it is forwarded. After a sync
 * that was answered at once, batches are still reported. */
static void test_upstream_may_answer_a_sync_at_once(void **unused)
{
    (void)unused;
    open_exhausted_bucket();
    world.fails_at_once = true;
    weir_engine_batch r;
    weir_engine_request q = request(WEIR_VERB_TAKE, "busy", 1);
    assert_true(ask(&r, &q, 1));
    assert_int_equal(q.status, WEIR_E_IO);
    world.fails_at_once = false;
    forwarded("other", 1, left(1600));
    close_all();
}

/* The timer stays at the earliest time that it was set to. */
static void test_the_timer_expires_after_an_interval(void **unused)
{
    (void)unused;
    open_with("fixed-window 1600/s", (weir_hybrid_options){0});
    forwarded("busy", 1, left(800));
    assert_int_equal(world.alarm.at_ns, start_ns + 100 * ms);
    pass_time(60 * ms);
    forwarded("busy", 1, left(800));
    assert_int_equal(world.alarm.at_ns, start_ns + 100 * ms);
    pass_time(40 * ms);
    assert_int_equal(world.alarm.at_ns, INT64_MAX); /* no lease: nothing to sync */
    close_all();
}

/* A request for all that a prepaid lease may hold waits for a sync; a larger one does not. */
static void test_the_largest_cost_that_waits(void **unused)
{
    (void)unused;
    for (int64_t more = 0; more < 2; more++) {
        open_with("gcra 1000/s burst 1600", (weir_hybrid_options){.count = 40});
        make_busy("busy", 1600);
        static const int64_t cost[] = {1, 5, 25, 40}; /* the lease grows from 1 unit to 40 */
        for (int i = 0; i < 4; i++) {
            assert_true(here("busy", cost[i]).allowed);
            assert_int_equal(pending()->verb, WEIR_VERB_GRANT);
            answer(i < 3 ? ALL : 0, i < 3 ? left(1000) : denied(1 * ms));
        }
        pass_time(100 * ms);
        weir_engine_batch r;
        weir_engine_request q = request(WEIR_VERB_TAKE, "busy", 40 + more);
        assert_false(ask(&r, &q, 1));
        assert_int_equal(pending()->verb, more ? WEIR_VERB_TAKE : WEIR_VERB_GRANT);
        while (world.len > 0)
            answer(0, left(900));
        close_all();
    }
}

/* While a probe is in flight, a cost that can never be allowed does not wait for it. */
static void test_a_cost_above_the_limit_does_not_wait(void **unused)
{
    (void)unused;
    open_exhausted();
    weir_engine_batch first, second;
    weir_engine_request q = request(WEIR_VERB_TAKE, "busy", 1),
                        large = request(WEIR_VERB_TAKE, "busy", 1601);
    assert_false(ask(&first, &q, 1));
    assert_false(ask(&second, &large, 1));
    assert_int_equal(world.len, 2);
    /* The lease stays while its probe is in flight. */
    pass_time(3000 * ms);
    assert_int_equal(port_load_relaxed(&stats.keys), 1);
    answer(0, denied(10 * ms));
    answer(0, (weir_decision){.limit = 1600, .retry_after_ns = INT64_MAX, .never = true});
    assert_int_equal(here("busy", 1).retry_after_ns, 10 * ms);
    close_all();
}

/* Requests wait until the last probe of their key has ended. */
static void test_one_of_two_probes_is_abandoned(void **unused)
{
    (void)unused;
    open_exhausted();
    make_busy("third", 800); /* a lease of 50 */
    weir_engine_batch r[3];
    weir_engine_request q[3],
        several[3] = {request(WEIR_VERB_TAKE, "other", 1), request(WEIR_VERB_TAKE, "third", 51),
                      request(WEIR_VERB_TAKE, "busy", 1601)};
    for (int i = 0; i < 3; i++) { /* two probes, and a request that waits */
        q[i] = request(WEIR_VERB_TAKE, "busy", 1);
        assert_false(i == 1 ? ask(&r[i], several, 3) : ask(&r[i], &q[i], 1));
    }
    assert_int_equal(world.len, 2);
    engine->calls->abandon(engine, &r[1]);
    assert_int_equal(world.len, 1);
    assert_true(is_sound_hybrid((hybrid *)engine));
    answer(0, denied(10 * ms));
    assert_int_equal(world.len, 0);
    assert_answer(&q[2], WEIR_OK);
    pass_time(3000 * ms); /* no probe is left: the key gets idle */
    assert_int_equal(port_load_relaxed(&stats.keys), 0);
    close_all();
}

/* A reply to probes of several keys releases the requests that wait for each of them. */
static void test_a_batch_of_probes(void **unused)
{
    (void)unused;
    open_exhausted();
    make_busy("other", 0);
    forwarded("other", 1, denied(10 * ms));
    pass_time(10 * ms);
    weir_engine_batch r[2];
    weir_engine_request q[2][2];
    for (int i = 0; i < 2; i++) {
        q[i][0] = request(WEIR_VERB_TAKE, "busy", 1);
        q[i][1] = request(WEIR_VERB_TAKE, "other", 1);
        assert_false(ask(&r[i], q[i], 2));
    }
    assert_int_equal(world.len, 1);
    answer(0, denied(10 * ms));
    assert_null(r[1].inside);
    for (int i = 0; i < 2; i++)
        assert_answer(&q[1][i], WEIR_OK);
    close_all();
}

/* A sync of the last window neither charges this one nor counts as overshoot. */
static void test_a_late_reply_to_a_sync(void **unused)
{
    (void)unused;
    open_with("fixed-window 1600/s", (weir_hybrid_options){0});
    make_busy("busy", 800);
    pass_time(850 * ms);
    forwarded("busy", 1, left(800));
    (void)here("busy", 10);
    pass_time(50 * ms); /* the sync is sent */
    assert_int_equal(pending()->cost, 10);
    world.now_ns = start_ns + 1000 * ms;
    weir_engine_batch r;
    weir_engine_request q = request(WEIR_VERB_TAKE, "busy", 1);
    assert_false(ask(&r, &q, 1));
    answer(5, denied(1 * ms));
    assert_int_equal(only_lease()->lease.balance, 0);
    assert_int_equal(port_load_relaxed(&stats.overshoot), 0);
    answer(0, left(1599));
    close_all();
}

/* All keys of a batch get leases. */
static void test_a_batch_of_leases(void **unused)
{
    (void)unused;
    open_with("gcra 100/s burst 1600", (weir_hybrid_options){0});
    for (int i = 0; i < 2; i++) {
        forwarded("a", 1, left(1600));
        forwarded("b", 1, left(1600));
    }
    weir_engine_batch r;
    weir_engine_request q[2] = {request(WEIR_VERB_TAKE, "a", 1), request(WEIR_VERB_TAKE, "b", 1)};
    assert_false(ask(&r, q, 2));
    assert_int_equal(world.len, 3); /* the batch, and a sync of each key */
    while (world.len > 0)
        answer(ALL, left(1600));
    assert_true(here("a", 1).allowed);
    while (world.len > 0)
        answer(0, left(1600));
    close_all();
}

/* Expects that no sync follows a request until pause_ms have passed. */
static void expect_a_sync_after(int64_t pause_ms)
{
    weir_engine_batch r;
    weir_engine_request q = request(WEIR_VERB_TAKE, "busy", 1);
    for (int64_t t = 0; t <= pause_ms; t += pause_ms / 2) {
        assert_false(ask(&r, &q, 1));
        assert_int_equal(world.len, t == pause_ms ? 2 : 1);
        while (world.len > 0)
            answer(0, left(1600));
        pass_time(pause_ms / 2 * ms);
    }
}

/* After an error, no sync follows the requests: for an interval if the server did not reply, and
 * for longer if it refused. */
static void test_no_sync_soon_after_an_error(void **unused)
{
    (void)unused;
    static const weir_status failed[] = {WEIR_E_IO, WEIR_E_UNSUPPORTED};
    static const int64_t pause_ms[] = {100, 500};
    for (int i = 0; i < 2; i++) {
        weir_engine_batch r;
        weir_engine_request q;
        open_with_a_sync(&r, &q);
        answer(ALL, left(1600));
        weir_engine_batch *sync_of = world.pending[0];
        take_out(0);
        sync_of->request[0].status = failed[i];
        sync_of->done(sync_of, world.now_ns);
        expect_a_sync_after(pause_ms[i]);
        close_all();
    }
}

/* After an error of a request, no sync follows either, whether or not the upstream engine decided
 * by on_error. */
static void test_no_sync_soon_after_a_failed_request(void **unused)
{
    (void)unused;
    for (int i = 0; i < 2; i++) {
        weir_engine_batch r;
        weir_engine_request q;
        open_with_a_sync(&r, &q);
        weir_engine_batch *sent = world.pending[0];
        take_out(0);
        sent->request[0].status = i == 0 ? WEIR_E_IO : WEIR_OK;
        sent->request[0].by_error = i == 1;
        sent->done(sent, world.now_ns);
        answer(0, left(1600)); /* the sync that was sent together with the request */
        expect_a_sync_after(100);
        close_all();
    }
}

/* After a failed sync, the requests that wait for units are forwarded instead, for an interval. */
static void test_no_waiting_soon_after_an_error(void **unused)
{
    (void)unused;
    open_exhausted_bucket();
    weir_engine_batch r[4];
    weir_engine_request q[4];
    for (int i = 0; i < 4; i++)
        q[i] = request(WEIR_VERB_TAKE, "busy", 1);
    assert_false(ask(&r[0], &q[0], 1));
    assert_int_equal(pending()->verb, WEIR_VERB_GRANT);
    answer_nothing();
    assert_int_equal(pending()->verb, WEIR_VERB_TAKE);
    for (int i = 1; i < 4; i++) {
        assert_false(ask(&r[i], &q[i], 1));
        assert_int_equal(world.len, i + 1);
        assert_int_equal(world.pending[i]->request[0].verb,
                         i < 3 ? WEIR_VERB_TAKE : WEIR_VERB_GRANT);
        pass_time(50 * ms);
    }
    while (world.len > 0)
        answer(0, left(1600));
    close_all();
}

/* Requests that were answered within submit() of another are reported later, unless they are
 * abandoned first. */
static void test_an_answered_batch_may_be_abandoned(void **unused)
{
    (void)unused;
    open_exhausted();
    weir_engine_batch r[4];
    weir_engine_request q[4];
    for (int i = 0; i < 3; i++) { /* a probe, and two that wait for it */
        q[i] = request(WEIR_VERB_TAKE, "busy", 1);
        assert_false(ask(&r[i], &q[i], 1));
    }
    weir_decision none = denied(10 * ms);
    world.immediate = &none;
    q[3] = request(WEIR_VERB_TAKE, "busy", 1601);
    size_t before = world.done;
    assert_true(ask(&r[3], &q[3], 1));
    assert_int_equal(world.done, before);
    assert_int_equal(world.alarm.at_ns, world.now_ns);
    engine->calls->abandon(engine, &r[1]);
    assert_int_equal(world.done, before);
    pass_time(0);
    assert_int_equal(world.done, before + 1); /* r[2] */
    answer(0, none);
    close_all();
}

/* A request whose answer is that no units remain is not followed by a sync. */
static void test_an_exhausted_key_is_not_leased(void **unused)
{
    (void)unused;
    open_with("gcra 100/s burst 1600", (weir_hybrid_options){0});
    weir_decision none = denied(1 * ms);
    world.immediate = &none;
    for (int i = 0; i < 3; i++) {
        weir_engine_batch r;
        weir_engine_request q = request(WEIR_VERB_TAKE, "busy", 1);
        assert_true(ask(&r, &q, 1));
        assert_false(q.decision.allowed);
    }
    assert_int_equal(port_load_relaxed(&stats.keys), 0);
    assert_int_equal(port_load_relaxed(&stats.syncs), 0);
    close_all();
}

/* A request that is larger than the lease may become is not followed by a sync. */
static void test_a_large_cost_is_not_leased(void **unused)
{
    (void)unused;
    open_with("gcra 100/s burst 1600", (weir_hybrid_options){.count = 40});
    for (int i = 0; i < 2; i++)
        forwarded("busy", 1, left(1600));
    weir_engine_batch r;
    weir_engine_request q = request(WEIR_VERB_TAKE, "busy", 41);
    assert_false(ask(&r, &q, 1));
    assert_int_equal(pending()->verb, WEIR_VERB_TAKE);
    answer(0, left(1500));
    close_all();
}

/* The requests that wait are answered in the order in which they came. */
static void test_waiting_requests_are_answered_in_order(void **unused)
{
    (void)unused;
    open_exhausted_bucket();
    weir_engine_batch r[3];
    weir_engine_request q[3];
    for (int i = 0; i < 3; i++) {
        q[i] = request(WEIR_VERB_TAKE, "busy", 1);
        assert_false(ask(&r[i], &q[i], 1));
    }
    assert_int_equal(pending()->verb, WEIR_VERB_GRANT);
    answer(2, denied(1 * ms));
    for (int i = 0; i < 3; i++)
        assert_int_equal(q[i].decision.allowed, i < 2);
    close_all();
}

/* After a sync without a reply, the next one is sent when the interval ends, and not by the next
 * request. */
static void test_a_failed_sync_waits_for_the_interval(void **unused)
{
    (void)unused;
    open_with("fixed-window 1600/s", (weir_hybrid_options){.count = 40});
    make_busy("busy", 1600);
    assert_true(here("busy", 20).allowed);
    assert_int_equal(pending()->cost, 20);
    answer_nothing();
    assert_true(here("busy", 1).allowed);
    assert_int_equal(world.len, 0);
    pass_time(100 * ms);
    assert_int_equal(pending()->cost, 21);
    close_all();
}

/* A key that is asked for keeps its slot, even if all requests are forwarded. */
static void test_a_busy_key_stays(void **unused)
{
    (void)unused;
    open_with("fixed-window 1600/s", (weir_hybrid_options){0});
    make_busy("busy", 800);
    for (int i = 0; i < 10; i++) {
        pass_time(500 * ms);
        forwarded("busy", 1, left(800));
        assert_int_equal(port_load_relaxed(&stats.keys), 1);
    }
    pass_time(1500 * ms);
    assert_int_equal(port_load_relaxed(&stats.keys), 0);
    close_all();
}

/* After a slot was given to another key, a late reply for the old key does not change the lease. */
static void test_a_late_reply_leaves_the_new_lease(void **unused)
{
    (void)unused;
    open_with("fixed-window 1600/m", (weir_hybrid_options){.memory_bytes = 1});
    make_busy("a", 800);
    pass_time(200 * ms); /* the lease is no longer valid */
    weir_engine_batch r;
    weir_engine_request q = request(WEIR_VERB_TAKE, "a", 1);
    assert_false(ask(&r, &q, 1));
    weir_engine_batch *late = world.pending[0];
    take_out(0);
    pass_time(3000 * ms);
    assert_int_equal(port_load_relaxed(&stats.keys), 0);
    make_busy("b", 800); /* in the same slot */
    late->request[0].status = WEIR_OK;
    late->request[0].decision = left(3);
    late->done(late, world.now_ns);
    assert_int_equal(q.decision.remaining, 3);
    assert_int_equal(here("b", 1).remaining, 799);
    close_all();
}

/* Many requests are added to the statistics before the timer expires. */
static void test_statistics_are_not_late(void **unused)
{
    (void)unused;
    open_with("fixed-window 2000000000/s", (weir_hybrid_options){.count = 1000});
    make_busy("busy", 2000000000);
    for (int i = 0; i < 300; i++)
        assert_true(here("busy", 1).allowed);
    assert_int_equal(port_load_relaxed(&stats.requests), 256);
    assert_int_equal(port_load_relaxed(&stats.local), 253);
    close_all();
}

/* ---- without memory -------------------------------------------------------------------------- */

static void test_without_memory_to_open(void **unused)
{
    (void)unused;
    weir_hybrid_options options = {0};
    memset(&world, 0, sizeof world);
    for (int i = 0; i < 5; i++) {
        weir_engine *e = NULL;
        weir_hybrid_setup setup = {&options, &below, &dialer, &stats, NULL};
        no_memory_from = i;
        world.no_timer = i == 4;
        assert_int_equal(weir_hybrid_engine_open(&e, &setup), WEIR_E_NOMEM);
        no_memory_from = -1;
        assert_null(e);
        assert_int_equal(allocated, 0);
        assert_int_equal(mapped_bytes, 0);
    }
}

/* Without memory for a probe, the requests that wait for it do not wait for ever. */
static void test_without_memory_for_a_probe(void **unused)
{
    (void)unused;
    open_exhausted();
    for (int i = 0; i < 2; i++) {
        weir_engine_batch r;
        weir_engine_request q[3];
        for (int k = 0; k < 3; k++)
            q[k] = request(WEIR_VERB_TAKE, "busy", 1);
        no_memory_from = i;
        assert_true(ask(&r, q, 3));
        no_memory_from = -1;
        for (int k = 0; k < 3; k++)
            assert_answer(&q[k], WEIR_E_NOMEM);
        assert_null(r.inside);
    }
    assert_int_equal(world.len, 0);
    forwarded("busy", 1, left(1600));
    assert_true(here("busy", 1).allowed);
    close_all();
}

/* Without memory, all requests of a batch fail, also those for keys without a lease, and those that
 * are decided as one. */
static void test_without_memory_for_a_batch(void **unused)
{
    (void)unused;
    open_with("fixed-window 1600/s", (weir_hybrid_options){0});
    for (int i = 0; i < 4; i++) {
        weir_engine_request q[3];
        weir_engine_batch r = {.request = q, .len = 3, .all = i >= 2, .done = done};
        for (int k = 0; k < 3; k++)
            q[k] = request(WEIR_VERB_TAKE, k == 0 ? "a" : k == 1 ? "b" : "c", 1);
        no_memory_from = i % 2;
        assert_true(engine->calls->submit(engine, &r, world.now_ns));
        no_memory_from = -1;
        for (int k = 0; k < 3; k++)
            assert_answer(&q[k], WEIR_E_NOMEM);
        assert_null(r.inside);
    }
    close_all();
}

/* A key gets no lease without memory for its policy. A sync is sent again after an interval. */
static void test_without_memory_for_leases_and_syncs(void **unused)
{
    (void)unused;
    open_with("fixed-window 1600/s", (weir_hybrid_options){0});
    for (int i = 0; i < 2; i++)
        forwarded("busy", 1, left(800));
    weir_engine_batch r;
    weir_engine_request q = request(WEIR_VERB_TAKE, "busy", 1);
    no_memory_from = 0;
    assert_true(ask(&r, &q, 1));
    no_memory_from = -1;
    assert_int_equal(q.status, WEIR_E_NOMEM);
    forwarded("busy", 1, left(800)); /* the fourth request makes it busy */
    no_memory_from = 0;
    assert_true(here("busy", 30).allowed); /* a sync is due, and cannot be sent */
    no_memory_from = -1;
    assert_true(here("busy", 1).allowed);
    assert_int_equal(world.len, 0);
    pass_time(100 * ms);
    assert_int_equal(pending()->cost, 31);
    close_all();
}

static void test_ranges_of_options(void **unused)
{
    (void)unused;
    const weir_hybrid_options bad[] = {{.interval_ns = 999999}, {.interval_ns = 60001 * ms},
                                       {.interval_ns = -1},     {.count = -1},
                                       {.idle_ns = -1},         {.idle_ns = WEIR_SPAN_NS_MAX + 1}};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        weir_engine *e = NULL;
        weir_hybrid_setup setup = {&bad[i], &below, &dialer, &stats, NULL};
        assert_int_equal(weir_hybrid_engine_open(&e, &setup), WEIR_E_RANGE);
        assert_null(e);
        assert_int_equal(allocated, 0);
    }
    const weir_hybrid_options good[] = {{.interval_ns = ms},
                                        {.interval_ns = 60000 * ms},
                                        {.count = 1},
                                        {.idle_ns = 1},
                                        {.idle_ns = WEIR_SPAN_NS_MAX}};
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        open_with("gcra 100/s burst 1600", good[i]);
        close_all();
    }
}

static void test_defaults_of_options(void **unused)
{
    (void)unused;
    open_with("gcra 100/s burst 1600", (weir_hybrid_options){0});
    const hybrid *h = (const hybrid *)engine;
    assert_int_equal(h->interval_ns, 100 * ms);
    assert_int_equal(h->idle_ns, 1000 * ms);
    assert_int_equal(h->table.interval_ns, 100 * ms);
    assert_int_equal(h->table.idle_ns, 1000 * ms);
    assert_int_equal(h->table.count, 1000);
    assert_in_range(mapped_bytes, (2 << 20) + 1, 4 << 20);
    close_all();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_sync_without_a_reply_is_repeated),
        cmocka_unit_test(test_upstream_may_answer_at_once),
        cmocka_unit_test(test_upstream_may_answer_a_sync_at_once),
        cmocka_unit_test(test_the_timer_expires_after_an_interval),
        cmocka_unit_test(test_the_largest_cost_that_waits),
        cmocka_unit_test(test_a_cost_above_the_limit_does_not_wait),
        cmocka_unit_test(test_one_of_two_probes_is_abandoned),
        cmocka_unit_test(test_a_batch_of_probes),
        cmocka_unit_test(test_a_late_reply_to_a_sync),
        cmocka_unit_test(test_a_batch_of_leases),
        cmocka_unit_test(test_no_sync_soon_after_an_error),
        cmocka_unit_test(test_no_sync_soon_after_a_failed_request),
        cmocka_unit_test(test_no_waiting_soon_after_an_error),
        cmocka_unit_test(test_an_answered_batch_may_be_abandoned),
        cmocka_unit_test(test_an_exhausted_key_is_not_leased),
        cmocka_unit_test(test_a_large_cost_is_not_leased),
        cmocka_unit_test(test_waiting_requests_are_answered_in_order),
        cmocka_unit_test(test_a_failed_sync_waits_for_the_interval),
        cmocka_unit_test(test_a_busy_key_stays),
        cmocka_unit_test(test_a_late_reply_leaves_the_new_lease),
        cmocka_unit_test(test_statistics_are_not_late),
        cmocka_unit_test(test_without_memory_to_open),
        cmocka_unit_test(test_without_memory_for_a_probe),
        cmocka_unit_test(test_without_memory_for_a_batch),
        cmocka_unit_test(test_without_memory_for_leases_and_syncs),
        cmocka_unit_test(test_ranges_of_options),
        cmocka_unit_test(test_defaults_of_options),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
