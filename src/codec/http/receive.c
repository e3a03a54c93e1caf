/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* Receiving a request: the callbacks of llhttp store the parts that the endpoints need, within the
 * limits of options.h. This file must not know any endpoint.
 *
 * A request that exceeds a limit is refused at the same byte however the input was split. For this,
 * the parser never receives more bytes than its phase (target, head, body) may have, and it pauses
 * at the end of each head and each message. */

#define _GNU_SOURCE /* memrchr */

#include "codec/http/receive.h"

#include "codec/http/access_control.h"
#include "port/assert.h"

#include <strings.h>

enum {
    STORED_MAX = WEIR_HTTP_TARGET_MAX + WEIR_HTTP_VALUES_MAX, /* target, header lines */
    JOINED_MAX = WEIR_HTTP_VALUES_MAX + 2 * WEIR_HTTP_LINES_MAX,
    TEXT_MAX = STORED_MAX + WEIR_HTTP_HEAD_MAX + JOINED_MAX + WEIR_HTTP_BODY_MAX,
    TARGET_LINE_MAX = WEIR_HTTP_TARGET_MAX + 16 /* with the method and an empty line before it */
};
_Static_assert(STORED_MAX + JOINED_MAX <= UINT16_MAX, "offsets in weir_http_value have 16 bits");

#define UNKNOWN_METHOD "unknown method, expected GET, HEAD, POST or OPTIONS"

static const weir_slice header_names[WEIR_HTTP_KEY] = {
    [WEIR_HTTP_ACCEPT] = {"accept", 6},
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

int weir_http_refuse(weir_http_receiver *r, int status, const char *why)
{
    if (!r->refused) {
        r->refused = status;
        r->refusal = why;
    }
    return -1;
}

static int keep(weir_http_receiver *r, const char *at, size_t len)
{
    weir_buffer_append(&r->text, at, len);
    return r->text.failed ? weir_http_refuse(r, 503, "out of memory for the request") : 0;
}

/* The method is checked here and not in on_url(), which llhttp calls for each part of the target:
 * whether that precedes an error in the target depends on how the input was split. */
static int on_method_complete(llhttp_t *parser)
{
    weir_http_receiver *r = parser->data;
    if (parser->method == HTTP_PRI) /* the preface of HTTP/2 */
        return weir_http_refuse(r, 505, WEIR_HTTP_BAD_VERSION);
    if (parser->method > HTTP_SOURCE) /* QUERY, which only llhttp 9 knows */
        return weir_http_refuse(r, 501, UNKNOWN_METHOD);
    return 0;
}

static int on_url(llhttp_t *parser, const char *at, size_t len)
{
    weir_http_receiver *r = parser->data;
    r->target_len += len;
    return keep(r, at, len);
}

/* Finds the host in an absolute-form target, "http://host/path?query". For "/path?query" and "*",
 * ret->at is NULL. Returns false for any other form, such as the target of CONNECT. */
static bool authority_of(const char *at, size_t len, weir_slice *ret)
{
    *ret = (weir_slice){NULL, 0};
    if (at[0] == '/' || (at[0] == '*' && len == 1))
        return true;
    size_t begin = len >= 8 && weir_slice_is((weir_slice){at, 8}, "https://")  ? 8
                   : len >= 7 && weir_slice_is((weir_slice){at, 7}, "http://") ? 7
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
    weir_http_receiver *r = parser->data;
    r->target_done = true;
    if (r->target_len > WEIR_HTTP_TARGET_MAX)
        return weir_http_refuse(
            r, 414, "the request target exceeds 8192 bytes; send a long key in a JSON body");
    const char *at = (const char *)weir_buffer_data(&r->text);
    weir_slice host, target = {at, r->target_len};
    if (r->target_len == 0 || !authority_of(at, r->target_len, &host))
        return 0;
    if (host.at)
        target =
            (weir_slice){host.at + host.len, (size_t)(at + r->target_len - host.at) - host.len};
    r->is_front = target.len > 0 && (target.len == 1 || target.at[1] == '?');
    r->in_api = is_below(target, "/v1");
    r->forwards = r->in_api && is_below(target, WEIR_HTTP_FORWARD_PATH);
    return 0;
}

static int on_header_field(llhttp_t *parser, const char *at, size_t len)
{
    weir_http_receiver *r = parser->data;
    if (r->name_len > sizeof r->name || len > sizeof r->name - r->name_len) {
        r->name_len = sizeof r->name + 1;
        return 0;
    }
    memcpy(r->name + r->name_len, at, len);
    r->name_len += len;
    return 0;
}

/* Whether a header is one that a proxy sends to describe a request. */
static bool is_of_proxy(int header)
{
    return (header >= WEIR_HTTP_FORWARDED_HOST && header <= WEIR_HTTP_FORWARDED_URI) ||
           (header >= WEIR_HTTP_ORIGINAL_METHOD && header <= WEIR_HTTP_ORIGINAL_URL);
}

/* Returns the header of a name; WEIR_HTTP_NAMED for any other. */
static int header_named(const weir_http_options *o, weir_slice name)
{
    for (int i = 0; i < WEIR_HTTP_KEY; i++) {
        const weir_slice *known = &header_names[i];
        if (name.len == known->len && (name.at[0] | 32) == known->at[0] &&
            weir_slice_is(name, known->at))
            return i;
    }
    if (o->key_header && weir_slice_is(name, o->key_header))
        return WEIR_HTTP_KEY;
    return o->client_header && weir_slice_is(name, o->client_header) ? WEIR_HTTP_CLIENT
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
            *ret = weir_slice_trim((weir_slice){at, v->len});
            return true;
        }
    }
    int header = header_named(o, name);
    if (header != WEIR_HTTP_NAMED)
        *ret = r->header[header];
    return ret->at;
}

/* Returns how the header line being received is stored; -1: not at all. */
static int header_of(const weir_http_receiver *r)
{
    weir_slice name = {r->name, r->name_len};
    if (r->name_len > sizeof r->name)
        return -1;
    int header = header_named(r->options, name);
    if (header != WEIR_HTTP_NAMED && (r->forwards || !is_of_proxy(header)) &&
        (r->is_front || header != WEIR_HTTP_ACCEPT))
        return header;
    bool traced = r->options->tracer && weir_slice_is(name, WEIR_HTTP_TRACE_PARENT);
    return traced || (r->in_api && weir_service_wants_header(r->options->service, name))
               ? WEIR_HTTP_NAMED
               : -1;
}

static int on_header_field_complete(llhttp_t *parser)
{
    weir_http_receiver *r = parser->data;
    int header = r->head_done ? -1 : header_of(r); /* trailers are ignored */
    size_t name_len = header == WEIR_HTTP_NAMED ? r->name_len : 0;
    r->name_len = 0;
    r->keeps_line = header >= 0;
    if (header < 0)
        return 0;
    if (r->lines == WEIR_HTTP_LINES_MAX)
        return weir_http_refuse(
            r, 431, "too many header lines, expected at most 32 of the headers that weir reads");
    r->count[header]++;
    r->value[r->lines++] = (weir_http_value){(uint16_t)(weir_buffer_len(&r->text) + name_len), 0,
                                             (uint8_t)header, (uint8_t)name_len};
    return name_len > 0 ? keep(r, r->name, name_len) : 0;
}

static int on_header_value(llhttp_t *parser, const char *at, size_t len)
{
    weir_http_receiver *r = parser->data;
    if (!r->keeps_line)
        return 0;
    weir_http_value *value = &r->value[r->lines - 1];
    value->len = (uint16_t)(value->len + len);
    return keep(r, at, len);
}

/* The limit is checked at the end of a line and not in on_header_value(), so that an error in the
 * line wins however the input was split. */
static int on_header_value_complete(llhttp_t *parser)
{
    weir_http_receiver *r = parser->data;
    if (r->keeps_line && weir_buffer_len(&r->text) - r->target_len > WEIR_HTTP_VALUES_MAX)
        return weir_http_refuse(r, 431, "the header lines that weir reads exceed 16384 bytes");
    return 0;
}

/* Checks Transfer-Encoding (RFC 9112, 6.1 and 6.3): only "chunked" is supported. If the last coding
 * is not chunked, the length of the body is unknown. */
static int check_coding(weir_http_receiver *r)
{
    weir_slice last = {"", 0};
    unsigned lines = r->count[WEIR_HTTP_TRANSFER_ENCODING];
    if (lines == 0)
        return 0;
    for (unsigned i = 0; i < r->lines; i++) {
        const weir_http_value *v = &r->value[i];
        if (v->header == WEIR_HTTP_TRANSFER_ENCODING)
            last = (weir_slice){(const char *)weir_buffer_data(&r->text) + v->begin, v->len};
    }
    if (!r->http11)
        return weir_http_refuse(
            r, 400, "Transfer-Encoding in an HTTP/1.0 request, expected Content-Length");
    const char *comma = memrchr(last.at, ',', last.len);
    size_t before = comma ? (size_t)(comma + 1 - last.at) : 0;
    if (!weir_slice_is(weir_slice_trim((weir_slice){last.at + before, last.len - before}),
                       "chunked"))
        return weir_http_refuse(r, 400, "unsupported Transfer-Encoding, expected chunked");
    if (lines > 1 || comma)
        return weir_http_refuse(
            r, 501, "unsupported Transfer-Encoding before chunked, expected chunked alone");
    return 0;
}

/* weir_http_check_host() with a cache of one entry: most clients send the same host again. With
 * any_host, every well-formed host is accepted. */
static weir_http_host check_host(weir_http_receiver *r, weir_slice host)
{
    if (host.at && host.len > 0 && host.len == r->host_len &&
        memcmp(host.at, r->host, host.len) == 0)
        return WEIR_HTTP_OWN_HOST;
    weir_http_host found = weir_http_check_host(r->options, host);
    if (found == WEIR_HTTP_OTHER_HOST && r->any_host)
        found = WEIR_HTTP_OWN_HOST;
    if (found == WEIR_HTTP_OWN_HOST && host.at && host.len <= sizeof r->host) {
        memcpy(r->host, host.at, host.len);
        r->host_len = (uint8_t)host.len;
    }
    return found;
}

/* Sets own_host from the host in the target or, without one, from Host (RFC 9112, 3.2, 3.2.2). */
static int check_hosts(weir_http_receiver *r)
{
    const char *text = (const char *)weir_buffer_data(&r->text);
    weir_slice header = {NULL, 0}, authority;
    for (const weir_http_value *v = r->value; v < r->value + r->lines && !header.at; v++) {
        if (v->header == WEIR_HTTP_HOST)
            header = weir_slice_trim((weir_slice){text + v->begin, v->len});
    }
    weir_http_host found = check_host(r, header);
    if (found == WEIR_HTTP_BAD_HOST)
        return weir_http_refuse(r, 400, "malformed Host header, expected HOST or HOST:PORT");
    if (!authority_of(text, r->target_len, &authority) && r->parser.method != HTTP_CONNECT)
        return weir_http_refuse(
            r, 400,
            "malformed request target, expected one such as /healthz or http://HOST/healthz");
    if (authority.at)
        found = authority.len > 0 ? check_host(r, authority) : WEIR_HTTP_BAD_HOST;
    if (found == WEIR_HTTP_BAD_HOST)
        return weir_http_refuse(
            r, 400,
            "malformed host in the request target, expected HOST or HOST:PORT without a user");
    r->own_host = found == WEIR_HTTP_OWN_HOST;
    return 0;
}

static int on_headers_complete(llhttp_t *parser)
{
    weir_http_receiver *r = parser->data;
    r->head_done = true;
    r->keep_alive = llhttp_should_keep_alive(parser) && parser->method != HTTP_CONNECT;
    r->http11 = parser->http_minor > 0;
    parser->upgrade = 0; /* weir supports no upgrade, so the request is answered as usual */
    if (r->http11 ? r->count[WEIR_HTTP_HOST] != 1 : r->count[WEIR_HTTP_HOST] > 1)
        return weir_http_refuse(r, 400, "expected exactly one Host header");
    if (r->count[WEIR_HTTP_AUTHORIZATION] > 1)
        return weir_http_refuse(r, 400, "expected at most one Authorization header");
    if (check_hosts(r) != 0 || check_coding(r) != 0)
        return -1;
    r->has_body = parser->flags & F_CHUNKED || parser->content_length > 0;
    if (!(parser->flags & F_CHUNKED) && parser->content_length > WEIR_HTTP_BODY_MAX)
        return weir_http_refuse(r, 413, "the body exceeds 131072 bytes");
    return HPE_PAUSED;
}

/* Refuses a chunk that is too long before its bytes arrive. Pauses the parser at the last chunk, of
 * size 0: the trailers that follow need weir_http_syntax_check(). */
static int on_chunk_header(llhttp_t *parser)
{
    weir_http_receiver *r = parser->data;
    size_t room = WEIR_HTTP_BODY_MAX - (weir_buffer_len(&r->text) - r->body_begin);
    if (parser->content_length > room)
        return weir_http_refuse(r, 413, "the body exceeds 131072 bytes");
    r->in_trailers = parser->content_length == 0;
    return r->in_trailers ? HPE_PAUSED : 0;
}

static int on_body(llhttp_t *parser, const char *at, size_t len)
{
    weir_http_receiver *r = parser->data;
    WEIR_ASSERT(weir_buffer_len(&r->text) - r->body_begin + len <= WEIR_HTTP_BODY_MAX);
    return keep(r, at, len);
}

static int on_message_complete(llhttp_t *parser)
{
    weir_http_receiver *r = parser->data;
    r->done = true;
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

/* ---- input ----------------------------------------------------------------------------------- */

/* The most bytes that the current phase of the request may have. */
static size_t phase_max(const weir_http_receiver *r)
{
    if (r->head_done)
        return WEIR_HTTP_RAW_MAX;
    return r->target_done ? WEIR_HTTP_HEAD_MAX : TARGET_LINE_MAX;
}

static void refuse_phase(weir_http_receiver *r)
{
    if (r->head_done)
        weir_http_refuse(r, 413, "the chunked body with its framing exceeds 1048576 bytes");
    else if (r->target_done)
        weir_http_refuse(r, 431, "the request line and headers exceed 65536 bytes");
    else
        weir_http_refuse(r, 414,
                         "the request target exceeds 8192 bytes; send a long key in a JSON body");
}

/* Refuses a request that llhttp rejected. The messages are weir's own because those of llhttp
 * change with its version.
 *  at  the byte that it rejected; '\0': none. */
static void refuse_error(weir_http_receiver *r, llhttp_errno_t error, char at)
{
    bool letter = (at >= 'A' && at <= 'Z') || (at >= 'a' && at <= 'z') || at == '-';
    if (error == HPE_INVALID_METHOD && letter)
        weir_http_refuse(r, 501, UNKNOWN_METHOD);
    else if (!r->target_done)
        weir_http_refuse(r, 400, WEIR_HTTP_BAD_REQUEST_LINE);
    else if (error == HPE_INVALID_CONTENT_LENGTH || error == HPE_UNEXPECTED_CONTENT_LENGTH ||
             error == HPE_INVALID_TRANSFER_ENCODING)
        weir_http_refuse(r, 400,
                         "malformed body length, expected one Content-Length of digits, or "
                         "Transfer-Encoding: chunked");
    else if (!r->head_done || r->in_trailers)
        weir_http_refuse(r, 400, WEIR_HTTP_BAD_HEADER_LINE);
    else
        weir_http_refuse(
            r, 400,
            "malformed chunk, expected its size in hexadecimal digits, CR LF, its bytes, CR LF");
}

/* Lets the parser continue after a pause. */
static void resume(weir_http_receiver *r)
{
    llhttp_resume(&r->parser);
    if (r->in_trailers && !r->done)
        weir_http_syntax_init(&r->syntax, WEIR_HTTP_FIELD_LINE);
    else if (!r->done)
        r->phase_len = 0;
}

bool weir_http_receive(weir_http_receiver *r, weir_buffer *in)
{
    size_t room = phase_max(r) - r->phase_len, n = weir_buffer_len(in);
    const char *at = n > 0 ? (const char *)weir_buffer_data(in) : "", *broken = NULL;
    bool in_lines = !r->head_done || r->in_trailers;
    if (n > room)
        n = room;
    if (in_lines)
        broken = weir_http_syntax_check(&r->syntax, at, n, &n);
    llhttp_errno_t error = llhttp_execute(&r->parser, at, n);
    if (error == HPE_PAUSED) {
        WEIR_ASSERT((size_t)(llhttp_get_error_pos(&r->parser) - at) <= n);
        n = (size_t)(llhttp_get_error_pos(&r->parser) - at);
    }
    char rejected = error == HPE_INVALID_METHOD ? *llhttp_get_error_pos(&r->parser) : '\0';
    weir_buffer_consume(in, n);
    r->phase_len += n;
    if (error == HPE_PAUSED)
        resume(r);
    else if (error != HPE_OK)
        refuse_error(r, error, rejected);
    else if (broken)
        weir_http_refuse(r, r->syntax.status, broken);
    else if (in_lines && r->syntax.line == WEIR_HTTP_NO_LINE) /* llhttp expects more lines */
        refuse_error(r, HPE_OK, '\0');
    else if (r->phase_len == phase_max(r))
        refuse_phase(r);
    return error == HPE_PAUSED;
}

/* ---- the request ----------------------------------------------------------------------------- */

void weir_http_receiver_init(weir_http_receiver *r, const weir_http_options *options)
{
    *r = (weir_http_receiver){.options = options};
    llhttp_init(&r->parser, HTTP_REQUEST, &settings);
    r->parser.data = r;
    weir_buffer_init(&r->text, TEXT_MAX);
    weir_http_syntax_init(&r->syntax, WEIR_HTTP_REQUEST_LINE);
}

static bool same_header(const weir_http_receiver *r, const weir_http_value *a,
                        const weir_http_value *b)
{
    const char *text = (const char *)weir_buffer_data(&r->text);
    return a->header == b->header && a->name_len == b->name_len &&
           strncasecmp(text + a->begin - a->name_len, text + b->begin - b->name_len, a->name_len) ==
               0;
}

/* Appends bytes of `text` to its end. */
static void repeat(weir_http_receiver *r, size_t begin, size_t len)
{
    if (!weir_buffer_reserve(&r->text, len))
        return; /* out of memory: text.failed is set */
    memcpy(weir_buffer_tail(&r->text), weir_buffer_data(&r->text) + begin, len);
    weir_buffer_added(&r->text, len);
}

/* Joins the values of the lines of one header, of which line `first` is the first. */
static void join_header(weir_http_receiver *r, unsigned first)
{
    weir_http_value joined = r->value[first];
    repeat(r, joined.begin - joined.name_len, joined.name_len);
    size_t begin = weir_buffer_len(&r->text);
    for (unsigned i = first; i < r->lines; i++) {
        const weir_http_value *line = &r->value[i];
        if (!same_header(r, line, &r->value[first]))
            continue;
        if (i > first)
            weir_buffer_append(&r->text, ", ", 2);
        repeat(r, line->begin, line->len);
    }
    WEIR_ASSERT(r->lines + r->joined < sizeof r->value / sizeof r->value[0]);
    joined.begin = (uint16_t)begin;
    joined.len = (uint16_t)(weir_buffer_len(&r->text) - begin);
    r->value[r->lines + r->joined++] = joined;
}

void weir_http_join_lines(weir_http_receiver *r)
{
    for (unsigned i = 0; i < r->lines; i++) {
        bool first = true, several = false;
        if (r->count[r->value[i].header] < 2)
            continue;
        for (unsigned k = 0; k < r->lines; k++) {
            bool same = k != i && same_header(r, &r->value[k], &r->value[i]);
            first = first && !(same && k < i);
            several = several || same;
        }
        if (first && several)
            join_header(r, i);
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

static weir_http_method method_of(const weir_http_receiver *r)
{
    switch (r->parser.method) {
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

void weir_http_received(const weir_http_receiver *r, weir_http_request *ret)
{
    const char *text = (const char *)weir_buffer_data(&r->text);
    const char *method = llhttp_method_name((llhttp_method_t)r->parser.method);
    WEIR_ASSERT(r->target_len <= r->body_begin && r->body_begin <= weir_buffer_len(&r->text));
    *ret = (weir_http_request){.method = method_of(r), .method_name = {method, strlen(method)}};
    split_target(ret, text, r->target_len);
    for (unsigned i = 0; i < r->lines + r->joined; i++) {
        const weir_http_value *v = &r->value[i];
        if (v->header < WEIR_HTTP_HEADERS)
            ret->header[v->header] = weir_slice_trim((weir_slice){text + v->begin, v->len});
    }
    ret->count = r->count;
    ret->value = r->value;
    ret->values = r->lines + r->joined;
    ret->text = text;
    if (!ret->host.at)
        ret->host = ret->header[WEIR_HTTP_HOST];
    ret->own_host = r->own_host;
    ret->body = (weir_slice){text + r->body_begin, weir_buffer_len(&r->text) - r->body_begin};
}

void weir_http_begin_request(weir_http_receiver *r)
{
    if (weir_buffer_len(&r->text) > WEIR_HTTP_TEXT_KEPT)
        weir_buffer_free(&r->text);
    else
        weir_buffer_clear(&r->text);
    r->phase_len = r->target_len = r->body_begin = r->name_len = 0;
    r->lines = r->joined = 0;
    memset(r->count, 0, sizeof r->count);
    r->is_front = r->in_api = r->forwards = false;
    r->in_trailers = r->keeps_line = r->target_done = r->head_done = r->done = false;
    weir_http_syntax_init(&r->syntax, WEIR_HTTP_REQUEST_LINE);
}
