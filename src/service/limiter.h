/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_SERVICE_LIMITER_H
#define WEIR_SERVICE_LIMITER_H
/* The limiter: what all threads share. It has the store, the active rules, and the sums of all
 * counters. Each thread decides requests by a service of its own (service.h). */

#include "service/rules/rules.h"
#include "store/clock.h"

typedef struct weir_limiter weir_limiter;

/* Opens a limiter without rules. The store, and what `zones` refers to, must outlive it.
 *  zones  NULL: policies with a time zone are refused. */
WEIR_NODISCARD weir_status weir_limiter_open(weir_limiter **ret, weir_store *store,
                                             const weir_zones *zones);
void weir_limiter_close(weir_limiter *l); /* accepts NULL; its services must be closed */

/* ---- rules ----------------------------------------------------------------------------------- */

/* Activates a set of rules, and takes over the caller's reference. Decisions in flight complete by
 * the old rules. Keys keep what they used, except of a rule whose limit has another shape, see
 * weir_store_keeps(). Any thread. */
void weir_limiter_set_rules(weir_limiter *l, weir_rules *rules);

/* Whether keys keep what they used when the limit or the engine of a rule changes. Pure. */
bool weir_limit_is_kept(const weir_policy *from, weir_engine_kind from_engine,
                        const weir_policy *to, weir_engine_kind to_engine);

static inline const char *weir_kept_word(bool kept)
{
    return kept ? "kept" : "reset";
}

/* A limit that differs between the active rules and others. */
typedef struct weir_limit_change {
    const char *name;      /* of the rule */
    const char *from, *to; /* the canonical texts */
    bool kept;             /* keys keep what they used; else they begin with full quota */
} weir_limit_change;

/* Calls fn for each rule of `rules` whose own limit differs from that of the active rule of its
 * name, in the order of the names. fn must not call the limiter. Any thread. */
void weir_limiter_compare(weir_limiter *l, const weir_rules *rules,
                          void (*fn)(void *ctx, const weir_limit_change *change), void *ctx);

/* Activates a set of rules and the default engine together: no request sees one without the other.
 * Any thread. */
void weir_limiter_configure(weir_limiter *l, weir_rules *rules, weir_engine_kind engine);

/* Changes the limit of one rule (WEIR.POLICY SET). Everything else of the rule stays. If there
 * is no rule with this name, one without overrides and lists is added. Any thread.
 *  ret_error  written for a bad name or limit; may be NULL.
 * Returns WEIR_OK; WEIR_E_FULL for more than WEIR_RULES_MAX rules; or as weir_rules_build(). */
WEIR_NODISCARD weir_status weir_limiter_set_limit(weir_limiter *l, const char *name,
                                                  const char *limit, weir_rule_error *ret_error);

/* Removes one rule. Returns WEIR_OK, WEIR_E_ABSENT or WEIR_E_NOMEM. Any thread. */
WEIR_NODISCARD weir_status weir_limiter_drop_rule(weir_limiter *l, const char *name, size_t len);

/* Puts one rule into shadow, or out of it. Everything else of the rule stays. Lasts until the next
 * weir_limiter_configure() or weir_limiter_set_rules(). Any thread.
 * Returns WEIR_OK; WEIR_E_ABSENT; WEIR_E_NOMEM. */
WEIR_NODISCARD weir_status weir_limiter_set_shadow(weir_limiter *l, const char *name, size_t len,
                                                   bool shadow);

/* Sets or removes the candidate of one rule; see weir_rule_spec. Everything else of the rule stays.
 * Lasts as weir_limiter_set_shadow(). Any thread.
 *  limit      a policy text; NULL: no candidate.
 *  ret_error  written for a bad limit; may be NULL.
 * Returns WEIR_OK; WEIR_E_ABSENT; WEIR_E_NOMEM; WEIR_E_UNSUPPORTED if another engine than the local
 * one keeps the rule's states; or WEIR_E_SYNTAX, WEIR_E_RANGE or WEIR_E_ZONE for a bad limit. */
WEIR_NODISCARD weir_status weir_limiter_set_candidate(weir_limiter *l, const char *name, size_t len,
                                                      const char *limit,
                                                      weir_rule_error *ret_error);

/* The engine for inline policies, for CL.THROTTLE, and for rules that weir_limiter_set_limit()
 * adds. The local one until weir_limiter_configure(). Any thread. */
weir_engine_kind weir_limiter_default_engine(weir_limiter *l);

/* A change of a single rule. */
typedef struct weir_rule_change {
    enum { WEIR_RULE_LIMIT, WEIR_RULE_DROPPED, WEIR_RULE_SHADOW, WEIR_RULE_CANDIDATE } kind;
    const char *name;
    const char *text; /* the new limit or candidate; NULL: none */
    bool shadow;      /* WEIR_RULE_SHADOW: the new value */
} weir_rule_change;

/* A callback for changes of single rules. */
typedef void (*weir_limiter_changed)(void *ctx, const weir_rule_change *change);

/* Sets the callback. The functions above that change one rule call it after a success, on the
 * caller's thread. To be called before any other thread uses the limiter. */
void weir_limiter_on_change(weir_limiter *l, weir_limiter_changed fn, void *ctx);

/* A number that changes whenever the rules change: a thread that remembers it can ask later whether
 * it has seen the active rules. Any thread. */
uint64_t weir_limiter_generation(const weir_limiter *l);

/* ---- counters -------------------------------------------------------------------------------- */

/* Requests since the start, by rule. Peeks are not counted. */
typedef struct weir_counts {
    uint64_t allowed;  /* by the limit */
    uint64_t denied;   /* by the limit */
    uint64_t shadowed; /* allowed, but the limit denied it: the rule is in shadow */
    uint64_t allow_listed;
    uint64_t deny_listed;
    uint64_t failed;    /* not decided because of an error */
    uint64_t unreached; /* decided by on_error */
} weir_counts;

/* weir_store_partitions() of the store. Any thread. */
size_t weir_limiter_partitions(weir_limiter *l, weir_partition_stats *ret, size_t max);

/* Names for requests without a rule. */
#define WEIR_COUNTS_TEXTS    "(texts)"    /* inline policies */
#define WEIR_COUNTS_THROTTLE "(throttle)" /* CL.THROTTLE */
#define WEIR_COUNTS_OTHERS   "(others)"   /* unknown rules, and rules after the first 16381 names */

/* Calls fn with the sums of all services, for each rule that is or was active, and then for the
 * names above. Any thread. */
void weir_limiter_counts(weir_limiter *l,
                         void (*fn)(void *ctx, const char *name, const weir_counts *counts),
                         void *ctx);

/* Requests since the start that a candidate decided too, by both verdicts. The current limit's
 * verdict is that before shadow. */
typedef struct weir_candidate_counts {
    uint64_t both_allow, both_deny, only_current_denies, only_candidate_denies;
    uint64_t overridden; /* not compared: the key has an override, which a candidate would keep */
} weir_candidate_counts;

/* Calls fn with the sums of all services, for each rule that has a candidate or had one that has
 * decided. Any thread.
 *  index  of the name, below 16384; it stays the same until the limiter closes. */
void weir_limiter_candidates(weir_limiter *l,
                             void (*fn)(void *ctx, const char *name, size_t index,
                                        const weir_candidate_counts *counts),
                             void *ctx);

/* A histogram of latencies: from the clock reading before a batch to its decision, or to the
 * engine's answer. */
#define WEIR_LATENCY_BUCKETS 24
typedef struct weir_latency {
    uint64_t count[WEIR_LATENCY_BUCKETS]; /* [i]: up to 2^(i+7) ns; the last one: or longer */
    uint64_t sum_ns;
} weir_latency;

weir_latency weir_limiter_latency(weir_limiter *l); /* sums of all services. Any thread */

/* ---- history --------------------------------------------------------------------------------- */

#define WEIR_HISTORY_STEP_NS ((int64_t)10000000000)
#define WEIR_HISTORY_STEPS   360 /* an hour */
#define WEIR_HISTORY_NAMES   64  /* names that have a series */

/* The groups of weir_counts that a step counts. */
enum {
    WEIR_HISTORY_ALLOWED, /* by the limit or by a list */
    WEIR_HISTORY_DENIED,  /* by the limit or by a list */
    WEIR_HISTORY_SHADOWED,
    WEIR_HISTORY_FAILED, /* failed or unreached */
    WEIR_HISTORY_GROUPS
};

/* The requests of a name in steps, oldest first. The last step is the current one. */
typedef struct weir_history_series {
    const char *name; /* NULL: all names together */
    int64_t first_ns; /* when the first step began */
    int64_t first;    /* its number; the steps are first..first + len - 1 */
    size_t len;       /* 1..WEIR_HISTORY_STEPS */
    const uint32_t (*count)[WEIR_HISTORY_GROUPS]; /* of step i: i % WEIR_HISTORY_STEPS */
} weir_history_series;

/* Ends a step of the history if it is due: counts the requests since the last call. The first call
 * begins the history. To be called about once a second; any thread.
 *  now_ns  more than 0. If it goes back, the current step becomes longer. */
void weir_limiter_history_tick(weir_limiter *l, int64_t now_ns);

/* Counts the requests until now, and calls fn with the series of all names together, and then with
 * those of single names. If more than WEIR_HISTORY_NAMES names are used, those that were busiest in
 * the last minutes have a series, which begins when they came among these. Any thread.
 *  series  valid during the call. */
void weir_limiter_history(weir_limiter *l, int64_t now_ns,
                          void (*fn)(void *ctx, const weir_history_series *series), void *ctx);

/* ---- the store ------------------------------------------------------------------------------- */

weir_store_stats weir_limiter_store_stats(weir_limiter *l); /* Any thread */
int64_t weir_limiter_now(weir_limiter *l);                  /* weir_store_now(). Any thread */
weir_clock_view weir_limiter_clock(weir_limiter *l);        /* weir_store_clock(). Any thread */

#endif
