/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* The section `spoe`: the messages of HAProxy. It is read after `policies`, because a message names
 * a policy. */

#include "cmd/config/keys.h"
#include "codec/spop_answer.h"
#include "port/text.h"

#include <string.h>

#define MEMBER(member) CONFIG_MEMBER(weir_spop_spec, member)

/* ---- policies -------------------------------------------------------------------------------- */

static void read_policy(config_reader *r, const config_place *place, const config_key *key,
                        void *base)
{
    weir_spop_spec *spec = base;
    const config_node *n = place->node;
    (void)key;
    if (!config_want_scalar(r, place, "the name of a policy, or a template such as \"$policy\""))
        return;
    spec->policy = n->text;
    if (strchr(n->text, '$')) {
        config_check_template(r, place);
        return;
    }
    config_check_policy(r, place);
}

/* ---- keys and costs -------------------------------------------------------------------------- */

static void read_key(config_reader *r, const config_place *place, const config_key *key, void *base)
{
    weir_spop_spec *spec = base;
    (void)key;
    if (!config_want_scalar(r, place, "a template such as \"$src\""))
        return;
    spec->key = place->node->text;
    config_check_template(r, place);
}

static void read_cost(config_reader *r, const config_place *place, const config_key *key,
                      void *base)
{
    static const char expected[] = "a number from 0 to 2147483647, or a template such as \"$cost\"";
    weir_spop_spec *spec = base;
    const config_node *n = place->node;
    uint64_t cost;
    (void)key;
    if (!config_want_scalar(r, place, expected))
        return;
    spec->cost = n->text;
    if (strchr(n->text, '$'))
        config_check_template(r, place);
    else if (!weir_decimal_read(n->text, n->len, WEIR_COST_MAX, &cost))
        config_error(r->errors, place, "expected %s, found '%.40s'", expected, n->text);
}

/* Warns of a fixed cost that a fixed policy never allows. */
static void check_message(config_reader *r, const config_place *place, void *base)
{
    const weir_spop_spec *spec = base;
    const config_place below = config_below(place, "cost");
    uint64_t cost;
    if (spec->policy && spec->cost &&
        weir_decimal_read(spec->cost, strlen(spec->cost), WEIR_COST_MAX, &cost))
        config_check_cost(r, &below, spec->policy, (int64_t)cost);
}

static const config_key message_keys[] = {
    {"policy", CONFIG_OTHER, .read = read_policy},
    {"key", CONFIG_OTHER, .read = read_key},
    {"cost", CONFIG_OTHER, .read = read_cost},
};

static const char message_expected[] =
    "expected the name of a policy, or a map such as {policy: api, key: \"$src\"}";

const config_section config_spoe_message_section = {
    CONFIG_KEYS(message_keys), .check = check_message, .expected = message_expected};

/* ---- the section ----------------------------------------------------------------------------- */

static void read_message(config_reader *r, const config_place *place, weir_spop_spec *ret)
{
    const config_node *n = place->node;
    ret->name = place->key->text;
    if (place->key->len == 0 || place->key->len > WEIR_SPOP_NAME_MAX)
        config_error_at(r->errors, place->key->begin, place,
                        "expected a name of 1 to %d bytes, found %zu", WEIR_SPOP_NAME_MAX,
                        place->key->len);
    if (n->kind == CONFIG_SCALAR && n->len > 0)
        read_policy(r, place, NULL, ret);
    else
        config_read_section(r, place, &config_spoe_message_section, ret);
    if ((n->kind == CONFIG_MAP || config_is_empty(n)) && !config_get(n, "policy"))
        config_error_at(r->errors, place->key->begin, place,
                        "missing key policy, expected the name of a policy");
}

static void read_messages(config_reader *r, const config_place *place, const config_key *key,
                          void *base)
{
    weir_config *c = base;
    const config_node *n = place->node;
    size_t len = 0, before = config_errors_in(r->errors);
    (void)key;
    if (config_is_empty(n))
        return;
    if (n->kind != CONFIG_MAP || n->children > WEIR_SPOP_MESSAGES_MAX) {
        config_error(r->errors, place,
                     "expected a map of at most %d messages, such as check-client: {policy: api}",
                     WEIR_SPOP_MESSAGES_MAX);
        return;
    }
    weir_spop_spec *specs = config_alloc(r->arena, n->children, sizeof *specs);
    for (const config_node *k = n->first; k && specs; k = k->next) {
        const config_place below = {.up = place, .key = k, .node = k->value};
        if (!k->bad && !k->value->bad)
            read_message(r, &below, &specs[len++]);
    }
    if (!specs || config_errors_in(r->errors) > before)
        return;
    c->spoe_specs = specs;
    c->spoe_len = len;
}

static void read_variables(config_reader *r, const config_place *place, const config_key *key,
                           void *base)
{
    static const char expected[] = "a list of variables, such as [retry_after, ratelimit]";
    weir_config *c = base;
    (void)key;
    c->spoe_variables = weir_spop_variable("allowed", 7);
    for (config_place entry = {0}; config_next_entry(place, &entry);) {
        const config_node *n = entry.node;
        if (!config_want_scalar(r, &entry, expected))
            continue;
        uint32_t variable = weir_spop_variable(n->text, n->len);
        if (variable == 0)
            config_error(r->errors, &entry,
                         "unknown variable '%.40s', expected a name in docs/haproxy.md without "
                         "txn.weir., such as retry_after or ratelimit",
                         n->text);
        c->spoe_variables |= variable;
    }
}

static const config_key spoe_keys[] = {
    {"variables", CONFIG_OTHER, .read = read_variables},
    {"messages", CONFIG_OTHER, .read = read_messages},
};

/* Builds the messages, when all keys are read and valid. */
static void build_messages(config_reader *r, const config_place *place, void *base)
{
    weir_config *c = base;
    uint32_t variables = c->spoe_variables ? c->spoe_variables : WEIR_SPOP_ALL_VARIABLES;
    (void)place;
    if (weir_spop_messages_build(&c->spoe, c->spoe_specs, c->spoe_len, variables) != WEIR_OK)
        r->arena->failed = true; /* the specs are valid, so it is the memory */
}

const config_section config_spoe_section = {
    CONFIG_KEYS(spoe_keys), .check = build_messages,
    .expected = "expected a map, such as {messages: {check-client: {policy: api}}}"};
