/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* Rules and sets of rules: builds them from specs, and matches keys against a rule. It must not
 * know where specs come from. */

#include "service/rules/rule.h"

#include "port/assert.h"
#include "port/port.h"
#include "store/iterate.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* ---- building -------------------------------------------------------------------------------- */

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

/* Sets limit->policy.
 *  parsed  the policy of `text`; NULL: it is parsed here.
 *  ret     written if the text is not a policy; may be NULL. */
static weir_status read_limit(weir_rule_limit *limit, const weir_zones *zones, const char *text,
                              const weir_policy *parsed, weir_rule_error *ret)
{
    weir_policy_error e = {0};
    if (parsed) {
        limit->policy = *parsed;
        return WEIR_OK;
    }
    weir_status st = weir_policy_parse(&limit->policy, text, strlen(text), zones, &e);
    if (st != WEIR_OK && ret) {
        ret->column = e.column;
        snprintf(ret->text, sizeof ret->text, "%s", e.text);
    }
    return st;
}

#define CANDIDATE "?candidate" /* no name of a rule contains '?' */

/* Sets the id under which the store keeps the states. The rule's name is hashed into it, so that
 * two rules with the same policy text do not share states; nor does a candidate with its rule. If
 * the store has a partition of that name, the states are in it.
 *  suffix  "" or CANDIDATE. */
static weir_status set_id(weir_rule_limit *limit, const weir_store *store, const char *name,
                          const char *suffix)
{
    char full[WEIR_RULE_NAME_MAX + sizeof CANDIDATE];
    int len = snprintf(full, sizeof full, "%s%s", name, suffix);
    WEIR_ASSERT(len > 0 && (size_t)len < sizeof full);
    uint64_t id = weir_store_named_id(store, &limit->policy, full, (size_t)len);
    limit->id = weir_store_partition_id(store, id, name);
    return weir_store_note_limit(store, limit->id, &limit->policy, full, (size_t)len);
}

static weir_status build_limit(weir_rule_limit *limit, const weir_store *store, const char *name,
                               const char *suffix, const char *text)
{
    char canonical[WEIR_POLICY_TEXT_MAX];
    limit->text = copy_text(text);
    limit->canonical_len = weir_policy_print(&limit->policy, canonical, sizeof canonical);
    WEIR_ASSERT(limit->canonical_len >= 1 && limit->canonical_len < sizeof canonical);
    limit->canonical = copy_bytes(canonical, limit->canonical_len);
    if (!limit->text || !limit->canonical)
        return WEIR_E_NOMEM;
    return store ? set_id(limit, store, name, suffix) : WEIR_OK;
}

void weir_rule_limit_free(weir_rule_limit *limit)
{
    port_free(limit->text);
    port_free(limit->canonical);
    port_free(limit->pattern);
    *limit = (weir_rule_limit){.text = NULL};
}

weir_status weir_rule_candidate_build(weir_rule_limit *ret, const weir_store *store,
                                      const weir_zones *zones, const char *name, const char *text,
                                      const weir_policy *parsed, weir_rule_error *ret_error)
{
    *ret = (weir_rule_limit){.text = NULL};
    weir_status st = read_limit(ret, zones, text, parsed, ret_error);
    if (st == WEIR_OK)
        st = build_limit(ret, store, name, CANDIDATE, text);
    if (st != WEIR_OK)
        weir_rule_limit_free(ret);
    return st;
}

static weir_status build_overrides(weir_rule *r, const weir_store *store, const weir_zones *zones,
                                   const weir_rule_spec *spec)
{
    size_t n = spec->overrides_len;
    if (n == 0)
        return WEIR_OK;
    r->options->overrides = port_zalloc(n, sizeof *r->options->overrides);
    r->options->by_pattern = weir_key_patterns_new(n);
    if (!r->options->overrides || !r->options->by_pattern)
        return WEIR_E_NOMEM;
    r->options->overrides_len = n;
    for (size_t i = 0; i < n; i++) {
        const weir_override_spec *o = &spec->overrides[i];
        weir_rule_limit *limit = &r->options->overrides[i];
        weir_status st = weir_key_patterns_add(r->options->by_pattern, o->pattern, spec->plain_keys,
                                               (uint32_t)i, NULL, 0);
        if (st == WEIR_OK)
            st = read_limit(limit, zones, o->limit, o->policy, NULL);
        if (st == WEIR_OK)
            st = build_limit(limit, store, spec->name, "", o->limit);
        if (st != WEIR_OK)
            return st;
        limit->pattern = copy_text(o->pattern);
        if (!limit->pattern)
            return WEIR_E_NOMEM;
    }
    return WEIR_OK;
}

static weir_status build_list(weir_key_patterns **list, const weir_rule_spec *spec,
                              const char *const *entries, size_t n)
{
    if (n == 0)
        return WEIR_OK;
    *list = weir_key_patterns_new(n);
    weir_status st = *list ? WEIR_OK : WEIR_E_NOMEM;
    for (size_t i = 0; i < n && st == WEIR_OK; i++)
        st = weir_key_patterns_add(*list, entries[i], spec->plain_keys, 0, NULL, 0);
    return st;
}

static weir_status build_key(weir_rule_options *options, const char *text)
{
    char why[128];
    size_t at;
    return weir_key_template_parse(&options->key, text, strlen(text), why, sizeof why, &at);
}

/* Copies an answer; options own the strings. */
static weir_status build_answer(weir_rule_options *options, const weir_answer *answer)
{
    char *type = answer->denied_type ? copy_text(answer->denied_type) : NULL;
    char *body = answer->denied_body ? copy_text(answer->denied_body) : NULL;
    options->answer = *answer;
    options->answer.denied_type = type;
    options->answer.denied_body = body;
    return !type == !answer->denied_type && !body == !answer->denied_body ? WEIR_OK : WEIR_E_NOMEM;
}

static bool is_status(int status)
{
    return status == 0 || (status >= 400 && status <= 599);
}

static bool is_within_limits(const weir_rule_spec *spec)
{
    return spec->v4_bits <= 32 && spec->v6_bits <= 128 && is_status(spec->answer.denied_status) &&
           spec->overrides_len <= WEIR_RULE_PATTERNS_MAX &&
           spec->allow_len <= WEIR_RULE_PATTERNS_MAX && spec->deny_len <= WEIR_RULE_PATTERNS_MAX;
}

static weir_status build_parts(weir_rule *r, const weir_store *store, const weir_zones *zones,
                               const weir_rule_spec *spec, weir_rule_error *ret)
{
    weir_status st = read_limit(&r->limit, zones, spec->limit, spec->policy, ret);
    if (st == WEIR_OK && spec->candidate)
        st = weir_rule_candidate_build(&r->candidate, store, zones, spec->name, spec->candidate,
                                       spec->candidate_policy, ret);
    if (st == WEIR_OK)
        st = build_overrides(r, store, zones, spec);
    if (st == WEIR_OK) /* the last one: its states are found, however many overrides there are */
        st = build_limit(&r->limit, store, spec->name, "", spec->limit);
    if (st == WEIR_OK && spec->key)
        st = build_key(r->options, spec->key);
    if (st == WEIR_OK)
        st = build_answer(r->options, &spec->answer);
    if (st == WEIR_OK)
        st = build_list(&r->options->allow, spec, spec->allow, spec->allow_len);
    if (st == WEIR_OK)
        st = build_list(&r->options->deny, spec, spec->deny, spec->deny_len);
    return st;
}

weir_status weir_rule_new(weir_rule **ret, const weir_store *store, const weir_zones *zones,
                          const weir_rule_spec *spec, weir_rule_error *ret_error)
{
    weir_rule_error unused;
    weir_rule_error *error = ret_error ? ret_error : &unused;
    weir_status st = weir_rule_name_check(spec->name, strlen(spec->name), error);
    if (st != WEIR_OK)
        return st;
    if (!is_within_limits(spec))
        return WEIR_E_RANGE;
    if (spec->candidate && spec->engine != WEIR_ENGINE_LOCAL)
        return WEIR_E_UNSUPPORTED;
    weir_rule *r = port_zalloc(1, sizeof *r);
    if (!r)
        return WEIR_E_NOMEM;
    r->refs = 1;
    r->options = port_zalloc(1, sizeof *r->options);
    if (!r->options) {
        port_free(r);
        return WEIR_E_NOMEM;
    }
    r->options->refs = 1;
    r->name_len = strlen(spec->name);
    memcpy(r->name, spec->name, r->name_len);
    r->reset_id = weir_store_reset_id(r->name, r->name_len);
    r->options->allow_len = spec->allow_len;
    r->options->deny_len = spec->deny_len;
    r->shadow = spec->shadow;
    r->options->plain_keys = spec->plain_keys;
    r->options->no_key = spec->no_key;
    r->options->engine = spec->engine;
    r->options->on_error = spec->on_error;
    r->options->v4_bits = spec->v4_bits;
    r->options->v6_bits = spec->v6_bits;
    st = build_parts(r, store, zones, spec, error);
    if (st != WEIR_OK) {
        weir_rule_drop(r);
        return st;
    }
    *ret = r;
    return WEIR_OK;
}

/* ---- reference counts ------------------------------------------------------------------------ */

static void drop_options(weir_rule_options *options)
{
    WEIR_ASSERT(options->refs > 0);
    if (--options->refs > 0)
        return;
    for (size_t i = 0; i < options->overrides_len; i++)
        weir_rule_limit_free(&options->overrides[i]);
    port_free(options->overrides);
    weir_key_patterns_free(options->by_pattern);
    weir_key_patterns_free(options->allow);
    weir_key_patterns_free(options->deny);
    weir_key_template_free(options->key);
    port_free((char *)options->answer.denied_type);
    port_free((char *)options->answer.denied_body);
    port_free(options);
}

static weir_status copy_limit(weir_rule_limit *to, const weir_rule_limit *from)
{
    WEIR_ASSERT(!from->pattern);
    *to = *from;
    to->text = copy_text(from->text);
    to->canonical = copy_bytes(from->canonical, from->canonical_len);
    return to->text && to->canonical ? WEIR_OK : WEIR_E_NOMEM;
}

weir_status weir_rule_share_options(weir_rule *rule, const weir_rule *of)
{
    WEIR_ASSERT(rule->refs == 1 && (!rule->options || rule->options->refs == 1));
    WEIR_ASSERT(!rule->candidate.text);
    if (rule->options)
        drop_options(rule->options);
    rule->options = of->options;
    rule->options->refs++;
    rule->shadow = of->shadow;
    return of->candidate.text ? copy_limit(&rule->candidate, &of->candidate) : WEIR_OK;
}

weir_status weir_rule_copy(weir_rule **ret, const weir_rule *of)
{
    weir_rule *r = port_zalloc(1, sizeof *r);
    if (!r)
        return WEIR_E_NOMEM;
    r->refs = 1;
    r->name_len = of->name_len;
    memcpy(r->name, of->name, of->name_len);
    r->reset_id = of->reset_id;
    r->counts = of->counts;
    weir_status st = weir_rule_share_options(r, of);
    if (st == WEIR_OK)
        st = copy_limit(&r->limit, &of->limit);
    if (st == WEIR_OK)
        *ret = r;
    else
        weir_rule_drop(r);
    return st;
}

void weir_rule_give_candidate(weir_rule *rule, const weir_rule_limit *candidate)
{
    weir_rule_limit_free(&rule->candidate);
    rule->candidate = *candidate;
}

void weir_rule_drop(weir_rule *r)
{
    WEIR_ASSERT(!r || r->refs > 0);
    if (!r || --r->refs > 0)
        return;
    drop_options(r->options);
    weir_rule_limit_free(&r->limit);
    weir_rule_limit_free(&r->candidate);
    port_free(r);
}

/* ---- keys ------------------------------------------------------------------------------------ */

/*  address  the key, or the address of the client in it; NULL: none. */
static void match_lists(const weir_rule *r, const char *key, size_t len,
                        const weir_address *address, bool may_be_allowed, weir_key_match *ret)
{
    const weir_rule_options *o = r->options;
    uint32_t at;
    if (o->by_pattern && weir_key_patterns_find(o->by_pattern, key, len, address, &at))
        ret->limit = &o->overrides[at];
    WEIR_ASSERT(ret->limit == &r->limit || at < o->overrides_len);
    if (o->deny && weir_key_patterns_find(o->deny, key, len, address, &at))
        ret->list = WEIR_ON_DENY_LIST;
    else if (o->allow && may_be_allowed && weir_key_patterns_find(o->allow, key, len, address, &at))
        ret->list = WEIR_ON_ALLOW_LIST;
}

/* Replaces the address in ret->at by the canonical text of its network. */
static void match_address(weir_address address, unsigned v4_bits, unsigned v6_bits,
                          weir_key_match *ret)
{
    unsigned bits = address.v6 ? v6_bits : v4_bits;
    if (!address.v6 && bits == 32 && !memchr(ret->at, ':', ret->len))
        return; /* dotted decimal is canonical already */
    weir_address_mask(&address, bits);
    ret->len = weir_address_print(&address, bits, ret->text);
    ret->at = ret->text;
}

void weir_rule_match(const weir_rule *r, const char *key, size_t len, const weir_client *client,
                     weir_key_match *ret)
{
    const weir_rule_options *o = r->options;
    weir_address address;
    bool is_address = !o->plain_keys && weir_address_parse(&address, key, len);
    ret->at = key;
    ret->len = len;
    ret->limit = &r->limit;
    ret->list = WEIR_ON_NO_LIST;
    if (o->by_pattern || o->allow || o->deny) {
        char text[WEIR_ADDRESS_TEXT_MAX];
        bool canonical = is_address && memchr(key, ':', len);
        if (canonical) /* else prefixes would match only some spellings of the address */
            len = weir_address_print(&address, weir_address_bits(&address), text);
        match_lists(r, canonical ? text : key, len,
                    is_address ? &address
                    : client   ? &client->address
                               : NULL,
                    !client || !client->is_proxy, ret);
    }
    if (is_address)
        match_address(address, o->v4_bits, o->v6_bits, ret);
}

void weir_inline_policy_match(const char *key, size_t len, weir_key_match *ret)
{
    const weir_rule_spec spec = WEIR_RULE_SPEC_DEFAULT;
    weir_address address;
    ret->at = key;
    ret->len = len;
    if (weir_address_parse(&address, key, len))
        match_address(address, spec.v4_bits, spec.v6_bits, ret);
}

/* ---- sets of rules --------------------------------------------------------------------------- */
/* Arrays sorted by name, with binary search. */

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
    weir_slice name;
    if (!weir_key_template_header(variable, &name))
        return true;
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

weir_status weir_rules_set_routes(weir_rules *rules, const weir_route_spec *specs, size_t n,
                                  weir_encoded_slash slash)
{
    weir_routes *routes;
    weir_status st = weir_routes_build(&routes, specs, n, slash);
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
