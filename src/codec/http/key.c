/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* The key of an HTTP request: given as a parameter, in a header, or made from a key template of the
 * policy. */

#include "codec/http/access_control.h"
#include "codec/http/call.h"
#include "port/assert.h"

#include <strings.h>

/* ---- templates ------------------------------------------------------------------------------- */

static bool client_of(weir_http_original *of, weir_slice *ret, bool *is_address)
{
    const weir_address *address = &of->client.address;
    if (!weir_http_client(of->call->options, of->call->http, &of->client))
        return false;
    *ret = (weir_slice){of->address,
                        weir_address_print(address, weir_address_bits(address), of->address)};
    of->has_client = *is_address = true;
    return true;
}

/* A weir_key_value. */
static bool find_value(weir_http_original *of, weir_slice name, weir_slice *ret, bool *is_address)
{
    static const size_t prefix = sizeof WEIR_KEY_HEADER - 1;
    const struct {
        const char *name;
        const weir_slice *value;
    } known[] = {{"method", &of->method}, {"host", &of->host},     {"path", &of->path},
                 {"route", &of->route},   {"policy", &of->policy}, {NULL, NULL}};
    if (strcmp(name.at, "client") == 0)
        return client_of(of, ret, is_address);
    if (name.len > prefix && memcmp(name.at, WEIR_KEY_HEADER, prefix) == 0)
        return weir_http_find_header(of->call->options, of->call->http,
                                     (weir_slice){name.at + prefix, name.len - prefix}, ret);
    for (size_t i = 0; known[i].name; i++) {
        if (strcmp(name.at, known[i].name) == 0)
            *ret = *known[i].value;
    }
    return ret->at;
}

static bool key_value(void *ctx, weir_slice name, weir_slice *ret, bool *is_address)
{
    weir_http_original *of = ctx;
    bool found = find_value(of, name, ret, is_address);
    of->found |= found && ret->len > 0;
    return found;
}

bool weir_http_make_key(weir_http_original *of, const char *preset, char *buf, size_t size,
                        weir_status *ret_status, weir_slice *ret)
{
    size_t len = 0;
    of->found = of->has_client = false;
    *ret_status = weir_service_make_key(of->call->options->service, of->policy, preset, key_value,
                                        of, buf, size, &len);
    *ret = (weir_slice){*ret_status == WEIR_OK ? buf : NULL, len};
    if (*ret_status != WEIR_OK || len > 0)
        return true;
    int shown = of->policy.len < WEIR_RULE_NAME_MAX ? (int)of->policy.len : WEIR_RULE_NAME_MAX;
    if (of->found)
        weir_http_problem(of->call->response, 400, "the key of policy \"%.*s\" exceeds %zu bytes",
                          shown, of->policy.at, size);
    else
        weir_http_problem(of->call->response, 400,
                          "the key of policy \"%.*s\" is empty: the request has no value for a "
                          "variable of its key template",
                          shown, of->policy.at);
    return false;
}

/* ---- parameters and headers ------------------------------------------------------------------ */

/* Finds element options->hops, from the right, of a comma-separated list. */
static bool list_element(weir_http_call *c, weir_slice list, weir_slice *ret)
{
    unsigned hops = c->options->hops;
    size_t end = list.len;
    WEIR_ASSERT(hops >= 1);
    for (unsigned i = 1;; i++) {
        size_t begin = end;
        while (begin > 0 && list.at[begin - 1] != ',')
            begin--;
        if (i == hops) {
            *ret = weir_slice_trim((weir_slice){list.at + begin, end - begin});
            return true;
        }
        if (begin == 0) {
            weir_http_problem(
                c->response, 400,
                "the header %s: expected at least %u elements (http.key.hops), found %u",
                c->options->key_header, hops, i);
            return false;
        }
        end = begin - 1;
    }
}

/* Makes the key by the template of the policy. Returns whether there is one; then the key or an
 * error response is made. A repeated call has the key of the first one, since the template may have
 * changed. */
static bool has_template(weir_http_call *c, weir_slice *ret)
{
    const weir_http_params *p = &c->params;
    weir_http_original of = {.call = c, .policy = p->text[WEIR_HTTP_P_POLICY]};
    weir_status st;
    if (!of.policy.at)
        return false;
    if (weir_completion_len(&c->wait->completion) > 0 && weir_buffer_len(c->http->kept) > 0) {
        *ret = (weir_slice){(const char *)weir_buffer_data(c->http->kept),
                            weir_buffer_len(c->http->kept)};
        c->key_from_template = true;
        return true;
    }
    if (weir_completion_len(&c->wait->completion) > 0)
        return false;
    c->key_from_template =
        weir_http_make_key(&of, NULL, c->keys, WEIR_HTTP_KEYS_ROOM, &st, ret) && st == WEIR_OK;
    c->has_client = of.has_client;
    c->client = of.client;
    return c->key_from_template || c->response->status != 0;
}

bool weir_http_find_key(weir_http_call *c, weir_slice *ret)
{
    const weir_http_options *o = c->options;
    const weir_http_params *p = &c->params;
    weir_slice header = c->http->header[WEIR_HTTP_KEY];
    if (p->given & WEIR_HTTP_BIT(WEIR_HTTP_P_KEY)) {
        *ret = p->text[WEIR_HTTP_P_KEY];
    } else if (p->given & WEIR_HTTP_BIT(WEIR_HTTP_P_SOURCE)) {
        *ret = p->text[WEIR_HTTP_P_SOURCE];
    } else if (has_template(c, ret)) {
        return c->response->status == 0;
    } else if (header.at) {
        *ret = header;
        c->key_from_header = true;
        return o->hops == 0 || list_element(c, header, ret);
    } else {
        const char *place = o->key_header ? o->key_header : o->key_query;
        weir_http_problem(c->response, 400, "missing key, expected the parameter \"key\"%s%s",
                          !place          ? ""
                          : o->key_header ? " or the header "
                                          : " or the parameter ",
                          place ? place : "");
        return false;
    }
    return true;
}
