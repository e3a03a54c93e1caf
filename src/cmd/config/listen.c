/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* Addresses: numbers alone, for a name may mean another machine tomorrow. It must not know any
 * socket. */

#include "cmd/config/listen.h"

#include "port/text.h"

#include <arpa/inet.h>
#include <string.h>

static const char expected_address[] =
    "an IP address and a port, such as 127.0.0.1:6380 or \"[::1]:6380\", a port alone, or off";

/* A port's digits, to the end of the text. */
static bool parse_port(const char *text, unsigned *ret)
{
    uint64_t n;
    size_t len = strlen(text);
    if (len > 5 || !weir_decimal_read(text, len, 65535, &n))
        return false;
    *ret = (unsigned)n;
    return true;
}

static bool is_loopback6(const struct in6_addr *a)
{
    static const struct in6_addr loopback = IN6ADDR_LOOPBACK_INIT;
    bool is_v4 = IN6_IS_ADDR_V4MAPPED(a);
    return is_v4 ? a->s6_addr[12] == 127 : memcmp(a, &loopback, sizeof loopback) == 0;
}

static bool parse_host6(const char *host, unsigned port, config_listen *ret)
{
    struct in6_addr a;
    char text[INET6_ADDRSTRLEN];
    if (inet_pton(AF_INET6, host, &a) != 1 || !inet_ntop(AF_INET6, &a, text, sizeof text))
        return false;
    ret->is_public = !is_loopback6(&a);
    snprintf(ret->address, sizeof ret->address, "[%s]:%u", text, port);
    return true;
}

static bool parse_host4(const char *host, unsigned port, config_listen *ret)
{
    struct in_addr a;
    char text[INET_ADDRSTRLEN];
    if (inet_pton(AF_INET, host, &a) != 1 || !inet_ntop(AF_INET, &a, text, sizeof text))
        return false;
    ret->is_public = (ntohl(a.s_addr) >> 24) != 127;
    snprintf(ret->address, sizeof ret->address, "%s:%u", text, port);
    return true;
}

static bool is_number(const char *text)
{
    return text[0] != '\0' && text[strspn(text, "0123456789")] == '\0';
}

/* NULL, or what was found instead of an address; "" if there is no word for it. */
static const char *parse_address(const char *text, config_listen *ret)
{
    char host[64] = "127.0.0.1";
    const char *colon = strrchr(text, ':'), *digits = colon ? colon + 1 : text;
    size_t len = colon ? (size_t)(colon - text) : 0;
    unsigned port = 0;
    if (strncmp(text, "localhost:", 10) == 0)
        return "a name (127.0.0.1 is localhost) in ";
    if (!parse_port(digits, &port))
        return is_number(digits) ? "a port beyond 65535 in " : "";
    if (len >= sizeof host)
        return "";
    bool v6 = len > 2 && text[0] == '[' && text[len - 1] == ']';
    if (len > 0)
        snprintf(host, sizeof host, "%.*s", (int)(len - 2 * v6), text + v6);
    return (v6 ? parse_host6(host, port, ret) : parse_host4(host, port, ret)) ? NULL : "";
}

/* Port 0 is a free one, each time another. */
static bool is_any_port(const config_listen *l)
{
    size_t len = strlen(l->address);
    return l->address[0] != '/' && len > 2 && strcmp(l->address + len - 2, ":0") == 0;
}

static void add_listen(config_reader *r, const config_place *place, const config_listen *listen)
{
    weir_config *c = r->config;
    for (size_t i = 0; i < c->listens_len; i++) {
        if (strcmp(c->listens[i].address, listen->address) == 0 && !is_any_port(listen)) {
            config_complain(r->errors, place, "%s is listened on already, expected another address",
                            listen->address);
            return;
        }
    }
    if (c->listens_len == CONFIG_LISTENS_MAX) {
        config_complain(r->errors, place, "one address too many, expected at most %d",
                        CONFIG_LISTENS_MAX);
        return;
    }
    c->listens[c->listens_len++] = *listen;
}

static bool read_address(config_reader *r, const config_place *place, protocol_kind protocol)
{
    if (!config_want_text(r, place, expected_address))
        return false;
    config_listen listen;
    memset(&listen, 0, sizeof listen); /* two of them are compared byte by byte */
    listen.protocol = protocol;
    const char *wrong = parse_address(place->node->text, &listen);
    if (wrong) {
        config_complain(r->errors, place, "expected %s, found %s'%.40s'", expected_address, wrong,
                        place->node->text);
        return false;
    }
    if (listen.is_public && !r->guarded) {
        config_complain(r->errors, place,
                        "other machines may reach %s, and there is no password; set password or "
                        "password_file, or insecure: true if everybody may use it",
                        listen.address);
        return false;
    }
    add_listen(r, place, &listen);
    return true;
}

/* field->low is the protocol. */
static bool read_addresses(config_reader *r, const config_place *place, const config_field *field,
                           void *base)
{
    (void)base;
    protocol_kind protocol = (protocol_kind)field->low;
    const config_node *n = place->node;
    if (n->kind == CONFIG_TEXT && strcmp(n->text, "off") == 0)
        return true;
    if (n->kind != CONFIG_LIST)
        return read_address(r, place, protocol);
    size_t i = 0;
    for (const config_node *child = n->first; child; child = child->next, i++) {
        const config_place entry = {place, NULL, i, child};
        read_address(r, &entry, protocol);
    }
    return true;
}

static bool read_unix(config_reader *r, const config_place *place, const config_field *field,
                      void *base)
{
    static const char expected[] = "an absolute path of at most 107 bytes, or off";
    (void)field;
    (void)base;
    if (!config_want_text(r, place, expected))
        return false;
    const config_node *n = place->node;
    if (strcmp(n->text, "off") == 0)
        return true;
    config_listen listen;
    memset(&listen, 0, sizeof listen);
    listen.protocol = PROTOCOL_RESP;
    if (n->text[0] != '/' || n->len >= sizeof listen.address) {
        config_complain(r->errors, place, "expected %s, found %zu bytes that begin with '%.40s'",
                        expected, n->len, n->text);
        return false;
    }
    memcpy(listen.address, n->text, n->len);
    add_listen(r, place, &listen);
    return true;
}

bool config_read_listen(config_reader *r, const config_place *place, const config_field *field,
                        void *base)
{
    (void)field;
    size_t before = r->errors->found;
    config_field fields[PROTOCOLS + 1] = {[PROTOCOLS] = {.name = "unix", .read = read_unix}};
    char names[128] = "";
    for (protocol_kind kind = 0; kind < PROTOCOLS; kind++) {
        fields[kind] = (config_field){
            .name = protocols[kind].name, .read = read_addresses, .low = (int64_t)kind};
        size_t len = strlen(names);
        snprintf(names + len, sizeof names - len, "%s%s", kind > 0 ? ", " : "",
                 protocols[kind].name);
    }
    memset(r->config->listens, 0, sizeof r->config->listens);
    r->config->listens_len = 0; /* what is not named is not listened on */
    if (!config_read_map(r, place, fields, PROTOCOLS + 1, base))
        return false;
    if (r->config->listens_len == 0 && r->errors->found == before)
        config_complain(r->errors, place,
                        "nothing to listen on, expected an address for %s or unix", names);
    return true;
}
