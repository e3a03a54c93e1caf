/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_SERVICE_PENDING_H
#define WEIR_SERVICE_PENDING_H
/* Pending requests: memory for requests that wait for engines. It holds the queries to the engines
 * (weir_engine_request), all that they point to, and what the service must know of the requests
 * once the answers arrive. It must not know what answers mean. Private to src/service, for the
 * service's thread. */

#include "service/service_internal.h"

/* A request that waits. */
typedef struct weir_pending_request {
    weir_request request;       /* the outputs so far; do not read its rule and key */
    weir_resolved at;           /* the key is a copy, if an engine needs it */
    weir_engine_request *query; /* NULL: no engine is queried */
    bool pinned;                /* its inline policy is pinned in the cache */
} weir_pending_request;

/* The queries to one engine. */
typedef struct weir_pending_batch {
    weir_engine_batch batch; /* the first field: done() finds the others by it. len 0: no queries */
    weir_pending *pending;
    weir_engine *engine;
    bool in_flight;
} weir_pending_batch;

struct weir_pending {
    weir_service *service;
    weir_completion *completion; /* NULL: not waiting */
    weir_pending *next, *previous;
    weir_rules *rules; /* holds one reference; NULL: those of the service */
    weir_pending_batch batches[WEIR_ENGINES];
    unsigned in_flight; /* batches without an answer */
    int64_t opened_ns, answered_ns;

    /* The state of take_all.c between its steps. */
    int step;
    size_t blocking;
    weir_engine_kind engine;
    bool listed, failed;

    size_t n;       /* requests */
    size_t queries; /* queries */
    size_t max;     /* the maximum of each */
    weir_pending_request *kept;
    weir_engine_request *query;
    char *keys;
    size_t keys_len, keys_max;
};

/* Opens memory for up to n requests (1..WEIR_BATCH_MAX), as many queries, and their keys. Returns
 * NULL if memory is exhausted, or WEIR_SERVICE_PENDING_BYTES_MAX is reached. */
weir_pending *weir_pending_open(weir_service *s, size_t n, size_t key_bytes, int64_t now_ns);

/* Frees it. It must not be waiting. */
void weir_pending_free(weir_pending *p);

/* Copies the key of a resolved request, so that it outlives the request's bytes. */
void weir_pending_copy_key(weir_pending *p, weir_resolved *at);

/* Adds a query about a request whose key is copied. Add all queries of one engine before those of
 * the next.
 *  kind  not WEIR_ENGINE_LOCAL. */
weir_engine_request *weir_pending_add(weir_pending *p, weir_engine_kind kind, weir_verb verb,
                                      const weir_request *request, const weir_resolved *at);

/* Keeps the next request. */
void weir_pending_keep(weir_pending *p, const weir_request *request, const weir_resolved *at,
                       weir_engine_request *query);

/* Submits the added queries to their engines. Returns whether all are answered now.
 *  all  the queries of an engine are one atomic take; see weir_engine_batch. */
bool weir_pending_submit(weir_pending *p, bool all, int64_t now_ns);

/* Ends the answered queries, so that others can be added. A request is queried at most once. */
void weir_pending_next_step(weir_pending *p);

/* Makes the completion wait for the answers. */
void weir_pending_wait(weir_pending *p, weir_completion *completion);

/* Ends the wait. The kept requests are valid until the next weir_service_refresh(). */
void weir_pending_finish(weir_pending *p);

/* Frees what weir_pending_finish() left. */
void weir_pending_collect(weir_service *s);

/* Makes the pending requests keep the rules that they point to. To be called under the limiter's
 * lock, before the service adopts other rules. */
void weir_pending_keep_rules(weir_service *s);

/* Frees all memory of a service that closes. Nothing may be in flight. */
void weir_pending_close(weir_service *s);

#endif
