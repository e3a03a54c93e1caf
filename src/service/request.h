/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_SERVICE_REQUEST_H
#define WEIR_SERVICE_REQUEST_H
/* Requests to a service, their answers, and completions, with which a caller waits for an engine.
 * The functions that decide are in service.h. */

#include "core/figures.h"
#include "port/text.h"
#include "service/rules/rules.h"
#include "service/throttle.h"

typedef struct weir_service weir_service;

/* ---- completions ----------------------------------------------------------------------------- */
/* An engine (engine.h) may need time. The calls that may use one take a completion and return
 * whether the requests are answered. If not, the call has written nothing. Once ready() was called,
 * repeat the call with the same requests to get the answers; the bytes of the requests may have
 * moved. */

typedef struct weir_pending weir_pending;

/* One for each session, on the service's thread. Do not move it while it is pending. A caller
 * without engines passes NULL; requests that need an engine then fail with WEIR_E_UNSUPPORTED. */
typedef struct weir_completion {
    weir_pending *pending; /* the service's queries in flight; NULL: none */

    /* The answers have arrived. The engine calls it, never from within a call of the service. It
     * runs on the engine's time: it should only schedule the session. */
    void (*ready)(void *ctx);
    void *ctx;
} weir_completion;

/* Whether queries are in flight that have no answer yet. */
bool weir_completion_is_pending(const weir_completion *c);

/* The number of requests that the repeated call must have; 0: no call to repeat. */
size_t weir_completion_len(const weir_completion *c);

/* Cancels the call: ready() is not called, and nothing is counted. The requests may be charged
 * nevertheless. */
void weir_completion_cancel(weir_completion *c);

/* The memory of the pending requests of a service, in bytes. Requests beyond it fail with
 * WEIR_E_IO. A request needs about 650 bytes and its key. */
#define WEIR_SERVICE_PENDING_BYTES_MAX ((size_t)64 << 20)

/* ---- requests -------------------------------------------------------------------------------- */

/* What decided a request. */
typedef enum weir_reason {
    WEIR_BY_LIMIT,      /* the limit */
    WEIR_BY_SHADOW,     /* the limit denied it, but the rule is in shadow: allowed */
    WEIR_BY_ALLOW_LIST, /* allowed, not counted, and the decision shows the full quota */
    WEIR_BY_DENY_LIST,  /* denied, with `never` */
    WEIR_BY_ON_ERROR,   /* the engine failed, and on_error decided */
    WEIR_BY_BLOCK       /* the policy's block: denied */
} weir_reason;

/* "limit", "shadow", "allow-list", "deny-list", "on-error" or "blocked". */
const char *weir_reason_word(weir_reason reason);

/* A request and its decision. */
typedef struct weir_request {
    weir_slice rule;           /* the name of a rule, or the text of an inline policy */
    bool by_text;              /* `rule` is an inline policy */
    weir_slice key;            /* 1..WEIR_KEY_MAX bytes */
    int64_t cost;              /* 0..WEIR_COST_MAX; 0 is a peek */
    int64_t keep;              /* of a take or a peek: what it keeps for others; 0: nothing. See
                                  weir_check_keep() */
    bool with_figures;         /* an engine is to report what weir_service_next() and
                                  weir_service_figures() write */
    const weir_client *client; /* the client whose address the key contains, so that patterns match
                                  it. NULL: none; also in a repeated call */

    /* Outputs. All but `status` are written on WEIR_OK only, unless noted. */
    weir_status status;
    weir_decision decision;
    weir_reason reason;
    int64_t next_ns;           /* written by weir_service_next() */
    int64_t over;              /* of weir_service_charge() only: the units that were not counted */
    weir_figures figures;      /* of the layer that the decision names; written by
                                  weir_service_figures() */
    const weir_policy *policy; /* that decided; valid until the next call on the service */
    const weir_answer *answer; /* of the rule; NULL: an inline policy. Valid as `policy` */
    const char *why; /* on WEIR_E_IO, _UNSUPPORTED and _RANGE: what failed and what helps; a static
                        string, or NULL */
    weir_policy_error error; /* of a refused inline policy, with column > 0; else column is 0 */
} weir_request;

#define WEIR_BATCH_MAX 64

/* The joint answer to several requests. */
typedef struct weir_all_result {
    weir_status status; /* the other fields are written on WEIR_OK only */
    bool allowed;
    size_t index;     /* the request whose decision represents all. Denied: the denied one with the
                         longest wait. Allowed: the enforced one with the least remaining, and
                         among equals the latest reset */
    int64_t delay_ns; /* the longest delay of any; 0 if denied */
} weir_all_result;

#define WEIR_ALL_MAX 16 /* WEIR_TAKE_MANY_MAX of the store */

/* The answer to CL.THROTTLE. */
typedef struct weir_throttle_result {
    weir_status status;           /* WEIR_OK; WEIR_E_RANGE; WEIR_E_NOMEM; WEIR_E_IO */
    weir_throttle_answer answer;  /* on WEIR_OK */
    weir_throttle_status numbers; /* which argument is bad, on WEIR_E_RANGE; else
                                     WEIR_THROTTLE_OK */
    const char *why;              /* as weir_request.why */
} weir_throttle_result;

#endif
