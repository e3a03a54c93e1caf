/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_STORE_RESERVE_KIT_TEST_H
#define WEIR_STORE_RESERVE_KIT_TEST_H
/* A kit for the tests of reservations: a fake store of eight keys. The memory can be copied at any
 * moment, as a killed process would leave it, and opened again. */

#include "store/reserve.h"

#include "port/port.h"
#include "store/kit_test.h"
#include "tests/store/check.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* weir_reserve_make() with its arguments in a row. */
static inline weir_status reserve_units(weir_reserve *r, const weir_policy *p, uint64_t policy_id,
                                        uint64_t hash, int64_t now_ns, int64_t cost, int64_t ttl_ns,
                                        weir_decision *ret, uint64_t *ret_id)
{
    weir_store_request request = {.policy = p, .policy_id = policy_id, .cost = cost};
    weir_status st = weir_reserve_make(r, &request, hash, now_ns, ttl_ns, ret_id);
    if (st == WEIR_OK)
        *ret = request.decision;
    return st;
}

enum {
    KEYS = 8,
    WORDS = 64,
    SMALL = WEIR_RESERVE_BYTES_MIN,
    SMALL_MAX = (SMALL - 128) / 72, /* reservations that fit */
    POLICIES = 8
};

static const weir_secret secret = {0x0123456789abcdef, 0xfedcba9876543210};
static const weir_processes first = {.self = 1}, second = {.self = 2};

/* ---- the fake store -------------------------------------------------------------------------- */

typedef struct fake {
    uint64_t state[KEYS][WORDS]; /* by hash % KEYS */
    weir_policy policy[POLICIES];
    uint64_t policy_id[POLICIES];
    size_t policies;
    pthread_mutex_t mutex;
    int64_t last_ns; /* the time of the last run */
    int64_t moved_until_ns;
    weir_status fails; /* if not WEIR_OK, run() returns it */
    bool fails_once;
    void (*on_run)(struct fake *f, bool after); /* called before and after each run; may be NULL */
    void *watch;
} fake;

static inline weir_status fake_run(void *ctx, const weir_policy *p, uint64_t policy_id,
                                   uint64_t hash, int64_t now_ns, weir_state_fn fn, void *fn_ctx)
{
    (void)policy_id;
    fake *f = ctx;
    weir_usage usage = WEIR_USAGE_UNKNOWN;
    f->last_ns = now_ns;
    weir_status fails = f->fails;
    if (f->fails_once)
        f->fails = WEIR_OK;
    if (fails != WEIR_OK)
        return fails;
    if (f->on_run)
        f->on_run(f, false);
    if (weir_state_words(p, 0) > WORDS)
        abort(); /* this may be any thread, where assertions do not work */
    pthread_mutex_lock(&f->mutex);
    weir_status st = fn(fn_ctx, p, f->state[hash % KEYS], 0, now_ns, &usage);
    pthread_mutex_unlock(&f->mutex);
    if (f->on_run)
        f->on_run(f, true);
    return st;
}

static inline weir_status fake_find(void *ctx, uint64_t policy_id, weir_policy *ret)
{
    const fake *f = ctx;
    for (size_t i = 0; i < f->policies; i++) {
        if (f->policy_id[i] == policy_id) {
            *ret = f->policy[i];
            return WEIR_OK;
        }
    }
    memset(ret, 0, sizeof *ret); /* a caller must not rely on it */
    return WEIR_E_ABSENT;
}

static inline bool fake_known(void *ctx, uint64_t policy_id)
{
    weir_policy unused;
    return fake_find(ctx, policy_id, &unused) == WEIR_OK;
}

static inline void fake_note(void *ctx, uint64_t policy_id, const weir_policy *p)
{
    fake *f = ctx;
    if (f->policies == POLICIES)
        return;
    f->policy[f->policies] = *p;
    f->policy_id[f->policies++] = policy_id;
}

static inline bool fake_moved(void *ctx, uint64_t policy_id, int64_t now_ns)
{
    assert_int_equal(policy_id, 77);
    return now_ns < ((const fake *)ctx)->moved_until_ns;
}

static inline weir_reserve *open_part(fake *f, void *part, size_t bytes, bool is_new,
                                      const weir_processes *processes)
{
    const weir_reserve_hooks hooks = {f, fake_run, fake_find, fake_known, fake_note, fake_moved};
    weir_reserve *r = NULL;
    assert_int_equal(weir_reserve_open(&r, part, bytes, is_new, processes, secret, &hooks),
                     WEIR_OK);
    return r;
}

/* A store with one policy, and the memory of its reservations. */
typedef struct fixture {
    fake fake;
    weir_policy policy;
    void *part;
    size_t bytes;
    weir_reserve *r;
} fixture;

static inline void set_up(fixture *x, const char *policy, size_t bytes)
{
    *x = (fixture){.policy = policy_of(policy), .bytes = bytes, .part = port_map(bytes)};
    assert_non_null(x->part);
    pthread_mutex_init(&x->fake.mutex, NULL);
    x->r = open_part(&x->fake, x->part, bytes, true, &first);
}

static inline void tear_down(fixture *x)
{
    weir_reserve_close(x->r);
    port_unmap(x->part, x->bytes);
    pthread_mutex_destroy(&x->fake.mutex);
}

/* The open reservations, after a check of all of the memory. */
static inline uint64_t count_open(const fixture *x)
{
    WEIR_CHECK(weir_reserve_check(x->r));
    return weir_reserve_stats_get(x->r).open;
}

static inline uint64_t make(fixture *x, uint64_t hash, int64_t now_ns, int64_t cost, int64_t ttl_ns)
{
    weir_decision d = {.allowed = false};
    uint64_t id = 0;
    assert_int_equal(reserve_units(x->r, &x->policy, 77, hash, now_ns, cost, ttl_ns, &d, &id),
                     WEIR_OK);
    assert_int_equal(d.allowed, id != 0);
    return id;
}

/* The remaining quota of a key, as a decision at now_ns finds it. */
static inline int64_t left(fixture *x, uint64_t hash, int64_t now_ns)
{
    weir_decision d;
    if (weir_reserve_due(x->r, now_ns))
        weir_reserve_expire(x->r, now_ns);
    assert_int_equal(weir_peek(&x->policy, x->fake.state[hash % KEYS], 0, now_ns, 0, &d), WEIR_OK);
    return d.remaining;
}

static inline int64_t commit(fixture *x, uint64_t id, int64_t now_ns, int64_t actual,
                             int64_t *ret_over)
{
    weir_decision d;
    assert_int_equal(weir_reserve_commit(x->r, id, now_ns, actual, &d, ret_over), WEIR_OK);
    assert_true(d.allowed);
    return d.remaining;
}

/* Commits more than fits. Returns the units over. */
static inline int64_t commit_into_debt(fixture *x, uint64_t id, int64_t now_ns, int64_t actual)
{
    weir_decision d;
    int64_t over = -1;
    assert_int_equal(weir_reserve_commit(x->r, id, now_ns, actual, &d, &over), WEIR_OK);
    assert_false(d.allowed);
    assert_int_equal(d.remaining, 0);
    return over;
}

static inline weir_status try_commit(fixture *x, uint64_t id, int64_t now_ns)
{
    weir_decision d;
    int64_t over;
    return weir_reserve_commit(x->r, id, now_ns, 0, &d, &over);
}

static inline void reopen(fixture *x)
{
    weir_reserve_close(x->r);
    x->r = open_part(&x->fake, x->part, x->bytes, false, &second);
}

#endif
