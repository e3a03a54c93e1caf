/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* The sections `envoy` and `grpc`. cmd/envoy reads the files that `envoy.config` names; this file
 * reads them last, because the options of `envoy` apply to all of their limits. */

#include "cmd/config/keys.h"
#include "cmd/envoy/directory.h"
#include "cmd/envoy/statsd.h"
#include "codec/answer_fields.h"
#include "port/text.h"

#include <stdlib.h>
#include <string.h>

#define FLAVOURS        "ietf, ietf-03, x-ratelimit, github, openai or none"
#define MEMBER(member)  CONFIG_MEMBER(weir_config, envoy.member)
#define OPTION(member)  CONFIG_MEMBER(weir_config, envoy.options.member), .live = true
#define DAY_NS          (86400 * CONFIG_S_NS)
#define AGE(max, value) CONFIG_RANGE(CONFIG_S_NS, max, value), .may_be_off = true

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

bool config_is_header(const char *text)
{
    static const char token[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
                                "!#$%&'*+-.^_`|~";
    size_t len = strlen(text);
    return len > 0 && len <= CONFIG_NAME_MAX && strspn(text, token) == len;
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

/* "udp://HOST:PORT" or "tcp://HOST:PORT". */
static void read_statsd(config_reader *r, const config_place *place, const config_key *key,
                        void *base)
{
    static const char expected[] = STATSD_ADDRESS_EXPECTED ", or off";
    const config_node *n = place->node;
    (void)key;
    if (!config_want_scalar(r, place, expected) || strcmp(n->text, "off") == 0)
        return;
    statsd_address address;
    if (statsd_address_read(n->text, &address))
        ((weir_config *)base)->envoy.statsd = n->text;
    else
        config_error(r->errors, place, "expected %s, found '%.80s'", expected, n->text);
}

static bool same_statsd(const config_key *key, const weir_config *a, const weir_config *b)
{
    const char *x = a->envoy.statsd, *y = b->envoy.statsd;
    (void)key;
    return x == y || (x && y && strcmp(x, y) == 0);
}

/* ---- the sections ---------------------------------------------------------------------------- */

static const config_key header_keys[] = {
    {"enabled", CONFIG_BOOL, OPTION(headers)},
    {"flavour", CONFIG_OTHER, OPTION(flavours), .read = read_flavours},
    {"limit", CONFIG_OTHER, OPTION(limit_header), .read = read_header},
    {"remaining", CONFIG_OTHER, OPTION(remaining_header), .read = read_header},
    {"reset", CONFIG_OTHER, OPTION(reset_header), .read = read_header},
};

static const config_section header_section = {CONFIG_KEYS(header_keys),
                                              .expected = "expected {enabled: true}"};

static const config_key envoy_keys[] = {
    {"config", CONFIG_PATH, MEMBER(directory), .live = true},
    {"headers", CONFIG_SECTION, .section = &header_section},
    {"near_limit_ratio", CONFIG_OTHER, OPTION(near_limit_ratio), .read = read_ratio},
    {"shadow_mode", CONFIG_BOOL, OPTION(shadow_mode)},
    {"quota_mode", CONFIG_BOOL, OPTION(quota_mode)},
    {"stop_when_over", CONFIG_BOOL, OPTION(stop_when_over)},
    {"merge_domains", CONFIG_BOOL, MEMBER(merge_domains), .live = true},
    {"calendar", CONFIG_BOOL, OPTION(calendar)},
    {"exact_reset", CONFIG_BOOL, OPTION(exact_reset)},
    {"engine", CONFIG_OTHER, OPTION(engine), .read = config_read_engine},
    {"on_error", CONFIG_WORD, OPTION(on_error), CONFIG_WORDS(config_on_error_words, 0)},
    {"statsd", CONFIG_OTHER, MEMBER(statsd), .read = read_statsd, .same = same_statsd},
    {"statsd_flush", CONFIG_DURATION, MEMBER(statsd_flush_ns),
     CONFIG_RANGE(CONFIG_S_NS, DAY_NS, 10 * CONFIG_S_NS)},
};

static void check_envoy(config_reader *r, const config_place *place, void *base)
{
    const config_place on_error = config_below(place, "on_error");
    if (on_error.node && ((weir_config *)base)->envoy.options.engine == WEIR_ENGINE_LOCAL)
        config_error_at(r->errors, on_error.key->begin, place,
                        "on_error requires engine: redis or engine: hybrid");
}

const config_section config_envoy_section = {
    CONFIG_KEYS(envoy_keys), .expected = "expected a map, such as {config: /etc/ratelimit/config}",
    .check = check_envoy};

static const config_key grpc_keys[] = {
    {"max_connection_age", CONFIG_DURATION, CONFIG_MEMBER(weir_config, grpc_max_age_ns),
     AGE(365 * DAY_NS, DAY_NS)},
    {"max_connection_age_grace", CONFIG_DURATION, CONFIG_MEMBER(weir_config, grpc_max_age_grace_ns),
     AGE(DAY_NS, 3600 * CONFIG_S_NS)},
};

const config_section config_grpc_section = {CONFIG_KEYS(grpc_keys)};

/* The limits have the default engine, unless `engine` here says otherwise. */
void config_read_envoy(config_reader *r, const config_place *place, const config_key *key,
                       void *base)
{
    r->config->envoy.options.engine = r->config->engine;
    config_read_section(r, place, key->section, base);
}

/* ---- the limits ------------------------------------------------------------------------------ */

/* Reports a policy that has the name of a limit: both are rules. */
static void check_names(config_reader *r)
{
    const weir_config *c = r->config;
    size_t n;
    const weir_rule_spec *limits = weir_rls_config_rules(c->envoy.rls, &n);
    const config_place policies = config_below(&(config_place){.node = r->root}, "policies");
    for (size_t i = 0; i < c->rules_len && n > 0; i++) {
        size_t k = 0;
        while (k < n && strcmp(limits[k].name, c->rules[i].name) != 0)
            k++;
        const config_place policy = config_below(&policies, c->rules[i].name);
        if (k < n)
            config_error_at(r->errors, policy.key->begin, &policy,
                            "a limit of envoy.config has the same name; rename the policy");
    }
    if (c->rules_len + n > WEIR_RULES_MAX)
        config_error_at(r->errors, 0, NULL,
                        "%zu policies and %zu limits of envoy.config, expected "
                        "at most %d of both",
                        c->rules_len, n, WEIR_RULES_MAX);
}

bool config_read_limits(config_reader *r)
{
    const config_place root = {.node = r->root};
    const config_place envoy = config_below(&root, "envoy");
    const config_place place = config_below(&envoy, "config");
    bool read = true;
    if (!envoy.node)
        r->config->envoy.options.engine = r->config->engine;
    r->config->envoy.zones = r->zones;
    if (r->config->envoy.directory && r->files)
        read = envoy_read_directory(r, &place);
    if (read && config_errors_in(r->errors) == 0 && envoy_build(r->config, r))
        check_names(r);
    return read || r->arena->failed;
}
