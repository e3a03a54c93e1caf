/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_NET_WORKER_H
#define WEIR_NET_WORKER_H
/* A background thread with an event loop and a dialer: for libweir-redis, whose callers run on
 * threads of their own without an event loop, and for telemetry, which must not delay any loop. */

#include "port/dial.h"

#include <weir/weir.h>

typedef struct weir_worker weir_worker;

typedef struct weir_worker_options {
    void *ctx;
    /* Called on the worker's thread before the first and after the last posted call. Each may be
     * NULL. Connections and timers that exist after `end` are closed without a callback. */
    void (*begin)(void *ctx, port_dialer *dialer);
    void (*end)(void *ctx);
    int64_t (*now)(void *ctx); /* the dialer's clock, see net/dial.h */
} weir_worker_options;

/* Starts the thread, and waits until `begin` has returned.
 * Returns WEIR_OK; WEIR_E_NOMEM; WEIR_E_IO if threads or descriptors are exhausted. */
WEIR_NODISCARD weir_status weir_worker_open(weir_worker **ret, const weir_worker_options *options);

/* Schedules fn(arg) on the worker's thread. Calls run in order, and their output is sent in one
 * batch. Threads: any.
 * Returns WEIR_OK; WEIR_E_NOMEM; WEIR_E_IO once weir_worker_close() was called. Unless it returns
 * WEIR_OK, fn is not called. */
WEIR_NODISCARD weir_status weir_worker_post(weir_worker *w, void (*fn)(void *arg), void *arg);

/* Runs all posted calls, then `end`, and joins the thread. Only posted calls, `begin` and `end` may
 * post during this call, and none may post after it. Do not call it on the worker's thread. Accepts
 * NULL. */
void weir_worker_close(weir_worker *w);

#endif
