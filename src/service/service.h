/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_SERVICE_SERVICE_H
#define WEIR_SERVICE_SERVICE_H
/* Requests -> decisions: finds the rule of a name or the policy of a text, and asks the store. It
 * knows no socket and no protocol.
 *
 * A weir_hub is what all threads share: the store, the rules in force, the sums of all counters. A
 * weir_service is one thread's way to it: its cache of policy texts, and its counters, which no
 * other thread writes. */

#include "port/buffer.h"
#include "service/rules.h"
#include "service/throttle.h"
#include "store/clock.h"

/* ---- the hub --------------------------------------------------------------------------------- */

typedef struct weir_hub weir_hub;

/* store and what zones refers to must outlive the hub. It begins with no rules. */
WEIR_NODISCARD weir_status weir_hub_open(weir_hub **ret, weir_store *store,
                                         const weir_zones *zones);
void weir_hub_close(weir_hub *h); /* accepts NULL; its services must be closed */

/* Puts rules in force, and takes over the caller's reference. Decisions that are under way end
 * under the old ones. State goes with the policy text: a key keeps it wherever the text it is held
 * to has not changed. Any thread. */
void weir_hub_set_rules(weir_hub *h, weir_rules *rules);

/* Gives one named policy another limit (WEIR.POLICY SET): its overrides, lists and all else stay as
 * they are; if there is none of that name, it is added without any. Or takes one away. Any thread.
 * Returns as weir_rules_build(), and WEIR_E_FULL; drop: WEIR_OK, WEIR_E_ABSENT, WEIR_E_NOMEM. */
WEIR_NODISCARD weir_status weir_hub_set_limit(weir_hub *h, const char *name, const char *limit,
                                              weir_rule_error *ret_error);
WEIR_NODISCARD weir_status weir_hub_drop_rule(weir_hub *h, const char *name, size_t len);

/* Called after each of these two succeeded, by the thread that did it; limit NULL: taken away. */
typedef void (*weir_hub_changed)(void *ctx, const char *name, const char *limit);

/* To be called before any other thread knows the hub. */
void weir_hub_on_change(weir_hub *h, weir_hub_changed fn, void *ctx);

/* ---- a service ------------------------------------------------------------------------------- */

typedef struct weir_service weir_service;

/* How many different policy texts a service keeps compiled; the one used longest ago goes first. */
#define WEIR_SERVICE_POLICIES_MAX 1024

/* To be used by one thread. Returns WEIR_OK or WEIR_E_NOMEM. */
WEIR_NODISCARD weir_status weir_service_open(weir_service **ret, weir_hub *h);
void weir_service_close(weir_service *s); /* accepts NULL; its counts go on in the hub's sums */

typedef struct weir_slice { /* bytes that somebody else owns, not terminated */
    const char *at;
    size_t len;
} weir_slice;

/* Why the verdict is what it is. */
typedef enum weir_reason {
    WEIR_BY_LIMIT,      /* the limit said so */
    WEIR_BY_SHADOW,     /* the limit denies it, but the rule only looks on: allowed */
    WEIR_BY_ALLOW_LIST, /* allowed and not counted: full figures */
    WEIR_BY_DENY_LIST   /* denied whatever it costs: never */
} weir_reason;

/* One request for a decision, and its answer. */
typedef struct weir_ask {
    weir_slice rule; /* the name of a rule, or a policy text ... */
    bool by_text;    /* ... which of them */
    weir_slice key;  /* 1..WEIR_KEY_MAX bytes */
    int64_t cost;    /* 0..WEIR_COST_MAX; 0 is a peek */

    weir_status status; /* out; the rest is written on WEIR_OK only, unless it says otherwise */
    weir_decision decision;
    weir_reason reason;
    const weir_policy
        *policy;             /* by which it was decided; good until the next call on the service */
    weir_policy_error error; /* a refused text: where and why, column > 0. Else column is 0 */
} weir_ask;

#define WEIR_BATCH_MAX 64

/* Decides n asks (0..WEIR_BATCH_MAX) in order, as if one by one, all at now_ns. Each gets a status:
 * WEIR_OK; WEIR_E_ABSENT for no such rule; that of weir_policy_parse() with error.column > 0;
 * WEIR_E_RANGE for a bad key or cost; WEIR_E_NOMEM if the store had no room. */
void weir_service_take(weir_service *s, weir_ask *asks, size_t n, int64_t now_ns);

/* What several asks were answered as one. */
typedef struct weir_all {
    bool allowed;
    size_t index;     /* whose figures stand for all: denied, the one that denies with the longest
                         wait; else the one with the least remaining of those that may deny */
    int64_t delay_ns; /* the longest of any; 0 if denied */
} weir_all;

#define WEIR_ALL_MAX 16 /* WEIR_TAKE_MANY_MAX of the store */

/* Decides n asks (1..WEIR_ALL_MAX) as one: all are charged, or none is; see weir_store_take_many().
 * Each has its answer, which on a denial is what it alone would be told.
 *  - A key on an allow list is not charged and denies nothing; one on a deny list denies all.
 *  - A shadow denies nothing. It is charged, if it has the room, where all others are allowed: so
 *    that it counts what really passed.
 *  - An allowance is counted for every ask, a denial for the one that denied.
 *  ret  written on WEIR_OK only.
 * Returns WEIR_OK; or the first ask's status that is not, as weir_service_take() tells, with
 * nothing charged; WEIR_E_RANGE if n is out of range, and then no ask is written. */
WEIR_NODISCARD weir_status weir_service_take_all(weir_service *s, weir_ask *asks, size_t n,
                                                 int64_t now_ns, weir_all *ret);

/* ---- what is only known afterwards; see weir_store_reserve() ---- */

#define WEIR_ID_NONE 0 /* the id of a reservation that there is no need of */

/* Charges ask->cost for the time being; answers and counts as weir_service_take(), and statuses
 * also as weir_store_reserve().
 *  ttl_ns  1..WEIR_SPAN_NS_MAX.
 *  ret_id  written if the answer is "allowed". For a key on an allow list it is WEIR_ID_NONE; for
 *          one that only a shadow lets pass, a reservation of 0 units. */
void weir_service_reserve(weir_service *s, weir_ask *ask, int64_t ttl_ns, int64_t now_ns,
                          uint64_t *ret_id);

/* Settles a reservation: see weir_store_commit(). For WEIR_ID_NONE it does nothing, and no limit
 * is told. */
WEIR_NODISCARD weir_status weir_service_commit(weir_service *s, uint64_t id, int64_t actual,
                                               int64_t now_ns, weir_decision *ret,
                                               int64_t *ret_over);

/* Says what weir_service_take() would answer, and charges nothing; see weir_peek(). */
void weir_service_peek(weir_service *s, weir_ask *ask, int64_t now_ns);

/* Gives back ask->cost units; answers and statuses as weir_service_take(), with the figures of a
 * peek; WEIR_E_UNSUPPORTED if the policy cannot. A key on a list is left as it is. */
void weir_service_refund(weir_service *s, weir_ask *ask, int64_t now_ns);

/* Makes a key fresh. ask->cost is not looked at; only status and error are written. */
void weir_service_reset(weir_service *s, weir_ask *ask);

/* Says in words what holds for a key: its rule, the policy it is held to and why that one, what it
 * could take now, when it is fresh again, and when it may go on if it may not now. Lines end with
 * "\n". Nothing is charged; ask->cost is taken as 1. */
void weir_service_explain(weir_service *s, weir_ask *ask, int64_t now_ns, weir_buffer *out);

/* Decides as CL.THROTTLE does. The state belongs to the key alone.
 *  ret_throttle  why it could not be decided, if the status is WEIR_E_RANGE and this is not
 *                WEIR_THROTTLE_OK.
 * Returns WEIR_OK; WEIR_E_RANGE; WEIR_E_NOMEM. */
WEIR_NODISCARD weir_status weir_service_throttle(weir_service *s, const weir_throttle *t,
                                                 weir_slice key, int64_t now_ns,
                                                 weir_throttle_answer *ret,
                                                 weir_throttle_status *ret_throttle);

weir_hub *weir_service_hub(weir_service *s);

/* ---- what is there, and what has happened ---------------------------------------------------- */

/* A rule in force, as WEIR.POLICY LIST and /v1/policies show it. */
typedef struct weir_rule_view {
    const char *name;
    const char *limit; /* as it was given */
    const weir_policy *policy;
    size_t overrides, allow, deny; /* how many */
    bool shadow;
} weir_rule_view;

/* Calls fn for every rule in force, by name, until it returns false. What the view points to is
 * good until fn returns. */
void weir_service_rules(weir_service *s, bool (*fn)(void *ctx, const weir_rule_view *rule),
                        void *ctx);

/* Counted since the start, by rule. Peeks are not counted. */
typedef struct weir_counts {
    uint64_t allowed;  /* by the limit */
    uint64_t denied;   /* by the limit */
    uint64_t shadowed; /* would have been denied */
    uint64_t allow_listed;
    uint64_t deny_listed;
    uint64_t failed; /* a request that was to be decided and could not be */
} weir_counts;

/* The names that counts of no rule are under. */
#define WEIR_COUNTS_TEXTS    "(texts)"    /* policies given as text */
#define WEIR_COUNTS_THROTTLE "(throttle)" /* CL.THROTTLE */
#define WEIR_COUNTS_OTHERS   "(others)"   /* rules that are not there, and those after 4093 names */

/* Calls fn with the sums over all services for every rule that is or was in force, then for the
 * names above. Any thread. */
void weir_hub_counts(weir_hub *h,
                     void (*fn)(void *ctx, const char *name, const weir_counts *counts), void *ctx);

/* How long answers took, from the look at the clock before a batch until it was decided. */
#define WEIR_LATENCY_BUCKETS 24
typedef struct weir_latency {
    uint64_t count[WEIR_LATENCY_BUCKETS]; /* [i]: took up to 2^(i+7) ns, the last one: or longer */
    uint64_t sum_ns;
} weir_latency;

/* Whether asks were decided whose latency is not yet counted. */
bool weir_service_has_decided(const weir_service *s);

/* Counts the asks that were decided since the last call as having taken elapsed_ns, all
 * together. */
void weir_service_latency(weir_service *s, int64_t elapsed_ns);

weir_latency weir_hub_latency(weir_hub *h);         /* the sum over all services. Any thread */
weir_store_stats weir_hub_store_stats(weir_hub *h); /* Any thread */

int64_t weir_hub_now(weir_hub *h);           /* weir_store_now() of its store. Any thread */
weir_clock_view weir_hub_clock(weir_hub *h); /* and how that stands to the wall clock. Any thread */

#endif
