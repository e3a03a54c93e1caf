/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* Posted calls are queued under a lock. The loop takes the whole queue at once and runs it without
 * the lock. It must not know what the calls are for. */

#include "net/worker.h"

#include "net/dial.h"
#include "port/assert.h"
#include "port/port.h"

#include <string.h>

enum { CAPACITY_FIRST = 64 };

typedef struct call {
    void (*fn)(void *arg);
    void *arg;
} call;

typedef struct calls {
    call *at;
    size_t len, capacity;
} calls;

struct weir_worker {
    weir_worker_options options;
    uv_loop_t uv;
    uv_async_t wake;
    net_dialer *dialer;
    port_thread *thread;
    port_mutex *lock; /* guards the next four members */
    port_cond *begun_changed;
    calls posted;
    bool begun, stopping;
    calls taken; /* the calls being run; then their memory for reuse. Used by the thread only */
};

/* ---- on the worker's thread ------------------------------------------------------------------ */

static void finish(weir_worker *w)
{
    if (w->options.end)
        w->options.end(w->options.ctx);
    net_dialer_close(w->dialer);
    uv_close((uv_handle_t *)&w->wake, NULL);
}

/* Runs the queue. Calls that are posted meanwhile run in the next iteration of the loop. */
static void on_wake(uv_async_t *wake)
{
    weir_worker *w = wake->data;
    port_mutex_lock(w->lock);
    WEIR_ASSERT(w->taken.len == 0);
    calls now = w->posted;
    w->posted = w->taken;
    bool stopping = w->stopping;
    port_mutex_unlock(w->lock);
    for (size_t i = 0; i < now.len; i++)
        now.at[i].fn(now.at[i].arg);
    now.len = 0;
    w->taken = now;
    if (stopping)
        finish(w);
}

static void run(void *arg)
{
    weir_worker *w = arg;
    if (w->options.begin)
        w->options.begin(w->options.ctx, net_dialer_port(w->dialer));
    port_mutex_lock(w->lock);
    w->begun = true;
    port_cond_wake(w->begun_changed);
    port_mutex_unlock(w->lock);
    uv_run(&w->uv, UV_RUN_DEFAULT);
}

/* ---- on any thread --------------------------------------------------------------------------- */

static bool grow(calls *c)
{
    if (c->len < c->capacity)
        return true;
    size_t capacity = c->capacity > 0 ? 2 * c->capacity : CAPACITY_FIRST;
    call *at = port_zalloc(capacity, sizeof *at);
    if (!at)
        return false;
    if (c->len > 0)
        memcpy(at, c->at, c->len * sizeof *at);
    port_free(c->at);
    *c = (calls){at, c->len, capacity};
    return true;
}

weir_status weir_worker_post(weir_worker *w, void (*fn)(void *arg), void *arg)
{
    port_mutex_lock(w->lock);
    bool first = w->posted.len == 0;
    weir_status st = w->stopping ? WEIR_E_IO : grow(&w->posted) ? WEIR_OK : WEIR_E_NOMEM;
    if (st == WEIR_OK)
        w->posted.at[w->posted.len++] = (call){fn, arg};
    port_mutex_unlock(w->lock);
    if (st == WEIR_OK && first)
        uv_async_send(&w->wake);
    return st;
}

/* ---- open and close -------------------------------------------------------------------------- */

static void free_all(weir_worker *w)
{
    port_cond_free(w->begun_changed);
    port_mutex_free(w->lock);
    port_free(w->posted.at);
    port_free(w->taken.at);
    port_free(w);
}

static weir_status open_loop(weir_worker *w)
{
    if (uv_loop_init(&w->uv) != 0)
        return WEIR_E_IO;
    if (uv_async_init(&w->uv, &w->wake, on_wake) != 0) {
        uv_loop_close(&w->uv);
        return WEIR_E_IO;
    }
    w->wake.data = w;
    const net_dialer_options options = {.uv = &w->uv, .ctx = w->options.ctx, .now = w->options.now};
    weir_status st = net_dialer_open(&w->dialer, &options);
    if (st == WEIR_OK) {
        w->thread = port_thread_start(run, w);
        st = w->thread ? WEIR_OK : WEIR_E_IO;
    }
    if (st == WEIR_OK)
        return st;
    net_dialer_close(w->dialer);
    uv_close((uv_handle_t *)&w->wake, NULL);
    uv_run(&w->uv, UV_RUN_DEFAULT);
    uv_loop_close(&w->uv);
    return st;
}

weir_status weir_worker_open(weir_worker **ret, const weir_worker_options *options)
{
    weir_worker *w = port_zalloc(1, sizeof *w);
    if (!w)
        return WEIR_E_NOMEM;
    w->options = *options;
    w->lock = port_mutex_new();
    w->begun_changed = port_cond_new();
    weir_status st = w->lock && w->begun_changed ? open_loop(w) : WEIR_E_NOMEM;
    if (st != WEIR_OK) {
        free_all(w);
        return st;
    }
    port_mutex_lock(w->lock);
    while (!w->begun)
        port_cond_wait(w->begun_changed, w->lock);
    port_mutex_unlock(w->lock);
    *ret = w;
    return WEIR_OK;
}

void weir_worker_close(weir_worker *w)
{
    if (!w)
        return;
    port_mutex_lock(w->lock);
    w->stopping = true;
    port_mutex_unlock(w->lock);
    uv_async_send(&w->wake);
    port_thread_join(w->thread);
    uv_loop_close(&w->uv);
    free_all(w);
}
