/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* A child runs one call and is stopped after each instruction. If the instruction changed the
 * memory, a copy of the memory is what a kill would leave behind. The copy is opened, and must hold
 * all of the old state or all of the new state, and nothing else. */

#include "store/kill_kit_test.h"
#include "store/large/large_kit_test.h"

enum { BYTES = WEIR_LARGE_BYTES_MIN, KEYS = 3 };

/* A call, and what to do before it. */
typedef struct scene {
    const char *name;
    const char *policy;
    void (*prepare)(weir_large *l, const weir_policy *p);
    void (*act)(weir_large *l, const weir_policy *p);
} scene;

static const int64_t at_ns = 20 * 1000000000LL;

static void nothing(weir_large *l, const weir_policy *p)
{
    (void)l;
    (void)p;
}

static void charge_zero(weir_large *l, const weir_policy *p)
{
    take(l, p, 0, at_ns, 1);
}

static void charge_all(weir_large *l, const weir_policy *p)
{
    for (uint64_t key = 0; key < KEYS; key++)
        take(l, p, key << (WEIR_CLASS_BITS + 6), at_ns, 2);
}

/* Four requests: with one more, the log grows. */
static void fill_level(weir_large *l, const weir_policy *p)
{
    for (int i = 4; i > 0; i--)
        take(l, p, 0, at_ns - i, 1);
}

static void fill_memory(weir_large *l, const weir_policy *p)
{
    for (uint64_t key = 0; key < 1000; key++)
        take(l, p, (100 + 7 * key) << WEIR_CLASS_BITS, at_ns - 1, 1);
}

/* A log that has grown and is idle now. */
static void grow_and_let_idle(weir_large *l, const weir_policy *p)
{
    for (int i = 0; i < 9; i++)
        take(l, p, 0, 1000000000 + i, 1);
    take(l, p, 1 << (WEIR_CLASS_BITS + 6), at_ns, 1);
}

static void reset_zero(weir_large *l, const weir_policy *p)
{
    (void)p;
    weir_large_reset(l, 0);
}

static void charge_any_words(weir_large *l, const weir_policy *p)
{
    charge c = {.cost = 1};
    weir_large_call call = call_of(p, 0, at_ns, &c);
    call.any_words = true;
    assert_int_equal(weir_large_run(l, &call), WEIR_OK);
}

static void give_back(weir_large *l, const weir_policy *p)
{
    give(l, p, 0, at_ns, 1);
}

static void try_all(weir_large *l, const weir_policy *p, bool keep)
{
    weir_large_lock(l, 0);
    for (uint64_t key = 0; key < KEYS; key++) {
        charge c = {.cost = 1};
        weir_large_call call = call_of(p, key << (WEIR_CLASS_BITS + 6), at_ns, &c);
        assert_int_equal(weir_large_try(l, &call), WEIR_OK);
    }
    if (keep)
        weir_large_commit(l, 0);
    else
        weir_large_roll_back(l, 0);
    weir_large_unlock(l, 0);
}

static void try_and_keep(weir_large *l, const weir_policy *p)
{
    try_all(l, p, true);
}

static void try_and_drop(weir_large *l, const weir_policy *p)
{
    try_all(l, p, false);
}

static void put_zero(weir_large *l, const weir_policy *p)
{
    (void)p;
    uint64_t words[8] = {(uint64_t)1 << 32, 0, 19000000000, 0, 0, 0, 7, 0};
    weir_key_state stored = {
        .fresh_at_ns = 79000000000, .form = WEIR_LARGE_FORM, .words_len = 8, .words = words};
    assert_int_equal(weir_large_put(l, &stored), WEIR_OK);
}

static const scene scenes[] = {
    {"a new key", "sliding-log 40/10s", nothing, charge_zero},
    {"a new key beside others", "sliding-log 40/10s", fill_level, charge_all},
    {"an update", "sliding-log 40/10s", charge_all, charge_zero},
    {"layers", "sliding-log 40/10s & gcra 3/s burst 9 & sliding-slices 40/10s slices 30",
     charge_all, charge_zero},
    {"a log that grows", "sliding-log 40/10s", fill_level, charge_zero},
    {"layers that grow", "sliding-log 40/10s & gcra 3/s burst 9 & sliding-log 9/10s", fill_level,
     charge_zero},
    {"an eviction", "sliding-log 40/10s", fill_memory, charge_zero},
    {"evictions to grow", "sliding-log 40/10s & sliding-log 50/10s", fill_memory, charge_all},
    {"an idle log that shrinks", "sliding-log 40/10s", grow_and_let_idle, charge_zero},
    {"an update on a copy", "sliding-slices 40/10s slices 200", charge_all, charge_any_words},
    {"a reset", "sliding-log 40/10s", charge_all, reset_zero},
    {"a refund", "sliding-log 40/10s", fill_level, give_back},
    {"a transaction", "sliding-log 40/10s", fill_level, try_and_keep},
    {"a transaction that is rolled back", "sliding-log 40/10s", fill_level, try_and_drop},
    {"a copied state", "sliding-log 40/10s", charge_all, put_zero},
};

/* What is left of some keys. */
static void look_at(weir_large *l, const weir_policy *p, int64_t ret[KEYS])
{
    for (uint64_t key = 0; key < KEYS; key++)
        ret[key] = take(l, p, key << (WEIR_CLASS_BITS + 6), at_ns, 0);
}

/* Opens a copy, as the next process after the kill. */
static void check_copy(void *copy, const weir_policy *p, int64_t ret[KEYS])
{
    static const weir_processes heir = {.self = 3};
    weir_large *l = open_part(copy, BYTES, false, &heir);
    check_whole(l); /* locks everything, and so repairs it */
    look_at(l, p, ret);
    weir_large_close(l);
}

/* Two processes that repair a copy at the same time. */
typedef struct heirs {
    weir_large *first, *second;
    const weir_policy *policy;
    bool done;
} heirs;

/* When the first heir waits for the allocator's lock, which the child held, and owns the stripe
 * that the child had locked, the second heir takes that lock over and allocates blocks for keys of
 * other stripes. */
static bool alive_to_first(const void *ctx, uint64_t id)
{
    heirs *h = *(heirs *const *)ctx;
    if (id == 2 && weir_index_is_locked(h->first, &h->first->stripe[0]) && !h->done) {
        h->done = true;
        for (uint64_t key = 0; key < 3; key++)
            take(h->second, h->policy, (101 + 4 * key) << WEIR_CLASS_BITS, at_ns, 1);
    }
    return false;
}

static bool alive_to_second(const void *ctx, uint64_t id)
{
    (void)ctx;
    return id == 3;
}

/* Opens a copy in two processes, if the child held the allocator's lock. Both repair it. */
static void check_two_heirs(void *copy, const weir_policy *p)
{
    heirs h = {.policy = p}, *at = &h;
    const weir_processes first = {3, alive_to_first, &at}, second = {4, alive_to_second, NULL};
    h.first = open_part(copy, BYTES, false, &first);
    h.second = open_part(copy, BYTES, false, &second);
    if (port_word_load_relaxed(&h.first->blocks.head->lock) == 2) {
        int64_t ignored[KEYS];
        look_at(h.first, p, ignored);
        check_whole(h.first);
    }
    weir_large_close(h.second);
    weir_large_close(h.first);
}

/* Whether each key has its old value or its new one. With `at_once`, all keys change together. */
static bool either(const int64_t now[KEYS], const int64_t before[KEYS], const int64_t after[KEYS],
                   bool at_once)
{
    int changed = 0, could = 0;
    for (int i = 0; i < KEYS; i++) {
        if (now[i] != before[i] && now[i] != after[i])
            return false;
        changed += now[i] != before[i];
        could += after[i] != before[i];
    }
    return !at_once || changed == 0 || changed == could;
}

typedef struct stepping {
    const scene *scene;
    weir_policy policy;
    stepped_memory m;
    unsigned char *twice; /* another copy of the memory */
    int64_t before[KEYS], after[KEYS], now[KEYS];
} stepping;

static int act(void *ctx)
{
    static const weir_processes child = {.self = 2};
    const stepping *s = ctx;
    weir_large *l = open_part(s->m.part, BYTES, false, &child);
    if (!step_begin())
        return 1;
    s->scene->act(l, &s->policy);
    return 0;
}

static void check_step(void *ctx, int changes)
{
    stepping *s = ctx;
    memcpy(s->twice, s->m.copy, BYTES);
    check_copy(s->m.copy, &s->policy, s->now);
    check_two_heirs(s->twice, &s->policy);
    if (!either(s->now, s->before, s->after, s->scene->act != charge_all))
        fail_msg("%s, after write %d", s->scene->name, changes);
    memcpy(s->before, s->now, sizeof s->now); /* no key returns to its old state */
}

/* Returns false if the system does not allow tracing. */
static bool run_scene(const scene *sc, stepping *s)
{
    s->scene = sc;
    s->policy = policy_of(sc->policy);
    memset(s->m.part, 0, BYTES);
    weir_large *l = open_part(s->m.part, BYTES, true, &alone);
    sc->prepare(l, &s->policy);
    look_at(l, &s->policy, s->before);
    memcpy(s->m.copy, s->m.part, BYTES);
    weir_large *twin = open_part(s->m.copy, BYTES, false, &alone);
    sc->act(twin, &s->policy);
    look_at(twin, &s->policy, s->after);
    weir_large_close(twin);
    int changes = step_child(act, &s->m, check_step, s);
    if (changes >= 0) {
        assert_true(changes > 10);
        look_at(l, &s->policy, s->now);
        assert_memory_equal(s->now, s->after, sizeof s->now);
    }
    assert_true(changes != -2);
    weir_large_close(l);
    return changes != -1;
}

static void killed_at_every_instruction(void **unused)
{
    (void)unused;
    stepping s = {.m = {part_of(BYTES), part_of(BYTES), part_of(BYTES), BYTES, 0},
                  .twice = part_of(BYTES)};
    for (size_t i = 0; i < sizeof scenes / sizeof scenes[0]; i++) {
        if (!run_scene(&scenes[i], &s)) {
            print_message("skipped: this system does not allow ptrace\n");
            skip();
        }
    }
    munmap(s.m.part, BYTES);
    munmap(s.m.last, BYTES);
    munmap(s.m.copy, BYTES);
    munmap(s.twice, BYTES);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(killed_at_every_instruction),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
