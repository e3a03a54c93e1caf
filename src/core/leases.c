/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* concurrent. As in a sliding-log, a decision skips the ended leases at the head of the ring, and
 * only what writes the state removes them. */

#include "core/leases.h"

#include "core/algorithm.h"
#include "core/layer.h"
#include "core/ring.h"
#include "core/wide.h"

/* Always inlined, so that weir_leases_check() has the ring in registers. */
__attribute__((always_inline)) static inline void leases_at(const weir_layer *l,
                                                            const uint64_t *state, unsigned level,
                                                            int64_t now_ns, weir_ring *ret)
{
    weir_ring_at(l, state, level, ret);
    ret->at_ns = now_ns;
    ret->expired = 0;
    ret->before = ret->base;
    ret->sum = 0;
    if (ret->len == 0)
        return;
    int64_t charged_ns = weir_ring_stamp(ret, state, ret->len - 1) - l->period_ns;
    if (charged_ns > now_ns)
        ret->at_ns = charged_ns;
    weir_ring_count(ret, state, now_ns);
}

/* Returns the end of a new lease. No overflow: at_ns is at most WEIR_NOW_NS_MAX, see
 * weir_leases_sound(), and the lease at most WEIR_SPAN_NS_MAX. */
static int64_t new_end(const weir_layer *l, const weir_ring *v)
{
    return v->at_ns + (int64_t)l->den;
}
_Static_assert(INT64_MAX - WEIR_NOW_NS_MAX >= WEIR_SPAN_NS_MAX, "a time and a lease can be added");

/* Returns whether ends_ns is before the end of the last entry. */
static inline bool ends_before(const weir_ring *v, const uint64_t *state, int64_t ends_ns)
{
    return v->len > 0 && ends_ns < weir_ring_stamp(v, state, v->len - 1);
}

/* Returns the first entry that ends at ends_ns or later, or len. */
static uint64_t place_of(const weir_ring *v, const uint64_t *state, int64_t ends_ns)
{
    if (v->len == 0 || weir_ring_stamp(v, state, v->len - 1) < ends_ns)
        return v->len;
    return weir_ring_after(v, state, ends_ns - 1);
}

static bool ends_at(const weir_ring *v, const uint64_t *state, uint64_t i, int64_t ends_ns)
{
    return i < v->len && weir_ring_stamp(v, state, i) == ends_ns;
}

/* Returns whether an entry that ends at ends_ns needs a larger ring buffer. */
static bool is_full(const weir_layer *l, const weir_ring *v, const uint64_t *state, int64_t ends_ns)
{
    return v->len - v->expired == v->cap && v->cap < (uint64_t)l->limit &&
           !ends_at(v, state, place_of(v, state, ends_ns), ends_ns);
}

/* Returns whether the ring buffer has an entry for units that end at ends_ns. */
static bool has_entry(const weir_ring *v, const uint64_t *state, int64_t ends_ns)
{
    return v->len < v->cap || ends_at(v, state, place_of(v, state, ends_ns), ends_ns);
}

static uint32_t total_before(const weir_ring *v, const uint64_t *state, uint64_t i)
{
    return i > 0 ? weir_ring_total(v, state, i - 1) : v->base;
}

static int64_t units_at(const weir_ring *v, const uint64_t *state, uint64_t i)
{
    return (int64_t)(uint32_t)(weir_ring_total(v, state, i) - total_before(v, state, i));
}

/* Adds units that end at ends_ns. Ended leases have been removed. */
static void add(weir_ring *v, uint64_t *state, int64_t ends_ns, int64_t units)
{
    if (!ends_before(v, state, ends_ns)) {
        weir_ring_push(v, state, ends_ns, units);
        return;
    }
    uint64_t at = place_of(v, state, ends_ns);
    if (!ends_at(v, state, at, ends_ns)) {
        for (uint64_t i = v->len++; i > at; i--)
            weir_ring_copy(v, state, i - 1, i);
        state[WEIR_LOG_STAMPS + weir_ring_index(v, at)] = (uint64_t)ends_ns;
        weir_ring_set_total(v, state, at, total_before(v, state, at));
    }
    for (uint64_t i = at; i < v->len; i++)
        weir_ring_set_total(v, state, i, weir_ring_total(v, state, i) + (uint32_t)units);
    v->sum += units;
}

/* Removes units of entry i. Ended leases have been removed. */
static void take_out(weir_ring *v, uint64_t *state, uint64_t i, int64_t units)
{
    if (i == 0) { /* without a look at the others */
        weir_ring_drop(v, state, units);
        return;
    }
    bool all = units == units_at(v, state, i);
    weir_ring_move_down(v, state, i + all, i, units);
    v->sum -= units;
}

static int64_t ends_after(const weir_ring *v, const uint64_t *state, uint64_t i, int64_t now_ns)
{
    return weir_ns_clamp((uint64_t)weir_ring_stamp(v, state, i) - (uint64_t)now_ns);
}

bool weir_leases_sound(const weir_layer *l, const uint64_t *state, unsigned level)
{
    return weir_ring_sound(l, state, level, l->period_ns);
}

bool weir_leases_full(const weir_layer *l, const uint64_t *state, unsigned level, int64_t now_ns,
                      int64_t cost)
{
    weir_ring v;
    leases_at(l, state, level, now_ns, &v);
    return cost > 0 && is_full(l, &v, state, new_end(l, &v));
}

bool weir_leases_allows(const weir_layer *l, const uint64_t *state, unsigned level, int64_t now_ns,
                        int64_t cost)
{
    weir_ring v;
    leases_at(l, state, level, now_ns, &v);
    return v.sum + cost <= l->limit;
}

/* Returns the wait for a denied cost <= limit: until enough leases have ended. */
static int64_t retry_after(const weir_layer *l, const weir_ring *v, const uint64_t *state,
                           int64_t now_ns, int64_t cost)
{
    int64_t ended = (int64_t)(uint32_t)(v->before - v->base);
    uint64_t i = weir_ring_reaching(v, state, ended + v->sum + cost - l->limit);
    return ends_after(v, state, i, now_ns);
}

/* Sets what is left after a decision. */
static inline void set_left(const weir_layer *l, const weir_ring *v, const uint64_t *state,
                            int64_t now_ns, weir_decision *ret)
{
    ret->remaining = v->sum < l->limit ? l->limit - v->sum : 0;
    ret->reset_after_ns = v->sum > 0 ? ends_after(v, state, v->len - 1, now_ns) : 0;
}

/* Holds the units of an allowed request that end before others. */
__attribute__((noinline)) static bool insert(const weir_layer *l, uint64_t *state, unsigned level,
                                             int64_t now_ns, int64_t cost, weir_decision *ret)
{
    weir_ring v;
    leases_at(l, state, level, now_ns, &v);
    if (is_full(l, &v, state, new_end(l, &v)))
        return false;
    weir_ring_drop(&v, state, 0);
    add(&v, state, new_end(l, &v), cost);
    weir_ring_write(&v, state);
    set_left(l, &v, state, now_ns, ret);
    return true;
}

bool weir_leases_check(const weir_layer *l, uint64_t *state, unsigned level, int64_t now_ns,
                       int64_t cost, weir_decision *ret)
{
    weir_ring v;
    leases_at(l, state, level, now_ns, &v);
    ret->limit = l->limit;
    ret->allowed = v.sum + cost <= l->limit;
    ret->never = !ret->allowed && cost > l->limit;
    ret->delay_ns = ret->retry_after_ns = 0;
    if (cost > 0 && ret->allowed) {
        int64_t ends_ns = new_end(l, &v);
        if (ends_before(&v, state, ends_ns))
            return insert(l, state, level, now_ns, cost, ret);
        if (weir_ring_is_full(l, &v, state, ends_ns))
            return false;
        weir_ring_drop(&v, state, 0);
        weir_ring_push(&v, state, ends_ns, cost);
        weir_ring_write(&v, state);
    }
    if (!ret->allowed)
        ret->retry_after_ns = ret->never ? INT64_MAX : retry_after(l, &v, state, now_ns, cost);
    set_left(l, &v, state, now_ns, ret);
    return true;
}

int64_t weir_leases_time(const weir_layer *l, const uint64_t *state, unsigned level, int64_t now_ns)
{
    weir_ring v;
    leases_at(l, state, level, now_ns, &v);
    return v.at_ns;
}

bool weir_leases_convert(const weir_layer *l, const uint64_t *from, unsigned level,
                         const weir_layer *to, int64_t now_ns, uint64_t *ret, unsigned ret_level)
{
    weir_ring old;
    leases_at(l, from, level, now_ns, &old);
    return weir_ring_convert(&old, from, to, ret, ret_level);
}

void weir_leases_refund(const weir_layer *l, uint64_t *state, unsigned level, int64_t now_ns,
                        int64_t cost)
{
    weir_ring v;
    leases_at(l, state, level, now_ns, &v);
    if (cost == 0 || v.sum == 0)
        return;
    weir_ring_drop(&v, state, cost < v.sum ? cost : v.sum);
    weir_ring_write(&v, state);
}

/* Removes the ended leases, and finds the units of a lease. Returns how many of `units` are still
 * held, with their entry in *ret_i; 0 if none are. */
static int64_t find(const weir_layer *l, const uint64_t *state, unsigned level, int64_t ends_ns,
                    int64_t now_ns, int64_t units, weir_ring *ret, uint64_t *ret_i)
{
    leases_at(l, state, level, now_ns, ret);
    weir_ring_drop(ret, state, 0);
    *ret_i = place_of(ret, state, ends_ns);
    if (!ends_at(ret, state, *ret_i, ends_ns))
        return 0;
    int64_t held = units_at(ret, state, *ret_i);
    return units < held ? units : held;
}

void weir_leases_release(const weir_layer *l, uint64_t *state, unsigned level, int64_t ends_ns,
                         int64_t now_ns, int64_t units)
{
    weir_ring v;
    uint64_t i;
    int64_t held = find(l, state, level, ends_ns, now_ns, units, &v, &i);
    if (held == 0)
        return;
    take_out(&v, state, i, held);
    weir_ring_write(&v, state);
}

/* As find(), for a renewal. A lease that has not ended may have been joined to one that ends later,
 * see weir_ring_convert(): its units are among those of the first that ends then. */
static int64_t find_joined(const weir_layer *l, const uint64_t *state, unsigned level,
                           int64_t ends_ns, int64_t now_ns, int64_t units, weir_ring *ret,
                           uint64_t *ret_i)
{
    int64_t held = find(l, state, level, ends_ns, now_ns, units, ret, ret_i);
    if (held > 0 || ends_ns <= now_ns || *ret_i == ret->len)
        return held;
    int64_t all = units_at(ret, state, *ret_i);
    return units < all ? units : all;
}

/* Moves units from entry i on that end before until_ns: those of a holder whose lease ends at the
 * end of entry i, or before it but after that of the entry before. Leases are only ever joined to
 * later ones. So at each time at least as many units are held as their holders count on. This stays
 * true: between the holder's end and that of entry i, these units were held for nobody. Moves all
 * units of an entry if there is no other entry for a part of them, which is stricter. */
static void move_joined(weir_ring *v, uint64_t *state, uint64_t i, int64_t until_ns, int64_t units)
{
    while (units > 0 && weir_ring_stamp(v, state, i) < until_ns) {
        int64_t all = units_at(v, state, i), n = units < all ? units : all;
        units -= n;
        if (!has_entry(v, state, until_ns))
            n = all;
        take_out(v, state, i, n);
        add(v, state, until_ns, n);
    }
}

bool weir_leases_renew(const weir_layer *l, uint64_t *state, unsigned level, int64_t ends_ns,
                       int64_t until_ns, int64_t now_ns, int64_t units)
{
    weir_ring v;
    uint64_t i;
    int64_t held = find_joined(l, state, level, ends_ns, now_ns, units, &v, &i);
    if (held == 0)
        return true;
    bool part = held < units_at(&v, state, i), joined = weir_ring_stamp(&v, state, i) != ends_ns;
    if (part && is_full(l, &v, state, until_ns))
        return false;
    if (joined || until_ns > ends_ns) {
        move_joined(&v, state, i, until_ns, units);
    } else if (!part || has_entry(&v, state, until_ns)) {
        take_out(&v, state, i, held);
        add(&v, state, until_ns, held);
    }
    weir_ring_write(&v, state);
    return true;
}

/* ---- of a whole policy ----------------------------------------------------------------------- */

/* Returns the concurrent layer, and moves *state from that of the policy to that of the layer; NULL
 * if there is none. */
static const weir_layer *hold_of(const weir_policy *p, const uint64_t **state, unsigned level)
{
    const weir_layer *hold = weir_policy_hold(p);
    for (const weir_layer *l = p->layer; hold && l < hold; l++)
        *state += weir_layer_words(l, level);
    return hold;
}

int64_t weir_lease_end(const weir_policy *p, const uint64_t *state, unsigned level, int64_t now_ns)
{
    const weir_layer *l = hold_of(p, &state, level);
    return l ? weir_leases_time(l, state, level, now_ns) + (int64_t)l->den : 0;
}

int64_t weir_lease_held(const weir_policy *p, const uint64_t *state, unsigned level,
                        const weir_charged *of, int64_t now_ns)
{
    weir_ring v;
    uint64_t i;
    if (!weir_state_sound(p, state, level))
        return 0;
    const weir_layer *l = hold_of(p, &state, level);
    return l ? find_joined(l, state, level, of->ends_ns, now_ns, of->units, &v, &i) : 0;
}
