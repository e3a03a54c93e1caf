/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* Floods of new keys: they do not evict keys that have used up their limit, whatever the policies
 * of both. bench/flood.c does the same with more keys. */

#include "store/large/large.h"
#include "store/table/table_kit_test.h"

enum {
    TABLE_BYTES = 56 << 10,
    LARGE_BYTES = 64 << 10,
    VICTIMS = 10,
    FLOOD = 4000, /* several times what the memory holds */
};

static const int64_t now_ns = 1767225600000000000;

/* One for each algorithm and for each form in the table. A request takes a quarter of the limit at
 * most. */
static const char *const texts[] = {
    "gcra 10/m burst 5",
    "gcra 3/s burst 4",
    "token-bucket 10 refill 5 every 1h",
    "leaky-bucket 1/s capacity 6",
    "leaky-queue 1/s depth 4",
    "fixed-window 100/d",
    "fixed-window 9/day",
    "fixed-window 20/h count-denied",
    "sliding-counter 100/m",
    "sliding-counter 100000/m",
    "sliding-log 5/m",
    "sliding-log 5/d",
    "sliding-slices 60/m slices 6",
    "sliding-slices 60/h slices 12",
    "gcra 10/s burst 10 & gcra 1000/h burst 1000",
    "gcra 1000/h burst 1000 & fixed-window 10000/d",
};
enum { POLICIES = sizeof texts / sizeof texts[0] };

typedef struct memory {
    weir_table *table;
    weir_large *large;
} memory;

/* Charges key number `key`. Returns whether it was allowed. */
static bool charge_number(const memory *m, const weir_policy *p, uint64_t key, int64_t cost)
{
    charge c = {.cost = cost};
    uint64_t hash = classed(mix(key), p);
    weir_large_call call = {.policy = p, .hash = hash, .now_ns = now_ns, .fn = check, .ctx = &c};
    weir_status st = weir_table_words(p) > 0 ? charge_key(m->table, p, hash, now_ns, true, &c)
                                             : weir_large_run(m->large, &call);
    assert_int_equal(st, WEIR_OK);
    return c.decision.allowed;
}

static void flood(const char *victim_text, const char *text, uint64_t *ret_evicted)
{
    const weir_policy victim_policy = policy_of(victim_text), *victim = &victim_policy;
    const weir_policy attacker_policy = policy_of(text), *attacker = &attacker_policy;
    memory m;
    void *table = part_of(TABLE_BYTES), *large = part_of(LARGE_BYTES);
    assert_int_equal(weir_table_open(&m.table, table, TABLE_BYTES, &alone, false), WEIR_OK);
    assert_int_equal(weir_large_open(&m.large, large, LARGE_BYTES, true, &alone), WEIR_OK);
    int64_t limit = victim->layer[0].limit;
    for (uint64_t key = 0; key < VICTIMS; key++)
        assert_true(charge_number(&m, victim, key, limit));
    for (uint64_t key = 0; key < FLOOD; key++)
        assert_true(charge_number(&m, attacker, VICTIMS + key, 1));
    for (uint64_t key = 0; key < VICTIMS; key++)
        if (charge_number(&m, victim, key, 1))
            fail_msg("%s was flooded with %s: key %d has its limit again", victim_text, text,
                     (int)key);
    *ret_evicted += weir_table_stats_get(m.table).evicted + weir_large_stats_get(m.large).evicted;
    weir_table_close(m.table);
    weir_large_close(m.large);
    munmap(table, TABLE_BYTES);
    munmap(large, LARGE_BYTES);
}

/* Floods each policy's keys with each policy. */
static void a_flood_forgives_nothing(void **state)
{
    (void)state;
    for (size_t i = 0; i < POLICIES; i++) {
        uint64_t evicted = 0;
        for (size_t j = 0; j < POLICIES; j++)
            flood(texts[j], texts[i], &evicted);
        assert_true(evicted > POLICIES * FLOOD / 4); /* the memory was full */
    }
}

/* A wide state needs the space of many narrow ones, and every fifth of these has used much. Each
 * new state evicts few keys, although no place is free of such keys. */
static void a_wide_state_evicts_few(void **state)
{
    (void)state;
    enum { PART = 4 << 20, NARROW = 60000, WIDE = 40, MOST = 600 };
    void *part = part_of(PART);
    memory m = {NULL, NULL};
    assert_int_equal(weir_large_open(&m.large, part, PART, true, &alone), WEIR_OK);
    weir_policy narrow = policy_of("sliding-log 100/h");
    weir_policy wide = policy_of("sliding-slices 1000/h slices 2000");
    for (uint64_t key = 0; key < NARROW; key++)
        assert_true(charge_number(&m, &narrow, key, key % 5 == 0 ? 60 : 1));
    uint64_t before = weir_large_stats_get(m.large).evicted;
    assert_true(before > 0); /* the memory is full */
    for (uint64_t key = 0; key < WIDE; key++) {
        assert_true(charge_number(&m, &wide, NARROW + key, 1));
        uint64_t evicted = weir_large_stats_get(m.large).evicted;
        assert_in_range(evicted - before, 0, MOST);
        before = evicted;
    }
    weir_large_close(m.large);
    munmap(part, PART);
}

/* A flood through the public functions, with two ids of one policy. */
static void a_store_forgives_nothing(void **state)
{
    (void)state;
    weir_store *s;
    const weir_store_options options = {.memory_bytes = 1 << 20};
    assert_int_equal(weir_store_open(&s, &options), WEIR_OK);
    weir_policy p = policy_of("fixed-window 4/d"), large = policy_of("sliding-log 4/d");
    const weir_policy *both[] = {&p, &large};
    for (int i = 0; i < 2; i++) {
        uint64_t id = weir_store_policy_id(s, both[i]), other = id ^ 1;
        weir_decision d;
        for (uint64_t key = 0; key < 100; key++) {
            assert_int_equal(weir_store_check(s, both[i], id, &key, sizeof key, now_ns, 4, &d),
                             WEIR_OK);
            assert_true(d.allowed);
        }
        for (uint64_t key = 0; key < 60000; key++)
            assert_int_equal(weir_store_check(s, both[i], other, &key, sizeof key, now_ns, 1, &d),
                             WEIR_OK);
        for (uint64_t key = 0; key < 100; key++) {
            assert_int_equal(weir_store_check(s, both[i], id, &key, sizeof key, now_ns, 1, &d),
                             WEIR_OK);
            assert_false(d.allowed);
        }
    }
    assert_true(weir_store_stats_get(s).evicted > 60000);
    weir_store_close(s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_flood_forgives_nothing),
        cmocka_unit_test(a_wide_state_evicts_few),
        cmocka_unit_test(a_store_forgives_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
