/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* The limiter: which rules are in force, and what all threads together have counted. Nothing here is on
 * the way of a decision. */

#include "service/service_internal.h"

#include "service/pending.h"
#include "store/iterate.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

/* ---- open and close -------------------------------------------------------------------------- */

weir_status weir_limiter_open(weir_limiter **ret, weir_store *store, const weir_zones *zones)
{
    static const char throttle_format[] = "gcra 1/ns"; /* any policy with an 8-byte TAT */
    weir_limiter *h = port_zalloc(1, sizeof *h);
    if (!h)
        return WEIR_E_NOMEM;
    h->store = store;
    h->zones = *zones;
    weir_limiter_on_change(h, NULL, NULL);
    h->lock = port_mutex_new();
    h->closed = port_zalloc(1, sizeof *h->closed);
    h->rules = weir_rules_with(NULL, "", 0, NULL);
    port_add_relaxed(&h->generation, 1);
    weir_status st = weir_policy_parse(&h->throttle_policy, throttle_format,
                                       strlen(throttle_format), NULL, NULL);
    if (!h->lock || !h->closed || !h->rules)
        st = WEIR_E_NOMEM;
    if (st != WEIR_OK) {
        weir_limiter_close(h);
        return st;
    }
    /* Not the id of that policy itself, whose keys are others. */
    h->throttle_id = ~weir_store_policy_id(store, &h->throttle_policy);
    snprintf(h->name[NAME_TEXTS], sizeof h->name[0], "%s", WEIR_COUNTS_TEXTS);
    snprintf(h->name[NAME_THROTTLE], sizeof h->name[0], "%s", WEIR_COUNTS_THROTTLE);
    snprintf(h->name[NAME_OTHERS], sizeof h->name[0], "%s", WEIR_COUNTS_OTHERS);
    h->names = NAMES_FIRST;
    *ret = h;
    return WEIR_OK;
}

void weir_limiter_close(weir_limiter *h)
{
    if (!h)
        return;
    weir_rules_drop(h->rules);
    port_free(h->closed);
    port_mutex_free(h->lock);
    port_free(h);
}

weir_status weir_service_open(weir_service **ret, weir_limiter *h)
{
    weir_service *s = port_zalloc(1, sizeof *s);
    if (!s)
        return WEIR_E_NOMEM;
    s->limiter = h;
    s->texts = weir_policy_cache_open(h->store, &h->zones);
    s->tallies = port_zalloc(1, sizeof *s->tallies);
    s->weigher = h->scales.keys > 0 ? weir_top_tracker_open(&h->scales, NAMES_MAX) : NULL;
    if (!s->texts || !s->tallies || (h->scales.keys > 0 && !s->weigher)) {
        weir_top_tracker_close(s->weigher);
        weir_policy_cache_close(s->texts);
        port_free(s->tallies);
        port_free(s);
        return WEIR_E_NOMEM;
    }
    port_mutex_lock(h->lock);
    s->next = h->services;
    h->services = s;
    port_mutex_unlock(h->lock);
    weir_service_refresh(s);
    *ret = s;
    return WEIR_OK;
}

static void add_tallies(weir_counter_table *to, weir_counter_table *from, size_t names)
{
    for (size_t i = 0; i < names; i++) {
        for (int k = 0; k < COUNTS; k++)
            port_add_relaxed(&to->of[i].count[k], port_load_relaxed(&from->of[i].count[k]));
    }
    for (int i = 0; i < WEIR_LATENCY_BUCKETS; i++)
        port_add_relaxed(&to->latency[i], port_load_relaxed(&from->latency[i]));
    port_add_relaxed(&to->latency_sum_ns, port_load_relaxed(&from->latency_sum_ns));
}

void weir_service_close(weir_service *s)
{
    if (!s)
        return;
    weir_limiter *h = s->limiter;
    weir_pending_close(s);
    port_mutex_lock(h->lock);
    weir_service **link = &h->services;
    while (*link != s)
        link = &(*link)->next;
    *link = s->next;
    add_tallies(h->closed, s->tallies, h->names);
    weir_rules_drop(s->rules);
    port_mutex_unlock(h->lock);
    weir_top_tracker_close(s->weigher);
    weir_policy_cache_close(s->texts);
    port_free(s->tallies);
    port_free(s);
}

weir_limiter *weir_service_limiter(weir_service *s)
{
    return s->limiter;
}

/* ---- rules ----------------------------------------------------------------------------------- */

void weir_service_refresh(weir_service *s)
{
    weir_limiter *h = s->limiter;
    if (__builtin_expect(s->waiting.spent != NULL, 0))
        weir_pending_collect(s);
    weir_policy_cache_collect(s->texts);
    if (port_load_relaxed(&h->generation) == s->generation)
        return;
    port_mutex_lock(h->lock);
    weir_pending_keep_rules(s);
    weir_rules_drop(s->rules);
    s->rules = h->rules;
    s->rules->refs++;
    s->engine_of_texts = h->engine;
    s->remote = s->rules->remote || h->engine != WEIR_ENGINE_LOCAL || s->waiting.first;
    s->generation = port_load_relaxed(&h->generation);
    port_mutex_unlock(h->lock);
}

/* Where the counters of a name are, now and for ever. Under the lock. */
static uint32_t name_place(weir_limiter *h, const char *name)
{
    for (size_t i = NAMES_FIRST; i < h->names; i++) {
        if (strcmp(h->name[i], name) == 0)
            return (uint32_t)i;
    }
    if (h->names == NAMES_MAX)
        return NAME_OTHERS;
    snprintf(h->name[h->names], sizeof h->name[0], "%s", name);
    return (uint32_t)h->names++;
}

/* Under the lock. */
static void put_in_force(weir_limiter *h, weir_rules *rules)
{
    for (size_t i = 0; i < rules->len; i++) {
        /* A rule that is in force already has its place, and is being read. */
        if (rules->rule[i]->counts == 0)
            rules->rule[i]->counts = name_place(h, rules->rule[i]->name);
    }
    weir_rules_drop(h->rules);
    h->rules = rules;
    port_add_relaxed(&h->generation, 1);
}

void weir_limiter_set_default_engine(weir_limiter *h, weir_engine_kind kind)
{
    port_mutex_lock(h->lock);
    h->engine = kind;
    port_add_relaxed(&h->generation, 1);
    port_mutex_unlock(h->lock);
}

weir_engine_kind weir_limiter_default_engine(weir_limiter *h)
{
    port_mutex_lock(h->lock);
    weir_engine_kind kind = h->engine;
    port_mutex_unlock(h->lock);
    return kind;
}

void weir_service_set_engine(weir_service *s, weir_engine_kind kind, weir_engine *engine)
{
    assert(kind != WEIR_ENGINE_LOCAL && kind < WEIR_ENGINES);
    s->engine[kind] = engine;
}

void weir_limiter_set_rules(weir_limiter *h, weir_rules *rules)
{
    port_mutex_lock(h->lock);
    put_in_force(h, rules);
    port_mutex_unlock(h->lock);
}

weir_status weir_limiter_set_limit(weir_limiter *h, const char *name, const char *limit,
                                   weir_rule_error *ret_error)
{
    weir_rule *rule;
    weir_rule_spec spec = WEIR_RULE_SPEC_DEFAULT;
    spec.name = name;
    spec.limit = limit;
    port_mutex_lock(h->lock);
    spec.engine = h->engine;
    port_mutex_unlock(h->lock);
    weir_status st = weir_rule_new(&rule, h->store, &h->zones, &spec, ret_error);
    if (st != WEIR_OK)
        return st;
    port_mutex_lock(h->lock);
    const weir_rule *old = weir_rules_find(h->rules, rule->name, rule->name_len);
    weir_rules *rules = NULL;
    if (old)
        weir_rule_share_options(rule, old);
    if (old || h->rules->len < WEIR_RULES_MAX)
        rules = weir_rules_with(h->rules, rule->name, rule->name_len, rule);
    else
        st = WEIR_E_FULL;
    if (rules)
        put_in_force(h, rules);
    else if (st == WEIR_OK)
        st = WEIR_E_NOMEM;
    if (st != WEIR_OK)
        weir_rule_drop(rule);
    port_mutex_unlock(h->lock);
    if (st == WEIR_OK)
        h->changed(h->changed_ctx, name, limit);
    return st;
}

weir_status weir_limiter_drop_rule(weir_limiter *h, const char *name, size_t len)
{
    weir_status st = WEIR_OK;
    char text[WEIR_RULE_NAME_MAX + 1];
    port_mutex_lock(h->lock);
    const weir_rule *rule = weir_rules_find(h->rules, name, len);
    if (!rule) {
        st = WEIR_E_ABSENT;
    } else {
        snprintf(text, sizeof text, "%s", rule->name);
        weir_rules *rules = weir_rules_with(h->rules, name, len, NULL);
        if (rules)
            put_in_force(h, rules);
        else
            st = WEIR_E_NOMEM;
    }
    port_mutex_unlock(h->lock);
    if (st == WEIR_OK)
        h->changed(h->changed_ctx, text, NULL);
    return st;
}

static void nothing(void *ctx, const char *name, const char *limit)
{
    (void)ctx;
    (void)name;
    (void)limit;
}

void weir_limiter_on_change(weir_limiter *h, weir_limiter_changed fn, void *ctx)
{
    h->changed = fn ? fn : nothing;
    h->changed_ctx = ctx;
}

/* ---- sums ------------------------------------------------------------------------------------ */

static weir_counts counts_of(weir_limiter *h, size_t name)
{
    uint64_t sum[COUNTS];
    for (int k = 0; k < COUNTS; k++) {
        sum[k] = port_load_relaxed(&h->closed->of[name].count[k]);
        for (weir_service *s = h->services; s; s = s->next)
            sum[k] += port_load_relaxed(&s->tallies->of[name].count[k]);
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

void weir_limiter_counts(weir_limiter *h,
                         void (*fn)(void *ctx, const char *name, const weir_counts *counts),
                         void *ctx)
{
    port_mutex_lock(h->lock);
    for (size_t i = 0; i < h->names; i++) {
        /* Those of rules first, and then the ones that are there from the start. */
        size_t name = i + NAMES_FIRST < h->names ? i + NAMES_FIRST : h->names - 1 - i;
        weir_counts counts = counts_of(h, name);
        fn(ctx, h->name[name], &counts);
    }
    port_mutex_unlock(h->lock);
}

bool weir_service_has_decided(const weir_service *s)
{
    return s->decided > 0;
}

void weir_service_latency(weir_service *s, int64_t elapsed_ns)
{
    uint64_t n = s->decided;
    s->decided = 0;
    weir_service_took(s, n, elapsed_ns);
}

void weir_service_took(weir_service *s, uint64_t n, int64_t elapsed_ns)
{
    uint64_t ns = elapsed_ns > 0 ? (uint64_t)elapsed_ns : 0;
    int bucket = 0;
    while (bucket < WEIR_LATENCY_BUCKETS - 1 && ns > (uint64_t)128 << bucket)
        bucket++;
    port_bump_relaxed(&s->tallies->latency[bucket], n);
    port_bump_relaxed(&s->tallies->latency_sum_ns, ns * n);
}

static void add_latency(weir_latency *to, weir_counter_table *from)
{
    for (int i = 0; i < WEIR_LATENCY_BUCKETS; i++)
        to->count[i] += port_load_relaxed(&from->latency[i]);
    to->sum_ns += port_load_relaxed(&from->latency_sum_ns);
}

weir_latency weir_limiter_latency(weir_limiter *h)
{
    weir_latency sum = {0};
    port_mutex_lock(h->lock);
    add_latency(&sum, h->closed);
    for (weir_service *s = h->services; s; s = s->next)
        add_latency(&sum, s->tallies);
    port_mutex_unlock(h->lock);
    return sum;
}

weir_store_stats weir_limiter_store_stats(weir_limiter *h)
{
    return weir_store_stats_get(h->store);
}

int64_t weir_limiter_now(weir_limiter *h)
{
    return weir_store_now(h->store);
}

weir_clock_view weir_limiter_clock(weir_limiter *h)
{
    return weir_store_clock(h->store);
}
