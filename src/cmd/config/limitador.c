/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* The section `limitador`. cmd/envoy reads the limits file that it names; this file reads it last,
 * because the options of the section apply to all of its limits. */

#include "cmd/config/keys.h"
#include "cmd/envoy/limits_file.h"

#include <string.h>

#define MEMBER(member) CONFIG_MEMBER(weir_config, limitador.member)

/* The file may change while the daemon runs, but the API is on or off from the start on. */
static bool same_file(const config_key *key, const weir_config *a, const weir_config *b)
{
    (void)key;
    return !a->limitador.file == !b->limitador.file;
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
    const weir_config *c = base;
    const config_place on_error = config_below(place, "on_error");
    if (on_error.node && c->limitador.options.engine == WEIR_ENGINE_LOCAL)
        config_error_at(r->errors, on_error.key->begin, place,
                        "on_error requires engine: redis or engine: hybrid");
    if (!c->limitador.file)
        config_error_at(r->errors, place->key->begin, place,
                        "missing key limits, expected the path of a limits file");
}

const config_section config_limitador_section = {
    CONFIG_KEYS(limitador_keys), .expected = "expected a map, such as {limits: limits.yaml}",
    .check = check_limitador};

/* The limits have the default engine, unless `engine` here says otherwise. */
void config_read_limitador(config_reader *r, const config_place *place, const config_key *key,
                           void *base)
{
    r->config->limitador.options.engine = r->config->engine;
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
static void check_names(config_reader *r, const config_place *place)
{
    const weir_config *c = r->config;
    size_t n, others_len = 0;
    const weir_rule_spec *limits = weir_limitador_config_rules(c->limitador.limits, &n);
    const weir_rule_spec *others =
        c->envoy.rls ? weir_rls_config_rules(c->envoy.rls, &others_len) : NULL;
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

bool config_read_limits_file(config_reader *r)
{
    const config_place root = {.node = r->root};
    const config_place limitador = config_below(&root, "limitador");
    const config_place place = config_below(&limitador, "limits");
    if (!r->config->limitador.file || !r->files || config_errors_in(r->errors) > 0)
        return true;
    bool read = limits_file_read(r, &place);
    if (r->config->limitador.limits)
        check_names(r, &place);
    return read || r->arena->failed;
}
