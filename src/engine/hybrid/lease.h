/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_ENGINE_HYBRID_LEASE_H
#define WEIR_ENGINE_HYBRID_LEASE_H
/* What one node may admit of one key without asking, as arithmetic. A share is one number, the
 * balance, and how far down it may go:
 *
 *   leased    above 0 are units that are charged below and not used here. It goes down to 0. For
 *             policies of buckets alone.
 *   counted   below 0 are units that were admitted here and are not charged below. It goes down to
 *             a floor, and a sync_request takes it up again. For all policies that have windows.
 *
 * Never more than `cap` units are leased, nor owed: that is what docs/hybrid.md makes its bound of.
 * This knows neither keys nor who is asked. All times are of one clock, in ns. */

#include <weir/weir.h>

typedef enum weir_lease_kind {
    WEIR_LEASE_NONE, /* every request is asked below: a queue, a layer that counts denials, or a
                        limit that is too small to be parted */
    WEIR_LEASE_POSTPAID,
    WEIR_LEASE_PREPAID
} weir_lease_kind;

/* A counted share is at most this part of the limit, and of what is left of it; a lease is at most
 * that part of the limit. */
#define WEIR_LEASE_POSTPAID_PARTS 16
#define WEIR_LEASE_PREPAID_PARTS  4

/* What follows from a policy and the engine's options. */
typedef struct weir_lease_plan {
    weir_lease_kind kind;
    int64_t window_ns; /* one layer, of fixed windows that are much longer than an interval: about
                          how long; what is owed ends with the window. Else 0 */
    bool tat;          /* one layer, a bucket that drains evenly: num and den are its rate */
    uint64_t num, den;
    int64_t cost_max; /* of the least layer: what costs more can never be allowed */
    int64_t cap;      /* units, 1..count; 0 of WEIR_LEASE_NONE */
    int64_t hold_ns;  /* of a lease: how long to wait until more is asked for, once all is used: an
                        interval, or until `cap` units are there again, if that is sooner */
    int64_t interval_ns, idle_ns;
} weir_lease_plan;

/*  count, interval_ns, idle_ns  1 or more. Pure. */
weir_lease_plan weir_lease_plan_of(const weir_policy *p, int64_t count, int64_t interval_ns,
                                   int64_t idle_ns);

/* All zero is a share of nothing, that knows nothing. */
typedef struct weir_lease {
    int64_t balance;
    int64_t floor; /* 0 or less */
    int64_t low;   /* a balance that is not above it is to be settled, or filled up */
    int64_t good_until_ns;

    int64_t deny_until_ns, deny_cost; /* denied until then, for all that is known: what costs that
                                         or more */
    int64_t retry_at_ns;              /* when it may forward */
    int64_t remaining;                /* below, by its last answer */
    int64_t limit;
    int64_t reset_at_ns;
    int64_t end_ns_min, end_ns_max; /* of the window, between these; 0: not known, or none */

    int64_t used, rate; /* units in this interval so far, and in the ones before, falling */
    int64_t used_at_ns; /* about when it was last used */
    int64_t debt;       /* of what is owed, what has found no room already */
    uint32_t layer;
    uint32_t epoch; /* a sync_request that was sent in an earlier one changes no balance */
    bool exhausted; /* below has nothing left, by its last answer */
    bool asking;    /* a sync_request is under way */
} weir_lease;

/* Admits `cost` units, if the share has them.
 *  cost  1..WEIR_COST_MAX. */
static inline bool weir_lease_take(weir_lease *s, int64_t now_ns, int64_t cost)
{
    if (s->balance - cost < s->floor || now_ns >= s->good_until_ns)
        return false;
    s->balance -= cost;
    s->used += cost;
    return true;
}

/* To be asked after something was spent: has it to be settled, or filled up, now? */
static inline bool weir_lease_is_low(const weir_lease *s)
{
    return s->balance <= s->low && !s->asking;
}

static inline bool weir_lease_denies(const weir_lease *s, int64_t now_ns, int64_t cost)
{
    return now_ns < s->deny_until_ns && cost >= s->deny_cost;
}

/* The figures of what was decided here. Those of a denial are never too short for a cost of
 * s->deny_cost, nor, for a bucket that drains evenly, for any other. */
void weir_lease_decision(const weir_lease *s, const weir_lease_plan *p, int64_t now_ns,
                         int64_t cost, bool allowed, weir_decision *ret);

/* Has the window ended? Then what is owed is forgotten with it: it was admitted in a window that
 * nobody asks about any more. To be called before anything is asked below. */
void weir_lease_roll_window(weir_lease *s, const weir_lease_plan *p, int64_t now_ns);

/* Takes in an answer from below about one key.
 *  d        to a take, a peek or, with a cost of 1, a grant.
 *  sent_ns  when it was asked, at the latest. */
void weir_lease_update(weir_lease *s, const weir_lease_plan *p, const weir_decision *d,
                       int64_t cost, int64_t sent_ns, int64_t now_ns);

/* How many units a sync_request should charge now: what is owed, or what is missing from a lease. 0:
 * none. Nothing else may be under way. */
int64_t weir_lease_wanted(const weir_lease *s, const weir_lease_plan *p);

/* Takes in that a sync_request has charged so many units of `n`; before weir_lease_update().
 *  epoch  the share's when it was sent.
 * Returns how many of them have found no room for the first time: the overshoot. */
int64_t weir_lease_granted(weir_lease *s, const weir_lease_plan *p, uint32_t epoch, int64_t n,
                           int64_t granted);

/* Ends an interval: what was used in it is known. Returns how many leased units are to be given
 * back, because none of them was used for long enough, and nothing is under way; they are gone from
 * the balance. */
int64_t weir_lease_end_interval(weir_lease *s, const weir_lease_plan *p, int64_t now_ns);

/* Is there nothing in it that anybody would miss? */
bool weir_lease_is_idle(const weir_lease *s, const weir_lease_plan *p, int64_t now_ns);

/* The key was changed by other means than a take: what is known of it is not known any more.
 *  fresh  it was reset: nothing is owed nor leased either. */
void weir_lease_invalidate(weir_lease *s, bool fresh);

#endif
