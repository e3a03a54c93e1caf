/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_LIMITADOR_LIMITADOR_H
#define WEIR_LIMITADOR_LIMITADOR_H
/* limitador's limits: matches a request against the limits of its namespace, whose conditions and
 * variables are CEL expressions, and lets the service decide. Each limit is a rule of the limiter,
 * and its counters are keys of that rule. docs/limitador.md describes what a user sees. It must not
 * know protobuf, JSON, YAML or HTTP. */

#include "rls/rls.h"

/* ---- the configuration ----------------------------------------------------------------------- */

/* A limit of a limits file. */
typedef struct weir_limitador_limit {
    const char *id; /* NULL: none; as `name` */
    const char *name_space;
    uint64_t max_value; /* 0: every request is denied. Counts up to INT32_MAX */
    uint64_t seconds;   /* 0..WEIR_LIMITADOR_SECONDS_MAX. 0: a window without length */
    const char *name;
    const char *const *conditions; /* CEL expressions; all must be true */
    size_t conditions_len;
    const char *const *variables; /* CEL expressions; their values select a counter */
    size_t variables_len;
} weir_limitador_limit;

#define WEIR_LIMITADOR_SECONDS_MAX 1152921504 /* WEIR_SPAN_NS_MAX, in whole seconds */
#define WEIR_LIMITADOR_LIMITS_MAX  8192

typedef struct weir_limitador_options {
    bool headers;            /* responses of ShouldRateLimit have the headers of draft 03 */
    weir_engine_kind engine; /* of all limits */
    weir_on_error on_error;
} weir_limitador_options;

typedef enum weir_limitador_part {
    WEIR_LIMITADOR_LIMIT, /* the limit as a whole */
    WEIR_LIMITADOR_CONDITION,
    WEIR_LIMITADOR_VARIABLE,
    WEIR_LIMITADOR_SECONDS
} weir_limitador_part;

/* An error or a warning about a limit. */
typedef struct weir_limitador_problem {
    size_t limit; /* its index */
    weir_limitador_part part;
    size_t index;    /* of the condition or the variable */
    uint32_t column; /* in that expression, from 1; 0: the expression as a whole */
    bool warning;
    char text[320];
} weir_limitador_problem;

/* An immutable set of limits, with reference counts. */
typedef struct weir_limitador_config weir_limitador_config;

/* Builds a configuration with one reference; copies what it needs. Of limits that differ in nothing
 * but their id, name and max_value, only the first counts, as in limitador.
 *  report  receives each error and warning; may be NULL.
 * Returns WEIR_OK; WEIR_E_NOMEM; WEIR_E_SYNTAX if there was an error; WEIR_E_FULL for more than
 * WEIR_LIMITADOR_LIMITS_MAX limits. */
WEIR_NODISCARD weir_status weir_limitador_config_build(
    weir_limitador_config **ret, const weir_limitador_options *options,
    const weir_limitador_limit *limits, size_t n,
    void (*report)(void *ctx, const weir_limitador_problem *problem), void *ctx);

/* The rules of the limits, for weir_rules_build(); valid as long as the configuration. A rule's
 * name is NAMESPACE:NAME, or NAMESPACE:ID without a name, or NAMESPACE:HASH without both. If that
 * is no valid or unique name of a rule, it is a valid one made from it, ending in '-' and the hash.
 * The hash is 8 hexadecimal digits of the window, the conditions and the variables. */
const weir_rule_spec *weir_limitador_config_rules(const weir_limitador_config *c, size_t *ret_len);

/* How many limits there are, also those without a rule. */
size_t weir_limitador_config_count(const weir_limitador_config *c);

/* Replaces the engine of all limits. To be called before weir_limitador_activate() and before the
 * rules are used. */
void weir_limitador_config_set_engine(weir_limitador_config *c, weir_engine_kind engine);

/* Any thread. */
void weir_limitador_config_hold(weir_limitador_config *c);
void weir_limitador_config_drop(weir_limitador_config *c); /* accepts NULL */

/* A limit that applies if its conditions are true. */
typedef struct weir_limitador_view {
    weir_limitador_limit limit; /* conditions and variables are sorted, without duplicates */
    const char *rule;           /* NULL: no state, since max_value or seconds is 0 */
} weir_limitador_view;

/* Calls fn for each limit of a namespace, in the order of the file. */
void weir_limitador_config_limits(const weir_limitador_config *c, weir_slice name_space,
                                  void (*fn)(void *ctx, const weir_limitador_view *limit),
                                  void *ctx);

/* ---- the shared part and the part of a loop -------------------------------------------------- */

/* What all event loops share: the active configuration and the counts of requests. */
typedef struct weir_limitador weir_limitador;

/* Returns NULL if memory is exhausted. The configuration is empty. */
weir_limitador *weir_limitador_open(void);
void weir_limitador_close(weir_limitador *l); /* accepts NULL; its loops must be closed */

/* Activates a configuration, whose rules are active in the limiter already, and takes over the
 * caller's reference. Any thread. */
void weir_limitador_activate(weir_limitador *l, weir_limitador_config *config);

/* The part of one event loop; used by its thread only. */
typedef struct weir_limitador_loop weir_limitador_loop;

/* Returns NULL if memory is exhausted. */
weir_limitador_loop *weir_limitador_loop_open(weir_limitador *l, weir_service *service);
void weir_limitador_loop_close(weir_limitador_loop *l); /* accepts NULL */

weir_limitador *weir_limitador_of(weir_limitador_loop *l);

/* How many configurations were activated. Any thread. */
uint64_t weir_limitador_version(const weir_limitador *l);

/* The active configuration, valid until the next call on the loop. */
const weir_limitador_config *weir_limitador_loop_config(weir_limitador_loop *l);

/* Whether the active configuration has a limit of the namespace. */
bool weir_limitador_has(weir_limitador_loop *l, weir_slice name_space);

/* ---- deciding -------------------------------------------------------------------------------- */

/* The most counters with state that a request may have; beyond, it is refused. */
#define WEIR_LIMITADOR_COUNTERS_MAX WEIR_ALL_MAX

typedef struct weir_limitador_request {
    weir_rls_verb verb;
    weir_slice name_space;
    const weir_rls_descriptor *descriptors; /* only their entries count */
    size_t descriptors_len;
    uint64_t delta; /* 0 charges nothing */
    bool headers;   /* the response has the headers of draft 03; not for WEIR_RLS_CHECK, _REPORT */
    bool counted;   /* adds the request to the counts of the namespace */
} weir_limitador_request;

/* Decides a request.
 *  WEIR_RLS_CHECK_AND_REPORT  charges all counters of the request, or none.
 *  WEIR_RLS_CHECK             charges none.
 *  WEIR_RLS_REPORT            charges each counter, at most what it has left. With a redis or a
 *                             hybrid engine, a counter with less left than `delta` is not charged.
 *  ret  statuses_len is 0. Its headers are valid for the next 63 calls on the loop. An expression
 *       that has no value, such as descriptors[1] of a request with one descriptor, makes the
 *       failure WEIR_RLS_UNAVAILABLE, as in limitador.
 * Returns false if an engine is pending: repeat the call with the same request once
 * completion->ready() was called. The bytes of the request may have moved. */
WEIR_NODISCARD bool weir_limitador_take(weir_limitador_loop *l, weir_completion *completion,
                                        const weir_limitador_request *request,
                                        weir_rls_response *ret, int64_t now_ns);

/* The same for a request of the Rate Limit Service. An empty domain is answered with the code
 * WEIR_RLS_UNKNOWN. */
WEIR_NODISCARD bool weir_limitador_decide(weir_limitador_loop *l, weir_completion *completion,
                                          const weir_rls_request *request, weir_rls_response *ret,
                                          int64_t now_ns);

/* For weir_rls_set_fallback(): weir_limitador_has() and weir_limitador_decide() of a loop. */
weir_rls_fallback weir_limitador_fallback(weir_limitador_loop *l);

/* ---- counters, counts ------------------------------------------------------------------------ */

/* A counter with charges. */
typedef struct weir_limitador_counter {
    const weir_limitador_view *limit;
    const weir_slice *values; /* of the variables, in their order */
    bool has_state;           /* the next two are known; if not, its engine failed */
    uint64_t remaining;
    int64_t expires_ns; /* from now */
} weir_limitador_counter;

/* Calls fn for counters of a namespace: for each limit without variables its only one, and for the
 * others those of the limiter's top keys, which are no more than weir_limiter_top_keys() each.
 *  kept  empty at first. If it is too small for all counters, kept->failed is set, and none is
 *        listed.
 * Returns false if an engine is pending: repeat the call with the same namespace and `kept` once
 * completion->ready() was called. */
WEIR_NODISCARD bool
weir_limitador_counters(weir_limitador_loop *l, weir_completion *completion, weir_buffer *kept,
                        weir_slice name_space, int64_t now_ns,
                        void (*fn)(void *ctx, const weir_limitador_counter *counter), void *ctx);

/* The requests of a namespace since the start. Namespaces with a longer name, and those after the
 * first 1000, are counted together. */
#define WEIR_LIMITADOR_NAME_MAX 256
typedef struct weir_limitador_count {
    weir_slice name_space; /* "(others)": see above */
    uint64_t authorized_calls, authorized_hits, limited_calls;
} weir_limitador_count;

/* Calls fn with the sums over all loops, sorted by namespace. Any thread. */
void weir_limitador_counts(weir_limitador *l,
                           void (*fn)(void *ctx, const weir_limitador_count *count), void *ctx);

#endif
