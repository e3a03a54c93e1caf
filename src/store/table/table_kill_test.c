/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* A table in memory that survives its processes: children that are killed while they work, an
 * interrupted displacement, and damaged memory. */

#include "store/kill_kit_test.h"
#include "store/table/table_kit_test.h"

enum {
    KEYS = 20, /* whose charges are counted */
    POLICIES = 5,
    FILLERS = 900, /* more than the table can hold */
    BYTES = WEIR_TABLE_BYTES_MIN,
    BEGUN = 400000, /* of a million, so that every filler is closer to idle */
};

/* Shared by all children, beside the part. */
typedef struct ground {
    port_counter answered[KEYS]; /* units that were returned as charged */
    kill_shared kills;
} ground;

typedef struct arena {
    ground *shared;
    void *part;
    weir_policy policy[POLICIES], filler[2];
} arena;

static const weir_policy *policy_of_key(const arena *a, uint64_t key)
{
    return &a->policy[key % POLICIES];
}

static uint64_t hash_of_key(const arena *a, uint64_t key)
{
    return classed(mix(key), policy_of_key(a, key));
}

static void charge_counted(arena *a, weir_table *t, uint64_t key, bool hot)
{
    charge c = {.cost = 1};
    if (charge_key(t, policy_of_key(a, key), hash_of_key(a, key), s_ns, hot, &c) == WEIR_OK &&
        c.decision.allowed)
        port_add_relaxed(&a->shared->answered[key], 1);
}

static bool all_allowed(void *ctx, const weir_table_one *ones)
{
    (void)ctx;
    const charge *one = ones[0].ctx, *two = ones[1].ctx;
    return one->decision.allowed && two->decision.allowed;
}

static void finished(void *ctx, bool written)
{
    *(bool *)ctx = written;
}

static void charge_two(arena *a, weir_table *t, uint64_t key)
{
    uint64_t other = (key + 7) % KEYS;
    charge charges[2] = {{.cost = 1}, {.cost = 1}};
    weir_table_one ones[2] = {
        {policy_of_key(a, key), hash_of_key(a, key), check, &charges[0], WEIR_OK, NULL},
        {policy_of_key(a, other), hash_of_key(a, other), check, &charges[1], WEIR_OK, NULL}};
    bool written = false;
    assert_int_equal(weir_table_run_many(t, ones, 2, s_ns, all_allowed, finished, &written),
                     WEIR_OK);
    assert_true(written);
    port_add_relaxed(&a->shared->answered[key], 1);
    port_add_relaxed(&a->shared->answered[other], 1);
}

static void work(void *ctx, const weir_processes *processes, uint64_t rounds)
{
    arena *a = ctx;
    weir_table *t = open_part(a->part, BYTES, processes, false);
    uint64_t seed = (processes->self << 32) + port_load_relaxed(&a->shared->kills.rounds);
    for (; rounds > 0; rounds--) {
        uint64_t x = next_random(&seed), n = (x >> 8) % FILLERS;
        uint64_t filler = classed(mix(1000 + n), &a->filler[n % 2]);
        charge c = {.cost = 1 + (int64_t)(x >> 50 & 7)};
        port_add_relaxed(&a->shared->kills.rounds, 1);
        switch (x & 7) {
        case 0:
            charge_two(a, t, (x >> 8) % KEYS);
            break;
        case 1:
            weir_table_reset(t, filler);
            break;
        case 2:
        case 3:
        case 4:
            assert_int_equal(charge_key(t, &a->filler[n % 2], filler, s_ns, x >> 40 & 1, &c),
                             WEIR_OK);
            break;
        default:
            charge_counted(a, t, (x >> 8) % KEYS, x >> 40 & 1);
        }
    }
    weir_table_close(t);
}

static void open_arena(arena *a)
{
    static const char *const texts[POLICIES] = {
        "gcra 1/s burst 1000000", "gcra 3/s burst 1000000", "sliding-counter 1000000/h",
        "fixed-window 1000000/h", "gcra 1/s burst 1000000 & sliding-counter 1000000/h"};
    *a = (arena){.shared = part_of(sizeof *a->shared), .part = part_of(BYTES)};
    for (int i = 0; i < POLICIES; i++)
        a->policy[i] = policy_of(texts[i]);
    a->filler[0] = policy_of("gcra 1/s burst 100000");
    a->filler[1] = policy_of("gcra 7/s burst 100000");
    weir_table *t = open_part(a->part, BYTES, &alone, false);
    for (uint64_t key = 0; key < KEYS; key++) {
        charge c = {.cost = BEGUN};
        assert_int_equal(charge_key(t, policy_of_key(a, key), hash_of_key(a, key), s_ns, false, &c),
                         WEIR_OK);
    }
    weir_table_close(t);
}

/* Every charge that was returned has survived. At most one more charge for each killed child has
 * survived. No lock stays locked, and nothing is dropped as damaged. */
static void answers_survive(void **unused)
{
    (void)unused;
    arena a;
    open_arena(&a);
    kill_run run = {.shared = &a.shared->kills, .work = work, .ctx = &a, .gap_max = 4000};
    assert_true(kill_many(&run));
    weir_processes processes = kill_processes(&a.shared->kills, 1);
    weir_table *t = open_part(a.part, BYTES, &processes, false);
    int64_t more = 0, all = 0;
    for (uint64_t key = 0; key < KEYS; key++) {
        charge c = {.cost = 0};
        assert_int_equal(
            charge_key(t, policy_of_key(&a, key), hash_of_key(&a, key), s_ns, key % 2, &c),
            WEIR_OK);
        int64_t charged = 1000000 - BEGUN - c.decision.remaining;
        int64_t answered = (int64_t)port_load_relaxed(&a.shared->answered[key]);
        if (charged < answered)
            fail_msg("key %d: %d charged, %d answered, %d damaged", (int)key, (int)charged,
                     (int)answered, (int)weir_table_stats_get(t).damaged);
        more += charged - answered;
        all += charged;
    }
    assert_true(more <= 2 * (KILLS + CHILDREN));
    assert_true(all > KILLS);
    weir_table_stats stats = weir_table_stats_get(t);
    assert_int_equal(stats.damaged, 0);
    assert_true(stats.evicted > 0);
    int64_t keys = 0;
    for (uint64_t b = 0; b < t->array.buckets_len; b++) {
        weir_line l;
        weir_bucket_copy(&t->array, &t->array.buckets[b], &l);
        keys += __builtin_popcount(weir_line_live(&l));
    }
    int64_t wrong = keys - (int64_t)stats.keys; /* counted, but not written before the kill */
    assert_in_range(wrong + 5 * (KILLS + CHILDREN), 0, 10 * (KILLS + CHILDREN));
    WEIR_CHECK(weir_table_check(t, true));
    weir_table_close(t);
    munmap(a.part, BYTES);
    munmap(a.shared, sizeof *a.shared);
}

/* ---- an interrupted displacement ------------------------------------------------------------- */

/* A key is in both of its buckets, with an older state in the alternate one. When the key is
 * displaced there, it is not found twice. */
static void older_copy(void **unused)
{
    (void)unused;
    void *part = part_of(BYTES);
    weir_table *t = open_part(part, BYTES, &alone, false);
    weir_policy tat = policy_of("gcra 1/s burst 100"), ticks = policy_of("gcra 7/s burst 100");
    for (uint64_t n = 0; n < 4; n++) {
        charge c = {.cost = 50};
        assert_int_equal(charge_key(t, &tat, colliding(n), s_ns, true, &c), WEIR_OK);
    }
    weir_bucket_pair at = weir_bucket_pair_of(t, colliding(0));
    weir_bucket_entry older = {
        .tag = at.tag, .fresh_at_ns = 20 * s_ns, .form = WEIR_FORM_TIME, .alternate = true};
    weir_line old;
    weir_bucket_lock(&t->array, at.alternate, &old);
    weir_line line = old;
    weir_line_add(&line, &older);
    weir_bucket_commit(&t->array, at.alternate, &old, &line);
    weir_bucket_lock(&t->array, at.first, &old);
    line = old;
    line.word[0] |= WEIR_OVERFLOWED;
    weir_bucket_commit(&t->array, at.first, &old, &line);
    charge c = {.cost = 0}; /* the first bucket is searched first */
    assert_int_equal(charge_key(t, &tat, colliding(0), s_ns, true, &c), WEIR_OK);
    assert_int_equal(c.decision.remaining, 50);
    for (int64_t cost = 30; cost >= 0; cost -= 30) { /* does not fit into the first bucket */
        c.cost = cost;
        assert_int_equal(charge_key(t, &ticks, colliding(0), s_ns, true, &c), WEIR_OK);
        assert_int_equal(c.decision.remaining, 70);
    }
    weir_bucket_copy(&t->array, at.alternate, &line);
    assert_int_equal(__builtin_popcount(weir_line_live(&line)), 1);
    weir_table_reset(t, colliding(0));
    c.cost = 0;
    assert_int_equal(charge_key(t, &ticks, colliding(0), s_ns, true, &c), WEIR_OK);
    assert_int_equal(c.decision.remaining, 100);
    weir_table_close(t);
    munmap(part, BYTES);
}

/* ---- damaged memory -------------------------------------------------------------------------- */

static void use_damaged(weir_table *t, const weir_policy *p, size_t policies, uint64_t *seed)
{
    for (uint64_t i = 0; i < 400; i++) {
        uint64_t x = next_random(seed), key = x % 900;
        charge one = {.cost = (int64_t)(x >> 20 & 3)}, two = one;
        weir_status st = charge_key(t, &p[key % policies], mix(key), s_ns + (int64_t)i * s_ns / 100,
                                    x >> 40 & 1, &one);
        assert_true(st == WEIR_OK || st == WEIR_E_FULL || st == WEIR_E_RANGE);
        if (i % 16 == 0)
            weir_table_reset(t, mix(next_random(seed) % 900));
        if (i % 16 == 1) {
            bool written;
            weir_table_one ones[2] = {{&p[0], mix(key), check, &one, WEIR_OK, NULL},
                                      {&p[1], mix(key + 1), check, &two, WEIR_OK, NULL}};
            one.decision.allowed = two.decision.allowed = false;
            (void)weir_table_run_many(t, ones, 2, s_ns, all_allowed, finished, &written);
        }
    }
    uint64_t sum = 0;
    weir_table_each(t, sum_words, &sum);
    (void)weir_table_stats_get(t);
}

/* Damages some words: no crash, and every call returns. Locks without an owner are removed. */
static void damage_is_survived(void **unused)
{
    (void)unused;
    enum { TIMES = 1000 };
    /* A bucket that is locked by this very process is waited for, since another thread may hold it.
     * So the id is one that damage hardly ever names: small numbers are common in states. */
    const weir_processes self = {.self = 0xab5c7};
    weir_policy p[] = {policy_of("gcra 9/s burst 40"), policy_of("sliding-counter 90/s"),
                       policy_of("gcra 7/s burst 9"), policy_of("gcra 9/s & fixed-window 50/s"),
                       policy_of("sliding-log 2/s")};
    uint64_t *part = part_of(BYTES), seed = 1, damaged = 0;
    const size_t len = BYTES / sizeof *part;
    for (int n = 0; n < TIMES; n++) {
        uint64_t kind = next_random(&seed) % 4, count = 1 + next_random(&seed) % 256;
        size_t from = next_random(&seed) % (len - count);
        for (size_t i = from; i < from + count; i++)
            part[i] = kind == 0   ? 0
                      : kind == 1 ? next_random(&seed)
                      : kind == 2 ? part[i] ^ (uint64_t)1 << next_random(&seed) % 64
                                  : part[(i * 7919 + from) % len];
        part[0] %= (uint64_t)2 * (uint64_t)s_ns; /* the table's time is tested elsewhere */
        weir_table *t = open_part(part, BYTES, &self, n % 2);
        use_damaged(t, p, sizeof p / sizeof p[0], &seed);
        damaged += weir_table_stats_get(t).damaged;
        weir_table_close(t);
        if (n % 50 == 49)
            memset(part, 0, BYTES);
    }
    assert_true(damaged > 0);
    munmap(part, BYTES);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(older_copy),
        cmocka_unit_test(damage_is_survived),
        cmocka_unit_test(answers_survive),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
