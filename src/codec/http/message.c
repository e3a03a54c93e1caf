/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* Serialises responses. codec/answer/fields.h writes the rate limit headers. Times are rounded up,
 * so a client that waits is not denied again. */

#include "codec/http/message.h"

#include "codec/answer/answered.h"
#include "codec/answer/json.h"
#include "codec/answer/reservation.h"
#include "core/algorithm.h"
#include "core/decision.h"
#include "port/assert.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <time.h>

/* No answer may be cached, and no browser may guess its type. */
#define DATA_FIELDS "Cache-Control: no-store\r\nX-Content-Type-Options: nosniff\r\n"

#define QUOTA_EXCEEDED "https://iana.org/assignments/http-problem-types#quota-exceeded"

_Static_assert(WEIR_RULE_NAME_MAX == WEIR_RATELIMIT_NAME_MAX, "the headers have room for any name");
_Static_assert(WEIR_ALL_MAX == WEIR_ANSWERED_MAX, "the headers have room for all policies");

const char *weir_http_reason(int status)
{
    static const struct {
        int status;
        const char *reason;
    } reasons[] = {
        {200, "OK"},
        {204, "No Content"},
        {304, "Not Modified"},
        {400, "Bad Request"},
        {401, "Unauthorized"},
        {402, "Payment Required"},
        {403, "Forbidden"},
        {404, "Not Found"},
        {405, "Method Not Allowed"},
        {406, "Not Acceptable"},
        {409, "Conflict"},
        {410, "Gone"},
        {413, "Content Too Large"},
        {414, "URI Too Long"},
        {415, "Unsupported Media Type"},
        {417, "Expectation Failed"},
        {420, "Enhance Your Calm"},
        {421, "Misdirected Request"},
        {429, "Too Many Requests"},
        {431, "Request Header Fields Too Large"},
        {451, "Unavailable For Legal Reasons"},
        {500, "Internal Server Error"},
        {501, "Not Implemented"},
        {502, "Bad Gateway"},
        {503, "Service Unavailable"},
        {504, "Gateway Timeout"},
        {505, "HTTP Version Not Supported"},
    };
    for (size_t i = 0; i < sizeof reasons / sizeof reasons[0]; i++) {
        if (reasons[i].status == status)
            return reasons[i].reason;
    }
    return "Unknown";
}

void weir_http_add_field(weir_http_response *a, const char *format, ...)
{
    size_t room = sizeof a->fields - a->fields_len;
    va_list args;
    va_start(args, format);
    int len = vsnprintf(a->fields + a->fields_len, room, format, args);
    va_end(args);
    if (len > 0 && (size_t)len < room)
        a->fields_len += (size_t)len;
}

/* ---- problems -------------------------------------------------------------------------------- */

static void put_problem(weir_http_response *a, const char *type, const char *title,
                        const char *detail)
{
    a->type = "application/problem+json";
    weir_buffer_clear(a->body);
    weir_buffer_printf(a->body, "{\"type\":\"%s\",\"title\":\"%s\",\"status\":%d,\"detail\":", type,
                       title, a->status);
    weir_json_put_string(a->body, detail, strlen(detail));
}

void weir_http_problem(weir_http_response *a, int status, const char *format, ...)
{
    char detail[512];
    va_list args;
    va_start(args, format);
    vsnprintf(detail, sizeof detail, format, args);
    va_end(args);
    a->status = status;
    put_problem(a, "about:blank", weir_http_reason(status), detail);
    weir_buffer_append(a->body, "}\n", 2);
}

bool weir_http_succeeded(weir_http_response *a, const weir_request *r, const char *where)
{
    int shown = r->rule.len < WEIR_RULE_NAME_MAX ? (int)r->rule.len : WEIR_RULE_NAME_MAX;
    if (r->status == WEIR_OK)
        return true;
    if (r->error.column > 0)
        weir_http_problem(a, 400, "%scolumn %u: %s", where, r->error.column, r->error.text);
    else if (r->status == WEIR_E_ABSENT)
        weir_http_problem(a, 404, "%sunknown policy \"%.*s\"; GET /v1/policies lists all", where,
                          shown, r->rule.at);
    else if (r->why)
        weir_http_problem(a,
                          r->status == WEIR_E_IO || r->status == WEIR_E_FULL ? 503
                          : r->status == WEIR_E_RANGE                        ? 400
                                                                             : 501,
                          "%s%s", where, r->why);
    else if (r->status == WEIR_E_UNSUPPORTED)
        weir_http_problem(a, 400, WEIR_NO_REFUNDS);
    else if (r->status == WEIR_E_NOMEM)
        weir_http_problem(a, 503, "%sthe store is out of memory; raise memory.size", where);
    else if (r->status == WEIR_E_FULL)
        weir_http_problem(a, 503, "%sthe store is full and refuses new keys (memory.when_full)",
                          where);
    else
        weir_http_problem(a, r->status == WEIR_E_RANGE ? 400 : 500, "%s%s", where,
                          weir_status_str(r->status));
    return false;
}

/* ---- rate limit headers ---------------------------------------------------------------------- */

/* The name of a policy in the headers; an inline policy has none. */
static weir_slice shown_name(const weir_request *r)
{
    return r->by_text ? (weir_slice){NULL, 0} : r->rule;
}

static weir_answered answered_of(const weir_request *r, const weir_answer *rest)
{
    return weir_answered_of(r, shown_name(r), rest);
}

static void add_decision_fields(weir_http_response *a, unsigned headers, const weir_request *r,
                                const weir_http_more *more)
{
    weir_answered all[WEIR_ANSWERED_MAX];
    bool several = more && more->all;
    size_t n = several ? more->n : 1;
    for (size_t i = 0; i < n; i++)
        all[i] = answered_of(several ? &more->all[i] : r, a->answer);
    if (sizeof a->fields - a->fields_len >= WEIR_ANSWER_ROOM)
        a->fields_len += weir_answer_lines(headers, all, n, several ? more->index : 0, a->now_ns,
                                           a->fields + a->fields_len);
}

/* ---- decisions ------------------------------------------------------------------------------- */

enum { FIELD_ROOM = 48 };
#define FITS(id, kind, name)                                                                       \
    _Static_assert(sizeof(WEIR_FIELD_NAME_##kind(name, "ms")) + 3 + WEIR_I64_MAX_LEN <=            \
                       FIELD_ROOM,                                                                 \
                   "a field and a comma fit");
WEIR_DECISION_LIST(FITS)

/* Write bytes and a value, and return their end. Inlined, so that the compiler knows the length. */
static inline char *put_flag(char *at, const char *name, size_t len, int64_t v)
{
    memcpy(at, name, len);
    memcpy(at + len, v ? "true," : "false", 5);
    at[len + 5] = ','; /* behind "false"; the next field overwrites it behind "true" */
    return at + len + (v ? 5 : 6);
}

__attribute__((always_inline)) static inline char *put_number(char *at, const char *name,
                                                              size_t len, int64_t v)
{
    memcpy(at, name, len);
    at += len + weir_i64_print(at + len, v);
    *at = ',';
    return at + 1;
}

#define PUT_FLAG      put_flag
#define PUT_COUNT     put_number
#define PUT_WAIT      put_number
#define PUT_SPAN      put_number
#define LITERAL(text) text, sizeof(text) - 1

/* Appends the fields of a decision, each with a comma behind it. */
static void put_decision_fields(weir_buffer *b, const weir_decision *d, int64_t next_ns)
{
    int64_t f[WEIR_DECISION_FIELDS];
    if (!weir_buffer_reserve(b, (WEIR_DECISION_FIELDS + 1) * FIELD_ROOM))
        return;
    weir_decision_get_fields(d, 1000000, f);
    char *begin = (char *)weir_buffer_tail(b), *at = begin;
#define PUT(id, kind, name)                                                                        \
    at = PUT_##kind(at, LITERAL("\"" WEIR_FIELD_NAME_##kind(name, "ms") "\":"), f[WEIR_FIELD_##id]);
    WEIR_DECISION_LIST(PUT)
#undef PUT
    if (next_ns != WEIR_NEXT_UNKNOWN)
        at = put_number(at, LITERAL("\"next_ms\":"), weir_next_units(next_ns, 1000000));
    weir_buffer_added(b, (size_t)(at - begin));
}

/* Appends the members of a decision and the closing brace. */
static void put_members(weir_buffer *b, const weir_request *r, const weir_http_more *more)
{
    const weir_decision *d = &r->decision;
    const char *rule = r->rule.at, *reason = weir_reason_word(r->reason);
    size_t rule_len = r->rule.len;
    char text[WEIR_POLICY_TEXT_MAX];
    if (r->by_text) {
        rule = text;
        rule_len = weir_policy_print(r->policy, text, sizeof text);
    }
    put_decision_fields(b, d, r->next_ns);
    weir_buffer_append(b, "\"policy\":", 9);
    weir_json_put_string(b, rule, rule_len);
    weir_buffer_put_number(b, LITERAL(",\"layer\":"), d->layer);
    weir_buffer_append(b, ",\"reason\":\"", 11);
    weir_buffer_append(b, reason, strlen(reason));
    if (!more) {
        weir_buffer_append(b, "\"}\n", 3);
        return;
    }
    weir_buffer_append_byte(b, '"');
    if (more->all) {
        weir_buffer_put(b, ",\"index\":", (int64_t)more->index);
        weir_buffer_append(b, ",\"key\":", 7);
        weir_json_put_string(b, r->key.at, r->key.len);
    }
    weir_figure figures[WEIR_FIGURES_MAX];
    size_t n = more->figures ? weir_figures_list(more->figures, figures) : 0;
    for (size_t i = 0; i < n; i++)
        weir_buffer_printf(b, ",\"%s\":%" PRId64, figures[i].name, figures[i].value);
    if (more->id)
        weir_buffer_printf(b, ",\"id\":\"%.*s\"", WEIR_HEX64_LEN, more->id);
    if (more->charged)
        weir_buffer_put(b, ",\"over\":", r->over);
    weir_buffer_append(b, "}\n", 2);
}

/* Writes the detail of a denial: a sentence for people who do not know weir. */
static void describe_denial(char *buf, size_t size, const weir_request *r, const char *name)
{
    const weir_decision *d = &r->decision;
    if (r->reason == WEIR_BY_DENY_LIST)
        snprintf(buf, size, "The key is on the deny list of \"%s\".", name);
    else if (d->never)
        snprintf(buf, size, "\"%s\" never allows more than %" PRId64 " at once.", name, d->limit);
    else if (r->reason == WEIR_BY_ON_ERROR)
        snprintf(buf, size,
                 "The server with the state of \"%s\" is unreachable; try again in %" PRId64
                 ".%03d s.",
                 name, weir_ms_ceil(d->retry_after_ns) / 1000,
                 (int)(weir_ms_ceil(d->retry_after_ns) % 1000));
    else
        snprintf(buf, size, "\"%s\" allows %" PRId64 " more now; try again in %" PRId64 ".%03d s.",
                 name, d->remaining, weir_ms_ceil(d->retry_after_ns) / 1000,
                 (int)(weir_ms_ceil(d->retry_after_ns) % 1000));
}

static void put_quota_exceeded(weir_http_response *a, const weir_request *r,
                               const weir_http_more *more)
{
    char name[WEIR_RATELIMIT_ITEM_ROOM + 1], detail[256];
    name[weir_ratelimit_item(name, shown_name(r), r->policy, r->decision.layer)] = '\0';
    describe_denial(detail, sizeof detail, r, name);
    put_problem(a, QUOTA_EXCEEDED,
                "Request cannot be satisfied as assigned quota has been exceeded", detail);
    weir_buffer_printf(a->body, ",\"violated-policies\":[\"%s\"],", name);
    put_members(a->body, r, more);
}

void weir_http_decision(weir_http_response *a, const weir_request *r, int denied_status,
                        const weir_http_more *more)
{
    weir_answer answer = r->answer ? *r->answer : (weir_answer){0};
    weir_answer_merge(&answer, a->answer);
    if (a->span && !(more && more->settled))
        weir_trace_decide(a->span, r);
    add_decision_fields(a, answer.headers ? answer.headers : WEIR_HEADERS_DEFAULT, r, more);
    if (r->decision.allowed || (more && more->settled)) {
        a->status = 200;
        a->type = "application/json";
        weir_buffer_append(a->body, "{", 1);
        put_members(a->body, r, more);
        return;
    }
    a->status = denied_status != 0          ? denied_status
                : answer.denied_status != 0 ? answer.denied_status
                                            : 429;
    WEIR_ASSERT(a->status >= 400 && a->status <= 599);
    if (!answer.denied_body) {
        put_quota_exceeded(a, r, more);
        return;
    }
    weir_answered answered = answered_of(r, a->answer);
    a->type = answer.denied_type ? answer.denied_type : "text/plain; charset=utf-8";
    weir_denial_body_put(a->body, answer.denied_body, &answered, r->cost, a->now_ns);
}

/* ---- serialising ----------------------------------------------------------------------------- */

bool weir_http_date(int64_t now_s, char ret[static WEIR_HTTP_DATE_ROOM])
{
    static const char days[][4] = {"Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"};
    static const char months[][4] = {"Jan", "Feb", "Mar", "Apr", "May", "Jun",
                                     "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"};
    time_t time = (time_t)now_s;
    struct tm tm;
    if (!gmtime_r(&time, &tm))
        return false;
    snprintf(ret, WEIR_HTTP_DATE_ROOM, "%s, %02u %s %04u %02u:%02u:%02u GMT", days[tm.tm_wday],
             (unsigned)tm.tm_mday, months[tm.tm_mon], (unsigned)tm.tm_year + 1900u,
             (unsigned)tm.tm_hour, (unsigned)tm.tm_min, (unsigned)tm.tm_sec);
    return true;
}

void weir_http_put_head(weir_buffer *out, const weir_http_response *a, const char *connection,
                        const char *date)
{
    WEIR_ASSERT(a->fields_len < sizeof a->fields);
    if (a->status == 200) { /* the common case */
        weir_buffer_append(out, LITERAL("HTTP/1.1 200 OK"));
    } else {
        const char *reason = weir_http_reason(a->status);
        weir_buffer_put(out, "HTTP/1.1 ", a->status);
        weir_buffer_append_byte(out, ' ');
        weir_buffer_append(out, reason, strlen(reason));
    }
    weir_buffer_append(out, "\r\nDate: ", 8);
    weir_buffer_append(out, date, strlen(date));
    bool no_body = a->status == 204 || a->status == 304;
    if (!no_body) {
        weir_buffer_append(out, "\r\nContent-Type: ", 16);
        weir_buffer_append(out, a->type, strlen(a->type));
    }
    if (!no_body && !a->endless)
        weir_buffer_put(out, "\r\nContent-Length: ", (int64_t)weir_buffer_len(a->body));
    weir_buffer_append(out, "\r\n", 2);
    weir_buffer_append(out, a->fields, a->fields_len);
    if (!a->has_cache_fields)
        weir_buffer_append(out, DATA_FIELDS, sizeof DATA_FIELDS - 1);
    if (connection)
        weir_buffer_printf(out, "Connection: %s\r\n", connection);
    weir_buffer_append(out, "\r\n", 2);
}
