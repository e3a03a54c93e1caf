/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* Rules: building, checking and finding them, and how one sees a key. It must not know who asks,
 * nor where the specs come from. */

#include "service/rules/rule.h"

#include "port/port.h"
#include "store/iterate.h"
#include "store/siphash.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- one rule -------------------------------------------------------------------------------- */

static char *copy_bytes(const char *text, size_t len)
{
    char *copy = port_zalloc(1, len + 1);
    if (copy)
        memcpy(copy, text, len);
    return copy;
}

static char *copy_text(const char *text)
{
    return copy_bytes(text, strlen(text));
}

__attribute__((format(printf, 4, 5))) static weir_status
refuse(weir_rule_error *ret, weir_rule_part part, size_t index, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    *ret = (weir_rule_error){.part = part, .index = index};
    vsnprintf(ret->text, sizeof ret->text, format, args);
    va_end(args);
    return WEIR_E_SYNTAX;
}

static weir_status check_name(const char *name, weir_rule_error *ret)
{
    static const char good[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.:/";
    size_t len = strlen(name), fine = strspn(name, good);
    if (len == 0 || len > WEIR_RULE_NAME_MAX)
        return refuse(ret, WEIR_RULE_NAME, 0, "a policy's name has 1 to %d bytes, this one has %zu",
                      WEIR_RULE_NAME_MAX, len);
    if (fine < len)
        return refuse(ret, WEIR_RULE_NAME, 0,
                      "byte %zu of a policy's name: expected a letter, a digit or one of - _ . : /",
                      fine + 1);
    return WEIR_OK;
}

static weir_status parse_held(weir_rule_limit *held, const weir_zones *zones, const char *text,
                              weir_rule_part part, size_t index, weir_rule_error *ret)
{
    weir_policy_error e = {0};
    weir_status st = weir_policy_parse(&held->policy, text, strlen(text), zones, &e);
    if (st == WEIR_OK)
        return WEIR_OK;
    *ret = (weir_rule_error){.part = part, .index = index, .column = e.column};
    snprintf(ret->text, sizeof ret->text, "%s", e.text);
    return st;
}

/* The states of equal texts under two names are apart: the name goes into the id. */
static uint64_t held_id(const weir_store *store, const weir_policy *p, const char *name)
{
    weir_secret secret = {weir_store_policy_id(store, p), 0x6e616d6564};
    uint64_t id = weir_siphash(secret, name, strlen(name));
    weir_store_note_policy(store, id, p);
    return id;
}

static weir_status build_held(weir_rule_limit *held, const weir_store *store, const char *name,
                              const char *text)
{
    char canonical[WEIR_POLICY_TEXT_MAX];
    held->text = copy_text(text);
    held->canonical_len = weir_policy_print(&held->policy, canonical, sizeof canonical);
    held->canonical = copy_bytes(canonical, held->canonical_len);
    if (store)
        held->id = held_id(store, &held->policy, name);
    return held->text && held->canonical ? WEIR_OK : WEIR_E_NOMEM;
}

static weir_status build_overrides(weir_rule *r, const weir_store *store, const weir_zones *zones,
                                   const weir_rule_spec *spec, weir_rule_error *ret)
{
    size_t n = spec->overrides_len;
    if (n == 0)
        return WEIR_OK;
    r->rest->overrides = port_zalloc(n, sizeof *r->rest->overrides);
    r->rest->by_pattern = weir_key_patterns_new(n);
    if (!r->rest->overrides || !r->rest->by_pattern)
        return WEIR_E_NOMEM;
    r->rest->overrides_len = n;
    for (size_t i = 0; i < n; i++) {
        const weir_override_spec *o = &spec->overrides[i];
        weir_rule_limit *held = &r->rest->overrides[i];
        *ret = (weir_rule_error){.part = WEIR_RULE_OVERRIDE, .index = i};
        weir_status st = weir_key_patterns_add(r->rest->by_pattern, o->pattern, !spec->plain_keys,
                                               (uint32_t)i, ret->text, sizeof ret->text);
        if (st == WEIR_OK)
            st = parse_held(held, zones, o->limit, WEIR_RULE_OVERRIDE_LIMIT, i, ret);
        if (st == WEIR_OK)
            st = build_held(held, store, spec->name, o->limit);
        if (st != WEIR_OK)
            return st;
        held->pattern = copy_text(o->pattern);
        if (!held->pattern)
            return WEIR_E_NOMEM;
    }
    return WEIR_OK;
}

static weir_status build_list(weir_key_patterns **list, const weir_rule_spec *spec,
                              const char *const *entries, size_t n, weir_rule_part part,
                              weir_rule_error *ret)
{
    if (n == 0)
        return WEIR_OK;
    *list = weir_key_patterns_new(n);
    weir_status st = *list ? WEIR_OK : WEIR_E_NOMEM;
    for (size_t i = 0; i < n && st == WEIR_OK; i++) {
        *ret = (weir_rule_error){.part = part, .index = i};
        st = weir_key_patterns_add(*list, entries[i], !spec->plain_keys, 0, ret->text,
                                   sizeof ret->text);
    }
    return st;
}

static weir_status check_sizes(const weir_rule_spec *spec, weir_rule_error *ret)
{
    static const char many[] = "%zu of them, expected at most %d";
    if (spec->v4_bits > 32)
        return refuse(ret, WEIR_RULE_BITS, 4, "%u, expected 0 to 32", spec->v4_bits);
    if (spec->v6_bits > 128)
        return refuse(ret, WEIR_RULE_BITS, 6, "%u, expected 0 to 128", spec->v6_bits);
    if (spec->overrides_len > WEIR_RULE_PATTERNS_MAX)
        return refuse(ret, WEIR_RULE_OVERRIDE, WEIR_RULE_PATTERNS_MAX, many, spec->overrides_len,
                      WEIR_RULE_PATTERNS_MAX);
    if (spec->allow_len > WEIR_RULE_PATTERNS_MAX)
        return refuse(ret, WEIR_RULE_ALLOW, WEIR_RULE_PATTERNS_MAX, many, spec->allow_len,
                      WEIR_RULE_PATTERNS_MAX);
    if (spec->deny_len > WEIR_RULE_PATTERNS_MAX)
        return refuse(ret, WEIR_RULE_DENY, WEIR_RULE_PATTERNS_MAX, many, spec->deny_len,
                      WEIR_RULE_PATTERNS_MAX);
    return WEIR_OK;
}

static weir_status build_parts(weir_rule *r, const weir_store *store, const weir_zones *zones,
                               const weir_rule_spec *spec, weir_rule_error *ret)
{
    weir_status st = parse_held(&r->own, zones, spec->limit, WEIR_RULE_LIMIT, 0, ret);
    if (st == WEIR_OK)
        st = build_held(&r->own, store, spec->name, spec->limit);
    if (st == WEIR_OK)
        st = build_overrides(r, store, zones, spec, ret);
    if (st == WEIR_OK)
        st = build_list(&r->rest->allow, spec, spec->allow, spec->allow_len, WEIR_RULE_ALLOW, ret);
    if (st == WEIR_OK)
        st = build_list(&r->rest->deny, spec, spec->deny, spec->deny_len, WEIR_RULE_DENY, ret);
    return st;
}

weir_status weir_rule_new(weir_rule **ret, const weir_store *store, const weir_zones *zones,
                          const weir_rule_spec *spec, weir_rule_error *ret_error)
{
    weir_rule_error unused;
    weir_rule_error *error = ret_error ? ret_error : &unused;
    weir_status st = check_name(spec->name, error);
    if (st == WEIR_OK)
        st = check_sizes(spec, error);
    if (st != WEIR_OK)
        return st;
    weir_rule *r = port_zalloc(1, sizeof *r);
    if (!r)
        return WEIR_E_NOMEM;
    r->refs = 1;
    r->rest = port_zalloc(1, sizeof *r->rest);
    if (!r->rest) {
        port_free(r);
        return WEIR_E_NOMEM;
    }
    r->rest->refs = 1;
    r->name_len = strlen(spec->name);
    memcpy(r->name, spec->name, r->name_len);
    r->rest->allow_len = spec->allow_len;
    r->rest->deny_len = spec->deny_len;
    r->rest->shadow = spec->shadow;
    r->rest->plain_keys = spec->plain_keys;
    r->rest->engine = spec->engine;
    r->rest->on_error = spec->on_error;
    r->rest->v4_bits = spec->v4_bits;
    r->rest->v6_bits = spec->v6_bits;
    st = build_parts(r, store, zones, spec, error);
    if (st != WEIR_OK) {
        weir_rule_drop(r);
        return st;
    }
    *ret = r;
    return WEIR_OK;
}

weir_status weir_rule_check(const weir_rule_spec *spec, const weir_zones *zones,
                            weir_rule_error *ret_error)
{
    weir_rule *r;
    weir_status st = weir_rule_new(&r, NULL, zones, spec, ret_error);
    if (st == WEIR_OK)
        weir_rule_drop(r);
    return st;
}

static void rest_drop(weir_rule_options *rest)
{
    if (--rest->refs > 0)
        return;
    for (size_t i = 0; i < rest->overrides_len; i++) {
        port_free(rest->overrides[i].text);
        port_free(rest->overrides[i].canonical);
        port_free(rest->overrides[i].pattern);
    }
    port_free(rest->overrides);
    weir_key_patterns_free(rest->by_pattern);
    weir_key_patterns_free(rest->allow);
    weir_key_patterns_free(rest->deny);
    port_free(rest);
}

void weir_rule_share_options(weir_rule *rule, const weir_rule *of)
{
    rest_drop(rule->rest);
    rule->rest = of->rest;
    rule->rest->refs++;
}

void weir_rule_drop(weir_rule *r)
{
    if (!r || --r->refs > 0)
        return;
    rest_drop(r->rest);
    port_free(r->own.text);
    port_free(r->own.canonical);
    port_free(r);
}

static void see_lists(const weir_rule *r, const char *key, size_t len, const weir_address *address,
                      weir_key_match *ret)
{
    uint32_t at;
    if (r->rest->by_pattern && weir_key_patterns_find(r->rest->by_pattern, key, len, address, &at))
        ret->held = &r->rest->overrides[at];
    ret->list = WEIR_ON_NO_LIST;
    if (r->rest->deny && weir_key_patterns_find(r->rest->deny, key, len, address, &at))
        ret->list = WEIR_ON_DENY_LIST;
    else if (r->rest->allow && weir_key_patterns_find(r->rest->allow, key, len, address, &at))
        ret->list = WEIR_ON_ALLOW_LIST;
}

/* Files an address under its network, by the one text that it has. ret->at and ret->len are the
 * address as it came. */
static void see_address(weir_address address, unsigned v4_bits, unsigned v6_bits,
                        weir_key_match *ret)
{
    unsigned bits = address.v6 ? v6_bits : v4_bits;
    if (!address.v6 && bits == 32 && !memchr(ret->at, ':', ret->len))
        return; /* dotted decimal has one spelling */
    weir_address_mask(&address, bits);
    ret->len = weir_address_print(&address, bits, ret->text);
    ret->at = ret->text;
}

void weir_rule_match(const weir_rule *r, const char *key, size_t len, weir_key_match *ret)
{
    weir_address address;
    bool is_address = !r->rest->plain_keys && weir_address_parse(&address, key, len);
    ret->at = key;
    ret->len = len;
    ret->held = &r->own;
    see_lists(r, key, len, is_address ? &address : NULL, ret);
    if (is_address)
        see_address(address, r->rest->v4_bits, r->rest->v6_bits, ret);
}

void weir_inline_match(const char *key, size_t len, weir_key_match *ret)
{
    const weir_rule_spec spec = WEIR_RULE_SPEC_DEFAULT;
    weir_address address;
    ret->at = key;
    ret->len = len;
    if (weir_address_parse(&address, key, len))
        see_address(address, spec.v4_bits, spec.v6_bits, ret);
}

/* ---- sets of rules --------------------------------------------------------------------------- */

static int by_name(const void *a, const void *b)
{
    const weir_rule *const *x = a, *const *y = b;
    return strcmp((*x)->name, (*y)->name);
}

static weir_rules *rules_new(size_t room)
{
    weir_rules *rules = port_zalloc(1, sizeof *rules + room * sizeof rules->rule[0]);
    if (rules)
        rules->refs = 1;
    return rules;
}

weir_status weir_rules_build(weir_rules **ret, const weir_store *store, const weir_zones *zones,
                             const weir_rule_spec *specs, size_t n, size_t *ret_index,
                             weir_rule_error *ret_error)
{
    if (n > WEIR_RULES_MAX)
        return WEIR_E_RANGE;
    weir_rules *rules = rules_new(n);
    if (!rules)
        return WEIR_E_NOMEM;
    for (size_t i = 0; i < n; i++) {
        weir_status st = weir_rule_new(&rules->rule[i], store, zones, &specs[i], ret_error);
        if (st != WEIR_OK) {
            if (ret_index)
                *ret_index = i;
            weir_rules_drop(rules);
            return st;
        }
        rules->remote |= rules->rule[i]->rest->engine != WEIR_ENGINE_LOCAL;
        rules->len++;
    }
    qsort(rules->rule, n, sizeof rules->rule[0], by_name);
    *ret = rules;
    return WEIR_OK;
}

void weir_rules_drop(weir_rules *rules)
{
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
    size_t old_len = old ? old->len : 0;
    weir_rules *rules = rules_new(old_len + 1);
    if (!rules)
        return NULL;
    for (size_t i = 0; i < old_len; i++) {
        if (is_named(old->rule[i], name, len))
            continue;
        old->rule[i]->refs++;
        rules->rule[rules->len++] = old->rule[i];
    }
    if (rule)
        rules->rule[rules->len++] = rule;
    for (size_t i = 0; i < rules->len; i++)
        rules->remote |= rules->rule[i]->rest->engine != WEIR_ENGINE_LOCAL;
    qsort(rules->rule, rules->len, sizeof rules->rule[0], by_name);
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
