/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* The section `envoy`. The files that `envoy.config` names (directory.c) are read last, because the
 * options of the section apply to all of their limits. */

#include "cmd/kit/caret.h"
#include "codec/answer/fields.h"
#include "rls/daemon/guest.h"

#include <stdlib.h>
#include <string.h>

#define FLAVOURS       "ietf, ietf-07, ietf-03, x-ratelimit, github, openai or none"
#define MEMBER(member) CONFIG_MEMBER(envoy_settings, member)
#define OPTION(member) CONFIG_MEMBER(envoy_settings, options.member), .live = true
#define DAY_NS         (86400 * CONFIG_S_NS)

/* ---- values ---------------------------------------------------------------------------------- */

/* A number from 0 to 1, such as 0.8. */
static void read_ratio(config_reader *r, const config_place *place, const config_key *key,
                       void *base)
{
    static const char expected[] = "a number above 0, up to 1, such as 0.8";
    const char *text = place->node->text;
    if (!config_want_scalar(r, place, expected))
        return;
    size_t whole = strspn(text, "0123456789"), point = text[whole] == '.';
    size_t len = whole + point + strspn(text + whole + point, "0123456789");
    double ratio = len == place->node->len && len <= 40 ? strtod(text, NULL) : 0;
    if (ratio > 0 && ratio <= 1)
        *(double *)((char *)base + key->offset) = ratio;
    else
        config_error(r->errors, place, "expected %s, found '%.40s'", expected, text);
}

/* The name of a header that a response gets. */
static void read_header(config_reader *r, const config_place *place, const config_key *key,
                        void *base)
{
    static const char expected[] = "the name of a header, such as RateLimit-Limit";
    const config_node *n = place->node;
    if (!config_want_scalar(r, place, expected))
        return;
    if (config_is_header(n->text))
        *(const char **)((char *)base + key->offset) = n->text;
    else
        config_error(r->errors, place, "expected %s, of at most %d bytes, found '%.40s'", expected,
                     CONFIG_NAME_MAX, n->text);
}

/* The name of a flavour, or a list of names. */
static void read_flavours(config_reader *r, const config_place *place, const config_key *key,
                          void *base)
{
    const config_node *n = place->node;
    config_place entry = {.up = place, .node = n->kind == CONFIG_LIST ? n->first : n};
    unsigned all = 0;
    for (; entry.node; entry.node = n->kind == CONFIG_LIST ? entry.node->next : NULL) {
        const config_place *at = n->kind == CONFIG_LIST ? &entry : place;
        if (!config_want_scalar(r, at, FLAVOURS))
            return;
        unsigned one = weir_answer_flavour(at->node->text, at->node->len);
        if (!one) {
            config_error(r->errors, at, "expected %s, found '%.40s'", FLAVOURS, at->node->text);
            return;
        }
        all |= one;
        entry.index++;
    }
    const char *why = weir_answer_check(all);
    if (why)
        config_error(r->errors, place, "%s", why);
    *(unsigned *)((char *)base + key->offset) = all;
}

/* As statsd_address_read(), or "off". */
static void read_statsd(config_reader *r, const config_place *place, const config_key *key,
                        void *base)
{
    static const char expected[] = STATSD_ADDRESS_EXPECTED " or off";
    const config_node *n = place->node;
    (void)key;
    if (!config_want_scalar(r, place, expected) || strcmp(n->text, "off") == 0)
        return;
    statsd_address address;
    if (statsd_address_read(n->text, &address))
        ((envoy_settings *)base)->statsd = n->text;
    else
        config_error(r->errors, place, "expected %s, found '%.80s'", expected, n->text);
}

/* A map from keys to values. */
static void read_tags(config_reader *r, const config_place *place, const config_key *key,
                      void *base)
{
    statsd_tags *tags = (statsd_tags *)((char *)base + key->offset);
    if (place->node->kind != CONFIG_MAP) {
        config_error(r->errors, place, "expected a map, such as {region: eu}");
        return;
    }
    *tags = (statsd_tags){.len = 0}; /* instead of those of the environment */
    for (const config_node *n = place->node->first; n; n = n->next) {
        const config_place tag = {.up = place, .key = n, .node = n->value};
        if (!config_want_scalar(r, &tag, "a value, such as eu"))
            return;
        const weir_slice name = {n->text, n->len}, value = {n->value->text, n->value->len};
        const char *why = statsd_add_tag(tags, name, value);
        if (why)
            config_error(r->errors, &tag, "%s", why);
    }
}

static bool same_tags(const config_key *key, const void *a, const void *b)
{
    return memcmp((const char *)a + key->offset, (const char *)b + key->offset,
                  sizeof(statsd_tags)) == 0;
}

static bool same_statsd(const config_key *key, const void *a, const void *b)
{
    const char *x = ((const envoy_settings *)a)->statsd, *y = ((const envoy_settings *)b)->statsd;
    (void)key;
    return x == y || (x && y && strcmp(x, y) == 0);
}

/* ---- the sections ---------------------------------------------------------------------------- */

static const config_key header_keys[] = {
    {"enabled", CONFIG_BOOL, OPTION(headers)},
    {"flavour", CONFIG_OTHER, OPTION(flavours), .schema = CONFIG_TEXTS, .read = read_flavours},
    {"retry_spread", CONFIG_OTHER, OPTION(retry_spread), .read = config_read_spread},
    {"limit", CONFIG_OTHER, OPTION(limit_header), .read = read_header},
    {"remaining", CONFIG_OTHER, OPTION(remaining_header), .read = read_header},
    {"reset", CONFIG_OTHER, OPTION(reset_header), .read = read_header},
};

static const config_section header_section = {CONFIG_KEYS(header_keys),
                                              .expected = "expected {enabled: true}"};

static const char *const peek_words[] = {
    [WEIR_RLS_PEEKS_DENY] = "deny", [WEIR_RLS_PEEKS_ALLOW] = "allow"};

static const config_key envoy_keys[] = {
    {"config", CONFIG_PATH, MEMBER(directory), .live = true},
    {"headers", CONFIG_SECTION, .section = &header_section},
    {"near_limit_ratio", CONFIG_OTHER, OPTION(near_limit_ratio), .read = read_ratio},
    {"shadow_mode", CONFIG_BOOL, OPTION(shadow_mode)},
    {"quota_mode", CONFIG_BOOL, OPTION(quota_mode)},
    {"stop_when_over", CONFIG_BOOL, OPTION(stop_when_over)},
    {"merge_domains", CONFIG_BOOL, MEMBER(merge_domains), .live = true},
    {"peek_at_limit", CONFIG_WORD, OPTION(peeks), CONFIG_WORDS(peek_words, WEIR_RLS_PEEKS_DENY)},
    {"dynamic_metadata", CONFIG_BOOL, OPTION(metadata)},
    {"replace_metric_dots", CONFIG_BOOL, OPTION(dots_replaced)},
    {"calendar", CONFIG_BOOL, OPTION(calendar)},
    {"exact_reset", CONFIG_BOOL, OPTION(exact_reset)},
    {"engine", CONFIG_OTHER, OPTION(engine), .read = config_read_engine},
    {"on_error", CONFIG_WORD, OPTION(on_error), CONFIG_WORDS(config_on_error_words, 0)},
    {"statsd", CONFIG_OTHER, MEMBER(statsd), .read = read_statsd, .same = same_statsd},
    {"statsd_flush", CONFIG_DURATION, MEMBER(statsd_flush_ns),
     CONFIG_RANGE(CONFIG_S_NS, DAY_NS, 10 * CONFIG_S_NS)},
    {"statsd_tags", CONFIG_OTHER, MEMBER(statsd_tags), .schema = CONFIG_MAP_OF(CONFIG_TEXT),
     .read = read_tags, .same = same_tags},
};

static void check_envoy(config_reader *r, const config_place *place, void *base)
{
    config_check_on_error(r, place, ((const envoy_settings *)base)->options.engine);
}

static const config_section envoy_section = {
    CONFIG_KEYS(envoy_keys), .expected = "expected a map, such as {config: /etc/ratelimit/config}",
    .check = check_envoy};

/* The limits have the default engine, unless `engine` here says otherwise. */
static void read_envoy(config_reader *r, const config_place *place, const config_key *key,
                       void *base)
{
    ((envoy_settings *)base)->options.engine = r->config->engine;
    config_read_section(r, place, key->section, base);
}

/* ---- the limits ------------------------------------------------------------------------------ */

/* Reports a policy that has the name of a limit: both are rules. */
static void check_names(config_reader *r)
{
    const weir_config *c = r->config;
    size_t n;
    const weir_rule_spec *limits = weir_rls_config_rules(envoy_settings_of(c)->rls, &n);
    const config_place policies = config_below(&(config_place){.node = r->root}, "policies");
    for (size_t i = 0; i < c->rules_len && n > 0; i++) {
        size_t k = 0;
        while (k < n && strcmp(limits[k].name, c->rules[i].name) != 0)
            k++;
        const config_place policy = config_below(&policies, c->rules[i].name);
        if (k < n)
            config_error_on(r->errors, policy.key, &policy,
                            "a limit of envoy.config has the same name; rename the policy");
    }
    if (c->rules_len + n > WEIR_RULES_MAX)
        config_error_at(r->errors, 0, NULL,
                        "%zu policies and %zu limits of envoy.config, expected "
                        "at most %d of both",
                        c->rules_len, n, WEIR_RULES_MAX);
}

static bool load(config_reader *r, void *self)
{
    envoy_settings *envoy = self;
    const config_place root = {.node = r->root};
    const config_place section = config_below(&root, "envoy");
    const config_place place = config_below(&section, "config");
    bool read = true;
    if (!section.node)
        envoy->options.engine = r->config->engine;
    envoy->zones = r->zones;
    if (envoy->directory && r->files)
        read = envoy_read_directory(r, &place);
    if (read && config_errors_in(r->errors) == 0 && envoy_build(r->config, r))
        check_names(r);
    return read || r->arena->failed;
}

/* ---- the guest ------------------------------------------------------------------------------- */

static bool has_limits(const void *self)
{
    return ((const envoy_settings *)self)->directory;
}

static bool uses_engine(const void *self, weir_engine_kind engine)
{
    return ((const envoy_settings *)self)->options.engine == engine;
}

static bool use_redis(weir_config *c, void *self, weir_redis_error *ret_error)
{
    envoy_settings *envoy = self;
    if (envoy->options.engine == WEIR_ENGINE_LOCAL)
        envoy->options.engine = WEIR_ENGINE_REDIS;
    if (!envoy->rls || envoy_build(c, NULL))
        return true;
    snprintf(ret_error->text, sizeof ret_error->text,
             "the limits of envoy.config do not support the engine redis");
    return false;
}

/* Warns of keys of the section that have no effect. */
static void check_effects(config_reader *r, const void *self)
{
    const envoy_settings *envoy = self;
    const config_place section = config_below(&(config_place){.node = r->root}, "envoy");
    const config_place headers = config_below(&section, "headers");
    static const char *const names[] = {"limit", "remaining", "reset"};
    config_check_listens(r, "envoy", PROTOCOL_GRPC, PROTOCOL_HTTP,
                         "listen.grpc or listen.http (or weir serve --grpc, --http)");
    if (section.node && !config_is_empty(section.node) && !envoy->directory)
        config_warn(r->errors, &section, "this has no effect, because envoy.config is not set");
    for (size_t i = 0; i < CONFIG_LENGTH(names); i++) {
        config_check_useless(r, &headers, names[i], envoy->options.flavours != 0,
                             "envoy.headers.flavour names other headers");
        config_check_useless(r, &headers, names[i],
                             envoy->options.flavours == 0 && !envoy->options.headers,
                             "envoy.headers.enabled is not true");
    }
    config_check_useless(r, &headers, "retry_spread", envoy->options.flavours == 0,
                         "envoy.headers.flavour is not set");
    config_check_useless(r, &section, "statsd_flush", !envoy->statsd, "envoy.statsd is off");
    config_check_useless(r, &section, "statsd_tags", !envoy->statsd, "envoy.statsd is off");
}

/* Prints the limits of the directory, one a line. */
static void print_limits(const weir_config *c, const void *self)
{
    enum { TEXT_MAX = 64 << 20 };
    const envoy_settings *envoy = self;
    weir_buffer text;
    (void)c;
    if (!envoy->directory)
        return;
    printf("%-12s%zu\n", "limits", weir_rls_config_limits(envoy->rls));
    weir_buffer_init(&text, TEXT_MAX);
    weir_rls_config_print(envoy->rls, &text);
    const char *at = (const char *)weir_buffer_data(&text);
    for (size_t len = weir_buffer_len(&text), line; len > 0; at += line, len -= line) {
        const char *end = memchr(at, '\n', len);
        size_t shown = end ? (size_t)(end - at) : len;
        fputs("  ", stdout);
        caret_text(stdout, at, shown);
        putchar('\n');
        line = shown + (end != NULL);
    }
    weir_buffer_free(&text);
}

static void set_directory(void *self, const char *directory)
{
    ((envoy_settings *)self)->directory = directory;
}

static void free_settings(void *self)
{
    weir_rls_config_drop(((envoy_settings *)self)->rls);
}

const config_guest envoy_guest = {
    .key = {"envoy", CONFIG_SECTION, .section = &envoy_section, .read = read_envoy},
    .size = sizeof(envoy_settings),
    .limits_key = "envoy.config",
    .feature = &rls_feature,
    .has_limits = has_limits,
    .load = load,
    .check = check_effects,
    .uses_engine = uses_engine,
    .use_redis = use_redis,
    .print = print_limits,
    .free = free_settings,
    .apply_environment = environment_apply,
    .explain_environment = environment_explain,
    .set_directory = set_directory,
};
