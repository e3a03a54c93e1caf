/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* The callbacks of llhttp store the parts of a request that the endpoints need, within the limits
 * of http_session.h. This file must not know any endpoint.
 *
 * A request that exceeds a limit is refused at the same byte however the input was split. For this,
 * the parser never receives more bytes than its phase (target, head, body) may have, and it pauses
 * at the end of each head and each message. */

#define _GNU_SOURCE /* memrchr */

#include "codec/http_session.h"

#include "codec/http_access.h"
#include "codec/http_endpoints.h"
#include "codec/http_live.h"
#include "codec/password.h"
#include "port/assert.h"

#include <stdio.h>
#include <strings.h>
#include <time.h>

enum {
    STORED_MAX = WEIR_HTTP_TARGET_MAX + WEIR_HTTP_VALUES_MAX, /* target and header lines */
    JOINED_MAX = WEIR_HTTP_VALUES_MAX + 2 * WEIR_HTTP_LINES_MAX,
    TEXT_MAX = STORED_MAX + WEIR_HTTP_HEAD_MAX + JOINED_MAX + WEIR_HTTP_BODY_MAX,
    KEPT_MAX = 65536,
    TEXT_KEPT = 4096, /* bytes of buffer that a session keeps between requests */
    TARGET_LINE_MAX = WEIR_HTTP_TARGET_MAX + 16 /* with the method and an empty line before it */
};
_Static_assert(STORED_MAX + JOINED_MAX <= UINT16_MAX, "offsets in weir_http_value have 16 bits");

static const weir_slice header_names[WEIR_HTTP_KEY] = {
    [WEIR_HTTP_ACCEPT_ENCODING] = {"accept-encoding", 15},
    [WEIR_HTTP_AUTHORIZATION] = {"authorization", 13},
    [WEIR_HTTP_CONTENT_TYPE] = {"content-type", 12},
    [WEIR_HTTP_EXPECT] = {"expect", 6},
    [WEIR_HTTP_FETCH_SITE] = {"sec-fetch-site", 14},
    [WEIR_HTTP_FORWARDED_HOST] = {"x-forwarded-host", 16},
    [WEIR_HTTP_FORWARDED_METHOD] = {"x-forwarded-method", 18},
    [WEIR_HTTP_FORWARDED_URI] = {"x-forwarded-uri", 15},
    [WEIR_HTTP_HOST] = {"host", 4},
    [WEIR_HTTP_IF_NONE_MATCH] = {"if-none-match", 13},
    [WEIR_HTTP_ORIGIN] = {"origin", 6},
    [WEIR_HTTP_ORIGINAL_METHOD] = {"x-original-method", 17},
    [WEIR_HTTP_ORIGINAL_URI] = {"x-original-uri", 14},
    [WEIR_HTTP_ORIGINAL_URL] = {"x-original-url", 14},
    [WEIR_HTTP_PASSWORD] = {"x-weir-password", 15},
    [WEIR_HTTP_REQUEST_METHOD] = {"access-control-request-method", 29},
    [WEIR_HTTP_TRANSFER_ENCODING] = {"transfer-encoding", 17},
};

/* ---- the callbacks of llhttp ----------------------------------------------------------------- */

/* Refuses the request. Only the first reason counts. Returns -1, which makes llhttp stop. */
static int refuse(weir_http_session *s, int status, const char *why)
{
    if (!s->refused) {
        s->refused = status;
        s->refusal = why;
    }
    return -1;
}

static int keep(weir_http_session *s, const char *at, size_t len)
{
    weir_buffer_append(&s->text, at, len);
    return s->text.failed ? refuse(s, 503, "out of memory for the request") : 0;
}

/* The method is checked here and not in on_url(). llhttp calls on_url() for each part of the target
 * that has arrived, so whether that call precedes an error in the target depends on how the input
 * was split. */
static int on_method_complete(llhttp_t *parser)
{
    weir_http_session *s = parser->data;
    if (parser->method == HTTP_PRI) /* the preface of HTTP/2 */
        return refuse(s, 505, WEIR_HTTP_BAD_VERSION);
    if (parser->method > HTTP_SOURCE) /* QUERY, which only llhttp 9 knows */
        return refuse(s, 400, WEIR_HTTP_BAD_REQUEST_LINE);
    return 0;
}

static int on_url(llhttp_t *parser, const char *at, size_t len)
{
    weir_http_session *s = parser->data;
    s->target_len += len;
    return keep(s, at, len);
}

/* Finds the host in an absolute-form target, "http://host/path?query". For "/path?query" and "*",
 * ret->at is NULL. Returns false for any other form, such as the target of CONNECT. */
static bool authority_of(const char *at, size_t len, weir_slice *ret)
{
    *ret = (weir_slice){NULL, 0};
    if (at[0] == '/' || (at[0] == '*' && len == 1))
        return true;
    size_t begin = len >= 8 && weir_http_is((weir_slice){at, 8}, "https://")  ? 8
                   : len >= 7 && weir_http_is((weir_slice){at, 7}, "http://") ? 7
                                                                              : 0;
    size_t end = begin;
    while (end < len && at[end] != '/' && at[end] != '?' && at[end] != '#')
        end++;
    if (begin > 0)
        *ret = (weir_slice){at + begin, end - begin};
    return begin > 0;
}

/* Whether the path at the front of a target is `path`, a literal, or begins with it and a '/'. */
#define is_below(target, path) begins_with_path(target, path, sizeof(path) - 1)

static inline bool begins_with_path(weir_slice target, const char *path, size_t len)
{
    if (target.len < len || memcmp(target.at, path, len) != 0)
        return false;
    const char *at = target.at + len;
    return target.len == len || *at == '/' || *at == '?' || *at == '#';
}

static int on_url_complete(llhttp_t *parser)
{
    weir_http_session *s = parser->data;
    s->target_done = true;
    if (s->target_len > WEIR_HTTP_TARGET_MAX)
        return refuse(s, 414,
                      "the request target exceeds 8192 bytes; send a long key in a JSON body");
    const char *at = (const char *)weir_buffer_data(&s->text);
    weir_slice host, target = {at, s->target_len};
    if (s->target_len == 0 || !authority_of(at, s->target_len, &host))
        return 0;
    if (host.at)
        target =
            (weir_slice){host.at + host.len, (size_t)(at + s->target_len - host.at) - host.len};
    s->in_api = is_below(target, "/v1");
    s->forwards = s->in_api && is_below(target, WEIR_HTTP_FORWARD_PATH);
    return 0;
}

static int on_header_field(llhttp_t *parser, const char *at, size_t len)
{
    weir_http_session *s = parser->data;
    if (s->name_len > sizeof s->name || len > sizeof s->name - s->name_len) {
        s->name_len = sizeof s->name + 1;
        return 0;
    }
    memcpy(s->name + s->name_len, at, len);
    s->name_len += len;
    return 0;
}

static bool is_of_proxy(int header)
{
    return (header >= WEIR_HTTP_FORWARDED_HOST && header <= WEIR_HTTP_FORWARDED_URI) ||
           (header >= WEIR_HTTP_ORIGINAL_METHOD && header <= WEIR_HTTP_ORIGINAL_URL);
}

/* Returns the header of a name; WEIR_HTTP_NAMED for any other. */
static int header_named(const weir_http_options *o, weir_slice name)
{
    for (int i = 0; i < WEIR_HTTP_KEY; i++) {
        if (name.len == header_names[i].len && weir_http_is(name, header_names[i].at))
            return i;
    }
    if (o->key_header && weir_http_is(name, o->key_header))
        return WEIR_HTTP_KEY;
    return o->client_header && weir_http_is(name, o->client_header) ? WEIR_HTTP_CLIENT
                                                                    : WEIR_HTTP_NAMED;
}

bool weir_http_find_header(const weir_http_options *o, const weir_http_request *r, weir_slice name,
                           weir_slice *ret)
{
    *ret = (weir_slice){NULL, 0};
    for (size_t i = r->values; i-- > 0;) { /* joined values are the last ones */
        const weir_http_value *v = &r->value[i];
        const char *at = r->text + v->begin;
        if (v->header == WEIR_HTTP_NAMED && v->name_len == name.len &&
            strncasecmp(at - name.len, name.at, name.len) == 0) {
            *ret = weir_http_trim((weir_slice){at, v->len});
            return true;
        }
    }
    int header = header_named(o, name);
    if (header != WEIR_HTTP_NAMED)
        *ret = r->header[header];
    return ret->at;
}

/* Returns how the header line being received is stored; -1: not at all. */
static int header_of(const weir_http_session *s)
{
    weir_slice name = {s->name, s->name_len};
    if (s->name_len > sizeof s->name)
        return -1;
    int header = header_named(s->options, name);
    if (header != WEIR_HTTP_NAMED && (s->forwards || !is_of_proxy(header)))
        return header;
    return s->in_api && weir_service_wants_header(s->options->service, name) ? WEIR_HTTP_NAMED : -1;
}

static int on_header_field_complete(llhttp_t *parser)
{
    weir_http_session *s = parser->data;
    int header = s->head_done ? -1 : header_of(s); /* trailers are ignored */
    size_t name_len = header == WEIR_HTTP_NAMED ? s->name_len : 0;
    s->name_len = 0;
    s->keeps_line = header >= 0;
    if (header < 0)
        return 0;
    if (s->lines == WEIR_HTTP_LINES_MAX)
        return refuse(s, 431,
                      "too many header lines, expected at most 32 of the headers that weir reads");
    s->count[header]++;
    s->value[s->lines++] = (weir_http_value){(uint16_t)(weir_buffer_len(&s->text) + name_len), 0,
                                             (uint8_t)header, (uint8_t)name_len};
    return name_len > 0 ? keep(s, s->name, name_len) : 0;
}

static int on_header_value(llhttp_t *parser, const char *at, size_t len)
{
    weir_http_session *s = parser->data;
    if (!s->keeps_line)
        return 0;
    weir_http_value *value = &s->value[s->lines - 1];
    value->len = (uint16_t)(value->len + len);
    return keep(s, at, len);
}

/* The limit is checked at the end of a line and not in on_header_value(), so that an error in the
 * line wins however the input was split. */
static int on_header_value_complete(llhttp_t *parser)
{
    weir_http_session *s = parser->data;
    if (s->keeps_line && weir_buffer_len(&s->text) - s->target_len > WEIR_HTTP_VALUES_MAX)
        return refuse(s, 431, "the header lines that weir reads exceed 16384 bytes");
    return 0;
}

/* Checks Transfer-Encoding (RFC 9112, 6.1 and 6.3): only "chunked" is supported. If the last coding
 * is not chunked, the length of the body is unknown. */
static int check_coding(weir_http_session *s)
{
    weir_slice last = {"", 0};
    unsigned lines = s->count[WEIR_HTTP_TRANSFER_ENCODING];
    if (lines == 0)
        return 0;
    for (unsigned i = 0; i < s->lines; i++) {
        const weir_http_value *v = &s->value[i];
        if (v->header == WEIR_HTTP_TRANSFER_ENCODING)
            last = (weir_slice){(const char *)weir_buffer_data(&s->text) + v->begin, v->len};
    }
    if (!s->http11)
        return refuse(s, 400, "Transfer-Encoding in an HTTP/1.0 request, expected Content-Length");
    const char *comma = memrchr(last.at, ',', last.len);
    size_t before = comma ? (size_t)(comma + 1 - last.at) : 0;
    if (!weir_http_is(weir_http_trim((weir_slice){last.at + before, last.len - before}), "chunked"))
        return refuse(s, 400, "unsupported Transfer-Encoding, expected chunked");
    if (lines > 1 || comma)
        return refuse(s, 501,
                      "unsupported Transfer-Encoding before chunked, expected chunked alone");
    return 0;
}

/* weir_http_check_host() with a cache of one entry: most clients send the same host again. With a
 * password, every well-formed host is accepted. */
static weir_http_host check_host(weir_http_session *s, weir_slice host)
{
    if (host.at && host.len > 0 && host.len == s->host_len &&
        memcmp(host.at, s->host, host.len) == 0)
        return WEIR_HTTP_OWN_HOST;
    weir_http_host found = weir_http_check_host(s->options, host);
    if (found == WEIR_HTTP_OTHER_HOST && s->options->password)
        found = WEIR_HTTP_OWN_HOST;
    if (found == WEIR_HTTP_OWN_HOST && host.at && host.len <= sizeof s->host) {
        memcpy(s->host, host.at, host.len);
        s->host_len = (uint8_t)host.len;
    }
    return found;
}

/* Sets own_host from the host in the target or, without one, from Host (RFC 9112, 3.2, 3.2.2). */
static int check_hosts(weir_http_session *s)
{
    const char *text = (const char *)weir_buffer_data(&s->text);
    weir_slice header = {NULL, 0}, authority;
    for (const weir_http_value *v = s->value; v < s->value + s->lines && !header.at; v++) {
        if (v->header == WEIR_HTTP_HOST)
            header = weir_http_trim((weir_slice){text + v->begin, v->len});
    }
    weir_http_host found = check_host(s, header);
    if (found == WEIR_HTTP_BAD_HOST)
        return refuse(s, 400, "malformed Host header, expected HOST or HOST:PORT");
    if (!authority_of(text, s->target_len, &authority) && s->parser.method != HTTP_CONNECT)
        return refuse(
            s, 400,
            "malformed request target, expected one such as /healthz or http://HOST/healthz");
    if (authority.at)
        found = authority.len > 0 ? check_host(s, authority) : WEIR_HTTP_BAD_HOST;
    if (found == WEIR_HTTP_BAD_HOST)
        return refuse(
            s, 400,
            "malformed host in the request target, expected HOST or HOST:PORT without a user");
    s->own_host = found == WEIR_HTTP_OWN_HOST;
    return 0;
}

static int on_headers_complete(llhttp_t *parser)
{
    weir_http_session *s = parser->data;
    s->head_done = true;
    s->keeps_line = false;
    s->keep_alive = llhttp_should_keep_alive(parser) && parser->method != HTTP_CONNECT;
    s->http11 = parser->http_minor > 0;
    parser->upgrade = 0; /* weir supports no upgrade, so the request is answered as usual */
    if (s->http11 ? s->count[WEIR_HTTP_HOST] != 1 : s->count[WEIR_HTTP_HOST] > 1)
        return refuse(s, 400, "expected exactly one Host header");
    if (s->count[WEIR_HTTP_AUTHORIZATION] > 1)
        return refuse(s, 400, "expected at most one Authorization header");
    if (check_hosts(s) != 0 || check_coding(s) != 0)
        return -1;
    s->has_body = parser->flags & F_CHUNKED || parser->content_length > 0;
    if (!(parser->flags & F_CHUNKED) && parser->content_length > WEIR_HTTP_BODY_MAX)
        return refuse(s, 413, "the body exceeds 131072 bytes");
    return HPE_PAUSED;
}

/* Refuses a chunk that is too long before its bytes arrive. Pauses the parser at the last chunk, of
 * size 0: the trailers that follow need weir_http_syntax_check(). */
static int on_chunk_header(llhttp_t *parser)
{
    weir_http_session *s = parser->data;
    size_t room = WEIR_HTTP_BODY_MAX - (weir_buffer_len(&s->text) - s->body_begin);
    if (parser->content_length > room)
        return refuse(s, 413, "the body exceeds 131072 bytes");
    s->in_trailers = parser->content_length == 0;
    return s->in_trailers ? HPE_PAUSED : 0;
}

static int on_body(llhttp_t *parser, const char *at, size_t len)
{
    weir_http_session *s = parser->data;
    WEIR_ASSERT(weir_buffer_len(&s->text) - s->body_begin + len <= WEIR_HTTP_BODY_MAX);
    return keep(s, at, len);
}

static int on_message_complete(llhttp_t *parser)
{
    weir_http_session *s = parser->data;
    s->done = true;
    return HPE_PAUSED;
}

static const llhttp_settings_t settings = {
    .on_method_complete = on_method_complete,
    .on_url = on_url,
    .on_url_complete = on_url_complete,
    .on_header_field = on_header_field,
    .on_header_field_complete = on_header_field_complete,
    .on_header_value = on_header_value,
    .on_header_value_complete = on_header_value_complete,
    .on_headers_complete = on_headers_complete,
    .on_chunk_header = on_chunk_header,
    .on_body = on_body,
    .on_message_complete = on_message_complete,
};

/* ---- the request ----------------------------------------------------------------------------- */

static bool same_header(const weir_http_session *s, const weir_http_value *a,
                        const weir_http_value *b)
{
    const char *text = (const char *)weir_buffer_data(&s->text);
    return a->header == b->header && a->name_len == b->name_len &&
           strncasecmp(text + a->begin - a->name_len, text + b->begin - b->name_len, a->name_len) ==
               0;
}

/* Appends bytes of `text` to its end. */
static void repeat(weir_http_session *s, size_t begin, size_t len)
{
    if (!weir_buffer_reserve(&s->text, len))
        return; /* out of memory: text.failed is set */
    memcpy(weir_buffer_tail(&s->text), weir_buffer_data(&s->text) + begin, len);
    weir_buffer_added(&s->text, len);
}

/* Joins the values of the lines of one header, of which line `first` is the first. */
static void join_header(weir_http_session *s, unsigned first)
{
    weir_http_value joined = s->value[first];
    repeat(s, joined.begin - joined.name_len, joined.name_len);
    size_t begin = weir_buffer_len(&s->text);
    for (unsigned i = first; i < s->lines; i++) {
        const weir_http_value *line = &s->value[i];
        if (!same_header(s, line, &s->value[first]))
            continue;
        if (i > first)
            weir_buffer_append(&s->text, ", ", 2);
        repeat(s, line->begin, line->len);
    }
    joined.begin = (uint16_t)begin;
    joined.len = (uint16_t)(weir_buffer_len(&s->text) - begin);
    s->value[s->lines + s->joined++] = joined;
}

/* For each header with several lines, appends their values to `text`, joined with ", ". */
static void join_lines(weir_http_session *s)
{
    for (unsigned i = 0; i < s->lines; i++) {
        bool first = true, several = false;
        if (s->count[s->value[i].header] < 2)
            continue;
        for (unsigned k = 0; k < s->lines; k++) {
            bool same = k != i && same_header(s, &s->value[k], &s->value[i]);
            first = first && !(same && k < i);
            several = several || same;
        }
        if (first && several)
            join_header(s, i);
    }
}

/* Splits a target into host (absolute form only), path and query. */
static void split_target(weir_http_request *r, const char *at, size_t len)
{
    const char *end = memchr(at, '#', len);
    if (end)
        len = (size_t)(end - at);
    const char *query = memchr(at, '?', len);
    size_t path_len = query ? (size_t)(query - at) : len;
    r->query = query ? (weir_slice){query + 1, len - path_len - 1} : (weir_slice){at + len, 0};
    if (at[0] != '/') /* for CONNECT it returns false: the whole target is the path */
        (void)authority_of(at, len, &r->host);
    size_t begin = r->host.at ? (size_t)(r->host.at + r->host.len - at) : 0;
    r->path = r->host.at && begin == path_len ? (weir_slice){"/", 1}
                                              : (weir_slice){at + begin, path_len - begin};
}

static weir_http_method method_of(const weir_http_session *s)
{
    switch (s->parser.method) {
    case HTTP_GET:
        return WEIR_HTTP_GET;
    case HTTP_HEAD:
        return WEIR_HTTP_HEAD;
    case HTTP_POST:
        return WEIR_HTTP_POST;
    case HTTP_OPTIONS:
        return WEIR_HTTP_OPTIONS;
    default:
        return WEIR_HTTP_OTHER;
    }
}

/* Returns the request as far as it was received; valid until `text` changes. */
static weir_http_request request_of(weir_http_session *s)
{
    const char *text = (const char *)weir_buffer_data(&s->text);
    const char *method = llhttp_method_name((llhttp_method_t)s->parser.method);
    weir_http_request r = {.method = method_of(s), .method_name = {method, strlen(method)}};
    split_target(&r, text, s->target_len);
    for (unsigned i = 0; i < s->lines + s->joined; i++) {
        const weir_http_value *v = &s->value[i];
        if (v->header < WEIR_HTTP_HEADERS)
            r.header[v->header] = weir_http_trim((weir_slice){text + v->begin, v->len});
    }
    r.count = s->count;
    r.value = s->value;
    r.values = s->lines + s->joined;
    r.text = text;
    r.kept = &s->kept;
    if (!r.host.at)
        r.host = r.header[WEIR_HTTP_HOST];
    r.own_host = s->own_host;
    r.peer = s->completion.ctx;
    r.body = (weir_slice){text + s->body_begin, weir_buffer_len(&s->text) - s->body_begin};
    return r;
}

static void begin_request(weir_http_session *s)
{
    if (weir_buffer_len(&s->text) > TEXT_KEPT)
        weir_buffer_free(&s->text);
    else
        weir_buffer_clear(&s->text);
    if (weir_buffer_memory(&s->kept) > 0)
        weir_buffer_free(&s->kept);
    s->phase_len = s->target_len = s->body_begin = s->name_len = 0;
    s->lines = s->joined = 0;
    memset(s->count, 0, sizeof s->count);
    s->in_api = s->forwards = false;
    s->in_trailers = s->keeps_line = s->target_done = s->head_done = s->done = s->pending = false;
    weir_http_syntax_init(&s->syntax, WEIR_HTTP_REQUEST_LINE);
}

/* ---- the response ---------------------------------------------------------------------------- */

/* The Date of a response, "Thu, 01 Jan 2026 00:00:00 GMT"; formatted at most once a second. */
static const char *date_of(weir_http_session *s, int64_t now_ns)
{
    static const char days[][4] = {"Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"};
    static const char months[][4] = {"Jan", "Feb", "Mar", "Apr", "May", "Jun",
                                     "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"};
    time_t now_s = (time_t)(now_ns / 1000000000);
    struct tm tm;
    if ((s->date[0] == '\0' || now_s != (time_t)s->date_s) && gmtime_r(&now_s, &tm)) {
        snprintf(s->date, sizeof s->date, "%s, %02u %s %04u %02u:%02u:%02u GMT", days[tm.tm_wday],
                 (unsigned)tm.tm_mday, months[tm.tm_mon], (unsigned)tm.tm_year + 1900u,
                 (unsigned)tm.tm_hour, (unsigned)tm.tm_min, (unsigned)tm.tm_sec);
        s->date_s = now_s;
    }
    return s->date;
}

/* Delays the response to a wrong password and, after WEIR_PASSWORD_TRIES of them, closes. This
 * slows down password guessing. */
static void delay_wrong_password(weir_http_session *s, weir_http_response *a)
{
    const weir_http_options *o = s->options;
    bool hold = !o->wrong_password || o->wrong_password(o->wrong_password_ctx, s->completion.ctx);
    if (hold)
        a->delay_ns = WEIR_PASSWORD_DELAY_NS;
    if (++s->wrong >= WEIR_PASSWORD_TRIES || !hold)
        s->closing = true;
}

/* Sends or delays a response whose body is in `rest`. */
static void send_response(weir_http_session *s, weir_http_response *a, weir_buffer *out,
                          int64_t now_ns)
{
    if (a->wrong_password)
        delay_wrong_password(s, a);
    if (s->rest.failed)
        weir_http_problem(a, 500, "the response exceeds %zu bytes", WEIR_HTTP_REPLY_MAX);
    const char *connection = s->closing ? "close" : s->http11 ? NULL : "keep-alive";
    bool bodiless = s->target_done && s->parser.method == HTTP_HEAD;
    s->rest_big = weir_buffer_len(&s->rest) > TEXT_KEPT;
    if (a->delay_ns <= 0) {
        weir_http_put_head(out, a, connection, date_of(s, now_ns));
        if (bodiless)
            weir_buffer_clear(&s->rest);
        return;
    }
    weir_buffer whole;
    weir_buffer_init(&whole, WEIR_HTTP_REPLY_MAX + WEIR_HTTP_HEAD_ROOM);
    weir_http_put_head(&whole, a, connection, date_of(s, now_ns));
    if (!bodiless)
        weir_buffer_append(&whole, weir_buffer_data(&s->rest), weir_buffer_len(&s->rest));
    weir_buffer_free(&s->rest);
    s->rest = whole;
    s->rest_big = true;
    s->held = true;
    s->until_ns = a->delay_ns > INT64_MAX - now_ns ? INT64_MAX : now_ns + a->delay_ns;
}

static void answer_request(weir_http_session *s, weir_buffer *out, int64_t now_ns)
{
    weir_http_response a;
    weir_http_response_init(&a, &s->rest);
    a.answer = &s->answer;
    a.now_ns = now_ns;
    weir_http_request r = request_of(s);
    if (weir_http_check_head(s->options, &r, r.body.len > 0, &a) == 0 &&
        !weir_http_dispatch(s->options, &s->wait, &r, now_ns, &a)) {
        weir_buffer_clear(&s->rest);
        s->pending = true;
        return;
    }
    s->closing = !s->keep_alive || a.endless;
    s->live = a.live;
    send_response(s, &a, out, now_ns);
    begin_request(s);
}

static void answer_refused(weir_http_session *s, weir_buffer *out, int64_t now_ns)
{
    weir_http_response a;
    weir_http_response_init(&a, &s->rest);
    s->closing = true;
    weir_http_problem(&a, s->refused, "%s", s->refusal);
    send_response(s, &a, out, now_ns);
}

/* Handles a complete head. A request with "Expect: 100-continue" gets 100 Continue or, if its head
 * is refused, its final response. After the latter the connection is closed, because the client may
 * or may not send the body. */
static void answer_head(weir_http_session *s, weir_buffer *out, int64_t now_ns)
{
    join_lines(s);
    s->body_begin = weir_buffer_len(&s->text);
    if (s->text.failed) {
        refuse(s, 503, "out of memory for the request");
        return;
    }
    if (!s->http11 || s->count[WEIR_HTTP_EXPECT] == 0)
        return;
    weir_http_request r = request_of(s);
    if (!weir_http_is(r.header[WEIR_HTTP_EXPECT], "100-continue")) {
        refuse(s, 417, "unsupported Expect header, expected 100-continue");
        return;
    }
    if (!s->has_body)
        return;
    weir_http_response a;
    weir_http_response_init(&a, &s->rest);
    if (weir_http_check_head(s->options, &r, true, &a) == 0) {
        static const char go_on[] = "HTTP/1.1 100 Continue\r\n\r\n";
        weir_buffer_append(out, go_on, sizeof go_on - 1);
        return;
    }
    s->closing = true;
    send_response(s, &a, out, now_ns);
}

/* ---- the session ----------------------------------------------------------------------------- */

/* The most bytes that the current phase of the request may have. */
static size_t phase_max(const weir_http_session *s)
{
    if (s->head_done)
        return WEIR_HTTP_RAW_MAX;
    return s->target_done ? WEIR_HTTP_HEAD_MAX : TARGET_LINE_MAX;
}

static void refuse_phase(weir_http_session *s)
{
    if (s->head_done)
        refuse(s, 413, "the chunked body with its framing exceeds 1048576 bytes");
    else if (s->target_done)
        refuse(s, 431, "the request line and headers exceed 65536 bytes");
    else
        refuse(s, 414, "the request target exceeds 8192 bytes; send a long key in a JSON body");
}

/* Refuses a request that llhttp rejected. The messages are weir's own because those of llhttp
 * change with its version. */
static void refuse_error(weir_http_session *s, llhttp_errno_t error)
{
    if (!s->target_done)
        refuse(s, 400, WEIR_HTTP_BAD_REQUEST_LINE);
    else if (error == HPE_INVALID_CONTENT_LENGTH || error == HPE_UNEXPECTED_CONTENT_LENGTH ||
             error == HPE_INVALID_TRANSFER_ENCODING)
        refuse(s, 400,
               "malformed body length, expected one Content-Length of digits, or "
               "Transfer-Encoding: chunked");
    else if (!s->head_done || s->in_trailers)
        refuse(s, 400, WEIR_HTTP_BAD_HEADER_LINE);
    else
        refuse(s, 400,
               "malformed chunk, expected its size in hexadecimal digits, CR LF, its bytes, CR LF");
}

/* Continues after the parser has paused: at the end of the head, of the last chunk or of the
 * request. */
static void resume(weir_http_session *s, weir_buffer *out, int64_t now_ns)
{
    llhttp_resume(&s->parser);
    if (s->done) {
        answer_request(s, out, now_ns);
    } else if (s->in_trailers) {
        weir_http_syntax_init(&s->syntax, WEIR_HTTP_FIELD_LINE);
    } else {
        s->resumed = true;
        s->phase_len = 0;
        answer_head(s, out, now_ns);
    }
}

/* Parses input up to the end of a head, of the last chunk or of a request. At the first byte that
 * breaks a rule of http_syntax.h, llhttp receives no more. */
static void read_on(weir_http_session *s, weir_buffer *in, weir_buffer *out, int64_t now_ns)
{
    size_t room = phase_max(s) - s->phase_len, n = weir_buffer_len(in);
    const char *at = n > 0 ? (const char *)weir_buffer_data(in) : "", *broken = NULL;
    bool in_lines = !s->head_done || s->in_trailers;
    if (n > room)
        n = room;
    if (in_lines)
        broken = weir_http_syntax_check(&s->syntax, at, n, &n);
    s->resumed = false;
    llhttp_errno_t error = llhttp_execute(&s->parser, at, n);
    if (error == HPE_PAUSED) {
        WEIR_ASSERT((size_t)(llhttp_get_error_pos(&s->parser) - at) <= n);
        n = (size_t)(llhttp_get_error_pos(&s->parser) - at);
    }
    weir_buffer_consume(in, n);
    s->phase_len += n;
    if (error == HPE_PAUSED)
        resume(s, out, now_ns);
    else if (error != HPE_OK)
        refuse_error(s, error);
    else if (broken)
        refuse(s, s->syntax.status, broken);
    else if (in_lines && s->syntax.line == WEIR_HTTP_NO_LINE) /* llhttp expects more lines */
        refuse_error(s, HPE_OK);
    else if (s->phase_len == phase_max(s))
        refuse_phase(s);
    if (s->refused && !s->closing)
        answer_refused(s, out, now_ns);
}

/* Moves bytes from `rest` to `out`, up to out_pause. Returns true if the session can continue;
 * otherwise *ret is its next step. */
static bool drain(weir_http_session *s, weir_buffer *out, size_t out_pause, weir_session_step *ret)
{
    size_t len = weir_buffer_len(&s->rest), full = weir_buffer_len(out);
    *ret = (weir_session_step){WEIR_SESSION_AGAIN, 0};
    if (s->held && full > 0)
        return false; /* earlier responses must not be delayed */
    size_t room = out_pause > full ? out_pause - full : 0;
    size_t n = s->held || len < room ? len : room;
    weir_buffer_append(out, weir_buffer_data(&s->rest), n);
    weir_buffer_consume(&s->rest, n);
    if (n < len)
        return false;
    if (s->rest_big)
        weir_buffer_free(&s->rest);
    s->rest_big = false;
    if (s->held)
        *ret = (weir_session_step){WEIR_SESSION_WAIT, s->until_ns};
    bool held = s->held;
    s->held = false;
    return !held && full <= out_pause;
}

void weir_http_session_init(weir_http_session *s, const weir_http_options *options)
{
    *s = (weir_http_session){.options = options};
    llhttp_init(&s->parser, HTTP_REQUEST, &settings);
    s->parser.data = s;
    weir_buffer_init(&s->text, TEXT_MAX);
    weir_buffer_init(&s->rest, WEIR_HTTP_REPLY_MAX);
    weir_buffer_init(&s->kept, KEPT_MAX);
    weir_http_syntax_init(&s->syntax, WEIR_HTTP_REQUEST_LINE);
}

void weir_http_session_close(weir_http_session *s)
{
    weir_rls_wait_cancel(&s->wait);
    weir_http_live_close(s->live);
    weir_buffer_free(&s->text);
    weir_buffer_free(&s->rest);
    weir_buffer_free(&s->kept);
}

weir_session_usage weir_http_session_usage(const weir_http_session *s)
{
    size_t live = s->live ? weir_http_live_memory(s->live) : 0;
    return (weir_session_usage){weir_buffer_memory(&s->text) + weir_buffer_memory(&s->rest) +
                                    weir_buffer_memory(&s->kept) + live,
                                !s->pending && (s->phase_len > 0 || s->target_done)};
}

/* Puts the event of a stream that is due into `rest`. Returns false if there is none, or no memory
 * for it: *ret is then the session's next step. */
static bool stream(weir_http_session *s, weir_buffer *in, const weir_buffer *out, int64_t now_ns,
                   weir_session_step *ret)
{
    int64_t next_ns = weir_http_live_next_ns(s->live);
    weir_buffer_consume(in, weir_buffer_len(in));
    *ret = (weir_session_step){WEIR_SESSION_AGAIN, 0};
    if (weir_buffer_len(out) > 0)
        return false;
    *ret = (weir_session_step){WEIR_SESSION_WAIT, next_ns};
    if (next_ns > now_ns)
        return false;
    weir_http_live_put(s->live, now_ns, &s->rest);
    s->rest_big = weir_buffer_len(&s->rest) > TEXT_KEPT;
    *ret = (weir_session_step){WEIR_SESSION_CLOSE, 0};
    return !s->rest.failed;
}

weir_session_step weir_http_session_run(weir_http_session *s, weir_buffer *in, weir_buffer *out,
                                        size_t out_pause, int64_t now_ns)
{
    weir_session_step step;
    if (s->pending && weir_completion_is_pending(&s->completion))
        return (weir_session_step){WEIR_SESSION_PENDING, 0};
    while (drain(s, out, out_pause, &step)) {
        if (s->live) {
            if (!stream(s, in, out, now_ns, &step))
                return step;
            continue;
        }
        if (s->closing) {
            weir_buffer_consume(in, weir_buffer_len(in));
            return (weir_session_step){WEIR_SESSION_CLOSE, 0};
        }
        if (weir_buffer_len(in) == 0 && !s->resumed && !s->pending)
            return (weir_session_step){WEIR_SESSION_READ, 0};
        if (s->pending)
            answer_request(s, out, now_ns);
        else
            read_on(s, in, out, now_ns);
        if (s->pending)
            return (weir_session_step){WEIR_SESSION_PENDING, 0};
    }
    return step;
}
