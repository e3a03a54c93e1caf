/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_SERVICE_ENGINE_H
#define WEIR_SERVICE_ENGINE_H
/* The interface of engines. An engine keeps the states of some policies and decides by them. The
 * engines `redis` and `hybrid` are in src/engine; the local engine is the service's own store. Each
 * service has its own engines, on its own thread. An engine may need time, but answers every
 * request. */

#include "core/figures.h"
#include "port/text.h"
#include "service/throttle.h"

#include <weir/weir_store.h>

typedef enum weir_engine_kind {
    WEIR_ENGINE_LOCAL, /* the service's own store */
    WEIR_ENGINE_REDIS, /* from here on, an engine that may have to wait */
    WEIR_ENGINE_HYBRID,
    WEIR_ENGINES
} weir_engine_kind;

/* What an engine answers when it cannot reach its server. */
typedef enum weir_on_error {
    WEIR_ON_ERROR_DEFAULT, /* as the engine's options say */
    WEIR_ON_ERROR_OPEN,    /* allowed, with the full quota; nothing is charged */
    WEIR_ON_ERROR_CLOSED,  /* denied; retry_after is the time to the engine's next attempt */
    WEIR_ON_ERROR_LOCAL,   /* the service's own store decides and is charged */
    WEIR_ON_ERROR_REPORT   /* WEIR_E_IO: for an engine on top of another */
} weir_on_error;

typedef enum weir_verb {
    WEIR_VERB_TAKE,
    WEIR_VERB_PEEK,
    WEIR_VERB_REFUND,
    WEIR_VERB_CHARGE,   /* weir_charge(); `granted` are the units that were counted */
    WEIR_VERB_RESET,    /* the decision shows the full quota */
    WEIR_VERB_GRANT,    /* charges as many of `cost` units as are allowed now, `granted`; the
                          decision is that of a peek with cost 1 after it */
    WEIR_VERB_THROTTLE, /* CL.THROTTLE; ignores `policy` */
    WEIR_VERB_RESET_ALL /* of all keys of the policy; has no key, and the decision has no meaning */
} weir_verb;

/* A request to an engine, and its answer. All that it points to must stay valid until the request
 * is answered or abandoned. */
typedef struct weir_engine_request {
    weir_verb verb;
    const weir_policy *policy;
    weir_slice text;    /* the canonical policy text */
    weir_slice name;    /* of the rule; len 0: an inline policy */
    weir_slice key;     /* of the state, 1..WEIR_KEY_MAX bytes; an IP address is its network */
    uint64_t policy_id; /* in the service's own store */
    int64_t cost;
    int64_t keep; /* of a take or a peek; see weir_check_keep() */
    weir_throttle throttle;
    weir_on_error on_error;
    bool with_figures; /* next_ns and, of a peek, `figures` are wanted */

    /* Outputs. The status is that of weir_store_check(); or WEIR_E_IO, if the server was not
     * reached or did not answer; or WEIR_E_UNSUPPORTED. */
    weir_status status;
    weir_decision decision; /* on WEIR_OK */
    int64_t next_ns;        /* on WEIR_OK, as weir_request.next_ns; at first WEIR_NEXT_UNKNOWN */
    weir_figures figures;   /* on WEIR_OK, as weir_request.figures; at first WEIR_NO_FIGURES */
    weir_throttle_answer answer;          /* of a throttle, on WEIR_OK */
    weir_throttle_status throttle_status; /* of a throttle, on WEIR_E_RANGE */
    int64_t granted;                      /* of a grant or a charge, on WEIR_OK */
    bool by_error;                        /* on_error decided */
    const char *reason; /* on WEIR_E_IO and WEIR_E_UNSUPPORTED: a static string, or NULL */
} weir_engine_request;

#define WEIR_ENGINE_BATCH_MAX 64

/* A batch of requests, which is answered as a whole. The answers are independent, and in order for
 * equal keys. */
typedef struct weir_engine_batch {
    weir_engine_request *request;
    size_t len;      /* 1..WEIR_ENGINE_BATCH_MAX; with `all` 1..WEIR_TAKE_MANY_MAX */
    bool all;        /* the requests are takes, decided atomically; see weir_store_take_many() */
    size_t blocking; /* output, with `all`: as weir_store_take_many() says */

    /* The callback, if submit() returned false. The engine calls it on its thread, never from
     * within a call of the engine. */
    void (*done)(struct weir_engine_batch *r, int64_t now_ns);

    void *inside; /* private to the engine, until the batch is answered */
} weir_engine_batch;

typedef struct weir_engine weir_engine;

typedef struct weir_engine_calls {
    /* Returns true if all requests are answered now. Else done() is called later, at the latest
     * after the deadline in the engine's options. */
    bool (*submit)(weir_engine *e, weir_engine_batch *r, int64_t now_ns);
    /* Gives up a batch in flight: done() is not called, and *r is not used again. Requests that
     * were sent are charged nevertheless. */
    void (*abandon)(weir_engine *e, weir_engine_batch *r);
    /* Frees the engine. No batch may be in flight. */
    void (*close)(weir_engine *e);
} weir_engine_calls;

struct weir_engine {
    const weir_engine_calls *calls;
};

#endif
