/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* Sets of rules: an array sorted by name, with binary search. */

#include "service/rules/rule.h"

#include "port/assert.h"
#include "port/port.h"

#include <stdlib.h>
#include <string.h>

static int by_name(const void *a, const void *b)
{
    const weir_rule *const *x = a, *const *y = b;
    return strcmp((*x)->name, (*y)->name);
}

static weir_rules *rules_new(size_t capacity)
{
    weir_rules *rules = port_zalloc(1, sizeof *rules + capacity * sizeof rules->rule[0]);
    if (rules)
        rules->refs = 1;
    return rules;
}

/* Sets what depends on all rules of a sorted set. */
static void summarise(weir_rules *rules)
{
    for (size_t i = 0; i < rules->len; i++) {
        rules->remote |= rules->rule[i]->options->engine != WEIR_ENGINE_LOCAL;
        rules->candidates |= rules->rule[i]->candidate.text != NULL;
    }
    for (size_t i = 1; i < rules->len; i++)
        WEIR_ASSERT(by_name(&rules->rule[i - 1], &rules->rule[i]) < 0);
}

weir_status weir_rules_build(weir_rules **ret, const weir_store *store, const weir_zones *zones,
                             const weir_rule_spec *specs, size_t n)
{
    if (n > WEIR_RULES_MAX)
        return WEIR_E_RANGE;
    weir_rules *rules = rules_new(n);
    if (!rules)
        return WEIR_E_NOMEM;
    for (size_t i = 0; i < n; i++) {
        weir_status st = weir_rule_new(&rules->rule[i], store, zones, &specs[i], NULL);
        if (st != WEIR_OK) {
            weir_rules_drop(rules);
            return st;
        }
        rules->len++;
    }
    qsort(rules->rule, rules->len, sizeof rules->rule[0], by_name);
    summarise(rules);
    *ret = rules;
    return WEIR_OK;
}

void weir_rules_drop(weir_rules *rules)
{
    WEIR_ASSERT(!rules || rules->refs > 0);
    if (!rules || --rules->refs > 0)
        return;
    for (size_t i = 0; i < rules->len; i++)
        weir_rule_drop(rules->rule[i]);
    port_free(rules);
}

static bool is_named(const weir_rule *r, const char *name, size_t len)
{
    return r->name_len == len && memcmp(r->name, name, len) == 0;
}

weir_rules *weir_rules_with(const weir_rules *old, const char *name, size_t len, weir_rule *rule)
{
    WEIR_ASSERT(!rule || is_named(rule, name, len));
    size_t old_len = old ? old->len : 0;
    weir_rules *rules = rules_new(old_len + 1);
    if (!rules)
        return NULL;
    for (size_t i = 0; i < old_len; i++) {
        if (is_named(old->rule[i], name, len))
            continue;
        if (rule && by_name(&rule, &old->rule[i]) < 0) {
            rules->rule[rules->len++] = rule;
            rule = NULL;
        }
        old->rule[i]->refs++;
        rules->rule[rules->len++] = old->rule[i];
    }
    if (rule)
        rules->rule[rules->len++] = rule;
    summarise(rules);
    return rules;
}

const weir_rule *weir_rules_find(const weir_rules *rules, const char *name, size_t len)
{
    size_t low = 0, high = rules ? rules->len : 0;
    while (low < high) {
        size_t mid = low + (high - low) / 2;
        const weir_rule *r = rules->rule[mid];
        int order = memcmp(name, r->name, len < r->name_len ? len : r->name_len);
        if (order == 0 && len == r->name_len)
            return r;
        if (order < 0 || (order == 0 && len < r->name_len))
            high = mid;
        else
            low = mid + 1;
    }
    return NULL;
}
