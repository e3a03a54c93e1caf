/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* Ranges: tables that divide the buckets of one memory. */

#include "store/table/table_kit_test.h"

enum { RANGES = 3, MEMORY = 1 << 20, KEYS = 2000 };

static const size_t sizes[RANGES - 1] = {WEIR_TABLE_RANGE_MIN, 3 * WEIR_TABLE_RANGE_MIN};

typedef struct fixture {
    void *part;
    weir_table *of[RANGES];
    weir_policy tat, wide;
} fixture;

static void open_ranges(fixture *f)
{
    assert_int_equal(
        weir_table_open_split(f->of, f->part, MEMORY, &alone, false, sizes, RANGES - 1), WEIR_OK);
}

static void open_fixture(fixture *f)
{
    *f = (fixture){.part = part_of(MEMORY),
                   .tat = policy_of("gcra 1/s burst 100"),
                   .wide = policy_of("sliding-counter 100/h")};
    open_ranges(f);
}

static void close_ranges(fixture *f)
{
    for (size_t i = 0; i < RANGES; i++)
        weir_table_close(f->of[i]);
}

static void close_fixture(fixture *f)
{
    close_ranges(f);
    munmap(f->part, MEMORY);
}

/* Charges key n in a range. Returns what remains. */
static int64_t take(fixture *f, size_t range, const weir_policy *p, uint64_t n, int64_t cost)
{
    charge c = {.cost = cost};
    assert_int_equal(charge_key(f->of[range], p, classed(mix(n), p), s_ns, n % 2 == 0, &c),
                     WEIR_OK);
    return c.decision.remaining;
}

/* The ranges are disjoint, and lie before the counters. */
static void buckets_are_divided(void **state)
{
    (void)state;
    fixture f;
    open_fixture(&f);
    const weir_bucket_array *all = &f.of[0]->array;
    const weir_bucket *next = all->buckets;
    for (size_t i = 0; i < RANGES; i++) {
        assert_ptr_equal(f.of[i]->buckets, next);
        next += f.of[i]->buckets_len;
        if (i > 0)
            assert_int_equal(f.of[i]->buckets_len, sizes[i - 1] / 64 - WEIR_COUNTS_LEN);
    }
    assert_ptr_equal(next, all->buckets + all->buckets_len);
    assert_ptr_equal(next, f.of[1]->counts);
    assert_ptr_equal(f.of[2]->counts + WEIR_COUNTS_LEN, (char *)f.part + MEMORY);
    close_fixture(&f);
}

/* A flood of new keys in one range evicts no key of another, for each form of entry. */
static void a_flood_stays_in_its_range(void **state)
{
    (void)state;
    for (size_t flooded = 0; flooded < RANGES; flooded++) {
        fixture f;
        open_fixture(&f);
        for (size_t i = 0; i < RANGES; i++) {
            for (uint64_t n = 0; n < KEYS / 2; n++)
                take(&f, i, n % 3 ? &f.tat : &f.wide, n, 10);
        }
        uint64_t before[RANGES];
        for (size_t i = 0; i < RANGES; i++)
            before[i] = weir_table_stats_get(f.of[i]).evicted;
        for (uint64_t n = KEYS; n < KEYS + 100000; n++)
            take(&f, flooded, n % 5 ? &f.tat : &f.wide, n, 60);
        for (size_t i = 0; i < RANGES; i++) {
            check_whole(f.of[i]);
            uint64_t evicted = weir_table_stats_get(f.of[i]).evicted - before[i];
            assert_true(i == flooded ? evicted > 1000 : evicted == 0);
            for (uint64_t n = 0; n < KEYS / 2 && i != flooded; n++)
                assert_int_equal(take(&f, i, n % 3 ? &f.tat : &f.wide, n, 0), 90);
        }
        close_fixture(&f);
    }
}

typedef struct seen {
    weir_table *table;
    uint64_t keys;
    bool whole; /* the hashes are those of take() */
} seen;

static bool see(void *ctx, const weir_key_state *stored)
{
    seen *s = ctx;
    uint64_t units = 0;
    for (uint64_t n = 0; n < 10 && s->whole; n++)
        units += (stored->hash ^ mix(n)) >> WEIR_CLASS_BITS == 0;
    assert_true(units == 1 || !s->whole);
    s->keys++;
    return weir_table_put(s->table, stored) == WEIR_OK;
}

/* A key of one range is absent from the others, but they have one time. */
static void each_range_has_its_own_keys(void **state)
{
    (void)state;
    fixture f;
    open_fixture(&f);
    for (size_t i = 0; i < RANGES; i++) {
        for (uint64_t n = 0; n < 10 * i; n++)
            assert_int_equal(take(&f, i, &f.tat, n, 50), 50);
    }
    assert_int_equal(weir_table_now(f.of[2], 0), s_ns);
    assert_int_equal(weir_table_now(f.of[0], 5 * s_ns), 5 * s_ns);
    assert_int_equal(weir_table_now(f.of[1], 0), 5 * s_ns);
    for (size_t i = 0; i < RANGES; i++) {
        seen s = {.table = f.of[i]};
        assert_true(weir_table_each(f.of[i], see, &s));
        assert_int_equal(s.keys, 10 * i);
        assert_int_equal(check_whole(f.of[i]), 10 * i);
    }
    weir_table_reset(f.of[0], classed(mix(3), &f.tat));
    assert_int_equal(check_whole(f.of[1]), 10);
    weir_table_reset(f.of[1], classed(mix(3), &f.tat));
    assert_int_equal(check_whole(f.of[1]), 9);
    close_ranges(&f);
    open_ranges(&f); /* another opening finds them there */
    assert_int_equal(check_whole(f.of[1]), 9);
    assert_int_equal(check_whole(f.of[2]), 20);
    close_fixture(&f);
}

/* A range of 2^16 buckets returns whole hashes. */
static void whole_hashes(void **state)
{
    (void)state;
    enum { BYTES = 12 << 20 };
    void *part = part_of(BYTES);
    const size_t size[] = {WEIR_TABLE_BYTES_WHOLE};
    weir_table *of[2];
    weir_policy tat = policy_of("gcra 1/s burst 100");
    assert_int_equal(weir_table_open_split(of, part, BYTES, &alone, false, size, 1), WEIR_OK);
    for (size_t i = 0; i < 2; i++) {
        charge c = {.cost = 1};
        for (uint64_t n = 0; n < 10; n++)
            assert_int_equal(charge_key(of[i], &tat, classed(mix(n), &tat), s_ns, true, &c),
                             WEIR_OK);
        seen s = {.table = of[1 - i], .whole = true};
        assert_true(weir_table_each(of[i], see, &s));
        assert_int_equal(s.keys, 10);
        weir_table_close(i == 1 ? of[0] : NULL);
    }
    assert_int_equal(check_whole(of[1]), 10);
    weir_table_close(of[1]);
    munmap(part, BYTES);
}

static bool keep(void *ctx, const weir_table_one *ones)
{
    (void)ones;
    return *(bool *)ctx;
}

static void finish(void *ctx, bool written)
{
    assert_true(written == *(bool *)ctx);
}

/* A transaction on keys of several ranges commits all or none, and each range counts its own. */
static void transactions_over_ranges(void **state)
{
    (void)state;
    fixture f;
    open_fixture(&f);
    enum { MANY = WEIR_TABLE_MANY_MAX };
    for (uint64_t round = 0; round < 4000; round++) {
        bool commit = round % 4 != 0;
        charge c[MANY];
        weir_table_one ones[MANY];
        for (uint64_t i = 0; i < MANY; i++) {
            const weir_policy *p = i % 5 ? &f.tat : &f.wide;
            uint64_t n = round * MANY + i - i % 2 * (MANY / 4);
            c[i] = (charge){.cost = 40};
            ones[i] = (weir_table_one){p,     classed(mix(n), p), check,
                                       &c[i], WEIR_E_BUSY,        i % 4 ? f.of[i % RANGES] : NULL};
        }
        assert_int_equal(weir_table_run_many(f.of[0], ones, MANY, s_ns, keep, finish, &commit),
                         WEIR_OK);
        for (uint64_t i = 0; i < MANY && round < 10; i++) {
            weir_table *t = ones[i].table ? ones[i].table : f.of[0];
            charge now = {.cost = 0};
            assert_int_equal(weir_table_run(t, ones[i].policy, ones[i].hash, s_ns, check, &now),
                             WEIR_OK);
            if (commit)
                assert_true(now.decision.remaining <= 60);
            else
                assert_int_equal(now.decision.remaining, 100);
        }
    }
    for (size_t i = 0; i < RANGES; i++) {
        check_whole(f.of[i]);
        assert_true(i == 0 || weir_table_stats_get(f.of[i]).evicted > 100);
    }
    close_fixture(&f);
}

static void impossible_sizes(void **state)
{
    (void)state;
    void *part = part_of(MEMORY);
    weir_table *of[3] = {NULL};
    const size_t bad[][2] = {
        {WEIR_TABLE_RANGE_MIN - 64, WEIR_TABLE_RANGE_MIN},
        {WEIR_TABLE_RANGE_MIN, WEIR_TABLE_RANGE_MIN + 1},
        {MEMORY, WEIR_TABLE_RANGE_MIN},
        {MEMORY / 2, MEMORY / 2},
        {WEIR_TABLE_RANGE_MIN, MEMORY - WEIR_TABLE_RANGE_MIN - WEIR_TABLE_BYTES_MIN + 64},
        {SIZE_MAX / 64 * 64, WEIR_TABLE_RANGE_MIN}};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        assert_int_equal(weir_table_open_split(of, part, MEMORY, &alone, false, bad[i], 2),
                         WEIR_E_RANGE);
    assert_null(of[0]);
    const size_t all[] = {WEIR_TABLE_RANGE_MIN,
                          MEMORY - WEIR_TABLE_RANGE_MIN - WEIR_TABLE_BYTES_MIN};
    assert_int_equal(weir_table_open_split(of, part, MEMORY, &alone, false, all, 2), WEIR_OK);
    for (size_t i = 0; i < 3; i++)
        weir_table_close(of[i]);
    size_t many[WEIR_TABLE_RANGES_MAX + 1];
    for (size_t i = 0; i <= WEIR_TABLE_RANGES_MAX; i++)
        many[i] = WEIR_TABLE_RANGE_MIN;
    void *wide = part_of(2 * MEMORY);
    weir_table *tables[2 + WEIR_TABLE_RANGES_MAX] = {NULL};
    assert_int_equal(weir_table_open_split(tables, wide, 2 * MEMORY, &alone, false, many,
                                           WEIR_TABLE_RANGES_MAX + 1),
                     WEIR_E_RANGE);
    assert_int_equal(
        weir_table_open_split(tables, wide, 2 * MEMORY, &alone, false, many, WEIR_TABLE_RANGES_MAX),
        WEIR_OK);
    for (size_t i = 0; i <= WEIR_TABLE_RANGES_MAX; i++)
        weir_table_close(tables[i]);
    munmap(wide, 2 * MEMORY);
    munmap(part, MEMORY);
}

/* A state that does not fit into a full table changes nothing. */
static void a_state_for_a_full_table(void **state)
{
    (void)state;
    enum { BYTES = WEIR_TABLE_BYTES_MIN };
    void *part = part_of(BYTES);
    weir_table *t = NULL;
    assert_int_equal(weir_table_open(&t, part, BYTES, &alone, true), WEIR_OK);
    weir_policy tat = policy_of("gcra 1/s burst 100");
    weir_key_state stored = {.fresh_at_ns = 900 * s_ns, .form = WEIR_FORM_TIME};
    weir_status st = WEIR_OK;
    uint64_t n = 0;
    for (; st == WEIR_OK && n < 100000; n++) {
        stored.hash = classed(mix(n), &tat);
        st = weir_table_put(t, &stored);
    }
    assert_int_equal(st, WEIR_E_FULL);
    assert_int_equal(check_whole(t), n - 1);
    stored.hash = classed(mix(0), &tat);
    assert_int_equal(weir_table_put(t, &stored), WEIR_OK); /* one that is there */
    assert_int_equal(check_whole(t), n - 1);
    weir_table_close(t);
    munmap(part, BYTES);
}

/* Each of a range's counts may be below 0, after writers were killed. */
static void counts_below_0(void **state)
{
    (void)state;
    const int64_t keys = -2, units = -3;
    fixture f;
    open_fixture(&f);
    port_store_relaxed(&f.of[1]->counts[0].held, ((uint64_t)units << 32) + (uint64_t)keys);
    port_store_relaxed(&f.of[1]->counts[1].held, (UINT64_C(7) << 32) + 5);
    weir_table_stats stats = weir_table_stats_get(f.of[1]);
    assert_int_equal(stats.keys, 3);
    assert_int_equal(stats.bytes, 2 * 4);
    port_store_relaxed(&f.of[1]->counts[1].held, 0);
    stats = weir_table_stats_get(f.of[1]);
    assert_int_equal(stats.keys + stats.bytes, 0);
    close_fixture(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(buckets_are_divided),         cmocka_unit_test(a_flood_stays_in_its_range),
        cmocka_unit_test(each_range_has_its_own_keys), cmocka_unit_test(whole_hashes),
        cmocka_unit_test(transactions_over_ranges),    cmocka_unit_test(impossible_sizes),
        cmocka_unit_test(a_state_for_a_full_table),    cmocka_unit_test(counts_below_0),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
