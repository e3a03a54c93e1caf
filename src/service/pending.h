/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_SERVICE_PENDING_H
#define WEIR_SERVICE_PENDING_H
/* Asks that engines are asked about: the requests, all that they point to, and what is to be known
 * of the asks when the answers are there. It must not know what becomes of an answer. For this room
 * only, and of a service's thread. */

#include "service/service_internal.h"

/* An ask while it waits. */
typedef struct weir_pending_request {
    weir_request ask; /* as far as it was answered; its rule and key are not to be read */
    weir_resolved at; /* its key is a copy, if it is needed */
    weir_engine_request *request; /* NULL: no engine is asked about it */
    bool pinned;                  /* the policy, in the service's texts */
} weir_pending_request;

typedef struct weir_pending_batch { /* a round, and with whom it is */
    weir_engine_batch round;        /* first, so that it is found again; len 0: there is none */
    weir_pending *pending;
    weir_engine *engine;
    bool waits;
} weir_pending_batch;

struct weir_pending {
    weir_service *service;
    weir_completion *completion; /* NULL: not under way */
    weir_pending *next, *previous;
    weir_rules *rules; /* one reference; NULL: what is kept is of those that the service has */
    weir_pending_batch asked[WEIR_ENGINES];
    unsigned left;                 /* rounds that are not answered */
    int64_t asked_ns, answered_ns; /* when it was opened, and by the engine that answered last */

    /* Of a call that asks more than once; the caller's own. */
    int step;
    size_t blocking;
    weir_engine_kind engine;
    bool listed, failed;

    size_t n, requests; /* how many there are of each ... */
    size_t room;        /* ... and may be */
    weir_pending_request *kept;
    weir_engine_request *request;
    char *keys;
    size_t keys_len, keys_room;
};

/* Room for so many asks, 1..WEIR_BATCH_MAX, as many requests, and their keys. NULL if there is no
 * memory or WEIR_SERVICE_PENDING_BYTES_MAX is reached. */
weir_pending *weir_pending_open(weir_service *s, size_t asks, size_t key_bytes, int64_t now_ns);

/* Gives it back; it is not under way. */
void weir_pending_free(weir_pending *p);

/* Makes a place's key one that stays. */
void weir_pending_copy_key(weir_pending *p, weir_resolved *at);

/* Adds a request about an ask whose key stays. Those for one engine come one after the other. */
weir_engine_request *weir_pending_add(weir_pending *p, weir_engine_kind kind, weir_verb verb,
                                      const weir_request *ask, const weir_resolved *at);

/* Keeps the next ask. */
void weir_pending_keep(weir_pending *p, const weir_request *ask, const weir_resolved *at,
                       weir_engine_request *request);

/* Asks what was added since the last time. Returns whether all of it is answered. */
bool weir_pending_submit(weir_pending *p, bool all, int64_t now_ns);

/* Forgets the requests that were answered, so that others may be added. No ask is asked about
 * again. */
void weir_pending_next_step(weir_pending *p);

/* Has the turn wait for it. */
void weir_pending_wait(weir_pending *p, weir_completion *completion);

/* Ends the turn's wait. What is kept stays until the next weir_service_refresh(). */
void weir_pending_finish(weir_pending *p);

/* Frees what is spent. */
void weir_pending_collect(weir_service *s);

/* To be called, under the limiter's lock, before the service's rules become others. */
void weir_pending_keep_rules(weir_service *s);

/* To be called before the service goes; nothing may be under way. */
void weir_pending_close(weir_service *s);

#endif
