/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* Serialises responses. codec/answer_fields.h writes the rate limit headers. Times are rounded up,
 * so a client that waits is not denied again. */

#include "codec/http_message.h"

#include "codec/decision.h"
#include "codec/denial_body.h"
#include "codec/json.h"
#include "codec/reservation.h"
#include "core/algorithm.h"
#include "port/assert.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>

#define QUOTA_EXCEEDED "https://iana.org/assignments/http-problem-types#quota-exceeded"

_Static_assert(WEIR_RULE_NAME_MAX == WEIR_RATELIMIT_NAME_MAX, "the headers have room for any name");
_Static_assert(WEIR_ALL_MAX == WEIR_ANSWERED_MAX, "the headers have room for all policies");

weir_slice weir_http_trim(weir_slice text)
{
    while (text.len > 0 && (text.at[0] == ' ' || text.at[0] == '\t')) {
        text.at++;
        text.len--;
    }
    while (text.len > 0 && (text.at[text.len - 1] == ' ' || text.at[text.len - 1] == '\t'))
        text.len--;
    return text;
}

bool weir_http_is(weir_slice text, const char *word)
{
    if (text.len != strlen(word))
        return false;
    for (size_t i = 0; i < text.len; i++) {
        char a = text.at[i], b = word[i];
        a = a >= 'A' && a <= 'Z' ? (char)(a + 32) : a;
        b = b >= 'A' && b <= 'Z' ? (char)(b + 32) : b;
        if (a != b)
            return false;
    }
    return true;
}

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

/* weir_http_add_field() for plain bytes: faster than a format. */
static void add_bytes(weir_http_response *a, const char *at, size_t len)
{
    if (len > sizeof a->fields - a->fields_len)
        return;
    memcpy(a->fields + a->fields_len, at, len);
    a->fields_len += len;
}

/* For string literals: the compiler computes their length. */
#define add(a, text) add_bytes(a, text, sizeof(text) - 1)

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
        weir_http_problem(a, r->status == WEIR_E_IO ? 503 : 501, "%s%s", where, r->why);
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

static weir_answered answered_of(const weir_request *r)
{
    return (weir_answered){.name = shown_name(r),
                           .policy = r->policy,
                           .decision = &r->decision,
                           .unit = r->answer ? r->answer->unit : WEIR_UNIT_UNSET,
                           .resets = r->reason != WEIR_BY_DENY_LIST};
}

static void add_decision_fields(weir_http_response *a, unsigned headers, const weir_request *r,
                                const weir_http_more *more)
{
    weir_answered all[WEIR_ANSWERED_MAX];
    bool several = more && more->all;
    size_t n = several ? more->n : 1;
    for (size_t i = 0; i < n; i++)
        all[i] = answered_of(several ? &more->all[i] : r);
    if (sizeof a->fields - a->fields_len >= WEIR_ANSWER_ROOM)
        a->fields_len += weir_answer_lines(headers, all, n, several ? more->index : 0, a->now_ns,
                                           a->fields + a->fields_len);
    add(a, "Cache-Control: no-store\r\n");
}

/* ---- decisions ------------------------------------------------------------------------------- */

/* Appends the members of a decision and the closing brace. */
static void put_members(weir_buffer *b, const weir_request *r, const weir_http_more *more)
{
    const weir_decision *d = &r->decision;
    int64_t retry_ms = d->allowed ? 0 : d->never ? -1 : weir_ms_ceil(d->retry_after_ns);
    const char *rule = r->rule.at, *reason = weir_reason_word(r->reason);
    size_t rule_len = r->rule.len;
    char text[WEIR_POLICY_TEXT_MAX];
    if (r->by_text) {
        rule = text;
        rule_len = weir_policy_print(r->policy, text, sizeof text);
    }
    weir_buffer_put(
        b, d->allowed ? "\"allowed\":true,\"limit\":" : "\"allowed\":false,\"limit\":", d->limit);
    weir_buffer_put(b, ",\"remaining\":", d->remaining);
    weir_buffer_put(b, ",\"retry_after_ms\":", retry_ms);
    weir_buffer_put(b, ",\"reset_after_ms\":", weir_ms_ceil(d->reset_after_ns));
    weir_buffer_put(b, ",\"delay_ms\":", weir_ms_ceil(d->delay_ns));
    weir_buffer_append(b, ",\"policy\":", 10);
    weir_json_put_string(b, rule, rule_len);
    weir_buffer_put(b, ",\"layer\":", d->layer);
    weir_buffer_append(b, ",\"reason\":\"", 11);
    weir_buffer_append(b, reason, strlen(reason));
    weir_buffer_append_byte(b, '"');
    if (more && more->all) {
        weir_buffer_put(b, ",\"index\":", (int64_t)more->index);
        weir_buffer_append(b, ",\"key\":", 7);
        weir_json_put_string(b, r->key.at, r->key.len);
    }
    if (more && more->id)
        weir_buffer_printf(b, ",\"id\":\"%.*s\"", WEIR_HEX64_LEN, more->id);
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
    add_decision_fields(a, answer.headers ? answer.headers : WEIR_HEADERS_DEFAULT, r, more);
    if (r->decision.allowed) {
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
    weir_answered answered = answered_of(r);
    a->type = answer.denied_type ? answer.denied_type : "text/plain; charset=utf-8";
    weir_denial_body_put(a->body, answer.denied_body, &answered, r->cost, a->now_ns);
}

/* ---- serialising ----------------------------------------------------------------------------- */

void weir_http_put_head(weir_buffer *out, const weir_http_response *a, const char *connection,
                        const char *date)
{
    const char *reason = weir_http_reason(a->status);
    weir_buffer_put(out, "HTTP/1.1 ", a->status);
    weir_buffer_append_byte(out, ' ');
    weir_buffer_append(out, reason, strlen(reason));
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
    if (connection)
        weir_buffer_printf(out, "Connection: %s\r\n", connection);
    weir_buffer_append(out, "\r\n", 2);
}
