/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* Parameters. Whatever is not understood is refused by its name: a request that says `cots=5` must
 * not be taken for one that costs 1. */

#include "codec/http_params.h"

#include "codec/resp.h" /* for its whole numbers */

#include <stdio.h>

static const char *const names[WEIR_HTTP_PARAMS] = {
    [WEIR_HTTP_P_POLICY] = "policy", [WEIR_HTTP_P_LIMIT] = "limit", [WEIR_HTTP_P_KEY] = "key",
    [WEIR_HTTP_P_COST] = "cost",     [WEIR_HTTP_P_DELAY] = "delay", [WEIR_HTTP_P_DENIED] = "denied",
    [WEIR_HTTP_P_SOURCE] = NULL,     [WEIR_HTTP_P_OF] = "of",       [WEIR_HTTP_P_K] = "k",
};

bool weir_http_is_param(const char *name, size_t len)
{
    for (size_t i = 0; i < WEIR_HTTP_P_SOURCE; i++) {
        if (strlen(names[i]) == len && memcmp(names[i], name, len) == 0)
            return true;
    }
    return false;
}

static const char *name_of(const weir_http_params *p, unsigned param)
{
    return param == WEIR_HTTP_P_SOURCE ? p->key_query : names[param];
}

/* Which parameter is called so, WEIR_HTTP_PARAMS if none of those in `known` is. */
static unsigned find(const weir_http_params *p, unsigned known, const char *at, size_t len)
{
    for (unsigned i = 0; i < WEIR_HTTP_PARAMS; i++) {
        const char *name = known & WEIR_HTTP_BIT(i) ? name_of(p, i) : NULL;
        if (name && strlen(name) == len && memcmp(name, at, len) == 0)
            return i;
    }
    return WEIR_HTTP_PARAMS;
}

static int shown(size_t len)
{
    return len < 64 ? (int)len : 64;
}

static void refuse_unknown(const weir_http_params *p, unsigned known, const char *at, size_t len,
                           weir_http_answer *a)
{
    char list[128 + WEIR_HTTP_NAME_MAX] = "";
    size_t end = 0;
    for (unsigned i = 0; i < WEIR_HTTP_PARAMS; i++) {
        const char *name = known & WEIR_HTTP_BIT(i) ? name_of(p, i) : NULL;
        if (name && end < sizeof list)
            end += (size_t)snprintf(list + end, sizeof list - end, "%s%s", end ? ", " : "", name);
    }
    weir_http_problem(a, 400, "unknown parameter \"%.*s\", expected %s", shown(len), at,
                      end ? list : "none");
}

/* Notes that `param` is there. */
static bool note(weir_http_params *p, unsigned param, weir_http_answer *a)
{
    if (p->given & WEIR_HTTP_BIT(param)) {
        weir_http_problem(a, 400, "the parameter \"%s\" is given twice", name_of(p, param));
        return false;
    }
    p->given |= WEIR_HTTP_BIT(param);
    return true;
}

/* ---- the query ------------------------------------------------------------------------------- */

static int hex(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    c |= 0x20;
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* Decodes in place; the length then, or SIZE_MAX and the answer. */
static size_t decode(char *at, size_t len, weir_http_answer *a)
{
    size_t to = 0;
    for (size_t i = 0; i < len; i++) {
        char c = at[i];
        if (c == '+') {
            c = ' ';
        } else if (c == '%') {
            int high = i + 2 < len ? hex(at[i + 1]) : -1, low = i + 2 < len ? hex(at[i + 2]) : -1;
            if (high < 0 || low < 0) {
                weir_http_problem(a, 400, "\"%.*s\" in the query: expected %% and two hex digits",
                                  len - i < 3 ? (int)(len - i) : 3, at + i);
                return SIZE_MAX;
            }
            c = (char)(high * 16 + low);
            i += 2;
        }
        at[to++] = c;
    }
    return to;
}

static bool read_pair(weir_http_params *p, char *at, size_t len, unsigned known,
                      weir_http_answer *a)
{
    char *equals = memchr(at, '=', len);
    char *value = equals ? equals + 1 : at + len;
    size_t name_len = decode(at, equals ? (size_t)(equals - at) : len, a);
    if (name_len == SIZE_MAX)
        return false;
    size_t value_len = decode(value, (size_t)(at + len - value), a);
    if (value_len == SIZE_MAX)
        return false;
    unsigned param = find(p, known, at, name_len);
    if (param == WEIR_HTTP_PARAMS) {
        refuse_unknown(p, known, at, name_len, a);
        return false;
    }
    p->text[param] = (weir_slice){value, value_len};
    return note(p, param, a);
}

static bool read_query(weir_http_params *p, char *at, size_t len, unsigned known,
                       weir_http_answer *a)
{
    for (size_t i = 0; i < len;) {
        const char *amp = memchr(at + i, '&', len - i);
        size_t n = amp ? (size_t)(amp - at) - i : len - i;
        if (n > 0 && !read_pair(p, at + i, n, known, a))
            return false;
        i += n + 1;
    }
    return true;
}

/* A number that a query gave as text. */
static bool read_number(weir_http_params *p, unsigned param)
{
    weir_slice t = p->text[param];
    return !t.at || weir_resp_i64((const uint8_t *)t.at, t.len, &p->number[param]);
}

/* ---- the body -------------------------------------------------------------------------------- */

static bool take_member(weir_http_params *p, const char *name, const json_t *value, unsigned known,
                        weir_http_answer *a)
{
    unsigned param = find(p, known & ~WEIR_HTTP_BIT(WEIR_HTTP_P_SOURCE), name, strlen(name));
    if (param == WEIR_HTTP_PARAMS) {
        refuse_unknown(p, known & ~WEIR_HTTP_BIT(WEIR_HTTP_P_SOURCE), name, strlen(name), a);
        return false;
    }
    bool number =
        param == WEIR_HTTP_P_COST || param == WEIR_HTTP_P_DENIED || param == WEIR_HTTP_P_K;
    if (number ? !json_is_integer(value) : !json_is_string(value)) {
        weir_http_problem(a, 400, "\"%s\" in the body: expected a %s", name,
                          number ? "whole number" : "string");
        return false;
    }
    if (!note(p, param, a))
        return false;
    if (number)
        p->number[param] = json_integer_value(value);
    else
        p->text[param] = (weir_slice){json_string_value(value), json_string_length(value)};
    return true;
}

static bool read_body(weir_http_params *p, weir_slice body, unsigned known, weir_http_answer *a)
{
    json_error_t error;
    p->json = json_loadb(body.at, body.len, JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, &error);
    if (!p->json) {
        weir_http_problem(a, 400, "the body is not JSON: line %d, column %d: %s", error.line,
                          error.column, error.text);
        return false;
    }
    if (!json_is_object(p->json)) {
        weir_http_problem(a, 400,
                          "the body is not a JSON object, expected "
                          "{\"policy\":\"name\",\"key\":\"name\",\"cost\":1}");
        return false;
    }
    const char *name;
    json_t *value;
    json_object_foreach(p->json, name, value)
    {
        if (!take_member(p, name, value, known, a))
            return false;
    }
    return true;
}

/* ---- both ------------------------------------------------------------------------------------ */

/* The ranges of those that have one. */
static bool check_values(weir_http_params *p, weir_http_answer *a)
{
    if (!(p->given & WEIR_HTTP_BIT(WEIR_HTTP_P_COST)))
        p->number[WEIR_HTTP_P_COST] = 1;
    if (!(p->given & WEIR_HTTP_BIT(WEIR_HTTP_P_DENIED)))
        p->number[WEIR_HTTP_P_DENIED] = 429;
    if (!read_number(p, WEIR_HTTP_P_K))
        p->number[WEIR_HTTP_P_K] = -1;
    int64_t cost = -1, status = -1;
    if (read_number(p, WEIR_HTTP_P_COST))
        cost = p->number[WEIR_HTTP_P_COST];
    if (read_number(p, WEIR_HTTP_P_DENIED))
        status = p->number[WEIR_HTTP_P_DENIED];
    weir_slice delay = p->text[WEIR_HTTP_P_DELAY];
    if (cost < 0 || cost > WEIR_COST_MAX)
        weir_http_problem(a, 400, "\"cost\" is not a whole number from 0 to %d",
                          (int)WEIR_COST_MAX);
    else if (status != 403 && status != 429 && status != 503)
        weir_http_problem(a, 400, "\"denied\" is not 403, 429 or 503");
    else if (delay.at && (delay.len != 6 || memcmp(delay.at, "report", 6) != 0))
        weir_http_problem(a, 400, "\"delay\" is not \"report\"");
    else
        return true;
    return false;
}

bool weir_http_params_read(weir_http_params *ret, weir_http_request *r, unsigned known,
                           const char *key_query, weir_http_answer *a)
{
    *ret = (weir_http_params){.key_query = key_query};
    return read_query(ret, r->query, r->query_len, known, a) &&
           (r->body.len == 0 || read_body(ret, r->body, known, a)) && check_values(ret, a);
}

void weir_http_params_free(weir_http_params *p)
{
    json_decref(p->json);
}
