/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* Large states in memory that survives its processes: children that are killed while they work, a
 * copy of the memory taken during a decision, and damaged memory. */

#include "port/random_kit_test.h"
#include "store/kill_kit_test.h"
#include "store/large/large_kit_test.h"

enum {
    KEYS = 24, /* whose charges are counted */
    POLICIES = 4,
};

/* Shared by all children, beside the part. */
typedef struct ground {
    port_counter answered[KEYS]; /* units that were returned as charged */
    port_counter clock_ns;
    kill_shared kills;
} ground;

typedef struct arena {
    ground *shared;
    void *part;
    size_t bytes;
    weir_policy policy[POLICIES], filler;
    uint64_t fillers; /* number of other keys */
} arena;

/* The hash of a counted key. Some of these keys share a stripe. */
static uint64_t key_hash(uint64_t key)
{
    return hash_of(key) & ~(uint64_t)3;
}

static const weir_policy *key_policy(const arena *a, uint64_t key)
{
    return &a->policy[key % POLICIES];
}

static void charge_key(arena *a, weir_large *l, uint64_t key, int64_t now_ns)
{
    charge c = {.cost = 1};
    weir_large_call call = call_of(key_policy(a, key), key_hash(key), now_ns, &c);
    if (weir_large_run(l, &call) == WEIR_OK && c.decision.allowed)
        port_add_relaxed(&a->shared->answered[key], 1);
}

/* Charges two keys in one transaction, and commits it or rolls it back. */
static void charge_two(arena *a, weir_large *l, uint64_t key, int64_t now_ns, bool keep)
{
    uint64_t keys[2] = {key, (key + 5) % KEYS};
    size_t stripe = weir_large_stripe(l, key_hash(key));
    bool good = weir_large_stripe(l, key_hash(keys[1])) == stripe;
    weir_large_lock(l, stripe);
    for (int i = 0; i < 2 && good; i++) {
        charge c = {.cost = 1};
        weir_large_call call = call_of(key_policy(a, keys[i]), key_hash(keys[i]), now_ns, &c);
        good = weir_large_try(l, &call) == WEIR_OK && c.decision.allowed;
    }
    if (good && keep)
        weir_large_commit(l, stripe);
    else
        weir_large_roll_back(l, stripe);
    weir_large_unlock(l, stripe);
    for (int i = 0; i < 2 && good && keep; i++)
        port_add_relaxed(&a->shared->answered[keys[i]], 1);
}

static void work(void *ctx, const weir_processes *processes, uint64_t rounds)
{
    arena *a = ctx;
    weir_large *l = open_part(a->part, a->bytes, false, processes);
    uint64_t x = hash_of(processes->self);
    for (; rounds > 0; rounds--) {
        x = x * 6364136223846793005 + 1442695040888963407;
        int64_t now_ns = s_ns + (int64_t)port_add_relaxed(&a->shared->clock_ns, 1);
        uint64_t key = (x >> 33) % KEYS;
        port_add_relaxed(&a->shared->kills.rounds, 1);
        switch (x >> 61) {
        case 0:
            charge_two(a, l, key, now_ns, x >> 50 & 1);
            break;
        case 1:
            weir_large_reset(l, hash_of(1000 + (x >> 40) % a->fillers));
            break;
        case 2:
        case 3: {
            charge c = {.cost = 1};
            weir_large_call call =
                call_of(&a->filler, hash_of(1000 + (x >> 40) % a->fillers), now_ns, &c);
            assert_int_equal(weir_large_run(l, &call), WEIR_OK);
            break;
        }
        default:
            charge_key(a, l, key, now_ns);
        }
    }
    weir_large_close(l);
}

static void open_arena(arena *a, size_t bytes, uint64_t fillers)
{
    static const char *const texts[POLICIES] = {
        "sliding-log 1000000/d", "sliding-slices 1000000/d slices 1000",
        "sliding-log 1000000/d & sliding-slices 2000000/d slices 100",
        "sliding-log 1000000/d & gcra 2000000/d burst 2000000 & sliding-log 1500000/d"};
    *a = (arena){.shared = part_of(sizeof *a->shared), .part = part_of(bytes), .bytes = bytes};
    for (int i = 0; i < POLICIES; i++)
        a->policy[i] = policy_of(texts[i]);
    a->filler = policy_of("sliding-log 100/m");
    a->fillers = fillers;
    weir_large_close(open_part(a->part, bytes, true, &alone));
}

/* Kills children while they work, and opens the memory afterwards. */
static weir_large *open_after_kills(arena *a)
{
    static weir_processes processes;
    kill_run run = {.shared = &a->shared->kills, .work = work, .ctx = a, .gap_max = 2000};
    assert_true(kill_many(&run));
    processes = kill_processes(&a->shared->kills, 1);
    weir_large *l = open_part(a->part, a->bytes, false, &processes);
    check_whole(l);
    return l;
}

/* Every charge that was returned has survived. At most one more transaction for each killed child
 * has survived, and only as a whole. */
static void answers_survive(void **unused)
{
    (void)unused;
    arena a;
    open_arena(&a, 64 * MIB, 2000);
    weir_large *l = open_after_kills(&a);
    assert_int_equal(weir_large_stats_get(l).evicted, 0);
    int64_t now_ns = s_ns + (int64_t)port_load_relaxed(&a.shared->clock_ns), more = 0, all = 0;
    for (uint64_t key = 0; key < KEYS; key++) {
        int64_t charged = 1000000 - take(l, key_policy(&a, key), key_hash(key), now_ns, 0);
        int64_t answered = (int64_t)port_load_relaxed(&a.shared->answered[key]);
        assert_true(charged >= answered);
        more += charged - answered;
        all += charged;
    }
    assert_true(more <= 2 * (KILLS + CHILDREN));
    assert_true(all > KILLS);
    weir_large_close(l);
    munmap(a.part, a.bytes);
    munmap(a.shared, sizeof *a.shared);
}

/* The same with a full memory: keys are evicted, and no memory leaks. */
static void memory_survives(void **unused)
{
    (void)unused;
    arena a;
    open_arena(&a, 256 * KIB, 5000);
    for (int i = 0; i < POLICIES; i++)
        a.policy[i] = policy_of("sliding-log 300/s & sliding-slices 1000/s slices 100");
    weir_large *l = open_after_kills(&a);
    assert_true(weir_large_stats_get(l).evicted > 0);
    weir_large_close(l);
    munmap(a.part, a.bytes);
    munmap(a.shared, sizeof *a.shared);
}

/* ---- a copy during a decision ---------------------------------------------------------------- */

typedef struct snapshot {
    charge charge;
    void *part, *copy;
    size_t bytes;
    int64_t after_ns;
} snapshot;

/* Decides, and copies all of the memory before the commit. */
static weir_status check_and_copy(void *ctx, const weir_policy *p, uint64_t *state, unsigned level,
                                  int64_t now_ns, weir_usage *ret_usage)
{
    (void)ret_usage;
    snapshot *s = ctx;
    weir_status st = weir_check(p, state, level, now_ns, s->charge.cost, &s->charge.decision);
    memcpy(s->copy, s->part, s->bytes);
    return st;
}

/* For each kind of state, growing or not: the copy has the old state. */
static void copies_in_the_middle(void **unused)
{
    (void)unused;
    static const char *const texts[] = {
        "sliding-log 100/m", "sliding-log 100/m count-denied", "sliding-slices 100/m slices 600",
        "sliding-log 100/m & gcra 100/m burst 100 & sliding-slices 100/m slices 2000"};
    snapshot s = {.part = part_of(MIB), .copy = part_of(MIB), .bytes = MIB};
    weir_processes other = {.self = 2};
    weir_large *l = open_part(s.part, MIB, true, &alone);
    for (uint64_t t = 0; t < sizeof texts / sizeof texts[0]; t++) {
        weir_policy p = policy_of(texts[t]);
        for (int i = 0; i < 300; i++) {
            int64_t now_ns = s_ns + i * s_ns / 2;
            int64_t before = take(l, &p, t, now_ns, 0);
            s.charge.cost = 1 + i % 3;
            weir_large_call call = {
                .policy = &p, .hash = t, .now_ns = now_ns, .fn = check_and_copy, .ctx = &s};
            assert_int_equal(weir_large_run(l, &call), WEIR_OK);
            weir_large *copy = open_part(s.copy, MIB, false, &other);
            assert_int_equal(take(copy, &p, t, now_ns, 0), before);
            check_whole(copy);
            weir_large_close(copy);
        }
    }
    weir_large_close(l);
    munmap(s.part, MIB);
    munmap(s.copy, MIB);
}

/* ---- damaged memory -------------------------------------------------------------------------- */

/* Damages some words: with zeros, random words, flipped bits, or the words of another place, as in
 * an old page. */
static void scribble(unsigned char *part, size_t bytes, uint64_t *x)
{
    uint64_t *words = (uint64_t *)part, kind = next_random(x) % 4;
    size_t len = bytes / 8, from = 2 + next_random(x) % (len - 1024 - 2);
    if (next_random(x) % 2) /* often the part before the blocks */
        from = 2 + next_random(x) % 4096;
    size_t count = kind == 3 ? 512 : 1 + next_random(x) % 64;
    for (size_t i = from; i < from + count; i++)
        words[i] = kind == 0   ? 0
                   : kind == 1 ? next_random(x)
                   : kind == 2 ? words[i] ^ (uint64_t)1 << next_random(x) % 64
                               : words[2 + (i * 7919 + from) % (len - 2)];
}

static void use_damaged(weir_large *l, const weir_policy *p, size_t policies, uint64_t *x)
{
    weir_large_hint hints[WEIR_LARGE_HINTS_MAX];
    for (uint64_t i = 0; i < 200; i++) {
        for (size_t k = 0; k < WEIR_LARGE_HINTS_MAX && i % 32 == 0; k++) {
            uint64_t key = next_random(x) % 1500;
            hints[k] = (weir_large_hint){l, &p[key % policies], hash_of(key)};
        }
        if (i % 32 == 0)
            weir_large_prefetch(hints, WEIR_LARGE_HINTS_MAX);
        charge c = {.cost = (int64_t)(next_random(x) % 3)};
        uint64_t key = next_random(x) % 1500;
        weir_large_call call =
            call_of(&p[key % policies], hash_of(key), s_ns + (int64_t)i * s_ns / 100, &c);
        weir_status st = weir_large_run(l, &call);
        assert_true(st == WEIR_OK || st == WEIR_E_NOMEM || st == WEIR_E_RANGE || st == WEIR_E_BUSY);
        if (i % 16 == 0)
            weir_large_reset(l, hash_of(next_random(x) % 1500));
    }
    uint64_t sum = 0;
    weir_large_each(l, sum_words, &sum);
}

/* No crash, and every call returns. */
static void damage_is_survived(void **unused)
{
    (void)unused;
    enum { BYTES = 256 * KIB, TIMES = 1500 };
    weir_policy p[] = {policy_of("sliding-log 40/s"), policy_of("sliding-slices 90/s slices 200"),
                       policy_of("sliding-log 9/s & gcra 9/s burst 20 & sliding-log 70/s")};
    void *part = part_of(BYTES), *good = part_of(BYTES);
    uint64_t x = 1, damaged = 0;
    weir_large *l = open_part(good, BYTES, true, &alone);
    use_damaged(l, p, 3, &x);
    for (uint64_t key = 0; key < 1500; key++)
        take(l, &p[key % 3], hash_of(key), s_ns, 1);
    check_whole(l);
    weir_large_close(l);
    for (int n = 0; n < TIMES; n++) {
        if (n % 8 == 0)
            memcpy(part, good, BYTES);
        scribble(part, BYTES, &x);
        l = open_part(part, BYTES, false, &alone);
        use_damaged(l, p, 3, &x);
        damaged += weir_large_stats_get(l).damaged;
        weir_large_close(l);
    }
    assert_true(damaged > 0);
    munmap(part, BYTES);
    munmap(good, BYTES);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(copies_in_the_middle),
        cmocka_unit_test(damage_is_survived),
        cmocka_unit_test(answers_survive),
        cmocka_unit_test(memory_survives),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
