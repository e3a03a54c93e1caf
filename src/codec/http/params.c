/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* Parses parameters strictly. An unknown parameter is an error: a typo such as `cots=5` must not
 * become a request with the default cost. */

#include "codec/http/params.h"

#include "codec/answer/reservation.h"
#include "port/assert.h"
#include "service/rules/keep.h"

#include <inttypes.h>
#include <stdio.h>

enum { FOUND_MAX = 72 }; /* bytes of a value in an error message, with quotes and NUL */

static const char *const names[WEIR_HTTP_PARAMS] = {
    [WEIR_HTTP_P_POLICY] = "policy",
    [WEIR_HTTP_P_LIMIT] = "limit",
    [WEIR_HTTP_P_KEY] = "key",
    [WEIR_HTTP_P_COST] = "cost",
    [WEIR_HTTP_P_KEEP] = "keep",
    [WEIR_HTTP_P_DELAY] = "delay",
    [WEIR_HTTP_P_DENIED] = "denied",
    [WEIR_HTTP_P_TTL] = "ttl",
    [WEIR_HTTP_P_ID] = "id",
    [WEIR_HTTP_P_ACTUAL] = "actual",
    [WEIR_HTTP_P_REQUESTS] = "requests",
    [WEIR_HTTP_P_OF] = "of",
    [WEIR_HTTP_P_K] = "k",
    [WEIR_HTTP_P_SHADOW] = "shadow",
    [WEIR_HTTP_P_ROUTE] = "route",
};

bool weir_http_is_param(const char *name, size_t len)
{
    /* The parameters after ttl belong to endpoints without a key. */
    for (size_t i = 0; i <= WEIR_HTTP_P_TTL; i++) {
        if (strlen(names[i]) == len && memcmp(names[i], name, len) == 0)
            return true;
    }
    return false;
}

static const char *name_of(const weir_http_params *p, unsigned param)
{
    return param == WEIR_HTTP_P_SOURCE ? p->key_query : names[param];
}

/* Returns the parameter of this name among `known`, or WEIR_HTTP_PARAMS if there is none. */
static unsigned find(const weir_http_params *p, unsigned known, const char *at, size_t len)
{
    char first = '\0'; /* matches no name */
    if (len > 0)
        first = *at;
    for (unsigned i = 0; i < WEIR_HTTP_PARAMS; i++) {
        const char *name = known & WEIR_HTTP_BIT(i) ? name_of(p, i) : NULL;
        if (name && *name == first && strlen(name) == len && memcmp(name, at, len) == 0)
            return i;
    }
    return WEIR_HTTP_PARAMS;
}

static int shown(size_t len)
{
    return len < 64 ? (int)len : 64;
}

/*  where  the JSON object with the parameter; NULL: the request. */
static void refuse_unknown(const weir_http_params *p, unsigned known, const char *at, size_t len,
                           const char *where, weir_http_response *a)
{
    char list[128 + WEIR_HTTP_NAME_MAX] = "";
    size_t end = 0;
    for (unsigned i = 0; i < WEIR_HTTP_PARAMS; i++) {
        const char *name = known & WEIR_HTTP_BIT(i) ? name_of(p, i) : NULL;
        if (name && end < sizeof list)
            end += (size_t)snprintf(list + end, sizeof list - end, "%s%s", end ? ", " : "", name);
    }
    weir_http_problem(a, 400, "unknown parameter \"%.*s\"%s%s, expected %s", shown(len), at,
                      where ? " in " : "", where ? where : "", end ? list : "none");
}

static bool is_number(unsigned param)
{
    return param == WEIR_HTTP_P_COST || param == WEIR_HTTP_P_DENIED || param == WEIR_HTTP_P_ACTUAL;
}

/* Marks `param` as given. Returns false with an error response if it was given before. */
static bool mark_given(weir_http_params *p, unsigned param, weir_http_response *a)
{
    if (p->given & WEIR_HTTP_BIT(param)) {
        weir_http_problem(a, 400, "duplicate parameter \"%s\"", name_of(p, param));
        return false;
    }
    WEIR_ASSERT(param < WEIR_HTTP_PARAMS);
    p->given |= WEIR_HTTP_BIT(param);
    return true;
}

/* ---- the query ------------------------------------------------------------------------------- */

/* Percent-decodes in place. Returns the new length, or SIZE_MAX with an error response. */
static size_t decode(char *at, size_t len, weir_http_response *a)
{
    size_t to = 0;
    for (size_t i = 0; i < len; i++) {
        char c = at[i];
        WEIR_ASSERT(to <= i); /* the text that is not decoded stays */
        if (c == '+') {
            c = ' ';
        } else if (c == '%') {
            int byte = weir_percent_read(at + i, len - i);
            if (byte < 0) {
                weir_http_problem(a, 400,
                                  "\"%.*s\" in the query: expected %% and two hexadecimal digits",
                                  len - i < 3 ? (int)(len - i) : 3, at + i);
                return SIZE_MAX;
            }
            c = (char)byte;
            i += 2;
        }
        at[to++] = c;
    }
    return to;
}

static bool read_pair(weir_http_params *p, char *at, size_t len, unsigned known,
                      weir_http_response *a)
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
        refuse_unknown(p, known, at, name_len, NULL, a);
        return false;
    }
    if (param == WEIR_HTTP_P_REQUESTS) {
        weir_http_problem(a, 400,
                          "unsupported \"requests\" in the query, expected it in a JSON body");
        return false;
    }
    p->text[param] = (weir_slice){value, value_len};
    return mark_given(p, param, a);
}

static bool read_query(weir_http_params *p, char *at, size_t len, unsigned known,
                       weir_http_response *a)
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

/* Parses a number that the query has given as text. */
static bool read_number(weir_http_params *p, unsigned param)
{
    weir_slice t = p->text[param];
    return !t.at || weir_i64_read(t.at, t.len, &p->number[param]);
}

/* ---- the body -------------------------------------------------------------------------------- */

/* Stores the value of a member. Returns false if it has the wrong JSON type. */
static bool keep_value(weir_http_params *p, unsigned param, json_t *value)
{
    if (param == WEIR_HTTP_P_REQUESTS) {
        p->requests = value;
        return json_is_array(value);
    }
    if (param == WEIR_HTTP_P_SHADOW && json_is_boolean(value)) {
        bool on = json_is_true(value);
        p->text[param] = (weir_slice){on ? "true" : "false", on ? 4 : 5};
        return true;
    }
    bool text_too = param == WEIR_HTTP_P_TTL || param == WEIR_HTTP_P_KEEP;
    if (is_number(param) || (text_too && json_is_integer(value))) {
        p->number[param] = json_integer_value(value);
        return json_is_integer(value);
    }
    p->text[param] = (weir_slice){json_string_value(value), json_string_length(value)};
    return json_is_string(value);
}

static const char *found_type(const json_t *value)
{
    static const char *const types[] = {
        [JSON_OBJECT] = "an object", [JSON_ARRAY] = "a list",    [JSON_STRING] = "a string",
        [JSON_INTEGER] = "a number", [JSON_REAL] = "a fraction", [JSON_TRUE] = "true",
        [JSON_FALSE] = "false",      [JSON_NULL] = "null"};
    return types[json_typeof(value)];
}

static const char *expected_type(unsigned param)
{
    return param == WEIR_HTTP_P_REQUESTS ? "list of objects"
           : param == WEIR_HTTP_P_TTL    ? "whole number of seconds or a string"
           : param == WEIR_HTTP_P_KEEP   ? "whole number or a string"
           : param == WEIR_HTTP_P_SHADOW ? "boolean"
           : is_number(param)            ? "whole number"
                                         : "string";
}

/*  where  the object with the member: "requests[2]"; NULL: the body. */
static bool take_member(weir_http_params *p, const char *name, json_t *value, unsigned known,
                        const char *where, weir_http_response *a)
{
    unsigned param = find(p, known & ~WEIR_HTTP_BIT(WEIR_HTTP_P_SOURCE), name, strlen(name));
    if (param == WEIR_HTTP_PARAMS) {
        refuse_unknown(p, known & ~WEIR_HTTP_BIT(WEIR_HTTP_P_SOURCE), name, strlen(name), where, a);
        return false;
    }
    if (!keep_value(p, param, value)) {
        weir_http_problem(a, 400, "\"%s\" in %s: expected a %s, found %s", name,
                          where ? where : "the body", expected_type(param), found_type(value));
        return false;
    }
    return mark_given(p, param, a);
}

static bool take_members(weir_http_params *p, json_t *object, unsigned known, const char *where,
                         weir_http_response *a)
{
    const char *name;
    json_t *value;
    json_object_foreach(object, name, value)
    {
        if (!take_member(p, name, value, known, where, a))
            return false;
    }
    return true;
}

static bool read_body(weir_http_params *p, weir_slice body, unsigned known, weir_http_response *a)
{
    json_error_t error;
    p->json = json_loadb(body.at, body.len, JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, &error);
    if (!p->json) {
        weir_http_problem(a, 400, "invalid JSON in the body: line %d, column %d: %s", error.line,
                          error.column, error.text);
        return false;
    }
    if (!json_is_object(p->json)) {
        weir_http_problem(a, 400, "%s in the body, expected a JSON object such as %s",
                          found_type(p->json),
                          known & WEIR_HTTP_BIT(WEIR_HTTP_P_REQUESTS) ? WEIR_HTTP_REQUESTS_EXPECTED
                          : known & WEIR_HTTP_BIT(WEIR_HTTP_P_ID)
                              ? "{\"id\":\"16 hexadecimal digits\"}"
                              : "{\"policy\":\"name\",\"key\":\"name\",\"cost\":1}");
        return false;
    }
    return take_members(p, p->json, known, NULL, a);
}

/* ---- query and body -------------------------------------------------------------------------- */

/* The value of a parameter as the client wrote it, for an error. */
static const char *found(const weir_http_params *p, unsigned param, char ret[static FOUND_MAX])
{
    weir_slice text = p->text[param];
    if (text.at)
        snprintf(ret, FOUND_MAX, "\"%.*s\"", shown(text.len), text.at);
    else
        snprintf(ret, FOUND_MAX, "%" PRId64, p->number[param]);
    return ret;
}

/* Checks a whole number of 0..WEIR_COST_MAX.
 *  where  as in refuse_unknown(). */
static bool check_units(weir_http_params *p, unsigned param, const char *where,
                        weir_http_response *a)
{
    char text[FOUND_MAX];
    int64_t n = -1;
    if (read_number(p, param))
        n = p->number[param];
    if (n >= 0 && n <= WEIR_COST_MAX)
        return true;
    weir_http_problem(a, 400, "\"%s\"%s%s: expected a whole number from 0 to %d, found %s",
                      names[param], where ? " in " : "", where ? where : "", (int)WEIR_COST_MAX,
                      found(p, param, text));
    return false;
}

/* Checks what to keep: units, or a share.
 *  where  as in refuse_unknown(). */
static bool check_keep(weir_http_params *p, const char *where, weir_http_response *a)
{
    char text_found[FOUND_MAX];
    weir_slice text = p->text[WEIR_HTTP_P_KEEP];
    int64_t *n = &p->number[WEIR_HTTP_P_KEEP];
    if (text.at ? weir_keep_read(text, n) : *n >= 0 && *n <= WEIR_COST_MAX)
        return true;
    weir_http_problem(a, 400, "\"keep\"%s%s: %s, found %s", where ? " in " : "", where ? where : "",
                      WEIR_KEEP_EXPECTED, found(p, WEIR_HTTP_P_KEEP, text_found));
    return false;
}

static bool check_ttl(weir_http_params *p, weir_http_response *a)
{
    weir_slice text = p->text[WEIR_HTTP_P_TTL];
    char digits[24], text_found[FOUND_MAX];
    if (!(p->given & WEIR_HTTP_BIT(WEIR_HTTP_P_TTL)))
        return true;
    if (!text.at) {
        int len = snprintf(digits, sizeof digits, "%lld", (long long)p->number[WEIR_HTTP_P_TTL]);
        text = (weir_slice){digits, (size_t)len};
    }
    if (weir_ttl_read(text.at, text.len, &p->number[WEIR_HTTP_P_TTL]))
        return true;
    weir_http_problem(a, 400, "\"ttl\": expected " WEIR_TTL_EXPECTED ", found %s",
                      found(p, WEIR_HTTP_P_TTL, text_found));
    return false;
}

/* Fills in the defaults and checks the ranges. */
static bool check_values(weir_http_params *p, weir_http_response *a)
{
    char text[FOUND_MAX];
    if (!(p->given & WEIR_HTTP_BIT(WEIR_HTTP_P_COST)))
        p->number[WEIR_HTTP_P_COST] = 1;
    if (!(p->given & WEIR_HTTP_BIT(WEIR_HTTP_P_DENIED)))
        p->number[WEIR_HTTP_P_DENIED] = 0; /* the configured status */
    if (!check_units(p, WEIR_HTTP_P_COST, NULL, a) ||
        !check_units(p, WEIR_HTTP_P_ACTUAL, NULL, a) || !check_keep(p, NULL, a))
        return false;
    if (!read_number(p, WEIR_HTTP_P_K))
        p->number[WEIR_HTTP_P_K] = -1;
    int64_t status = -1;
    if (read_number(p, WEIR_HTTP_P_DENIED))
        status = p->number[WEIR_HTTP_P_DENIED];
    weir_slice delay = p->text[WEIR_HTTP_P_DELAY];
    bool given = p->given & WEIR_HTTP_BIT(WEIR_HTTP_P_DENIED);
    if (given && status != 403 && status != 429 && status != 503)
        weir_http_problem(a, 400, "\"denied\": expected 403, 429 or 503, found %s",
                          found(p, WEIR_HTTP_P_DENIED, text));
    else if (delay.at && (delay.len != 6 || memcmp(delay.at, "report", 6) != 0))
        weir_http_problem(a, 400, "\"delay\": expected \"report\", found %s",
                          found(p, WEIR_HTTP_P_DELAY, text));
    else
        return check_ttl(p, a);
    return false;
}

bool weir_http_params_read_object(weir_http_params *ret, json_t *object, const char *where,
                                  weir_http_response *a)
{
    enum {
        KNOWN = WEIR_HTTP_BIT(WEIR_HTTP_P_POLICY) | WEIR_HTTP_BIT(WEIR_HTTP_P_LIMIT) |
                WEIR_HTTP_BIT(WEIR_HTTP_P_KEY) | WEIR_HTTP_BIT(WEIR_HTTP_P_COST) |
                WEIR_HTTP_BIT(WEIR_HTTP_P_KEEP)
    };
    *ret = (weir_http_params){0};
    ret->number[WEIR_HTTP_P_COST] = 1;
    if (!json_is_object(object)) {
        weir_http_problem(a, 400, "%s: expected an object, found %s", where, found_type(object));
        return false;
    }
    return take_members(ret, object, KNOWN, where, a) &&
           check_units(ret, WEIR_HTTP_P_COST, where, a) && check_keep(ret, where, a);
}

bool weir_http_params_read(weir_http_params *ret, const weir_http_request *r, unsigned known,
                           const char *key_query, char query[static WEIR_HTTP_TARGET_MAX],
                           weir_http_response *a)
{
    *ret = (weir_http_params){.key_query = key_query};
    memcpy(query, r->query.at, r->query.len);
    return read_query(ret, query, r->query.len, known, a) &&
           (r->body.len == 0 || read_body(ret, r->body, known, a)) && check_values(ret, a);
}

bool weir_http_params_policy(const weir_http_params *p, const char *where, const char *missing,
                             weir_request *ret, weir_http_response *a)
{
    bool by_name = p->given & WEIR_HTTP_BIT(WEIR_HTTP_P_POLICY);
    bool by_text = p->given & WEIR_HTTP_BIT(WEIR_HTTP_P_LIMIT);
    if (by_name && by_text)
        weir_http_problem(a, 400, "%sexpected either \"policy\" or \"limit\", found both", where);
    else if (!by_name && !by_text)
        weir_http_problem(a, 400, "%smissing parameter %s", where, missing);
    if (a->status != 0)
        return false;
    *ret = (weir_request){.rule = p->text[by_text ? WEIR_HTTP_P_LIMIT : WEIR_HTTP_P_POLICY],
                          .by_text = by_text,
                          .with_figures = true};
    return true;
}

bool weir_http_params_request(const weir_http_params *p, weir_slice key, const char *where,
                              const char *missing, weir_request *ret, weir_http_response *a)
{
    if (key.len == 0 || key.len > WEIR_KEY_MAX) {
        weir_http_problem(a, 400, "%sthe key has %zu bytes, expected 1 to %d", where, key.len,
                          WEIR_KEY_MAX);
        return false;
    }
    if (!weir_http_params_policy(p, where, missing, ret, a))
        return false;
    ret->key = key;
    ret->cost = p->number[WEIR_HTTP_P_COST];
    ret->keep = p->number[WEIR_HTTP_P_KEEP];
    return true;
}

void weir_http_params_free(weir_http_params *p)
{
    json_decref(p->json);
}
