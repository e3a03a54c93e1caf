/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* The section `listen`: IP addresses with a port, and Unix sockets. Host names are refused, because
 * a name can resolve to another address later. It must not know any socket. */

#include "cmd/config/keys.h"
#include "port/assert.h"
#include "port/text.h"

#include <arpa/inet.h>
#include <stdlib.h>
#include <string.h>

const protocol_name *config_protocol(protocol_kind kind)
{
    static const protocol_name own[PROTOCOLS_OWN] = {
        [PROTOCOL_RESP] = {.name = "resp", .default_address = "127.0.0.1:6380"},
        [PROTOCOL_HTTP] = {.name = "http",
                           .default_address = "127.0.0.1:8080",
                           .has_headers = true},
        [PROTOCOL_GRPC] = {.name = "grpc"},
    };
    if (kind < PROTOCOLS_OWN)
        return &own[kind];
    const config_guest *g = config_guest_of(kind);
    return g ? g->protocol : NULL;
}

static const char expected_address[] =
    "an IP address and a port, such as 127.0.0.1:6380 or \"[::1]:6380\", a port alone, or off";

/* Reads a port number. */
static bool parse_port(const char *text, unsigned *ret)
{
    uint64_t n;
    size_t len = strlen(text);
    if (len > 5 || !weir_decimal_read(text, len, 65535, &n))
        return false;
    *ret = (unsigned)n;
    return true;
}

/* Whether an IPv6 address is ::1, or IPv4-mapped from 127.0.0.0/8. */
static bool is_loopback6(const struct in6_addr *a)
{
    return IN6_IS_ADDR_V4MAPPED(a) ? a->s6_addr[12] == 127 : IN6_IS_ADDR_LOOPBACK(a);
}

/* Writes the canonical form of an IP address and a port. Returns false if `host` is none. */
static bool parse_host(const char *host, bool v6, unsigned port, config_listen *ret)
{
    struct in6_addr a; /* an IPv4 address is in its first 4 bytes */
    char text[INET6_ADDRSTRLEN];
    int family = v6 ? AF_INET6 : AF_INET;
    if (inet_pton(family, host, &a) != 1 || !inet_ntop(family, &a, text, sizeof text))
        return false;
    ret->is_public = v6 ? !is_loopback6(&a) : a.s6_addr[0] != 127;
    snprintf(ret->address, sizeof ret->address, v6 ? "[%s]:%u" : "%s:%u", text, port);
    return true;
}

static bool is_number(const char *text)
{
    return text[0] != '\0' && text[strspn(text, "0123456789")] == '\0';
}

/* Returns NULL, or what the text is instead of an address, as a part of an error. */
static const char *parse_address(const char *text, config_listen *ret)
{
    char host[64] = "127.0.0.1";
    const char *colon = strrchr(text, ':'), *digits = colon ? colon + 1 : text;
    size_t len = colon ? (size_t)(colon - text) : 0;
    unsigned port = 0;
    if (strncmp(text, "localhost:", 10) == 0)
        return "a host name (write 127.0.0.1) in ";
    if (!parse_port(digits, &port))
        return !is_number(digits) ? ""
               : digits[0] == '0' && strtol(digits, NULL, 10) < 65536
                   ? "a port with leading zeros in "
                   : "a port above 65535 in ";
    bool v6 = text[0] == '[' && text[len - 1] == ']';
    if (len > 0)
        snprintf(host, sizeof host, "%.*s", (int)(len - 2 * v6), text + v6);
    return parse_host(host, v6, port, ret) ? NULL : "";
}

bool config_address_read(const char *text, config_listen *ret)
{
    return parse_address(text, ret) == NULL;
}

/* Port 0 is any free port, so that several listeners may have it. */
static bool has_port_0(const config_listen *l)
{
    size_t len = strlen(l->address);
    return l->address[0] != '/' && strcmp(l->address + len - 2, ":0") == 0;
}

static void add_listen(config_reader *r, const config_place *place, const config_listen *listen)
{
    weir_config *c = r->config;
    for (size_t i = 0; i < c->listens_len; i++) {
        if (strcmp(c->listens[i].address, listen->address) == 0 && !has_port_0(listen)) {
            config_error(r->errors, place, "duplicate address %s", listen->address);
            return;
        }
    }
    const char *without_password = config_protocol(listen->protocol)->without_password;
    WEIR_ASSERT(listen->address[0]);
    if (without_password && c->users_len > 0 && !listen->user)
        config_error(r->errors, place,
                     "%s has no password, and there are users: bind the address to one, as in "
                     "{address: \"%s\", user: NAME}",
                     without_password, listen->address);
    else if (c->listens_len == CONFIG_FILE_LISTENS_MAX)
        config_error(r->errors, place, "more than %d addresses", CONFIG_FILE_LISTENS_MAX);
    else
        c->listens[c->listens_len++] = *listen;
}

/* Whether the configuration has users or a password. */
static bool has_users(const config_reader *r)
{
    return config_get(r->root, "password") || config_get(r->root, "password_file") ||
           r->config->users_len > 0;
}

/* Whether public addresses are allowed: clients must give a password and the protocol can carry it,
 * clients must present a certificate, or `insecure` waives both. */
static bool may_be_public(const config_reader *r, const config_listen *listen)
{
    const config_node *insecure = config_get(r->root, "insecure");
    const config_tls *tls = config_listen_tls(r->config, listen);
    bool password = has_users(r) && !listen->user;
    return (tls && tls->client_ca) ||
           (password && !config_protocol(listen->protocol)->without_password) ||
           (insecure && strcmp(insecure->text, "false") != 0);
}

/* Whether trusted_proxies is not empty; it may be wrong. */
static bool trusts_proxies(const config_reader *r)
{
    const config_node *n = config_get(r->root, "trusted_proxies");
    return n && !config_is_empty(n) && (n->kind != CONFIG_LIST || n->children > 0);
}

/*  path  of a Unix socket. */
static void read_path(config_reader *r, const config_place *place, const char *path,
                      config_listen *listen)
{
    size_t len = strlen(path);
    if (len >= sizeof listen->address) {
        config_error(r->errors, place, "expected a path of at most 107 bytes, found %zu bytes",
                     len);
        return;
    }
    memcpy(listen->address, path, len + 1);
    add_listen(r, place, listen);
}

/*  listen  its protocol and its TLS are set. */
static void read_address(config_reader *r, const config_place *place, config_listen *listen)
{
    const char *text = place->node->text;
    const char *without_password = config_protocol(listen->protocol)->without_password;
    if (!config_want_scalar(r, place, expected_address))
        return;
    if (text[0] == '/' || strncmp(text, "unix:/", 6) == 0) {
        read_path(r, place, strchr(text, '/'), listen);
        return;
    }
    const char *wrong = parse_address(text, listen);
    if (wrong)
        config_error(r->errors, place, "expected %s, found %s'%.40s'", expected_address, wrong,
                     text);
    else if (listen->is_public && !may_be_public(r, listen) && without_password)
        config_error(r->errors, place,
                     "other machines can reach %s, and %s has no password; set tls.client_ca, or "
                     "insecure: true to accept every client",
                     listen->address, without_password);
    else if (listen->is_public && !may_be_public(r, listen))
        config_error(r->errors, place,
                     "other machines can reach %s and there is no password; set users, password, "
                     "password_file or tls.client_ca, or insecure: true to accept every client",
                     listen->address);
    else if (listen->is_public && listen->proxy_protocol && !trusts_proxies(r))
        config_error(
            r->errors, place,
            "other machines can reach %s and choose their address with proxy_protocol; set "
            "trusted_proxies to the addresses of your proxies",
            listen->address);
    else
        add_listen(r, place, listen);
}

/* ---- an entry that is a map ------------------------------------------------------------------ */

static void read_entry_tls(config_reader *r, const config_place *place, const config_key *key,
                           void *base)
{
    config_listen *listen = base;
    config_read_tls(r, place, key, base);
    if (strcmp(place->node->text, "off") == 0)
        listen->tls_choice = CONFIG_TLS_OFF;
    else if (listen->tls.cert)
        listen->tls_choice = CONFIG_TLS_OWN;
}

static void read_entry_address(config_reader *r, const config_place *place, const config_key *key,
                               void *base)
{
    (void)key;
    read_address(r, place, base);
}

static void require_address(config_reader *r, const config_place *place, void *base)
{
    (void)base;
    if (!config_get(place->node, "address"))
        config_error(r->errors, place, "missing key address, expected %s", expected_address);
}

static const config_key entry_keys[] = {
    /* Before `address`, which depends on it. */
    {"tls", CONFIG_OTHER, CONFIG_MEMBER(config_listen, tls), .entries = &config_tls_section,
     .schema = CONFIG_OR_OFF, .read = read_entry_tls},
    {"proxy_protocol", CONFIG_BOOL, CONFIG_MEMBER(config_listen, proxy_protocol)},
    {"headers", CONFIG_OTHER, CONFIG_MEMBER(config_listen, answer.headers), .schema = CONFIG_TEXTS,
     .read = config_read_headers},
    {"retry_spread", CONFIG_OTHER, CONFIG_MEMBER(config_listen, answer.retry_spread), .low = 1,
     .read = config_read_spread},
    {"denied", CONFIG_SECTION, CONFIG_MEMBER(config_listen, answer),
     .section = &config_denied_section, .read = config_read_denied},
    {"user", CONFIG_OTHER, .read = config_read_listen_user},
    {"address", CONFIG_OTHER, .read = read_entry_address},
};

static const config_section entry_section = {CONFIG_KEYS(entry_keys), .check = require_address};

static void read_entry(config_reader *r, const config_place *place, protocol_kind protocol)
{
    config_listen listen = {.protocol = protocol};
    if (place->node->kind == CONFIG_MAP)
        config_read_section(r, place, &entry_section, &listen);
    else
        read_address(r, place, &listen);
}

/* ---- the section ----------------------------------------------------------------------------- */

/* key->low is the protocol. */
static void read_addresses(config_reader *r, const config_place *place, const config_key *key,
                           void *base)
{
    (void)base;
    if (strcmp(place->node->text, "off") == 0)
        return;
    for (config_place entry = {0}; config_next_entry(place, &entry);)
        read_entry(r, &entry, (protocol_kind)key->low);
}

static void read_unix(config_reader *r, const config_place *place, const config_key *key,
                      void *base)
{
    static const char expected[] = "an absolute path of at most 107 bytes, or off";
    config_listen listen = {.protocol = PROTOCOL_RESP};
    const config_node *n = place->node;
    (void)key;
    (void)base;
    if (!config_want_scalar(r, place, expected) || strcmp(n->text, "off") == 0)
        return;
    if (n->text[0] != '/' || n->len >= sizeof listen.address) {
        config_error(r->errors, place, "expected %s, found '%.40s' (%zu bytes)", expected, n->text,
                     n->len);
        return;
    }
    memcpy(listen.address, n->text, n->len);
    add_listen(r, place, &listen);
}

config_section config_listen_section(config_key keys[static CONFIG_LISTEN_KEYS])
{
    config_section section = {.keys = keys};
    for (protocol_kind kind = 0; config_protocol(kind); kind++)
        keys[section.len++] =
            (config_key){.name = config_protocol(kind)->name,
                         .low = (int64_t)kind,
                         .entries = &entry_section,
                         .schema = CONFIG_TEXT
                         ",@,{\"type\":\"array\",\"items\":{\"anyOf\":[" CONFIG_TEXT ",@]}}",
                         .read = read_addresses};
    keys[section.len++] = (config_key){.name = "unix", .type = CONFIG_STRING, .read = read_unix};
    return section;
}

void config_read_listen(config_reader *r, const config_place *place, const config_key *key,
                        void *base)
{
    config_key keys[CONFIG_LISTEN_KEYS];
    const config_section section = config_listen_section(keys);
    size_t before = r->errors->found;
    (void)key;
    r->config->listens_len = 0; /* drops the defaults: only addresses that are named are used */
    config_read_section(r, place, &section, base);
    if (r->config->listens_len == 0 && r->errors->found == before)
        config_error(r->errors, place, "no address to listen on, expected at least one");
}

bool config_same_listen(const config_key *key, const void *first, const void *second)
{
    const weir_config *a = first, *b = second;
    (void)key;
    static const char none[] = "";
    bool same = a->listens_len == b->listens_len;
    for (size_t i = 0; same && i < a->listens_len; i++)
        same = a->listens[i].protocol == b->listens[i].protocol &&
               strcmp(a->listens[i].address, b->listens[i].address) == 0 &&
               a->listens[i].tls_choice == b->listens[i].tls_choice &&
               a->listens[i].proxy_protocol == b->listens[i].proxy_protocol &&
               strcmp(a->listens[i].user ? a->listens[i].user : none,
                      b->listens[i].user ? b->listens[i].user : none) == 0 &&
               config_same_tls(&a->listens[i].tls, &b->listens[i].tls);
    return same;
}

static bool same_socket(const config_listen *a, const config_listen *b)
{
    return a->protocol == b->protocol && strcmp(a->address, b->address) == 0;
}

/* The listener that has the address of listener i of `start`; NULL: none. Several may have port 0,
 * so that the same place comes first. */
static const config_listen *find_listen(const weir_config *c, const weir_config *start, size_t i)
{
    const config_listen *l = &start->listens[i];
    if (i < c->listens_len && same_socket(&c->listens[i], l))
        return &c->listens[i];
    for (size_t k = 0; k < c->listens_len; k++) {
        if (same_socket(&c->listens[k], l))
            return &c->listens[k];
    }
    return NULL;
}

void config_keep_listens(weir_config *c, const weir_config *start)
{
    config_listen kept[CONFIG_LISTENS_MAX];
    for (size_t i = 0; i < start->listens_len; i++) {
        const config_listen *now = find_listen(c, start, i);
        kept[i] = start->listens[i];
        if (now)
            kept[i].answer = now->answer;
    }
    memcpy(c->listens, kept, start->listens_len * sizeof *kept);
    c->listens_len = start->listens_len;
}
