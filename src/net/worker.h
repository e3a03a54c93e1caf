/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_NET_WORKER_H
#define WEIR_NET_WORKER_H
/* A thread with a loop and a dialer, and nobody to serve: for a library whose callers are threads
 * of any kind. */

#include "port/dial.h"

#include <weir/weir.h>

typedef struct weir_worker weir_worker;

typedef struct weir_worker_options {
    void *ctx;
    /* On the worker's thread: before any other call there, and after the last. Each may be NULL.
     * What was made with the dialer and is left after `end` goes without an event. */
    void (*begin)(void *ctx, port_dialer *dialer);
    void (*end)(void *ctx);
    int64_t (*now)(void *ctx); /* the dialer's clock, see net/dial.h */
} weir_worker_options;

/* Starts it; `begin` has returned when this does.
 * Returns WEIR_OK; WEIR_E_NOMEM; WEIR_E_IO if there are no threads or descriptors left. */
WEIR_NODISCARD weir_status weir_worker_open(weir_worker **ret, const weir_worker_options *options);

/* Has fn(arg) called on its thread, soon and in order. What such calls send travels together. Any
 * thread, its own too. False if there is no memory: then it is not called. */
bool weir_worker_post(weir_worker *w, void (*fn)(void *arg), void *arg);

/* Makes the calls that were posted before, then `end`, and waits for that. Nobody may post from
 * here on, and this is not for its own thread. Accepts NULL. */
void weir_worker_close(weir_worker *w);

#endif
