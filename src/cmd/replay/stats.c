/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* Counts requests and decisions. Since time never goes back, the numbers of the current second and
 * the like are computed only when a new one begins. */

#include "cmd/replay/stats.h"

#include "core/algorithm.h"
#include "port/assert.h"

#define SECOND_NS INT64_C(1000000000)
#define DAY_NS    (86400 * SECOND_NS)

static const int64_t periods_ns[REPLAY_PERIODS] = {SECOND_NS, 60 * SECOND_NS, 3600 * SECOND_NS};

static int64_t add_up(int64_t a, int64_t b)
{
    return a > INT64_MAX - b ? INT64_MAX : a + b;
}

/* ---- the log and its keys -------------------------------------------------------------------- */

weir_status replay_stats_open(replay_stats *ret)
{
    for (int i = 0; i < REPLAY_PERIODS; i++)
        ret->period_ns[i] = -periods_ns[i]; /* has ended */
    return replay_series_open(&ret->over_time, &ret->timeline) ? WEIR_OK : WEIR_E_NOMEM;
}

void replay_stats_close(replay_stats *s)
{
    replay_timeline_close(&s->timeline);
}

void replay_stats_request(replay_stats *s, int64_t now_ns, int64_t cost)
{
    WEIR_ASSERT(now_ns >= s->last_ns && cost >= 0);
    s->requests++;
    s->cost = add_up(s->cost, cost);
    s->last_ns = now_ns;
    if (now_ns >= s->period_ns[REPLAY_SECOND] + SECOND_NS) {
        for (int i = 0; i < REPLAY_PERIODS; i++)
            s->period_ns[i] = now_ns - now_ns % periods_ns[i];
    }
    replay_timeline_move(&s->timeline, now_ns);
    replay_series_add(&s->over_time, &s->timeline);
}

void replay_stats_key(replay_stats *s, replay_key *key, int64_t cost)
{
    bool first = key->requests++ == 0;
    for (int i = 0; i < REPLAY_PERIODS; i++) {
        bool same = !first && key->last_ns >= s->period_ns[i];
        key->units[i] = same ? add_up(key->units[i], cost) : cost;
        key->peak[i] = key->units[i] > key->peak[i] ? key->units[i] : key->peak[i];
    }
    key->last_ns = s->last_ns;
    replay_series_add(&key->over_time, &s->timeline);
}

/* ---- the window of a policy ------------------------------------------------------------------ */

/* The length of a layer's window. Months and years have their shortest length, and a day that a
 * clock change lengthens or shortens has 24 hours. */
static int64_t window_ns(const weir_layer *layer)
{
    switch (layer->calendar) {
    case WEIR_DAY:
        return DAY_NS;
    case WEIR_WEEK:
        return 7 * DAY_NS;
    case WEIR_MONTH:
        return 28 * DAY_NS;
    case WEIR_YEAR:
        return 365 * DAY_NS;
    case WEIR_ALIGNED:
    case WEIR_FROM_FIRST:
        break;
    }
    return layer->period_ns;
}

weir_status replay_counts_open(replay_counts *ret, replay_stats *s, const weir_policy *policy)
{
    uint32_t longest = 0;
    for (uint32_t i = 1; i < policy->layers; i++) {
        if (!weir_layer_is_block(&policy->layer[i]) &&
            window_ns(&policy->layer[i]) > window_ns(&policy->layer[longest]))
            longest = i;
    }
    ret->layer = longest;
    ret->window_ns = window_ns(&policy->layer[longest]);
    ret->limit = policy->layer[longest].rate;
    ret->slices = ret->window_ns < REPLAY_SLICES ? ret->window_ns : REPLAY_SLICES;
    ret->slice_ns = ret->window_ns / ret->slices;
    WEIR_ASSERT(ret->slice_ns > 0);
    return replay_series_open(&ret->over_time, &s->timeline) ? WEIR_OK : WEIR_E_NOMEM;
}

static bool same_window(const replay_counts *c, const weir_policy *policy)
{
    const weir_layer *layer = &policy->layer[c->layer];
    return policy->layers > c->layer && window_ns(layer) == c->window_ns && layer->rate == c->limit;
}

static void count_admitted(replay_counts *c, int64_t now_ns, const replay_key *key,
                           replay_tally *tally, int64_t cost)
{
    if (now_ns >= c->end_ns) {
        c->slice = now_ns / c->slice_ns;
        c->end_ns = (c->slice + 1) * c->slice_ns;
    }
    int64_t gone = c->slice - tally->slice;
    WEIR_ASSERT(gone >= 0);
    for (int64_t i = 0; i < gone && i < REPLAY_SLICES; i++)
        tally->admitted[(c->slice - i) % REPLAY_SLICES] = 0;
    tally->slice = c->slice;
    tally->admitted[c->slice % REPLAY_SLICES] += (uint64_t)cost;
    uint64_t units = 0;
    for (int64_t i = 0; i < c->slices && i <= c->slice; i++)
        units += tally->admitted[(c->slice - i) % REPLAY_SLICES];
    if (units > c->peak.units)
        c->peak = (replay_peak){units, now_ns, key};
}

/* ---- decisions ------------------------------------------------------------------------------- */

static void end_lockout(replay_denials *d)
{
    if (d->until_ns - d->since_ns > d->lockout_ns) {
        d->lockout_ns = d->until_ns - d->since_ns;
        d->lockout_from_ns = d->since_ns;
    }
    d->since_ns = -1;
}

void replay_lockout(const replay_denials *d, int64_t *ret_ns, int64_t *ret_from_ns)
{
    replay_denials copy = *d;
    if (copy.since_ns >= 0)
        end_lockout(&copy);
    *ret_ns = copy.lockout_ns;
    *ret_from_ns = copy.lockout_from_ns;
}

/* Begins a lock-out, or goes on with it. */
static void lock_out(replay_denials *d, int64_t now_ns, int64_t until_ns)
{
    bool begins = d->since_ns < 0;
    if (begins)
        d->since_ns = now_ns;
    if (d->lockout_from_ns < 0)
        d->lockout_from_ns = now_ns;
    if (begins || until_ns > d->until_ns)
        d->until_ns = until_ns;
}

static void count_denied(replay_denials *d, replay_stats *s, const replay_outcome *outcome)
{
    int64_t now_ns = s->last_ns;
    if (d->count++ == 0) {
        d->first_ns = now_ns;
        d->since_ns = d->lockout_from_ns = -1;
    }
    d->last_ns = now_ns;
    if (outcome->policy)
        lock_out(d, now_ns, add_up(now_ns, outcome->wait_ns));
    replay_series_add(&d->over_time, &s->timeline);
}

void replay_counts_add(replay_counts *c, replay_stats *s, const replay_key *key,
                       replay_tally *tally, const replay_outcome *outcome)
{
    c->newly_denied += outcome->denied && !outcome->baseline;
    c->newly_allowed += !outcome->denied && outcome->baseline;
    if (outcome->denied) {
        count_denied(tally->denials, s, outcome);
        replay_series_add(&c->over_time, &s->timeline);
        return;
    }
    if (tally->denials && tally->denials->since_ns >= 0)
        end_lockout(tally->denials);
    if (outcome->policy && same_window(c, outcome->policy))
        count_admitted(c, s->last_ns, key, tally, outcome->cost);
}
