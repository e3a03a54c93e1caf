/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* From the tree to specs. Values are read as the reference's YAML parser reads them: a text may be
 * any word or whole number, a switch may be `yes`, and a number may be hexadecimal. A known key at
 * a place where it has no effect is a warning, because the reference ignores it. */

#include "rls/daemon/guest.h"

#include "port/text.h"
#include "service/rules/keep.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { SHOWN = 40 };

typedef struct reader {
    weir_arena *arena;
    config_errors *errors;
    envoy_origin **origins;
} reader;

/* A key of a map. */
typedef struct member {
    const char *name;
    void (*read)(reader *r, const config_place *place, const struct member *m, void *base);
    size_t offset; /* of the member that stores the value */
} member;

/* ---- scalars --------------------------------------------------------------------------------- */

static bool is_one_of(const char *text, const char *const *words, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (strcmp(text, words[i]) == 0)
            return true;
    }
    return false;
}

static bool is_null(const config_node *n)
{
    static const char *const words[] = {"", "~", "null", "Null", "NULL"};
    return n->kind == CONFIG_SCALAR && n->style == CONFIG_PLAIN &&
           is_one_of(n->text, words, CONFIG_LENGTH(words));
}

/* Copies a number without its underscores. Returns false if it is too long to be one. */
static bool copy_digits(const char *text, char ret[static 72])
{
    size_t len = 0;
    for (; *text; text++) {
        if (len == 71)
            return false;
        if (*text != '_')
            ret[len++] = *text;
    }
    ret[len] = '\0';
    return true;
}

/* Reads a whole number: decimal, 0x, 0b, 0o, or octal after a 0. Returns false if the text is none.
 *  ret_fits  whether it fits into an int64_t.
 *  ret       the value; UINT64_MAX if it is negative or does not fit. */
static bool read_integer(const char *text, bool *ret_fits, uint64_t *ret)
{
    char digits[72];
    if (!copy_digits(text, digits))
        return false;
    const char *at = digits + (digits[0] == '-' || digits[0] == '+');
    unsigned base = 10;
    if (at[0] == '0' && at[1] != '\0') {
        char letter = (char)(at[1] | 0x20);
        base = letter == 'x' ? 16 : letter == 'b' ? 2 : 8;
        at += letter == 'x' || letter == 'b' || letter == 'o' ? 2 : 1;
    }
    uint64_t v = 0;
    bool negative = digits[0] == '-', fits = true;
    if (*at == '\0')
        return false;
    for (; *at; at++) {
        int digit = weir_hex_digit(*at);
        if (digit < 0 || (unsigned)digit >= base)
            return false;
        fits = fits && v <= ((uint64_t)INT64_MAX + negative - (unsigned)digit) / base;
        v = v * base + (unsigned)digit;
    }
    *ret_fits = fits;
    *ret = fits && !negative ? v : UINT64_MAX;
    return true;
}

/* Whether a plain scalar that is no whole number is a number, such as 1.5, 1e3 or 08. */
static bool is_float(const char *text)
{
    static const char *const words[] = {".inf",  ".Inf",  ".INF",  "+.inf", "+.Inf", "+.INF",
                                        "-.inf", "-.Inf", "-.INF", ".nan",  ".NaN",  ".NAN"};
    static const char digits[] = "0123456789";
    char copy[72];
    if (is_one_of(text, words, CONFIG_LENGTH(words)))
        return true;
    if (!copy_digits(text, copy))
        return false;
    const char *at = copy + (copy[0] == '-' || copy[0] == '+');
    size_t whole = strspn(at, digits), fraction = 0;
    at += whole;
    if (*at == '.')
        fraction = strspn(++at, digits);
    at += fraction;
    if (*at == 'e' || *at == 'E') {
        at += 1 + (at[1] == '-' || at[1] == '+');
        size_t n = strspn(at, digits);
        at += n;
        whole = n > 0 ? whole : 0;
        fraction = n > 0 ? fraction : 0;
    }
    return whole + fraction > 0 && *at == '\0';
}

static const char *kind_name(const config_node *n)
{
    return n->kind == CONFIG_MAP ? "a map" : n->kind == CONFIG_LIST ? "a list" : "a value";
}

/* Whether the value is a scalar. If not, reports it. */
static bool want_scalar(reader *r, const config_place *place, const char *expected)
{
    if (place->node->kind != CONFIG_SCALAR)
        config_error(r->errors, place, "expected %s, found %s", expected, kind_name(place->node));
    return place->node->kind == CONFIG_SCALAR && !place->node->bad;
}

/* Stores a text; "" for a null. */
static void read_text(reader *r, const config_place *place, const member *m, void *base)
{
    const config_node *n = place->node;
    uint64_t value;
    bool fits = true;
    if (!want_scalar(r, place, "a text"))
        return;
    bool plain = n->style == CONFIG_PLAIN;
    bool whole = plain && read_integer(n->text, &fits, &value);
    if (plain && ((whole && !fits) || (!whole && is_float(n->text))))
        config_error(r->errors, place,
                     "found the number %.*s, expected a text; write it in quotes: \"%.*s\"", SHOWN,
                     n->text, SHOWN, n->text);
    else
        *(const char **)((char *)base + m->offset) = is_null(n) ? "" : n->text;
}

static const char *const yes[] = {"true", "True", "TRUE", "yes", "Yes", "YES",
                                  "on",   "On",   "ON",   "y",   "Y"};
static const char *const no[] = {"false", "False", "FALSE", "no", "No", "NO",
                                 "off",   "Off",   "OFF",   "n",  "N"};

static void read_switch(reader *r, const config_place *place, const member *m, void *base)
{
    const config_node *n = place->node;
    if (!want_scalar(r, place, "true or false"))
        return;
    bool plain = n->style == CONFIG_PLAIN, on = is_one_of(n->text, yes, CONFIG_LENGTH(yes));
    if (plain && (on || is_null(n) || is_one_of(n->text, no, CONFIG_LENGTH(no))))
        *(bool *)((char *)base + m->offset) = on;
    else
        config_error(r->errors, place, "expected true or false%s, found '%.*s'",
                     plain ? "" : " without quotes", SHOWN, n->text);
}

static void read_count(reader *r, const config_place *place, const member *m, void *base)
{
    static const char expected[] = "a whole number from 0 to 4294967295";
    const config_node *n = place->node;
    uint64_t value = 0;
    bool fits = true;
    if (!want_scalar(r, place, expected))
        return;
    bool plain = n->style == CONFIG_PLAIN, whole = read_integer(n->text, &fits, &value);
    if (plain && (is_null(n) || (whole && value <= UINT32_MAX)))
        *(uint32_t *)((char *)base + m->offset) = (uint32_t)value;
    else
        config_error(r->errors, place, "expected %s%s, found '%.*s'", expected,
                     plain ? "" : ", without quotes", SHOWN, n->text);
}

/* As config_read_keep(). */
static void read_keep(reader *r, const config_place *place, const member *m, void *base)
{
    const config_node *n = place->node;
    int64_t *ret = (int64_t *)((char *)base + m->offset);
    if (want_scalar(r, place, "units or a share, such as 20%") &&
        !weir_keep_read((weir_slice){n->text, n->len}, ret))
        config_error(r->errors, place, "%s, found '%.*s'", WEIR_KEEP_EXPECTED, SHOWN, n->text);
}

/* ---- maps ------------------------------------------------------------------------------------ */

/* The keys of all maps: the reference accepts each of them in every map. */
static const char *const all_keys[] = {
    "domain",    "key",  "value",    "descriptors",     "rate_limit",      "unit",
    "unlimited", "name", "replaces", "shadow_mode",     "quota_mode",      "requests_per_unit",
    "metadata",  "weir", "atomic",   "detailed_metric", "value_to_metric", "share_threshold",
    "late",      "keep"};

static const member *find_member(const member *members, size_t n, const char *name)
{
    for (size_t i = 0; i < n; i++) {
        if (strcmp(members[i].name, name) == 0)
            return &members[i];
    }
    return NULL;
}

/* Reports a key that is not in the table of its map. */
static void report_key(reader *r, const config_place *place, const config_node *key)
{
    const config_place below = {.up = place, .key = key, .node = key};
    const char *meant = NULL;
    size_t nearest = strlen(key->text) < 4 ? 2 : 3;
    static const char *const own_keys[] = {"weir", "atomic", "late", "keep"};
    bool own = is_one_of(key->text, own_keys, CONFIG_LENGTH(own_keys));
    if (own) {
        config_error_on(r->errors, key, place,
                        "%s is not possible here, expected it in a descriptor, beside key",
                        key->text);
        return;
    }
    if (is_one_of(key->text, all_keys, CONFIG_LENGTH(all_keys))) {
        config_warn(r->errors, &below, "%s has no effect here", key->text);
        return;
    }
    for (size_t i = 0; i < CONFIG_LENGTH(all_keys); i++) {
        size_t distance = weir_edit_distance(key->text, all_keys[i]);
        if (distance < nearest) {
            nearest = distance;
            meant = all_keys[i];
        }
    }
    if (meant)
        config_error_on(r->errors, key, place, "unknown key '%.*s', did you mean '%s'?", SHOWN,
                        key->text, meant);
    else
        config_error_on(r->errors, key, place, "unknown key '%.*s'", SHOWN, key->text);
}

static void read_members(reader *r, const config_place *place, const member *members, size_t n,
                         void *base)
{
    for (const config_node *key = place->node->first; key; key = key->next) {
        const config_place below = {.up = place, .key = key, .node = key->value};
        const member *m = key->bad ? NULL : find_member(members, n, key->text);
        if (m)
            m->read(r, &below, m, base);
        else if (!key->bad)
            report_key(r, place, key);
    }
}

/* ---- rate_limit ------------------------------------------------------------------------------ */

/* A limit, before it is known to be valid. */
typedef struct limit {
    uint32_t requests_per_unit;
    const char *unit, *name;
    bool unlimited;
    const config_node *replaces;
    const char **replaced;
    size_t replaced_len;
} limit;

static const member replaces_members[] = {{"name", read_text, 0}};

/* Reads a list of maps that each have a name. */
static void read_replaces(reader *r, const config_place *place, const member *m, void *base)
{
    limit *l = base;
    const config_node *n = place->node;
    (void)m;
    if (is_null(n) || n->bad)
        return;
    if (n->kind != CONFIG_LIST) {
        config_error(r->errors, place, "expected a list, such as [{name: other}], found %s",
                     kind_name(n));
        return;
    }
    l->replaces = n;
    l->replaced = weir_arena_alloc(r->arena, n->children, sizeof *l->replaced);
    for (config_place entry = {0}; l->replaced && config_next_entry(place, &entry);) {
        const char **name = &l->replaced[l->replaced_len++];
        *name = "";
        if (entry.node->kind != CONFIG_MAP) {
            config_error(r->errors, &entry, "expected a map, such as {name: other}, found %s",
                         kind_name(entry.node));
            *name = NULL;
        } else {
            read_members(r, &entry, replaces_members, CONFIG_LENGTH(replaces_members), name);
        }
    }
}

static const member limit_members[] = {
    {"requests_per_unit", read_count, offsetof(limit, requests_per_unit)},
    {"unit", read_text, offsetof(limit, unit)},
    {"name", read_text, offsetof(limit, name)},
    {"unlimited", read_switch, offsetof(limit, unlimited)},
    {"replaces", read_replaces, 0},
};

static void check_unit(reader *r, const config_place *place, const limit *l, weir_rls_spec *spec)
{
    const config_place unit = config_below(place, "unit");
    const config_place *at = unit.node ? &unit : place;
    spec->unit = weir_rls_unit_read(l->unit);
    bool valid = spec->unit != WEIR_RLS_UNIT_UNKNOWN;
    if (unit.node && unit.node->bad)
        return;
    if (l->unlimited && valid)
        config_error(r->errors, at,
                     "found a unit beside unlimited: true, expected only one of them");
    else if (!l->unlimited && !valid)
        config_error(r->errors, at,
                     "invalid rate limit unit '%.*s', expected second, minute, hour, day, week, "
                     "month or year",
                     SHOWN, l->unit);
}

static void check_replaces(reader *r, const config_place *place, const limit *l)
{
    const config_place below = config_below(place, "replaces");
    size_t i = 0;
    for (config_place entry = {0}; l->replaced && config_next_entry(&below, &entry); i++) {
        if (l->replaced[i] && l->replaced[i][0] == '\0')
            config_error(r->errors, &entry, "empty name, expected the name of another limit");
        else if (l->replaced[i] && strcmp(l->replaced[i], l->name) == 0)
            config_error(r->errors, &entry,
                         "replaces the limit itself, expected the name of another limit");
    }
}

/* Warns of a number that has no effect, and of one that is missing. */
static void check_count(reader *r, const config_place *place, const limit *l)
{
    const config_place count = config_below(place, "requests_per_unit");
    if (l->unlimited && count.node)
        config_warn(r->errors, &count, "requests_per_unit has no effect beside unlimited: true");
    else if (!l->unlimited && !count.node)
        config_warn(r->errors, place,
                    "requests_per_unit is missing, so it is 0, and every request is denied");
}

static void read_limit(reader *r, const config_place *place, const member *m, void *base)
{
    weir_rls_spec *spec = base;
    limit l = {.unit = "", .name = ""};
    (void)m;
    if (is_null(place->node) || place->node->bad)
        return;
    if (place->node->kind != CONFIG_MAP) {
        config_error(r->errors, place,
                     "expected a map, such as {unit: minute, requests_per_unit: 10}, found %s",
                     kind_name(place->node));
        return;
    }
    size_t before = r->errors->found - r->errors->warnings;
    read_members(r, place, limit_members, CONFIG_LENGTH(limit_members), &l);
    if (r->errors->found - r->errors->warnings == before) {
        check_unit(r, place, &l, spec);
        check_replaces(r, place, &l);
        check_count(r, place, &l);
    }
    spec->has_limit = true;
    spec->requests_per_unit = l.requests_per_unit;
    spec->unlimited = l.unlimited;
    spec->name = l.name;
    spec->replaces = l.replaced;
    spec->replaces_len = l.replaced_len;
}

/* ---- descriptors ----------------------------------------------------------------------------- */

static void read_policy(reader *r, const config_place *place, const member *m, void *base)
{
    weir_rls_spec *spec = base;
    const config_node *n = place->node;
    (void)m;
    if (!want_scalar(r, place, "a policy, such as \"gcra 100/s burst 20\""))
        return;
    if (n->len == 0) {
        config_error(r->errors, place,
                     "expected a policy, such as \"gcra 100/s burst 20\", found "
                     "nothing");
        return;
    }
    spec->policy = n->text;
    spec->has_limit = true;
}

static weir_rls_value *read_value(reader *r, const config_place *place);

/* Reads the members of a map or a list. */
static void read_value_members(reader *r, const config_place *place, weir_rls_value *to)
{
    weir_rls_value **end = &to->first;
    bool map = place->node->kind == CONFIG_MAP;
    size_t index = 0;
    for (const config_node *n = place->node->first; n; n = n->next, index++) {
        const config_place below = {
            .up = place, .key = map ? n : NULL, .index = index, .node = map ? n->value : n};
        weir_rls_value *v = read_value(r, &below);
        if (!v)
            return;
        if (map)
            v->name = (weir_slice){n->text, n->len};
        *end = v;
        end = &v->next;
    }
}

/* Reads a plain scalar that may be a number. Returns false if it is none. */
static bool read_value_number(reader *r, const config_place *place, double *ret)
{
    const char *text = place->node->text;
    bool negative = text[0] == '-', fits = false;
    uint64_t value;
    char digits[72];
    bool whole = read_integer(text + negative, &fits, &value);
    if (!whole && !is_float(text))
        return false;
    /* strtod() knows decimal and hexadecimal numbers. */
    bool octal_or_binary = whole && text[negative] == '0' && !strchr("xX", text[negative + 1]);
    *ret = whole && fits ? (negative ? -(double)value : (double)value)
           : !octal_or_binary && copy_digits(text, digits) ? strtod(digits, NULL)
                                                           : HUGE_VAL;
    if (!isfinite(*ret) || strpbrk(text, "iInN"))
        config_error(r->errors, place, "expected a finite number or a text in quotes, found %.*s",
                     SHOWN, text);
    return true;
}

/* Returns NULL if memory is exhausted. */
static weir_rls_value *read_value(reader *r, const config_place *place)
{
    const config_node *n = place->node;
    weir_rls_value *v = weir_arena_alloc(r->arena, 1, sizeof *v);
    if (!v || n->bad || is_null(n))
        return v;
    v->kind = n->kind == CONFIG_MAP ? WEIR_RLS_MAP : WEIR_RLS_LIST;
    if (n->kind != CONFIG_SCALAR) {
        read_value_members(r, place, v);
        return v;
    }
    bool plain = n->style == CONFIG_PLAIN;
    v->truth = is_one_of(n->text, yes, CONFIG_LENGTH(yes));
    if (plain && (v->truth || is_one_of(n->text, no, CONFIG_LENGTH(no))))
        v->kind = WEIR_RLS_BOOL;
    else if (plain && read_value_number(r, place, &v->number))
        v->kind = WEIR_RLS_NUMBER;
    else
        v->kind = WEIR_RLS_TEXT;
    v->text = (weir_slice){n->text, n->len};
    return v;
}

/* Any map. */
static void read_metadata(reader *r, const config_place *place, const member *m, void *base)
{
    (void)m;
    if (place->node->kind != CONFIG_MAP && !is_null(place->node))
        config_error(r->errors, place, "expected a map, found %s", kind_name(place->node));
    else if (place->node->first)
        ((weir_rls_spec *)base)->metadata = read_value(r, place);
}

static void read_list(reader *r, const config_place *place, const weir_rls_spec **ret,
                      size_t *ret_len);

static void read_below(reader *r, const config_place *place, const member *m, void *base)
{
    weir_rls_spec *spec = base;
    (void)m;
    read_list(r, place, &spec->descriptors, &spec->descriptors_len);
}

#define SPEC(member) offsetof(weir_rls_spec, member)

static const member spec_members[] = {
    {"key", read_text, SPEC(key)},
    {"value", read_text, SPEC(value)},
    {"rate_limit", read_limit, 0},
    {"weir", read_policy, 0},
    {"atomic", read_switch, SPEC(atomic)},
    {"late", read_switch, SPEC(late)},
    {"keep", read_keep, SPEC(keep)},
    {"shadow_mode", read_switch, SPEC(shadow_mode)},
    {"quota_mode", read_switch, SPEC(quota_mode)},
    {"detailed_metric", read_switch, SPEC(detailed_metric)},
    {"value_to_metric", read_switch, SPEC(value_to_metric)},
    {"share_threshold", read_switch, SPEC(share_threshold)},
    {"metadata", read_metadata, 0},
    {"descriptors", read_below, 0},
};

static void add_origin(reader *r, envoy_origin origin)
{
    envoy_origin *o = weir_arena_alloc(r->arena, 1, sizeof *o);
    if (!o)
        return;
    origin.next = *r->origins;
    origin.errors = r->errors;
    *o = origin;
    *r->origins = o;
}

/* A copy of a place that lives as long as the arena. NULL if memory is exhausted. */
static const config_place *keep_place(reader *r, const config_place *place)
{
    config_place *copy = weir_arena_alloc(r->arena, 1, sizeof *copy);
    if (copy)
        *copy = *place;
    return copy;
}

static void read_descriptor(reader *r, const config_place *place, weir_rls_spec *spec)
{
    spec->key = "";
    if (place->node->kind != CONFIG_MAP) {
        config_error(r->errors, place, "expected a map, such as {key: remote_address}, found %s",
                     is_null(place->node) ? "nothing" : kind_name(place->node));
        return;
    }
    read_members(r, place, spec_members, CONFIG_LENGTH(spec_members), spec);
    const config_place key = config_below(place, "key");
    if (spec->key[0] == '\0' && !(key.node && key.node->bad))
        config_error_on(r->errors, (key.node ? key.node : place->node), place,
                        "descriptor has empty key");
    const config_place policy = config_below(place, "weir");
    if (spec->unlimited && spec->policy)
        config_error(r->errors, &policy,
                     "found weir beside unlimited: true, expected only one of them");
    add_origin(r, (envoy_origin){.descriptor = spec, .place = place});
}

/* Reads a list of descriptors, at any depth. */
static void read_list(reader *r, const config_place *place, const weir_rls_spec **ret,
                      size_t *ret_len)
{
    const config_node *n = place->node;
    if (is_null(n) || n->bad)
        return;
    if (n->kind != CONFIG_LIST) {
        config_error(r->errors, place, "expected a list of descriptors, found %s", kind_name(n));
        return;
    }
    const config_place *list = keep_place(r, place);
    weir_rls_spec *specs = weir_arena_alloc(r->arena, n->children, sizeof *specs);
    for (config_place entry = {0}; list && specs && config_next_entry(list, &entry);) {
        const config_place *kept = keep_place(r, &entry);
        if (!kept)
            return;
        read_descriptor(r, kept, &specs[(*ret_len)++]);
    }
    *ret = specs;
}

/* ---- the file -------------------------------------------------------------------------------- */

static void read_top(reader *r, const config_place *place, const member *m, void *base)
{
    weir_rls_domain_spec *domain = base;
    (void)m;
    read_list(r, place, &domain->descriptors, &domain->descriptors_len);
}

static const member domain_members[] = {
    {"domain", read_text, offsetof(weir_rls_domain_spec, domain)},
    {"atomic", read_switch, offsetof(weir_rls_domain_spec, atomic)},
    {"descriptors", read_top, 0},
};

void envoy_read_descriptors(weir_arena *arena, config_errors *errors, envoy_origin **origins,
                            weir_rls_domain_spec *ret)
{
    reader r = {arena, errors, origins};
    *ret = (weir_rls_domain_spec){.domain = ""};
    const config_node *node = config_tree_read_anchored(arena, errors, errors->text, errors->len);
    config_redact(errors, node);
    errors->hidden = !config_get(node, "domain") && !config_get(node, "descriptors");
    const config_place *root = node ? keep_place(&r, &(config_place){.node = node}) : NULL;
    if (!root || node->bad)
        return;
    if (!errors->hidden)
        read_members(&r, root, domain_members, CONFIG_LENGTH(domain_members), ret);
    else if (node->kind != CONFIG_MAP && !is_null(node))
        config_error(errors, root, "expected a map with domain and descriptors, found %s",
                     kind_name(node));
    const config_place domain = config_below(root, "domain");
    if (ret->domain[0] == '\0' && !node->bad && !(domain.node && domain.node->bad))
        config_error_on(errors, (domain.node ? domain.node : node), NULL,
                        "config file cannot have empty domain");
    add_origin(&r, (envoy_origin){.domain = ret, .place = root});
}

void envoy_report_descriptor(const envoy_origin *origin, uint32_t column, const char *text)
{
    static const char *const names[] = {"weir", "key", "domain"};
    const config_place *place = origin->place;
    const config_node *node = NULL;
    size_t at;
    for (size_t i = column > 0 ? 0 : 1; i < CONFIG_LENGTH(names) && !node; i++)
        node = config_get(place->node, names[i]);
    if (column > 0 && node && config_column(origin->errors, node, column, &at)) {
        const config_place policy = config_below(place, "weir");
        config_error_at(origin->errors, at, &policy, "%s", text);
    } else if (column > 0) {
        config_error_on(origin->errors, place->node, place, "column %u of the policy: %s", column,
                        text);
    } else {
        config_error_on(origin->errors, (node ? node : place->node), place, "%s", text);
    }
}
