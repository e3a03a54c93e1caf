/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* RESP requests are WEIR.TAKE for a name and WEIR.CHECK for a policy text. HTTP requests have
 * `delay=report`, so that a leaky-queue delays no response. */

#define _GNU_SOURCE /* memmem() */

#include "cmd/replay/against_wire.h"

#include "cmd/accesslog/messages.h"
#include "codec/json.h"
#include "codec/resp.h"

#include <inttypes.h>
#include <jansson.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#define HEAD_MAX  ((size_t)16384) /* bytes of the head of an HTTP response */
#define BODY_MAX  ((size_t)65536)
#define QUERY_KEY 1000 /* a longer key is sent in a body */

/* ---- opening --------------------------------------------------------------------------------- */

static int complain_url(const char *url)
{
    return accesslog_complain(ACCESSLOG_USAGE,
                              "--against: expected " AGAINST_URL_EXPECTED ", found '%s'", url);
}

/* Whether the address ends with a port. */
static bool has_port(const char *server)
{
    const char *colon = strrchr(server, ':');
    return colon && colon[1] && colon[1 + strspn(colon + 1, "0123456789")] == '\0';
}

/* Reads the scheme and the address of the URL. */
static int read_url(against_wire *w)
{
    static const struct {
        const char *scheme;
        bool http, path;
    } schemes[] = {{"resp://", false, false},
                   {"redis://", false, false},
                   {"http://", true, false},
                   {"unix://", false, true}};
    for (size_t i = 0; i < sizeof schemes / sizeof schemes[0]; i++) {
        size_t skip = strlen(schemes[i].scheme), len = strlen(w->url) - skip;
        if (strncasecmp(w->url, schemes[i].scheme, skip) != 0)
            continue;
        if (!schemes[i].path && len > 0 && w->url[skip + len - 1] == '/')
            len--;
        if (len == 0 || len >= sizeof w->server)
            return complain_url(w->url);
        memcpy(w->server, w->url + skip, len);
        w->server[len] = '\0';
        w->http = schemes[i].http;
        bool right = schemes[i].path ? w->server[0] == '/'
                                     : has_port(w->server) && !strpbrk(w->server, "/?#");
        if (strchr(w->server, '@') && !schemes[i].path)
            return accesslog_complain(ACCESSLOG_USAGE, "--against: '@' in the URL: set a password "
                                                       "with WEIR_PASSWORD");
        return right ? 0 : complain_url(w->url);
    }
    return complain_url(w->url);
}

static int complain_client(const against_wire *w, client_status st)
{
    return accesslog_complain(st == CLIENT_BAD_ADDRESS ? ACCESSLOG_USAGE : ACCESSLOG_FAILED,
                              "--against: %s", w->c.error);
}

static int complain_unexpected(const against_wire *w)
{
    return accesslog_complain(ACCESSLOG_FAILED,
                              "--against: %s: unexpected reply; is this server a weir daemon, and "
                              "is this its address for %s?",
                              w->c.server, w->http ? "HTTP" : "RESP");
}

static int check(const against_wire *w, client_status st)
{
    return st == CLIENT_OK ? 0 : complain_client(w, st);
}

int against_wire_open(against_wire *ret, const char *url, const char *password)
{
    ret->url = url;
    ret->c.fd = -1;
    int status = read_url(ret);
    if (status != 0)
        return status;
    client_status st = client_connect(&ret->c, ret->server, CLIENT_TIMEOUT_NS);
    if (st == CLIENT_OK && !ret->http)
        st = client_hello(&ret->c, password);
    if (password)
        snprintf(ret->authorization, sizeof ret->authorization, "Authorization: Bearer %s\r\n",
                 password);
    return check(ret, st);
}

void against_wire_close(against_wire *w)
{
    if (w->url)
        client_close(&w->c);
}

int against_wire_wait(against_wire *w, int ms)
{
    struct pollfd p = {.fd = w->c.fd, .events = POLLIN};
    if (poll(&p, 1, ms) <= 0)
        return 0;
    client_status st = client_receive(&w->c);
    return st == CLIENT_OK ? complain_unexpected(w) : complain_client(w, st);
}

/* ---- requests -------------------------------------------------------------------------------- */

static int put_resp(against_wire *w, const weir_request *r)
{
    char cost[24];
    int digits = snprintf(cost, sizeof cost, "%" PRId64, r->cost);
    const weir_slice words[] = {{r->by_text ? "WEIR.CHECK" : "WEIR.TAKE", r->by_text ? 10 : 9},
                                r->rule,
                                r->key,
                                {"COST", 4},
                                {cost, (size_t)digits}};
    return check(w, client_put(&w->c, words, sizeof words / sizeof words[0]));
}

static void put_escaped(weir_buffer *b, weir_slice text)
{
    for (size_t i = 0; i < text.len; i++)
        weir_buffer_printf(b, "%%%02X", (unsigned char)text.at[i]);
}

static void put_query(weir_buffer *b, const weir_request *r)
{
    weir_buffer_printf(b, "GET /v1/%s=", r->by_text ? "check?limit" : "take?policy");
    put_escaped(b, r->rule);
    weir_buffer_printf(b, "&cost=%" PRId64 "&delay=report&key=", r->cost);
    put_escaped(b, r->key);
    weir_buffer_printf(b, " HTTP/1.1\r\n");
}

static void put_body(weir_buffer *b, const weir_request *r)
{
    weir_buffer_printf(b, "{\"%s\":", r->by_text ? "limit" : "policy");
    weir_json_put_string(b, r->rule.at, r->rule.len);
    weir_buffer_printf(b, ",\"cost\":%" PRId64 ",\"delay\":\"report\",\"key\":", r->cost);
    weir_json_put_string(b, r->key.at, r->key.len);
    weir_buffer_printf(b, "}");
}

static int put_http(against_wire *w, const weir_request *r)
{
    weir_buffer head, body;
    bool in_body = r->key.len > QUERY_KEY;
    weir_buffer_init(&head, (size_t)1 << 20);
    weir_buffer_init(&body, (size_t)1 << 20);
    if (in_body)
        put_body(&body, r);
    if (in_body)
        weir_buffer_printf(&head,
                           "POST /v1/%s HTTP/1.1\r\nContent-Type: application/json\r\n"
                           "Content-Length: %zu\r\n",
                           r->by_text ? "check" : "take", weir_buffer_len(&body));
    else
        put_query(&head, r);
    weir_buffer_printf(&head, "Host: %s\r\n%s\r\n", w->server, w->authorization);
    client_status st = client_put_bytes(&w->c, weir_buffer_data(&head), weir_buffer_len(&head));
    if (st == CLIENT_OK)
        st = client_put_bytes(&w->c, weir_buffer_data(&body), weir_buffer_len(&body));
    bool failed = head.failed || body.failed;
    weir_buffer_free(&head);
    weir_buffer_free(&body);
    return failed ? accesslog_complain_memory() : check(w, st);
}

int against_wire_put(against_wire *w, const weir_request *r)
{
    return w->http ? put_http(w, r) : put_resp(w, r);
}

int against_wire_send(against_wire *w)
{
    client_set_timeout(&w->c, CLIENT_TIMEOUT_NS);
    return check(w, client_flush(&w->c));
}

/* ---- answers --------------------------------------------------------------------------------- */

static int complain_reply(const against_wire *w, const char *file, uint64_t line, weir_slice text)
{
    char shown[CLIENT_ERROR_MAX];
    client_printable(text.at, text.len, shown, sizeof shown);
    return accesslog_complain(ACCESSLOG_FAILED, "--against: %s:%" PRIu64 ": %s: %s", file, line,
                              w->c.server, shown);
}

static int read_resp(against_wire *w, const char *file, uint64_t line, against_answer *ret)
{
    int status = check(w, client_next(&w->c));
    if (status != 0)
        return status;
    const weir_resp_value *v = w->c.reply.value;
    if (v[0].type == WEIR_RESP_ERROR_REPLY) {
        size_t code = v[0].len > 4 && memcmp(v[0].text, "ERR ", 4) == 0 ? 4 : 0;
        return complain_reply(w, file, line, (weir_slice){v[0].text + code, v[0].len - code});
    }
    if (v[0].type != WEIR_RESP_ARRAY || v[0].len < 3 || v[1].type != WEIR_RESP_INTEGER ||
        v[2].type != WEIR_RESP_INTEGER || v[3].type != WEIR_RESP_INTEGER)
        return complain_unexpected(w);
    *ret = (against_answer){
        .allowed = v[1].integer == 1, .limit = v[2].integer, .remaining = v[3].integer};
    return 0;
}

/* Waits for the head of a response, and then for its body. Sets *ret_head and *ret_body to their
 * lengths. */
static int wait_http(against_wire *w, size_t *ret_head, size_t *ret_body)
{
    static const char field[] = "\r\nContent-Length: ";
    client_status st = CLIENT_OK;
    for (;;) {
        weir_slice got = client_bytes(&w->c);
        const char *end = got.len > 0 ? memmem(got.at, got.len, "\r\n\r\n", 4) : NULL;
        if ((got.len >= 5 && memcmp(got.at, "HTTP/", 5) != 0) || (!end && got.len > HEAD_MAX))
            return complain_unexpected(w);
        if (end) {
            size_t head = (size_t)(end - got.at) + 4;
            const char *length = memmem(got.at, head, field, sizeof field - 1);
            uint64_t body = BODY_MAX + 1;
            if (length)
                weir_digits_read(length + sizeof field - 1,
                                 (size_t)(end - length) - (sizeof field - 1), &body);
            if (body > BODY_MAX)
                return complain_unexpected(w);
            *ret_head = head;
            *ret_body = (size_t)body;
            if (got.len >= head + body)
                return 0;
        }
        if ((st = client_receive(&w->c)) != CLIENT_OK)
            return complain_client(w, st);
    }
}

/* Reads a member that is a number. */
static bool read_number(const json_t *body, const char *name, int64_t *ret)
{
    const json_t *v = json_object_get(body, name);
    *ret = v ? json_integer_value(v) : 0;
    return json_is_integer(v);
}

static int read_body(against_wire *w, const char *file, uint64_t line, const json_t *body,
                     against_answer *ret)
{
    const char *detail = json_string_value(json_object_get(body, "detail"));
    const char *reason = json_string_value(json_object_get(body, "reason"));
    const json_t *allowed = json_object_get(body, "allowed");
    against_answer a = {.allowed = json_is_true(allowed), .reasoned = true};
    if (json_is_boolean(allowed) && reason && read_number(body, "limit", &a.limit) &&
        read_number(body, "remaining", &a.remaining)) {
        a.shadowed = strcmp(reason, weir_reason_word(WEIR_BY_SHADOW)) == 0;
        *ret = a;
        return 0;
    }
    if (detail)
        return complain_reply(w, file, line, (weir_slice){detail, strlen(detail)});
    return complain_unexpected(w);
}

static int read_http(against_wire *w, const char *file, uint64_t line, against_answer *ret)
{
    size_t head = 0, len = 0;
    int status = wait_http(w, &head, &len);
    if (status != 0)
        return status;
    json_t *body = json_loadb(client_bytes(&w->c).at + head, len, 0, NULL);
    status = read_body(w, file, line, body, ret);
    json_decref(body);
    client_drop(&w->c, head + len);
    return status;
}

int against_wire_read(against_wire *w, const char *file, uint64_t line, against_answer *ret)
{
    return w->http ? read_http(w, file, line, ret) : read_resp(w, file, line, ret);
}
