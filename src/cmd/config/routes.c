/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* The section `routes`, and what it shares with other sections: the names of policies, and key
 * templates. It is read after `policies`, because a route names policies. */

#include "cmd/config/keys.h"
#include "codec/http/options.h"
#include "core/check.h"
#include "service/rules/keep.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#define MEMBER(member) CONFIG_MEMBER(weir_route_spec, member)

/* ---- names of policies ----------------------------------------------------------------------- */

/* The policy with the smallest edit distance to a name; NULL if none is close. */
static const char *closest_policy(const weir_config *c, const char *name)
{
    const char *best = NULL;
    size_t nearest = strlen(name) < 4 ? 2 : 3;
    for (size_t i = 0; i < c->rules_len; i++) {
        size_t distance = weir_edit_distance(name, c->rules[i].name);
        if (distance < nearest) {
            nearest = distance;
            best = c->rules[i].name;
        }
    }
    return best;
}

/* Whether a guest has limits, which are rules too, but are read later. */
static bool has_limits(const weir_config *c)
{
    bool found = false;
    for (size_t i = 0; config_guest_at(i); i++) {
        const config_guest *g = config_guest_at(i);
        found |= g->has_limits && g->has_limits(c->guest[i]);
    }
    return found;
}

void config_check_policy(config_reader *r, const config_place *place)
{
    const weir_config *c = r->config;
    const char *name = place->node->text;
    for (size_t i = 0; i < c->rules_len; i++) {
        if (strcmp(c->rules[i].name, name) == 0)
            return;
    }
    if (has_limits(c))
        return;
    const char *meant = closest_policy(c, name);
    if (meant)
        config_error(r->errors, place, "unknown policy '%.64s', did you mean '%s'?", name, meant);
    else
        config_error(r->errors, place, "unknown policy '%.64s', expected a name of policies", name);
}

/* weir_keep_most() for a policy and its overrides. INT64_MAX if the policy is shadow or invalid, or
 * allows the keys of a list. */
static int64_t most_allowed_to_any_key(const weir_rule_spec *spec, int64_t keep)
{
    if (spec->shadow || spec->allow_len > 0 || !spec->policy)
        return INT64_MAX;
    int64_t most = weir_keep_most(spec->policy, keep);
    for (size_t i = 0; i < spec->overrides_len; i++) {
        int64_t other = weir_keep_most(spec->overrides[i].policy, keep);
        most = other > most ? other : most;
    }
    return most;
}

void config_check_cost(config_reader *r, const config_place *place, const char *policy,
                       int64_t cost, int64_t keep)
{
    const weir_config *c = r->config;
    if (cost == 0)
        config_warn(r->errors, place,
                    "a cost of 0 charges nothing: the policy %s denies such a request only while "
                    "others have used up the limit",
                    policy);
    for (size_t i = 0; i < c->rules_len; i++) {
        if (strcmp(c->rules[i].name, policy) != 0)
            continue;
        int64_t most = most_allowed_to_any_key(&c->rules[i], keep);
        if (cost > most)
            config_warn(r->errors, place,
                        "no request is allowed, because the policy %s allows a cost of at most "
                        "%" PRId64 "%s",
                        policy, most > 0 ? most : 0, keep ? " with what the request keeps" : "");
    }
}

/* ---- key templates --------------------------------------------------------------------------- */

static void template_error(config_reader *r, const config_place *place, size_t at, const char *why)
{
    size_t column;
    if (config_column(r->errors, place->node, at + 1, &column))
        config_error_at(r->errors, column, place, "%s", why);
    else
        config_error(r->errors, place, "%s", why);
}

weir_key_template *config_parse_template(config_reader *r, const config_place *place)
{
    weir_key_template *t = NULL;
    char why[256];
    size_t at = 0;
    weir_status st =
        weir_key_template_parse(&t, place->node->text, place->node->len, why, sizeof why, &at);
    if (st == WEIR_E_NOMEM)
        r->arena->failed = true;
    else if (st != WEIR_OK)
        template_error(r, place, at, why);
    return t;
}

void config_check_template(config_reader *r, const config_place *place)
{
    weir_key_template_free(config_parse_template(r, place));
}

/* Whether a header may be a part of a key. Unlike http.key, a template may read what identifies the
 * client of a proxy. */
static bool may_be_in_key(weir_slice name)
{
    return weir_slice_is(name, "authorization") || weir_slice_is(name, "cookie") ||
           weir_slice_is(name, "user-agent") || weir_http_may_be_key(name.at, name.len);
}

/* Reports a variable that no HTTP request has. */
static void check_variable(config_reader *r, const config_place *place, const char *name)
{
    static const char *const known[] = {"client", "method", "host",   "path", "route",
                                        "policy", "header", "cookie", "query"};
    enum { WITHOUT_NAME = 6 }; /* the others have a name behind them */
    static const char expected[] =
        "$client, $header.NAME, $cookie.NAME, $query.NAME, $method, $host, $path, $route or "
        "$policy";
    weir_slice header = {NULL, 0}, rest;
    const weir_slice variable = {name, strlen(name)};
    if (weir_key_template_is(variable, WEIR_KEY_COOKIE, &rest) ||
        weir_key_template_is(variable, WEIR_KEY_QUERY, &rest))
        return;
    bool has_header = weir_key_template_is(variable, WEIR_KEY_HEADER, &header);
    size_t best = CONFIG_LENGTH(known);
    size_t nearest = 3;
    for (size_t i = 0; i < CONFIG_LENGTH(known); i++) {
        size_t distance = weir_edit_distance(name, known[i]);
        if (distance == 0 && i < WITHOUT_NAME)
            return;
        best = distance < nearest ? i : best;
        nearest = distance < nearest ? distance : nearest;
    }
    if (has_header && may_be_in_key(header))
        return;
    if (has_header)
        config_error(r->errors, place,
                     "the header '%.64s' cannot be used in a key: browsers or HTTP libraries set "
                     "it by themselves",
                     header.at);
    else if (best < CONFIG_LENGTH(known))
        config_error(r->errors, place, "unknown variable '$%.64s', did you mean '$%s%s'?", name,
                     known[best], best >= WITHOUT_NAME ? ".NAME" : "");
    else
        config_error(r->errors, place, "unknown variable '$%.64s', expected %s", name, expected);
}

/* Adds the headers of a template to `names`. Returns how many there are then, at most
 * WEIR_RULE_HEADERS_MAX + 1. */
static size_t add_headers(const weir_key_template *t, weir_slice names[], size_t len)
{
    for (size_t i = 0; t && i < weir_key_template_len(t); i++) {
        weir_slice name;
        bool fresh = weir_key_template_header(weir_key_template_name(t, i), &name);
        for (size_t k = 0; k < len && fresh; k++)
            fresh = names[k].len != name.len || strncasecmp(names[k].at, name.at, name.len) != 0;
        if (fresh && len <= WEIR_RULE_HEADERS_MAX)
            names[len++] = name;
    }
    return len;
}

void config_check_headers(config_reader *r, const config_place *place, const weir_rule_spec *specs,
                          size_t n)
{
    weir_slice names[WEIR_RULE_HEADERS_MAX + 1];
    weir_key_template *templates[WEIR_RULE_HEADERS_MAX + 1];
    size_t len = 0, kept = 0;
    for (size_t i = 0; i < n && len <= WEIR_RULE_HEADERS_MAX; i++) {
        weir_key_template *t = NULL;
        char why[256];
        size_t at, before = len;
        if (!specs[i].key || weir_key_template_parse(&t, specs[i].key, strlen(specs[i].key), why,
                                                     sizeof why, &at) != WEIR_OK)
            continue;
        len = add_headers(t, names, len);
        if (len > before)
            templates[kept++] = t; /* the names are in it */
        else
            weir_key_template_free(t);
    }
    if (len > WEIR_RULE_HEADERS_MAX)
        config_error(r->errors, place, "the key templates use more than %d headers",
                     WEIR_RULE_HEADERS_MAX);
    while (kept > 0)
        weir_key_template_free(templates[--kept]);
}

void config_read_key_template(config_reader *r, const config_place *place, const config_key *key,
                              void *base)
{
    weir_rule_spec *spec = base;
    (void)key;
    if (!config_want_scalar(r, place, "a key template, such as \"$client/$header.x-api-key\""))
        return;
    weir_key_template *t = config_parse_template(r, place);
    for (size_t i = 0; t && i < weir_key_template_len(t); i++)
        check_variable(r, place, weir_key_template_name(t, i).at);
    weir_key_template_free(t);
    spec->key = place->node->text;
}

/* ---- values of a route ----------------------------------------------------------------------- */

typedef enum list_kind { METHODS, HOSTS, POLICIES } list_kind;

static const char *const list_expected[] = {
    [METHODS] = "a method in upper case, such as POST, or a list of them",
    [HOSTS] = "a host name without a port, such as api.example.com or \"*.example.com\", or a list "
              "of them",
    [POLICIES] = "the name of a policy, or a list of them",
};

static bool is_host(const char *text, size_t len)
{
    static const char letters[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._";
    size_t wildcard = strncmp(text, "*.", 2) == 0 ? 2 : 0;
    weir_address address;
    if (text[0] == '[')
        return len > 2 && text[len - 1] == ']' && memchr(text, ':', len) &&
               weir_address_parse(&address, text + 1, len - 2);
    return len > wildcard && len <= WEIR_ROUTE_HOST_MAX && text[wildcard] != '.' &&
           strspn(text + wildcard, letters) == len - wildcard;
}

/* Reports a method that no request has, and warns of one that may be misspelt. */
static void check_method(config_reader *r, const config_place *entry, const char *text)
{
    static const char *const known[] = {"GET",     "HEAD",  "POST",  "PUT",  "DELETE", "CONNECT",
                                        "OPTIONS", "TRACE", "PATCH", "LINK", "UNLINK", "PURGE",
                                        "COPY",    "MOVE",  "LOCK",  "BIND", "ACL",    "QUERY",
                                        "SEARCH",  "MERGE", "LABEL"};
    const char *close = NULL;
    if (strcmp(text, "ANY") == 0 || strcmp(text, "ALL") == 0) {
        config_error(r->errors, entry,
                     "no request has the method %s; leave out method to match every method", text);
        return;
    }
    for (size_t i = 0; i < CONFIG_LENGTH(known); i++) {
        size_t distance = weir_edit_distance(text, known[i]);
        if (distance == 0)
            return;
        close = distance == 1 ? known[i] : close;
    }
    if (close)
        config_warn(r->errors, entry,
                    "the route matches no request unless clients send the method %s; did you mean "
                    "%s?",
                    text, close);
}

static void check_entry(config_reader *r, const config_place *entry, list_kind kind)
{
    static const char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZ-";
    const config_node *n = entry->node;
    bool fits = true;
    if (kind == POLICIES)
        config_check_policy(r, entry);
    else if (kind == METHODS)
        fits = n->len <= WEIR_ROUTE_METHOD_MAX && strspn(n->text, letters) == n->len;
    else
        fits = is_host(n->text, n->len);
    if (!fits)
        config_error(r->errors, entry, "expected %s, found '%.80s'", list_expected[kind], n->text);
    else if (kind == METHODS)
        check_method(r, entry, n->text);
}

/* Reports a policy that a route has twice: each request would be charged twice. */
static void check_repeated(config_reader *r, const config_place *entry, const char *const *list,
                           size_t len)
{
    for (size_t i = 0; i < len; i++) {
        if (strcmp(list[i], entry->node->text) == 0) {
            config_error(r->errors, entry, "the policy %s is listed twice", list[i]);
            return;
        }
    }
}

/* A list, or a single value. key->low: a list_kind. */
static void read_list(config_reader *r, const config_place *place, const config_key *key,
                      void *base)
{
    const config_node *n = place->node;
    list_kind kind = (list_kind)key->low;
    weir_route_spec *spec = base;
    size_t most = kind == POLICIES ? WEIR_ROUTE_POLICIES_MAX : WEIR_ROUTE_LIST_MAX;
    size_t max = n->kind == CONFIG_LIST ? n->children : 1, len = 0;
    if (max > most) {
        config_error(r->errors, place, "%zu entries, expected at most %zu", max, most);
        return;
    }
    const char **list = weir_arena_alloc(r->arena, max, sizeof *list);
    for (config_place entry = {0}; list && config_next_entry(place, &entry);) {
        if (!config_want_scalar(r, &entry, list_expected[kind]))
            continue;
        check_entry(r, &entry, kind);
        if (kind == POLICIES)
            check_repeated(r, &entry, list, len);
        list[len++] = entry.node->text;
    }
    if (kind == METHODS) {
        spec->methods = list;
        spec->methods_len = len;
    } else if (kind == HOSTS) {
        spec->hosts = list;
        spec->hosts_len = len;
    } else {
        spec->policies = list;
        spec->policies_len = len;
    }
}

static void read_name(config_reader *r, const config_place *place, const config_key *key,
                      void *base)
{
    weir_rule_error error;
    (void)key;
    if (!config_want_scalar(r, place, "a name, such as login"))
        return;
    ((weir_route_spec *)base)->name = place->node->text;
    if (weir_rule_name_check(place->node->text, place->node->len, &error) != WEIR_OK)
        config_error(r->errors, place,
                     "expected a name of 1 to %d letters, digits and - _ . : /, found '%.80s'",
                     WEIR_RULE_NAME_MAX, place->node->text);
}

/* Returns the first place of a path where a pattern of another program may be meant, which would
 * never match; NULL if there is none. A '*' is one too, unless it is a whole segment. */
static const char *find_foreign_pattern(const char *path)
{
    for (const char *at = path; *at; at++) {
        bool begins = at > path && at[-1] == '/', ends = at[1] == '/' || at[1] == '\0';
        if (strchr("{}<>[]|^", *at) || (*at == '*' && !(begins && ends)) ||
            (*at == ':' && begins) || (*at == '$' && at[1] == '\0') ||
            strncasecmp(at, "%2a", 3) == 0)
            return at;
    }
    return NULL;
}

/* Reports a path that no request has. */
static void check_path(config_reader *r, const config_place *place, const char *path, size_t len)
{
    char normal[WEIR_PATH_ROOM];
    const char *foreign = find_foreign_pattern(path);
    if (foreign && (*foreign == '*' || *foreign == '%'))
        config_error(r->errors, place,
                     "'*' may only stand for a whole segment, as in /users/*/orders; a path also "
                     "matches all paths below it, so it needs no '*' at its end; found '%.80s'",
                     path);
    else if (foreign)
        config_error(r->errors, place,
                     "'%c' is not a pattern, and no request would match: write * for one segment, "
                     "as in /users/*/orders, or %%%02X for the character itself; found '%.80s'",
                     *foreign, (unsigned)*foreign, path);
    else if (weir_path_normalise((weir_slice){path, len}, r->config->encoded_slash, normal) == 0)
        config_error(r->errors, place,
                     "no request matches a path with an encoded slash or a backslash, because "
                     "http.encoded_slash is refuse; found '%.80s'",
                     path);
}

static void read_path(config_reader *r, const config_place *place, const config_key *key,
                      void *base)
{
    static const char expected[] =
        "a path that begins with '/', such as /v1, without a query, ';', \"..\" and %00";
    const config_node *n = place->node;
    (void)key;
    if (!config_want_scalar(r, place, expected))
        return;
    ((weir_route_spec *)base)->path = n->text;
    if (n->text[0] != '/' || strpbrk(n->text, "?#;") || n->len > CONFIG_ROUTE_PATH_MAX ||
        weir_path_refused((weir_slice){n->text, n->len}) > WEIR_PATH_SLASH)
        config_error(r->errors, place, "expected %s, of at most %d bytes, found '%.80s'", expected,
                     CONFIG_ROUTE_PATH_MAX, n->text);
    else
        check_path(r, place, n->text, n->len);
}

void config_read_keep(config_reader *r, const config_place *place, int64_t *ret)
{
    const config_node *n = place->node;
    if (config_want_scalar(r, place, "units or a share, such as 20%") &&
        !weir_keep_read((weir_slice){n->text, n->len}, ret))
        config_error(r->errors, place, "%s, found '%.40s'", WEIR_KEEP_EXPECTED, n->text);
}

void config_print_keep(int64_t keep)
{
    if (keep != 0)
        printf(", keep %" PRId64 "%s", keep < 0 ? -keep : keep, keep < 0 ? "%" : "");
}

static void read_keep(config_reader *r, const config_place *place, const config_key *key,
                      void *base)
{
    (void)key;
    config_read_keep(r, place, &((weir_route_spec *)base)->keep);
}

/* ---- the section ----------------------------------------------------------------------------- */

static void check_route(config_reader *r, const config_place *place, void *base)
{
    const config_place both = config_below(place, "policies"), cost = config_below(place, "cost"),
                       keep = config_below(place, "keep");
    const weir_route_spec *spec = base;
    for (size_t i = 0; (cost.node || keep.node) && i < spec->policies_len; i++)
        config_check_cost(r, cost.node ? &cost : &keep, spec->policies[i], spec->cost, spec->keep);
    if (cost.node && spec->policies_len == 0)
        config_warn(r->errors, &cost, "the cost has no effect, because the route has no policy");
    if (keep.node && spec->policies_len == 0)
        config_warn(r->errors, &keep, "keep has no effect, because the route has no policy");
    if (both.node && config_get(place->node, "policy"))
        config_error_on(r->errors, both.key, place,
                        "both policy and policies are set, expected only one");
}

static const config_key route_keys[] = {
    {"name", CONFIG_OTHER, .read = read_name},
    {"host", CONFIG_OTHER, .low = HOSTS, .schema = CONFIG_TEXTS, .read = read_list},
    {"method", CONFIG_OTHER, .low = METHODS, .schema = CONFIG_TEXTS, .read = read_list},
    {"path", CONFIG_OTHER, .read = read_path},
    {"policy", CONFIG_OTHER, .low = POLICIES, .schema = CONFIG_TEXTS, .read = read_list},
    {"policies", CONFIG_OTHER, .low = POLICIES, .schema = CONFIG_TEXTS, .read = read_list},
    {"cost", CONFIG_NUMBER, MEMBER(cost), CONFIG_RANGE(0, WEIR_COST_MAX, 1)},
    {"keep", CONFIG_OTHER, .read = read_keep},
};

const config_section config_route_section = {
    CONFIG_KEYS(route_keys), .expected = "expected a route, such as {path: /login, policy: login}",
    .check = check_route};

/* Warns of routes that no request reaches, and of limits that another host gets around. */
static void check_reach(config_reader *r, const config_place *place, const weir_config *c)
{
    weir_routes *routes = NULL;
    if (weir_routes_build(&routes, c->routes, c->routes_len, c->encoded_slash) != WEIR_OK) {
        r->arena->failed = true; /* the specs are valid, so it is the memory */
        return;
    }
    size_t i = 0;
    for (config_place entry = {0}; config_next_entry(place, &entry); i++) {
        size_t first = weir_routes_covering(routes, i);
        if (first < i)
            config_warn(r->errors, &entry,
                        "no request reaches this route, because routes[%zu] matches all of "
                        "them: put the narrower route first",
                        first);
        if (c->routes[i].policies_len > 0 && weir_routes_miss_hosts(routes, i))
            config_warn(r->errors, &entry,
                        "a request with another Host is not limited, because no route without a "
                        "host has this path: add one, such as {path: /, policy: %s}, or let the "
                        "proxy refuse other hosts",
                        c->routes[i].policies[0]);
    }
    weir_routes_drop(routes);
}

void config_read_routes(config_reader *r, const config_place *place, const config_key *key,
                        void *base)
{
    weir_config *c = base;
    const config_node *n = place->node;
    size_t before = config_errors_in(r->errors);
    (void)key;
    if (config_is_empty(n))
        return;
    if (n->kind != CONFIG_LIST || n->children > WEIR_ROUTES_MAX) {
        config_error(r->errors, place,
                     "expected a list of at most %d routes, such as [{path: /login, policy: "
                     "login}]",
                     WEIR_ROUTES_MAX);
        return;
    }
    weir_route_spec *specs = weir_arena_alloc(r->arena, n->children, sizeof *specs);
    for (config_place entry = {0}; specs && config_next_entry(place, &entry);) {
        weir_route_spec *spec = &specs[c->routes_len++];
        config_set_defaults(&config_route_section, spec);
        if (!entry.node->bad)
            config_read_section(r, &entry, &config_route_section, spec);
    }
    c->routes = specs;
    if (specs && config_errors_in(r->errors) == before)
        check_reach(r, place, c);
}
