/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* limitador's HTTP API: /check, /report, /check_and_report, /limits, /counters and /status, with
 * the bodies and statuses that limitador has. */

#include "limitador/http.h"

#include "codec/answer/json.h"
#include "codec/answer/metrics.h"
#include "port/port.h"

#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

enum { GET = WEIR_HTTP_GET | WEIR_HTTP_HEAD, POST = WEIR_HTTP_POST };

#define S_NS INT64_C(1000000000)

/* ---- requests -------------------------------------------------------------------------------- */

/* A parsed body. The slices of `request` point into `json`. */
typedef struct body {
    json_t *json;
    weir_rls_entry *entries;
    weir_rls_descriptor descriptor;
    weir_limitador_request request;
    bool draft_03; /* the client wants headers */
} body;

static void free_body(body *b)
{
    json_decref(b->json);
    port_free(b->entries);
}

static weir_slice text_of(const json_t *string)
{
    return (weir_slice){json_string_value(string), json_string_length(string)};
}

/* Reads `values`: the entries of the only descriptor. Returns what is wrong, or NULL. */
static const char *read_values(body *b, json_t *values)
{
    size_t n = 0;
    const char *key;
    json_t *value;
    if (!json_is_object(values))
        return "\"values\": expected an object of strings";
    b->entries = port_zalloc(json_object_size(values) + 1, sizeof *b->entries);
    if (!b->entries)
        return "out of memory for the request";
    json_object_foreach(values, key, value)
    {
        if (!json_is_string(value))
            return "\"values\": expected an object of strings";
        b->entries[n++] = (weir_rls_entry){{key, strlen(key)}, text_of(value)};
    }
    b->descriptor = (weir_rls_descriptor){.entries = b->entries, .entries_len = n};
    return NULL;
}

/* Reads the members of the body; unknown ones are ignored. Returns what is wrong, or NULL. */
static const char *read_members(body *b)
{
    const json_t *name = json_object_get(b->json, "namespace");
    const json_t *delta = json_object_get(b->json, "delta");
    const json_t *headers = json_object_get(b->json, "response_headers");
    if (!json_is_object(b->json))
        return "expected a JSON object with namespace, values and delta";
    if (!json_is_string(name))
        return "\"namespace\": expected a string";
    if (!json_is_integer(delta) || json_integer_value(delta) < 0)
        return "\"delta\": expected a whole number, 0 or more";
    if (headers && !json_is_string(headers) && !json_is_null(headers))
        return "\"response_headers\": expected \"DraftVersion03\" or \"none\"";
    b->draft_03 = json_is_string(headers) && weir_slice_is(text_of(headers), "DraftVersion03");
    b->request.name_space = text_of(name);
    b->request.delta = (uint64_t)json_integer_value(delta);
    return read_values(b, json_object_get(b->json, "values"));
}

/* Whether a Content-Type has the subtype json or the suffix +json: limitador accepts no others. */
static bool is_json(weir_slice type)
{
    const char *end = type.at ? memchr(type.at, ';', type.len) : NULL;
    if (!type.at)
        return false;
    type.len = end ? (size_t)(end - type.at) : type.len;
    type = weir_slice_trim(type);
    const char *slash = memchr(type.at, '/', type.len);
    if (type.len < strlen("x/json") || !slash || slash == type.at)
        return false;
    const weir_slice last = {type.at + type.len - 4, 4};
    return weir_slice_is(last, "json") &&
           (last.at == slash + 1 || (last.at[-1] == '+' && last.at - 1 > slash));
}

/* The length of the string at `at` in valid JSON, with its quotes. */
static size_t literal_len(const char *at)
{
    size_t n = 1;
    while (at[n] != '"')
        n += at[n] == '\\' ? 2 : 1;
    return n + 1;
}

/* The member of a request that a key of valid JSON names, as a bit. 0: none, or memory is
 * exhausted. */
static unsigned member_of(const char *literal, size_t len)
{
    static const char *const names[] = {"namespace", "values", "delta", "response_headers"};
    json_t *key = json_loadb(literal, len, JSON_DECODE_ANY | JSON_ALLOW_NUL, NULL);
    unsigned bit = 0;
    for (unsigned i = 0; key && i < sizeof names / sizeof names[0]; i++) {
        if (text_of(key).len == strlen(names[i]) &&
            memcmp(text_of(key).at, names[i], strlen(names[i])) == 0)
            bit = 1U << i;
    }
    json_decref(key);
    return bit;
}

/* Whether valid JSON has a member of a request twice. limitador refuses that. Of other keys, and of
 * those in `values`, the last one counts. */
static bool repeats_member(weir_slice json)
{
    unsigned seen = 0;
    size_t depth = 0;
    for (size_t i = 0; i < json.len; i++) {
        char c = json.at[i];
        depth += c == '{' || c == '[';
        depth -= c == '}' || c == ']';
        if (c != '"')
            continue;
        size_t begin = i, len = literal_len(json.at + i), next = i + len;
        while (next < json.len && strchr(" \t\r\n", json.at[next]))
            next++;
        bool is_key = depth == 1 && next < json.len && json.at[next] == ':';
        unsigned member = is_key ? member_of(json.at + begin, len) : 0;
        if (seen & member)
            return true;
        seen |= member;
        i = begin + len - 1;
    }
    return false;
}

/* Reads the body of a request. Returns false with an error response if it is invalid. The caller
 * frees *ret in any case. */
static bool read_body(weir_http_call *c, weir_rls_verb verb, body *ret)
{
    weir_slice text = c->http->body;
    *ret = (body){.request = {.verb = verb, .counted = verb == WEIR_RLS_CHECK_AND_REPORT}};
    json_error_t error;
    const size_t flags = JSON_ALLOW_NUL | JSON_DECODE_ANY;
    const char *why = "the body is no JSON";
    if (!text.at)
        text.at = "";
    ret->json = json_loadb(text.at, text.len, flags | JSON_REJECT_DUPLICATES, &error);
    bool repeats = !ret->json && json_error_code(&error) == json_error_duplicate_key;
    if (repeats)
        ret->json = json_loadb(text.at, text.len, flags, &error);
    if (!is_json(c->http->header[WEIR_HTTP_CONTENT_TYPE]))
        why = "expected the Content-Type application/json";
    else if (ret->json && repeats && repeats_member(text))
        why = "expected each of namespace, values, delta and response_headers once, found one "
              "twice";
    else if (ret->json)
        why = read_members(ret);
    else if (json_error_code(&error) == json_error_numeric_overflow)
        why = "the body has a number above 9223372036854775807";
    if (why)
        weir_http_problem(c->response, 400, "%s", why);
    ret->request.descriptors = &ret->descriptor;
    ret->request.descriptors_len = 1;
    ret->request.headers = ret->draft_03 && verb == WEIR_RLS_CHECK_AND_REPORT;
    return !why;
}

/* ---- /check, /report, /check_and_report ------------------------------------------------------ */

static int status_of(const weir_rls_response *r)
{
    return r->failure != WEIR_RLS_ANSWERED ? 500 : r->code == WEIR_RLS_OVER_LIMIT ? 429 : 200;
}

static void put_null(weir_http_call *c, int status)
{
    weir_buffer_append(weir_http_begin_json(c), "null", 4);
    c->response->status = status;
}

/* The response to a request that was decided. */
static void put_response(weir_http_call *c, const weir_limitador_request *request,
                         const weir_rls_response *r)
{
    weir_rls_verb verb = request->verb;
    int status = status_of(r);
    if (r->failure == WEIR_RLS_ANSWERED && verb != WEIR_RLS_REPORT) {
        weir_trace_answer(c->response->span, r->code == WEIR_RLS_OK);
        weir_trace_in(c->response->span, "weir.namespace", request->name_space);
    }
    if (status != 200 && verb != WEIR_RLS_CHECK_AND_REPORT) {
        weir_http_put_text(c, status,
                           status == 429 ? "Too many requests" : "Internal server error");
        return;
    }
    put_null(c, status);
    for (size_t i = 0; i < r->headers_len; i++)
        weir_http_add_field(c->response, "%s: %s\r\n", r->headers[i].name, r->headers[i].value);
}

static void decide(weir_http_call *c, weir_rls_verb verb)
{
    body b;
    weir_rls_response response;
    if (read_body(c, verb, &b)) {
        c->pending =
            !weir_limitador_take(c->app, &c->wait->completion, &b.request, &response, c->now_ns);
        if (!c->pending)
            put_response(c, &b.request, &response);
    }
    free_body(&b);
}

static void check(weir_http_call *c)
{
    decide(c, WEIR_RLS_CHECK);
}

static void report(weir_http_call *c)
{
    decide(c, WEIR_RLS_REPORT);
}

static void check_and_report(weir_http_call *c)
{
    decide(c, WEIR_RLS_CHECK_AND_REPORT);
}

/* ---- /limits, /counters ---------------------------------------------------------------------- */

static void put_text(weir_buffer *b, const char *text)
{
    if (text)
        weir_json_put_string(b, text, strlen(text));
    else
        weir_buffer_append(b, "null", 4);
}

static void put_texts(weir_buffer *b, const char *const *texts, size_t n)
{
    weir_buffer_append_byte(b, '[');
    for (size_t i = 0; i < n; i++) {
        if (i > 0)
            weir_buffer_append_byte(b, ',');
        put_text(b, texts[i]);
    }
    weir_buffer_append_byte(b, ']');
}

/* Appends a comma, unless the last byte is the '[' of the list. */
static void put_comma(weir_buffer *b)
{
    size_t n = weir_buffer_len(b);
    if (n > 0 && weir_buffer_data(b)[n - 1] != '[')
        weir_buffer_append_byte(b, ',');
}

static void put_limit(weir_buffer *b, const weir_limitador_limit *l)
{
    weir_buffer_printf(b, "{\"id\":");
    put_text(b, l->id);
    weir_buffer_printf(b, ",\"namespace\":");
    put_text(b, l->name_space);
    weir_buffer_printf(b,
                       ",\"max_value\":%" PRIu64 ",\"seconds\":%" PRIu64 ",\"name\":", l->max_value,
                       l->seconds);
    put_text(b, l->name);
    weir_buffer_printf(b, ",\"conditions\":");
    put_texts(b, l->conditions, l->conditions_len);
    weir_buffer_printf(b, ",\"variables\":");
    put_texts(b, l->variables, l->variables_len);
    weir_buffer_append_byte(b, '}');
}

static void list_limit(void *ctx, const weir_limitador_view *limit)
{
    put_comma(ctx);
    put_limit(ctx, &limit->limit);
}

static void list_counter(void *ctx, const weir_limitador_counter *c)
{
    weir_buffer *b = ctx;
    const weir_limitador_limit *l = &c->limit->limit;
    put_comma(b);
    weir_buffer_printf(b, "{\"limit\":");
    put_limit(b, l);
    weir_buffer_printf(b, ",\"set_variables\":{");
    for (size_t i = 0; i < l->variables_len; i++) {
        if (i > 0)
            weir_buffer_append_byte(b, ',');
        put_text(b, l->variables[i]);
        weir_buffer_append_byte(b, ':');
        weir_json_put_string(b, c->values[i].at, c->values[i].len);
    }
    if (c->has_state)
        weir_buffer_printf(b, "},\"remaining\":%" PRIu64 ",\"expires_in_seconds\":%" PRId64 "}",
                           c->remaining, c->expires_ns / S_NS + (c->expires_ns % S_NS > 0));
    else
        weir_buffer_printf(b, "},\"remaining\":null,\"expires_in_seconds\":null}");
}

/* Decodes the namespace at the end of the path. Returns its length.
 *  ret  as long as the path. */
static size_t read_namespace(weir_slice path, char *ret)
{
    size_t n = 0, at = path.len;
    while (path.at[at - 1] != '/')
        at--;
    for (; at < path.len; n++) {
        int byte = weir_percent_read(path.at + at, path.len - at);
        ret[n] = byte >= 0 ? (char)byte : path.at[at];
        at += byte >= 0 ? 3 : 1;
    }
    return n;
}

static void limits(weir_http_call *c)
{
    char name[WEIR_HTTP_TARGET_MAX];
    weir_slice name_space = {name, read_namespace(c->http->path, name)};
    weir_buffer *b = weir_http_begin_json(c);
    weir_buffer_append_byte(b, '[');
    weir_limitador_config_limits(weir_limitador_loop_config(c->app), name_space, list_limit, b);
    weir_buffer_append_byte(b, ']');
}

static void counters(weir_http_call *c)
{
    char name[WEIR_HTTP_TARGET_MAX];
    weir_slice name_space = {name, read_namespace(c->http->path, name)};
    weir_buffer *b = weir_http_begin_json(c);
    weir_buffer_append_byte(b, '[');
    c->pending = !weir_limitador_counters(c->app, &c->wait->completion, c->http->kept, name_space,
                                          c->now_ns, list_counter, b);
    weir_buffer_append_byte(b, ']');
    if (c->pending || !c->http->kept->failed)
        return;
    weir_buffer_free(c->http->kept);
    weir_buffer_clear(b);
    weir_http_put_text(c, 500, "Internal server error");
}

/* ---- /status --------------------------------------------------------------------------------- */

static void status(weir_http_call *c)
{
    char text[32] = "";
    struct tm tm;
    time_t started = (time_t)(c->options->started_ns / S_NS);
    if (gmtime_r(&started, &tm))
        strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%S", &tm);
    weir_limitador *l = weir_limitador_of(c->app);
    weir_buffer_printf(weir_http_begin_json(c),
                       "{\"started_at\":\"%s\",\"config_version\":%" PRIu64 "}", text,
                       weir_limitador_version(l));
}

/* ---- metrics --------------------------------------------------------------------------------- */

typedef struct metric {
    weir_buffer *out;
    const char *name;
    size_t offset; /* of the value in a weir_limitador_count */
} metric;

static void put_sample(void *ctx, const weir_limitador_count *count)
{
    const metric *m = ctx;
    char name[WEIR_LIMITADOR_NAME_MAX + 1];
    uint64_t value;
    memcpy(&value, (const char *)count + m->offset, sizeof value);
    snprintf(name, sizeof name, "%.*s", (int)count->name_space.len, count->name_space.at);
    weir_buffer_printf(m->out, "%s{limitador_namespace=", m->name);
    weir_metrics_put_label(m->out, name);
    weir_buffer_printf(m->out, "} %" PRIu64 "\n", value);
}

static void put_metrics(void *app, weir_buffer *out)
{
    weir_limitador *l = weir_limitador_of(app);
    static const struct {
        const char *name, *help;
        size_t offset;
    } metrics[] = {
        {"authorized_calls", "Authorized calls.", offsetof(weir_limitador_count, authorized_calls)},
        {"authorized_hits", "Authorized hits.", offsetof(weir_limitador_count, authorized_hits)},
        {"limited_calls", "Limited calls.", offsetof(weir_limitador_count, limited_calls)},
    };
    weir_buffer_printf(out, "# HELP limitador_up 1: the daemon serves limitador's limits.\n"
                            "# TYPE limitador_up gauge\n"
                            "limitador_up 1\n");
    for (size_t i = 0; i < sizeof metrics / sizeof metrics[0]; i++) {
        metric m = {out, metrics[i].name, metrics[i].offset};
        weir_buffer_printf(out, "# HELP %s %s\n# TYPE %s counter\n", m.name, metrics[i].help,
                           m.name);
        weir_limitador_counts(l, put_sample, &m);
    }
}

/* ---- the table ------------------------------------------------------------------------------- */

weir_http_guest weir_limitador_http(weir_limitador_loop *loop)
{
    static const weir_http_endpoint endpoints[] = {
        {"/check", WEIR_MAY_TAKE_OTHERS, POST | WEIR_HTTP_SAME_SITE, 0, check,
         "    namespace, values, delta: 200 or 429; limitador's API (POST)"},
        {"/report", WEIR_MAY_TAKE_OTHERS, POST | WEIR_HTTP_SAME_SITE, 0, report,
         "    the same, charges without deciding (POST)"},
        {"/check_and_report", WEIR_MAY_TAKE_OTHERS, POST | WEIR_HTTP_SAME_SITE, 0, check_and_report,
         "the same, decides and charges (POST)"},
        {"/limits/", WEIR_MAY_METRICS_OTHERS, GET | WEIR_HTTP_SAME_SITE, 0, limits,
         "/limits/NAMESPACE, /counters/NAMESPACE, /status"},
        {"/counters/", WEIR_MAY_METRICS_OTHERS, GET | WEIR_HTTP_SAME_SITE, 0, counters, NULL},
        {"/status", WEIR_MAY_METRICS_OTHERS, GET | WEIR_HTTP_SAME_SITE, 0, status, NULL},
    };
    return (weir_http_guest){endpoints, sizeof endpoints / sizeof endpoints[0], loop, NULL,
                             put_metrics};
}
