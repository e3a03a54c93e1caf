/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* The limiter: activates rules, opens and closes services, and sums up their counters. On the path
 * of a decision, only weir_service_refresh() runs. */

#include "service/service_internal.h"

#include "service/pending.h"
#include "store/iterate.h"
#include "store/siphash.h"

#include <stdio.h>
#include <string.h>

/* ---- open and close -------------------------------------------------------------------------- */

static const weir_zone *no_zone(void *ctx, const char *name, size_t len)
{
    (void)ctx;
    (void)name;
    (void)len;
    return NULL;
}

weir_status weir_limiter_open(weir_limiter **ret, weir_store *store, const weir_zones *zones)
{
    weir_limiter *l = port_zalloc(1, sizeof *l);
    if (!l)
        return WEIR_E_NOMEM;
    l->store = store;
    l->zones = zones ? *zones : (weir_zones){no_zone, NULL};
    l->lock = port_mutex_new();
    l->closed = port_zalloc(1, sizeof *l->closed);
    l->rules = weir_rules_with(NULL, "", 0, NULL);
    port_add_relaxed(&l->generation, 1);
    weir_status st = weir_throttle_states(store, &l->throttle_policy, &l->throttle_id);
    if (!l->lock || !l->closed || !l->rules)
        st = WEIR_E_NOMEM;
    if (st != WEIR_OK) {
        weir_limiter_close(l);
        return st;
    }
    snprintf(l->name[NAME_TEXTS], sizeof l->name[0], "%s", WEIR_COUNTS_TEXTS);
    snprintf(l->name[NAME_THROTTLE], sizeof l->name[0], "%s", WEIR_COUNTS_THROTTLE);
    snprintf(l->name[NAME_OTHERS], sizeof l->name[0], "%s", WEIR_COUNTS_OTHERS);
    l->names = NAMES_FIRST;
    *ret = l;
    return WEIR_OK;
}

void weir_limiter_close(weir_limiter *l)
{
    if (!l)
        return;
    WEIR_ASSERT(!l->services);
    weir_rules_drop(l->rules);
    port_free(l->closed);
    port_mutex_free(l->lock);
    port_free(l);
}

weir_status weir_service_open(weir_service **ret, weir_limiter *l)
{
    weir_service *s = port_zalloc(1, sizeof *s);
    if (!s)
        return WEIR_E_NOMEM;
    s->limiter = l;
    s->policies = weir_policy_cache_open(l->store, &l->zones);
    s->counters = port_zalloc(1, sizeof *s->counters);
    s->tracker = l->top.keys > 0 ? weir_top_tracker_open(&l->top, NAMES_MAX) : NULL;
    if (!s->policies || !s->counters || (l->top.keys > 0 && !s->tracker)) {
        weir_top_tracker_close(s->tracker);
        weir_policy_cache_close(s->policies);
        port_free(s->counters);
        port_free(s);
        return WEIR_E_NOMEM;
    }
    port_mutex_lock(l->lock);
    s->next = l->services;
    l->services = s;
    port_mutex_unlock(l->lock);
    weir_service_refresh(s);
    *ret = s;
    return WEIR_OK;
}

/* Adds the counters of a service that closes. */
static void add_counters(weir_counter_table *to, weir_counter_table *from, size_t names)
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

void weir_service_close(weir_service *s)
{
    if (!s)
        return;
    weir_limiter *l = s->limiter;
    weir_pending_close(s);
    port_mutex_lock(l->lock);
    weir_service **link = &l->services;
    while (*link != s) {
        WEIR_ASSERT(*link);
        link = &(*link)->next;
    }
    *link = s->next;
    add_counters(l->closed, s->counters, l->names);
    weir_rules_drop(s->rules);
    port_mutex_unlock(l->lock);
    weir_top_tracker_close(s->tracker);
    weir_policy_cache_close(s->policies);
    port_free(s->counters);
    port_free(s);
}

weir_limiter *weir_service_limiter(weir_service *s)
{
    return s->limiter;
}

/* ---- rules ----------------------------------------------------------------------------------- */

void weir_service_refresh(weir_service *s)
{
    weir_limiter *l = s->limiter;
    if (__builtin_expect(s->pending.finished != NULL, 0))
        weir_pending_collect(s);
    weir_policy_cache_collect(s->policies);
    if (port_load_relaxed(&l->generation) == s->generation || s->pinned)
        return;
    port_mutex_lock(l->lock);
    weir_pending_keep_rules(s);
    weir_rules_drop(s->rules);
    s->rules = l->rules;
    s->rules->refs++;
    s->default_engine = l->engine;
    s->dispatches = s->rules->remote || s->rules->candidates || l->engine != WEIR_ENGINE_LOCAL ||
                    s->pending.first;
    s->generation = port_load_relaxed(&l->generation);
    port_mutex_unlock(l->lock);
}

void weir_service_pin(weir_service *s)
{
    s->pinned = false;
    weir_service_refresh(s);
    s->pinned = true;
}

void weir_service_unpin(weir_service *s)
{
    s->pinned = false;
}

enum { SLOTS = sizeof((weir_limiter *)NULL)->slots / sizeof(uint16_t) };
_Static_assert(NAMES_MAX <= UINT16_MAX, "a slot holds the index of a name");

/* Returns the index of a name's counters, which stays the same for ever. Under the lock. */
static uint32_t index_of_name(weir_limiter *l, const char *name)
{
    size_t at = weir_siphash((weir_secret){0}, name, strlen(name)) % SLOTS;
    for (; l->slots[at] != 0; at = (at + 1) % SLOTS) {
        if (strcmp(l->name[l->slots[at]], name) == 0)
            return l->slots[at];
    }
    WEIR_ASSERT(l->names >= NAMES_FIRST && l->names <= NAMES_MAX);
    if (l->names == NAMES_MAX)
        return NAME_OTHERS;
    snprintf(l->name[l->names], sizeof l->name[0], "%s", name);
    l->slots[at] = (uint16_t)l->names;
    return (uint32_t)l->names++;
}

/* The caller holds the lock. */
static void activate(weir_limiter *l, weir_rules *rules)
{
    for (size_t i = 0; i < rules->len; i++) {
        /* Do not write to an active rule: other threads read it, and it has its index. */
        if (rules->rule[i]->counts == 0)
            rules->rule[i]->counts = index_of_name(l, rules->rule[i]->name);
        WEIR_ASSERT(rules->rule[i]->counts < l->names);
    }
    weir_rules_drop(l->rules);
    l->rules = rules;
    l->had_candidates |= rules->candidates;
    port_add_relaxed(&l->generation, 1);
}

weir_engine_kind weir_limiter_default_engine(weir_limiter *l)
{
    port_mutex_lock(l->lock);
    weir_engine_kind kind = l->engine;
    port_mutex_unlock(l->lock);
    return kind;
}

void weir_service_set_engine(weir_service *s, weir_engine_kind kind, weir_engine *engine)
{
    WEIR_ASSERT(kind != WEIR_ENGINE_LOCAL && kind < WEIR_ENGINES);
    s->engine[kind] = engine;
}

void weir_limiter_set_rules(weir_limiter *l, weir_rules *rules)
{
    port_mutex_lock(l->lock);
    activate(l, rules);
    port_mutex_unlock(l->lock);
}

void weir_limiter_configure(weir_limiter *l, weir_rules *rules, weir_engine_kind engine)
{
    port_mutex_lock(l->lock);
    l->engine = engine;
    activate(l, rules);
    port_mutex_unlock(l->lock);
}

/* Reports a change that has succeeded. Returns st. */
static weir_status notify(weir_limiter *l, weir_status st, const weir_rule_change *change)
{
    if (st == WEIR_OK && l->changed)
        l->changed(l->changed_ctx, change);
    return st;
}

weir_status weir_limiter_set_limit(weir_limiter *l, const char *name, const char *limit,
                                   weir_rule_error *ret_error)
{
    weir_rule *rule;
    weir_rule_spec spec = WEIR_RULE_SPEC_DEFAULT;
    spec.name = name;
    spec.limit = limit;
    port_mutex_lock(l->lock);
    spec.engine = l->engine;
    port_mutex_unlock(l->lock);
    weir_status st = weir_rule_new(&rule, l->store, &l->zones, &spec, ret_error);
    if (st != WEIR_OK)
        return st;
    port_mutex_lock(l->lock);
    const weir_rule *old = weir_rules_find(l->rules, rule->name, rule->name_len);
    weir_rules *rules = NULL;
    if (old)
        st = weir_rule_share_options(rule, old);
    else if (l->rules->len == WEIR_RULES_MAX)
        st = WEIR_E_FULL;
    if (st == WEIR_OK)
        rules = weir_rules_with(l->rules, rule->name, rule->name_len, rule);
    if (rules)
        activate(l, rules);
    else if (st == WEIR_OK)
        st = WEIR_E_NOMEM;
    if (st != WEIR_OK)
        weir_rule_drop(rule);
    port_mutex_unlock(l->lock);
    const weir_rule_change change = {.kind = WEIR_RULE_LIMIT, .name = name, .text = limit};
    return notify(l, st, &change);
}

weir_status weir_limiter_drop_rule(weir_limiter *l, const char *name, size_t len)
{
    weir_status st = WEIR_OK;
    char text[WEIR_RULE_NAME_MAX + 1];
    port_mutex_lock(l->lock);
    const weir_rule *rule = weir_rules_find(l->rules, name, len);
    if (!rule) {
        st = WEIR_E_ABSENT;
    } else {
        snprintf(text, sizeof text, "%s", rule->name);
        weir_rules *rules = weir_rules_with(l->rules, name, len, NULL);
        if (rules)
            activate(l, rules);
        else
            st = WEIR_E_NOMEM;
    }
    port_mutex_unlock(l->lock);
    const weir_rule_change change = {.kind = WEIR_RULE_DROPPED, .name = text};
    return notify(l, st, &change);
}

/* Copies the active rule with a name, to be changed and activated. Under the lock. */
static weir_status begin_change(weir_limiter *l, const char *name, size_t len, weir_rule **ret)
{
    const weir_rule *rule = weir_rules_find(l->rules, name, len);
    return rule ? weir_rule_copy(ret, rule) : WEIR_E_ABSENT;
}

/* Activates a changed copy, or drops it on failure. Under the lock. */
static weir_status end_change(weir_limiter *l, weir_rule *rule)
{
    weir_rules *rules = weir_rules_with(l->rules, rule->name, rule->name_len, rule);
    if (!rules) {
        weir_rule_drop(rule);
        return WEIR_E_NOMEM;
    }
    activate(l, rules);
    return WEIR_OK;
}

weir_status weir_limiter_set_shadow(weir_limiter *l, const char *name, size_t len, bool shadow)
{
    weir_rule *rule;
    char text[WEIR_RULE_NAME_MAX + 1] = "";
    port_mutex_lock(l->lock);
    weir_status st = begin_change(l, name, len, &rule);
    if (st == WEIR_OK) {
        memcpy(text, rule->name, sizeof text);
        rule->shadow = shadow;
        st = end_change(l, rule);
    }
    port_mutex_unlock(l->lock);
    const weir_rule_change change = {.kind = WEIR_RULE_SHADOW, .name = text, .shadow = shadow};
    return notify(l, st, &change);
}

weir_status weir_limiter_set_candidate(weir_limiter *l, const char *name, size_t len,
                                       const char *limit, weir_rule_error *ret_error)
{
    weir_rule *rule;
    weir_rule_limit candidate = {.text = NULL};
    char text[WEIR_RULE_NAME_MAX + 1];
    if (weir_rule_name_check(name, len, NULL) != WEIR_OK)
        return WEIR_E_ABSENT;
    snprintf(text, sizeof text, "%.*s", (int)len, name);
    weir_status st = WEIR_OK;
    if (limit)
        st = weir_rule_candidate_build(&candidate, l->store, &l->zones, text, limit, NULL,
                                       ret_error);
    port_mutex_lock(l->lock);
    if (st == WEIR_OK)
        st = begin_change(l, name, len, &rule);
    if (st == WEIR_OK && rule->options->engine != WEIR_ENGINE_LOCAL) {
        weir_rule_drop(rule);
        st = WEIR_E_UNSUPPORTED;
    }
    if (st == WEIR_OK) {
        weir_rule_give_candidate(rule, &candidate);
        candidate = (weir_rule_limit){.text = NULL};
        st = end_change(l, rule);
    }
    weir_rule_limit_free(&candidate);
    port_mutex_unlock(l->lock);
    const weir_rule_change change = {.kind = WEIR_RULE_CANDIDATE, .name = text, .text = limit};
    return notify(l, st, &change);
}

void weir_limiter_on_change(weir_limiter *l, weir_limiter_changed fn, void *ctx)
{
    l->changed = fn;
    l->changed_ctx = ctx;
}

uint64_t weir_limiter_generation(const weir_limiter *l)
{
    return port_load_relaxed(&l->generation);
}

/* ---- counters -------------------------------------------------------------------------------- */

static weir_counts counts_of(weir_limiter *l, size_t name)
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
        weir_counts counts = counts_of(l, name);
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
        };
        fn(ctx, l->name[i], i, &counts);
    }
    port_mutex_unlock(l->lock);
}

bool weir_service_has_decided(const weir_service *s)
{
    return s->decided > 0;
}

void weir_service_latency(weir_service *s, int64_t elapsed_ns)
{
    uint64_t n = s->decided;
    s->decided = 0;
    weir_service_record_latency(s, n, elapsed_ns);
}

void weir_service_record_latency(weir_service *s, uint64_t n, int64_t elapsed_ns)
{
    uint64_t ns = elapsed_ns > 0 ? (uint64_t)elapsed_ns : 0;
    int bucket = 0;
    while (bucket < WEIR_LATENCY_BUCKETS - 1 && ns > (uint64_t)128 << bucket)
        bucket++;
    port_bump_relaxed(&s->counters->latency[bucket], n);
    port_bump_relaxed(&s->counters->latency_sum_ns, ns * n);
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
