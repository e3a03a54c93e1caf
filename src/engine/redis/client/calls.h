/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_ENGINE_REDIS_CALLS_H
#define WEIR_ENGINE_REDIS_CALLS_H
/* The calls that are in flight: each ends once, at its deadline at the latest. A call is in the
 * queue of deadlines. Besides, it either waits in a list, or its reply is expected in the pipeline
 * of a connection. Nothing here knows servers or connections.
 *
 * done() may send and abandon other calls. A caller that ends several calls therefore first moves
 * them to a list of its own. */

#include "engine/redis/client/client.h"

#include "port/assert.h"

/* ---- pipelines ------------------------------------------------------------------------------- */

/* The request that an expected reply belongs to. */
typedef enum weir_redis_expects {
    WEIR_REDIS_EXPECTS_CALL,
    WEIR_REDIS_EXPECTS_IGNORED, /* to ASKING or CLIENT SETNAME, or a reply that came too late */
    WEIR_REDIS_EXPECTS_AUTH,
    WEIR_REDIS_EXPECTS_SELECT,
    WEIR_REDIS_EXPECTS_ROLE,
    WEIR_REDIS_EXPECTS_MODULE,
    WEIR_REDIS_EXPECTS_VERSION,
    WEIR_REDIS_EXPECTS_LOAD,
    WEIR_REDIS_EXPECTS_SCRIPT,
    WEIR_REDIS_EXPECTS_DECISION, /* of the handshake */
    WEIR_REDIS_EXPECTS_SLOTS,
    WEIR_REDIS_EXPECTS_RESETS,
    WEIR_REDIS_EXPECTS_MASTER
} weir_redis_expects;

typedef struct weir_redis_reply {
    weir_redis_call *call; /* NULL: the reply is read and dropped */
    int64_t sent_ns;
    weir_redis_expects expects;
} weir_redis_reply;

/* The replies that a connection has still to receive, in order: a ring buffer that doubles when it
 * is full. Replies are numbered from 0, and the numbers wrap. */
typedef struct weir_redis_pipeline {
    weir_redis_reply *reply;
    uint32_t size;       /* 0 or a power of two */
    uint32_t head, tail; /* the numbers of the oldest reply and of the next one */
} weir_redis_pipeline;

static inline uint32_t weir_redis_pipeline_len(const weir_redis_pipeline *p)
{
    return p->tail - p->head;
}

static inline weir_redis_reply *weir_redis_pipeline_at(const weir_redis_pipeline *p,
                                                       uint32_t number)
{
    WEIR_ASSERT(number - p->head < p->size);
    return &p->reply[number & (p->size - 1)];
}

static inline weir_redis_reply *weir_redis_pipeline_first(const weir_redis_pipeline *p)
{
    return weir_redis_pipeline_at(p, p->head);
}

/* Doubles the size. False: no memory. */
bool weir_redis_pipeline_grow(weir_redis_pipeline *p);

/* Reserves space for n more replies, 1 or 2. False: no memory. */
static inline bool weir_redis_pipeline_reserve(weir_redis_pipeline *p, uint32_t n)
{
    return weir_redis_pipeline_len(p) + n <= p->size || weir_redis_pipeline_grow(p);
}

/* Appends a reply. Space for it was reserved. */
static inline void weir_redis_pipeline_push(weir_redis_pipeline *p, weir_redis_call *call,
                                            weir_redis_expects expects, int64_t now_ns)
{
    WEIR_ASSERT(weir_redis_pipeline_len(p) < p->size);
    *weir_redis_pipeline_at(p, p->tail++) = (weir_redis_reply){call, now_ns, expects};
}

/* Moves the calls to an empty list, and frees the pipeline. */
void weir_redis_pipeline_close(weir_redis_pipeline *p, weir_redis_call *ret_list);

/* ---- lists of waiting calls ------------------------------------------------------------------ */

/* A list is a ring through `wait_next` with a weir_redis_call as its head. */
static inline void weir_redis_list_init(weir_redis_call *list)
{
    list->wait_next = list->wait_before = list;
}

static inline bool weir_redis_list_is_empty(const weir_redis_call *list)
{
    return list->wait_next == list;
}

/* Appends a call, which is in no list. */
void weir_redis_list_add(weir_redis_call *list, weir_redis_call *call);
/* Removes and returns the first call. NULL: the list is empty. */
weir_redis_call *weir_redis_list_pop(weir_redis_call *list);
/* Moves all calls of a list to another, which needs no initialisation. */
void weir_redis_list_move(weir_redis_call *from, weir_redis_call *ret_to);

/* ---- calls in flight ------------------------------------------------------------------------- */

typedef struct weir_redis_calls {
    port_dialer *dialer;
    weir_redis_counts *counts;
    weir_redis_call deadlines; /* the head of a ring through `next`, the earliest deadline first */
    weir_redis_call ended;     /* the same, of calls that ended within weir_redis_client_send() */
    size_t in_flight;          /* calls in `deadlines` */
    bool sending;              /* weir_redis_client_send() is running */
    port_timer *timer;
    int64_t timer_ns; /* when the timer expires */
} weir_redis_calls;

/* Returns WEIR_OK or WEIR_E_NOMEM. */
WEIR_NODISCARD weir_status weir_redis_calls_init(weir_redis_calls *ret, port_dialer *dialer,
                                                 weir_redis_counts *counts);
/* Ends all calls as WEIR_REDIS_UNREACHABLE, also those that done() sends meanwhile. */
void weir_redis_calls_close(weir_redis_calls *c, int64_t now_ns);

/* Starts the deadline of a call. */
void weir_redis_calls_add(weir_redis_calls *c, weir_redis_call *call);
/* Ends a call and calls done(), or, within weir_redis_client_send(), calls done() soon.
 *  why  static, or valid until done() returns; may be NULL. */
void weir_redis_calls_end(weir_redis_calls *c, weir_redis_call *call, weir_redis_outcome outcome,
                          const char *why, int64_t now_ns);
/* Ends a call with WEIR_E_UNSUPPORTED for each of its requests.
 *  reason  as long-lived as the client. */
void weir_redis_calls_unsupported(weir_redis_calls *c, weir_redis_call *call, const char *reason,
                                  int64_t now_ns);
/* Removes a call from everywhere, without calling done(). */
void weir_redis_calls_remove(weir_redis_calls *c, weir_redis_call *call);

#endif
