/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* The section `limitador`, and its part of the daemon. The limits file that the section names
 * (limits_file.c) is read last, because the options of the section apply to all of its limits. The
 * API is on or off from the start on. */

#include "limitador/daemon/guest.h"

#include "cmd/serve/feature.h"
#include "limitador/http.h"
#include "rls/daemon/guest.h"
#include "rls/wire/message.h"

#include <string.h>

#define MEMBER(member) CONFIG_MEMBER(limitador_settings, member)

/* The file may change while the daemon runs, but the API is on or off from the start on. */
static bool same_file(const config_key *key, const void *a, const void *b)
{
    const limitador_settings *x = a, *y = b;
    (void)key;
    return !x->file == !y->file;
}

static const char *const header_words[] = {"none", "draft-03"};

static const config_key limitador_keys[] = {
    {"limits", CONFIG_PATH, MEMBER(file), .same = same_file},
    {"headers", CONFIG_WORD, MEMBER(options.headers), CONFIG_WORDS(header_words, 0), .live = true},
    {"engine", CONFIG_OTHER, MEMBER(options.engine), .read = config_read_engine, .live = true},
    {"on_error", CONFIG_WORD, MEMBER(options.on_error), CONFIG_WORDS(config_on_error_words, 0),
     .live = true},
};

static void check_limitador(config_reader *r, const config_place *place, void *base)
{
    const limitador_settings *l = base;
    config_check_on_error(r, place, l->options.engine);
    if (!l->file)
        config_error_on(r->errors, place->key, place,
                        "missing key limits, expected the path of a limits file");
}

static const config_section limitador_section = {
    CONFIG_KEYS(limitador_keys), .expected = "expected a map, such as {limits: limits.yaml}",
    .check = check_limitador};

/* The limits have the default engine, unless `engine` here says otherwise. */
static void read_limitador(config_reader *r, const config_place *place, const config_key *key,
                           void *base)
{
    ((limitador_settings *)base)->options.engine = r->config->engine;
    config_read_section(r, place, key->section, base);
}

/* ---- the limits ------------------------------------------------------------------------------ */

static bool has_name(const weir_rule_spec *rules, size_t n, const char *name)
{
    size_t i = 0;
    while (i < n && strcmp(rules[i].name, name) != 0)
        i++;
    return i < n;
}

/* Reports a limit that has the name of a policy or of a limit of envoy.config: all are rules. */
static void check_names(config_reader *r, const config_place *place, const limitador_settings *l)
{
    const weir_config *c = r->config;
    weir_rls_config *rls = envoy_settings_of(c)->rls;
    size_t n, others_len = 0;
    const weir_rule_spec *limits = weir_limitador_config_rules(l->limits, &n);
    const weir_rule_spec *others = rls ? weir_rls_config_rules(rls, &others_len) : NULL;
    for (size_t i = 0; i < n; i++) {
        if (has_name(c->rules, c->rules_len, limits[i].name))
            config_error(r->errors, place, "a limit and a policy have the name '%s'; rename one",
                         limits[i].name);
        else if (has_name(others, others_len, limits[i].name))
            config_error(r->errors, place,
                         "a limit here and one of envoy.config have the name '%s'; rename one",
                         limits[i].name);
    }
    if (c->rules_len + others_len + n > WEIR_RULES_MAX)
        config_error(r->errors, place,
                     "%zu policies, %zu limits of envoy.config and %zu limits here, expected at "
                     "most %d of all",
                     c->rules_len, others_len, n, WEIR_RULES_MAX);
}

static bool load(config_reader *r, void *self)
{
    limitador_settings *l = self;
    const config_place root = {.node = r->root};
    const config_place section = config_below(&root, "limitador");
    const config_place place = config_below(&section, "limits");
    if (!l->file || !r->files || config_errors_in(r->errors) > 0)
        return true;
    bool read = limits_file_read(r, &place, l);
    if (l->limits)
        check_names(r, &place, l);
    return read || r->arena->failed;
}

static void check_effects(config_reader *r, const void *self)
{
    (void)self;
    config_check_listens(r, "limitador", PROTOCOL_GRPC, PROTOCOL_HTTP,
                         "listen.grpc or listen.http (or weir serve --grpc, --http)");
}

static bool has_limits(const void *self)
{
    return ((const limitador_settings *)self)->file;
}

static bool uses_engine(const void *self, weir_engine_kind engine)
{
    const limitador_settings *l = self;
    return l->file && l->options.engine == engine;
}

static bool use_redis(weir_config *c, void *self, weir_redis_error *ret_error)
{
    limitador_settings *l = self;
    (void)c;
    (void)ret_error;
    if (l->options.engine == WEIR_ENGINE_LOCAL)
        l->options.engine = WEIR_ENGINE_REDIS;
    if (l->limits)
        weir_limitador_config_set_engine(l->limits, l->options.engine);
    return true;
}

/* Prints the policies of the limits file, one a line. */
static void print_limits(const weir_config *c, const void *self)
{
    const limitador_settings *l = self;
    size_t n;
    (void)c;
    if (!l->limits)
        return;
    const weir_rule_spec *rules = weir_limitador_config_rules(l->limits, &n);
    printf("%zu limits of limitador\n", n);
    for (size_t i = 0; i < n; i++)
        printf("  %s: %s\n", rules[i].name, rules[i].limit);
}

static void free_settings(void *self)
{
    weir_limitador_config_drop(((limitador_settings *)self)->limits);
}

/* ---- the feature ----------------------------------------------------------------------------- */

static const feature limitador_feature;

static void **part_of(protocol_loop *l)
{
    return &l->part[feature_index(&limitador_feature)];
}

static bool is_wanted(const weir_config *c)
{
    return limitador_settings_of(c)->file;
}

static weir_status limitador_open(void **ret_self, const feature_setup *s)
{
    (void)s;
    *ret_self = weir_limitador_open();
    return *ret_self ? WEIR_OK : WEIR_E_NOMEM;
}

static void limitador_close(void *self)
{
    weir_limitador_close(self);
}

/* The loop decides what Envoy's limits do not decide. */
static weir_status open_loop(void *self, protocol_loop *l)
{
    const weir_rls_door *door = l->part[feature_index(&rls_feature)];
    weir_limitador_loop *loop = weir_limitador_loop_open(self, l->service);
    if (!loop)
        return WEIR_E_NOMEM;
    *part_of(l) = loop;
    const weir_rls_fallback fallback = weir_limitador_fallback(loop);
    weir_rls_set_fallback(door->loop, &fallback);
    l->guests[l->guests_len++] = weir_limitador_http(loop);
    return WEIR_OK;
}

static void close_loop(void *self, protocol_loop *l)
{
    (void)self;
    weir_limitador_loop_close(*part_of(l));
}

static const weir_rule_spec *rules(const weir_config *c, size_t *ret_len)
{
    const limitador_settings *s = limitador_settings_of(c);
    return s->limits ? weir_limitador_config_rules(s->limits, ret_len) : NULL;
}

static void activate(void *self, const weir_config *c)
{
    weir_limitador_config *limits = limitador_settings_of(c)->limits;
    if (!limits)
        return;
    weir_limitador_config_hold(limits);
    weir_limitador_activate(self, limits);
}

static const char *watched(const weir_config *c)
{
    return limitador_settings_of(c)->file;
}

/* How many limits there are. The field `limits` has those of envoy.config. */
static log_pair describe(const weir_config *c)
{
    const weir_limitador_config *limits = limitador_settings_of(c)->limits;
    return limits ? log_integer("limitador_limits", (int64_t)weir_limitador_config_count(limits))
                  : log_text("limitador_limits", NULL);
}

static const feature limitador_feature = {.is_wanted = is_wanted,
                                          .open = limitador_open,
                                          .close = limitador_close,
                                          .open_loop = open_loop,
                                          .close_loop = close_loop,
                                          .rules = rules,
                                          .activate = activate,
                                          .watched = watched,
                                          .describe = describe};

const config_guest limitador_guest = {
    .key = {"limitador", CONFIG_SECTION, .section = &limitador_section, .read = read_limitador},
    .size = sizeof(limitador_settings),
    .limits_key = "limitador.limits",
    .feature = &limitador_feature,
    .has_limits = has_limits,
    .load = load,
    .check = check_effects,
    .uses_engine = uses_engine,
    .use_redis = use_redis,
    .print = print_limits,
    .free = free_settings,
};
