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

/* Entries that have room elsewhere make room. The keys of the first loop fill a bucket that they
 * share; each has a second of its own. */
static void keys_are_moved(void **state)
{
    fixture *f = *state;
    for (uint64_t n = 0; n < FULL; n++)
        take(f, &f->tat, (uint64_t)0x0123 << 48 | n << 28, s_ns, 50);
    for (uint64_t n = 0; n < FULL + 2; n++)
        take(f, &f->tat, colliding(n), s_ns, 1);
    assert_int_equal(evicted(f), 0);
    assert_int_equal(keys(f), 2 * FULL + 2);
    for (uint64_t n = 0; n < FULL; n++)
        assert_int_equal(take(f, &f->tat, (uint64_t)0x0123 << 48 | n << 28, s_ns, 0), 50);
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

/* ---- threads --------------------------------------------------------------------------------- */

enum { WORKERS = 4, ROUNDS = 20000, HASHES = 4 * FULL };

typedef struct worker {
    fixture *f;
    unsigned seed;
    int64_t allowed;
    int failures;
} worker;

/* Twice as many keys as their two buckets hold; every other round one that owes most of all, so
 * that it is never forgotten. */
static void *work(void *arg)
{
    worker *w = arg;
    uint32_t x = w->seed;
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
    pthread_t threads[WORKERS];
    worker workers[WORKERS];
    int64_t allowed = 1;
    f->window = policy_of("fixed-window 100/s"); /* closer to fresh than what is held to the hour */
    f->tat = policy_of("gcra 100/s burst 100");
    assert_int_equal(take(f, &f->counter, colliding(0), s_ns, 1), 99);
    for (unsigned n = 0; n < WORKERS; n++) {
        workers[n] = (worker){.f = f, .seed = n};
        assert_int_equal(pthread_create(&threads[n], NULL, work, &workers[n]), 0);
    }
    for (int n = 0; n < WORKERS; n++) {
        pthread_join(threads[n], NULL);
        allowed += workers[n].allowed;
        assert_int_equal(workers[n].failures, 0);
    }
    assert_int_equal(allowed, 100);
    for (uint64_t n = 0; n <= HASHES; n++)
        weir_table_reset(f->table, colliding(n));
    assert_int_equal(keys(f), 0);
    assert_int_equal(weir_table_stats_get(f->table).bytes, 0);
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
        cmocka_unit_test_setup_teardown(threads_on_two_buckets, open_table, close_table),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
