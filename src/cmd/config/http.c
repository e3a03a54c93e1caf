/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* The section `http`. A name or an origin that no request could ever have is an error here, since
 * nobody would notice it later. */

#include "cmd/config/http.h"

#include <string.h>

#define LENGTH(array) (sizeof(array) / sizeof(array)[0])

/* ---- the key --------------------------------------------------------------------------------- */

/* field->low: config_key_from. */
static bool read_key_name(config_reader *r, const config_place *place, const config_field *field,
                          void *base)
{
    static const char token[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
                                "!#$%&'*+-.^_`|~";
    bool header = field->low == CONFIG_KEY_HEADER;
    const char *expected = header ? "the name of a header, such as X-Real-IP"
                                  : "the name of a query parameter, such as user";
    config_http_key *key = &((weir_config *)base)->http_key;
    if (!config_want_text(r, place, expected))
        return false;
    const config_node *n = place->node;
    if (n->len > CONFIG_NAME_MAX || (header && strspn(n->text, token) != n->len)) {
        config_complain(r->errors, place, "expected %s, of at most %d bytes, found '%.40s'",
                        expected, CONFIG_NAME_MAX, n->text);
        return false;
    }
    if (header && !weir_http_may_be_key(n->text, n->len)) {
        config_complain(r->errors, place,
                        "'%s' cannot carry the key: HTTP or browsers use it; expected %s", n->text,
                        expected);
        return false;
    }
    if (!header && weir_http_is_param(n->text, n->len)) {
        config_complain(r->errors, place, "'%s' is a parameter of every request, expected %s",
                        n->text, expected);
        return false;
    }
    if (key->from != CONFIG_KEY_UNSET) {
        config_complain_at(r->errors, place->key->begin, place,
                           "both header and query are set, expected only one");
        return false;
    }
    key->from = (config_key_from)field->low;
    memcpy(key->name, n->text, n->len + 1);
    return true;
}

static bool read_http_key(config_reader *r, const config_place *place, const config_field *field,
                          void *base)
{
    static const config_field fields[] = {
        {.name = "header", .read = read_key_name, .low = CONFIG_KEY_HEADER},
        {.name = "query", .read = read_key_name, .low = CONFIG_KEY_QUERY},
        {.name = "hops",
         .read = config_read_int,
         .offset = offsetof(weir_config, http_key.hops),
         .low = 1,
         .high = CONFIG_HOPS_MAX},
    };
    static const char expected[] = "expected {header: X-Real-IP} or {query: user}";
    (void)field;
    if (place->node->kind != CONFIG_MAP) {
        config_complain(r->errors, place, "%s", expected);
        return false;
    }
    size_t before = r->errors->found;
    if (!config_read_map(r, place, fields, LENGTH(fields), base) || r->errors->found > before)
        return false;
    const config_http_key *key = &((weir_config *)base)->http_key;
    const config_node *hops = config_get(place->node, "hops");
    if (key->from == CONFIG_KEY_UNSET)
        config_complain(r->errors, place, "%s", expected);
    else if (hops && key->from == CONFIG_KEY_QUERY)
        config_complain_at(r->errors, hops->begin, place, "hops requires header");
    return true;
}

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

/* scheme://host, or scheme://host:port with a port that is not the scheme's own. */
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

/* A list of texts, or one alone. */
static bool read_names(config_reader *r, const config_place *place, bool good(const char *, size_t),
                       const char *expected, weir_http_names *ret)
{
    const config_node *n = place->node;
    bool is_list = n->kind == CONFIG_LIST;
    if (config_is_empty(n))
        return true;
    size_t len = is_list ? n->children : 1, i = 0;
    if (len > CONFIG_NAMES_MAX) {
        config_complain(r->errors, place, "%zu entries, expected at most %d", len,
                        CONFIG_NAMES_MAX);
        return false;
    }
    const char **names = config_alloc_array(r->arena, len + 1, sizeof *names);
    if (!names)
        return false;
    for (const config_node *child = is_list ? n->first : n; child;
         child = is_list ? child->next : NULL, i++) {
        const config_place entry = {place, NULL, i, child};
        const config_place *at = is_list ? &entry : place;
        if (!config_want_text(r, at, expected))
            return false;
        if (!good(child->text, child->len)) {
            config_complain(r->errors, at, "expected %s, found '%.80s'", expected, child->text);
            return false;
        }
        names[i] = child->text;
    }
    *ret = (weir_http_names){names, i};
    return true;
}

static bool read_hosts(config_reader *r, const config_place *place, const config_field *field,
                       void *base)
{
    (void)field;
    return read_names(r, place, is_host, host_expected, &((weir_config *)base)->http_hosts);
}

static bool read_origins(config_reader *r, const config_place *place, const config_field *field,
                         void *base)
{
    (void)field;
    return read_names(r, place, is_origin, origin_expected, &((weir_config *)base)->http_origins);
}

bool config_read_http(config_reader *r, const config_place *place, const config_field *field,
                      void *base)
{
    static const config_field fields[] = {
        {.name = "key", .read = read_http_key},
        {.name = "hosts", .read = read_hosts},
        {.name = "origins", .read = read_origins},
    };
    (void)field;
    return config_read_map(r, place, fields, LENGTH(fields), base);
}
