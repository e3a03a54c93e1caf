/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* A call on the fast path is interrupted by a call of another thread, at each of its accesses to
 * the table. The outcome must be the same as if one call had followed the other. This file includes
 * table_word.c, to interrupt it. */

#include "port/atomic.h"

static void maybe_interrupt(void);

static inline uint64_t load_acquire(const port_word *w)
{
    maybe_interrupt();
    return port_word_load_acquire(w);
}

static inline uint64_t load_relaxed(const port_word *w)
{
    maybe_interrupt();
    return port_word_load_relaxed(w);
}

static inline bool cas_acquire(port_word *w, uint64_t *from, uint64_t to)
{
    maybe_interrupt();
    return port_word_cas_acquire(w, from, to);
}

#define port_word_load_acquire load_acquire
#define port_word_load_relaxed load_relaxed
#define port_word_cas_acquire  cas_acquire
#include "store/table/cuckoo.h"

static unsigned slow_runs; /* calls that the fast path has left to table_run.c */

static weir_status take_slowly(weir_table *t, weir_take_call *a, uint64_t hash, int64_t now_ns)
{
    slow_runs++;
    return weir_table_take(t, a, hash, now_ns);
}

#define weir_table_take take_slowly
#include "store/table/table_word.c"
#undef weir_table_take
#undef port_word_load_acquire
#undef port_word_load_relaxed
#undef port_word_cas_acquire

#include "store/table/table_kit_test.h"

enum { BYTES = WEIR_TABLE_BYTES_MIN, KEYS_MAX = 16, FULL = WEIR_LINE_ENTRIES, NEW = KEYS_MAX - 1 };

static const int64_t at_ns = 20 * 1000000000LL;

typedef struct key {
    uint64_t hash;
    const weir_policy *policy;
} key;

/* The table of a scene. The interrupted call is on key 0. */
static struct {
    weir_table *table;
    weir_policy tat, ticks;
    key of[KEYS_MAX]; /* of[NEW] is absent, and has the same buckets as key 0 */
    size_t len;
} scene;

static int64_t charge_at(const key *k, int64_t now_ns, int64_t cost)
{
    charge c = {.cost = cost};
    assert_int_equal(charge_key(scene.table, k->policy, k->hash, now_ns, true, &c), WEIR_OK);
    return c.decision.allowed ? c.decision.remaining : -1;
}

static int64_t charge_one(const key *k, int64_t cost)
{
    return charge_at(k, at_ns, cost);
}

static const key *add_key(uint64_t hash, const weir_policy *p)
{
    assert_true(scene.len < NEW);
    scene.of[scene.len] = (key){hash, p};
    return &scene.of[scene.len++];
}

/* ---- scenes ---------------------------------------------------------------------------------- */

static void no_keys(void)
{
    add_key(colliding(0), &scene.tat);
}

static void others_and_the_key(unsigned others)
{
    const key *k = add_key(colliding(0), &scene.tat);
    for (unsigned n = 1; n <= others; n++)
        charge_one(add_key(colliding(n), &scene.tat), 10 + n);
    charge_one(k, 30);
}

static void in_the_first_bucket(void)
{
    others_and_the_key(2);
}

static void in_the_alternate_bucket(void)
{
    others_and_the_key(FULL);
}

/* The first bucket has space again. */
static void in_the_alternate_bucket_alone(void)
{
    others_and_the_key(FULL);
    weir_table_reset(scene.table, colliding(2));
}

static void in_a_mixed_bucket(void)
{
    others_and_the_key(1);
    charge_one(add_key(colliding(9), &scene.ticks), 10);
}

static void absent_from_full(unsigned others)
{
    add_key(colliding(0), &scene.tat);
    for (unsigned n = 1; n <= others; n++)
        charge_one(add_key(colliding(n), &scene.tat), 10 + n);
}

static void absent_from_a_full_bucket(void)
{
    absent_from_full(FULL);
}

static void absent_from_two(void)
{
    absent_from_full(2 * FULL);
}

static void absent_from_two_in_vain(void)
{
    absent_from_full(2 * FULL);
    port_store_relaxed(&scene.table->head->counts[0].skip, 9);
}

static void absent_and_one_is_idle(void)
{
    add_key(colliding(0), &scene.tat);
    for (unsigned n = 1; n <= 2 * FULL; n++)
        charge_at(add_key(colliding(n), &scene.tat), at_ns - 5 * s_ns, n == 6 ? 2 : 50 + n);
    weir_table_now(scene.table, at_ns);
}

static void (*const scenes[])(void) = {
    no_keys,
    in_the_first_bucket,
    in_the_alternate_bucket,
    in_the_alternate_bucket_alone,
    in_a_mixed_bucket,
    absent_from_a_full_bucket,
    absent_from_two,
    absent_from_two_in_vain,
    absent_and_one_is_idle,
};

/* ---- the other thread ------------------------------------------------------------------------ */

static int64_t charge_the_key(void)
{
    return charge_one(&scene.of[0], 1);
}

static int64_t charge_a_new_key(void)
{
    return charge_one(&scene.of[NEW], 1);
}

static int64_t charge_a_neighbour(void)
{
    return charge_one(&scene.of[scene.len > 1], 1);
}

static int64_t reset_the_key(void)
{
    weir_table_reset(scene.table, scene.of[0].hash);
    return 0;
}

/* The new key takes the place of the key. */
static int64_t replace_the_key(void)
{
    weir_table_reset(scene.table, scene.of[0].hash);
    return charge_one(&scene.of[NEW], 60);
}

/* Moves the key to its other bucket if it fits there. */
static int64_t move_the_key(void)
{
    weir_locked_bucket of[WEIR_LOCK_SET_ONE_KEY];
    weir_lock_set h = {0, WEIR_LOCK_SET_ONE_KEY, of};
    weir_bucket_pair at = weir_bucket_pair_of(scene.table, scene.of[0].hash);
    unsigned i;
    weir_lock_set_pair(scene.table, &h, &at);
    weir_locked_bucket *from = weir_lock_set_find_key(&h, &at, &i);
    weir_locked_bucket *to = from == &of[0] ? &of[1] : &of[0];
    if (i < WEIR_LINE_ENTRIES && weir_line_fits(&to->line, WEIR_FORM_TIME)) {
        weir_bucket_entry e = weir_line_get(&from->line, i);
        weir_line_drop(&from->line, 1u << i);
        e.alternate = !e.alternate;
        weir_line_add(&to->line, &e);
        weir_lock_set_find(&h, at.first)->line.word[0] |= WEIR_OVERFLOWED;
    }
    weir_lock_set_commit(&h);
    return 0;
}

static int64_t (*const rivals[])(void) = {charge_the_key, charge_a_new_key, charge_a_neighbour,
                                          reset_the_key,  replace_the_key,  move_the_key};

/* ---- interruptions --------------------------------------------------------------------------- */

static struct {
    unsigned left; /* accesses until the interruption; 0: none */
    bool again;    /* interrupt all later accesses, too */
    int64_t (*rival)(void);
    int64_t result;
    unsigned ran;
} point;

/* Runs the rival, unless it would wait for a lock of the interrupted call. */
static void maybe_interrupt(void)
{
    if (point.left == 0 || --point.left > 0)
        return;
    weir_bucket_pair at = weir_bucket_pair_of(scene.table, scene.of[0].hash);
    if (!weir_is_locked(at.first) && !weir_is_locked(at.alternate)) {
        point.result = point.rival();
        point.ran++;
    }
    point.left = point.again;
}

/* The results of both calls, and what remains of each key. */
typedef struct results {
    int64_t call, rival, remaining[KEYS_MAX];
} results;

static results results_of(int64_t call, int64_t rival)
{
    results r = {.call = call, .rival = rival};
    for (size_t i = 0; i < scene.len; i++)
        r.remaining[i] = charge_one(&scene.of[i], 0);
    r.remaining[NEW] = charge_one(&scene.of[NEW], 0);
    check_whole(scene.table);
    return r;
}

static void prepare(void (*what)(void))
{
    memset(scene.table->head, 0, BYTES);
    scene.len = 0;
    scene.of[NEW] = (key){colliding(500), &scene.tat};
    what();
}

static void run_race(void (*what)(void), int64_t (*rival)(void), int64_t cost)
{
    bool reached = true;
    prepare(what);
    int64_t first = charge_one(&scene.of[0], cost), second = rival();
    const results in_order = results_of(first, second);
    prepare(what);
    first = rival();
    second = charge_one(&scene.of[0], cost);
    const results reversed = results_of(second, first);
    for (unsigned n = 1; reached; n++) {
        prepare(what);
        point.ran = 0;
        point.rival = rival;
        point.left = n;
        int64_t result = charge_one(&scene.of[0], cost);
        reached = point.left == 0;
        point.left = 0;
        results got = results_of(result, point.ran > 0 ? point.result : rival());
        if (memcmp(&got, &in_order, sizeof got) != 0 && memcmp(&got, &reversed, sizeof got) != 0)
            fail_msg("interrupted before access %u", n);
    }
}

static int open_scene(void **state)
{
    (void)state;
    scene.tat = policy_of("gcra 1/s burst 100");
    scene.ticks = policy_of("gcra 7/h burst 100");
    scene.table = open_part(part_of(BYTES), BYTES, &alone, false);
    return 0;
}

static int close_scene(void **state)
{
    (void)state;
    void *part = scene.table->head;
    weir_table_close(scene.table);
    munmap(part, BYTES);
    return 0;
}

static void interrupted_once(void **state)
{
    (void)state;
    for (size_t s = 0; s < sizeof scenes / sizeof scenes[0]; s++) {
        for (size_t r = 0; r < sizeof rivals / sizeof rivals[0]; r++) {
            for (int64_t cost = 0; cost <= 1; cost++)
                run_race(scenes[s], rivals[r], cost);
        }
    }
}

/* Only in a bucket with other states does the fast path leave a call to table_run.c. */
static void not_interrupted(void **state)
{
    (void)state;
    for (size_t s = 0; s < sizeof scenes / sizeof scenes[0]; s++) {
        for (int64_t cost = 0; cost <= 1; cost++) {
            prepare(scenes[s]);
            slow_runs = 0;
            charge_one(&scene.of[0], cost);
            assert_int_equal(slow_runs, scenes[s] == in_a_mixed_bucket);
        }
    }
}

/* The call ends even if the bucket changes each time, and charges once. */
static void interrupted_again_and_again(void **state)
{
    (void)state;
    for (int64_t cost = 0; cost <= 1; cost++) {
        prepare(in_the_first_bucket);
        point.ran = 0;
        point.rival = charge_a_neighbour;
        point.again = true;
        point.left = 1;
        assert_int_equal(charge_one(&scene.of[0], cost), 70 - cost);
        point.left = point.again = 0;
        assert_in_range(point.ran, WEIR_TRIES, 80);
        assert_int_equal(charge_one(&scene.of[0], 0), 70 - cost);
        assert_int_equal(charge_one(&scene.of[1], 0), 89 - point.ran);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(interrupted_once, open_scene, close_scene),
        cmocka_unit_test_setup_teardown(not_interrupted, open_scene, close_scene),
        cmocka_unit_test_setup_teardown(interrupted_again_and_again, open_scene, close_scene),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
