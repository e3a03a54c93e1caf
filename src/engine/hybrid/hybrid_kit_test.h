/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_ENGINE_HYBRID_HYBRID_KIT_TEST_H
#define WEIR_ENGINE_HYBRID_HYBRID_KIT_TEST_H
/* For the tests of the hybrid engine: a virtual clock, a simulated upstream engine, and allocations
 * that are counted and may fail. */

#include "engine/hybrid/sound_test.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static const int64_t ms = 1000000, start_ns = 1767225600000000000;

/* ---- memory ---------------------------------------------------------------------------------- */

/* The next `no_memory_from` allocations succeed, and later ones fail. Less than 0: none fails. */
void *__real_calloc(size_t n, size_t size);
void *__wrap_calloc(size_t n, size_t size);
void __real_free(void *p);
void __wrap_free(void *p);
void *__real_port_map(size_t len);
void *__wrap_port_map(size_t len);
void __real_port_unmap(void *p, size_t len);
void __wrap_port_unmap(void *p, size_t len);
weir_status __real_port_random(void *buf, size_t len);
weir_status __wrap_port_random(void *buf, size_t len);

static int no_memory_from = -1;
static int allocated;       /* and not freed */
static size_t mapped_bytes; /* and not unmapped */

static bool fails(void)
{
    bool is_out = no_memory_from == 0;
    no_memory_from -= no_memory_from > 0;
    return is_out;
}

void *__wrap_calloc(size_t n, size_t size)
{
    void *p = fails() ? NULL : __real_calloc(n, size);
    allocated += p != NULL;
    return p;
}

void __wrap_free(void *p)
{
    allocated -= p != NULL;
    __real_free(p);
}

void *__wrap_port_map(size_t len)
{
    void *p = fails() ? NULL : __real_port_map(len);
    mapped_bytes += p ? len : 0;
    return p;
}

void __wrap_port_unmap(void *p, size_t len)
{
    mapped_bytes -= p ? len : 0;
    __real_port_unmap(p, len);
}

weir_status __wrap_port_random(void *buf, size_t len)
{
    return fails() ? WEIR_E_IO : __real_port_random(buf, len);
}

/* ---- the simulated upstream engine ----------------------------------------------------------- */

enum { PENDING = 64 };

struct port_timer {
    void (*fn)(void *ctx, int64_t now_ns);
    void *ctx;
    int64_t at_ns;
};

static struct {
    int64_t now_ns;
    port_timer alarm;
    weir_engine_batch *pending[PENDING];
    size_t len;
    bool fails_at_once;             /* the upstream engine fails each request in submit() */
    const weir_decision *immediate; /* submit() gives each request this decision; NULL: none */
    bool no_timer;                  /* as without memory */
    size_t done;                    /* batches that were answered after submit() */
} world;

static port_timer *alarm_new(port_dialer *d, void (*fn)(void *, int64_t), void *ctx)
{
    (void)d;
    world.alarm = (port_timer){fn, ctx, INT64_MAX};
    return world.no_timer ? NULL : &world.alarm;
}

static void alarm_set(port_timer *a, int64_t at_ns)
{
    a->at_ns = at_ns;
}

static void alarm_drop(port_timer *a)
{
    if (a)
        a->at_ns = INT64_MAX;
}

static int64_t dialer_now(port_dialer *d)
{
    (void)d;
    return world.now_ns;
}

static const port_dialer_calls dialer_calls = {
    .new_timer = alarm_new, .set_timer = alarm_set, .free_timer = alarm_drop, .now = dialer_now};
static port_dialer dialer = {&dialer_calls};

static bool below_submit(weir_engine *e, weir_engine_batch *r, int64_t now_ns)
{
    (void)e;
    (void)now_ns;
    for (size_t i = 0; i < r->len; i++) {
        r->request[i].by_error = false;
        r->request[i].reason = NULL;
    }
    if (world.fails_at_once) {
        for (size_t i = 0; i < r->len; i++)
            r->request[i].status = WEIR_E_IO;
        return true;
    }
    if (world.immediate) {
        for (size_t i = 0; i < r->len; i++) {
            r->request[i].status = WEIR_OK;
            r->request[i].decision = *world.immediate;
        }
        return true;
    }
    assert_true(world.len < PENDING);
    world.pending[world.len++] = r;
    return false;
}

static void take_out(size_t i)
{
    world.len--;
    memmove(&world.pending[i], &world.pending[i + 1],
            (world.len - i) * sizeof(weir_engine_batch *));
}

static void below_abandon(weir_engine *e, weir_engine_batch *r)
{
    (void)e;
    for (size_t i = 0; i < world.len; i++)
        if (world.pending[i] == r) {
            take_out(i);
            return;
        }
    fail_msg("abandoned a batch that is not in flight");
}

static const weir_engine_calls below_calls = {below_submit, below_abandon, NULL};
static weir_engine below = {&below_calls};

static inline void pass_time(int64_t ns)
{
    int64_t until_ns = world.now_ns + ns;
    while (world.alarm.at_ns <= until_ns) {
        if (world.alarm.at_ns > world.now_ns)
            world.now_ns = world.alarm.at_ns;
        world.alarm.at_ns = INT64_MAX;
        world.alarm.fn(world.alarm.ctx, world.now_ns);
    }
    world.now_ns = until_ns;
}

/* ---- requests -------------------------------------------------------------------------------- */

static weir_engine *engine;
static weir_hybrid_stats stats;
static weir_redis_resets resets;
static weir_policy policy;
static const char *text;

static inline void open_with(const char *policy_text, weir_hybrid_options options)
{
    static weir_hybrid_options kept;
    kept = options;
    memset(&world, 0, sizeof world);
    world.now_ns = start_ns;
    memset(&stats, 0, sizeof stats);
    memset(&resets, 0, sizeof resets);
    allocated = 0; /* whatever a failed test has left */
    mapped_bytes = 0;
    text = policy_text;
    assert_int_equal(weir_policy_parse(&policy, text, strlen(text), NULL, NULL), WEIR_OK);
    weir_hybrid_setup setup = {&kept, &below, &dialer, &stats, &resets};
    assert_int_equal(weir_hybrid_engine_open(&engine, &setup), WEIR_OK);
}

/* Does not wait for the replies to syncs. */
static inline void close_all(void)
{
    engine->calls->close(engine);
    assert_int_equal(world.len, 0);
    assert_int_equal(world.alarm.at_ns, INT64_MAX);
    assert_int_equal(allocated, 0);
    assert_int_equal(mapped_bytes, 0);
    assert_int_equal(port_load_relaxed(&stats.keys), 0);
    assert_int_equal(port_load_relaxed(&stats.overshoot_last), 0);
}

static inline void done(weir_engine_batch *r, int64_t now_ns)
{
    (void)r;
    assert_int_equal(now_ns, world.now_ns);
    world.done++;
}

/* Its outputs are not those of any answer. */
static inline weir_engine_request request(weir_verb verb, const char *key, int64_t cost)
{
    return (weir_engine_request){.verb = verb,
                                 .policy = &policy,
                                 .text = {text, strlen(text)},
                                 .name = {"api", 3},
                                 .key = {key, strlen(key)},
                                 .policy_id = 7,
                                 .cost = cost,
                                 .on_error = WEIR_ON_ERROR_CLOSED,
                                 .status = WEIR_E_BUSY,
                                 .by_error = true,
                                 .reason = "not answered",
                                 .granted = 99};
}

static inline bool ask(weir_engine_batch *r, weir_engine_request *q, size_t n)
{
    *r = (weir_engine_batch){.request = q, .len = n, .done = done, .inside = r};
    bool answered = engine->calls->submit(engine, r, world.now_ns);
    assert_int_equal(answered, !r->inside);
    assert_true(is_sound_hybrid((hybrid *)engine));
    return answered;
}

enum { ALL = -1 };

/* Answers the oldest upstream batch. */
static inline void answer(int64_t granted, weir_decision d)
{
    assert_true(world.len > 0);
    weir_engine_batch *r = world.pending[0];
    take_out(0);
    for (size_t i = 0; i < r->len; i++) {
        r->request[i].status = WEIR_OK;
        r->request[i].decision = d;
        r->request[i].granted = granted == ALL ? r->request[i].cost : granted;
    }
    r->done(r, world.now_ns);
    assert_true(is_sound_hybrid((hybrid *)engine));
}

static inline void answer_nothing(void)
{
    weir_engine_batch *r = world.pending[0];
    take_out(0);
    r->request[0].status = WEIR_E_IO;
    r->done(r, world.now_ns);
}

/* Returns the rest of a window of one second. */
static inline int64_t reset_ns(void)
{
    return 1000 * ms - (world.now_ns - start_ns) % (1000 * ms);
}

static inline weir_decision left(int64_t remaining)
{
    return (weir_decision){.limit = 1600,
                           .remaining = remaining,
                           .reset_after_ns = reset_ns(),
                           .layer = 1,
                           .allowed = true};
}

static inline weir_decision denied(int64_t retry_ns)
{
    return (weir_decision){
        .limit = 1600, .retry_after_ns = retry_ns, .reset_after_ns = reset_ns(), .layer = 1};
}

static inline void assert_answer(const weir_engine_request *q, weir_status status)
{
    assert_int_equal(q->status, status);
    assert_false(q->by_error);
    assert_null(q->reason);
}

/* Sends a take that must be answered without the upstream engine. */
static inline weir_decision here(const char *key, int64_t cost)
{
    weir_engine_batch r;
    weir_engine_request q = request(WEIR_VERB_TAKE, key, cost);
    assert_true(ask(&r, &q, 1));
    assert_answer(&q, WEIR_OK);
    assert_int_equal(q.granted, 0);
    assert_int_equal(q.decision.layer, 1);
    assert_true(!q.decision.allowed || q.decision.retry_after_ns == 0);
    return q.decision;
}

/* Sends a take that must be forwarded. Answers it, and the sync after it, with d. */
static inline void forwarded(const char *key, int64_t cost, weir_decision d)
{
    weir_engine_batch r;
    weir_engine_request q = request(WEIR_VERB_TAKE, key, cost);
    size_t before = world.done;
    assert_false(ask(&r, &q, 1));
    while (world.done == before || world.len > 0)
        answer(ALL, d);
    assert_answer(&q, WEIR_OK);
    assert_int_equal(q.decision.remaining, d.remaining);
    assert_int_equal(q.decision.allowed, d.allowed);
}

/* Makes a key busy: it has a lease, and `remaining` units remain at the server. */
static inline void make_busy(const char *key, int64_t remaining)
{
    for (int i = 0; i < 3; i++)
        forwarded(key, 1, left(remaining));
}

/* The slot of the only lease. */
static inline const weir_lease_slot *only_lease(void)
{
    const hybrid *h = (const hybrid *)engine;
    assert_int_equal(h->table.leases, 1);
    return h->table.first;
}

static inline const weir_engine_request *pending(void)
{
    assert_int_equal(world.len, 1);
    return &world.pending[0]->request[0];
}

#endif
