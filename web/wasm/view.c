/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* What the pages draw: the layers of a policy, the state of a key, and decisions, as doubles.
 * Times are offsets in ns from a base that the host sets, so JavaScript can use plain numbers:
 * a double holds 2^53 ns, 104 days, exactly. Longer waits are rounded to the nearest double. No
 * double takes part in a decision. */

#include "shim.h"

#include "core/algorithm.h"
#include "core/layer.h"
#include "core/wide.h"
#include "core/windows.h"
#include "policy/text.h"

#include <weir/weir_zone.h>

#define NEVER (__builtin_inf())

static int64_t base_ns;

/* Sets the base of all offsets.
 *  ns  0..WEIR_NOW_NS_MAX. */
EXPORT(void, weir_web_set_base, int64_t ns)
{
    base_ns = ns;
}

static double offset_of(int64_t t_ns)
{
    return (double)(t_ns - base_ns);
}

/* ---- decisions ------------------------------------------------------------------------------- */

enum { ALLOWED, LIMIT, REMAINING, RETRY_AFTER, RESET_AFTER, DELAY, LAYER, BRIEF_LEN };

static double brief[BRIEF_LEN];

EXPORT(double *, weir_web_brief_buffer, void)
{
    return brief;
}

/* Like weir_web_key_take(), at an offset, with the decision in the brief buffer.
 *  offset_ns  0..2^53, a whole number. */
EXPORT(weir_status, weir_web_key_decide_at, weir_web_key *k, double offset_ns, int32_t cost)
{
    weir_decision d;
    weir_status st = weir_web_decide(k, base_ns + (int64_t)offset_ns, cost, 0, &d);
    if (st != WEIR_OK)
        return st;
    brief[ALLOWED] = d.allowed;
    brief[LIMIT] = (double)d.limit;
    brief[REMAINING] = (double)d.remaining;
    brief[RETRY_AFTER] = d.never ? NEVER : (double)d.retry_after_ns;
    brief[RESET_AFTER] = (double)d.reset_after_ns;
    brief[DELAY] = (double)d.delay_ns;
    brief[LAYER] = d.layer;
    return WEIR_OK;
}

/* ---- the layers of a policy ------------------------------------------------------------------ */

static struct {
    double limit, rate, period_ns, slices, calendar, count_denied, relaxed, stepped, nodelay,
        longest_ns;
} facts;

EXPORT(double *, weir_web_facts_buffer, void)
{
    return &facts.limit;
}

EXPORT(uint32_t, weir_web_policy_layers, const weir_policy *p)
{
    return p->layers;
}

/* Fills the facts buffer for layer i, and writes the name of its algorithm to the text buffer.
 * Returns the length of the name. */
EXPORT(size_t, weir_web_layer_facts, const weir_policy *p, uint32_t i)
{
    const weir_layer *l = &p->layer[i];
    facts.limit = (double)l->limit;
    facts.rate = (double)l->rate;
    facts.period_ns = (double)l->period_ns;
    facts.slices = (double)l->slices;
    facts.calendar = l->calendar;
    facts.count_denied = l->count_denied;
    facts.relaxed = l->relaxed;
    facts.stepped = l->stepped;
    facts.nodelay = l->nodelay;
    facts.longest_ns = (double)l->longest_ns;
    return weir_web_put_text(weir_facts_of(l->algorithm)->name);
}

/* Writes the name of the layer's time zone to the text buffer. Returns its length; 0 is UTC. */
EXPORT(size_t, weir_web_layer_zone, const weir_policy *p, uint32_t i)
{
    const weir_zone *zone = p->layer[i].zone;
    return zone ? weir_web_put_text(zone->name) : 0;
}

/* Writes the anchor of a calendar layer to the text buffer, as a policy text says it. Returns its
 * length; 0 is the beginning of the unit. */
EXPORT(size_t, weir_web_layer_from, const weir_policy *p, uint32_t i)
{
    const weir_layer *l = &p->layer[i];
    char text[16];
    weir_writer t = weir_writer_init(text, sizeof text);
    if (l->anchor > 0)
        weir_anchor_write(&t, l->calendar, l->anchor);
    return weir_web_put_text(text);
}

/* ---- the state of a key ---------------------------------------------------------------------- */

enum { ENTRIES_MAX = 4096 };

static struct {
    double limit, remaining, reset_after_ns, retry_after_ns, delay_ns, begin_ns, end_ns, used,
        previous;
    double entry[2 * ENTRIES_MAX]; /* offset, units */
} view;

EXPORT(double *, weir_web_view_buffer, void)
{
    return &view.limit;
}

static void put_entry(size_t i, int64_t t_ns, int64_t units)
{
    view.entry[2 * i] = offset_of(t_ns);
    view.entry[2 * i + 1] = (double)units;
}

static uint32_t log_total(const uint64_t *state, uint64_t cap, uint64_t slot)
{
    return (uint32_t)(state[WEIR_LOG_STAMPS + cap + slot / 2] >> (slot % 2 * 32));
}

/* Lists the entries of a ring that are after since_ns, the latest ENTRIES_MAX, the oldest first.
 * Returns their number. */
static size_t view_ring(const weir_layer *l, const uint64_t *state, unsigned level,
                        int64_t since_ns)
{
    uint64_t cap = weir_log_cap(l, level), head = (uint32_t)state[0], len = state[0] >> 32;
    uint64_t first = len;
    while (first > 0 && len - first < ENTRIES_MAX &&
           (int64_t)state[WEIR_LOG_STAMPS + (head + first - 1) % cap] > since_ns)
        first--;
    uint32_t before =
        first > 0 ? log_total(state, cap, (head + first - 1) % cap) : (uint32_t)state[1];
    for (uint64_t i = first; i < len; i++) {
        uint64_t slot = (head + i) % cap;
        uint32_t total = log_total(state, cap, slot);
        put_entry((size_t)(i - first), (int64_t)state[WEIR_LOG_STAMPS + slot], total - before);
        before = total;
    }
    return (size_t)(len - first);
}

/* Lists the entries of a log that count. */
static size_t view_log(const weir_layer *l, const uint64_t *state, unsigned level, int64_t at_ns)
{
    view.begin_ns = offset_of(at_ns - l->period_ns);
    view.end_ns = offset_of(at_ns);
    return view_ring(l, state, level, at_ns - l->period_ns);
}

/* Lists the ends of the leases that have not ended. */
static size_t view_leases(const weir_layer *l, const uint64_t *state, unsigned level,
                          int64_t now_ns)
{
    view.begin_ns = offset_of(now_ns);
    view.end_ns = offset_of(now_ns + l->period_ns);
    return view_ring(l, state, level, now_ns);
}

static int64_t slice_begin(const weir_layer *l, uint64_t slice)
{
    return (int64_t)weir_wide_div_ceil(weir_wide_mul(slice, l->den), l->num);
}

/* Lists the slices that count, the latest ENTRIES_MAX, the oldest first. Returns their number. */
static size_t view_slices(const weir_layer *l, const uint64_t *state, int64_t at_ns)
{
    uint64_t count = (uint64_t)l->slices, latest = state[0];
    uint64_t now = weir_wide_div_floor(weir_wide_mul((uint64_t)at_ns, l->num), l->den);
    uint64_t first = now + 1 < count ? 0 : now + 1 - count;
    view.begin_ns = offset_of(slice_begin(l, first));
    view.end_ns = offset_of(slice_begin(l, now + 1));
    if (now + 1 - first > ENTRIES_MAX)
        first = now + 1 - ENTRIES_MAX;
    for (uint64_t k = first; k <= now; k++) {
        uint64_t slot = k % count;
        bool kept = k <= latest && latest - k < count;
        put_entry((size_t)(k - first), slice_begin(l, k),
                  kept ? (uint32_t)(state[WEIR_SLICES_COUNTS + slot / 2] >> (slot % 2 * 32)) : 0);
    }
    return (size_t)(now + 1 - first);
}

static void view_window(const weir_layer *l, const uint64_t *state, int64_t at_ns)
{
    int64_t begin_ns = weir_window_start(l, state, at_ns);
    view.begin_ns = offset_of(begin_ns);
    view.end_ns = offset_of(l->window ? l->window(l->zone, l->calendar, l->anchor, begin_ns).end_ns
                                      : begin_ns + l->period_ns);
}

/* The current window, and what the window before it counted. */
static void view_counter(const weir_layer *l, const uint64_t *state, int64_t at_ns)
{
    int64_t begin_ns = weir_counter_start(l, state, at_ns), used, previous;
    weir_counter_counts(l, state, at_ns, &used, &previous);
    view.begin_ns = offset_of(begin_ns);
    view.end_ns = offset_of(begin_ns + l->period_ns);
    view.used = (double)used;
    view.previous = (double)previous;
}

/* The begin and the end of the last block, until it is forgotten. */
static void view_block(const weir_layer *l, const uint64_t *state)
{
    int64_t end_ns = (int64_t)state[0];
    if (view.retry_after_ns == 0)
        view.remaining = view.limit;
    view.used = view.limit - view.remaining;
    if (view.reset_after_ns <= 0)
        return;
    view.end_ns = offset_of(end_ns);
    view.begin_ns = offset_of(end_ns - (l->longest_ns > 0 ? (int64_t)state[1] : l->period_ns));
}

/* Fills the view buffer with the state of layer i at an offset, and charges nothing.
 *  offset_ns  as in weir_web_key_decide_at(). The base plus the offset is at most
 *             WEIR_NOW_NS_MAX.
 * Returns the number of entries. */
EXPORT(size_t, weir_web_key_view, const weir_web_key *k, uint32_t i, double offset_ns)
{
    const weir_layer *l = &k->policy->layer[i];
    uint64_t *state = k->state;
    int64_t now_ns = base_ns + (int64_t)offset_ns;
    weir_decision d, one;
    for (uint32_t before = 0; before < i; before++)
        state += weir_layer_words(&k->policy->layer[before], k->level);
    weir_layer_check(l, state, k->level, now_ns, 0, false, &d);
    view.retry_after_ns = 0;
    view.delay_ns = (double)d.delay_ns;
    if (!weir_layer_allows(l, state, k->level, now_ns, 1)) { /* a denial writes nothing */
        weir_layer_check(l, state, k->level, now_ns, 1, false, &one);
        view.retry_after_ns = one.never ? NEVER : (double)one.retry_after_ns;
        view.delay_ns = 0;
    }
    view.limit = (double)d.limit;
    view.remaining = (double)d.remaining;
    view.reset_after_ns = (double)d.reset_after_ns;
    view.used = (double)(d.limit - d.remaining);
    view.previous = view.begin_ns = view.end_ns = 0;
    int64_t at_ns = weir_layer_time(l, state, k->level, now_ns);
    switch (l->format) {
    case WEIR_STATE_TAT_NS:
    case WEIR_STATE_TAT_TICKS:
    case WEIR_STATE_TAT_STEPS:
        break;
    case WEIR_STATE_BLOCK:
    case WEIR_STATE_BLOCK_PAIR:
        view_block(l, state);
        break;
    case WEIR_STATE_WINDOW_WORD:
    case WEIR_STATE_WINDOW_PAIR:
        view_window(l, state, at_ns);
        break;
    case WEIR_STATE_COUNTER:
        view_counter(l, state, at_ns);
        break;
    case WEIR_STATE_LOG:
        return view_log(l, state, k->level, at_ns);
    case WEIR_STATE_LEASES:
        return view_leases(l, state, k->level, now_ns);
    case WEIR_STATE_SLICES:
        return view_slices(l, state, at_ns);
    }
    return 0;
}
