/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* The section `tls`, at the top level and in an entry of `listen`, and a check of those of clients.
 * It must not know OpenSSL: preflight.c loads the files. */

#include "cmd/config/keys.h"

#include <string.h>

/* The files can change while weir runs, so their rows have the type CONFIG_OTHER: another path
 * needs no restart. */
static void read_file(config_reader *r, const config_place *place, const config_key *key,
                      void *base)
{
    config_key row = *key;
    row.type = CONFIG_READABLE_PATH;
    row.read = NULL;
    config_read_value(r, place, &row, base);
}

bool config_same_tls(const config_tls *a, const config_tls *b)
{
    return !a->cert == !b->cert && !a->client_ca == !b->client_ca;
}

static bool same_presence(const config_key *key, const void *first, const void *second)
{
    const weir_config *a = first, *b = second;
    (void)key;
    return config_same_tls(&a->tls, &b->tls);
}

#define FILE_ROW(member) CONFIG_OTHER, CONFIG_MEMBER(config_tls, member), .read = read_file

static const config_key tls_keys[] = {
    {"cert", FILE_ROW(cert), .same = same_presence},
    {"key", FILE_ROW(key)},
    {"client_ca", FILE_ROW(client_ca)},
};

static void check_files(config_reader *r, const config_place *place, void *base)
{
    const config_node *cert = config_get(place->node, "cert");
    const config_node *key = config_get(place->node, "key");
    (void)base;
    if (!config_is_empty(place->node) && (!cert || !key))
        config_error(r->errors, place, "missing key %s, expected {cert: FILE, key: FILE} or off",
                     cert ? "key" : "cert");
}

const config_section config_tls_section = {CONFIG_KEYS(tls_keys),
                                           .expected = "expected {cert: FILE, key: FILE} or off",
                                           .check = check_files};

void config_read_tls(config_reader *r, const config_place *place, const config_key *key, void *base)
{
    if (place->node->kind == CONFIG_SCALAR && strcmp(place->node->text, "off") == 0)
        return;
    config_read_section(r, place, &config_tls_section, (char *)base + key->offset);
}

const config_tls *config_listen_tls(const weir_config *c, const config_listen *l)
{
    const config_tls *tls = l->tls_choice == CONFIG_TLS_OWN ? &l->tls : &c->tls;
    bool plain = l->tls_choice == CONFIG_TLS_OFF || l->address[0] == '/';
    return plain || !tls->cert ? NULL : tls;
}

void config_check_client_tls(config_reader *r, const config_place *place, void *base)
{
    const config_node *cert = config_get(place->node, "cert"),
                      *key = config_get(place->node, "key");
    (void)base;
    if (!cert != !key)
        config_error_on(r->errors, (cert ? cert : key), place,
                        "expected both cert and key, found only %s", cert ? "cert" : "key");
}
