/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* Warnings of descriptors and of their keys that have no effect. The reference accepts all of them
 * without a word. */

#include "rls/daemon/guest.h"

#include "core/check.h"

#include <string.h>

/* ---- names ----------------------------------------------------------------------------------- */

static bool has_name(const weir_rls_spec *specs, size_t n, const char *name)
{
    bool found = false;
    for (size_t i = 0; i < n && !found; i++)
        found = (specs[i].name && strcmp(specs[i].name, name) == 0) ||
                has_name(specs[i].descriptors, specs[i].descriptors_len, name);
    return found;
}

/* Whether a limit of a domain, which several files may have, has a name. */
static bool is_known(const envoy_settings *envoy, const char *domain, const char *name)
{
    bool found = false;
    for (size_t i = 0; i < envoy->domains_len && !found; i++)
        found = strcmp(envoy->domains[i].domain, domain) == 0 &&
                has_name(envoy->domains[i].descriptors, envoy->domains[i].descriptors_len, name);
    return found;
}

static void check_replaces(const config_reader *r, const envoy_origin *o, const char *domain)
{
    const config_place limit = config_below(o->place, "rate_limit");
    const config_place replaces = config_below(&limit, "replaces");
    size_t i = 0;
    if (o->descriptor->replaces_len == 0)
        return;
    for (config_place entry = {0}; config_next_entry(&replaces, &entry); i++) {
        if (!is_known(envoy_settings_of(r->config), domain, o->descriptor->replaces[i]))
            config_warn(o->errors, &entry,
                        "this has no effect, because no limit of the domain has this name");
    }
}

/* ---- keys of a descriptor -------------------------------------------------------------------- */

static void check_switches(const envoy_origin *o)
{
    const weir_rls_spec *s = o->descriptor;
    bool one = s->value && s->value[0] && !strchr(s->value, '*');
    const struct {
        const char *key, *why;
        bool useless;
    } rows[] = {
        {"shadow_mode", "there is no limit here", s->shadow_mode && !s->has_limit},
        {"shadow_mode", "the limit is unlimited", s->shadow_mode && s->unlimited},
        {"quota_mode", "there is no limit here", s->quota_mode && !s->has_limit},
        {"late", "there is no limit here", s->late && !s->has_limit},
        {"late", "the limit is unlimited", s->late && s->unlimited},
        {"keep", "there is no limit here", s->keep != 0 && !s->has_limit},
        {"keep", "the limit is unlimited", s->keep != 0 && s->unlimited},
        {"detailed_metric", "there is no limit here", s->detailed_metric && !s->has_limit},
        {"value_to_metric", "value is a single value", s->value_to_metric && one},
    };
    for (size_t i = 0; i < CONFIG_LENGTH(rows); i++) {
        const config_place place = config_below(o->place, rows[i].key);
        if (rows[i].useless)
            config_warn(o->errors, &place, "this has no effect, because %s", rows[i].why);
    }
}

/* The largest cost that a limit ever allows to requests that keep units. It was built without an
 * error. */
static int64_t most_of(const weir_zones *zones, const weir_rls_spec *s)
{
    weir_policy p;
    if (!s->policy)
        return s->requests_per_unit - weir_kept_of_limit(s->requests_per_unit, s->keep);
    return weir_policy_parse(&p, s->policy, strlen(s->policy), zones, NULL) == WEIR_OK
               ? weir_keep_most(&p, s->keep)
               : INT64_MAX;
}

static void check_keep(const config_reader *r, const envoy_origin *o)
{
    const weir_rls_spec *s = o->descriptor;
    const config_place place = config_below(o->place, "keep");
    if (s->keep != 0 && s->has_limit && !s->unlimited && most_of(r->zones, s) < 1)
        config_warn(o->errors, &place,
                    "no request is allowed, because the limit has no more than what they keep");
}

/* ---- descriptors of one list ----------------------------------------------------------------- */

typedef struct list {
    config_reader *r;
    config_errors *errors;
    const weir_rls_spec *specs;
    size_t len;
    weir_slice *patterns; /* those before the descriptor, as they are matched */
    const weir_rls_spec **of;
    size_t patterns_len;
} list;

/* The text that a descriptor matches: "KEY_VALUE". */
static weir_slice text_of(config_reader *r, const weir_rls_spec *s)
{
    size_t key = strlen(s->key), value = strlen(s->value);
    char *text = weir_arena_alloc(r->arena, key + value + 2, 1);
    if (!text)
        return (weir_slice){0};
    memcpy(text, s->key, key);
    text[key] = '_';
    memcpy(text + key + 1, s->value, value);
    return (weir_slice){text, key + 1 + value};
}

/* Warns of a pattern that an earlier one covers: a '*' in its text matches one in theirs. */
static void check_pattern(list *l, const config_place *place, const weir_rls_spec *s)
{
    const config_place value = config_below(place, "value");
    weir_slice text = text_of(l->r, s);
    size_t i = 0;
    if (!text.at)
        return;
    while (i < l->patterns_len && !weir_rls_pattern_matches(l->patterns[i], text))
        i++;
    if (i < l->patterns_len)
        config_warn(l->errors, &value,
                    "no request reaches this descriptor, because '%.64s' before it matches all of "
                    "them: put the narrower pattern first",
                    l->of[i]->value);
    l->of[l->patterns_len] = s;
    l->patterns[l->patterns_len++] = text;
}

/* Warns of a descriptor that limits nothing, and exempts no value from other descriptors. */
static void check_empty(const list *l, const config_place *place, const weir_rls_spec *s)
{
    size_t same = 0;
    for (size_t i = 0; i < l->len; i++)
        same += strcmp(l->specs[i].key, s->key) == 0;
    if (same == 1)
        config_warn(l->errors, place,
                    "this limits nothing, because it has neither rate_limit nor descriptors");
}

static void check_list(config_reader *r, const envoy_origin *o, const config_place *place,
                       const weir_rls_spec *specs, size_t n)
{
    list l = {r,
              o->errors,
              specs,
              n,
              weir_arena_alloc(r->arena, n, sizeof *l.patterns),
              weir_arena_alloc(r->arena, n, sizeof *l.of),
              0};
    size_t i = 0;
    if (!l.patterns || !l.of || n == 0)
        return;
    for (config_place entry = {0}; config_next_entry(place, &entry); i++) {
        const weir_rls_spec *s = &specs[i];
        if (s->value && strchr(s->value, '*'))
            check_pattern(&l, &entry, s);
        if (!s->has_limit && s->descriptors_len == 0 &&
            !envoy_settings_of(r->config)->merge_domains)
            check_empty(&l, &entry, s);
    }
}

/* ---- all files ------------------------------------------------------------------------------- */

void envoy_check_effects(config_reader *r)
{
    const char *domain = "";
    for (const envoy_origin *o = envoy_settings_of(r->config)->origins; o; o = o->next) {
        const config_place below = config_below(o->place, "descriptors");
        if (o->domain) { /* after its descriptors in the file, so before them in the list */
            domain = o->domain->domain;
            check_list(r, o, &below, o->domain->descriptors, o->domain->descriptors_len);
            if (o->domain->descriptors_len == 0 && !envoy_settings_of(r->config)->merge_domains)
                config_warn(o->errors, o->place,
                            "every request of this domain is allowed, because it has no "
                            "descriptors");
            continue;
        }
        check_replaces(r, o, domain);
        check_switches(o);
        check_keep(r, o);
        check_list(r, o, &below, o->descriptor->descriptors, o->descriptor->descriptors_len);
    }
}
