/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* Several threads that use the same two buckets, or a full table: no key is admitted too often or
 * too rarely, and readers see consistent states. */

#include "store/table/table_kit_test.h"

#include <pthread.h>

enum { FULL = WEIR_LINE_ENTRIES, WORKERS = 4, ROUNDS = 40000, HASHES = 4 * FULL };

typedef struct fixture {
    weir_table *table;
    weir_policy tat, counter, window, pair;
    weir_policy five;   /* of look_often() */
    weir_policy own[3]; /* of keep_one() */
} fixture;

static int open_table(void **state)
{
    static fixture f;
    f = (fixture){.tat = policy_of("gcra 100/s burst 100"),
                  .counter = policy_of("sliding-counter 100/h"),
                  .window = policy_of("fixed-window 100/s"),
                  .pair = policy_of("gcra 7/s burst 100"),
                  .five = policy_of("gcra 1/s & gcra 2/s & gcra 4/s & gcra 5/s & gcra 8/s"),
                  .own = {policy_of("gcra 1/s"), policy_of("fixed-window 9/s"),
                          policy_of("fixed-window 9/day")}};
    f.table = open_part(part_of(WEIR_TABLE_BYTES_MIN), WEIR_TABLE_BYTES_MIN, &alone, false);
    *state = &f;
    return 0;
}

static int close_table(void **state)
{
    fixture *f = *state;
    void *part = f->table->head;
    weir_table_close(f->table);
    munmap(part, WEIR_TABLE_BYTES_MIN);
    return 0;
}

typedef struct worker {
    pthread_barrier_t *start;
    fixture *f;
    uint64_t seed;
    int64_t allowed;
    int failures;
} worker;

/* Runs four workers, which start together. Returns how many units they were allowed. */
static int64_t run_workers(fixture *f, void *(*fn)(void *))
{
    pthread_t threads[WORKERS];
    worker workers[WORKERS];
    pthread_barrier_t start;
    int64_t allowed = 0;
    assert_int_equal(pthread_barrier_init(&start, NULL, WORKERS), 0);
    for (unsigned n = 0; n < WORKERS; n++) {
        workers[n] = (worker){.start = &start, .f = f, .seed = (n + 1) << 20};
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

/* Charges random keys, of all forms, that share two buckets: twice as many as fit. In every other
 * round, also charges the key farthest from idle, which is therefore never evicted. */
static void *crowd(void *arg)
{
    worker *w = arg;
    const weir_policy *const of[] = {&w->f->tat, &w->f->window, &w->f->tat, &w->f->pair};
    pthread_barrier_wait(w->start);
    for (int i = 0; i < ROUNDS; i++) {
        uint64_t x = next_random(&w->seed), hash = colliding(1 + (x >> 16) % HASHES);
        charge c = {.cost = 1};
        w->failures += charge_key(w->f->table, of[x % 4], hash, s_ns, x >> 8 & 1, &c) != WEIR_OK;
        if (x >> 9 & 1) {
            c.cost = 1;
            w->failures += weir_table_run(w->f->table, &w->f->counter, colliding(0), s_ns, check,
                                          &c) != WEIR_OK;
            w->allowed += c.decision.allowed;
        }
        if (i % 16 == 0)
            weir_table_reset(w->f->table, hash);
    }
    return NULL;
}

static void two_buckets(void **state)
{
    fixture *f = *state;
    charge c = {.cost = 1};
    assert_int_equal(weir_table_run(f->table, &f->counter, colliding(0), s_ns, check, &c), WEIR_OK);
    assert_int_equal(run_workers(f, crowd), 99);
    check_whole(f->table);
    for (uint64_t n = 0; n <= HASHES; n++)
        weir_table_reset(f->table, colliding(n));
    assert_int_equal(check_whole(f->table), 0);
}

enum { CROWD = 600 }; /* keys; the table has space for 768 */

static void *take_all(void *arg)
{
    worker *w = arg;
    pthread_barrier_wait(w->start);
    for (int i = 0; i < ROUNDS; i++) {
        uint64_t x = next_random(&w->seed);
        charge c = {.cost = 1};
        w->failures +=
            charge_key(w->f->table, &w->f->tat, mix(x % CROWD), s_ns, x >> 40 & 1, &c) != WEIR_OK;
        w->allowed += c.decision.allowed;
    }
    return NULL;
}

static void bursts_of_all(void **state)
{
    fixture *f = *state;
    f->tat = policy_of("gcra 1/h burst 20");
    assert_int_equal(run_workers(f, take_all), CROWD * 20);
    assert_int_equal(check_whole(f->table), CROWD);
    assert_int_equal(weir_table_stats_get(f->table).evicted, 0);
}

/* A running clock: idle keys are dropped while other threads charge them. No key is admitted more
 * than its burst and its rate allow. */
enum {
    CLOCK_KEYS = 2, /* of `pair`, and twice as many of `tat`: they all fit */
    CLOCK_ROUNDS = 20000
};

static void *take_as_time_goes(void *arg)
{
    worker *w = arg;
    pthread_barrier_wait(w->start);
    for (int i = 0; i < CLOCK_ROUNDS; i++) {
        uint64_t x = next_random(&w->seed);
        int64_t now_ns = s_ns + (int64_t)i * (WEIR_SEEN_STEP_NS / 4);
        charge c = {.cost = 1};
        w->failures += charge_key(w->f->table, x % 3 ? &w->f->tat : &w->f->pair,
                                  colliding((x >> 8) % CLOCK_KEYS * 3 + x % 3), now_ns, x >> 40 & 1,
                                  &c) != WEIR_OK;
        w->allowed += c.decision.allowed;
    }
    return NULL;
}

static void clock_runs(void **state)
{
    fixture *f = *state;
    f->tat = policy_of("gcra 100/s burst 1"); /* idle 10 ms after a charge */
    f->pair = policy_of("gcra 300/s burst 1");
    int64_t most =
        (CLOCK_ROUNDS / 4 / 10 + 2) * 2 * CLOCK_KEYS + (CLOCK_ROUNDS / 4 * 3 / 10 + 2) * CLOCK_KEYS;
    int64_t allowed = run_workers(f, take_as_time_goes);
    assert_in_range(allowed, 1000, most);
}

/* ---- consistent states ----------------------------------------------------------------------- */

/* Five words that are always equal and never zero. */
typedef struct whole {
    bool add;
    int failures;
} whole;

static weir_status look(void *ctx, const weir_policy *p, uint64_t *state, unsigned level,
                        int64_t now_ns, weir_usage *ret_usage)
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
    *ret_usage = (weir_usage){1000 * s_ns, 1};
    return WEIR_OK;
}

static weir_status put(void *ctx, const weir_policy *p, uint64_t *state, unsigned level,
                       int64_t now_ns, weir_usage *ret_usage)
{
    (void)now_ns;
    memcpy(state, ctx, weir_state_words(p, level) * sizeof *state);
    *ret_usage = (weir_usage){1000 * s_ns, 1};
    return WEIR_OK;
}

/* Subtracts the first word from a number. */
static weir_status look_at_first(void *ctx, const weir_policy *p, uint64_t *state, unsigned level,
                                 int64_t now_ns, weir_usage *ret_usage)
{
    (void)p;
    (void)level;
    (void)now_ns;
    (void)ret_usage;
    int64_t *left = ctx;
    *left -= (int64_t)state[0];
    return WEIR_OK;
}

static void *look_often(void *arg)
{
    worker *w = arg;
    pthread_barrier_wait(w->start);
    for (int i = 0; i < ROUNDS; i++) {
        uint64_t x = next_random(&w->seed);
        whole one = {.add = x % 4 == 0};
        w->failures +=
            weir_table_run(w->f->table, &w->f->five, colliding(0), s_ns, look, &one) != WEIR_OK;
        w->failures += one.failures;
        w->allowed += one.add;
        uint64_t hash = colliding(1 + (x >> 16) % FULL);
        if (x >> 40 & 1) {
            charge c = {.cost = 1};
            w->failures +=
                charge_key(w->f->table, &w->f->tat, hash, s_ns, x >> 41 & 1, &c) != WEIR_OK;
        } else {
            weir_table_reset(w->f->table, hash);
        }
    }
    return NULL;
}

/* Readers see the words of a key as one write left them, whatever happens to other keys. No write
 * is lost. */
static void whole_states(void **state)
{
    fixture *f = *state;
    uint64_t five[5] = {1, 1, 1, 1, 1};
    assert_int_equal(weir_table_words(&f->five), 5);
    assert_int_equal(weir_table_run(f->table, &f->five, colliding(0), s_ns, put, five), WEIR_OK);
    int64_t left = 1 + run_workers(f, look_often);
    assert_int_equal(weir_table_run(f->table, &f->five, colliding(0), s_ns, look_at_first, &left),
                     WEIR_OK);
    assert_int_equal(left, 0);
}

/* Adds, finds and removes a key that belongs to this worker. Its state has another size each time,
 * so that it moves. */
static void *keep_one(void *arg)
{
    worker *w = arg;
    uint64_t hash = colliding(w->seed >> 20), own = (uint64_t)(100 * s_ns) + (w->seed >> 20);
    pthread_barrier_wait(w->start);
    for (int i = 0; i < ROUNDS / 4; i++) {
        const weir_policy *own_policy = &w->f->own[i % 3];
        w->failures += weir_table_run(w->f->table, own_policy, hash, s_ns, put, &own) != WEIR_OK;
        for (int n = 0; n < 6; n++) {
            int64_t left = (int64_t)own;
            w->failures += weir_table_run(w->f->table, own_policy, hash, s_ns, look_at_first,
                                          &left) != WEIR_OK;
            w->failures += left != 0;
        }
        if (i % 8 == 0)
            weir_table_reset(w->f->table, hash);
    }
    weir_table_reset(w->f->table, hash);
    return NULL;
}

/* A key is found even if other threads displace it during the search. */
static void own_keys(void **state)
{
    fixture *f = *state;
    run_workers(f, keep_one);
    assert_int_equal(check_whole(f->table), 0);
    assert_int_equal(weir_table_stats_get(f->table).evicted, 0);
}

#define ON_A_TABLE(name) cmocka_unit_test_setup_teardown(name, open_table, close_table)

int main(void)
{
    const struct CMUnitTest tests[] = {
        ON_A_TABLE(two_buckets),  ON_A_TABLE(bursts_of_all), ON_A_TABLE(clock_runs),
        ON_A_TABLE(whole_states), ON_A_TABLE(own_keys),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
