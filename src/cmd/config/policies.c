/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* The section `policies`: from the tree to specs for weir_rules_build(). Each policy text is parsed
 * here, once; the specs carry the parsed policies. It must not know the policy language. */

#include "cmd/config/keys.h"
#include "port/assert.h"
#include "service/rules/key_patterns.h"

#include <string.h>

/* The tables below store in a weir_rule_spec. */
#define MEMBER(member) CONFIG_MEMBER(weir_rule_spec, member)

static const char limit_expected[] = "a policy, such as \"gcra 100/s burst 20\"";

/* ---- policy texts and patterns --------------------------------------------------------------- */

/* Parses the policy text of a value. An error is reported at its column in the file if possible. */
static bool parse_policy(config_reader *r, const config_place *place, weir_policy *ret)
{
    weir_policy_error error = {0};
    const config_node *n = place->node;
    size_t at;
    if (!config_want_scalar(r, place, limit_expected))
        return false;
    if (weir_policy_parse(ret, n->text, n->len, r->zones, &error) == WEIR_OK)
        return true;
    if (config_column(r->errors, n, error.column, &at))
        config_error_at(r->errors, at, place, "%s", error.text);
    else
        config_error(r->errors, place, "column %u of the policy: %s", error.column, error.text);
    return false;
}

/* Reads a policy text.
 *  ret_text, ret_policy  of the spec. */
static void read_text(config_reader *r, const config_place *place, const char **ret_text,
                      const weir_policy **ret_policy)
{
    weir_policy *policy = weir_arena_alloc(r->arena, 1, sizeof *policy);
    *ret_text = place->node->text;
    if (policy && parse_policy(r, place, policy))
        *ret_policy = policy;
}

static void read_limit(config_reader *r, const config_place *place, const config_key *key,
                       void *base)
{
    weir_rule_spec *spec = base;
    (void)key;
    read_text(r, place, &spec->limit, &spec->policy);
}

static void read_candidate(config_reader *r, const config_place *place, const config_key *key,
                           void *base)
{
    weir_rule_spec *spec = base;
    (void)key;
    read_text(r, place, &spec->candidate, &spec->candidate_policy);
}

/* A set for checking the patterns of a map or a list. Returns NULL if there are none or too many,
 * or if memory is exhausted. */
static weir_key_patterns *new_patterns(config_reader *r, const config_place *place)
{
    size_t n = place->node->children;
    if (n > WEIR_RULE_PATTERNS_MAX)
        config_error(r->errors, place, "%zu entries, expected at most %d", n,
                     WEIR_RULE_PATTERNS_MAX);
    if (n == 0 || n > WEIR_RULE_PATTERNS_MAX)
        return NULL;
    weir_key_patterns *patterns = weir_key_patterns_new(n);
    r->arena->failed |= !patterns;
    return patterns;
}

/*  value  two patterns that match the same keys must have the same one. */
static void check_pattern(config_reader *r, const config_place *place, size_t at,
                          const char *pattern, const weir_rule_spec *spec, uint32_t value,
                          weir_key_patterns *patterns)
{
    char why[256];
    weir_status st =
        weir_key_patterns_add(patterns, pattern, spec->plain_keys, value, why, sizeof why);
    if (st == WEIR_E_SYNTAX)
        config_error_at(r->errors, at, place, "%s", why);
    else if (st != WEIR_OK)
        r->arena->failed = true;
}

static void read_overrides(config_reader *r, const config_place *place, const config_key *key,
                           void *base)
{
    weir_rule_spec *spec = base;
    const config_node *n = place->node;
    (void)key;
    if (n->kind != CONFIG_MAP && !config_is_empty(n)) {
        config_error(r->errors, place,
                     "expected a map of keys and policies, such as \"trial-*\": gcra 1/s");
        return;
    }
    weir_key_patterns *patterns = new_patterns(r, place);
    size_t max = patterns ? n->children : 0, len = 0;
    weir_override_spec *specs = weir_arena_alloc(r->arena, max, sizeof *specs);
    weir_policy *policies = weir_arena_alloc(r->arena, max, sizeof *policies);
    for (const config_node *k = n->first; k && patterns && specs && policies; k = k->next) {
        const config_place below = {.up = place, .key = k, .node = k->value};
        if (k->bad)
            continue;
        check_pattern(r, &below, k->begin, k->text, spec, (uint32_t)len, patterns);
        if (parse_policy(r, &below, &policies[len])) {
            specs[len] = (weir_override_spec){k->text, k->value->text, &policies[len]};
            len++;
        }
    }
    weir_key_patterns_free(patterns);
    spec->overrides = specs;
    spec->overrides_len = len;
}

typedef enum list_kind { ALLOW, DENY } list_kind;

/* key->low: a list_kind. */
static void read_list(config_reader *r, const config_place *place, const config_key *key,
                      void *base)
{
    static const char expected[] =
        "a key, a prefix followed by '*', or a network such as \"10.0.0.0/8\"";
    weir_rule_spec *spec = base;
    const config_node *n = place->node;
    if (n->kind != CONFIG_LIST && !config_is_empty(n)) {
        config_error(r->errors, place,
                     "expected a list of keys, such as [\"10.0.0.0/8\", \"ci-*\"]");
        return;
    }
    weir_key_patterns *patterns = new_patterns(r, place);
    const char **entries = weir_arena_alloc(r->arena, patterns ? n->children : 0, sizeof *entries);
    size_t len = 0;
    for (config_place entry = {0}; patterns && entries && config_next_entry(place, &entry);) {
        if (!config_want_scalar(r, &entry, expected))
            continue;
        check_pattern(r, &entry, entry.node->begin, entry.node->text, spec, 0, patterns);
        entries[len++] = entry.node->text;
    }
    weir_key_patterns_free(patterns);
    *(key->low == ALLOW ? &spec->allow : &spec->deny) = entries;
    *(key->low == ALLOW ? &spec->allow_len : &spec->deny_len) = len;
}

/* ---- other keys of a policy ------------------------------------------------------------------ */

static const config_key ip_keys[] = {
    {"v4", CONFIG_NUMBER, MEMBER(v4_bits), CONFIG_RANGE(0, 32, WEIR_V4_BITS_DEFAULT)},
    {"v6", CONFIG_NUMBER, MEMBER(v6_bits), CONFIG_RANGE(0, 128, WEIR_V6_BITS_DEFAULT)},
};

static const config_section ip_section = {CONFIG_KEYS(ip_keys),
                                          .expected = "expected {v4: 32, v6: 64} or false"};

/* "ip: false" turns addresses into plain keys; "ip: true" is the default. */
static void read_ip(config_reader *r, const config_place *place, const config_key *key, void *base)
{
    weir_rule_spec *spec = base;
    if (strcmp(place->node->text, "false") == 0)
        spec->plain_keys = true;
    else if (strcmp(place->node->text, "true") != 0)
        config_read_section(r, place, key->section, base);
}

void config_check_on_error(config_reader *r, const config_place *place, weir_engine_kind engine)
{
    const config_place on_error = config_below(place, "on_error");
    if (on_error.node && engine == WEIR_ENGINE_LOCAL)
        config_error_on(r->errors, on_error.key, place,
                        "on_error requires engine: redis or engine: hybrid");
}

static void check_keys(config_reader *r, const config_place *place, const weir_rule_spec *spec)
{
    const config_place candidate = config_below(place, "candidate");
    if (!spec->limit)
        config_error_on(r->errors, place->key, place, "missing key limit, expected %s",
                        limit_expected);
    config_check_on_error(r, place, spec->engine);
    if (candidate.node && spec->engine != WEIR_ENGINE_LOCAL)
        config_error_on(r->errors, candidate.key, place, "candidate requires engine: local");
}

const char *const config_no_key_words[] = {[WEIR_NO_KEY_FAIL] = "fail",
                                           [WEIR_NO_KEY_CLIENT] = "client",
                                           [WEIR_NO_KEY_DENY] = "deny",
                                           [WEIR_NO_KEY_SKIP] = "skip"};

static const char *const unit_words[] = {
    [WEIR_UNIT_REQUESTS] = "requests", [WEIR_UNIT_TOKENS] = "tokens", [WEIR_UNIT_BYTES] = "bytes"};

/* `ip` is before the keys with patterns, because it decides whether a pattern may be a network. */
static const config_key rule_keys[] = {
    {"limit", CONFIG_OTHER, .read = read_limit},
    {"candidate", CONFIG_OTHER, .read = read_candidate},
    {"ip", CONFIG_SECTION, .section = &ip_section, .schema = "{\"type\":\"boolean\"},@",
     .read = read_ip},
    {"overrides", CONFIG_OTHER, .schema = CONFIG_MAP_OF(CONFIG_TEXT), .read = read_overrides},
    {"allow", CONFIG_OTHER, .low = ALLOW, .schema = CONFIG_TEXTS, .read = read_list},
    {"deny", CONFIG_OTHER, .low = DENY, .schema = CONFIG_TEXTS, .read = read_list},
    {"key", CONFIG_OTHER, .read = config_read_key_template},
    {"no_key", CONFIG_WORD, MEMBER(no_key), CONFIG_WORDS(config_no_key_words, 0)},
    {"shadow", CONFIG_BOOL, MEMBER(shadow)},
    {"engine", CONFIG_OTHER, MEMBER(engine), .read = config_read_engine},
    {"on_error", CONFIG_WORD, MEMBER(on_error), CONFIG_WORDS(config_on_error_words, 0)},
    {"memory", CONFIG_OTHER, .read = config_read_policy_memory},
    {"headers", CONFIG_OTHER, MEMBER(answer.headers), .schema = CONFIG_TEXTS,
     .read = config_read_headers},
    {"retry_spread", CONFIG_OTHER, MEMBER(answer.retry_spread), .low = 1,
     .read = config_read_spread},
    {"unit", CONFIG_WORD, MEMBER(answer.unit), CONFIG_WORDS(unit_words, 0)},
    {"denied", CONFIG_SECTION, MEMBER(answer), .section = &config_denied_section,
     .read = config_read_denied},
};

const config_section config_rule_section = {
    CONFIG_KEYS(rule_keys),
    .expected = "expected a policy, such as \"gcra 100/s burst 20\", or a map",
};

/* ---- the section ----------------------------------------------------------------------------- */

static void check_name(config_reader *r, const config_place *place, const char *name)
{
    weir_rule_error error;
    if (weir_rule_name_check(name, strlen(name), &error) != WEIR_OK)
        config_error_on(r->errors, place->key, place, "%s", error.text);
}

static weir_rule_spec read_rule(config_reader *r, const config_place *place)
{
    weir_rule_spec spec = WEIR_RULE_SPEC_DEFAULT;
    spec.name = place->key->text;
    spec.engine = r->config->engine;
    if (place->node->kind == CONFIG_SCALAR && place->node->len > 0)
        read_limit(r, place, NULL, &spec);
    else
        config_read_section(r, place, &config_rule_section, &spec);
    if (place->node->kind == CONFIG_MAP || config_is_empty(place->node))
        check_keys(r, place, &spec);
    check_name(r, place, spec.name);
    return spec;
}

void config_read_policies(config_reader *r, const config_place *place, const config_key *key,
                          void *base)
{
    weir_config *c = base;
    const config_node *n = place->node;
    (void)key;
    if (config_is_empty(n))
        return;
    if (n->kind != CONFIG_MAP || n->children > WEIR_RULES_MAX) {
        if (n->kind != CONFIG_MAP)
            config_error(r->errors, place,
                         "expected a map of names and policies, such as login: gcra 5/m burst 3");
        else
            config_error(r->errors, place, "%zu policies, expected at most %d", n->children,
                         WEIR_RULES_MAX);
        return;
    }
    weir_rule_spec *specs = weir_arena_alloc(r->arena, n->children, sizeof *specs);
    for (const config_node *k = n->first; k && specs; k = k->next) {
        const config_place below = {.up = place, .key = k, .node = k->value};
        if (!k->bad && !k->value->bad) {
            weir_rule_spec *spec = &specs[c->rules_len++];
            *spec = read_rule(r, &below);
            config_add_partition(r, &below, spec);
        }
    }
    c->rules = specs; /* without memory, there are none */
    WEIR_ASSERT(c->rules_len <= WEIR_RULES_MAX);
    config_check_headers(r, place, specs, c->rules_len);
}
