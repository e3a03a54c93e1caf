/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* Large states: memory and eviction, transactions, copying. large_thread_test.c has the tests with
 * threads, large_kill_test.c those of killed processes and power failures. */

#include "store/large/large_kit_test.h"

static void opening(void **unused)
{
    (void)unused;
    weir_large *l = NULL;
    void *part = part_of(MIB);
    assert_int_equal(weir_large_open(&l, part, WEIR_LARGE_BYTES_MIN - 1, true, &alone),
                     WEIR_E_RANGE);
    port_word *words = part;
    port_word_store_relaxed(&words[1], MIB / 2); /* it was created with another size */
    assert_int_equal(weir_large_open(&l, part, MIB, false, &alone), WEIR_E_SYNTAX);
    port_word_store_relaxed(&words[1], MIB);
    weir_large_close(open_part(part, MIB, false, &alone));
    memset(part, 0, 16);
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
    take(f.l, &f.log, 1, 200 * s_ns, 0); /* idle, but it has not grown: stays in place */
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

/* Keys far from idle stay while keys closer to idle are evicted, many times over. */
static void closest_to_idle_is_evicted(void **unused)
{
    (void)unused;
    enum { DEBTORS = 100, FLOOD = 20000 };
    fixture f;
    weir_policy day =
        policy_of("sliding-log 100/d"); /* its blocks are as large as those of a log */
    open_fixture(&f, 128 * KIB);
    for (uint64_t n = 0; n < DEBTORS; n++)
        take(f.l, &day, hash_of(n), s_ns, 60);
    for (uint64_t n = DEBTORS; n < FLOOD; n++)
        take(f.l, &f.log, hash_of(n), s_ns + (int64_t)n, 1);
    weir_large_stats stats = weir_large_stats_get(f.l);
    assert_int_equal(stats.keys + stats.evicted, FLOOD);
    assert_true(stats.evicted > FLOOD - 10 * DEBTORS - 1000);
    uint64_t debtors = 0;
    for (uint64_t n = 0; n < DEBTORS; n++)
        debtors += take(f.l, &day, hash_of(n), s_ns + FLOOD, 0) == 40;
    assert_true(debtors > DEBTORS * 95 / 100); /* they are evicted if the sample has no others */
    uint64_t older = 0, newer = 0;             /* the survivors of the flood are its newest keys */
    for (uint64_t n = DEBTORS; n < FLOOD; n++) {
        bool there = take(f.l, &f.log, hash_of(n), s_ns + FLOOD, 0) == 99;
        older += there && n < FLOOD - 4000;
        newer += there && n >= FLOOD - 4000;
    }
    assert_true(newer > 500);
    assert_true(older < newer / 20);
    check_whole(f.l);
    close_fixture(&f);
}

/* In full memory, a wide state takes the place of another wide one, not of many small ones. */
static void wide_is_evicted_for_wide(void **unused)
{
    (void)unused;
    enum { WIDE = 200 }; /* a cost of 90 is a larger share of 1000 than 1 is of 100 */
    fixture f;
    open_fixture(&f, MIB);
    for (uint64_t n = 0; n < 12000; n++)
        take(f.l, n % 50 == 0 ? &f.slices : &f.log, hash_of(n), s_ns, n % 50 == 0 ? 90 : 1);
    uint64_t evicted = weir_large_stats_get(f.l).evicted;
    assert_true(evicted > 1000);
    for (uint64_t n = 0; n < WIDE; n++)
        take(f.l, &f.slices, hash_of(20000 + n), s_ns, 1);
    evicted = weir_large_stats_get(f.l).evicted - evicted;
    assert_in_range(evicted, WIDE, 15 * WIDE / 2); /* of at most 8 each, most are wide */
    check_whole(f.l);
    close_fixture(&f);
}

/* A log that grows in full memory is not evicted for itself, although it is the closest to idle. */
static void a_growing_log_is_not_evicted_for_itself(void **unused)
{
    (void)unused;
    fixture f;
    weir_policy quick = policy_of("sliding-log 1000/s");
    open_fixture(&f, 64 * KIB);
    for (uint64_t n = 0; n < 100; n++)
        take(f.l, &f.slices, hash_of(n), s_ns, 1);
    assert_true(weir_large_stats_get(f.l).keys < 24);
    for (int64_t i = 0; i < 500; i++) {
        assert_int_equal(take(f.l, &quick, 7, s_ns + i, 1), 999 - i);
        charge c = {.cost = 1}; /* fills the memory again */
        weir_large_call call = call_of(&f.slices, hash_of((uint64_t)i), s_ns + i, &c);
        call.when_full = WEIR_REFUSE;
        (void)!weir_large_run(f.l, &call);
    }
    check_whole(f.l);
    close_fixture(&f);
}

/* When keys are added, other keys are dropped as soon as they are idle. */
static void idle_are_dropped_at_once(void **unused)
{
    (void)unused;
    enum { IDLE = 100, NEW = 60 };
    fixture f;
    for (int early = 0; early <= 1; early++) {
        int64_t now_ns = 61 * s_ns + (early ? -1 : 512); /* a mark is less than 512 ns late */
        open_fixture(&f, MIB);
        for (uint64_t n = 0; n < IDLE; n++)
            take(f.l, &f.log, hash_of(n), s_ns, 1);
        for (uint64_t i = 0; i < 64; i++) /* advances the time of every stripe */
            take(f.l, &f.log, i << WEIR_CLASS_BITS, now_ns, 0);
        for (uint64_t n = 0; n < NEW; n++)
            take(f.l, &f.log, hash_of(1000 + n), now_ns, 1);
        assert_int_equal(weir_large_stats_get(f.l).keys, early ? IDLE + NEW : NEW);
        assert_int_equal(weir_large_stats_get(f.l).evicted, 0);
        check_whole(f.l);
        close_fixture(&f);
    }
}

/* Blocks that a damaged index does not lead to are freed when the memory is full, and counted. */
static void lost_blocks_are_found(void **unused)
{
    (void)unused;
    fixture f;
    open_fixture(&f, 64 * KIB);
    for (uint64_t n = 0; n < 100; n++)
        take(f.l, &f.log, hash_of(n), s_ns, 1);
    uint64_t lost = 0;
    for (size_t i = 0; lost < 5; i++) {
        uint64_t at = port_word_load_relaxed(&f.l->bucket[i]);
        if (at != 0 && port_word_load_relaxed(&weir_block_at(&f.l->blocks, at)->next) == 0) {
            port_word_store_relaxed(&f.l->bucket[i], 0);
            lost++;
        }
    }
    assert_non_null(weir_large_check(f.l));
    for (uint64_t n = 0; n < 5000; n++) {
        for (uint64_t i = 0; n % 1000 == 999 && i < 64; i++)
            take(f.l, &f.log, i << WEIR_CLASS_BITS, s_ns + (int64_t)n * s_ns / 10, 0);
        take(f.l, &f.log, hash_of(1000 + n), s_ns + (int64_t)n * s_ns / 10, 1);
    }
    assert_int_equal(weir_large_stats_get(f.l).damaged, lost);
    WEIR_CHECK(weir_large_check(f.l));
    close_fixture(&f);
}

/* A state that takes all of the memory fits; a larger one never does, and evicts nothing. */
static void a_state_as_large_as_the_memory_fits(void **unused)
{
    (void)unused;
    fixture f;
    open_fixture(&f, 64 * KIB);
    uint64_t units = f.l->blocks.units, *words = calloc(2 * units, sizeof *words);
    weir_key_state stored = {.hash = 1,
                             .fresh_at_ns = 9 * s_ns,
                             .form = WEIR_LARGE_FORM,
                             .words_len = 2 * units - 4,
                             .words = words};
    assert_int_equal(weir_block_units(stored.words_len), units);
    assert_int_equal(weir_large_put(f.l, &stored), WEIR_E_NOMEM); /* unit 0 is not used */
    stored.words_len -= 2;
    take(f.l, &f.log, 3, s_ns, 1);
    assert_int_equal(weir_large_put(f.l, &stored), WEIR_E_FULL);
    weir_large_reset(f.l, 3);
    assert_int_equal(weir_large_put(f.l, &stored), WEIR_OK);
    assert_int_equal(weir_large_stats_get(f.l).bytes, (units - 1) * WEIR_UNIT);
    check_whole(f.l);
    free(words);
    close_fixture(&f);
}

/* A search that reaches the end of the memory goes on at its beginning, before it evicts. */
static void search_wraps(void **unused)
{
    (void)unused;
    fixture f;
    open_fixture(&f, 64 * KIB);
    uint64_t n = 0;
    while (weir_large_stats_get(f.l).bytes < f.l->blocks.units * WEIR_UNIT / 16 * 15)
        take(f.l, &f.log, hash_of(n++), s_ns, 1);
    assert_int_equal(weir_large_stats_get(f.l).evicted, 0);
    weir_large_reset(f.l, hash_of(0));
    port_word_store_relaxed(&f.l->blocks.head->rover, f.l->blocks.units - 3);
    for (uint64_t i = 1; i < 4; i++) { /* too little space is left after the last block */
        take(f.l, &f.log, hash_of(n), s_ns, 1);
        assert_int_equal(weir_large_stats_get(f.l).evicted, 0);
        weir_large_reset(f.l, hash_of(n));
        port_word_store_relaxed(&f.l->blocks.head->rover, f.l->blocks.units - i);
    }
    check_whole(f.l);
    close_fixture(&f);
}

/* weir_block_sound() rejects what no allocation leaves. */
static void invalid_blocks_are_rejected(void **unused)
{
    (void)unused;
    fixture f;
    open_fixture(&f, 64 * KIB);
    take(f.l, &f.log, 5 << WEIR_CLASS_BITS, s_ns, 1);
    const weir_allocator *b = &f.l->blocks;
    uint64_t at = port_word_load_relaxed(&f.l->bucket[5]), end = b->units - 1;
    assert_true(weir_block_sound(b, at));
    assert_false(weir_block_sound(b, 0));
    assert_false(weir_block_sound(b, at + 1));
    assert_false(weir_block_sound(b, b->units));
    assert_false(weir_block_sound(b, UINT64_MAX));
    uint64_t taken = port_word_load_relaxed(&b->taken[at / 64]);
    port_word_store_relaxed(&b->taken[at / 64], taken & ~((uint64_t)1 << at % 64));
    assert_false(weir_block_sound(b, at));
    port_word_store_relaxed(&b->taken[at / 64], taken);
    port_word_store_relaxed(&b->taken[end / 64], (uint64_t)1 << end % 64);
    port_word_store_relaxed(&b->begins[end / 64], (uint64_t)1 << end % 64);
    assert_false(weir_block_sound(b, end)); /* its header would not fit */
    port_word_store_relaxed(&weir_block_at(b, at)->shape, UINT64_MAX);
    assert_false(weir_block_sound(b, at));
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
    uint64_t refused = weir_large_stats_get(f.l).refused;
    size_t stripe = weir_large_stripe(f.l, 5);
    weir_large_lock(f.l, stripe);
    for (int i = 0; i < 100; i++) { /* a refused try uses up nothing of the transaction */
        weir_large_call again = call_of(&f.log, ((uint64_t)1 << 40) + 5, s_ns, &c);
        again.when_full = WEIR_REFUSE;
        assert_int_equal(weir_large_try(f.l, &again), WEIR_E_FULL);
    }
    weir_large_roll_back(f.l, stripe);
    weir_large_unlock(f.l, stripe);
    assert_int_equal(weir_large_stats_get(f.l).refused, refused + 100);
    for (uint64_t i = 0; i < 64; i++) /* advances the time of every stripe */
        weir_large_reset(f.l, i), take(f.l, &f.log, hash_of(i), 100 * s_ns, 0);
    weir_large_call call = call_of(&f.log, hash_of(n), 100 * s_ns, &c);
    call.when_full = WEIR_REFUSE;
    assert_int_equal(weir_large_run(f.l, &call), WEIR_OK);
    assert_int_equal(weir_large_stats_get(f.l).evicted, 0);
    close_fixture(&f);
}

static weir_status spoil(void *ctx, const weir_policy *p, uint64_t *state, unsigned level,
                         int64_t now_ns, weir_usage *ret_usage)
{
    (void)now_ns;
    (void)ret_usage;
    for (size_t i = 0; i < weir_state_words(p, level); i++)
        state[i] = i;
    return *(weir_status *)ctx;
}

/* A call that fails changes no word of a state of any size. A time beyond the range is not used. */
static void failed_calls_change_nothing(void **unused)
{
    (void)unused;
    static const char *const texts[] = {"sliding-slices 100/h slices 100",
                                        "sliding-slices 100/h slices 122",
                                        "sliding-slices 100/h slices 600"};
    for (size_t i = 0; i < 3; i++) {
        fixture f;
        open_fixture(&f, 64 * KIB);
        weir_policy p = policy_of(texts[i]);
        weir_status st = WEIR_E_RANGE;
        for (int64_t n = 0; n < 50; n++)
            take(f.l, &p, 5, n * 72 * s_ns, 1);
        const weir_large_call call = {.policy = &p,
                                      .hash = 5,
                                      .now_ns = 3600 * s_ns,
                                      .fn = spoil,
                                      .ctx = &st,
                                      .any_words = true};
        int64_t before = take(f.l, &p, 5, call.now_ns, 0);
        assert_int_equal(weir_large_run(f.l, &call), WEIR_E_RANGE);
        assert_int_equal(take(f.l, &p, 5, call.now_ns, 0), before);
        port_word_store_relaxed(&f.l->stripe[weir_large_stripe(f.l, 5)].now_ns,
                                (uint64_t)WEIR_NOW_NS_MAX + 1);
        for (int64_t n = 50; n < 98; n++)
            assert_true(take(f.l, &p, 5, n * 72 * s_ns - 1, 2) >= 0);
        check_whole(f.l);
        close_fixture(&f);
    }
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

/* The journal has space for a fixed number of words, and for more if the caller may use it. */
static void journal_is_full(void **unused)
{
    (void)unused;
    fixture f;
    open_fixture(&f, 64 * KIB);
    weir_allocator *b = &f.l->blocks;
    weir_stripe *s = &f.l->stripe[1];
    port_word *const word = (port_word *)b->base, *const two[] = {word, word + 1};
    weir_large_lock(f.l, 1);
    for (int i = 0; i < (WEIR_JOURNAL_MAX - WEIR_JOURNAL_SPARE) / 2; i++) {
        assert_true(weir_stripe_journal(s, b, two, 2, false));
        port_word_store_relaxed(word, (uint64_t)i + 1);
    }
    assert_false(weir_stripe_journal(s, b, two, 1, false));
    for (int i = 0; i < WEIR_JOURNAL_SPARE / 2; i++)
        assert_true(weir_stripe_journal(s, b, two, 2, true));
    assert_false(weir_stripe_journal(s, b, two, 1, true));
    assert_int_equal(port_word_load_relaxed(&s->journal_len), WEIR_JOURNAL_MAX);
    weir_stripe_undo(s, b, 4);
    assert_int_equal(port_word_load_relaxed(word), 2);
    weir_large_roll_back(f.l, 1);
    assert_int_equal(port_word_load_relaxed(word), 0);
    weir_large_unlock(f.l, 1);
    check_whole(f.l);
    close_fixture(&f);
}

/* A process was killed between a commit and the release of its pending words, in every stripe but
 * one. An eviction that takes over such a stripe repairs it. */
static void eviction_takes_over_stripes(void **unused)
{
    (void)unused;
    fixture f;
    open_fixture(&f, 64 * KIB);
    for (uint64_t n = 0; n < 2000; n++)
        take(f.l, &f.log, hash_of(n), s_ns, 1);
    for (size_t i = 1; i < f.l->stripes; i++) {
        weir_stripe *s = &f.l->stripe[i];
        port_word_store_relaxed(&s->lock, 9);
        port_word_store_relaxed(&s->pending_used, 1);
        port_word_store_relaxed(&s->pending[0], (uint64_t)1 << 40); /* of a block that is gone */
    }
    for (uint64_t n = 0; n < 1000; n++)
        take(f.l, &f.log, hash_of(5000 + n) & ~((f.l->stripes << WEIR_CLASS_BITS) - 1), s_ns, 1);
    WEIR_CHECK(weir_large_check(f.l));
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
    assert_int_equal(weir_large_put(f.l, &good), WEIR_OK); /* idle by now: not stored */
    assert_int_equal(weir_large_stats_get(f.l).keys, 1);
    weir_large_reset(f.l, 1);
    assert_int_equal(weir_large_put(f.l, &good), WEIR_OK);
    assert_int_equal(weir_large_stats_get(f.l).keys, 0);
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(opening),
        cmocka_unit_test(logs_are_sized_by_what_they_hold),
        cmocka_unit_test(answers_equal_the_core),
        cmocka_unit_test(full_and_refilled),
        cmocka_unit_test(wide_among_small),
        cmocka_unit_test(closest_to_idle_is_evicted),
        cmocka_unit_test(a_growing_log_is_not_evicted_for_itself),
        cmocka_unit_test(idle_are_dropped_at_once),
        cmocka_unit_test(lost_blocks_are_found),
        cmocka_unit_test(a_state_as_large_as_the_memory_fits),
        cmocka_unit_test(search_wraps),
        cmocka_unit_test(invalid_blocks_are_rejected),
        cmocka_unit_test(journal_is_full),
        cmocka_unit_test(eviction_takes_over_stripes),
        cmocka_unit_test(wide_is_evicted_for_wide),
        cmocka_unit_test(refusing_when_full),
        cmocka_unit_test(tries_are_kept_or_dropped),
        cmocka_unit_test(tries_add_up),
        cmocka_unit_test(failed_calls_change_nothing),
        cmocka_unit_test(tries_have_an_end),
        cmocka_unit_test(contents_move),
        cmocka_unit_test(bad_contents),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
