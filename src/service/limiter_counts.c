/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* What a limiter counts: the sums over its services, and the figures of its store. */

#include "service/limiter.h"

#include "service/service_internal.h"
#include "store/iterate.h"

#include <string.h>

weir_counts weir_counts_of(weir_limiter *l, size_t name)
{
    uint64_t sum[COUNTS];
    for (int k = 0; k < COUNTS; k++) {
        sum[k] = port_load_relaxed(&l->closed->of[name].count[k]);
        for (weir_service *s = l->services; s; s = s->next)
            sum[k] += port_load_relaxed(&s->counters->of[name].count[k]);
    }
    return (weir_counts){
        .allowed = sum[COUNT_ALLOWED],
        .denied = sum[COUNT_DENIED],
        .shadowed = sum[COUNT_SHADOWED],
        .allow_listed = sum[COUNT_ALLOW_LISTED],
        .deny_listed = sum[COUNT_DENY_LISTED],
        .failed = sum[COUNT_FAILED],
        .unreached = sum[COUNT_UNREACHED],
    };
}

void weir_limiter_counts(weir_limiter *l,
                         void (*fn)(void *ctx, const char *name, const weir_counts *counts),
                         void *ctx)
{
    port_mutex_lock(l->lock);
    for (size_t i = 0; i < l->names; i++) {
        /* The names of rules come first, then the names for requests without a rule. */
        size_t name = i + NAMES_FIRST < l->names ? i + NAMES_FIRST : l->names - 1 - i;
        weir_counts counts = weir_counts_of(l, name);
        fn(ctx, l->name[name], &counts);
    }
    port_mutex_unlock(l->lock);
}

void weir_limiter_candidates(weir_limiter *l,
                             void (*fn)(void *ctx, const char *name, size_t index,
                                        const weir_candidate_counts *counts),
                             void *ctx)
{
    port_mutex_lock(l->lock);
    for (size_t i = NAMES_FIRST; i < l->names && l->had_candidates; i++) {
        uint64_t n[CANDIDATE_COUNTS], any = 0;
        for (int k = 0; k < CANDIDATE_COUNTS; k++) {
            n[k] = port_load_relaxed(&l->closed->candidate[i][k]);
            for (weir_service *s = l->services; s; s = s->next)
                n[k] += port_load_relaxed(&s->counters->candidate[i][k]);
            any += n[k];
        }
        const weir_rule *rule = weir_rules_find(l->rules, l->name[i], strlen(l->name[i]));
        if (any == 0 && !(rule && rule->candidate.text))
            continue;
        const weir_candidate_counts counts = {
            .both_allow = n[CANDIDATE_BOTH_ALLOW],
            .both_deny = n[CANDIDATE_BOTH_DENY],
            .only_current_denies = n[CANDIDATE_ONLY_CURRENT_DENIES],
            .only_candidate_denies = n[CANDIDATE_ONLY_CANDIDATE_DENIES],
            .overridden = n[CANDIDATE_OVERRIDDEN],
        };
        fn(ctx, l->name[i], i, &counts);
    }
    port_mutex_unlock(l->lock);
}

static void add_latency(weir_latency *to, weir_counter_table *from)
{
    for (int i = 0; i < WEIR_LATENCY_BUCKETS; i++)
        to->count[i] += port_load_relaxed(&from->latency[i]);
    to->sum_ns += port_load_relaxed(&from->latency_sum_ns);
}

weir_latency weir_limiter_latency(weir_limiter *l)
{
    weir_latency sum = {0};
    port_mutex_lock(l->lock);
    add_latency(&sum, l->closed);
    for (weir_service *s = l->services; s; s = s->next)
        add_latency(&sum, s->counters);
    port_mutex_unlock(l->lock);
    return sum;
}

void weir_counters_add(weir_counter_table *to, weir_counter_table *from, size_t names)
{
    for (size_t i = 0; i < names; i++) {
        for (int k = 0; k < COUNTS; k++)
            port_add_relaxed(&to->of[i].count[k], port_load_relaxed(&from->of[i].count[k]));
    }
    for (size_t i = 0; i < names; i++) {
        for (int k = 0; k < CANDIDATE_COUNTS; k++)
            port_add_relaxed(&to->candidate[i][k], port_load_relaxed(&from->candidate[i][k]));
    }
    for (int i = 0; i < WEIR_LATENCY_BUCKETS; i++)
        port_add_relaxed(&to->latency[i], port_load_relaxed(&from->latency[i]));
    port_add_relaxed(&to->latency_sum_ns, port_load_relaxed(&from->latency_sum_ns));
}

/* ---- the store ------------------------------------------------------------------------------- */

weir_store_stats weir_limiter_store_stats(weir_limiter *l)
{
    return weir_store_stats_get(l->store);
}

size_t weir_limiter_partitions(weir_limiter *l, weir_partition_stats *ret, size_t max)
{
    return weir_store_partitions(l->store, ret, max);
}

int64_t weir_limiter_now(weir_limiter *l)
{
    return weir_store_now(l->store);
}

weir_clock_view weir_limiter_clock(weir_limiter *l)
{
    return weir_store_clock(l->store);
}
