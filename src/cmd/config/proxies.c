/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* Proxies in front of the daemon: whose addresses are trusted, and the header in which they report
 * their clients. */

#include "cmd/config/keys.h"

#include <string.h>
#include <strings.h>

/* ---- trusted_proxies ------------------------------------------------------------------------- */

static const char expected_network[] =
    "the address of a proxy or of a network, such as 10.0.0.7 or 10.0.0.0/8";

/* Returns the reason why a text is no network, as the end of an error. */
static const char *network_hint(const char *text)
{
    weir_network n;
    const char *slash = strchr(text, '/');
    bool is_address = slash && weir_network_parse(&n, text, (size_t)(slash - text));
    return !is_address ? ""
           : strspn(slash + 1, "0123456789") == strlen(slash + 1) && slash[1] != '\0'
               ? ", whose prefix is too long, or whose address has bits set after the prefix"
               : ", expected a number of bits after the slash";
}

void config_read_trusted_proxies(config_reader *r, const config_place *place, const config_key *key,
                                 void *base)
{
    const config_node *n = place->node;
    size_t max = n->kind == CONFIG_LIST ? n->children : 1, len = 0;
    (void)key;
    if (config_is_empty(n))
        return;
    if (max > WEIR_TRUSTED_PROXIES_MAX) {
        config_error(r->errors, place, "%zu entries, expected at most %d", max,
                     WEIR_TRUSTED_PROXIES_MAX);
        return;
    }
    weir_network *networks = weir_arena_alloc(r->arena, max, sizeof *networks);
    for (config_place entry = {0}; networks && config_next_entry(place, &entry);) {
        const config_node *text = entry.node;
        if (!config_want_scalar(r, &entry, expected_network))
            continue;
        if (weir_network_parse(&networks[len], text->text, text->len))
            len++;
        else
            config_error(r->errors, &entry, "expected %s, found '%.80s'%s", expected_network,
                         text->text, network_hint(text->text));
    }
    ((weir_config *)base)->trusted_proxies = (weir_trusted_proxies){networks, len};
}

/* ---- http.client_header ---------------------------------------------------------------------- */

void config_read_client_header(config_reader *r, const config_place *place, const config_key *key,
                               void *base)
{
    static const char expected[] =
        "the name of a header that proxies set, such as X-Forwarded-For, Forwarded or X-Real-IP";
    const config_node *n = place->node;
    (void)key;
    if (!config_want_scalar(r, place, expected))
        return;
    if (!config_is_header(n->text))
        config_error(r->errors, place, "expected %s, of at most %d bytes, found '%.40s'", expected,
                     CONFIG_NAME_MAX, n->text);
    else if (!weir_http_may_be_key(n->text, n->len))
        config_error(r->errors, place,
                     "'%s' is used by HTTP or by browsers and is set by clients, expected %s",
                     n->text, expected);
    else
        ((weir_config *)base)->http_client_header = n->text;
}

static const char *client_header(const weir_config *c)
{
    return c->http_client_header ? c->http_client_header : "X-Forwarded-For";
}

const char *config_client_header(const weir_config *c)
{
    return c->trusted_proxies.len > 0 ? client_header(c) : NULL;
}

weir_client_header config_client_kind(const weir_config *c)
{
    return strcasecmp(client_header(c), "Forwarded") == 0 ? WEIR_CLIENT_FORWARDED
                                                          : WEIR_CLIENT_LIST;
}
