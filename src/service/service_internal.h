/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_SERVICE_SERVICE_INTERNAL_H
#define WEIR_SERVICE_SERVICE_INTERNAL_H
/* The fields of weir_limiter and weir_service, the cache of inline policies, requests that are
 * resolved to a policy and a key, and their dispatch to engines. Private to src/service. */

#include "port/assert.h"
#include "port/port.h"
#include "service/counters.h"
#include "service/request.h"
#include "service/rules/rule.h"
#include "service/top/tracker.h"

/* ---- inline policies (policy_cache.c) -------------------------------------------------------- */
/* A cache of parsed inline policies, by their text. Clients choose the texts, so the hash is keyed:
 * a client cannot choose which entries collide. For one thread. */

typedef struct weir_policy_cache weir_policy_cache;

/* Opens an empty cache; NULL if memory is exhausted. The store, and what `zones` refers to, must
 * outlive it. */
weir_policy_cache *weir_policy_cache_open(weir_store *store, const weir_zones *zones);
void weir_policy_cache_close(weir_policy_cache *t); /* accepts NULL */

/* Finds or parses a policy. The policy is valid until weir_policy_cache_collect(), or while it is
 * pinned.
 *  ret_id     the id under which the store keeps the policy's states.
 *  ret_error  written if the text is not a policy.
 * Returns WEIR_OK; WEIR_E_NOMEM; or as weir_policy_parse(). */
WEIR_NODISCARD weir_status weir_policy_cache_find(weir_policy_cache *t, const char *text,
                                                  size_t len, const weir_policy **ret,
                                                  uint64_t *ret_id, weir_policy_error *ret_error);

/* The text of a cached policy as weir_policy_print() writes it; valid as long as the policy. */
weir_slice weir_policy_cache_canonical(const weir_policy *p);

/* Pins a cached policy, which keeps it valid. Unpin it as many times. */
void weir_policy_cache_pin(const weir_policy *p);
void weir_policy_cache_unpin(weir_policy_cache *t, const weir_policy *p);

/* Frees the evicted entries that are not pinned. */
void weir_policy_cache_collect(weir_policy_cache *t);

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
    weir_history history;
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

/* The counts of a name, of all services. Under the limiter's lock. */
weir_counts weir_counts_of(weir_limiter *l, size_t name);

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
    ret->keep = request->keep;
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

/* Repeats a reset, a refund or a charge, which has succeeded, on the candidate's state, if there is
 * a candidate. */
void weir_candidate_repeat(weir_service *s, weir_verb verb, const weir_resolved *at,
                           const weir_request *request, int64_t now_ns);

/* ---- peeks ----------------------------------------------------------------------------------- */

/* weir_service_peek(), which also returns where the state is; valid until the next call on the
 * service. */
bool weir_service_peek_resolved(weir_service *s, weir_completion *completion, weir_request *request,
                                int64_t now_ns, weir_resolved *ret_at);

/* ---- dispatch to engines (dispatch.c) -------------------------------------------------------- */
/* The calls return whether the requests are answered; see weir_completion. */

/* weir_service_take() for requests that may need an engine.
 *  verb  WEIR_VERB_TAKE; or WEIR_VERB_CHARGE for weir_service_charge_all(). */
bool weir_dispatch_take(weir_service *s, weir_completion *completion, weir_verb verb,
                        weir_request *requests, size_t n, int64_t now_ns);

/* Sends one resolved request to its engine.
 *  verb  neither WEIR_VERB_TAKE nor WEIR_VERB_GRANT; only WEIR_VERB_RESET for a key on a list;
 *        WEIR_VERB_RESET_ALL without a key. */
bool weir_dispatch_one(weir_service *s, weir_completion *completion, weir_verb verb,
                       weir_request *request, int64_t now_ns, const weir_resolved *at);

/* Reads the answer to weir_dispatch_one(), if it has arrived.
 *  ret_at  valid until the next call on the service. */
bool weir_dispatch_answer(weir_service *s, weir_completion *completion, weir_request *request,
                          weir_resolved *ret_at);

/* weir_service_throttle(), without the counting.
 *  ret_by_error  whether on_error decided. */
bool weir_dispatch_throttle(weir_service *s, weir_completion *completion, const weir_throttle *t,
                            weir_slice key, int64_t now_ns, weir_throttle_result *ret,
                            bool *ret_by_error);

/* Whether the service has the engine. If not, writes the request's status and why. */
bool weir_dispatch_has_engine(const weir_service *s, const weir_completion *completion,
                              weir_engine_kind engine, weir_request *request);

/* Fails a request for which there is no memory. */
void weir_dispatch_refuse(weir_request *request);

/* Copies an engine's answer to the request. */
void weir_dispatch_read(const weir_engine_request *q, weir_request *request);

/* Copies the outputs of a request to another. */
void weir_dispatch_copy(weir_request *to, const weir_request *from);

#endif
