/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_TESTS_DAEMON_PARTS_H
#define WEIR_TESTS_DAEMON_PARTS_H
/* The parts of a daemon without sockets: bytes of requests in one buffer, those of the replies in
 * another. Replies are in whole milliseconds. */

#include "port/buffer.h"
#include "service/service.h"

#include <weir/weir_store.h>

typedef struct daemon_parts {
    weir_store *store;
    weir_limiter *limiter;
    weir_service *service;
    weir_buffer in, out;
} daemon_parts;

/* Opens a store of its own, because the clock of a store never steps back. */
static inline bool daemon_parts_open(daemon_parts *d, const weir_zones *zones)
{
    weir_buffer_init(&d->in, 1 << 16);
    weir_buffer_init(&d->out, 1 << 16);
    return weir_store_open(&d->store, &(weir_store_options){.zones = zones}) == WEIR_OK &&
           weir_limiter_open(&d->limiter, d->store, zones) == WEIR_OK &&
           weir_service_open(&d->service, d->limiter) == WEIR_OK;
}

static inline void daemon_parts_close(daemon_parts *d)
{
    weir_buffer_free(&d->in);
    weir_buffer_free(&d->out);
    weir_service_close(d->service);
    weir_limiter_close(d->limiter);
    weir_store_close(d->store);
    *d = (daemon_parts){0};
}

static inline int64_t up_to_ms(int64_t ns)
{
    return (ns / 1000000 + (ns % 1000000 > 0)) * 1000000;
}

static inline void round_up(weir_decision *d)
{
    if (!d->never)
        d->retry_after_ns = up_to_ms(d->retry_after_ns);
    d->reset_after_ns = up_to_ms(d->reset_after_ns);
    d->delay_ns = up_to_ms(d->delay_ns);
}

#endif
