/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_SERVICE_SERVICE_INTERNAL_H
#define WEIR_SERVICE_SERVICE_INTERNAL_H
/* Hub and service from within, for this room only. */

#include "port/atomic.h"
#include "port/port.h"
#include "service/policy_cache.h"
#include "service/rules/rule.h"
#include "service/service.h"
#include "service/top/tracker.h"

enum { /* counters of each name, in the order of weir_counts */
       COUNT_ALLOWED,
       COUNT_DENIED,
       COUNT_SHADOWED,
       COUNT_ALLOW_LISTED,
       COUNT_DENY_LISTED,
       COUNT_FAILED, /* this one and those after it weigh nothing */
       COUNT_UNREACHED,
       COUNTS
};

enum { /* names that are there from the start */
       NAME_TEXTS,
       NAME_THROTTLE,
       NAME_OTHERS, /* of rules that are not there, or that found no place left */
       NAMES_FIRST
};

/* What waits for engines, of one service (pending.c). */
typedef struct weir_pending_pool {
    weir_pending *first; /* of those under way */
    weir_pending *spent; /* its answers are being read; NULL: none */
    weir_pending *pool[2];
    size_t pooled[2];
    size_t bytes; /* of those under way */
} weir_pending_pool;

#define NAMES_MAX 4096 /* names that counters are kept for; a name keeps its place for ever */

typedef struct weir_counters {
    port_counter count[COUNTS];
    int64_t left[COUNTS]; /* units until one is weighed. The thread's own */
} weir_counters;

/* What one thread counts. Written by it alone, read by all; relaxed, since each number stands by
 * itself. */
typedef struct weir_counter_table {
    weir_counters of[NAMES_MAX];
    port_counter latency[WEIR_LATENCY_BUCKETS];
    port_counter latency_sum_ns;
} weir_counter_table;

struct weir_limiter {
    weir_store *store;
    weir_zones zones;
    weir_policy throttle_policy;
    uint64_t throttle_id;
    weir_limiter_changed changed;
    void *changed_ctx;
    weir_top_shared scales;

    port_counter generation; /* of `rules`. Relaxed: whoever sees it change looks under the lock */

    port_mutex *lock; /* guards what follows, and every reference count */
    weir_rules *rules;
    weir_engine_kind engine; /* of what no rule speaks of */
    weir_service *services;
    weir_counter_table *closed; /* the sums of services that are no more */
    size_t names;
    char name[NAMES_MAX][WEIR_RULE_NAME_MAX + 1];
};

struct weir_service {
    weir_limiter *limiter;
    weir_service *next; /* in the limiter's list */
    weir_policy_cache *texts;
    weir_rules *rules; /* one reference */
    uint64_t generation;
    weir_engine_kind
        engine_of_texts; /* and of CL.THROTTLE; as the limiter's when it was last seen */
    bool remote;         /* the state of some ask may be with another engine than the store */
    weir_engine *engine[WEIR_ENGINES]; /* NULL: there is none */
    weir_pending_pool waiting;
    weir_counter_table *tallies;
    weir_top_tracker *weigher; /* NULL: no keys are weighed */
    int64_t ticked_ns;
    uint64_t decided;                    /* asks whose latency is not yet counted */
    weir_key_match seen[WEIR_BATCH_MAX]; /* the keys of a batch, as their rules see them */
};

/* Makes s->rules the ones in force, and frees what the batch before left behind. */
void weir_service_refresh(weir_service *s);

/* Counts n asks as having taken elapsed_ns each. */
void weir_service_took(weir_service *s, uint64_t n, int64_t elapsed_ns);

/* Adds to a counter of `name`, a place in limiter->name. */
static inline void weir_service_count(weir_service *s, uint32_t name, int which)
{
    port_bump_relaxed(&s->tallies->of[name].count[which], 1);
}

/* Once a second, and when the clock has gone back. */
static inline void weir_service_tick(weir_service *s, int64_t now_ns)
{
    if (__builtin_expect((uint64_t)now_ns - (uint64_t)s->ticked_ns < 1000000000, 1))
        return;
    s->ticked_ns = now_ns;
    weir_top_tracker_tick(s->weigher, now_ns);
}

/* Counts a request that was decided, and weighs it as what it cost its key.
 *  which  not COUNT_FAILED.
 *  cost   1 or more. */
static inline void weir_service_count_cost(weir_service *s, uint32_t name, int which,
                                           const weir_slice *key, int64_t cost, int64_t now_ns)
{
    weir_counters *t = &s->tallies->of[name];
    port_bump_relaxed(&t->count[which], 1);
    int64_t left = t->left[which] - cost;
    t->left[which] = left;
    if (__builtin_expect(left <= 0, 0))
        weir_top_tracker_hit(s->weigher, name, which, t->left, *key, cost, now_ns);
}

/* ---- requests that are resolved --------------------------------------------------------------- */

/* Where an ask's state is. */
typedef struct weir_resolved {
    const weir_rule *rule;        /* NULL: by text */
    const weir_rule_limit *limit; /* of the rule's */
    weir_on_list list;
    uint64_t policy_id;
    weir_slice key;
} weir_resolved;

/* Finds the policy and the key's place, and begins the answer. Returns a status as
 * weir_service_take() tells.
 *  seen  the caller's, for as long as *ret is used. */
weir_status weir_resolve(weir_service *s, weir_request *ask, weir_key_match *seen,
                         weir_resolved *ret);

static inline bool weir_resolved_is_listed(const weir_resolved *at)
{
    return at->list != WEIR_ON_NO_LIST;
}

static inline bool weir_resolved_is_shadow(const weir_resolved *at)
{
    return at->rule && at->rule->options->shadow;
}

/* The engine that has the state, if no list decides. */
static inline weir_engine_kind weir_resolved_engine(const weir_service *s, const weir_resolved *at)
{
    return at->rule ? at->rule->options->engine : s->engine_of_texts;
}

/* The answer to a key that is on a list. */
void weir_resolved_decide_by_list(const weir_resolved *at, weir_request *ask);

/* Fills in what the store is asked. What it answers is not cleared first: that would be most of the
 * work. */
static inline void weir_resolved_fill(weir_store_request *ret, const weir_resolved *at,
                                      const weir_request *ask)
{
    ret->policy = ask->policy;
    ret->policy_id = at->policy_id;
    ret->key = at->key.at;
    ret->key_len = at->key.len;
    ret->cost = ask->cost;
}

/* Makes the store's answer that of the rule: one that only looks on denies nobody. */
void weir_resolved_finish(const weir_resolved *at, weir_request *ask);

/* weir_service_peek(), with the place that was asked about; good until the next call on the
 * service. */
bool weir_service_peek_resolved(weir_service *s, weir_completion *completion, weir_request *ask,
                                int64_t now_ns, weir_resolved *ret_at);

/* Counts what an ask was answered; not a peek. */
void weir_resolved_count(weir_service *s, const weir_resolved *at, const weir_request *ask,
                         int64_t now_ns);

#endif
