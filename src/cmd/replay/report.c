/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* Computes the report from what was counted. */

#include "cmd/replay/report.h"

#include "port/assert.h"
#include "port/port.h"

#include <stdlib.h>
#include <string.h>

static weir_slice text_of(const replay_key *key)
{
    return (weir_slice){accesslog_key_text(&key->base), key->base.len};
}

static int slice_order(weir_slice a, weir_slice b)
{
    int order = memcmp(a.at, b.at, a.len < b.len ? a.len : b.len);
    return order != 0 ? order : (a.len > b.len) - (a.len < b.len);
}

/* ---- peak rates ------------------------------------------------------------------------------ */

static int number_order(const void *left, const void *right)
{
    int64_t a = *(const int64_t *)left, b = *(const int64_t *)right;
    return (a > b) - (a < b);
}

/* The smallest of the sorted numbers that at least `percent` of them do not exceed. */
static int64_t nearest_rank(const int64_t *sorted, size_t len, size_t percent)
{
    WEIR_ASSERT(len > 0 && percent > 0 && percent <= 100);
    return sorted[(len * percent + 99) / 100 - 1];
}

static weir_status fill_peaks(replay_report *r, const accesslog_key_table *keys)
{
    size_t len = (size_t)accesslog_key_table_count(keys);
    int64_t *peaks = port_zalloc(len + 1, sizeof *peaks);
    if (!peaks)
        return WEIR_E_NOMEM;
    for (int period = 0; period < REPLAY_PERIODS && len > 0; period++) {
        size_t i = 0;
        for (const replay_key *k = replay_key_first(keys); k; k = replay_key_next(k))
            peaks[i++] = k->peak[period];
        qsort(peaks, len, sizeof *peaks, number_order);
        r->peaks[period] =
            (replay_percentiles){nearest_rank(peaks, len, 50), nearest_rank(peaks, len, 90),
                                 nearest_rank(peaks, len, 99), peaks[len - 1]};
    }
    port_free(peaks);
    return WEIR_OK;
}

/* ---- the worst keys -------------------------------------------------------------------------- */

static int worst_order(const void *left, const void *right)
{
    const replay_worst *a = left, *b = right;
    if (a->denials->count != b->denials->count)
        return a->denials->count > b->denials->count ? -1 : 1;
    if (a->key->requests != b->key->requests)
        return a->key->requests > b->key->requests ? -1 : 1;
    return slice_order(a->text, b->text);
}

static weir_status fill_worst(replay_policy_report *ret, const accesslog_key_table *keys,
                              size_t index, size_t top)
{
    size_t len = 0;
    replay_worst *worst = port_zalloc((size_t)ret->keys_denied + 1, sizeof *worst);
    if (!worst)
        return WEIR_E_NOMEM;
    for (const replay_key *k = replay_key_first(keys); k; k = replay_key_next(k)) {
        WEIR_ASSERT(!k->policy[index].denials || len < ret->keys_denied);
        if (k->policy[index].denials)
            worst[len++] = (replay_worst){text_of(k), k, k->policy[index].denials};
    }
    qsort(worst, len, sizeof *worst, worst_order);
    ret->worst = worst;
    ret->worst_len = len < top ? len : top;
    return WEIR_OK;
}

/* ---- a policy -------------------------------------------------------------------------------- */

static void see_lockout(replay_lockouts *longest, weir_slice key, const replay_denials *d)
{
    int64_t ns, from_ns;
    replay_lockout(d, &ns, &from_ns);
    if (from_ns < 0)
        return;
    bool first = !longest->key.at || ns > longest->longest_ns ||
                 (ns == longest->longest_ns && from_ns < longest->from_ns) ||
                 (ns == longest->longest_ns && from_ns == longest->from_ns &&
                  slice_order(key, longest->key) < 0);
    if (first)
        *longest = (replay_lockouts){ns, from_ns, key};
}

static weir_status fill_policy(replay_policy_report *ret, const replay_policies *p, size_t i,
                               size_t top)
{
    const replay_policy *which = &p->policy[i];
    const accesslog_key_table *keys = p->keys[which->group];
    *ret = (replay_policy_report){.policy = which,
                                  .allowed = p->stats.requests - which->counts.denied,
                                  .keys = accesslog_key_table_count(keys)};
    for (const replay_key *k = replay_key_first(keys); k; k = replay_key_next(k)) {
        const replay_denials *d = k->policy[which->index].denials;
        ret->keys_newly_denied += d && !k->baseline_denied;
        ret->keys_no_longer_denied += !d && k->baseline_denied;
        ret->keys_denied += d != NULL;
        if (d)
            see_lockout(&ret->lockout, text_of(k), d);
    }
    if (which->counts.peak.units > 0)
        ret->peak_key = text_of(which->counts.peak.key);
    replay_series_read(&which->counts.over_time, &p->stats.timeline, ret->denied_over_time);
    return fill_worst(ret, keys, which->index, top);
}

weir_status replay_report_fill(replay_report *ret, const replay_policies *p, size_t top)
{
    const accesslog_key_table *keys = p->keys[p->policy[0].group];
    ret->stats = &p->stats;
    ret->keys = accesslog_key_table_count(keys);
    replay_series_read(&p->stats.over_time, &p->stats.timeline, ret->requests_over_time);
    weir_status st = fill_peaks(ret, keys);
    for (size_t i = 0; i < p->len && st == WEIR_OK; i++) {
        st = fill_policy(&ret->policy[i], p, i, top);
        ret->policies++;
    }
    return st;
}

void replay_report_free(replay_report *r)
{
    for (size_t i = 0; i < r->policies; i++)
        port_free(r->policy[i].worst);
}
