/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* Large states: memory and eviction, transactions, copying, threads. large_kill_test.c has the
 * tests for killed processes and power failures. */

#include "store/large/large_kit_test.h"

#include <pthread.h>

enum { KIB = 1 << 10, MIB = 1 << 20 };

typedef struct fixture {
    void *part;
    size_t bytes;
    weir_large *l;
    weir_policy log, slices, layers;
} fixture;

static void open_fixture(fixture *f, size_t bytes)
{
    f->bytes = bytes;
    f->part = part_of(bytes);
    f->l = open_part(f->part, bytes, true, &alone);
    f->log = policy_of("sliding-log 100/m");
    f->slices = policy_of("sliding-slices 1000/h slices 600");
    f->layers = policy_of("sliding-log 50/m & gcra 10/s burst 20 & sliding-log 70/m count-denied");
}

static void close_fixture(fixture *f)
{
    weir_large_close(f->l);
    munmap(f->part, f->bytes);
}

static void opening(void **unused)
{
    (void)unused;
    weir_large *l = NULL;
    void *part = part_of(MIB);
    assert_int_equal(weir_large_open(&l, part, WEIR_LARGE_BYTES_MIN - 1, true, &alone),
                     WEIR_E_RANGE);
    /* The process that created it did no more. */
    weir_large_close(open_part(part, MIB, false, &alone));
    l = open_part(part, MIB, true, &alone);
    weir_policy log = policy_of("sliding-log 100/m");
    assert_int_equal(take(l, &log, 7, s_ns, 3), 97);
    weir_large_close(l);
    l = NULL;
    assert_int_equal(weir_large_open(&l, part, MIB / 2, false, &alone), WEIR_E_SYNTAX);
    l = open_part(part, MIB, false, &alone);
    assert_int_equal(take(l, &log, 7, s_ns, 0), 97);
    check_whole(l);
    weir_large_close(l);
    weir_large_close(NULL);
    munmap(part, MIB);
}

/* A log is as large as its contents. An empty one starts at the smallest size again. */
static void logs_are_sized_by_what_they_hold(void **unused)
{
    (void)unused;
    fixture f;
    open_fixture(&f, MIB);
    assert_int_equal(take(f.l, &f.log, 1, s_ns, 0), 100);
    assert_int_equal(weir_large_stats_get(f.l).keys, 0);
    take(f.l, &f.log, 1, s_ns, 1);
    assert_int_equal(weir_large_stats_get(f.l).bytes, 96);
    for (int i = 1; i < 5; i++)
        take(f.l, &f.log, 1, s_ns + i, 1);
    assert_int_equal(weir_large_stats_get(f.l).bytes, 144);
    for (int i = 5; i < 100; i++)
        assert_int_equal(take(f.l, &f.log, 1, s_ns + i, 1), 99 - i);
    assert_int_equal(take(f.l, &f.log, 1, s_ns + 100, 1), -1);
    assert_int_equal(weir_large_stats_get(f.l).bytes, 32 + 16 + 100 * 12);
    assert_int_equal(give(f.l, &f.log, 1, s_ns + 100, 30), 30);
    assert_int_equal(take(f.l, &f.log, 1, s_ns + 101, 10), 20);
    assert_int_equal(take(f.l, &f.log, 1, 100 * s_ns, 1), 99);
    assert_int_equal(weir_large_stats_get(f.l).bytes, 96);
    check_whole(f.l);
    weir_large_reset(f.l, 1);
    weir_large_reset(f.l, 2);
    assert_int_equal(weir_large_stats_get(f.l).bytes, 0);
    assert_int_equal(weir_large_stats_get(f.l).evicted, 0);
    close_fixture(&f);
}

/* States of every kind give the same answers as a bare state and weir_check(), as time passes. */
static void answers_equal_the_core(void **unused)
{
    (void)unused;
    static const char *const texts[] = {
        "sliding-log 40/s", "sliding-log 40/s count-denied", "sliding-slices 100/s slices 600",
        "sliding-slices 30/s slices 24 & sliding-log 20/s",
        "sliding-log 50/s & gcra 10/s burst 20 & sliding-log 70/s count-denied"};
    for (size_t t = 0; t < sizeof texts / sizeof texts[0]; t++) {
        fixture f;
        open_fixture(&f, MIB);
        weir_policy p = policy_of(texts[t]);
        uint64_t *state = calloc(weir_state_words(&p, WEIR_LEVEL_MAX), 8), x = 1 + t;
        int64_t now_ns = s_ns;
        for (int i = 0; i < 20000; i++) {
            x = x * 6364136223846793005 + 1442695040888963407;
            now_ns += (int64_t)(x >> 40) % (x >> 63 ? 3 : s_ns / 10);
            charge bare = {.cost = (int64_t)(x >> 33) % 4}, ours = bare;
            weir_large_call call = call_of(&p, 5, now_ns, &ours);
            call.any_words = x >> 20 & 1;
            bool back = (x >> 25) % 8 == 0;
            if (back) {
                call.fn = refund;
                call.refund = ours.cost;
            }
            weir_status st = weir_large_run(f.l, &call);
            assert_int_equal(st, call.fn(&bare, &p, state, WEIR_LEVEL_MAX, now_ns, NULL));
            if (st == WEIR_OK)
                assert_memory_equal(&bare.decision, &ours.decision, offsetof(weir_decision, layer));
        }
        check_whole(f.l);
        free(state);
        close_fixture(&f);
    }
}

/* ---- memory and eviction --------------------------------------------------------------------- */

/* Many times as many states as fit: all are admitted, and the memory is well used. */
static void full_and_refilled(void **unused)
{
    (void)unused;
    fixture f;
    open_fixture(&f, MIB);
    for (uint64_t n = 0; n < 60000; n++) {
        int64_t now_ns = s_ns + (int64_t)n * 1000;
        const weir_policy *p = n % 16 == 0 ? &f.slices : n % 3 == 0 ? &f.layers : &f.log;
        assert_true(take(f.l, p, hash_of(n), now_ns, 1) >= 0);
        if (n % 5 == 0)
            assert_true(take(f.l, p, hash_of(n), now_ns, 1) >= 0);
    }
    weir_large_stats stats = weir_large_stats_get(f.l);
    assert_true(stats.evicted > 40000);
    assert_in_range(stats.bytes, MIB * 8 / 10, MIB);
    check_whole(f.l);
    int64_t later_ns = 7300 * s_ns; /* all others are idle by now, and are dropped first */
    for (uint64_t n = 0; n < 1000; n++)
        take(f.l, &f.log, hash_of(n), later_ns, 1);
    assert_int_equal(weir_large_stats_get(f.l).evicted, stats.evicted);
    for (uint64_t n = 0; n < 1000; n++)
        assert_int_equal(take(f.l, &f.log, hash_of(n), later_ns, 1), 98);
    check_whole(f.l);
    close_fixture(&f);
}

/* A large state among small ones: there is enough memory, but not in one place. */
static void wide_among_small(void **unused)
{
    (void)unused;
    fixture f;
    open_fixture(&f, MIB);
    weir_policy wide = policy_of("sliding-slices 9/h slices 65536"),
                wider = policy_of("sliding-slices 9/h slices 65536 & sliding-slices 9/h slices "
                                  "65536 & sliding-slices 9/h slices 65536 & sliding-slices 9/h "
                                  "slices 65536");
    for (uint64_t n = 0; n < 12000; n++)
        take(f.l, &f.log, hash_of(n), s_ns, 1);
    for (uint64_t n = 0; n < 5; n++)
        assert_int_equal(take(f.l, &wide, hash_of(n << 32), s_ns, 1), 8);
    check_whole(f.l);
    uint64_t evicted = weir_large_stats_get(f.l).evicted;
    charge c = {.cost = 1};
    weir_large_call call = call_of(&wider, 77, s_ns, &c);
    assert_int_equal(weir_large_run(f.l, &call), WEIR_E_NOMEM);
    assert_int_equal(weir_large_stats_get(f.l).evicted, evicted);
    close_fixture(&f);
}

static void refusing_when_full(void **unused)
{
    (void)unused;
    fixture f;
    open_fixture(&f, 128 * KIB);
    charge c = {.cost = 1};
    weir_status st = WEIR_OK;
    uint64_t n = 0;
    for (; st == WEIR_OK && n < 10000; n++) {
        weir_large_call call = call_of(&f.log, hash_of(n), s_ns, &c);
        call.when_full = WEIR_REFUSE;
        st = weir_large_run(f.l, &call);
    }
    assert_int_equal(st, WEIR_E_FULL);
    assert_int_equal(weir_large_stats_get(f.l).keys, n - 1);
    assert_int_equal(weir_large_stats_get(f.l).evicted, 0);
    for (uint64_t i = 0; i < n - 1; i++)
        /* Does not grow: one request. */
        assert_int_equal(take(f.l, &f.log, hash_of(i), s_ns, 1), 98);
    check_whole(f.l);
    for (uint64_t i = 0; i < 64; i++) /* advances the time of every stripe */
        weir_large_reset(f.l, i), take(f.l, &f.log, hash_of(i), 100 * s_ns, 0);
    weir_large_call call = call_of(&f.log, hash_of(n), 100 * s_ns, &c);
    call.when_full = WEIR_REFUSE;
    assert_int_equal(weir_large_run(f.l, &call), WEIR_OK);
    assert_int_equal(weir_large_stats_get(f.l).evicted, 0);
    close_fixture(&f);
}

/* ---- transactions on several keys ------------------------------------------------------------ */

static int64_t try_one(fixture *f, const weir_policy *p, uint64_t hash, int64_t now_ns,
                       int64_t cost)
{
    charge c = {.cost = cost};
    weir_large_call call = call_of(p, hash, now_ns, &c);
    assert_int_equal(weir_large_try(f->l, &call), WEIR_OK);
    return c.decision.allowed ? c.decision.remaining : -1;
}

/* Sixteen tries in one stripe: keys that are present, absent, and that grow. */
static void tries_are_kept_or_dropped(void **unused)
{
    (void)unused;
    fixture f;
    open_fixture(&f, MIB);
    size_t stripe = weir_large_stripe(f.l, 3);
    uint64_t step = 1 << 20;
    assert_int_equal(weir_large_stripe(f.l, 3 + 15 * step), stripe);
    for (int round = 0; round < 40; round++) {
        int64_t now_ns = s_ns + round * s_ns / 10;
        bool keep = round % 2 == 1;
        int64_t before[16], after[16];
        const weir_policy *p[16];
        for (uint64_t n = 0; n < 16; n++) {
            p[n] = n % 4 == 0 ? &f.slices : n % 4 == 1 ? &f.layers : &f.log;
            before[n] = take(f.l, p[n], 3 + n * step, now_ns, 0);
        }
        weir_large_lock(f.l, stripe);
        for (uint64_t n = 0; n < 16; n++)
            after[n] = try_one(&f, p[n], 3 + n * step, now_ns, 1);
        if (keep)
            weir_large_commit(f.l, stripe);
        else
            weir_large_roll_back(f.l, stripe);
        weir_large_unlock(f.l, stripe);
        check_whole(f.l);
        for (uint64_t n = 0; n < 16; n++)
            assert_int_equal(take(f.l, p[n], 3 + n * step, now_ns, 0),
                             keep && after[n] >= 0 ? after[n] : before[n]);
    }
    close_fixture(&f);
}

/* The same key several times: it grows twice, and each try sees the earlier ones. */
static void tries_add_up(void **unused)
{
    (void)unused;
    for (int keep = 0; keep < 2; keep++) {
        fixture f;
        open_fixture(&f, MIB);
        for (int i = 0; i < 3; i++)
            take(f.l, &f.log, 9, s_ns + i, 1);
        weir_large_lock(f.l, weir_large_stripe(f.l, 9));
        for (int i = 3; i < 19; i++)
            assert_int_equal(try_one(&f, &f.log, 9, s_ns + i, 1), 99 - i);
        if (keep)
            weir_large_commit(f.l, weir_large_stripe(f.l, 9));
        else
            weir_large_roll_back(f.l, weir_large_stripe(f.l, 9));
        weir_large_unlock(f.l, weir_large_stripe(f.l, 9));
        check_whole(f.l);
        assert_int_equal(take(f.l, &f.log, 9, s_ns + 20, 0), keep ? 81 : 97);
        close_fixture(&f);
    }
}

/* A try too many is refused, and the others are unchanged. */
static void tries_have_an_end(void **unused)
{
    (void)unused;
    fixture f;
    open_fixture(&f, MIB);
    charge c = {.cost = 1};
    weir_status st = WEIR_OK;
    weir_large_lock(f.l, 0);
    uint64_t n = 0;
    for (; st == WEIR_OK && n < 1000; n++) {
        weir_large_call call = call_of(&f.log, n << 20, s_ns, &c);
        st = weir_large_try(f.l, &call);
    }
    assert_int_equal(st, WEIR_E_BUSY);
    assert_true(n > WEIR_TAKE_MANY_MAX);
    weir_large_commit(f.l, 0);
    weir_large_unlock(f.l, 0);
    check_whole(f.l);
    assert_int_equal(weir_large_stats_get(f.l).keys, n - 1);
    close_fixture(&f);
}

/* ---- iteration and copying ------------------------------------------------------------------- */

static bool put_into(void *ctx, const weir_key_state *stored)
{
    assert_int_equal(weir_large_put(ctx, stored), WEIR_OK);
    return true;
}

static bool count_two(void *ctx, const weir_key_state *stored)
{
    (void)stored;
    return ++*(int *)ctx < 2;
}

static void contents_move(void **unused)
{
    (void)unused;
    fixture f, to;
    open_fixture(&f, MIB);
    open_fixture(&to, MIB / 2);
    for (uint64_t n = 0; n < 900; n++)
        take(f.l, n % 2 ? &f.log : &f.layers, hash_of(n), s_ns, 1 + (int64_t)n % 10);
    for (int i = 1; i < 40; i++)
        take(f.l, &f.log, hash_of(1), s_ns + i, 1);
    take(to.l, &f.log, hash_of(3), s_ns, 99); /* replaces another state with the same hash */
    weir_large_each(f.l, put_into, to.l);
    weir_large_each(f.l, put_into, to.l); /* a second copy changes nothing */
    assert_int_equal(weir_large_stats_get(to.l).keys, 900);
    assert_int_equal(weir_large_stats_get(to.l).bytes, weir_large_stats_get(f.l).bytes);
    for (uint64_t n = 0; n < 900; n++) {
        const weir_policy *p = n % 2 ? &f.log : &f.layers;
        assert_int_equal(take(to.l, p, hash_of(n), s_ns + 50, 0),
                         take(f.l, p, hash_of(n), s_ns + 50, 0));
    }
    check_whole(to.l);
    int seen = 0;
    weir_large_each(f.l, count_two, &seen);
    assert_int_equal(seen, 2);
    close_fixture(&to);
    close_fixture(&f);
}

static void bad_contents(void **unused)
{
    (void)unused;
    fixture f;
    open_fixture(&f, MIB);
    uint64_t words[8] = {0};
    weir_key_state good = {.hash = 1,
                           .fresh_at_ns = 9 * s_ns,
                           .form = WEIR_LARGE_FORM,
                           .words_len = 8,
                           .words = words};
    weir_key_state bad = good;
    bad.form = 0;
    assert_int_equal(weir_large_put(f.l, &bad), WEIR_E_RANGE);
    bad = good;
    bad.level = WEIR_LEVEL_MAX + 1;
    assert_int_equal(weir_large_put(f.l, &bad), WEIR_E_RANGE);
    bad = good;
    bad.words_len = 0;
    assert_int_equal(weir_large_put(f.l, &bad), WEIR_E_RANGE);
    bad = good;
    bad.words_len = SIZE_MAX;
    assert_int_equal(weir_large_put(f.l, &bad), WEIR_E_NOMEM);
    assert_int_equal(weir_large_put(f.l, &good), WEIR_OK);
    assert_int_equal(weir_large_stats_get(f.l).keys, 1);
    take(f.l, &f.log, 1, 10 * s_ns, 0);
    assert_int_equal(weir_large_put(f.l, &good), WEIR_OK); /* idle by now */
    check_whole(f.l);
    weir_status st = WEIR_OK;
    good.fresh_at_ns = 100 * s_ns;
    for (good.hash = 2; st == WEIR_OK; good.hash++)
        st = weir_large_put(f.l, &good);
    assert_int_equal(st, WEIR_E_FULL);
    assert_int_equal(weir_large_stats_get(f.l).evicted, 0);
    check_whole(f.l);
    close_fixture(&f);
}

/* ---- threads --------------------------------------------------------------------------------- */

enum { WORKERS = 4, ROUNDS = 20000, SHARED = 16 };

typedef struct worker {
    fixture *f;
    uint64_t keys, seed;
    int64_t allowed;
    int failures;
} worker;

static int64_t charge_one(worker *w, const weir_policy *p, uint64_t hash)
{
    charge c = {.cost = 1};
    weir_large_call call = call_of(p, hash, s_ns, &c);
    w->failures += weir_large_run(w->f->l, &call) != WEIR_OK;
    return c.decision.allowed;
}

/* Some keys are shared by all workers, others belong to one worker. */
static void *work(void *arg)
{
    worker *w = arg;
    uint64_t x = w->seed;
    weir_policy hour = policy_of("sliding-log 3000/h");
    for (int i = 0; i < ROUNDS; i++) {
        x = x * 6364136223846793005 + 1442695040888963407;
        w->allowed += charge_one(w, &hour, hash_of(x >> 33 & (SHARED - 1)));
        charge_one(w, i % 64 ? &w->f->log : &w->f->layers, hash_of(1000 + (x >> 40) % w->keys));
        if (i % 16 == 0)
            weir_large_reset(w->f->l, hash_of(1000 + (x >> 35) % w->keys));
        if (i % 2048 == 0) {
            weir_large_stats sum = {0};
            weir_large_each(w->f->l, add_up, &sum);
        }
    }
    return NULL;
}

/* Returns how many units of the shared keys four workers were allowed. */
static int64_t run_workers(fixture *f, uint64_t keys)
{
    pthread_t threads[WORKERS];
    worker workers[WORKERS];
    int64_t allowed = 0;
    for (unsigned n = 0; n < WORKERS; n++) {
        workers[n] = (worker){.f = f, .keys = keys, .seed = n + 1};
        assert_int_equal(pthread_create(&threads[n], NULL, work, &workers[n]), 0);
    }
    for (int n = 0; n < WORKERS; n++) {
        pthread_join(threads[n], NULL);
        allowed += workers[n].allowed;
        assert_int_equal(workers[n].failures, 0);
    }
    return allowed;
}

static void threads_charge_no_more_than_there_is(void **unused)
{
    (void)unused;
    fixture f;
    open_fixture(&f, MIB);
    assert_int_equal(run_workers(&f, 3000), SHARED * 3000);
    assert_int_equal(weir_large_stats_get(f.l).evicted, 0);
    check_whole(f.l);
    close_fixture(&f);
}

static void threads_in_full_memory(void **unused)
{
    (void)unused;
    fixture f;
    open_fixture(&f, 256 * KIB);
    assert_true(run_workers(&f, 20000) > 0);
    assert_true(weir_large_stats_get(f.l).evicted > 1000);
    check_whole(f.l);
    close_fixture(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(opening),
        cmocka_unit_test(logs_are_sized_by_what_they_hold),
        cmocka_unit_test(answers_equal_the_core),
        cmocka_unit_test(full_and_refilled),
        cmocka_unit_test(wide_among_small),
        cmocka_unit_test(refusing_when_full),
        cmocka_unit_test(tries_are_kept_or_dropped),
        cmocka_unit_test(tries_add_up),
        cmocka_unit_test(tries_have_an_end),
        cmocka_unit_test(contents_move),
        cmocka_unit_test(bad_contents),
        cmocka_unit_test(threads_charge_no_more_than_there_is),
        cmocka_unit_test(threads_in_full_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
