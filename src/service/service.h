/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_SERVICE_SERVICE_H
#define WEIR_SERVICE_SERVICE_H
/* Requests -> decisions: finds the rule of a name or the policy of a text, and asks the store. It
 * knows no socket and no protocol.
 *
 * A weir_limiter is what all threads share: the store, the rules in force, the sums of all counters. A
 * weir_service is one thread's way to it: its cache of policy texts, and its counters, which no
 * other thread writes. */

#include "port/buffer.h"
#include "port/text.h"
#include "service/rules/rules.h"
#include "service/throttle.h"
#include "store/clock.h"

/* ---- waiting for an engine ------------------------------------------------------------------- */
/* A policy's state may be with another engine than the store (engine.h), which may need time for an
 * answer. Calls that may ask one take a turn, and say whether all is answered now. If not, they
 * have written nothing; the same call with the same asks is to be made again once ready() was
 * called, and is answered then. What the asks point to may lie elsewhere by then. */

typedef struct weir_pending weir_pending;

/* One for each session, of the service's thread. It may not move while something is under way.
 * Callers that ask no engine pass NULL: the asks that needed one are WEIR_E_UNSUPPORTED then. */
typedef struct weir_completion {
    weir_pending *pending; /* what is under way; NULL: nothing. The service's */

    /* The answers are there. Called by the engine, not from within a call of the service. Its time
     * is the engine's, so that it should do no more than see to it that the session is run. */
    void (*ready)(void *ctx);
    void *ctx;
} weir_completion;

/* Whether something is under way that is not yet answered. */
bool weir_completion_is_pending(const weir_completion *t);

/* How many asks are under way, answered or not: so many are to be asked again. 0: none. */
size_t weir_completion_len(const weir_completion *t);

/* Forgets what is under way: ready() is not called, and the answers are not counted. What was asked
 * may be charged all the same. */
void weir_completion_cancel(weir_completion *t);

/* What may be under way, in bytes, for all turns of a service; asks that find no room are
 * WEIR_E_IO. An ask takes about 650 of them, and its key; a connection holds that key as well. */
#define WEIR_SERVICE_PENDING_BYTES_MAX ((size_t)64 << 20)

/* ---- the limiter --------------------------------------------------------------------------------- */

typedef struct weir_limiter weir_limiter;

/* store and what zones refers to must outlive the limiter. It begins with no rules. */
WEIR_NODISCARD weir_status weir_limiter_open(weir_limiter **ret, weir_store *store,
                                             const weir_zones *zones);
void weir_limiter_close(weir_limiter *h); /* accepts NULL; its services must be closed */

/* Puts rules in force, and takes over the caller's reference. Decisions that are under way end
 * under the old ones. State goes with the policy text: a key keeps it wherever the text it is held
 * to has not changed. Any thread. */
void weir_limiter_set_rules(weir_limiter *h, weir_rules *rules);

/* Gives one named policy another limit (WEIR.POLICY SET): its overrides, lists and all else stay as
 * they are; if there is none of that name, it is added without any. Or takes one away. Any thread.
 * Returns as weir_rules_build(), and WEIR_E_FULL; drop: WEIR_OK, WEIR_E_ABSENT, WEIR_E_NOMEM. */
WEIR_NODISCARD weir_status weir_limiter_set_limit(weir_limiter *h, const char *name,
                                                  const char *limit, weir_rule_error *ret_error);
WEIR_NODISCARD weir_status weir_limiter_drop_rule(weir_limiter *h, const char *name, size_t len);

/* Which engine has the states of policies by their text, of CL.THROTTLE, and of policies that
 * weir_limiter_set_limit() adds; to begin with, the local one. Any thread. */
void weir_limiter_set_default_engine(weir_limiter *h, weir_engine_kind kind);
weir_engine_kind weir_limiter_default_engine(weir_limiter *h);

/* Called after weir_limiter_set_limit() or weir_limiter_drop_rule() succeeded, by the thread that did it;
 * limit NULL: taken away. */
typedef void (*weir_limiter_changed)(void *ctx, const char *name, const char *limit);

/* To be called before any other thread knows the limiter. */
void weir_limiter_on_change(weir_limiter *h, weir_limiter_changed fn, void *ctx);

/* ---- a service ------------------------------------------------------------------------------- */

typedef struct weir_service weir_service;

/* How many different policy texts a service keeps compiled; the one used longest ago goes first. */
#define WEIR_SERVICE_POLICIES_MAX 1024

/* To be used by one thread. Returns WEIR_OK or WEIR_E_NOMEM. */
WEIR_NODISCARD weir_status weir_service_open(weir_service **ret, weir_limiter *h);
void weir_service_close(weir_service *s); /* accepts NULL; its counts go on in the limiter's sums */

/* Gives the service an engine, or takes it away: NULL. By the service's thread, while nothing that
 * it was asked is under way.
 *  kind  not WEIR_ENGINE_LOCAL. */
void weir_service_set_engine(weir_service *s, weir_engine_kind kind, weir_engine *engine);

/* Why the verdict is what it is. */
typedef enum weir_reason {
    WEIR_BY_LIMIT,      /* the limit said so */
    WEIR_BY_SHADOW,     /* the limit denies it, but the rule only looks on: allowed */
    WEIR_BY_ALLOW_LIST, /* allowed and not counted: full figures */
    WEIR_BY_DENY_LIST,  /* denied whatever it costs: never */
    WEIR_BY_ON_ERROR    /* the engine could not be asked, and on_error said so */
} weir_reason;

/* "limit", "shadow", "allow-list", "deny-list" or "on-error". */
const char *weir_reason_word(weir_reason reason);

/* One request for a decision, and its answer. */
typedef struct weir_request {
    weir_slice rule; /* the name of a rule, or a policy text ... */
    bool by_text;    /* ... which of them */
    weir_slice key;  /* 1..WEIR_KEY_MAX bytes */
    int64_t cost;    /* 0..WEIR_COST_MAX; 0 is a peek */

    weir_status status; /* out; the rest is written on WEIR_OK only, unless it says otherwise */
    weir_decision decision;
    weir_reason reason;
    const weir_policy
        *policy;     /* by which it was decided; good until the next call on the service */
    const char *why; /* if the status is WEIR_E_IO or WEIR_E_UNSUPPORTED: what is wrong, and what
                        helps; static; or NULL */
    weir_policy_error error; /* a refused text: where and why, column > 0. Else column is 0 */
} weir_request;

#define WEIR_BATCH_MAX 64

/* Decides n asks (0..WEIR_BATCH_MAX) in order, as if one by one, all at now_ns. Each gets a status:
 * WEIR_OK; WEIR_E_ABSENT for no such rule; that of weir_policy_parse() with error.column > 0;
 * WEIR_E_RANGE for a bad key or cost; WEIR_E_NOMEM if the store had no room; WEIR_E_IO if an engine
 * could not be asked and nothing says what holds then; WEIR_E_UNSUPPORTED if it cannot decide by
 * the policy. Engines are queried in parallel.
 * Returns whether all are answered; see weir_completion. */
WEIR_NODISCARD bool weir_service_take(weir_service *s, weir_completion *completion,
                                      weir_request *asks, size_t n, int64_t now_ns);

/* What several asks were answered as one. */
typedef struct weir_all_result {
    weir_status status; /* the rest is written on WEIR_OK only */
    bool allowed;
    size_t index;     /* whose figures stand for all: denied, the one that denies with the longest
                         wait; else the one with the least remaining of those that may deny; of
                         several such, the one with the latest reset */
    int64_t delay_ns; /* the longest of any; 0 if denied */
} weir_all_result;

#define WEIR_ALL_MAX 16 /* WEIR_TAKE_MANY_MAX of the store */

/* Decides n asks (1..WEIR_ALL_MAX) as one: all are charged, or none is; see weir_store_take_many().
 * Each has its answer, which on a denial is what it alone would be told.
 *  - A key on an allow list is not charged and denies nothing; one on a deny list denies all.
 *  - A shadow denies nothing. It is charged, if it has the room, where all others are allowed: so
 *    that it counts what really passed.
 *  - An allowance is counted for every ask, a denial for the one that denied.
 *  - The states of all must be with one engine, but for those on lists; else one of them is
 *    WEIR_E_UNSUPPORTED.
 *  ret  its status: WEIR_OK; or the first ask's that is not, as weir_service_take() tells, with
 *       nothing charged; WEIR_E_RANGE if n is out of range, and then no ask is written.
 * Returns whether it is answered; see weir_completion. */
WEIR_NODISCARD bool weir_service_take_all(weir_service *s, weir_completion *completion,
                                          weir_request *asks, size_t n, int64_t now_ns,
                                          weir_all_result *ret);

/* ---- what is only known afterwards; see weir_store_reserve() ---- */

#define WEIR_ID_NONE 0 /* the id of a reservation that there is no need of */

/* Charges ask->cost for the time being; answers and counts as weir_service_take(), and statuses
 * also as weir_store_reserve(); WEIR_E_UNSUPPORTED if the state is not in the service's own store.
 *  ttl_ns  1..WEIR_SPAN_NS_MAX.
 *  ret_id  written if the answer is "allowed". For a key on an allow list it is WEIR_ID_NONE; for
 *          one that only a shadow lets pass, a reservation of 0 units. */
void weir_service_reserve(weir_service *s, weir_request *ask, int64_t ttl_ns, int64_t now_ns,
                          uint64_t *ret_id);

/* Settles a reservation: see weir_store_commit(). For WEIR_ID_NONE it does nothing, and no limit
 * is told. */
WEIR_NODISCARD weir_status weir_service_commit(weir_service *s, uint64_t id, int64_t actual,
                                               int64_t now_ns, weir_decision *ret,
                                               int64_t *ret_over);

/* Says what weir_service_take() would answer, and charges nothing; see weir_peek(). Returns whether
 * it is answered, as do all of these; see weir_completion. */
WEIR_NODISCARD bool weir_service_peek(weir_service *s, weir_completion *completion,
                                      weir_request *ask, int64_t now_ns);

/* Gives back ask->cost units; answers and statuses as weir_service_take(), with the figures of a
 * peek; WEIR_E_UNSUPPORTED if the policy cannot. A key on a list is left as it is. */
WEIR_NODISCARD bool weir_service_refund(weir_service *s, weir_completion *completion,
                                        weir_request *ask, int64_t now_ns);

/* Makes a key fresh. ask->cost is not looked at; only status, why and error are written. */
WEIR_NODISCARD bool weir_service_reset(weir_service *s, weir_completion *completion,
                                       weir_request *ask, int64_t now_ns);

/* Says in words what holds for a key: its rule, the policy it is held to and why that one, what it
 * could take now, when it is fresh again, and when it may go on if it may not now. Lines end with
 * "\n". Nothing is charged; ask->cost is taken as 1. */
WEIR_NODISCARD bool weir_service_explain(weir_service *s, weir_completion *completion,
                                         weir_request *ask, int64_t now_ns, weir_buffer *out);

/* What CL.THROTTLE is answered. */
typedef struct weir_throttle_result {
    weir_status status;           /* WEIR_OK; WEIR_E_RANGE; WEIR_E_NOMEM; WEIR_E_IO */
    weir_throttle_answer answer;  /* on WEIR_OK */
    weir_throttle_status numbers; /* what is wrong with the numbers, if that is why it is
                                     WEIR_E_RANGE; else WEIR_THROTTLE_OK */
    const char *why;              /* as an ask's */
} weir_throttle_result;

/* Decides as CL.THROTTLE does. The state belongs to the key alone. */
WEIR_NODISCARD bool weir_service_throttle(weir_service *s, weir_completion *completion,
                                          const weir_throttle *t, weir_slice key, int64_t now_ns,
                                          weir_throttle_result *ret);

/* The key as the policy of an ask reads it: the bytes as they came, or the network of an address.
 * Decides nothing. Only rule, by_text, key and cost of the ask are read.
 *  ret  written on WEIR_OK; good until the next call on the service.
 * Returns a status as weir_service_take() does. */
WEIR_NODISCARD weir_status weir_service_key(weir_service *s, const weir_request *ask,
                                            weir_slice *ret);

weir_limiter *weir_service_limiter(weir_service *s);

/* ---- what is there, and what has happened ---------------------------------------------------- */

/* A rule in force, as WEIR.POLICY LIST and /v1/policies show it. */
typedef struct weir_rule_view {
    const char *name;
    const char *limit; /* as it was given */
    const weir_policy *policy;
    size_t overrides, allow, deny; /* how many */
    bool shadow;
    weir_engine_kind engine;
    weir_on_error on_error;
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
    uint64_t failed;    /* a request that was to be decided and could not be */
    uint64_t unreached; /* decided by on_error */
} weir_counts;

/* The names that counts of no rule are under. */
#define WEIR_COUNTS_TEXTS    "(texts)"    /* policies given as text */
#define WEIR_COUNTS_THROTTLE "(throttle)" /* CL.THROTTLE */
#define WEIR_COUNTS_OTHERS   "(others)"   /* rules that are not there, and those after 4093 names */

/* Calls fn with the sums over all services for every rule that is or was in force, then for the
 * names above. Any thread. */
void weir_limiter_counts(weir_limiter *h,
                         void (*fn)(void *ctx, const char *name, const weir_counts *counts),
                         void *ctx);

/* How long answers took, from the look at the clock before a batch until it was decided; those of
 * an engine that needed time, until it answered. */
#define WEIR_LATENCY_BUCKETS 24
typedef struct weir_latency {
    uint64_t count[WEIR_LATENCY_BUCKETS]; /* [i]: took up to 2^(i+7) ns, the last one: or longer */
    uint64_t sum_ns;
} weir_latency;

/* Whether asks were decided whose latency is not yet counted: those that an engine needed time for
 * are counted already. */
bool weir_service_has_decided(const weir_service *s);

/* Counts the asks that were decided since the last call as having taken elapsed_ns, all
 * together. */
void weir_service_latency(weir_service *s, int64_t elapsed_ns);

weir_latency weir_limiter_latency(weir_limiter *h); /* the sum over all services. Any thread */
weir_store_stats weir_limiter_store_stats(weir_limiter *h); /* Any thread */

int64_t weir_limiter_now(weir_limiter *h); /* weir_store_now() of its store. Any thread */
weir_clock_view
weir_limiter_clock(weir_limiter *h); /* and how that stands to the wall clock. Any thread */

#endif
