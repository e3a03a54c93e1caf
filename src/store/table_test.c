/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* The table under hashes that are chosen to collide, which nobody can do through the store. */

#include "store/table.h"

#include "store/bucket.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

static const int64_t s_ns = 1000000000;

/* Hashes that differ in their middle bits alone: in a small table they share both buckets. */
static uint64_t colliding(uint64_t n)
{
    return 0x0123000000000000 | 0x45670000 | (n & 0xffff) | (n >> 16 & 0xffff) << 32;
}

enum {
    CELLS = 2, /* of an entry of `tat` */
    FULL = WEIR_BUCKET_ROOM / CELLS,
};

typedef struct fixture {
    weir_table *table;
    weir_policy tat, counter, window;
} fixture;

static weir_policy policy_of(const char *text)
{
    weir_policy p;
    assert_int_equal(weir_policy_parse(&p, text, strlen(text), NULL, NULL), WEIR_OK);
    return p;
}

static int open_table(void **state)
{
    static fixture f;
    f = (fixture){.tat = policy_of("gcra 1/s burst 100"),
                  .counter = policy_of("sliding-counter 100/h"),
                  .window = policy_of("fixed-window 100/h")};
    assert_int_equal(weir_table_open(&f.table, WEIR_TABLE_BYTES_MIN), WEIR_OK);
    *state = &f;
    return 0;
}

static int close_table(void **state)
{
    fixture *f = *state;
    weir_table_close(f->table);
    return 0;
}

typedef struct charge {
    int64_t cost;
    weir_decision decision;
} charge;

static weir_status check(void *ctx, const weir_policy *p, uint64_t *state, unsigned level,
                         int64_t now_ns, int64_t *ret_fresh_after_ns)
{
    (void)ret_fresh_after_ns;
    charge *c = ctx;
    return weir_check(p, state, level, now_ns, c->cost, &c->decision);
}

/* What remains of 100 after a charge; -1 if it is denied. */
static int64_t take(fixture *f, const weir_policy *p, uint64_t hash, int64_t now_ns, int64_t cost)
{
    charge c = {.cost = cost};
    assert_int_equal(weir_table_run(f->table, p, weir_table_words(p), hash, now_ns, check, &c),
                     WEIR_OK);
    return c.decision.allowed ? c.decision.remaining : -1;
}

static uint64_t keys(fixture *f)
{
    return weir_table_stats_get(f->table).keys;
}

static uint64_t evicted(fixture *f)
{
    return weir_table_stats_get(f->table).evicted;
}

static void sizes(void **state)
{
    (void)state;
    weir_policy small = policy_of("sliding-log 6/s"), log = policy_of("sliding-log 7/s"),
                slices = policy_of("sliding-slices 9/s slices 60");
    assert_int_equal(weir_table_words(&small), 11);
    assert_int_equal(weir_table_words(&log), 0);
    assert_int_equal(weir_table_words(&slices), 0);
}

/* All keys of one pair of buckets are apart, until both are full. */
static void two_buckets_fill(void **state)
{
    fixture *f = *state;
    for (int64_t n = 0; n < 2 * FULL; n++)
        assert_int_equal(take(f, &f->tat, colliding((uint64_t)n), s_ns, 1 + n), 99 - n);
    assert_int_equal(keys(f), 2 * FULL);
    assert_int_equal(evicted(f), 0);
    for (int64_t n = 0; n < 2 * FULL; n++)
        assert_int_equal(take(f, &f->tat, colliding((uint64_t)n), s_ns, 0), 99 - n);
    /* One more: the one that owes least is forgotten, and no other. */
    assert_int_equal(take(f, &f->tat, colliding(1000), s_ns, 50), 50);
    assert_int_equal(keys(f), 2 * FULL);
    assert_int_equal(evicted(f), 1);
    assert_int_equal(take(f, &f->tat, colliding(0), s_ns, 0), 100);
    for (int64_t n = 1; n < 2 * FULL; n++)
        assert_int_equal(take(f, &f->tat, colliding((uint64_t)n), s_ns, 0), 99 - n);
    /* What is fresh goes first, and that is no eviction. */
    assert_int_equal(take(f, &f->tat, colliding(2000), 4 * s_ns, 1), 99);
    assert_int_equal(evicted(f), 1);
    assert_int_equal(take(f, &f->tat, colliding(1000), 4 * s_ns, 0), 53);
}

/* A key of another size does not take another's state for its own, even of the same hash. */
static void sizes_in_one_bucket(void **state)
{
    fixture *f = *state;
    uint64_t hash = colliding(7);
    assert_int_equal(take(f, &f->tat, hash, s_ns, 10), 90);
    assert_int_equal(take(f, &f->counter, hash, s_ns, 20), 80);
    assert_int_equal(take(f, &f->window, hash, s_ns, 30), 70);
    assert_int_equal(take(f, &f->tat, hash, s_ns, 1), 89);
    assert_int_equal(take(f, &f->counter, hash, s_ns, 1), 79);
    assert_int_equal(take(f, &f->window, hash, s_ns, 1), 69);
    assert_int_equal(keys(f), 3);
    assert_int_equal(weir_table_stats_get(f->table).bytes, (2 + 4 + 3) * 8);
    weir_table_reset(f->table, hash);
    assert_int_equal(keys(f), 0);
    assert_int_equal(weir_table_stats_get(f->table).bytes, 0);
    assert_int_equal(take(f, &f->tat, hash, s_ns, 0), 100);
}

/* A large entry takes as many small ones as it must, those closest to fresh. */
static void large_among_small(void **state)
{
    fixture *f = *state;
    weir_policy large = policy_of("gcra 1/h burst 100 & sliding-counter 100/h & fixed-window 100/h"
                                  " & fixed-window 100/d & leaky-bucket 7/h capacity 100");
    assert_int_equal(weir_table_words(&large), 7);
    for (int64_t n = 0; n < 2 * FULL; n++)
        take(f, &f->tat, colliding((uint64_t)n), s_ns, 1 + n);
    take(f, &large, colliding(1000), s_ns, 5);
    uint64_t gone = evicted(f);
    assert_in_range(gone, 4, 5);
    assert_int_equal(keys(f), 2 * FULL + 1 - gone);
    assert_int_equal(take(f, &large, colliding(1000), s_ns, 0), 95);
    for (int64_t n = FULL; n < 2 * FULL; n++) /* those that owe much were spared */
        assert_int_equal(take(f, &f->tat, colliding((uint64_t)n), s_ns, 0), 99 - n);
}

/* A key of the bucket that `top` says, with a second bucket of its own. */
static uint64_t loner(uint64_t top, uint64_t n)
{
    return top << 48 | n << 28;
}

/* Entries that have room elsewhere make room: those of the first bucket and of the second. */
static void keys_are_moved(void **state)
{
    fixture *f = *state;
    static const uint64_t tops[] = {0x0123, 0x4900}; /* the buckets of what collides, in order */
    for (uint64_t n = 0; n < FULL; n++) {
        for (int i = 0; i < 2; i++)
            take(f, &f->tat, loner(tops[i], 4 + n), s_ns, 50);
    }
    for (uint64_t n = 0; n < FULL + 2; n++)
        take(f, &f->tat, colliding(n), s_ns, 1);
    assert_int_equal(evicted(f), 0);
    assert_int_equal(keys(f), 3 * FULL + 2);
    for (uint64_t n = 0; n < FULL; n++) {
        for (int i = 0; i < 2; i++)
            assert_int_equal(take(f, &f->tat, loner(tops[i], 4 + n), s_ns, 0), 50);
    }
    for (uint64_t n = 0; n < FULL + 2; n++)
        assert_int_equal(take(f, &f->tat, colliding(n), s_ns, 0), 99);
}

static void hash_zero(void **state)
{
    fixture *f = *state;
    assert_int_equal(take(f, &f->tat, 0, s_ns, 10), 90);
    assert_int_equal(take(f, &f->tat, 0, s_ns, 1), 89);
    weir_table_reset(f->table, 0);
    assert_int_equal(keys(f), 0);
}

/* Nothing is dropped before the table's time has come to it, whoever's clock is ahead. */
static void time_is_shared(void **state)
{
    fixture *f = *state;
    int64_t half_ms_ns = 500000;
    assert_int_equal(weir_table_now(f->table, s_ns), s_ns);
    assert_int_equal(weir_table_now(f->table, s_ns - half_ms_ns), s_ns);
    assert_int_equal(weir_table_now(f->table, s_ns + half_ms_ns), s_ns + half_ms_ns);
    assert_int_equal(weir_table_now(f->table, 0), s_ns); /* half a ms does not move it */
    assert_int_equal(take(f, &f->tat, 1, 0, 100), 0);
    assert_int_equal(take(f, &f->tat, 1, 2 * s_ns, 2), -1);
    assert_int_equal(take(f, &f->tat, 1, 2 * s_ns, 1), 0);
    assert_int_equal(weir_table_now(f->table, 0), 2 * s_ns);
}

/* What is fresh by a clock ahead of the table's is not fresh to the next: it is not dropped. If it
 * has to go, it is counted. */
static void fresh_is_by_the_tables_time(void **state)
{
    fixture *f = *state;
    weir_policy p = policy_of("gcra 10000/s burst 100"); /* 0.1 ms a unit */
    assert_int_equal(weir_table_now(f->table, s_ns), s_ns);
    take(f, &p, colliding(0), s_ns, 5);
    for (uint64_t n = 1; n < 2 * FULL; n++)
        take(f, &f->tat, colliding(n), s_ns, 50);
    take(f, &f->tat, colliding(1000), s_ns + 900000, 50);
    assert_int_equal(evicted(f), 1);
}

/* ---- threads --------------------------------------------------------------------------------- */

enum { WORKERS = 4, ROUNDS = 200000, HASHES = 4 * FULL };

typedef struct worker {
    pthread_barrier_t *start;
    fixture *f;
    unsigned seed;
    int64_t allowed;
    int failures;
} worker;

/* Runs four workers that begin together; returns what they were allowed in all. */
static int64_t run_workers(fixture *f, void *(*fn)(void *))
{
    pthread_t threads[WORKERS];
    worker workers[WORKERS];
    pthread_barrier_t start;
    int64_t allowed = 0;
    assert_int_equal(pthread_barrier_init(&start, NULL, WORKERS), 0);
    for (unsigned n = 0; n < WORKERS; n++) {
        workers[n] = (worker){.start = &start, .f = f, .seed = n + 1};
        assert_int_equal(pthread_create(&threads[n], NULL, fn, &workers[n]), 0);
    }
    for (int n = 0; n < WORKERS; n++) {
        pthread_join(threads[n], NULL);
        allowed += workers[n].allowed;
        assert_int_equal(workers[n].failures, 0);
    }
    pthread_barrier_destroy(&start);
    return allowed;
}

/* Twice as many keys as their two buckets hold; every other round one that owes most of all, so
 * that it is never forgotten. */
static void *work(void *arg)
{
    worker *w = arg;
    uint32_t x = w->seed;
    pthread_barrier_wait(w->start);
    for (int i = 0; i < ROUNDS; i++) {
        x = x * 1664525 + 1013904223;
        uint64_t hash = colliding(1 + (x >> 16) % HASHES);
        const weir_policy *p = x >> 30 ? &w->f->tat : &w->f->window;
        charge c = {.cost = 1};
        w->failures +=
            weir_table_run(w->f->table, p, weir_table_words(p), hash, s_ns, check, &c) != WEIR_OK;
        if (x >> 20 & 1) {
            c.cost = 1;
            w->failures += weir_table_run(w->f->table, &w->f->counter, 2, colliding(0), s_ns, check,
                                          &c) != WEIR_OK;
            w->allowed += c.decision.allowed;
        }
        if (i % 16 == 0)
            weir_table_reset(w->f->table, hash);
    }
    return NULL;
}

static void threads_on_two_buckets(void **state)
{
    fixture *f = *state;
    f->window = policy_of("fixed-window 100/s"); /* closer to fresh than what is held to the hour */
    f->tat = policy_of("gcra 100/s burst 100");
    assert_int_equal(take(f, &f->counter, colliding(0), s_ns, 1), 99);
    assert_int_equal(run_workers(f, work), 99);
    for (uint64_t n = 0; n <= HASHES; n++)
        weir_table_reset(f->table, colliding(n));
    assert_int_equal(keys(f), 0);
    assert_int_equal(weir_table_stats_get(f->table).bytes, 0);
}

/* Five words that are always equal, and never zero. */
typedef struct whole {
    bool add;
    int failures;
} whole;

static weir_status look(void *ctx, const weir_policy *p, uint64_t *state, unsigned level,
                        int64_t now_ns, int64_t *ret_fresh_after_ns)
{
    (void)p;
    (void)level;
    (void)now_ns;
    whole *w = ctx;
    w->failures = state[0] == 0;
    for (int i = 1; i < 5; i++)
        w->failures += state[i] != state[0];
    for (int i = 0; i < 5 && w->add; i++)
        state[i]++;
    *ret_fresh_after_ns = 1000 * s_ns;
    return WEIR_OK;
}

static weir_status put(void *ctx, const weir_policy *p, uint64_t *state, unsigned level,
                       int64_t now_ns, int64_t *ret_fresh_after_ns)
{
    (void)now_ns;
    memcpy(state, ctx, weir_state_words(p, level) * sizeof *state);
    *ret_fresh_after_ns = 1000 * s_ns;
    return WEIR_OK;
}

/* Takes the first word off a number. */
static weir_status look_at_first(void *ctx, const weir_policy *p, uint64_t *state, unsigned level,
                                 int64_t now_ns, int64_t *ret_fresh_after_ns)
{
    (void)p;
    (void)level;
    (void)now_ns;
    (void)ret_fresh_after_ns;
    int64_t *left = ctx;
    *left -= (int64_t)state[0];
    return WEIR_OK;
}

static void *look_often(void *arg)
{
    worker *w = arg;
    weir_policy p = policy_of("sliding-log 2/s");
    uint32_t x = w->seed;
    pthread_barrier_wait(w->start);
    for (int i = 0; i < ROUNDS; i++) {
        x = x * 1664525 + 1013904223;
        whole one = {.add = x >> 30 == 0};
        w->failures += weir_table_run(w->f->table, &p, weir_table_words(&p), colliding(0), s_ns,
                                      look, &one) != WEIR_OK;
        w->failures += one.failures;
        w->allowed += one.add;
        uint64_t hash = colliding(1 + (x >> 16) % FULL);
        if (x >> 29 & 1) {
            charge c = {.cost = 1};
            w->failures +=
                weir_table_run(w->f->table, &w->f->tat, 1, hash, s_ns, check, &c) != WEIR_OK;
        } else {
            weir_table_reset(w->f->table, hash);
        }
    }
    return NULL;
}

/* Whoever reads sees a key's words as one write left them, wherever others push the entry; and no
 * write is lost. */
static void threads_see_whole_states(void **state)
{
    fixture *f = *state;
    weir_policy p = policy_of("sliding-log 2/s");
    uint64_t five[5] = {1, 1, 1, 1, 1};
    for (uint64_t n = 1; n < FULL - 2; n++) /* so that the entry lies behind some of these */
        take(f, &f->tat, colliding(n), s_ns, 1);
    assert_int_equal(weir_table_words(&p), 5);
    assert_int_equal(weir_table_run(f->table, &p, 5, colliding(0), s_ns, put, five), WEIR_OK);
    int64_t left = 1 + run_workers(f, look_often);
    assert_int_equal(weir_table_run(f->table, &p, 5, colliding(0), s_ns, look_at_first, &left),
                     WEIR_OK);
    assert_int_equal(left, 0);
}

/* Puts in, looks for and takes out a key that no other worker touches. */
static void *keep_one(void *arg)
{
    worker *w = arg;
    weir_policy p = policy_of("sliding-log 2/s");
    uint64_t hash = colliding(w->seed), own[5];
    for (int i = 0; i < 5; i++)
        own[i] = w->seed;
    pthread_barrier_wait(w->start);
    for (int i = 0; i < ROUNDS / 4; i++) {
        w->failures += weir_table_run(w->f->table, &p, 5, hash, s_ns, put, own) != WEIR_OK;
        for (int n = 0; n < 6; n++) {
            int64_t left = w->seed;
            w->failures +=
                weir_table_run(w->f->table, &p, 5, hash, s_ns, look_at_first, &left) != WEIR_OK;
            w->failures += left != 0;
        }
        weir_table_reset(w->f->table, hash);
    }
    return NULL;
}

/* A key that is there is found, wherever others push it while it is looked for. */
static void threads_find_their_own(void **state)
{
    fixture *f = *state;
    run_workers(f, keep_one);
    assert_int_equal(keys(f), 0);
    assert_int_equal(evicted(f), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(sizes, open_table, close_table),
        cmocka_unit_test_setup_teardown(two_buckets_fill, open_table, close_table),
        cmocka_unit_test_setup_teardown(sizes_in_one_bucket, open_table, close_table),
        cmocka_unit_test_setup_teardown(large_among_small, open_table, close_table),
        cmocka_unit_test_setup_teardown(keys_are_moved, open_table, close_table),
        cmocka_unit_test_setup_teardown(hash_zero, open_table, close_table),
        cmocka_unit_test_setup_teardown(time_is_shared, open_table, close_table),
        cmocka_unit_test_setup_teardown(fresh_is_by_the_tables_time, open_table, close_table),
        cmocka_unit_test_setup_teardown(threads_see_whole_states, open_table, close_table),
        cmocka_unit_test_setup_teardown(threads_find_their_own, open_table, close_table),
        cmocka_unit_test_setup_teardown(threads_on_two_buckets, open_table, close_table),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
