/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* The section `http`. A name or an origin that cannot occur in a request is an error, because it
 * would silently have no effect. */

#include "cmd/config/keys.h"

#include <string.h>

bool config_is_header(const char *text)
{
    static const char token[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
                                "!#$%&'*+-.^_`|~";
    size_t len = strlen(text);
    return len > 0 && len <= CONFIG_NAME_MAX && strspn(text, token) == len;
}

/* ---- the key --------------------------------------------------------------------------------- */

/* key->low: a config_key_from. */
static void read_key_name(config_reader *r, const config_place *place, const config_key *key,
                          void *base)
{
    static const char token[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
                                "!#$%&'*+-.^_`|~";
    bool header = key->low == CONFIG_KEY_HEADER;
    const char *expected = header ? "the name of a header, such as X-Real-IP"
                                  : "the name of a query parameter, such as user";
    config_http_key *http_key = &((weir_config *)base)->http_key;
    const config_node *n = place->node;
    if (!config_want_scalar(r, place, expected))
        return;
    if (n->len > CONFIG_NAME_MAX || (header && strspn(n->text, token) != n->len))
        config_error(r->errors, place, "expected %s, of at most %d bytes, found '%.40s'", expected,
                     CONFIG_NAME_MAX, n->text);
    else if (header && !weir_http_may_be_key(n->text, n->len))
        config_error(r->errors, place,
                     "'%s' is used by HTTP or by browsers and cannot carry the key, expected %s",
                     n->text, expected);
    else if (!header && weir_http_is_param(n->text, n->len))
        config_error(r->errors, place, "'%s' is a parameter of weir itself, expected %s", n->text,
                     expected);
    else if (http_key->from != CONFIG_KEY_UNSET)
        config_error_on(r->errors, place->key, place,
                        "both header and query are set, expected only one");
    else
        *http_key = (config_http_key){(config_key_from)key->low, n->text, 0};
}

static const char key_expected[] = "expected {header: X-Real-IP} or {query: user}";

static void check_key(config_reader *r, const config_place *place, void *base)
{
    const config_http_key *key = &((weir_config *)base)->http_key;
    const config_node *hops = config_get(place->node, "hops");
    if (key->from == CONFIG_KEY_UNSET)
        config_error(r->errors, place, "%s", key_expected);
    else if (hops && key->from == CONFIG_KEY_QUERY)
        config_error_on(r->errors, hops, place, "hops requires header");
}

static const config_key key_keys[] = {
    {"header", CONFIG_OTHER, .low = CONFIG_KEY_HEADER, .read = read_key_name},
    {"query", CONFIG_OTHER, .low = CONFIG_KEY_QUERY, .read = read_key_name},
    {"hops", CONFIG_NUMBER, CONFIG_MEMBER(weir_config, http_key.hops),
     CONFIG_RANGE(1, CONFIG_HOPS_MAX, 0)},
};

static const config_section key_section = {CONFIG_KEYS(key_keys), .expected = key_expected,
                                           .check = check_key};

/* ---- hosts and origins ----------------------------------------------------------------------- */

static const char host_expected[] =
    "a host name without a scheme or a port, such as weir.example.com, or \"*\" for any name";
static const char origin_expected[] =
    "an origin as browsers send it, such as https://app.example.com or http://localhost:3000";

static bool is_host(const char *text, size_t len)
{
    static const char letters[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._";
    return strcmp(text, "*") == 0 || (len <= CONFIG_HOST_MAX && strspn(text, letters) == len);
}

static bool ends_with(const char *text, size_t len, const char *end)
{
    return len > strlen(end) && strcmp(text + len - strlen(end), end) == 0;
}

/* scheme://host or scheme://host:port. Browsers leave out a default port. */
static bool is_origin(const char *text, size_t len)
{
    static const char scheme[] = "abcdefghijklmnopqrstuvwxyz0123456789+.-";
    static const char host[] = "abcdefghijklmnopqrstuvwxyz0123456789-._:[]";
    size_t n = strspn(text, scheme);
    if (n == 0 || n + 3 >= len || len > CONFIG_HOST_MAX || strncmp(text + n, "://", 3) != 0)
        return false;
    bool default_port = (strncmp(text, "http://", 7) == 0 && ends_with(text, len, ":80")) ||
                        (strncmp(text, "https://", 8) == 0 && ends_with(text, len, ":443"));
    return n + 3 + strspn(text + n + 3, host) == len && text[len - 1] != ':' && !default_port;
}

typedef enum names_kind { HOSTS, ORIGINS } names_kind;

static weir_http_names *names_of(const config_key *key, const weir_config *c)
{
    return (weir_http_names *)((char *)c + key->offset);
}

/* A list of names, or a single name. key->low: a names_kind. */
static void read_names(config_reader *r, const config_place *place, const config_key *key,
                       void *base)
{
    const config_node *n = place->node;
    const char *expected = key->low == HOSTS ? host_expected : origin_expected;
    size_t max = n->kind == CONFIG_LIST ? n->children : 1, len = 0;
    if (config_is_empty(n))
        return;
    if (max > CONFIG_NAMES_MAX) {
        config_error(r->errors, place, "%zu entries, expected at most %d", max, CONFIG_NAMES_MAX);
        return;
    }
    const char **names = weir_arena_alloc(r->arena, max, sizeof *names);
    for (config_place entry = {0}; names && config_next_entry(place, &entry);) {
        const config_node *name = entry.node;
        if (!config_want_scalar(r, &entry, expected))
            continue;
        if (!(key->low == HOSTS ? is_host : is_origin)(name->text, name->len))
            config_error(r->errors, &entry, "expected %s, found '%.80s'", expected, name->text);
        names[len++] = name->text;
    }
    *names_of(key, base) = (weir_http_names){names, len};
}

#define NAMES(member) CONFIG_MEMBER(weir_config, member), .read = read_names

static const char *const slash_words[] = {
    [WEIR_SLASH_REFUSE] = "refuse", [WEIR_SLASH_SEPARATE] = "separate", [WEIR_SLASH_KEEP] = "keep"};

static const config_key http_keys[] = {
    {"key", CONFIG_SECTION, .section = &key_section},
    {"hosts", CONFIG_OTHER, NAMES(http_hosts), .low = HOSTS, .schema = CONFIG_TEXTS},
    {"origins", CONFIG_OTHER, NAMES(http_origins), .low = ORIGINS, .schema = CONFIG_TEXTS},
    {"encoded_slash", CONFIG_WORD, CONFIG_MEMBER(weir_config, encoded_slash),
     CONFIG_WORDS(slash_words, WEIR_SLASH_REFUSE)},
    {"client_header", CONFIG_OTHER, .read = config_read_client_header},
};

const config_section config_http_section = {CONFIG_KEYS(http_keys)};
