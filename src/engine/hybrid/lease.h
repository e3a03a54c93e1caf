/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_ENGINE_HYBRID_LEASE_H
#define WEIR_ENGINE_HYBRID_LEASE_H
/* The arithmetic of a quota lease: how many units of one key an engine may admit by itself. A lease
 * is a balance of units and a floor below which the balance must not fall:
 *
 *   prepaid   The balance is 0 or more: units that were charged to the server and not used here.
 *             The floor is 0. For policies that consist of buckets.
 *   postpaid  The balance is 0 or less: units that were admitted here and not charged to the
 *             server. The floor is negative, and syncs raise the balance. For policies with
 *             windows.
 *
 * At most `cap` units are prepaid, or owed: the bound in docs/hybrid.md follows from it. Nothing
 * here knows keys or requests. All times are of one clock, in ns. */

#include <weir/weir.h>

typedef enum weir_lease_kind {
    WEIR_LEASE_NONE, /* each request is forwarded: a queue, a layer that counts denials, or a limit
                        too small to be divided */
    WEIR_LEASE_POSTPAID,
    WEIR_LEASE_PREPAID
} weir_lease_kind;

/* A postpaid lease is at most 1/16 of the limit and of the remaining quota. A prepaid lease is at
 * most 1/4 of the limit. */
#define WEIR_LEASE_POSTPAID_PARTS 16
#define WEIR_LEASE_PREPAID_PARTS  4

/* What a policy and the engine's options determine. */
typedef struct weir_lease_plan {
    weir_lease_kind kind;
    int64_t window_ns; /* if the policy is one fixed window that is much longer than an interval:
                          its approximate length. Owed units are dropped at its end. Else 0 */
    bool drains;       /* the policy is one bucket that drains evenly, at the rate num / den */
    uint64_t num, den; /* units per den ns */
    int64_t cost_max;  /* the smallest limit of the layers: a larger cost is never allowed */
    int64_t cap;       /* units, 1..count; 0 for WEIR_LEASE_NONE */
    int64_t hold_ns;   /* prepaid: the pause before units of an exhausted key are requested again:
                          an interval, or the time in which `cap` units drain if that is shorter */
    int64_t interval_ns, idle_ns;
} weir_lease_plan;

/*  count, interval_ns, idle_ns  1 or more. Pure. */
weir_lease_plan weir_lease_plan_of(const weir_policy *p, int64_t count, int64_t interval_ns,
                                   int64_t idle_ns);

/* All zero: an empty lease, before the first reply. */
typedef struct weir_lease {
    int64_t balance;
    int64_t floor;       /* 0 or less; 0 if it is prepaid */
    int64_t low;         /* at this balance, or below it, a sync is due */
    int64_t valid_to_ns; /* nothing may be taken from then on */

    int64_t deny_until_ns, deny_cost; /* costs of deny_cost and more are denied until then */
    int64_t retry_at_ns;              /* when such a request may be allowed */
    int64_t remaining;                /* by the server's latest reply */
    int64_t limit;
    int64_t reset_at_ns;
    int64_t end_ns_min, end_ns_max; /* the window ends between them; 0: not known, or no window */

    int64_t used, rate; /* units taken in this interval; a decaying maximum of earlier intervals */
    int64_t used_at_ns; /* about when a unit was last taken */
    int64_t debt;       /* owed units that a sync could not charge */
    uint32_t layer;
    uint32_t epoch;   /* a sync that was sent in an earlier epoch does not change the balance */
    uint32_t version; /* replies to requests of earlier versions do not update the lease */
    bool exhausted;   /* no units remained, by the server's latest reply */
    bool syncing;     /* a sync is in flight */
} weir_lease;

/* Whether the lease has `cost` units, 1..WEIR_COST_MAX. */
static inline bool weir_lease_has(const weir_lease *s, int64_t now_ns, int64_t cost)
{
    return s->balance - cost >= s->floor && now_ns < s->valid_to_ns;
}

/* Admits `cost` units, 1..WEIR_COST_MAX, if the lease has them. */
static inline bool weir_lease_take(weir_lease *s, int64_t now_ns, int64_t cost)
{
    if (!weir_lease_has(s, now_ns, cost))
        return false;
    s->balance -= cost;
    s->used += cost;
    return true;
}

/* After units were taken: whether a sync is due at once. */
static inline bool weir_lease_is_low(const weir_lease *s)
{
    return s->balance <= s->low && !s->syncing;
}

/* Whether a denial of the server covers `cost`. A larger cost than can ever pass is not covered:
 * the server answers it with "never". */
static inline bool weir_lease_denies(const weir_lease *s, const weir_lease_plan *p, int64_t now_ns,
                                     int64_t cost)
{
    return now_ns < s->deny_until_ns && cost >= s->deny_cost && cost <= p->cost_max;
}

/* The decision for a request that was decided here. The retry_after of a denial is long enough for
 * a cost of deny_cost and, if the plan `drains`, for any cost. */
void weir_lease_decision(const weir_lease *s, const weir_lease_plan *p, int64_t now_ns,
                         int64_t cost, bool allowed, weir_decision *ret);

/* Ends the window if its time is over, and drops the units that are owed in it: no later request
 * depends on them. Call it before each request to the server. */
void weir_lease_roll_window(weir_lease *s, int64_t now_ns);

/* Updates the lease with a server's reply.
 *  d        to a take, a peek or, with a cost of 1, a grant.
 *  sent_ns  at or before the server's decision. */
void weir_lease_update(weir_lease *s, const weir_lease_plan *p, const weir_decision *d,
                       int64_t cost, int64_t sent_ns, int64_t now_ns);

/* How many units a sync should charge now: those that are owed, or those that a prepaid lease
 * lacks. 0: no sync. No sync is in flight. */
int64_t weir_lease_wanted(const weir_lease *s, const weir_lease_plan *p);

/* Records that a sync has charged `granted` of n units. Call it before weir_lease_update().
 *  epoch  the lease's when the sync was sent.
 * Returns the overshoot: units that could not be charged, and were not counted before. */
int64_t weir_lease_granted(weir_lease *s, const weir_lease_plan *p, uint32_t epoch, int64_t n,
                           int64_t granted);

/* Ends an interval. Returns how many prepaid units to give back, since none was used for idle_ns.
 * They have left the balance. */
int64_t weir_lease_end_interval(weir_lease *s, const weir_lease_plan *p, int64_t now_ns);

/* Whether the lease can be removed without losing owed or prepaid units. */
bool weir_lease_is_idle(const weir_lease *s, const weir_lease_plan *p, int64_t now_ns);

/* Discards what is known, since the key is refunded, charged or reset, and begins a new version.
 *  reset  it is reset: the balance is discarded, too. */
void weir_lease_invalidate(weir_lease *s, bool reset);

#endif
