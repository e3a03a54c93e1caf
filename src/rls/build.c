/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* Builds configurations: checks the descriptors, makes the tree with its hash table, and names a
 * rule for each limit. match.c reads the tree. */

#include "rls/config_internal.h"

#include "port/assert.h"
#include "port/port.h"

#include <ctype.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <weir/weir_zone.h>

/* ---- units ----------------------------------------------------------------------------------- */

static const struct unit {
    const char *word;
    const char *period, *calendar; /* in a policy text */
    int64_t seconds;
} units[WEIR_RLS_UNITS] = {
    [WEIR_RLS_UNIT_UNKNOWN] = {.word = "UNKNOWN"},
    [WEIR_RLS_SECOND] = {"SECOND", "s", "s", 1},
    [WEIR_RLS_MINUTE] = {"MINUTE", "m", "m", 60},
    [WEIR_RLS_HOUR] = {"HOUR", "h", "h", 3600},
    [WEIR_RLS_DAY] = {"DAY", "d", "d", 86400},
    [WEIR_RLS_MONTH] = {"MONTH", "30d", "month", 30 * 86400},
    [WEIR_RLS_YEAR] = {"YEAR", "365d", "year", 365 * 86400},
    [WEIR_RLS_WEEK] = {"WEEK", "7d", "7d", 7 * 86400},
};

static const int64_t second_ns = 1000000000;

const char *weir_rls_unit_word(weir_rls_unit unit)
{
    return units[(unsigned)unit < WEIR_RLS_UNITS ? unit : WEIR_RLS_UNIT_UNKNOWN].word;
}

weir_rls_unit weir_rls_unit_read(const char *text)
{
    for (int i = WEIR_RLS_SECOND; i < WEIR_RLS_UNITS; i++) {
        size_t at = 0;
        while (text[at] != '\0' && toupper((unsigned char)text[at]) == units[i].word[at])
            at++;
        if (text[at] == '\0' && units[i].word[at] == '\0')
            return (weir_rls_unit)i;
    }
    return WEIR_RLS_UNIT_UNKNOWN;
}

/* ---- limits ---------------------------------------------------------------------------------- */

static bool is_calendar(const weir_rls_options *options, weir_rls_unit unit)
{
    return options->calendar && (unit == WEIR_RLS_MONTH || unit == WEIR_RLS_YEAR);
}

size_t rls_policy_text(const rls_limit *limit, const weir_rls_options *options,
                       char ret[static RLS_TEXT_MAX])
{
    uint32_t n = limit->requests_per_unit;
    const struct unit *unit = &units[limit->unit];
    WEIR_ASSERT(n >= 1 && limit->unit > WEIR_RLS_UNIT_UNKNOWN && limit->unit < WEIR_RLS_UNITS);
    const char *period = is_calendar(options, limit->unit) ? unit->calendar : unit->period;
    int len = 0;
    if (limit->marks_over)
        len = snprintf(ret, RLS_TEXT_MAX, "fixed-window %u/%s count-denied & ", (unsigned)n + 1,
                       period);
    len += snprintf(ret + len, (size_t)(RLS_TEXT_MAX - len), "fixed-window %u/%s%s",
                    (unsigned)(n < WEIR_LIMIT_MAX ? n : WEIR_LIMIT_MAX), period,
                    limit->counts_denied ? " count-denied" : "");
    WEIR_ASSERT(len > 0 && len < RLS_TEXT_MAX);
    return (size_t)len;
}

uint64_t rls_near(const weir_rls_options *options, uint64_t n)
{
    float near =
        floorf((float)n * (float)options->near_limit_ratio); /* in float, as the reference */
    return near > 0 ? (uint64_t)near : 0;
}

/* Keeps where the windows begin. */
static void set_windows(rls_limit *limit, const weir_layer *layer)
{
    if (layer->algorithm != WEIR_FIXED_WINDOW || layer->calendar == WEIR_FROM_FIRST)
        return;
    limit->window_ns = layer->period_ns;
    limit->calendar = layer->calendar;
    limit->window = layer->window;
    limit->zone = layer->zone;
    limit->anchor = layer->anchor;
}

void rls_limit_derive(rls_limit *limit, const weir_rls_options *options)
{
    limit->near = rls_near(options, limit->requests_per_unit);
    limit->counts_denied = !options->stop_when_over && !limit->atomic;
    limit->marks_over = options->peeks == WEIR_RLS_PEEKS_ALLOW && limit->counts_denied &&
                        limit->requests_per_unit < WEIR_LIMIT_MAX;
    limit->window_ns = units[limit->unit].seconds * second_ns;
    if (is_calendar(options, limit->unit)) {
        limit->calendar = limit->unit == WEIR_RLS_MONTH ? WEIR_MONTH : WEIR_YEAR;
        limit->window = weir_calendar_window;
    }
}

/* The unit with a layer's period; UNKNOWN if there is none. */
static weir_rls_unit unit_of(const weir_layer *layer)
{
    switch (layer->calendar) {
    case WEIR_DAY:
        return WEIR_RLS_DAY;
    case WEIR_WEEK:
        return WEIR_RLS_WEEK;
    case WEIR_MONTH:
        return WEIR_RLS_MONTH;
    case WEIR_YEAR:
        return WEIR_RLS_YEAR;
    case WEIR_ALIGNED:
    case WEIR_FROM_FIRST:
        break;
    }
    for (int i = WEIR_RLS_SECOND; i < WEIR_RLS_UNITS; i++) {
        if (layer->period_ns == units[i].seconds * second_ns)
            return (weir_rls_unit)i;
    }
    return WEIR_RLS_UNIT_UNKNOWN;
}

/* Writes what follows from the own policy of a limit, which is new. */
static void derive_from_policy(rls_limit *limit, const weir_policy *p, bool has_unit)
{
    const weir_layer *first = &p->layer[0];
    for (uint32_t i = 0; i < p->layers; i++)
        limit->counts_denied |= p->layer[i].count_denied;
    if (p->layers == 1)
        set_windows(limit, first);
    if (has_unit)
        return;
    limit->unit = first->rate <= UINT32_MAX ? unit_of(first) : WEIR_RLS_UNIT_UNKNOWN;
    limit->shows_policy = limit->unit == WEIR_RLS_UNIT_UNKNOWN;
    limit->requests_per_unit = limit->shows_policy ? 0 : (uint32_t)first->rate;
}

/* ---- memory ---------------------------------------------------------------------------------- */

/* Copies a text, with a terminator. */
static bool copy(weir_rls_config *c, const char *text, size_t len, weir_slice *ret)
{
    char *at = weir_arena_copy(&c->arena, text, len);
    if (!at)
        return false;
    *ret = (weir_slice){at, len};
    return true;
}

static void free_config(weir_rls_config *c)
{
    weir_arena_free(&c->arena);
    port_free(c);
}

void weir_rls_config_hold(weir_rls_config *c)
{
    port_word_add_relaxed(&c->refs, 1);
}

void weir_rls_config_drop(weir_rls_config *c)
{
    if (c && port_word_drop(&c->refs))
        free_config(c);
}

/* ---- building -------------------------------------------------------------------------------- */

typedef struct build {
    weir_rls_config *c;
    const weir_zones *zones;
    const weir_rls_domain_spec *domain; /* the one that is read, for errors */
    weir_rls_config_error *error;
    char *path; /* "DOMAIN.KEY_VALUE.KEY" of the descriptor that is read */
    size_t path_len;
    rls_limit **with_rule; /* the limits with rules */
    size_t names;          /* ids of names given out */
    weir_slice *name;      /* by id; [0] is unused */
    size_t names_max;
} build;

__attribute__((format(printf, 4, 5))) static weir_status
fail(build *b, weir_status st, const weir_rls_spec *at, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    *b->error = (weir_rls_config_error){.domain = b->domain, .descriptor = at};
    vsnprintf(b->error->text, sizeof b->error->text, format, args);
    va_end(args);
    return st;
}

static bool is_given(const char *text)
{
    return text && text[0] != '\0';
}

/* The id of a name; 0 if memory is exhausted. Limits with names are few. */
static uint32_t id_of(build *b, const char *name)
{
    size_t len = strlen(name);
    for (size_t i = 1; i <= b->names; i++) {
        if (b->name[i].len == len && memcmp(b->name[i].at, name, len) == 0)
            return (uint32_t)i;
    }
    WEIR_ASSERT(b->names + 1 < b->names_max);
    if (!copy(b->c, name, len, &b->name[b->names + 1]))
        return 0;
    return (uint32_t)++b->names;
}

static weir_status check_limit(build *b, const weir_rls_spec *s)
{
    bool unit = s->unit > WEIR_RLS_UNIT_UNKNOWN && s->unit < WEIR_RLS_UNITS;
    if (s->unlimited && unit)
        return fail(b, WEIR_E_SYNTAX, s, "should not specify rate limit unit when unlimited");
    if (s->unlimited && s->policy)
        return fail(b, WEIR_E_SYNTAX, s, "should not specify a policy when unlimited");
    if (!s->unlimited && !unit && !s->policy)
        return fail(b, WEIR_E_SYNTAX, s,
                    "invalid rate limit unit: expected one of second, minute, "
                    "hour, day, week, month, year");
    for (size_t i = 0; i < s->replaces_len; i++) {
        if (!is_given(s->replaces[i]))
            return fail(b, WEIR_E_SYNTAX, s, "should not have an empty replaces entry");
        if (is_given(s->name) && strcmp(s->replaces[i], s->name) == 0)
            return fail(b, WEIR_E_SYNTAX, s, "replaces should not contain name of same descriptor");
    }
    return WEIR_OK;
}

/* Returns why a limit cannot have this layer, or NULL. */
static const char *misfit(const weir_rls_spec *s, weir_algorithm a)
{
    if (a == WEIR_LEAKY_QUEUE)
        return "leaky-queue delays requests, but the answers of this service cannot be delayed: "
               "use gcra or leaky-bucket";
    if (s->late && (a == WEIR_CONCURRENT || a == WEIR_BLOCK))
        return "late charges what was used already, which holds no concurrent units and begins no "
               "block: use another limit";
    return NULL;
}

/* Reads the policy text of a limit. */
static weir_status read_policy(build *b, rls_limit *limit, const weir_rls_spec *s)
{
    weir_policy p;
    weir_policy_error e;
    weir_status st = weir_policy_parse(&p, s->policy, strlen(s->policy), b->zones, &e);
    if (st != WEIR_OK) {
        fail(b, st, s, "%s", e.text);
        b->error->column = e.column;
        return st;
    }
    for (uint32_t i = 0; i < p.layers; i++) {
        const char *why = misfit(s, p.layer[i].algorithm);
        if (why) {
            fail(b, WEIR_E_UNSUPPORTED, s, "%s", why);
            b->error->column = 1;
            return WEIR_E_UNSUPPORTED;
        }
    }
    derive_from_policy(limit, &p, s->unit != WEIR_RLS_UNIT_UNKNOWN);
    weir_slice text;
    if (!copy(b->c, s->policy, strlen(s->policy), &text))
        return WEIR_E_NOMEM;
    limit->policy = text.at;
    return WEIR_OK;
}

static weir_status read_names(build *b, rls_limit *limit, const weir_rls_spec *s)
{
    uint32_t *ids = weir_arena_alloc(&b->c->arena, s->replaces_len, sizeof *ids);
    if (!ids)
        return WEIR_E_NOMEM;
    for (size_t i = 0; i < s->replaces_len; i++) {
        ids[i] = id_of(b, s->replaces[i]);
        if (ids[i] == 0)
            return WEIR_E_NOMEM;
    }
    limit->replaces = ids;
    limit->replaces_len = s->replaces_len;
    if (!is_given(s->name))
        return WEIR_OK;
    limit->name_id = id_of(b, s->name);
    limit->name = b->name[limit->name_id];
    return limit->name_id != 0 ? WEIR_OK : WEIR_E_NOMEM;
}

/* Keeps the policy of a rule for header fields. */
static weir_status keep_parsed(build *b, rls_limit *limit, const char *text)
{
    weir_policy_error e;
    weir_policy *p = weir_arena_alloc(&b->c->arena, 1, sizeof *p);
    if (!p)
        return WEIR_E_NOMEM;
    limit->parsed = p;
    weir_status st = weir_policy_parse(p, text, strlen(text), b->zones, &e);
    if (st == WEIR_OK && limit->marks_over) /* clients see the limit only */
        p->layer[0] = p->layer[--p->layers];
    return st;
}

/* Adds the rule of a limit. Its name is set later. */
static weir_status add_rule(build *b, rls_limit *limit)
{
    weir_rls_config *c = b->c;
    b->with_rule[c->rules_len] = limit;
    weir_rule_spec *rule = &c->rules[c->rules_len++];
    char buf[RLS_TEXT_MAX];
    const char *text = limit->policy;
    if (!text) {
        weir_slice made;
        size_t len = rls_policy_text(limit, &c->options, buf);
        if (!copy(c, buf, len, &made))
            return WEIR_E_NOMEM;
        text = made.at;
    }
    *rule = WEIR_RULE_SPEC_DEFAULT;
    rule->limit = text;
    rule->plain_keys = true;
    rule->shadow = limit->shadow;
    rule->engine = c->options.engine;
    rule->on_error = c->options.on_error;
    return c->options.flavours ? keep_parsed(b, limit, text) : WEIR_OK;
}

static weir_status add_limit(build *b, const weir_rls_spec *s, bool atomic, rls_limit **ret)
{
    weir_rls_config *c = b->c;
    weir_status st = check_limit(b, s);
    if (st != WEIR_OK)
        return st;
    rls_limit *limit = &c->limits[c->limits_len];
    limit->not_charged = &c->not_charged[c->limits_len++];
    limit->requests_per_unit = s->requests_per_unit;
    limit->unit = s->unit;
    limit->unlimited = s->unlimited;
    limit->shadow = s->shadow_mode;
    limit->quota = s->quota_mode;
    limit->detailed = s->detailed_metric;
    limit->atomic = atomic;
    limit->late = s->late;
    limit->keep = s->unlimited ? 0 : s->keep;
    limit->domain_len = (uint32_t)strlen(b->domain->domain);
    if (s->metadata && c->options.metadata)
        limit->metadata = rls_value_copy(&c->arena, s->metadata);
    if (!copy(c, b->path, b->path_len, &limit->full_key) ||
        (s->metadata && c->options.metadata && !limit->metadata))
        return WEIR_E_NOMEM;
    st = read_names(b, limit, s);
    if (st == WEIR_OK && !s->unlimited && s->policy)
        st = read_policy(b, limit, s);
    else if (st == WEIR_OK)
        rls_limit_derive(limit, &c->options);
    if (st == WEIR_OK && limit->keep != 0 && limit->counts_denied)
        st = fail(b, WEIR_E_UNSUPPORTED, s,
                  "keep needs a limit that does not count denied hits, which would use up what is "
                  "kept: set atomic or stop_when_over, or a policy without count-denied");
    *ret = limit;
    if (st == WEIR_OK && !s->unlimited && (s->policy || s->requests_per_unit > 0))
        st = add_rule(b, limit);
    return st;
}

static weir_status read_descriptors(build *b, uint32_t parent, const weir_rls_spec *specs, size_t n,
                                    bool atomic, size_t depth);

/* Adds a node for the text at the end of the path.
 *  len  of the text. */
static uint32_t add_node(build *b, uint32_t parent, size_t len)
{
    weir_rls_config *c = b->c;
    uint32_t at = (uint32_t)c->nodes_len;
    rls_node *n = &c->nodes[at], *up = &c->nodes[parent];
    if (!copy(c, b->path + b->path_len - len, len, &n->text))
        return 0;
    c->nodes_len++;
    n->parent = parent;
    n->is_wildcard = parent != 0 && memchr(n->text.at, '*', len) != NULL;
    up->has_children = true;
    if (len > up->child_len_max)
        up->child_len_max = len;
    if (n->is_wildcard) {
        if (up->wildcard_last != 0)
            c->nodes[up->wildcard_last].wildcard_next = at;
        else
            up->wildcard_first = at;
        up->wildcard_last = at;
    }
    rls_table_add(c, at);
    return at;
}

/* Adds a text to the path. Returns false if the path is too long. */
static bool append(build *b, const char *text)
{
    size_t len = strlen(text);
    if (len > RLS_DESCRIPTOR_MAX - b->path_len)
        return false;
    memcpy(b->path + b->path_len, text, len);
    b->path_len += len;
    return true;
}

/* Adds the text of a descriptor to the path, and checks it.
 *  ret_len  of the text. */
static weir_status append_text(build *b, uint32_t parent, const weir_rls_spec *s, size_t *ret_len)
{
    if (!is_given(s->key))
        return fail(b, WEIR_E_SYNTAX, s, "descriptor has empty key");
    bool fits = append(b, ".");
    size_t begin = b->path_len;
    fits = fits && append(b, s->key);
    if (is_given(s->value))
        fits = fits && append(b, "_") && append(b, s->value);
    if (!fits)
        return fail(b, WEIR_E_RANGE, s, "the keys and values have more than %d bytes",
                    RLS_DESCRIPTOR_MAX);
    const char *text = b->path + begin;
    size_t len = b->path_len - begin;
    if (rls_child(b->c, parent, text, len) != 0)
        return fail(b, WEIR_E_SYNTAX, s, "duplicate descriptor composite key '%.*s'",
                    (int)b->path_len, b->path);
    if (s->share_threshold && !memchr(text, '*', len))
        return fail(b, WEIR_E_SYNTAX, s,
                    "share_threshold can only be used with wildcard values (containing '*'), but "
                    "found key '%.*s'",
                    (int)len, text);
    *ret_len = len;
    return WEIR_OK;
}

static weir_status read_descriptor(build *b, uint32_t parent, const weir_rls_spec *s, bool atomic,
                                   size_t depth)
{
    size_t before = b->path_len, len = 0;
    weir_status st = append_text(b, parent, s, &len);
    if (st != WEIR_OK)
        return st;
    uint32_t at = add_node(b, parent, len);
    if (at == 0)
        return WEIR_E_NOMEM;
    rls_node *n = &b->c->nodes[at];
    n->share_threshold = s->share_threshold;
    n->value_to_metric = s->value_to_metric;
    atomic |= s->atomic;
    if (s->has_limit)
        st = add_limit(b, s, atomic, &n->limit);
    if (st == WEIR_OK)
        st = read_descriptors(b, at, s->descriptors, s->descriptors_len, atomic, depth + 1);
    b->path_len = before;
    return st;
}

static weir_status read_descriptors(build *b, uint32_t parent, const weir_rls_spec *specs, size_t n,
                                    bool atomic, size_t depth)
{
    weir_status st = WEIR_OK;
    if (n > 0 && depth == RLS_DEPTH_MAX)
        return fail(b, WEIR_E_RANGE, &specs[0], "descriptors are nested more than %d levels deep",
                    RLS_DEPTH_MAX);
    for (size_t i = 0; i < n && st == WEIR_OK; i++)
        st = read_descriptor(b, parent, &specs[i], atomic, depth);
    return st;
}

static weir_status read_domain(build *b, const weir_rls_domain_spec *d)
{
    b->domain = d;
    if (!is_given(d->domain))
        return fail(b, WEIR_E_SYNTAX, NULL, "config file cannot have empty domain");
    size_t len = strlen(d->domain);
    if (len > RLS_DESCRIPTOR_MAX)
        return fail(b, WEIR_E_RANGE, NULL, "the name of the domain is too long");
    memcpy(b->path, d->domain, len);
    b->path_len = len;
    uint32_t at = rls_child(b->c, 0, d->domain, len);
    if (at == 0)
        at = add_node(b, 0, len);
    if (at == 0)
        return WEIR_E_NOMEM;
    bool atomic = d->atomic || b->c->options.stop_when_over;
    return read_descriptors(b, at, d->descriptors, d->descriptors_len, atomic, 0);
}

/* ---- sizes ----------------------------------------------------------------------------------- */

typedef struct sizes {
    size_t nodes, limits, names;
} sizes;

static void count(const weir_rls_spec *specs, size_t n, size_t depth, sizes *ret)
{
    for (size_t i = 0; i < n && depth < RLS_DEPTH_MAX; i++) {
        ret->nodes++;
        ret->limits += specs[i].has_limit;
        ret->names += specs[i].has_limit ? 1 + specs[i].replaces_len : 0;
        count(specs[i].descriptors, specs[i].descriptors_len, depth + 1, ret);
    }
}

/* Allocates the tables of a configuration. */
static bool open_tables(build *b, const sizes *s)
{
    weir_rls_config *c = b->c;
    size_t slots = 16;
    while (slots < 2 * s->nodes)
        slots *= 2;
    c->nodes = weir_arena_alloc(&c->arena, s->nodes, sizeof *c->nodes);
    c->slots = weir_arena_alloc(&c->arena, slots, sizeof *c->slots);
    c->slots_mask = slots - 1;
    c->limits = weir_arena_alloc(&c->arena, s->limits, sizeof *c->limits);
    c->not_charged = weir_arena_alloc(&c->arena, s->limits, sizeof *c->not_charged);
    c->rules = weir_arena_alloc(&c->arena, s->limits, sizeof *c->rules);
    b->with_rule = weir_arena_alloc(&c->arena, s->limits, sizeof(rls_limit *));
    b->names_max = s->names + 1;
    b->name = weir_arena_alloc(&c->arena, b->names_max, sizeof *b->name);
    c->nodes_len = 1; /* the root */
    return c->nodes && c->slots && c->limits && c->not_charged && c->rules && b->with_rule &&
           b->name;
}

static bool copy_header(weir_rls_config *c, const char **name, const char *otherwise)
{
    weir_slice text;
    const char *from = is_given(*name) ? *name : otherwise;
    if (!copy(c, from, strlen(from), &text))
        return false;
    *name = text.at;
    return true;
}

static bool copy_options(weir_rls_config *c, const weir_rls_options *options)
{
    c->options = *options;
    if (c->options.near_limit_ratio == 0)
        c->options.near_limit_ratio = 0.8;
    return copy_header(c, &c->options.limit_header, "RateLimit-Limit") &&
           copy_header(c, &c->options.remaining_header, "RateLimit-Remaining") &&
           copy_header(c, &c->options.reset_header, "RateLimit-Reset");
}

static weir_status name_rules(build *b)
{
    weir_rls_config *c = b->c;
    char(*names)[WEIR_RULE_NAME_MAX + 1] = weir_arena_alloc(&c->arena, c->rules_len, sizeof *names);
    if (!names || !rls_name_rules(b->with_rule, c->rules_len, names))
        return WEIR_E_NOMEM;
    for (size_t i = 0; i < c->rules_len; i++)
        c->rules[i].name = names[i];
    return WEIR_OK;
}

weir_status weir_rls_config_build(weir_rls_config **ret, const weir_zones *zones,
                                  const weir_rls_options *options,
                                  const weir_rls_domain_spec *domains, size_t n,
                                  weir_rls_config_error *ret_error)
{
    sizes s = {.nodes = n + 1};
    weir_rls_config *c = port_zalloc(1, sizeof *c);
    if (!c)
        return WEIR_E_NOMEM;
    build b = {.c = c, .zones = zones, .error = ret_error};
    port_word_store_relaxed(&c->refs, 1);
    b.path = port_zalloc(1, RLS_DESCRIPTOR_MAX);
    for (size_t i = 0; i < n; i++)
        count(domains[i].descriptors, domains[i].descriptors_len, 0, &s);
    bool opened = b.path && copy_options(c, options) && open_tables(&b, &s);
    weir_status st = opened ? WEIR_OK : WEIR_E_NOMEM;
    if (st == WEIR_OK && s.limits > WEIR_RLS_LIMITS_MAX) {
        b.domain = &domains[0];
        st = fail(&b, WEIR_E_RANGE, NULL, "the configuration has %zu limits, expected at most %d",
                  s.limits, WEIR_RLS_LIMITS_MAX);
    }
    for (size_t i = 0; i < n && st == WEIR_OK; i++)
        st = read_domain(&b, &domains[i]);
    if (st == WEIR_OK)
        st = name_rules(&b);
    port_free(b.path);
    if (st == WEIR_OK)
        *ret = c;
    else
        weir_rls_config_drop(c);
    return st;
}

/* ---- reading --------------------------------------------------------------------------------- */

const weir_rule_spec *weir_rls_config_rules(const weir_rls_config *c, size_t *ret_len)
{
    *ret_len = c->rules_len;
    return c->rules;
}

size_t weir_rls_config_limits(const weir_rls_config *c)
{
    return c->limits_len;
}

static const char *bool_word(bool b)
{
    return b ? "true" : "false";
}

void weir_rls_config_print(const weir_rls_config *c, weir_buffer *out)
{
    for (size_t i = 0; i < c->limits_len; i++) {
        const rls_limit *limit = &c->limits[i];
        weir_buffer_append(out, limit->full_key.at, limit->full_key.len);
        weir_buffer_printf(out, ": unit=%s requests_per_unit=%u, shadow_mode: %s, quota_mode: %s",
                           weir_rls_unit_word(limit->unit), (unsigned)limit->requests_per_unit,
                           bool_word(limit->shadow), bool_word(limit->quota));
        if (limit->policy)
            weir_buffer_printf(out, ", weir: %s", limit->policy);
        if (limit->keep != 0)
            weir_buffer_printf(out, ", keep: %lld%s", llabs(limit->keep),
                               limit->keep < 0 ? "%" : "");
        weir_buffer_append_byte(out, '\n');
    }
}
