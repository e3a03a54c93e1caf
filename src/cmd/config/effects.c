/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* Warns of settings that are valid, but have no effect because of other keys. These checks need the
 * whole configuration. Those of patterns are in patterns.c. */

#include "cmd/config/keys.h"
#include "port/assert.h"

#include <string.h>
#include <strings.h>

/* ---- listeners ------------------------------------------------------------------------------- */

bool config_listens(const weir_config *c, protocol_kind kind)
{
    bool found = false;
    for (size_t i = 0; i < c->listens_len; i++)
        found |= c->listens[i].protocol == kind;
    return found;
}

/* Sections that only some protocols use. The options of `weir serve` may add listeners. */
static const struct section {
    const char *name;
    protocol_kind kind;
    const char *needs;
} sections[] = {
    {"http", PROTOCOL_HTTP, "listen.http (or weir serve --http)"},
    {"denied", PROTOCOL_HTTP, "listen.http (or weir serve --http)"},
    {"routes", PROTOCOL_HTTP, "listen.http (or weir serve --http)"},
    {"grpc", PROTOCOL_GRPC, "listen.grpc (or weir serve --grpc)"},
};

static bool is_set(const config_place *place)
{
    return place->node && !config_is_empty(place->node) &&
           (place->node->kind != CONFIG_LIST || place->node->children > 0);
}

void config_check_listens(config_reader *r, const char *section, protocol_kind a, protocol_kind b,
                          const char *needs)
{
    const config_place place = config_below(&(config_place){.node = r->root}, section);
    if (is_set(&place) && !config_listens(r->config, a) && !config_listens(r->config, b))
        config_warn(r->errors, &place, "this has no effect without %s", needs);
}

/* ---- the protocols with headers -------------------------------------------------------------- */

/* Keys that only these protocols use, at the top level and in an entry of `listen`. */
static const char *const header_keys[] = {"headers", "retry_spread"};
enum { HEADER_KEYS = CONFIG_LENGTH(header_keys) };

static bool listens_with_headers(const weir_config *c)
{
    bool found = false;
    for (size_t i = 0; i < c->listens_len; i++)
        found |= config_protocol(c->listens[i].protocol)->has_headers;
    return found;
}

/* Appends the names of the protocols with headers: "listen.http or listen.x".
 *  between  the text between two names, such as " or ".
 *  before   the text before each name, such as "listen.". */
static void put_names(char *ret, size_t size, const char *between, const char *before)
{
    size_t len = strlen(ret), begun = len;
    for (protocol_kind kind = 0; config_protocol(kind); kind++) {
        if (config_protocol(kind)->has_headers)
            len += (size_t)snprintf(ret + len, size - len, "%s%s%s", len > begun ? between : "",
                                    before, config_protocol(kind)->name);
        WEIR_ASSERT(len < size);
    }
}

/* Warns of a key that has no effect, because no listener has headers. */
static void warn_of_headers(config_reader *r, const config_place *place)
{
    char listens[200] = "", options[200] = "";
    put_names(listens, sizeof listens, " or ", "listen.");
    put_names(options, sizeof options, ", ", "--");
    config_warn(r->errors, place, "this has no effect without %s (or weir serve %s)", listens,
                options);
}

/* Warns of addresses whose requests have no limits. */
static void check_unlimited(config_reader *r, const config_place *root)
{
    const weir_config *c = r->config;
    const config_place listen = config_below(root, "listen");
    const config_place grpc = config_below(&listen, "grpc");
    char keys[200] = "";
    bool limited = false;
    size_t n = 0;
    for (size_t i = 0, len = 0; config_guest_at(i); i++) {
        const config_guest *g = config_guest_at(i);
        if (!g->limits_key)
            continue;
        limited |= g->has_limits(c->guest[i]);
        len += (size_t)snprintf(keys + len, sizeof keys - len, "%s%s", n++ > 0 ? " nor " : "",
                                g->limits_key);
        WEIR_ASSERT(len < sizeof keys);
    }
    if (grpc.node && config_listens(c, PROTOCOL_GRPC) && !limited)
        config_warn(r->errors, &grpc, "every request is allowed, because there is %s %s",
                    n > 1 ? "neither" : "no", keys);
}

/* ---- proxies --------------------------------------------------------------------------------- */

static bool accepts_proxy_protocol(const weir_config *c)
{
    bool found = false;
    for (size_t i = 0; i < c->listens_len; i++)
        found |= c->listens[i].proxy_protocol;
    return found;
}

/* Warns of host names that are accepted anyway. */
static void check_hosts(config_reader *r, const config_place *hosts)
{
    weir_address address;
    bool any = false;
    for (config_place entry = {0}; config_next_entry(hosts, &entry);)
        any |= strcmp(entry.node->text, "*") == 0;
    for (config_place entry = {0}; config_next_entry(hosts, &entry);) {
        const char *name = entry.node->text;
        if (any && strcmp(name, "*") != 0)
            config_warn(r->errors, &entry, "this has no effect, because \"*\" is any name");
        else if (strcasecmp(name, "localhost") == 0 ||
                 weir_address_parse(&address, name, strlen(name)))
            config_warn(r->errors, &entry,
                        "this has no effect, because localhost and IP addresses are always "
                        "accepted");
    }
}

/* Warns of entries whose addresses another entry before them has. */
static void check_trusted(config_reader *r, const config_place *trusted)
{
    const weir_network *all = r->config->trusted_proxies.at;
    size_t i = 0;
    for (config_place entry = {0}; config_next_entry(trusted, &entry); i++) {
        bool known = false;
        for (size_t k = 0; k < i && !known; k++) {
            weir_address a = all[i].address;
            weir_address_mask(&a, all[k].bits);
            known = all[k].bits <= all[i].bits && a.v6 == all[k].address.v6 &&
                    memcmp(a.bytes, all[k].address.bytes, sizeof a.bytes) == 0;
        }
        if (known)
            config_warn(r->errors, &entry,
                        "this has no effect, because an entry before it has the same addresses");
    }
}

static void check_proxies(config_reader *r, const config_place *root)
{
    const weir_config *c = r->config;
    const config_place routes = config_below(root, "routes"), http = config_below(root, "http");
    const config_place trusted = config_below(root, "trusted_proxies");
    const config_place header = config_below(&http, "client_header");
    const config_place hosts = config_below(&http, "hosts");
    bool trusts = c->trusted_proxies.len > 0;
    if (c->routes_len > 0 && config_listens(c, PROTOCOL_HTTP) && !trusts)
        config_warn(
            r->errors, &routes,
            "no request can use these routes, because trusted_proxies is empty: "
            "/v1/forward-auth answers 403; add the address of the proxy to trusted_proxies");
    if (trusts && trusted.node && !config_listens(c, PROTOCOL_HTTP) && !accepts_proxy_protocol(c))
        config_warn(r->errors, &trusted,
                    "this has no effect without listen.http (or weir serve --http)");
    if (header.node && !trusts)
        config_warn(r->errors, &header,
                    "the header is never read, because trusted_proxies is empty");
    if (is_set(&hosts) && c->users_len > 0 && !config_fixes_users(c))
        config_warn(r->errors, &hosts,
                    "this has no effect with a password, which makes every host name acceptable");
    else if (is_set(&hosts))
        check_hosts(r, &hosts);
    if (is_set(&trusted) && trusted.node->kind == CONFIG_LIST)
        check_trusted(r, &trusted);
}

/* ---- headers and denials --------------------------------------------------------------------- */

#define NEEDS_HTTP "this has no effect without listen.http (or weir serve --http)"

/* Calls back for the answer of the configuration as a whole, and those of listeners and policies,
 * until one has the property. */
static bool any_answer(const weir_config *c, bool (*has)(const weir_answer *a))
{
    bool found = has(&c->answer);
    for (size_t i = 0; i < c->listens_len; i++)
        found |= has(&c->listens[i].answer);
    for (size_t i = 0; i < c->rules_len; i++)
        found |= has(&c->rules[i].answer);
    return found;
}

static bool has_body(const weir_answer *a)
{
    return a->denied_body != NULL;
}

static bool has_ietf(const weir_answer *a)
{
    return a->headers & WEIR_HEADERS_IETF;
}

static bool has_openai(const weir_answer *a)
{
    return a->headers & WEIR_HEADERS_OPENAI;
}

static void check_unit(config_reader *r, const config_place *policy, weir_quota_unit unit)
{
    const weir_config *c = r->config;
    const config_place place = config_below(policy, "unit");
    if (unit == WEIR_UNIT_BYTES && c->answer.headers != 0 && !any_answer(c, has_ietf))
        config_warn(r->errors, &place,
                    "this has no effect, because only the headers ietf report "
                    "bytes");
    if (unit == WEIR_UNIT_TOKENS && !any_answer(c, has_openai))
        config_warn(r->errors, &place,
                    "this has no effect, because only the headers openai report "
                    "tokens");
}

/* Warns of the type of a body that there is not. */
static void check_type(config_reader *r, const config_place *section)
{
    const config_place denied = config_below(section, "denied");
    const config_place type = config_below(&denied, "type");
    if (type.node && !any_answer(r->config, has_body))
        config_warn(r->errors, &type,
                    "this has no effect, because there is no body and no "
                    "body_file");
}

/* Warns of keys of an entry of `listen` that its protocol does not use. */
static void check_listeners(config_reader *r, const config_place *root)
{
    const config_place listen = config_below(root, "listen");
    char names[200] = "";
    put_names(names, sizeof names, " and ", "listen.");
    for (protocol_kind kind = 0; listen.node && config_protocol(kind); kind++) {
        const config_place list = config_below(&listen, config_protocol(kind)->name);
        for (config_place entry = {0}; list.node && config_next_entry(&list, &entry);) {
            const config_place denied = config_below(&entry, "denied");
            for (size_t i = 0; i < HEADER_KEYS && !config_protocol(kind)->has_headers; i++) {
                const config_place place = config_below(&entry, header_keys[i]);
                if (place.node)
                    config_warn(r->errors, &place, "this has an effect in %s only", names);
            }
            if (denied.node && kind != PROTOCOL_HTTP)
                config_warn(r->errors, &denied, "this has an effect in listen.http only");
            check_type(r, &entry);
        }
    }
}

/* ---- policies -------------------------------------------------------------------------------- */

static bool same_policy(const weir_policy *a, const weir_policy *b)
{
    char x[WEIR_POLICY_TEXT_MAX], y[WEIR_POLICY_TEXT_MAX];
    size_t len = weir_policy_print(a, x, sizeof x);
    return len == weir_policy_print(b, y, sizeof y) && memcmp(x, y, len) == 0;
}

static void check_policy(config_reader *r, const config_place *policy, const weir_rule_spec *spec)
{
    static const char *const keys[] = {"denied",  "key",          "no_key",
                                       "headers", "retry_spread", "unit"};
    const weir_config *c = r->config;
    const config_place denied = config_below(policy, "denied");
    const config_place candidate = config_below(policy, "candidate");
    for (size_t i = 0; i < CONFIG_LENGTH(keys) && !config_listens(c, PROTOCOL_HTTP); i++) {
        const config_place place = config_below(policy, keys[i]);
        if (place.node && i < 3)
            config_warn(r->errors, &place, "%s", NEEDS_HTTP);
        else if (place.node && !listens_with_headers(c))
            warn_of_headers(r, &place);
    }
    if (is_set(&denied) && spec->shadow && spec->deny_len == 0)
        config_warn(r->errors, &denied,
                    "this has no effect, because a policy with shadow denies only what is on its "
                    "deny list");
    config_check_useless(r, policy, "no_key", !spec->key, "the policy has no key");
    config_check_useless(r, policy, "retry_spread", spec->shadow,
                         "a policy with shadow has no waits");
    if (candidate.node && same_policy(spec->candidate_policy, spec->policy))
        config_warn(r->errors, &candidate, "this has no effect, because it is the limit itself");
    check_unit(r, policy, spec->answer.unit);
    check_type(r, policy);
}

static void check_policies(config_reader *r, const config_place *root)
{
    const config_place policies = config_below(root, "policies");
    const weir_rule_spec *spec = r->config->rules; /* in the order of the file */
    if (r->config->rules_len == 0)
        return;
    for (const config_node *k = policies.node->first; k; k = k->next, spec++) {
        const config_place policy = {.up = &policies, .key = k, .node = k->value};
        if (k->value->kind != CONFIG_MAP)
            continue;
        check_policy(r, &policy, spec);
        config_check_patterns(r, &policy, spec);
    }
}

/* ---- other keys ------------------------------------------------------------------------------ */

/* Whether a listener uses the top-level `tls`. */
static bool uses_tls(const weir_config *c)
{
    bool used = !c->tls.cert;
    for (size_t i = 0; i < c->listens_len; i++)
        used |= config_listen_tls(c, &c->listens[i]) == &c->tls;
    return used;
}

/* Whether an address could not be public without `insecure`. */
static bool needs_insecure(const weir_config *c)
{
    bool found = false;
    for (size_t i = 0; i < c->listens_len; i++) {
        const config_listen *l = &c->listens[i];
        const config_tls *tls = config_listen_tls(c, l);
        found |= l->is_public && !(tls && tls->client_ca) &&
                 (l->user || c->users_len == 0 || config_protocol(l->protocol)->without_password);
    }
    return found;
}

/* The protocol of all listeners, if it has no password; else NULL. */
static const char *only_without_password(const weir_config *c)
{
    const char *name = config_protocol(c->listens[0].protocol)->without_password;
    for (size_t i = 1; i < c->listens_len && name; i++)
        name = config_protocol(c->listens[i].protocol)->without_password;
    return name;
}

/* Whether an address has clients whose connections limits.per_address counts. */
static bool counts_clients(const weir_config *c)
{
    bool found = false;
    for (size_t i = 0; i < c->listens_len; i++)
        found |= c->listens[i].is_public || c->listens[i].proxy_protocol;
    return found;
}

void config_check_useless(config_reader *r, const config_place *section, const char *key,
                          bool useless, const char *why)
{
    const config_place place = config_below(section, key);
    if (place.node && useless)
        config_warn(r->errors, &place, "this has no effect, because %s", why);
}

static void check_keys(config_reader *r, const config_place *root)
{
    const weir_config *c = r->config;
    const config_place top = config_below(root, "top"), grpc = config_below(root, "grpc");
    const config_place limits = config_below(root, "limits"), http = config_below(root, "http");
    config_check_useless(r, root, "tls", !uses_tls(c), "no address of listen uses it");
    config_check_useless(r, root, "redis",
                         !config_uses_engine(c, WEIR_ENGINE_HYBRID) &&
                             !config_uses_engine(c, WEIR_ENGINE_REDIS),
                         "no policy has the engine redis or hybrid");
    config_check_useless(r, root, "hybrid", !config_uses_engine(c, WEIR_ENGINE_HYBRID),
                         "no policy has the engine hybrid");
    config_check_useless(
        r, root, "insecure", c->insecure && !needs_insecure(c),
        "no address of listen is public without a password or client certificates");
    const char *name = only_without_password(c);
    char why[100];
    snprintf(why, sizeof why, "%s has no password", name ? name : "");
    config_check_useless(r, root, "password", name, why);
    config_check_useless(r, root, "password_file", name, why);
    config_check_useless(r, &limits, "per_address",
                         c->per_address > 0 && c->per_address != config_default_per_address(c) &&
                             !counts_clients(c),
                         "clients of loopback addresses and of Unix sockets are not limited");
    config_check_useless(r, &http, "encoded_slash",
                         c->trusted_proxies.len == 0 && c->encoded_slash != WEIR_SLASH_REFUSE,
                         "trusted_proxies is empty, so that no proxy may ask");
    config_check_useless(r, &top, "memory", c->top_keys == 0, "top.keys is 0");
    config_check_useless(r, &top, "metrics", c->top_keys == 0 && c->top_metrics, "top.keys is 0");
    config_check_useless(r, &top, "metrics",
                         c->top_keys > 0 && c->top_metrics && !config_listens(c, PROTOCOL_HTTP),
                         "there is no listen.http");
    config_check_useless(r, &grpc, "max_connection_age_grace", c->grpc_max_age_ns == 0,
                         "grpc.max_connection_age is off");
}

void config_check_effects(config_reader *r)
{
    const config_place root = {.node = r->root};
    WEIR_ASSERT(config_errors_in(r->errors) == 0);
    if (!r->root)
        return;
    for (size_t i = 0; i < CONFIG_LENGTH(sections); i++)
        config_check_listens(r, sections[i].name, sections[i].kind, sections[i].kind,
                             sections[i].needs);
    for (size_t i = 0; i < HEADER_KEYS && !listens_with_headers(r->config); i++) {
        const config_place place = config_below(&root, header_keys[i]);
        if (is_set(&place))
            warn_of_headers(r, &place);
    }
    for (size_t i = 0; config_guest_at(i); i++) {
        if (config_guest_at(i)->check)
            config_guest_at(i)->check(r, r->config->guest[i]);
    }
    config_check_users(r);
    check_unlimited(r, &root);
    check_proxies(r, &root);
    check_keys(r, &root);
    check_listeners(r, &root);
    check_type(r, &root);
    check_policies(r, &root);
}
