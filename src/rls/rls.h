/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_RLS_RLS_H
#define WEIR_RLS_RLS_H
/* The Rate Limit Service of Envoy (envoy.service.ratelimit.v3): matches the descriptors of a
 * request against the limits of a configuration, lets the service decide, and composes the
 * response. Each limit is a rule of the limiter, so it is in /v1/policies, `weir top`, `weir
 * explain` and the metrics like every policy. It must not know protobuf, JSON, YAML or HTTP. */

#include "rls/config.h"
#include "service/service.h"

/* ---- requests -------------------------------------------------------------------------------- */

typedef struct weir_rls_entry {
    weir_slice key, value;
} weir_rls_entry;

/* A limit that the request itself gives for a descriptor. */
typedef struct weir_rls_override {
    uint32_t requests_per_unit;
    weir_rls_unit unit;
} weir_rls_override;

typedef struct weir_rls_descriptor {
    const weir_rls_entry *entries;
    size_t entries_len;
    bool has_override;
    weir_rls_override override;
    bool has_hits; /* `hits` replaces the request's hits_addend; 0 is a peek */
    uint64_t hits;
    bool negative; /* the hits are given back */
} weir_rls_descriptor;

/* The most descriptors of a request. */
#define WEIR_RLS_DESCRIPTORS_MAX 64

/* What `hits` does in a request of another API. */
typedef enum weir_rls_verb {
    WEIR_RLS_CHECK_AND_REPORT, /* decides and charges: ShouldRateLimit */
    WEIR_RLS_CHECK,            /* decides and charges nothing: Kuadrant's CheckRateLimit */
    WEIR_RLS_REPORT            /* charges whatever is left: Kuadrant's Report */
} weir_rls_verb;

typedef struct weir_rls_request {
    weir_rls_verb verb;
    weir_slice domain;
    const weir_rls_descriptor *descriptors;
    size_t descriptors_len;
    uint32_t hits_addend; /* 0 means 1 */
} weir_rls_request;

/* ---- responses ------------------------------------------------------------------------------- */

typedef enum weir_rls_code {
    WEIR_RLS_UNKNOWN,
    WEIR_RLS_OK,
    WEIR_RLS_OVER_LIMIT
} weir_rls_code; /* by the numbers of the protocol */

/* The status of a descriptor. */
typedef struct weir_rls_status {
    weir_rls_code code;
    bool has_limit; /* the next fields are written; if not, only `remaining` is sent */
    uint32_t requests_per_unit;
    weir_rls_unit unit; /* WEIR_RLS_UNIT_UNKNOWN: the policy has another period */
    weir_slice name;    /* of the limit; len 0: none */
    int64_t reset_ns;   /* duration_until_reset, 0 or more */
    uint32_t remaining;
} weir_rls_status;

typedef struct weir_rls_header {
    const char *name;
    char value[256];
} weir_rls_header;

#define WEIR_RLS_HEADERS_MAX 3

/* What was decided about a descriptor, for header fields. */
typedef struct weir_rls_decided {
    weir_slice rule; /* its name; len 0: a limit that the request gave */
    const weir_policy *policy;
    const weir_decision *decision;
    int64_t next_ns; /* as weir_request.next_ns */
    weir_slice key;
} weir_rls_decided;

typedef enum weir_rls_failure {
    WEIR_RLS_ANSWERED,
    WEIR_RLS_REFUSED,    /* the request is invalid; the reference answers grpc-status UNKNOWN */
    WEIR_RLS_UNAVAILABLE /* the engine failed, or the store is full: grpc-status UNAVAILABLE */
} weir_rls_failure;

typedef struct weir_rls_response {
    weir_rls_failure failure;
    const char *why; /* unless ANSWERED: a static string */
    weir_rls_code code;
    const weir_rls_status *statuses; /* one for each descriptor, in order; or none (limitador) */
    size_t statuses_len;
    const weir_rls_header *headers; /* response_headers_to_add */
    size_t headers_len;
    const weir_rls_value *metadata; /* dynamic_metadata: a map; NULL: none */

    /* Header fields that rls/wire/headers.c writes, after `headers`. */
    unsigned flavours; /* a set of weir_header_flavour; 0: none */
    int retry_spread;  /* percent */
    const weir_rls_decided *decided;
    size_t decided_len; /* 0 with flavours: no descriptor has a limit, and there are no fields */
    size_t shown;       /* of `decided`: the one that represents all */
    int64_t now_ns;     /* of the decision */
} weir_rls_response;

/* ---- the shared part and the part of a loop -------------------------------------------------- */

/* What all event loops share: the active configuration and the statistics. */
typedef struct weir_rls weir_rls;

/* Returns NULL if memory is exhausted. Without a configuration, every request is refused. */
weir_rls *weir_rls_open(void);
void weir_rls_close(weir_rls *r); /* accepts NULL; its loops must be closed */

/* Activates a configuration, whose rules are active in the limiter already, and takes over the
 * caller's reference. Requests in flight complete with the old one. Any thread. */
void weir_rls_activate(weir_rls *r, weir_rls_config *config);

/* Whether the active configuration has a limit. Any thread. */
bool weir_rls_has_limits(weir_rls *r);

/* Counts a configuration that was refused, for the statistic config_load_error. Any thread. */
void weir_rls_count_refused(weir_rls *r);

/* The part of one event loop; used by its thread only. */
typedef struct weir_rls_loop weir_rls_loop;

/* Returns NULL if memory is exhausted.
 *  service  of the loop. */
weir_rls_loop *weir_rls_loop_open(weir_rls *r, weir_service *service);
void weir_rls_loop_close(weir_rls_loop *l); /* accepts NULL */

/* The active configuration, valid until the next call on the loop. */
const weir_rls_config *weir_rls_loop_config(weir_rls_loop *l);

/* The state of a session between the calls of weir_rls_decide(). All zero at first; the session
 * sets `completion.ready` and `.ctx`. Do not move it while it is pending. */
typedef struct weir_rls_wait {
    weir_completion completion;
    /* Private. */
    weir_rls_config *config;          /* while pending: holds a reference */
    size_t len;                       /* requests that the repeated call must answer */
    bool in_fallback;                 /* the fallback is pending */
    struct weir_rls_partial *partial; /* what earlier calls of the service have decided */
} weir_rls_wait;

/* Abandons what is pending, as weir_completion_cancel(). */
void weir_rls_wait_cancel(weir_rls_wait *wait);

/* Decides the first of n requests (1 or more), at now_ns: as many as one batch of the service
 * allows. The caller repeats it with the rest.
 *  responses  n; those of the decided requests are written, and point into the loop: they are valid
 *             until the next call on it.
 * Returns how many are decided; 0 if an engine is pending: repeat the call with the same requests,
 * or more after them, once completion.ready() was called. The bytes of the requests may have
 * moved. */
size_t weir_rls_decide(weir_rls_loop *l, weir_rls_wait *wait, const weir_rls_request *requests,
                       size_t n, weir_rls_response *responses, int64_t now_ns);

/* Decides the requests that Envoy's limits do not decide: those with the verbs CHECK and REPORT;
 * those of a domain that the configuration does not have, but has() knows; and all requests if
 * there is no configuration, or if it has no domains. */
typedef struct weir_rls_fallback {
    void *ctx;
    bool (*has)(void *ctx, weir_slice domain);
    /* Decides one request, with any domain and any descriptors. Returns false if an engine is
     * pending: it is called again with the same request and completion. What *ret points to is
     * valid for 63 more calls. */
    bool (*decide)(void *ctx, weir_completion *completion, const weir_rls_request *request,
                   weir_rls_response *ret, int64_t now_ns);
} weir_rls_fallback;

/* Sets the fallback of a loop, by value; NULL: none. No request may be pending. */
void weir_rls_set_fallback(weir_rls_loop *l, const weir_rls_fallback *fallback);

/* ---- requests that were not charged ---------------------------------------------------------- */

/* Requests of more than one hit that a limit has denied since the last call, although units were
 * left or the hits are above the limit, and that charged nothing. If they report what was used
 * already, the limit should be `late`. */
typedef struct weir_rls_not_charged {
    weir_slice policy; /* the name of the limit's rule */
    uint64_t requests;
    uint32_t hits, left; /* of the latest, at most UINT32_MAX */
} weir_rls_not_charged;

/* Calls fn for at most `most` limits of the active configuration that have such requests. Limits
 * that no call was for are in the next calls. Returns how many calls. One thread at a time. */
size_t weir_rls_each_not_charged(weir_rls *r, size_t most,
                                 void (*fn)(void *ctx, const weir_rls_not_charged *of), void *ctx);

/* ---- statistics ------------------------------------------------------------------------------ */

/* A statistic: the sum of a counter over all loops since the start.
 *  name    such as "ratelimit.service.rate_limit.DOMAIN.KEY_VALUE.total_hits".
 *  domain  that part of `name`, if it is about a limit or an unknown domain; else len 0.
 *  key     that part of `name`, if it is about a limit; else len 0.
 *  what    the last part of `name`, such as "total_hits". */
typedef struct weir_rls_stat {
    const char *name;
    weir_slice domain, key, what;
    uint64_t value;
} weir_rls_stat;

/* Calls fn for each statistic, sorted by name. A statistic is valid until fn returns. At most 65536
 * names have counters, 10000 of which may come from requests; other hits are counted at the name of
 * the descriptor in the configuration, or at "(others)", and by the statistic
 * "ratelimit.service.stat_names_not_stored". Any thread. */
void weir_rls_each_stat(weir_rls *r, void (*fn)(void *ctx, const weir_rls_stat *stat), void *ctx);

#endif
