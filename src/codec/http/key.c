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

/* Decodes a name or a value of a query. Returns false if there is no room. An incomplete escape
 * stays as it is. */
static bool decode(weir_http_original *of, weir_slice from, weir_slice *ret)
{
    char *to = of->decoded + of->decoded_len;
    of->is_long |= from.len > WEIR_HTTP_TARGET_MAX - of->decoded_len;
    if (of->is_long)
        return false;
    for (size_t i = 0; i < from.len; i++) {
        int byte = from.at[i] == '%' ? weir_percent_read(from.at + i, from.len - i) : -1;
        *to++ = byte >= 0 ? (char)byte : from.at[i] == '+' ? ' ' : from.at[i];
        i += byte >= 0 ? 2 : 0;
    }
    ret->len = (size_t)(to - of->decoded) - of->decoded_len;
    ret->at = of->decoded + of->decoded_len;
    return true;
}

/* Finds a pair "name=value" in a list of them. If there are several, their values must be the same:
 * programs disagree about which one counts.
 *  separators  between the pairs.
 *  encoded     names and values are percent-encoded. */
static bool find_pair(weir_http_original *of, weir_slice list, const char *separators, bool encoded,
                      weir_slice name, weir_slice *ret)
{
    const char *end = list.at ? list.at + list.len : NULL;
    bool found = false;
    for (const char *at = list.at; at < end;) {
        const char *stop = at;
        while (stop < end && !strchr(separators, *stop))
            stop++;
        weir_slice pair = weir_slice_trim((weir_slice){at, (size_t)(stop - at)});
        const char *equals = memchr(pair.at, '=', pair.len);
        weir_slice own = {pair.at, equals ? (size_t)(equals - pair.at) : pair.len};
        weir_slice value = {own.at + own.len, pair.len - own.len};
        value = equals ? (weir_slice){value.at + 1, value.len - 1} : value;
        at = stop < end ? stop + 1 : end;
        if (encoded && !decode(of, own, &own))
            return false;
        if (own.len != name.len || memcmp(own.at, name.at, own.len) != 0)
            continue;
        if (encoded && !decode(of, value, &value))
            return false;
        if (found && (ret->len != value.len || memcmp(ret->at, value.at, value.len) != 0))
            of->ambiguous = name.at;
        of->decoded_len += encoded && !found ? value.len : 0;
        *ret = found ? *ret : value;
        found = true;
    }
    return found;
}

/* A weir_key_value. */
static bool find_value(weir_http_original *of, weir_slice name, weir_slice *ret, bool *is_address)
{
    weir_slice rest, cookies;
    const struct {
        const char *name;
        const weir_slice *value;
    } known[] = {{"method", &of->method}, {"host", &of->host},     {"path", &of->path},
                 {"route", &of->route},   {"policy", &of->policy}, {NULL, NULL}};
    if (strcmp(name.at, "client") == 0)
        return client_of(of, ret, is_address);
    if (weir_key_template_is(name, WEIR_KEY_HEADER, &rest))
        return weir_http_find_header(of->call->options, of->call->http, rest, ret);
    if (weir_key_template_is(name, WEIR_KEY_COOKIE, &rest))
        return weir_http_find_header(of->call->options, of->call->http, (weir_slice){"cookie", 6},
                                     &cookies) &&
               find_pair(of, cookies, ";,", false, rest, ret);
    if (weir_key_template_is(name, WEIR_KEY_QUERY, &rest))
        return find_pair(of, of->query, "&", true, rest, ret);
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
    of->found |= found && weir_slice_trim(*ret).len > 0;
    return found;
}

/* Decides on a request without a key. */
static bool without_key(weir_http_original *of, char *buf, size_t size, weir_slice *ret)
{
    weir_slice client;
    bool is_address = false;
    weir_no_key no_key = weir_service_no_key(of->call->options->service, of->policy);
    of->is_skipped = no_key == WEIR_NO_KEY_SKIP;
    if (of->is_skipped)
        return true;
    if (no_key == WEIR_NO_KEY_CLIENT && client_of(of, &client, &is_address) && client.len <= size) {
        memcpy(buf, client.at, client.len);
        *ret = (weir_slice){buf, client.len};
        return true;
    }
    weir_http_problem(of->call->response, no_key == WEIR_NO_KEY_DENY ? 403 : 400,
                      "the key of policy \"%.*s\" is empty: the request has no value for a "
                      "variable of its key template",
                      weir_http_shown(of->policy.len), of->policy.at);
    return false;
}

bool weir_http_make_key(weir_http_original *of, const char *preset, char *buf, size_t size,
                        weir_status *ret_status, weir_slice *ret)
{
    size_t len = 0;
    of->found = of->has_client = false;
    of->is_long = of->is_skipped = false;
    of->decoded_len = 0;
    of->ambiguous = NULL;
    *ret_status = weir_service_make_key(of->call->options->service, of->policy, preset, key_value,
                                        of, buf, size, &len);
    *ret = (weir_slice){*ret_status == WEIR_OK ? buf : NULL, len};
    if (of->ambiguous) {
        weir_http_problem(of->call->response, 400,
                          "the request has several values of \"%s\", expected one: it is part of "
                          "the key of policy \"%.*s\"",
                          of->ambiguous, weir_http_shown(of->policy.len), of->policy.at);
        return false;
    }
    if (*ret_status != WEIR_OK || (len > 0 && !of->is_long))
        return true;
    if (!of->found && !of->is_long)
        return without_key(of, buf, size, ret);
    weir_http_problem(of->call->response, 400, "the key of policy \"%.*s\" exceeds %zu bytes",
                      weir_http_shown(of->policy.len), of->policy.at, size);
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
    c->key_from_template = weir_http_make_key(&of, NULL, c->keys, WEIR_HTTP_KEYS_ROOM, &st, ret) &&
                           st == WEIR_OK && !of.is_skipped;
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
