/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_SERVICE_SERVICE_INTERNAL_H
#define WEIR_SERVICE_SERVICE_INTERNAL_H
/* The fields of weir_limiter and weir_service, their counters, and requests that are resolved to a
 * policy and a key. Private to src/service. */

#include "port/assert.h"
#include "port/atomic.h"
#include "port/port.h"
#include "service/policy_cache.h"
#include "service/rules/rule.h"
#include "service/service.h"
#include "service/top/tracker.h"

/* ---- counters -------------------------------------------------------------------------------- */
/* Each service has its own counters, and the limiter adds them up on request. Counters belong to a
 * name: that of a rule, or one for requests without a rule. A name keeps its index for ever. */

enum { /* the counters of a name, in the order of weir_counts */
       COUNT_ALLOWED,
       COUNT_DENIED,
       COUNT_SHADOWED,
       COUNT_ALLOW_LISTED,
       COUNT_DENY_LISTED,
       COUNT_FAILED, /* from here on, requests do not count towards the top keys */
       COUNT_UNREACHED,
       COUNTS
};

enum { /* the requests that a candidate decided too, in the order of weir_candidate_counts */
       CANDIDATE_BOTH_ALLOW,
       CANDIDATE_BOTH_DENY,
       CANDIDATE_ONLY_CURRENT_DENIES,
       CANDIDATE_ONLY_CANDIDATE_DENIES,
       CANDIDATE_COUNTS
};

enum { /* the first names */
       NAME_TEXTS,
       NAME_THROTTLE,
       NAME_OTHERS, /* unknown rules, and rules that come after NAMES_MAX names */
       NAMES_FIRST
};

#define NAMES_MAX 16384

typedef struct weir_counters {
    port_counter count[COUNTS];
    int64_t left[COUNTS]; /* units until the next sample for the top keys; the owner's alone */
} weir_counters;

/* The counters of one service. Its thread writes them and all threads read them. Relaxed, since no
 * counter depends on another. */
typedef struct weir_counter_table {
    weir_counters of[NAMES_MAX];
    port_counter latency[WEIR_LATENCY_BUCKETS];
    port_counter latency_sum_ns;
    port_counter candidate[NAMES_MAX][CANDIDATE_COUNTS]; /* by name; untouched without candidates */
} weir_counter_table;

/* ---- fields ---------------------------------------------------------------------------------- */

struct weir_limiter {
    weir_store *store;
    weir_zones zones;
    weir_policy throttle_policy;
    uint64_t throttle_id;
    weir_limiter_changed changed;
    void *changed_ctx;
    weir_top_shared top;

    /* Incremented when the fields below change. Relaxed: a thread that sees another value reads
     * the fields under the lock. */
    port_counter generation;

    port_mutex *lock; /* guards the fields below, and the reference counts of rules */
    weir_rules *rules;
    weir_engine_kind engine; /* of requests without a rule */
    weir_service *services;
    weir_counter_table *closed; /* the sums of closed services */
    bool had_candidates;        /* a rule has or had a candidate */
    size_t names;
    char name[NAMES_MAX][WEIR_RULE_NAME_MAX + 1];
    uint16_t slots[2 * NAMES_MAX]; /* a hash table of the names of rules: the index; 0: empty */
};

/* The pending requests of a service (pending.c). */
typedef struct weir_pending_pool {
    weir_pending *first;    /* in flight */
    weir_pending *finished; /* the caller reads its answers; NULL: none */
    weir_pending *free[2];  /* for reuse: lists of small and of large ones */
    size_t free_len[2];
    size_t bytes; /* of those in flight */
} weir_pending_pool;

struct weir_service {
    weir_limiter *limiter;
    weir_service *next; /* in the limiter's list */
    weir_policy_cache *policies;
    weir_rules *rules; /* the active ones; holds one reference */
    uint64_t generation;
    bool pinned;                     /* do not adopt other rules */
    weir_engine_kind default_engine; /* a copy of the limiter's */
    bool dispatches; /* a request may need dispatch.c: for an engine, or for a candidate */
    weir_engine *engine[WEIR_ENGINES]; /* NULL: not configured */
    weir_pending_pool pending;
    weir_counter_table *counters;
    weir_top_tracker *tracker; /* NULL: top keys are not tracked */
    int64_t ticked_ns;
    uint64_t decided; /* decisions whose latency is not recorded */
    weir_key_match match[WEIR_BATCH_MAX];
};

/* Adopts the limiter's active rules, and frees what the last batch left. */
void weir_service_refresh(weir_service *s);

/* Records elapsed_ns as the latency of each of n decisions. */
void weir_service_record_latency(weir_service *s, uint64_t n, int64_t elapsed_ns);

/* Adds 1 to a counter.
 *  name  the index of the name. */
static inline void weir_service_count(weir_service *s, uint32_t name, int which)
{
    WEIR_ASSERT(name < NAMES_MAX && which >= 0 && which < COUNTS);
    port_bump_relaxed(&s->counters->of[name].count[which], 1);
}

/* Ticks the tracker once a second, and when the clock went back. */
static inline void weir_service_tick(weir_service *s, int64_t now_ns)
{
    if (__builtin_expect((uint64_t)now_ns - (uint64_t)s->ticked_ns < 1000000000, 1))
        return;
    s->ticked_ns = now_ns;
    weir_top_tracker_tick(s->tracker, now_ns);
}

/* Counts a request, and adds its cost to its key for the top keys.
 *  which  below COUNT_FAILED.
 *  cost   1 or more. */
static inline void weir_service_count_cost(weir_service *s, uint32_t name, int which,
                                           const weir_slice *key, int64_t cost, int64_t now_ns)
{
    WEIR_ASSERT(name < NAMES_MAX && which >= 0 && which < COUNT_FAILED && cost >= 1);
    weir_counters *t = &s->counters->of[name];
    port_bump_relaxed(&t->count[which], 1);
    int64_t left = t->left[which] - cost;
    t->left[which] = left;
    if (__builtin_expect(left <= 0, 0))
        weir_top_tracker_hit(s->tracker, name, which, t->left, *key, cost, now_ns);
}

/* ---- resolved requests ----------------------------------------------------------------------- */

/* Where the state of a request is kept. */
typedef struct weir_resolved {
    const weir_rule *rule;        /* NULL: an inline policy */
    const weir_rule_limit *limit; /* of the rule */
    weir_on_list list;
    uint64_t policy_id;
    weir_slice key;
} weir_resolved;

/* Finds the policy and the key of a request, and clears its outputs. Returns a status of
 * weir_service_take().
 *  match  must live as long as *ret. */
weir_status weir_resolve(weir_service *s, weir_request *request, weir_key_match *match,
                         weir_resolved *ret);

static inline bool weir_resolved_is_listed(const weir_resolved *at)
{
    return at->list != WEIR_ON_NO_LIST;
}

static inline bool weir_resolved_is_shadow(const weir_resolved *at)
{
    return at->rule && at->rule->shadow;
}

/* The engine that keeps the state, unless a list decides. */
static inline weir_engine_kind weir_resolved_engine(const weir_service *s, const weir_resolved *at)
{
    return at->rule ? at->rule->options->engine : s->default_engine;
}

/* Decides a request whose key is on a list. */
void weir_resolved_decide_by_list(const weir_resolved *at, weir_request *request);

/* Writes the inputs of a request to the store. The outputs are not cleared: that would cost more
 * than the rest. */
static inline void weir_resolved_fill(weir_store_request *ret, const weir_resolved *at,
                                      const weir_request *request)
{
    WEIR_ASSERT(!weir_resolved_is_listed(at) && request->policy);
    ret->policy = request->policy;
    ret->policy_id = at->policy_id;
    ret->key = at->key.at;
    ret->key_len = at->key.len;
    ret->cost = request->cost;
}

/* Applies the rule's shadow to a decision: a rule in shadow allows every request. */
void weir_resolved_finish(const weir_resolved *at, weir_request *request);

/* Counts a decided request, unless it is a peek. */
void weir_resolved_count(weir_service *s, const weir_resolved *at, const weir_request *request,
                         int64_t now_ns);

/* ---- candidates ------------------------------------------------------------------------------ */

/* Lets the candidates of the rules decide n requests that the rules' own limits have decided, and
 * counts both verdicts. Writes to no request. Skips requests without a candidate: those that failed
 * or that a list or an override decided, and peeks.
 *  n  0..WEIR_BATCH_MAX. */
void weir_candidates_take(weir_service *s, const weir_resolved *at, const weir_request *requests,
                          size_t n, int64_t now_ns);

/* Repeats a reset or a refund, which has succeeded, on the candidate's state, if there is a
 * candidate. */
void weir_candidate_repeat(weir_service *s, weir_verb verb, const weir_resolved *at,
                           const weir_request *request, int64_t now_ns);

/* ---- peeks ----------------------------------------------------------------------------------- */

/* weir_service_peek(), which also returns where the state is; valid until the next call on the
 * service. */
bool weir_service_peek_resolved(weir_service *s, weir_completion *completion, weir_request *request,
                                int64_t now_ns, weir_resolved *ret_at);

#endif
