/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* A child runs one call on the table and is stopped after each instruction. If the instruction
 * changed the memory, a copy of the memory is what a kill would leave behind. The copy is opened,
 * and each key must have its old state or its new one, even if the call displaced it. */

#include "store/kill_kit_test.h"
#include "store/table/table_kit_test.h"

enum { BYTES = WEIR_TABLE_BYTES_MIN, KEYS_MAX = 800, CROWD = 680 };

typedef struct key {
    uint64_t hash;
    const weir_policy *policy;
} key;

/* The keys and policies of a scene. */
typedef struct cast {
    weir_policy tat, ticks, counter, log, pair, tats;
    key of[KEYS_MAX];
    size_t len;
} cast;

static cast c;

static const int64_t at_ns = 20 * 1000000000LL;

static key *add(uint64_t hash, const weir_policy *p)
{
    c.of[c.len] = (key){hash, p};
    return &c.of[c.len++];
}

static int64_t take(weir_table *t, const key *k, int64_t now_ns, bool hot, int64_t cost)
{
    charge ch = {.cost = cost};
    assert_int_equal(charge_key(t, k->policy, k->hash, now_ns, hot, &ch), WEIR_OK);
    return ch.decision.allowed ? ch.decision.remaining : -1;
}

/* ---- scenes ---------------------------------------------------------------------------------- */

/* A call on key 0, and what to do before it. */
typedef struct scene {
    const char *name;
    void (*prepare)(weir_table *t);
    void (*act)(weir_table *t);
} scene;

static void no_keys(weir_table *t)
{
    (void)t;
    add(colliding(0), &c.tat);
}

static void a_few(weir_table *t)
{
    const weir_policy *const of[] = {&c.tat, &c.tat, &c.ticks, &c.counter, &c.tat, &c.ticks};
    for (uint64_t n = 0; n < 6; n++)
        take(t, add(colliding(n), of[n]), at_ns, false, 10 + (int64_t)n);
}

static void a_few_of_two_words(weir_table *t)
{
    const weir_policy *const of[] = {&c.ticks, &c.tat, &c.ticks, &c.counter};
    for (uint64_t n = 0; n < 4; n++)
        take(t, add(colliding(n), of[n]), at_ns, false, 10 + (int64_t)n);
}

static void layers(weir_table *t)
{
    const weir_policy *const of[] = {&c.pair, &c.pair, &c.tat, &c.tats, &c.tats};
    for (uint64_t n = 0; n < 5; n++)
        take(t, add(colliding(n), of[n]), at_ns, true, 10 + (int64_t)n);
}

static void layers_of_gcra(weir_table *t)
{
    const weir_policy *const of[] = {&c.tats, &c.tat, &c.tats, &c.pair};
    for (uint64_t n = 0; n < 4; n++)
        take(t, add(colliding(n), of[n]), at_ns, true, 10 + (int64_t)n);
}

static void a_large_count(weir_table *t)
{
    const weir_policy *const of[] = {&c.counter, &c.tat, &c.tat, &c.ticks, &c.ticks};
    for (uint64_t n = 0; n < 5; n++)
        take(t, add(colliding(n), of[n]), at_ns, false, n == 0 ? 65535 : 10);
}

/* Hashes whose first bucket, number 150, comes after the alternate one, number 58. */
static uint64_t backwards(uint64_t n)
{
    return 0xc800000086000000 | n << 32;
}

/* The first bucket is full. */
static void a_large_count_in_a_full_bucket(weir_table *t)
{
    take(t, add(backwards(0), &c.counter), at_ns, false, 65535);
    take(t, add(backwards(1), &c.ticks), at_ns, true, 10);
    take(t, add(backwards(2), &c.counter), at_ns, true, 65536);
}

static void four(weir_table *t)
{
    add(colliding(0), &c.tat);
    for (uint64_t n = 1; n <= 4; n++)
        take(t, add(colliding(n), &c.tat), at_ns, true, 10 + (int64_t)n);
}

/* The first bucket has overflowed: another key was added to the alternate one. */
static void five(weir_table *t)
{
    add(colliding(0), &c.tat);
    for (uint64_t n = 1; n <= 5; n++)
        take(t, add(colliding(n), &c.tat), at_ns, true, 10 + (int64_t)n);
}

/* Key 0 is in its first bucket. */
static void four_with_the_key(weir_table *t)
{
    for (uint64_t n = 0; n < 4; n++)
        take(t, add(colliding(n), &c.tat), at_ns, true, 10 + (int64_t)n);
}

/* Key 0 is in its alternate bucket: its first one is full. */
static void five_with_the_key(weir_table *t)
{
    key *first = add(colliding(0), &c.tat);
    for (uint64_t n = 1; n <= 4; n++)
        take(t, add(colliding(n), &c.tat), at_ns, true, 10 + (int64_t)n);
    take(t, first, at_ns, true, 20);
}

static void four_of_which_one_is_idle(weir_table *t)
{
    add(colliding(0), &c.tat);
    for (uint64_t n = 1; n <= 4; n++)
        take(t, add(colliding(n), &c.tat), at_ns - 5 * s_ns, true, n == 2 ? 2 : 90);
    weir_table_now(t, at_ns);
}

static void eight(weir_table *t)
{
    add(colliding(0), &c.tat);
    for (uint64_t n = 1; n <= 8; n++)
        take(t, add(colliding(n), &c.tat), at_ns, true, 10 + (int64_t)n);
}

/* Both buckets are full, and some of their entries can be displaced. */
static void four_loners_each(weir_table *t)
{
    add(colliding(0), &c.tat);
    for (uint64_t n = 0; n < 4; n++) {
        take(t, add(loner(0x0123, 8 + n), &c.tat), at_ns, true, 50);
        take(t, add(loner(0x4567, 8 + n), n % 2 ? &c.ticks : &c.tat), at_ns, true, 60);
    }
}

static void loners_and_a_log(weir_table *t)
{
    four_loners_each(t);
    c.of[0].policy = &c.log;
}

static void many_loners(weir_table *t)
{
    for (uint64_t n = 0; n < 4; n++)
        add(colliding(n), n == 1 ? &c.ticks : &c.tat);
    for (uint64_t n = 0; n < 4; n++) {
        take(t, add(loner(0x0123, 8 + n), &c.tat), at_ns, true, 50);
        take(t, add(loner(0x4567, 8 + n), &c.tat), at_ns, true, 60);
    }
}

/* The table is so full that an insertion displaces several entries in a row. Both buckets of key 0
 * are full. */
static void a_crowd(weir_table *t)
{
    key *first = add(0, &c.tat);
    for (uint64_t n = 0; n < CROWD; n++)
        take(t, add(mix(n), n % 9 ? &c.tat : &c.ticks), at_ns, true, 50);
    weir_line one, two;
    uint64_t n = CROWD;
    do {
        first->hash = mix(n++);
        weir_bucket_pair at = weir_bucket_pair_of(t, first->hash);
        weir_bucket_copy(&t->array, at.first, &one);
        weir_bucket_copy(&t->array, at.alternate, &two);
    } while (weir_line_fits(&one, WEIR_FORM_TIME) || weir_line_fits(&two, WEIR_FORM_TIME));
}

static void charge_hot(weir_table *t)
{
    take(t, &c.of[0], at_ns, true, 1);
}

static void charge_one(weir_table *t)
{
    take(t, &c.of[0], at_ns, false, 1);
}

static void reset_one(weir_table *t)
{
    weir_table_reset(t, c.of[0].hash);
}

static void put_one(weir_table *t)
{
    weir_key_state stored = {c.of[0].hash, at_ns + 77 * s_ns, WEIR_FORM_TIME, 0, 0, NULL, 0};
    assert_int_equal(weir_table_put(t, &stored), WEIR_OK);
}

static bool keep_them(void *ctx, const weir_table_one *ones)
{
    (void)ones;
    return *(bool *)ctx;
}

static void is_finished(void *ctx, bool written)
{
    assert_int_equal(written, *(bool *)ctx);
}

static void charge_many(weir_table *t, bool keep)
{
    enum { LEN = 4 };
    weir_table_one ones[LEN];
    charge charges[LEN];
    for (size_t i = 0; i < LEN; i++) {
        charges[i].cost = 1;
        ones[i] = (weir_table_one){c.of[i].policy, c.of[i].hash, check, &charges[i], WEIR_OK, NULL};
    }
    assert_int_equal(weir_table_run_many(t, ones, LEN, at_ns, keep_them, is_finished, &keep),
                     WEIR_OK);
}

static void charge_and_keep(weir_table *t)
{
    charge_many(t, true);
}

static void charge_and_drop(weir_table *t)
{
    charge_many(t, false);
}

static const scene scenes[] = {
    {"a new key", no_keys, charge_hot},
    {"a new key, without the fast path", no_keys, charge_one},
    {"an update", four_with_the_key, charge_hot},
    {"an update in the alternate bucket", five_with_the_key, charge_hot},
    {"an update of two words", a_few_of_two_words, charge_one},
    {"an update in a mixed bucket", a_few, charge_hot},
    {"an update of two layers", layers, charge_hot},
    {"an update of two layers of gcra", layers_of_gcra, charge_hot},
    {"an update to a larger form", a_large_count, charge_one},
    {"an update that moves to the other bucket", a_large_count_in_a_full_bucket, charge_one},
    {"a new key in its alternate bucket", four, charge_hot},
    {"a new key in its alternate bucket, as another one before", five, charge_hot},
    {"the same, without the fast path", five, charge_one},
    {"a new key in the place of an idle one", four_of_which_one_is_idle, charge_hot},
    {"the same, without the fast path", four_of_which_one_is_idle, charge_one},
    {"an eviction", eight, charge_hot},
    {"a displacement", four_loners_each, charge_hot},
    {"displacements for a larger entry", loners_and_a_log, charge_one},
    {"displacements in a row", a_crowd, charge_hot},
    {"a reset", a_few, reset_one},
    {"a copied state", a_few_of_two_words, put_one},
    {"a transaction", a_few, charge_and_keep},
    {"a transaction with new keys", many_loners, charge_and_keep},
    {"a transaction that is rolled back", a_few, charge_and_drop},
};

/* ---- stepping -------------------------------------------------------------------------------- */

static void look_at(weir_table *t, int64_t ret[KEYS_MAX])
{
    for (size_t i = 0; i < c.len; i++)
        ret[i] = take(t, &c.of[i], at_ns, i % 2, 0);
}

typedef struct stepping {
    const scene *scene;
    stepped_memory m;
    int64_t idle[KEYS_MAX], before[KEYS_MAX], after[KEYS_MAX], now[KEYS_MAX];
} stepping;

static size_t buckets_len(void)
{
    return (BYTES - sizeof(weir_table_head)) / sizeof(weir_bucket);
}

static const weir_line *bucket_in(const unsigned char *part, size_t i)
{
    return (const weir_line *)(part + sizeof(weir_table_head)) + i;
}

/* Checks that the child changes only buckets that it has locked. */
static void check_locks(const stepping *s)
{
    for (size_t i = 0; i < buckets_len(); i++) {
        const weir_line *was = bucket_in(s->m.last, i), *is = bucket_in(s->m.part, i);
        bool same = memcmp(was->word + 1, is->word + 1, sizeof *is - sizeof is->word[0]) == 0;
        if (!same && !(was->word[0] & is->word[0] & WEIR_LOCKED))
            fail_msg("%s: an unlocked bucket changed", s->scene->name);
        if (was->word[0] != is->word[0] && !((was->word[0] | is->word[0]) & WEIR_LOCKED))
            fail_msg("%s: the header of an unlocked bucket changed", s->scene->name);
    }
}

/* Opens a copy, as the next process after the kill. Each key that is there can be charged, once. */
static void check_copy(void *copy, const int64_t idle[KEYS_MAX], int64_t ret[KEYS_MAX])
{
    static const weir_processes heir = {.self = 3};
    weir_table *t = open_part(copy, BYTES, &heir, false);
    look_at(t, ret);
    for (size_t i = 0; i < c.len; i++) {
        if (ret[i] < idle[i] && ret[i] > 0)
            assert_int_equal(take(t, &c.of[i], at_ns, i % 2 == 0, 1), ret[i] - 1);
    }
    for (size_t i = 0; i < c.len; i++) {
        if (ret[i] < idle[i] && ret[i] > 0)
            assert_int_equal(take(t, &c.of[i], at_ns, i % 2, 0), ret[i] - 1);
    }
    for (uint64_t b = 0; b < t->array.buckets_len; b++) {
        weir_line l;
        weir_bucket_copy(&t->array, &t->array.buckets[b], &l); /* repairs a locked bucket */
        assert_int_equal(l.word[0] & WEIR_LOCKED, 0);
    }
    WEIR_CHECK(weir_table_check(t, true));
    assert_int_equal(weir_table_stats_get(t).damaged, 0);
    weir_table_close(t);
}

static int act(void *ctx)
{
    static const weir_processes child = {.self = 2};
    const stepping *s = ctx;
    weir_table *t = open_part(s->m.part, BYTES, &child, false);
    if (!step_begin())
        return 1;
    s->scene->act(t);
    return 0;
}

static void check_step(void *ctx, int changes)
{
    stepping *s = ctx;
    check_locks(s);
    check_copy(s->m.copy, s->idle, s->now);
    for (size_t i = 0; i < c.len; i++) {
        if (s->now[i] != s->before[i] && s->now[i] != s->after[i])
            fail_msg("%s, after write %d: key %zu has %d", s->scene->name, changes, i,
                     (int)s->now[i]);
    }
    memcpy(s->before, s->now, sizeof s->now); /* no key returns to its old state */
}

/* Returns false if the system does not allow tracing. */
static bool run_scene(const scene *sc, stepping *s)
{
    s->scene = sc;
    memset(s->m.part, 0, BYTES);
    memset(s->m.copy, 0, BYTES);
    c.len = 0;
    weir_table *t = open_part(s->m.part, BYTES, &alone, false);
    sc->prepare(t);
    weir_table *twin = open_part(s->m.copy, BYTES, &alone, false);
    look_at(twin, s->idle);
    look_at(t, s->before);
    memcpy(s->m.copy, s->m.part, BYTES);
    sc->act(twin);
    look_at(twin, s->after);
    weir_table_close(twin);
    int changes = step_child(act, &s->m, check_step, s);
    if (changes >= 0) {
        assert_true(changes >= 3);
        look_at(t, s->now);
        assert_memory_equal(s->now, s->after, c.len * sizeof *s->now);
        check_whole(t);
    }
    assert_true(changes != -2);
    weir_table_close(t);
    return changes != -1;
}

static void make_cast(void)
{
    c.tat = policy_of("gcra 1/s burst 100");
    c.ticks = policy_of("gcra 7/h burst 100");
    c.counter = policy_of("sliding-counter 1000000/s");
    c.pair = policy_of("gcra 1/s burst 100 & fixed-window 1000/h");
    c.tats = policy_of("gcra 1/s burst 100 & gcra 100/h burst 100");
    c.log = policy_of("sliding-log 2/h");
}

static void drop_memory(const stepped_memory *m)
{
    munmap(m->part, BYTES);
    munmap(m->last, BYTES);
    munmap(m->copy, BYTES);
}

static void killed_at_every_instruction(void **unused)
{
    (void)unused;
    static stepping s;
    make_cast();
    s.m = (stepped_memory){part_of(BYTES), part_of(BYTES), part_of(BYTES), BYTES, 0};
    for (size_t i = 0; i < sizeof scenes / sizeof scenes[0]; i++) {
        if (!run_scene(&scenes[i], &s)) {
            print_message("skipped: this system does not allow ptrace\n");
            skip();
        }
    }
    drop_memory(&s.m);
}

/* ---- two calls at once ----------------------------------------------------------------------- */

/* The call of a scene is interrupted by a call of this process, before it locks a bucket. The
 * outcome must be the same as if one call had followed the other. */
typedef struct race {
    stepping s;
    key rival;
    bool hot;
    int points[2], len; /* after how many instructions the scene's call is interrupted */
    bool ran;
    void *prepared;
    int64_t first[KEYS_MAX], second[KEYS_MAX]; /* what remains if the scene's call is the first */
} race;

static void note_point(void *ctx, int changes)
{
    race *r = ctx;
    for (size_t i = 0; i < buckets_len() && changes > 0; i++) {
        bool locks =
            ~bucket_in(r->s.m.last, i)->word[0] & bucket_in(r->s.m.part, i)->word[0] & WEIR_LOCKED;
        if (locks && r->len < (int)(sizeof r->points / sizeof r->points[0]))
            r->points[r->len++] = r->s.m.steps - 1;
    }
}

static void run_rival(weir_table *t, const race *r)
{
    take(t, &r->rival, at_ns, r->hot, 1);
}

static bool is_alive(const void *ctx, uint64_t id)
{
    (void)ctx;
    (void)id;
    return true;
}

/* Runs the rival, unless it would wait for a lock of the stopped child. */
static void interrupt(void *ctx)
{
    static const weir_processes beside = {.self = 1, .alive = is_alive};
    race *r = ctx;
    weir_table *t = open_part(r->s.m.part, BYTES, &beside, false);
    weir_bucket_pair at = weir_bucket_pair_of(t, r->rival.hash);
    uint64_t headers =
        port_word_load_relaxed(&at.first->word[0]) | port_word_load_relaxed(&at.alternate->word[0]);
    if (!(headers & WEIR_LOCKED)) {
        run_rival(t, r);
        r->ran = true;
    }
    weir_table_close(t);
}

/* Runs both calls one after the other. Returns false if that evicts a key. */
static bool run_in_order(race *r, bool rival_first, int64_t ret[KEYS_MAX])
{
    memcpy(r->s.m.copy, r->prepared, BYTES);
    weir_table *t = open_part(r->s.m.copy, BYTES, &alone, false);
    if (rival_first)
        run_rival(t, r);
    r->s.scene->act(t);
    if (!rival_first)
        run_rival(t, r);
    look_at(t, ret);
    bool evicted = weir_table_stats_get(t).evicted > 0;
    weir_table_close(t);
    return !evicted;
}

static void interrupt_at(race *r, int steps)
{
    memcpy(r->s.m.part, r->prepared, BYTES);
    r->ran = false;
    assert_true(interrupt_child(act, steps, interrupt, &r->s));
    weir_table *t = open_part(r->s.m.part, BYTES, &alone, false);
    if (!r->ran)
        run_rival(t, r);
    check_whole(t);
    look_at(t, r->s.now);
    size_t bytes = c.len * sizeof *r->s.now;
    if (memcmp(r->s.now, r->first, bytes) != 0 && memcmp(r->s.now, r->second, bytes) != 0)
        fail_msg("%s, interrupted after instruction %d by key %#llx", r->s.scene->name, steps,
                 (unsigned long long)r->rival.hash);
    weir_table_close(t);
}

/* Returns false if the system does not allow tracing. */
static bool run_race(race *r, const scene *sc, key rival)
{
    r->s.scene = sc;
    r->rival = rival;
    r->len = 0;
    if (!run_in_order(r, false, r->first) || !run_in_order(r, true, r->second))
        return true;
    memcpy(r->s.m.part, r->prepared, BYTES);
    int changes = step_child(act, &r->s.m, note_point, &r->s);
    assert_true(changes == -1 || changes >= 3);
    for (int i = 0; i < r->len; i++)
        interrupt_at(r, r->points[i]);
    return changes != -1;
}

/* The rival charges the same key, a new key of the same two buckets, or one whose first bucket is
 * the alternate one. */
static void interrupted_before_each_lock(void **unused)
{
    (void)unused;
    static race r;
    bool traced = true;
    make_cast();
    r.s.m = (stepped_memory){part_of(BYTES), part_of(BYTES), part_of(BYTES), BYTES, 0};
    r.prepared = part_of(BYTES);
    for (size_t i = 0; i < sizeof scenes / sizeof scenes[0] && traced; i++) {
        if (scenes[i].prepare == a_crowd)
            continue;
        memset(r.prepared, 0, BYTES);
        c.len = 0;
        weir_table *t = open_part(r.prepared, BYTES, &alone, false);
        scenes[i].prepare(t);
        weir_table_close(t);
        const key rivals[] = {c.of[0], *add(c.of[0].hash ^ 0x40, &c.tat),
                              *add(loner(0x4567, 0), &c.tat)};
        for (size_t n = 0; n < sizeof rivals / sizeof rivals[0] && traced; n++) {
            r.hot = i % 2;
            traced = run_race(&r, &scenes[i], rivals[n]);
        }
    }
    munmap(r.prepared, BYTES);
    drop_memory(&r.s.m);
    if (!traced)
        skip();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(killed_at_every_instruction),
        cmocka_unit_test(interrupted_before_each_lock),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
