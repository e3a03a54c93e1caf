/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* Named policies. What is right is for weir_rule_check() to say; here its answers are given their
 * places in the file. It must not know the policy language. */

#include "cmd/config/policies.h"

#include "cmd/config/redis.h"

#include <string.h>

/* A rule while it is read: the spec, and where each part of it stands. */
typedef struct draft {
    weir_rule_spec spec;
    weir_override_spec *override_specs; /* spec.overrides, while they are filled in */
    const config_place *place;          /* of the policy's value */
    config_place limit, ip, on_error;
    config_place *overrides, *allow, *deny; /* of each that is in the spec */
    config_reader *reader;
} draft;

/* ---- its parts ------------------------------------------------------------------------------- */

static const char limit_expected[] = "a policy text, such as \"gcra 100/s burst 20\"";

static bool read_limit(config_reader *r, const config_place *place, const config_field *field,
                       void *base)
{
    draft *d = base;
    (void)field;
    if (!config_want_text(r, place, limit_expected))
        return false;
    d->limit = *place;
    d->spec.limit = place->node->text;
    return true;
}

/* A copy that lives as long as the draft does; what it is below lives on by itself. */
static const config_place *keep_place(config_reader *r, const config_place *place)
{
    config_place *copy = config_alloc(r->arena, sizeof *copy);
    if (copy)
        *copy = *place;
    return copy;
}

static bool read_overrides(config_reader *r, const config_place *place, const config_field *field,
                           void *base)
{
    draft *d = base;
    (void)field;
    if (config_is_empty(place->node))
        return true;
    if (place->node->kind != CONFIG_MAP) {
        config_complain(r->errors, place,
                        "expected a map of keys and their policies, as \"trial-*\": gcra 1/s");
        return false;
    }
    weir_override_spec *specs = config_alloc_array(r->arena, place->node->children, sizeof *specs);
    config_place *places = config_alloc_array(r->arena, place->node->children, sizeof *places);
    const config_place *group = keep_place(r, place);
    if (!specs || !places || !group)
        return false;
    size_t n = 0;
    for (const config_node *key = place->node->first; key; key = key->next) {
        const config_place below = {group, key, 0, key->value};
        if (key->bad || !config_want_text(r, &below, limit_expected))
            continue;
        places[n] = below;
        specs[n++] = (weir_override_spec){.pattern = key->text, .limit = key->value->text};
    }
    d->overrides = places;
    d->spec.overrides = d->override_specs = specs;
    d->spec.overrides_len = n;
    return true;
}

/* Entries of a list; false if nothing could be read. */
static bool read_list(config_reader *r, const config_place *place, const char *const **ret,
                      size_t *ret_len, config_place **ret_places)
{
    static const char expected[] = "a key, a prefix and '*', or a network as \"10.0.0.0/8\"";
    if (config_is_empty(place->node))
        return true;
    if (place->node->kind != CONFIG_LIST) {
        config_complain(r->errors, place, "expected a list of keys, as [\"10.0.0.0/8\", \"ci-*\"]");
        return false;
    }
    const char **entries = config_alloc_array(r->arena, place->node->children, sizeof *entries);
    config_place *places = config_alloc_array(r->arena, place->node->children, sizeof *places);
    const config_place *group = keep_place(r, place);
    if (!entries || !places || !group)
        return false;
    size_t n = 0, i = 0;
    for (const config_node *child = place->node->first; child; child = child->next, i++) {
        const config_place entry = {group, NULL, i, child};
        if (!config_want_text(r, &entry, expected))
            continue;
        places[n] = entry;
        entries[n++] = child->text;
    }
    *ret = entries;
    *ret_len = n;
    *ret_places = places;
    return true;
}

static bool read_allow(config_reader *r, const config_place *place, const config_field *field,
                       void *base)
{
    draft *d = base;
    (void)field;
    return read_list(r, place, &d->spec.allow, &d->spec.allow_len, &d->allow);
}

static bool read_deny(config_reader *r, const config_place *place, const config_field *field,
                      void *base)
{
    draft *d = base;
    (void)field;
    return read_list(r, place, &d->spec.deny, &d->spec.deny_len, &d->deny);
}

static bool read_ip(config_reader *r, const config_place *place, const config_field *field,
                    void *base)
{
    static const config_field bits[] = {
        {.name = "v4",
         .read = config_read_int,
         .offset = offsetof(weir_rule_spec, v4_bits),
         .high = 32},
        {.name = "v6",
         .read = config_read_int,
         .offset = offsetof(weir_rule_spec, v6_bits),
         .high = 128},
    };
    draft *d = base;
    (void)field;
    d->ip = *place;
    if (place->node->kind == CONFIG_MAP)
        return config_read_map(r, place, bits, sizeof bits / sizeof bits[0], &d->spec);
    bool is_off = strcmp(place->node->text, "false") == 0;
    if (place->node->kind == CONFIG_LIST || (!is_off && strcmp(place->node->text, "true") != 0)) {
        config_complain(r->errors, place, "expected a map, such as {v4: 32, v6: 64}, or false");
        return false;
    }
    d->spec.plain_keys = is_off;
    return true;
}

static bool read_shadow(config_reader *r, const config_place *place, const config_field *field,
                        void *base)
{
    return config_read_bool(r, place, field, &((draft *)base)->spec);
}

static bool read_engine(config_reader *r, const config_place *place, const config_field *field,
                        void *base)
{
    return config_read_engine(r, place, field, &((draft *)base)->spec);
}

static bool read_on_error(config_reader *r, const config_place *place, const config_field *field,
                          void *base)
{
    draft *d = base;
    d->on_error = *place;
    return config_read_on_error(r, place, field, &d->spec);
}

/* ---- what weir_rule_check() says ------------------------------------------------------------- */

static void complain_of_policy(const draft *d, const config_place *place,
                               const weir_rule_error *error)
{
    config_errors *e = d->reader->errors;
    size_t at;
    if (error->column == 0)
        config_complain(e, place, "%s", error->text);
    else if (config_column(e, place->node, error->column, &at))
        config_complain_at(e, at, place, "%s", error->text);
    else
        config_complain(e, place, "column %u of the policy: %s", error->column, error->text);
}

/* An override's key is wrong, rather than its value. */
static void complain_of_key(const draft *d, const config_place *place, const char *text)
{
    config_complain_at(d->reader->errors, place->key->begin, place, "%s", text);
}

/* Gives an answer its place. first: the index in the draft of the part's first entry. */
static void complain_of(const draft *d, const weir_rule_error *error, size_t first)
{
    config_errors *e = d->reader->errors;
    size_t i = first + error->index;
    switch (error->part) {
    case WEIR_RULE_NAME:
        complain_of_key(d, d->place, error->text);
        return;
    case WEIR_RULE_LIMIT:
        complain_of_policy(d, &d->limit, error);
        return;
    case WEIR_RULE_OVERRIDE:
        complain_of_key(d, &d->overrides[i], error->text);
        return;
    case WEIR_RULE_OVERRIDE_LIMIT:
        complain_of_policy(d, &d->overrides[i], error);
        return;
    case WEIR_RULE_ALLOW:
        config_complain(e, &d->allow[i], "%s", error->text);
        return;
    case WEIR_RULE_DENY:
        config_complain(e, &d->deny[i], "%s", error->text);
        return;
    case WEIR_RULE_BITS:
        config_complain(e, &d->ip, "%s", error->text);
        return;
    }
}

/* Checks a spec: the draft's, or a part of it. */
static void check(const draft *d, const weir_rule_spec *spec, size_t first)
{
    weir_rule_error error = {0};
    weir_status st = weir_rule_check(spec, d->reader->zones, NULL, &error);
    if (st == WEIR_E_NOMEM)
        d->reader->arena->failed = true;
    else if (st != WEIR_OK)
        complain_of(d, &error, first);
}

static bool fits(const draft *d, const config_place *places, size_t n)
{
    if (n <= WEIR_RULE_PATTERNS_MAX)
        return true;
    const config_place *one = &places[WEIR_RULE_PATTERNS_MAX];
    config_complain_at(d->reader->errors, one->key ? one->key->begin : one->node->begin, one->up,
                       "%zu entries, expected at most %d", n, WEIR_RULE_PATTERNS_MAX);
    return false;
}

/* Each part by itself, with what is good in place of the rest. */
static void check_parts(const draft *d)
{
    static const char good[] = "gcra 1/s";
    const weir_rule_spec *whole = &d->spec;
    const weir_rule_spec empty = {.name = "good", .limit = good, .plain_keys = whole->plain_keys};
    weir_rule_spec part = empty;
    part.name = whole->name;
    check(d, &part, 0);
    part = empty;
    part.limit = whole->limit ? whole->limit : good;
    check(d, &part, 0);
    part = empty;
    part.overrides_len = 1;
    for (size_t i = 0; i < whole->overrides_len; i++) {
        part.overrides = &whole->overrides[i];
        check(d, &part, i);
    }
    part = empty;
    part.allow_len = 1;
    for (size_t i = 0; i < whole->allow_len; i++) {
        part.allow = &whole->allow[i];
        check(d, &part, i);
    }
    part = empty;
    part.deny_len = 1;
    for (size_t i = 0; i < whole->deny_len; i++) {
        part.deny = &whole->deny[i];
        check(d, &part, i);
    }
}

/* Checks the whole rule. Returns whether it is correct; the spec then has the parsed policies. */
static bool check_whole(draft *d)
{
    size_t n = d->spec.overrides_len;
    weir_policy *policies = config_alloc_array(d->reader->arena, 1 + n, sizeof *policies);
    weir_rule_error error = {0};
    if (weir_rule_check(&d->spec, d->reader->zones, policies, &error) != WEIR_OK)
        return false;
    for (size_t i = 0; policies && i < n; i++)
        d->override_specs[i].policy = &policies[1 + i];
    d->spec.policy = policies;
    return true;
}

/* Most rules are correct, so the whole rule is checked first. weir_rule_check() reports the first
 * error only. To report all errors, the parts are then checked one by one. */
static void check_draft(draft *d)
{
    bool fit = fits(d, d->overrides, d->spec.overrides_len);
    fit = fits(d, d->allow, d->spec.allow_len) && fit;
    fit = fits(d, d->deny, d->spec.deny_len) && fit;
    bool is_whole = fit && d->spec.limit;
    if (is_whole && check_whole(d))
        return;
    size_t before = d->reader->errors->found;
    check_parts(d);
    if (is_whole && d->reader->errors->found == before)
        check(d, &d->spec, 0); /* the parts are good, but not together */
}

/* ---- the section ----------------------------------------------------------------------------- */

static const config_field rule_fields[] = {
    {.name = "limit", .read = read_limit},
    {.name = "overrides", .read = read_overrides},
    {.name = "allow", .read = read_allow},
    {.name = "deny", .read = read_deny},
    {.name = "shadow", .read = read_shadow, .offset = offsetof(weir_rule_spec, shadow)},
    {.name = "ip", .read = read_ip},
    {.name = "engine", .read = read_engine, .offset = offsetof(weir_rule_spec, engine)},
    {.name = "on_error", .read = read_on_error, .offset = offsetof(weir_rule_spec, on_error)},
};

static weir_rule_spec read_rule(config_reader *r, const config_place *place)
{
    draft d = {.spec = WEIR_RULE_SPEC_DEFAULT, .place = place, .reader = r};
    d.spec.name = place->key->text;
    d.spec.engine = r->engine;
    d.limit = d.ip = *place;
    if (place->node->kind != CONFIG_MAP) {
        if (config_want_text(r, place, "a policy text, such as \"gcra 100/s burst 20\", or a map"))
            d.spec.limit = place->node->text;
    } else if (config_read_map(r, place, rule_fields, sizeof rule_fields / sizeof rule_fields[0],
                               &d) &&
               !config_get(place->node, "limit")) {
        config_complain_at(r->errors, place->key->begin, place,
                           "the key limit is missing, expected %s", limit_expected);
    }
    if (d.spec.on_error != WEIR_ON_ERROR_DEFAULT && d.spec.engine == WEIR_ENGINE_LOCAL)
        config_complain_at(r->errors, d.on_error.key->begin, place,
                           "on_error is for an engine that asks a server, expected engine: redis "
                           "or hybrid beside it");
    check_draft(&d);
    return d.spec;
}

bool config_read_policies(config_reader *r, const config_place *place, const config_field *field,
                          void *base)
{
    (void)field;
    (void)base;
    if (config_is_empty(place->node))
        return true;
    if (place->node->kind != CONFIG_MAP) {
        config_complain(r->errors, place,
                        "expected a map of names and policies, such as login: gcra 5/m burst 3");
        return false;
    }
    if (place->node->children > WEIR_RULES_MAX) {
        config_complain(r->errors, place, "%zu policies, expected at most %d",
                        place->node->children, WEIR_RULES_MAX);
        return false;
    }
    weir_rule_spec *specs = config_alloc_array(r->arena, place->node->children, sizeof *specs);
    if (!specs)
        return false;
    size_t n = 0;
    for (const config_node *key = place->node->first; key; key = key->next) {
        const config_place below = {place, key, 0, key->value};
        if (!key->bad && !key->value->bad)
            specs[n++] = read_rule(r, &below);
    }
    r->config->rules = specs;
    r->config->rules_len = n;
    return true;
}
