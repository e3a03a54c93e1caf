/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* Large states: several threads decide at once. */

#include "store/large/large_kit_test.h"

#include "port/port.h"

#include <pthread.h>

enum { WORKERS = 4, ROUNDS = 20000, SHARED = 16 };

typedef struct worker {
    fixture *f;
    const weir_policy *hour;
    uint64_t keys, seed;
    int64_t allowed;
    int failures;
} worker;

static int64_t charge_one(worker *w, const weir_policy *p, uint64_t hash)
{
    charge c = {.cost = 1};
    weir_large_call call = call_of(p, hash, s_ns, &c);
    weir_large_prefetch(&(weir_large_hint){w->f->l, p, hash}, 1);
    w->failures += weir_large_run(w->f->l, &call) != WEIR_OK;
    return c.decision.allowed;
}

/* Some keys are shared by all workers, others belong to one worker. */
static void *work(void *arg)
{
    worker *w = arg;
    uint64_t x = w->seed;
    for (int i = 0; i < ROUNDS; i++) {
        x = x * 6364136223846793005 + 1442695040888963407;
        w->allowed += charge_one(w, w->hour, hash_of(x >> 33 & (SHARED - 1)));
        charge_one(w, i % 64 ? &w->f->log : &w->f->layers, hash_of(1000 + (x >> 40) % w->keys));
        if (i % 16 == 0)
            weir_large_reset(w->f->l, hash_of(1000 + (x >> 35) % w->keys));
        if (i % 2048 == 0) {
            weir_large_stats sum = {0};
            weir_large_each(w->f->l, add_up, &sum);
        }
    }
    return NULL;
}

/* Returns how many units of the shared keys four workers were allowed. */
static int64_t run_workers(fixture *f, uint64_t keys)
{
    pthread_t threads[WORKERS];
    worker workers[WORKERS];
    weir_policy hour = policy_of("sliding-log 3000/h");
    int64_t allowed = 0;
    for (unsigned n = 0; n < WORKERS; n++) {
        workers[n] = (worker){.f = f, .hour = &hour, .keys = keys, .seed = n + 1};
        assert_int_equal(pthread_create(&threads[n], NULL, work, &workers[n]), 0);
    }
    for (int n = 0; n < WORKERS; n++) {
        pthread_join(threads[n], NULL);
        allowed += workers[n].allowed;
        assert_int_equal(workers[n].failures, 0);
    }
    return allowed;
}

static void threads_charge_no_more_than_there_is(void **unused)
{
    (void)unused;
    fixture f;
    open_fixture(&f, MIB);
    assert_int_equal(run_workers(&f, 3000), SHARED * 3000);
    assert_int_equal(weir_large_stats_get(f.l).evicted, 0);
    check_whole(f.l);
    close_fixture(&f);
}

static void threads_in_full_memory(void **unused)
{
    (void)unused;
    fixture f;
    open_fixture(&f, 256 * KIB);
    assert_true(run_workers(&f, 20000) > 0);
    assert_true(weir_large_stats_get(f.l).evicted > 1000);
    check_whole(f.l);
    close_fixture(&f);
}

typedef struct holder {
    weir_large *l;
    port_word locked, ended; /* 1: it holds the locks; the test has its answer */
} holder;

/* Locks all stripes but the first, until the first one was locked and released. */
static void *hold_stripes(void *arg)
{
    holder *h = arg;
    for (size_t i = 1; i < h->l->stripes; i++)
        weir_large_lock(h->l, i);
    port_word_store_release(&h->locked, 1);
    bool seen = false;
    while (port_word_load_acquire(&h->ended) == 0) {
        bool locked = port_word_load_acquire(&h->l->stripe[0].lock) != 0;
        if (seen && !locked)
            break;
        seen = seen || locked;
    }
    for (size_t i = 1; i < h->l->stripes; i++)
        weir_large_unlock(h->l, i);
    return NULL;
}

/* Other threads hold the locks of all keys that could be evicted: the call waits for them. */
static void locked_stripes_are_waited_for(void **unused)
{
    (void)unused;
    fixture f;
    open_fixture(&f, 64 * KIB);
    weir_policy wide = policy_of("sliding-slices 9/h slices 8000");
    for (uint64_t n = 0; n < 2000; n++)
        take(f.l, &f.log, hash_of(n), s_ns, 1);
    assert_true(weir_block_units(weir_state_words(&wide, 0)) > f.l->blocks.units / 2);
    holder h = {.l = f.l};
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, hold_stripes, &h), 0);
    while (port_word_load_acquire(&h.locked) == 0)
        port_yield();
    charge c = {.cost = 1};
    weir_large_call call = call_of(&wide, (uint64_t)f.l->stripes << 32, s_ns, &c);
    assert_int_equal(weir_large_stripe(f.l, call.hash), 0);
    weir_status st = weir_large_run(f.l, &call);
    port_word_store_release(&h.ended, 1);
    pthread_join(thread, NULL);
    assert_int_equal(st, WEIR_OK);
    assert_true(c.decision.allowed);
    check_whole(f.l);
    close_fixture(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(threads_charge_no_more_than_there_is),
        cmocka_unit_test(threads_in_full_memory),
        cmocka_unit_test(locked_stripes_are_waited_for),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
