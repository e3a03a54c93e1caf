/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_SERVICE_SERVICE_H
#define WEIR_SERVICE_SERVICE_H
/* A service finds the rule or the inline policy of each request, and lets the store or another
 * engine decide. Each thread has one service; all services share a limiter (limiter.h). It must not
 * know sockets or protocols. */

#include "port/buffer.h"
#include "port/text.h"
#include "service/limiter.h"
#include "service/rules/key_template.h"
#include "service/throttle.h"

/* ---- opening --------------------------------------------------------------------------------- */

typedef struct weir_service weir_service;

/* How many parsed inline policies a service caches. */
#define WEIR_SERVICE_POLICIES_MAX 1024

/* Opens a service, to be used by one thread. Returns WEIR_OK or WEIR_E_NOMEM. */
WEIR_NODISCARD weir_status weir_service_open(weir_service **ret, weir_limiter *l);

/* Accepts NULL. The limiter keeps the counts. No query of the service may be in flight. */
void weir_service_close(weir_service *s);

weir_limiter *weir_service_limiter(weir_service *s);

/* From pin to unpin, the service adopts no other rules, so that a caller decides several requests
 * by the same rules. pin() adopts the active ones first; it may be repeated. To be called on the
 * service's thread, which must not wait while the rules are pinned. */
void weir_service_pin(weir_service *s);
void weir_service_unpin(weir_service *s);

/* Gives the service an engine; NULL takes it away. To be called on the service's thread, with no
 * query in flight.
 *  kind  not WEIR_ENGINE_LOCAL. */
void weir_service_set_engine(weir_service *s, weir_engine_kind kind, weir_engine *engine);

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

/* ---- taking ---------------------------------------------------------------------------------- */

/* What decided a request. */
typedef enum weir_reason {
    WEIR_BY_LIMIT,      /* the limit */
    WEIR_BY_SHADOW,     /* the limit denied it, but the rule is in shadow: allowed */
    WEIR_BY_ALLOW_LIST, /* allowed, not counted, and the decision shows the full quota */
    WEIR_BY_DENY_LIST,  /* denied, with `never` */
    WEIR_BY_ON_ERROR    /* the engine failed, and on_error decided */
} weir_reason;

/* "limit", "shadow", "allow-list", "deny-list" or "on-error". */
const char *weir_reason_word(weir_reason reason);

/* A request and its decision. */
typedef struct weir_request {
    weir_slice rule; /* the name of a rule, or the text of an inline policy */
    bool by_text;    /* `rule` is an inline policy */
    weir_slice key;  /* 1..WEIR_KEY_MAX bytes */
    int64_t cost;    /* 0..WEIR_COST_MAX; 0 is a peek */

    /* Outputs. All but `status` are written on WEIR_OK only, unless noted. */
    weir_status status;
    weir_decision decision;
    weir_reason reason;
    const weir_policy *policy; /* that decided; valid until the next call on the service */
    const weir_answer *answer; /* of the rule; NULL: an inline policy. Valid as `policy` */
    const char *why; /* on WEIR_E_IO and WEIR_E_UNSUPPORTED: what failed and what helps; a static
                        string, or NULL */
    weir_policy_error error; /* of a refused inline policy, with column > 0; else column is 0 */
} weir_request;

#define WEIR_BATCH_MAX 64

/* Decides n requests (0..WEIR_BATCH_MAX) in order, as if one by one, at now_ns. Engines are queried
 * in parallel. Writes the status of each request:
 *  - WEIR_OK;
 *  - WEIR_E_ABSENT: no such rule;
 *  - the status of weir_policy_parse(), with error.column > 0: a bad inline policy;
 *  - WEIR_E_RANGE: a bad key or cost;
 *  - WEIR_E_NOMEM: the store is full;
 *  - WEIR_E_IO: the engine failed, and on_error does not decide;
 *  - WEIR_E_UNSUPPORTED: the engine does not support the policy, or is not configured.
 * Returns whether all are answered; see weir_completion. */
WEIR_NODISCARD bool weir_service_take(weir_service *s, weir_completion *completion,
                                      weir_request *requests, size_t n, int64_t now_ns);

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

/* Decides n requests (1..WEIR_ALL_MAX) atomically: all are charged, or none is. See
 * weir_store_take_many(). Each request gets its own decision. If the call is denied, it is the
 * decision that the request would get alone.
 *  - A key on an allow list is not charged and denies nothing. A key on a deny list denies all.
 *  - A rule in shadow denies nothing. Its request is charged only if all others are allowed and
 *    its own limit allows it, so its counters show the requests that really passed.
 *  - An allowed call counts for each request, a denied call only for the request that denied.
 *  - All states must be kept by one engine, except for keys on lists. Else a request fails with
 *    WEIR_E_UNSUPPORTED.
 *  ret  its status is WEIR_OK; or that of the first request that failed, with nothing charged; or
 *       WEIR_E_RANGE for a bad n, with no request written.
 * Returns whether it is answered; see weir_completion. */
WEIR_NODISCARD bool weir_service_take_all(weir_service *s, weir_completion *completion,
                                          weir_request *requests, size_t n, int64_t now_ns,
                                          weir_all_result *ret);

/* ---- reservations ---------------------------------------------------------------------------- */
/* See weir_store_reserve(). */

#define WEIR_ID_NONE 0 /* the id of an allowed request that needs no reservation */

/* Reserves request->cost units. Decides and counts as weir_service_take(). Statuses are those of
 * weir_service_take() and weir_store_reserve(), and WEIR_E_UNSUPPORTED if another engine than the
 * local one keeps the state.
 *  ttl_ns  1..WEIR_SPAN_NS_MAX.
 *  ret_id  written if the request is allowed: WEIR_ID_NONE for a key on an allow list; a
 *          reservation of 0 units if only the shadow allows it. */
void weir_service_reserve(weir_service *s, weir_request *request, int64_t ttl_ns, int64_t now_ns,
                          uint64_t *ret_id);

/* Commits a reservation: see weir_store_commit(). Does nothing for WEIR_ID_NONE, and then reports
 * the largest limit. */
WEIR_NODISCARD weir_status weir_service_commit(weir_service *s, uint64_t id, int64_t actual,
                                               int64_t now_ns, weir_decision *ret,
                                               int64_t *ret_over);

/* ---- other operations on one key ------------------------------------------------------------- */
/* They return whether the request is answered; see weir_completion. */

/* Decides as weir_service_take() would, but charges nothing; see weir_peek(). */
WEIR_NODISCARD bool weir_service_peek(weir_service *s, weir_completion *completion,
                                      weir_request *request, int64_t now_ns);

/* Gives back request->cost units. Statuses are those of weir_service_take(), and WEIR_E_UNSUPPORTED
 * if the policy has no refunds. The decision is that of a peek. A key on a list is not changed. */
WEIR_NODISCARD bool weir_service_refund(weir_service *s, weir_completion *completion,
                                        weir_request *request, int64_t now_ns);

/* Deletes the state of a key, so that it has its full quota. Ignores request->cost. Writes only
 * status, why and error. */
WEIR_NODISCARD bool weir_service_reset(weir_service *s, weir_completion *completion,
                                       weir_request *request, int64_t now_ns);

/* Describes a key in text, for people: its rule, its limit and the override it is from, its list,
 * the remaining quota, when the quota is full, and when the next request is allowed. Each line ends
 * with "\n". Charges nothing; sets request->cost to 1. */
WEIR_NODISCARD bool weir_service_explain(weir_service *s, weir_completion *completion,
                                         weir_request *request, int64_t now_ns, weir_buffer *out);

/* The answer to CL.THROTTLE. */
typedef struct weir_throttle_result {
    weir_status status;           /* WEIR_OK; WEIR_E_RANGE; WEIR_E_NOMEM; WEIR_E_IO */
    weir_throttle_answer answer;  /* on WEIR_OK */
    weir_throttle_status numbers; /* which argument is bad, on WEIR_E_RANGE; else
                                     WEIR_THROTTLE_OK */
    const char *why;              /* as weir_request.why */
} weir_throttle_result;

/* Decides as CL.THROTTLE does. The state depends on the key alone. */
WEIR_NODISCARD bool weir_service_throttle(weir_service *s, weir_completion *completion,
                                          const weir_throttle *t, weir_slice key, int64_t now_ns,
                                          weir_throttle_result *ret);

/* Finds the key under which the state of a request is kept: its key, or the network of an IP
 * address. Decides nothing. Reads only rule, by_text, key and cost. Prefetches the state of the key
 * in the local store into the processor's cache, for a caller that decides a little later.
 *  ret  written on WEIR_OK; valid until the next call on the service.
 * Returns a status of weir_service_take(). */
WEIR_NODISCARD weir_status weir_service_key(weir_service *s, const weir_request *request,
                                            weir_slice *ret);

/* ---- requests of a proxy --------------------------------------------------------------------- */

/* Writes the key of a request by the key template of a rule.
 *  rule     the name of the rule.
 *  preset   the template of a rule without one: the name of a variable; NULL: none.
 *  value    supplies the values of the variables; see key_template.h.
 *  buf      size bytes.
 *  ret_len  written on WEIR_OK; 0 if all values are empty, or the key needs more than `size` or
 *           WEIR_KEY_MAX bytes.
 * Returns WEIR_OK; WEIR_E_ABSENT if there is no such rule; WEIR_E_UNSUPPORTED if the rule has no
 * template and `preset` is NULL. */
WEIR_NODISCARD weir_status weir_service_make_key(weir_service *s, weir_slice rule,
                                                 const char *preset, weir_key_value *value,
                                                 void *ctx, char *buf, size_t size,
                                                 size_t *ret_len);

/* How many bits of an address count in keys of a rule; those of WEIR_RULE_SPEC_DEFAULT if there is
 * no such rule. */
weir_key_template_bits weir_service_key_bits(weir_service *s, weir_slice rule);

/* Finds the route of a request among the active routes: the first one that matches, or, if `name`
 * is not absent, the first one with that name. Returns NULL if there is none. The route is valid
 * until the next call on the service. */
const weir_route *weir_service_route(weir_service *s, const weir_route_request *request,
                                     weir_slice name);

/* Whether a key template of the active rules reads a header. The case of its name does not
 * matter. */
bool weir_service_wants_header(weir_service *s, weir_slice name);

/* ---- active rules, latency ------------------------------------------------------------------- */

/* "local", "redis" or "hybrid". */
const char *weir_engine_word(weir_engine_kind engine);

/* An active rule, as WEIR.POLICY LIST and /v1/policies show it. */
typedef struct weir_rule_view {
    const char *name;
    const char *limit; /* the policy text as it was given */
    const weir_policy *policy;
    size_t overrides, allow, deny; /* numbers of patterns */
    bool shadow;
    const char *candidate; /* a policy text, or NULL */
    weir_engine_kind engine;
    weir_on_error on_error;
} weir_rule_view;

/* Calls fn for each active rule, sorted by name, until it returns false. The view is valid until fn
 * returns. */
void weir_service_rules(weir_service *s, bool (*fn)(void *ctx, const weir_rule_view *rule),
                        void *ctx);

/* Whether there are decisions whose latency weir_service_latency() has not recorded. The latency of
 * engines is recorded without it. */
bool weir_service_has_decided(const weir_service *s);

/* Records elapsed_ns as the latency of each decision since the last call. */
void weir_service_latency(weir_service *s, int64_t elapsed_ns);

#endif
