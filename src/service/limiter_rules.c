/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* The rules of a limiter: activates a set of rules, and changes single ones. */

#include "service/limiter.h"

#include "service/service_internal.h"
#include "store/iterate.h"
#include "store/shape.h"
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
    l->zones = (weir_zones){.find = no_zone};
    if (zones) /* without `expected`: a suggestion takes milliseconds, and any client may ask */
        l->zones = (weir_zones){.find = zones->find, .ctx = zones->ctx};
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

/* ---- rules ----------------------------------------------------------------------------------- */

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
    if (l->store)
        weir_store_keep(l->store);
    weir_rules_drop(l->rules);
    l->rules = rules;
    l->had_candidates |= rules->candidates;
    port_add_relaxed(&l->generation, 1);
}

/* The engines redis and hybrid share their states, and keep what was used as the local one does. */
bool weir_limit_is_kept(const weir_policy *from, weir_engine_kind from_engine,
                        const weir_policy *to, weir_engine_kind to_engine)
{
    bool same_states = (from_engine == WEIR_ENGINE_LOCAL) == (to_engine == WEIR_ENGINE_LOCAL);
    return same_states && weir_store_keeps(from, to);
}

static bool keeps(const weir_limiter *l, const weir_rule *from, const weir_rule *to)
{
    bool in_store = l->store && to->options->engine == WEIR_ENGINE_LOCAL;
    return weir_limit_is_kept(&from->limit.policy, from->options->engine, &to->limit.policy,
                              to->options->engine) &&
           (!in_store || (weir_store_keeps_limit(l->store, from->limit.id) &&
                          weir_store_keeps_limit(l->store, to->limit.id)));
}

void weir_limiter_compare(weir_limiter *l, const weir_rules *rules,
                          void (*fn)(void *ctx, const weir_limit_change *change), void *ctx)
{
    port_mutex_lock(l->lock);
    for (size_t i = 0; i < rules->len; i++) {
        const weir_rule *to = rules->rule[i];
        const weir_rule *from = weir_rules_find(l->rules, to->name, to->name_len);
        if (!from || strcmp(from->limit.canonical, to->limit.canonical) == 0)
            continue;
        const weir_limit_change change = {to->name, from->limit.canonical, to->limit.canonical,
                                          keeps(l, from, to)};
        fn(ctx, &change);
    }
    port_mutex_unlock(l->lock);
}

weir_engine_kind weir_limiter_default_engine(weir_limiter *l)
{
    port_mutex_lock(l->lock);
    weir_engine_kind kind = l->engine;
    port_mutex_unlock(l->lock);
    return kind;
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
