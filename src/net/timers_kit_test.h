/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_NET_TIMERS_KIT_TEST_H
#define WEIR_NET_TIMERS_KIT_TEST_H
/* A fake clock for libuv, whose time and timers are wrapped; see timer_fakes in meson.build. A
 * timer is a record, and fires when the test fires it. For tests on one thread. Include it after
 * cmocka. */

#include <uv.h>

enum { TIMERS_MAX = 16, START_MS = 1000000 };

typedef struct timer {
    uv_timer_t *handle; /* NULL: not set */
    uv_timer_cb fn;
    uint64_t due_ms, repeat_ms;
} timer;

static timer timers[TIMERS_MAX];
static uint64_t clock_ms; /* of libuv */
static int timers_set;    /* calls of uv_timer_start() */

uint64_t __wrap_uv_now(const uv_loop_t *uv);
uint64_t __wrap_uv_hrtime(void);
int __wrap_uv_timer_start(uv_timer_t *handle, uv_timer_cb fn, uint64_t ms, uint64_t repeat_ms);
int __wrap_uv_timer_stop(uv_timer_t *handle);
int __real_uv_is_active(const uv_handle_t *handle);
int __wrap_uv_is_active(const uv_handle_t *handle);

uint64_t __wrap_uv_now(const uv_loop_t *uv)
{
    (void)uv;
    return clock_ms;
}

uint64_t __wrap_uv_hrtime(void)
{
    return clock_ms * 1000000;
}

static inline timer *timer_of(const uv_timer_t *handle)
{
    for (int i = 0; i < TIMERS_MAX; i++) {
        if (timers[i].handle == handle)
            return &timers[i];
    }
    return NULL;
}

int __wrap_uv_timer_start(uv_timer_t *handle, uv_timer_cb fn, uint64_t ms, uint64_t repeat_ms)
{
    timer *t = timer_of(handle) ? timer_of(handle) : timer_of(NULL);
    assert_non_null(t);
    assert_int_equal(handle->type, UV_TIMER); /* initialised */
    timers_set++;
    *t = (timer){handle, fn, clock_ms + ms, repeat_ms};
    return 0;
}

int __wrap_uv_timer_stop(uv_timer_t *handle)
{
    if (timer_of(handle))
        *timer_of(handle) = (timer){0};
    return 0;
}

int __wrap_uv_is_active(const uv_handle_t *handle)
{
    return timer_of((const uv_timer_t *)handle) || __real_uv_is_active(handle);
}

/* The milliseconds until a timer is due; -1 if it is not set. */
static inline int64_t due_in(const uv_timer_t *handle)
{
    const timer *t = timer_of(handle);
    return t ? (int64_t)(t->due_ms - clock_ms) : -1;
}

static inline timer *first_due(uint64_t until_ms)
{
    timer *first = NULL;
    for (int i = 0; i < TIMERS_MAX; i++) {
        timer *t = &timers[i];
        if (t->handle && t->due_ms <= until_ms && (!first || t->due_ms < first->due_ms))
            first = t;
    }
    return first;
}

static inline void reset_timers(void)
{
    memset(timers, 0, sizeof timers);
    clock_ms = START_MS;
    timers_set = 0;
}

/* Fires a timer that is due; to be called in a loop with first_due(). */
static inline void fire(timer *t)
{
    uv_timer_t *handle = t->handle;
    uv_timer_cb fn = t->fn;
    clock_ms = t->due_ms;
    if (t->repeat_ms > 0)
        t->due_ms = clock_ms + t->repeat_ms;
    else
        *t = (timer){0};
    fn(handle);
}

/* Fires what is due within some milliseconds, and runs the loop in between. */
static inline void let_pass(uv_loop_t *uv, uint64_t ms)
{
    uint64_t end_ms = clock_ms + ms;
    for (timer *t; (t = first_due(end_ms));) {
        fire(t);
        for (int i = 0; i < 3; i++)
            uv_run(uv, UV_RUN_NOWAIT);
    }
    clock_ms = end_ms;
}

#endif
