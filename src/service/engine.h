/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_SERVICE_ENGINE_H
#define WEIR_SERVICE_ENGINE_H
/* Engines: who decides for a service what its own store does not, as an interface. The room
 * engine/ has those there are. An engine is one thread's, as the service is; it may need time for
 * an answer, but always gives one. */

#include "port/text.h"
#include "service/throttle.h"

#include <weir/weir_store.h>

/* Which engine a policy's state is with. */
typedef enum weir_engine_kind {
    WEIR_ENGINE_LOCAL, /* the service's own store */
    WEIR_ENGINE_REDIS,
    WEIR_ENGINE_HYBRID,
    WEIR_ENGINES
} weir_engine_kind;

/* What is answered when the engine cannot ask. */
typedef enum weir_on_error {
    WEIR_ON_ERROR_DEFAULT, /* as the engine's options say */
    WEIR_ON_ERROR_OPEN,    /* allowed, with the figures of a fresh key; nothing is charged */
    WEIR_ON_ERROR_CLOSED,  /* denied; retry_after is when the engine may have got better */
    WEIR_ON_ERROR_LOCAL,   /* what the service's own store says, and charges there */
    WEIR_ON_ERROR_REPORT   /* the status is WEIR_E_IO: for an engine that asks another */
} weir_on_error;

typedef enum weir_verb {
    WEIR_VERB_TAKE,
    WEIR_VERB_PEEK,
    WEIR_VERB_REFUND,
    WEIR_VERB_RESET,   /* the figures are those of a fresh key */
    WEIR_VERB_GRANT,   /* charges as many of `cost` units as are allowed now: `granted`; the figures
                          are those afterwards, of a peek with cost 1 */
    WEIR_VERB_THROTTLE /* CL.THROTTLE; `policy` is not looked at */
} weir_verb;

/* One of what an engine is asked, and its answer. What it points to stays until it is answered or
 * abandoned. */
typedef struct weir_engine_request {
    weir_verb verb;
    const weir_policy *policy;
    weir_slice text;    /* of the policy, canonical */
    weir_slice name;    /* of the rule whose limit or override it is; len 0: it was given as text */
    weir_slice key;     /* as the rule sees it; 1..WEIR_KEY_MAX */
    uint64_t policy_id; /* in the service's own store */
    int64_t cost;
    weir_throttle throttle;
    weir_on_error on_error;

    weir_status status; /* out. WEIR_E_IO: it could not be asked, or whether it was is not known;
                               WEIR_E_UNSUPPORTED, with a reason; as weir_store_check() */
    weir_decision decision;               /* out, on WEIR_OK */
    weir_throttle_answer answer;          /* out, on WEIR_OK, of a throttle */
    weir_throttle_status throttle_status; /* out, if the status is WEIR_E_RANGE, of a throttle */
    int64_t granted;                      /* out, on WEIR_OK, of a grant */
    bool by_error;                        /* out: on_error decided */
    const char
        *reason; /* out: why the status is WEIR_E_IO or WEIR_E_UNSUPPORTED; static; or NULL */
} weir_engine_request;

#define WEIR_ENGINE_BATCH_MAX 64

/* Requests that are asked together and waited for together. Their answers are independent of each
 * other, and in order for equal keys; or, if `all`, they are takes that are allowed or denied as
 * one, see weir_store_take_many(). */
typedef struct weir_engine_batch {
    weir_engine_request *request;
    size_t len; /* 1..WEIR_ENGINE_BATCH_MAX; of `all` 1..WEIR_TAKE_MANY_MAX */
    bool all;
    size_t blocking; /* out, of `all`: as weir_store_take_many() says */

    /* Called by the thread of the engine when all are answered, if ask() said false; never from
     * within a call of the engine by the asker. */
    void (*done)(struct weir_engine_batch *r, int64_t now_ns);

    void *inside; /* the engine's own, until it is answered */
} weir_engine_batch;

typedef struct weir_engine weir_engine;

typedef struct weir_engine_calls {
    /* Returns true if all are answered now, else done() will be called, at the latest when the
     * deadline of the engine's options is over. */
    bool (*submit)(weir_engine *e, weir_engine_batch *r, int64_t now_ns);
    /* The asker has gone: done() is not called, and *r is not touched again. What was sent is
     * charged all the same. */
    void (*abandon)(weir_engine *e, weir_engine_batch *r);
    /* No round may be under way. */
    void (*close)(weir_engine *e);
} weir_engine_calls;

struct weir_engine {
    const weir_engine_calls *calls;
};

#endif
