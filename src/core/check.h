/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_CORE_CHECK_H
#define WEIR_CORE_CHECK_H
/* What weir's other modules need from a whole policy and its state, beside the functions of
 * weir.h. */

#include <weir/weir.h>

/* Returns whether decision `a` ranks before decision `b`. The first in rank supplies the reported
 * numbers when several layers, or several requests that are charged as one, answer together. Both
 * allow or both deny.
 * On a denial `never` ranks first, then the longer wait. On an allowance the smaller remaining
 * ranks first. Then the later reset does. Returns false on a tie, so that the earlier one stays.
 * Pure. */
static inline bool weir_outranks(const weir_decision *a, const weir_decision *b)
{
    if (a->never != b->never)
        return a->never;
    if (a->retry_after_ns != b->retry_after_ns)
        return a->retry_after_ns > b->retry_after_ns;
    if (a->allowed && a->remaining != b->remaining)
        return a->remaining < b->remaining;
    return a->reset_after_ns > b->reset_after_ns;
}

/* Whether the arguments of weir_check() beside the state are in range. Pure. */
static inline bool weir_is_in_range(unsigned level, int64_t now_ns, int64_t cost)
{
    return now_ns >= 0 && now_ns <= WEIR_NOW_NS_MAX && cost >= 0 && cost <= WEIR_COST_MAX &&
           level <= WEIR_LEVEL_MAX;
}

/* Whether a number may be the `keep` of weir_check_keep(). Pure. */
static inline bool weir_keep_is_good(int64_t keep)
{
    return keep >= WEIR_KEEP_PERCENT(100) && keep <= WEIR_COST_MAX;
}

/* Returns how many units of a limit such a request keeps for others, 0..WEIR_COST_MAX. Pure.
 *  limit  0..WEIR_LIMIT_MAX.
 *  keep   good; so the product is below 2^38. */
static inline int64_t weir_kept_of_limit(int64_t limit, int64_t keep)
{
    return keep >= 0 ? keep : (limit * -keep + 99) / 100;
}

static inline int64_t weir_kept_of(const weir_layer *l, int64_t keep)
{
    return weir_kept_of_limit(l->limit, keep);
}

/* The largest cost that a policy can allow to requests with a `keep`; below 0 if none. Pure. */
static inline int64_t weir_keep_most(const weir_policy *p, int64_t keep)
{
    int64_t most = INT64_MAX;
    for (uint32_t i = 0; i < p->layers; i++) {
        int64_t limit = p->layer[i].limit - weir_kept_of(&p->layer[i], keep);
        most = limit < most ? limit : most;
    }
    return most;
}

/* Makes a decision one on a request that no wait helps. Pure. */
static inline void weir_decision_deny_always(weir_decision *d)
{
    d->allowed = false;
    d->never = true;
    d->retry_after_ns = INT64_MAX;
    d->delay_ns = 0;
}

/* As weir_peek_keep() on the sum of several costs, which may be above WEIR_COST_MAX: then it is
 * above every limit. Pure.
 *  sum  0 or more. */
WEIR_NODISCARD static inline weir_status weir_peek_sum(const weir_policy *p, const uint64_t *state,
                                                       unsigned level, int64_t now_ns, int64_t sum,
                                                       int64_t keep, weir_decision *ret)
{
    bool fits = sum <= WEIR_COST_MAX;
    weir_status st = weir_peek_keep(p, state, level, now_ns, fits ? sum : WEIR_COST_MAX, keep, ret);
    if (st == WEIR_OK && !fits)
        weir_decision_deny_always(ret);
    return st;
}

/* Returns false if the words cannot be a state of the policy. weir_check() rejects such a state
 * with WEIR_E_RANGE. */
bool weir_state_sound(const weir_policy *p, const uint64_t *state, unsigned level);

/* As weir_check_keep(), for a state that is known to be sound. Unused if the amalgamated library is
 * compiled as the core alone. */
WEIR_NODISCARD __attribute__((unused)) weir_status
weir_check_sound(const weir_policy *p, uint64_t *state, unsigned level, int64_t now_ns,
                 int64_t cost, int64_t keep, weir_decision *ret);

/* Returns the latest time at which any layer decides, or now_ns if the state is not sound. Record
 * this time with a charge that may be refunded later: every layer then finds the charge where it
 * counted it. Pure. */
int64_t weir_state_time(const weir_policy *p, const uint64_t *state, unsigned level,
                        int64_t now_ns);

/* Decides as weir_peek_keep(), but a denial of a cost above 0 begins the policy's block, unless one
 * is running. Nothing else is written: use it for a denied request of a transaction, which charges
 * and counts nothing. *ret then describes the block. Unused if the amalgamated library is compiled
 * as the core alone. */
WEIR_NODISCARD __attribute__((unused)) weir_status
weir_block_if_denied(const weir_policy *p, uint64_t *state, unsigned level, int64_t now_ns,
                     int64_t cost, int64_t keep, weir_decision *ret);

/* How much of its quota a key has used, and for how long. */
typedef struct weir_usage {
    int64_t fresh_after_ns; /* weir_fresh_after() */
    unsigned used; /* of the layer that has used the largest share: see weir_used_share() */
} weir_usage;

/* The used share of a limit, in 1/256 of the limit rounded up to a power of two: at most the true
 * share, and at least half of it less 1/256. 0..WEIR_USED_MAX; a key that has used up its limit has
 * 128 or more. Pure.
 *  limit, remaining  of a weir_decision. */
enum { WEIR_USED_MAX = 255 };
static inline unsigned weir_used_share(int64_t limit, int64_t remaining)
{
    int up = limit > 1 ? 64 - __builtin_clzll((uint64_t)limit - 1) : 0;
    uint64_t used = (uint64_t)(limit - remaining) << 8 >> up;
    return used < WEIR_USED_MAX ? (unsigned)used : WEIR_USED_MAX;
}

/* Returns the usage of a state at now_ns; all 0 if the state is not sound. Pure. */
weir_usage weir_usage_of(const weir_policy *p, const uint64_t *state, unsigned level,
                         int64_t now_ns);

/* A charge that can be found again: what a reservation records of it. */
typedef struct weir_charged {
    int64_t charged_ns; /* the result of weir_state_time() when the units were charged */
    int64_t ends_ns;    /* the end of the lease: charged_ns plus its length, or as it was renewed */
    int64_t units;      /* charged, 0..WEIR_COST_MAX */
} weir_charged;

/* Returns when the lease of units that were just charged at now_ns ends; 0 if the policy has no
 * concurrent layer. Pure. Unused if the amalgamated library is compiled as the core alone. */
__attribute__((unused)) int64_t weir_lease_end(const weir_policy *p, const uint64_t *state,
                                               unsigned level, int64_t now_ns);

/* Returns how many units of a charge its concurrent layer still holds, 0..of->units. Pure. Unused
 * if the amalgamated library is compiled as the core alone. */
__attribute__((unused)) int64_t weir_lease_held(const weir_policy *p, const uint64_t *state,
                                                unsigned level, const weir_charged *of,
                                                int64_t now_ns);

/* As weir_refund(), for units whose charge is known. A concurrent layer gives back all units of the
 * charge, whatever the cost. A cost of 0 is supported under every policy. Unused if the amalgamated
 * library is compiled as the core alone. */
WEIR_NODISCARD __attribute__((unused)) weir_status
weir_refund_charge(const weir_policy *p, uint64_t *state, unsigned level, const weir_charged *of,
                   int64_t now_ns, int64_t cost, weir_decision *ret);

/* Renews the lease of a charge: it ends ttl_ns after weir_state_time(). Layers without leases are
 * not changed. *ret is the decision on a cost of 0. Unused if the amalgamated library is compiled
 * as the core alone.
 *  ttl_ns       1..the lease of the concurrent layer.
 *  ret_ends_ns  when the lease ends.
 * Returns as weir_check(). */
WEIR_NODISCARD __attribute__((unused)) weir_status
weir_renew(const weir_policy *p, uint64_t *state, unsigned level, const weir_charged *of,
           int64_t ttl_ns, int64_t now_ns, weir_decision *ret, int64_t *ret_ends_ns);

/* Converts the state of a key from one policy to another, so that the key keeps what it used; see
 * docs/algorithms.md, "When a limit changes". Unused if the amalgamated library is compiled as the
 * core alone.
 *  from, to  have the same number of layers. Layer by layer, they have the same algorithm, period,
 *            calendar, anchor, time zone, slices and steps, and if not buckets, the same format.
 *  ret       weir_state_words(to, ret_level) words, all written on WEIR_OK.
 * Returns WEIR_OK; WEIR_E_ROOM if a log does not fit at ret_level; WEIR_E_RANGE for a damaged log.
 * Threads: pure. */
WEIR_NODISCARD __attribute__((unused)) weir_status
weir_state_convert(const weir_policy *from, const uint64_t *state, unsigned level,
                   const weir_policy *to, int64_t now_ns, uint64_t *ret, unsigned ret_level);

/* Lists every word of a state that a call may write. A store journals those words before the call,
 * and so can undo an interrupted change without copying a long log.
 *  state   sound. A log and leases list at most 5 words, whatever their length. Slices list those
 *          that have begun since the last charge, or all of them for a refund.
 *  refund  0: the words that weir_check() at now_ns may write, whatever the cost.
 *          1..WEIR_COST_MAX: the words that weir_refund() of so many units may write.
 *  ret     receives up to `max` indices into `state`. An index may appear twice.
 * Returns their number, or max + 1 if there are more; *ret is then undefined. Threads: pure. Unused
 * if the amalgamated library is compiled as the core alone. */
__attribute__((unused)) size_t weir_state_writes(const weir_policy *p, const uint64_t *state,
                                                 unsigned level, int64_t now_ns, int64_t refund,
                                                 size_t *ret, size_t max);

/* Lists words of the first layer's state that weir_check() will probably load, for a prefetch.
 * Threads: pure. Unused if the amalgamated library is compiled as the core alone.
 *  first  the first word of the state; any number is safe.
 *  ret    receives indices into the state, within its size at `level`.
 * Returns their number. */
enum { WEIR_STATE_LOADS = 4 };
__attribute__((unused)) size_t weir_state_loads(const weir_policy *p, uint64_t first,
                                                unsigned level, size_t ret[WEIR_STATE_LOADS]);

/* Returns the decision for a peek with cost 0 at an idle key: it is allowed, with the full quota of
 * the layer with the lowest limit. Pure. */
static inline weir_decision weir_full_quota(const weir_policy *p)
{
    weir_decision d = {.limit = INT64_MAX, .allowed = true};
    for (uint32_t i = 0; i < p->layers; i++) {
        if (p->layer[i].limit < d.limit) {
            d.limit = p->layer[i].limit;
            d.layer = i;
        }
    }
    d.remaining = d.limit;
    return d;
}

#endif
