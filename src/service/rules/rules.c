/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* Sets of rules: an array sorted by name, with binary search. */

#include "service/rules/rule.h"

#include "port/assert.h"
#include "port/port.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

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

/* Adds the header that a variable names, unless the set has it. Returns false if there are too
 * many. */
static bool add_header(weir_rules *rules, weir_slice variable)
{
    static const char prefix[] = WEIR_KEY_HEADER;
    size_t len = sizeof prefix - 1;
    if (variable.len <= len || memcmp(variable.at, prefix, len) != 0)
        return true;
    weir_slice name = {variable.at + len, variable.len - len};
    if (weir_rules_want_header(rules, name))
        return true;
    if (rules->headers == WEIR_RULE_HEADERS_MAX)
        return false;
    rules->header[rules->headers++] = name;
    return true;
}

static bool add_headers(weir_rules *rules, const weir_key_template *key)
{
    bool fits = true;
    for (size_t i = 0; key && i < weir_key_template_len(key); i++)
        fits = add_header(rules, weir_key_template_name(key, i)) && fits;
    return fits;
}

/* Sets what depends on all rules of a sorted set. Returns false if there are too many headers. */
static bool summarise(weir_rules *rules)
{
    bool fits = true;
    for (size_t i = 0; i < rules->len; i++) {
        fits = add_headers(rules, rules->rule[i]->options->key) && fits;
        rules->remote |= rules->rule[i]->options->engine != WEIR_ENGINE_LOCAL;
        rules->candidates |= rules->rule[i]->candidate.text != NULL;
    }
    for (size_t i = 1; i < rules->len; i++)
        WEIR_ASSERT(by_name(&rules->rule[i - 1], &rules->rule[i]) < 0);
    return fits;
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
    if (!summarise(rules)) {
        weir_rules_drop(rules);
        return WEIR_E_RANGE;
    }
    *ret = rules;
    return WEIR_OK;
}

weir_status weir_rules_set_routes(weir_rules *rules, const weir_route_spec *specs, size_t n)
{
    weir_routes *routes;
    weir_status st = weir_routes_build(&routes, specs, n);
    if (st != WEIR_OK)
        return st;
    weir_routes_drop(rules->routes);
    rules->routes = routes;
    return WEIR_OK;
}

void weir_rules_drop(weir_rules *rules)
{
    WEIR_ASSERT(!rules || rules->refs > 0);
    if (!rules || --rules->refs > 0)
        return;
    for (size_t i = 0; i < rules->len; i++)
        weir_rule_drop(rules->rule[i]);
    weir_routes_drop(rules->routes);
    port_free(rules);
}

void weir_rules_discard(weir_rules *rules)
{
    WEIR_ASSERT(!rules || rules->refs == 1);
    weir_rules_drop(rules);
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
    rules->routes = weir_routes_share(old ? old->routes : NULL);
    bool fits = summarise(rules); /* a rule that is added has no template of its own */
    WEIR_ASSERT(fits);
    (void)fits;
    return rules;
}

bool weir_rules_want_header(const weir_rules *rules, weir_slice name)
{
    for (size_t i = 0; i < rules->headers; i++) {
        if (rules->header[i].len == name.len &&
            strncasecmp(rules->header[i].at, name.at, name.len) == 0)
            return true;
    }
    return false;
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
