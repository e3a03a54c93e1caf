/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* Reads gRPC requests: header fields, message prefixes and messages. A message that arrives in one
 * DATA frame stays in the input buffer until it is answered; others are copied. It must not know
 * how calls are answered. */

#include "codec/answer/password.h"
#include "codec/grpc/connection.h"
#include "codec/grpc/session.h"
#include "port/assert.h"

#include <zlib.h>

#define LITERAL_IS(bytes, len, text)                                                               \
    ((len) == sizeof(text) - 1 && memcmp(bytes, text, sizeof(text) - 1) == 0)

/* Bytes of copied messages of a connection, so that its streams together hold a few messages of the
 * maximum size and not 1,024 of them. */
enum { BODIES_MAX = 16 * WEIR_GRPC_MESSAGE_MAX };

#define REQUEST_NS     INT64_C(30000000000) /* the client's time to complete a request */
#define TIMEOUT_MAX_NS (INT64_C(365) * 86400 * 1000000000) /* of grpc-timeout */

/* ---- messages -------------------------------------------------------------------------------- */

/* Whether the rest of the request does not matter. */
static bool is_over(const weir_grpc_stream *s)
{
    return weir_grpc_is_streaming(s) && s->responded ? s->out_last : s->responded;
}

/* Refuses the rest of a request. */
static void refuse(weir_grpc_connection *c, weir_grpc_stream *s, weir_grpc_status status,
                   const char *why)
{
    if (s->responded)
        weir_grpc_end(c, s, status, why);
    else
        weir_grpc_refuse(c, s, 200, status, why);
}

/* Whether a message of `len` bytes may be copied. If not, the request is refused. */
static bool has_room(weir_grpc_connection *c, weir_grpc_stream *s, size_t len)
{
    if (c->body_bytes + len <= BODIES_MAX)
        return true;
    refuse(c, s, WEIR_GRPC_RESOURCE_EXHAUSTED,
           "the unanswered messages of this connection exceed 1 MiB");
    return false;
}

/* Allocates memory for the message of a stream. */
static bool own_message(weir_grpc_connection *c, weir_grpc_stream *s)
{
    s->owned = weir_grpc_alloc(&c->heap, s->message_len > 0 ? s->message_len : 1);
    if (!s->owned) {
        c->failed = true;
        return false;
    }
    c->body_bytes += s->message_len;
    return true;
}

void weir_grpc_own_messages(weir_grpc_connection *c)
{
    for (weir_grpc_stream *s = c->streams; s && c->borrowed_len > 0; s = s->next) {
        const uint8_t *message = s->message;
        /* A call that an engine decides is kept: the input limits them. */
        if (!message || s->owned || (!s->ended && !has_room(c, s, s->message_len)))
            continue;
        if (!own_message(c, s))
            return;
        memcpy(s->owned, message, s->message_len);
        s->message = s->owned;
        c->borrowed_len--;
    }
}

/* Reads the prefix of a message. Returns whether the message is accepted; if not, the request is
 * refused. */
static bool read_prefix(weir_grpc_connection *c, weir_grpc_stream *s)
{
    const uint8_t *p = s->prefix;
    uint32_t len = (uint32_t)p[1] << 24 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 8 | p[4];
    if (s->complete)
        refuse(c, s, WEIR_GRPC_UNIMPLEMENTED,
               "expected one message for a unary method, found several");
    else if (p[0] > 1)
        refuse(c, s, WEIR_GRPC_INTERNAL, "the compressed flag of a message must be 0 or 1");
    else if (p[0] == 1 && !(s->fields & WEIR_GRPC_GZIP))
        refuse(c, s, WEIR_GRPC_INTERNAL, "found a compressed message without grpc-encoding");
    else if (len > WEIR_GRPC_MESSAGE_MAX)
        refuse(c, s, WEIR_GRPC_RESOURCE_EXHAUSTED, "the message is longer than 65536 bytes");
    else
        s->message_len = len;
    return !is_over(s);
}

/* Decompresses a message. Returns false if the request was refused. */
static bool decompress(weir_grpc_connection *c, weir_grpc_stream *s)
{
    uint8_t *plain = weir_grpc_alloc(&c->heap, WEIR_GRPC_MESSAGE_MAX);
    z_stream z = {.next_in = (uint8_t *)s->message, .avail_in = (unsigned)s->message_len};
    if (!plain || inflateInit2(&z, 16 + MAX_WBITS) != Z_OK) { /* gzip only */
        weir_grpc_free(&c->heap, plain);
        refuse(c, s, WEIR_GRPC_UNAVAILABLE, "out of memory");
        return false;
    }
    z.next_out = plain;
    z.avail_out = WEIR_GRPC_MESSAGE_MAX;
    int result = inflate(&z, Z_FINISH);
    size_t len = WEIR_GRPC_MESSAGE_MAX - z.avail_out;
    inflateEnd(&z);
    weir_grpc_drop_message(c, s);
    s->message_len = len;
    bool good = result == Z_STREAM_END;
    if (!good && z.avail_out == 0)
        refuse(c, s, WEIR_GRPC_RESOURCE_EXHAUSTED, "the message is longer than 65536 bytes");
    else if (!good)
        refuse(c, s, WEIR_GRPC_INTERNAL, "cannot decompress the message");
    else if (has_room(c, s, len) && own_message(c, s)) {
        memcpy(s->owned, plain, len);
        s->message = s->owned;
        s->complete = true;
    }
    weir_grpc_free(&c->heap, plain);
    return s->complete;
}

static void run_method(weir_grpc_connection *c, weir_grpc_stream *s);

/* All bytes of a message have arrived. */
static void complete_message(weir_grpc_connection *c, weir_grpc_stream *s)
{
    s->complete = true;
    if (s->prefix[0] == 1 && !decompress(c, s))
        return;
    if (!weir_grpc_is_conversation(s))
        return;
    run_method(c, s);
    s->prefix_len = 0;
}

static size_t smaller(size_t a, size_t b)
{
    return a < b ? a : b;
}

/* Adds bytes to an incomplete message. Returns how many it needed. */
static size_t add_to_message(weir_grpc_connection *c, weir_grpc_stream *s, const uint8_t *bytes,
                             size_t len)
{
    size_t n = smaller(len, s->message_len - s->received);
    WEIR_ASSERT(bytes);
    if (!s->owned && n == s->message_len) { /* the whole message: not copied */
        s->message = bytes;
        c->borrowed_len++;
        complete_message(c, s);
        return n;
    }
    if (!s->owned && (!has_room(c, s, s->message_len) || !own_message(c, s)))
        return len;
    memcpy(s->owned + s->received, bytes, n);
    s->received += n;
    if (s->received == s->message_len) {
        s->message = s->owned;
        complete_message(c, s);
    }
    return n;
}

/* Adds bytes to the prefix of a message. Returns how many it needed. */
static size_t add_to_prefix(weir_grpc_connection *c, weir_grpc_stream *s, const uint8_t *bytes,
                            size_t len)
{
    size_t n = smaller(len, sizeof s->prefix - s->prefix_len);
    WEIR_ASSERT(bytes);
    memcpy(s->prefix + s->prefix_len, bytes, n);
    s->prefix_len = (uint8_t)(s->prefix_len + n);
    if (s->prefix_len == sizeof s->prefix && read_prefix(c, s) && s->message_len == 0)
        add_to_message(c, s, bytes, 0);
    return n;
}

int weir_grpc_on_data(nghttp2_session *h2, uint8_t flags, int32_t id, const uint8_t *bytes,
                      size_t len, void *user_data)
{
    weir_grpc_connection *c = user_data;
    weir_grpc_stream *s = weir_grpc_stream_of(c, id);
    (void)h2;
    (void)flags;
    while (s && s->checked && !is_over(s) && !weir_grpc_is_broken(c) && !c->flooded && len > 0) {
        size_t n = 0;
        if (s->complete && s->prefix_len == sizeof s->prefix)
            s->prefix_len = 0; /* another message begins */
        if (s->prefix_len < sizeof s->prefix)
            n = add_to_prefix(c, s, bytes, len);
        else
            n = add_to_message(c, s, bytes, len);
        bytes += n;
        len -= n;
    }
    return 0;
}

/* ---- header fields --------------------------------------------------------------------------- */

static bool text_is(const char *at, size_t len, const char *text)
{
    return strlen(text) == len && memcmp(at, text, len) == 0;
}

static const weir_grpc_own_method *own_method(const weir_grpc_own_method *at, size_t n,
                                              const char *path, size_t len)
{
    for (size_t i = 0; i < n; i++) {
        if (text_is(path, len, at[i].path))
            return &at[i];
    }
    return NULL;
}

static void read_path(weir_grpc_connection *c, weir_grpc_stream *s, const char *value, size_t len)
{
    for (size_t i = 0; i < c->options->methods_len && !s->method; i++) {
        if (text_is(value, len, c->options->methods[i].path))
            s->method = &c->options->methods[i];
    }
    if (!s->method)
        s->own = own_method(weir_grpc_health, 2, value, len);
    if (!s->method && !s->own && c->options->descriptors.len > 0)
        s->own = own_method(weir_grpc_reflection, 2, value, len);
    if (s->method || s->own)
        s->fields |= WEIR_GRPC_KNOWN_METHOD;
}

static bool begins_with(const char *value, size_t len, const char *text, size_t text_len)
{
    return len >= text_len && memcmp(value, text, text_len) == 0;
}

/* "application/grpc", also with "+proto" or parameters. */
static bool is_grpc(const char *value, size_t len)
{
    static const char type[] = "application/grpc", proto[] = "+proto";
    if (!begins_with(value, len, type, sizeof type - 1))
        return false;
    value += sizeof type - 1;
    len -= sizeof type - 1;
    if (begins_with(value, len, proto, sizeof proto - 1)) {
        value += sizeof proto - 1;
        len -= sizeof proto - 1;
    }
    return len == 0 || value[0] == ';' || value[0] == ' ';
}

/* A number of at most 8 digits and a unit. Longer times than TIMEOUT_MAX_NS are cut. */
static bool read_timeout(const char *value, size_t len, int64_t *ret_ns)
{
    static const char units[] = "HMSmun";
    static const int64_t unit_ns[] = {3600000000000, 60000000000, 1000000000, 1000000, 1000, 1};
    uint64_t n;
    if (len < 2 || len > 9 || !weir_decimal_read(value, len - 1, 99999999, &n))
        return false;
    const char *unit = memchr(units, value[len - 1], sizeof units - 1);
    if (!unit)
        return false;
    int64_t one_ns = unit_ns[unit - units], most = TIMEOUT_MAX_NS / one_ns;
    *ret_ns = (int64_t)n < most ? (int64_t)n * one_ns : TIMEOUT_MAX_NS;
    return true;
}

static void read_deadline(const weir_grpc_connection *c, weir_grpc_stream *s, const char *value,
                          size_t len)
{
    int64_t timeout_ns;
    if (read_timeout(value, len, &timeout_ns))
        s->deadline_ns = c->now_ns + timeout_ns;
    else
        s->fields |= WEIR_GRPC_BAD_TIMEOUT;
}

static void read_encoding(weir_grpc_stream *s, const char *value, size_t len)
{
    if (LITERAL_IS(value, len, "gzip"))
        s->fields |= WEIR_GRPC_GZIP;
    else if (!LITERAL_IS(value, len, "identity"))
        s->fields |= WEIR_GRPC_UNKNOWN_ENCODING;
}

/* A request is one guess: a second field makes it wrong. */
static void read_authorization(weir_grpc_connection *c, weir_grpc_stream *s, const char *value,
                               size_t len)
{
    weir_access *a = c->options->access;
    if (!weir_access_is_limited(a) || c->login.is_fixed)
        return;
    weir_credentials given =
        s->fields & WEIR_GRPC_PASSWORD
            ? WEIR_CREDENTIALS_WRONG
            : weir_credentials_check(a, (weir_slice){value, len}, c->now_ns, &s->login);
    if (given == WEIR_CREDENTIALS_NONE)
        return;
    s->fields |= WEIR_GRPC_PASSWORD;
    if (given == WEIR_CREDENTIALS_BUSY)
        s->fields |= WEIR_GRPC_BUSY;
    if (given == WEIR_CREDENTIALS_WRONG) {
        s->login = (weir_login){.user = NULL};
        s->fields |= WEIR_GRPC_WRONG_PASSWORD;
    }
    c->known |= given == WEIR_CREDENTIALS_RIGHT;
}

/* A second field makes it invalid. */
static void read_trace_parent(weir_grpc_stream *s, weir_slice value)
{
    bool first = !(s->fields & WEIR_GRPC_TRACE_PARENT);
    s->fields &= (uint16_t)~WEIR_GRPC_TRACED;
    s->fields |= WEIR_GRPC_TRACE_PARENT;
    if (first && weir_trace_parent_read(value, &s->trace_parent))
        s->fields |= WEIR_GRPC_TRACED;
}

static void read_field(weir_grpc_connection *c, weir_grpc_stream *s, const uint8_t *name,
                       size_t name_len, const char *value, size_t len)
{
    if (name_len == 5 && LITERAL_IS(name, name_len, ":path"))
        read_path(c, s, value, len);
    else if (name_len == 7 && LITERAL_IS(name, name_len, ":method"))
        s->fields |= LITERAL_IS(value, len, "POST") ? WEIR_GRPC_POST : 0;
    else if (name_len == 12 && LITERAL_IS(name, name_len, "content-type"))
        s->fields |= is_grpc(value, len) ? WEIR_GRPC_CONTENT_TYPE : 0;
    else if (name_len == 12 && LITERAL_IS(name, name_len, "grpc-timeout"))
        read_deadline(c, s, value, len);
    else if (name_len == 13 && LITERAL_IS(name, name_len, "grpc-encoding"))
        read_encoding(s, value, len);
    else if (name_len == 13 && LITERAL_IS(name, name_len, "authorization"))
        read_authorization(c, s, value, len);
    else if (name_len == 11 && c->options->tracer && LITERAL_IS(name, name_len, "traceparent"))
        read_trace_parent(s, (weir_slice){value, len});
}

int weir_grpc_on_header(nghttp2_session *h2, const nghttp2_frame *frame, const uint8_t *name,
                        size_t name_len, const uint8_t *value, size_t value_len, uint8_t flags,
                        void *user_data)
{
    weir_grpc_connection *c = user_data;
    weir_grpc_stream *s = weir_grpc_stream_of(c, frame->hd.stream_id);
    (void)h2;
    (void)flags;
    if (!s || s->checked) /* fields after the messages are ignored */
        return 0;
    s->head_len += name_len + value_len + 32;
    if (s->head_len <= WEIR_GRPC_HEAD_MAX) {
        read_field(c, s, name, name_len, (const char *)value, value_len);
    } else { /* a byte can be a long field, so a frame can have thousands */
        s->fields |= WEIR_GRPC_HEAD_TOO_LONG;
        weir_grpc_charge(c, 1);
    }
    return 0;
}

static weir_right right_of(const weir_grpc_stream *s)
{
    return s->own ? s->own->right : s->method->right;
}

/* The login of a request: that of the connection, or by the password in its header fields. */
static const weir_login *login_of(weir_grpc_connection *c, weir_grpc_stream *s)
{
    if (s->login.name_id == 0)
        return &c->login;
    weir_login_refresh(&s->login, c->options->access, c->wake_ctx);
    return &s->login;
}

/* Slows down guessing: the output of the connection is delayed, and after a few wrong passwords it
 * is closed. */
static void punish(weir_grpc_connection *c)
{
    bool hold = weir_access_wrong_password(c->options->access, c->wake_ctx);
    c->penalty |= hold;
    if (++c->wrong_passwords >= WEIR_PASSWORD_TRIES || !hold)
        weir_grpc_calm(c);
}

/* Refuses a request of a client that has not the right to it. */
static void check_right(weir_grpc_connection *c, weir_grpc_stream *s)
{
    weir_right right = right_of(s);
    if (!weir_access_is_limited(c->options->access) || right & WEIR_MAY_ANYONE)
        return;
    const weir_login *l = login_of(c, s);
    if (s->fields & WEIR_GRPC_BUSY) {
        refuse(c, s, WEIR_GRPC_UNAVAILABLE, "too many passwords are being checked, try again");
    } else if (!l->user) {
        refuse(c, s, WEIR_GRPC_UNAUTHENTICATED,
               weir_access_is_single(c->options->access)
                   ? "expected the metadata authorization: Bearer PASSWORD"
                   : "expected the metadata authorization: Bearer NAME:PASSWORD");
        if (s->fields & WEIR_GRPC_WRONG_PASSWORD)
            punish(c);
    } else if (!weir_user_may(l->user, right)) {
        refuse(c, s, WEIR_GRPC_PERMISSION_DENIED,
               weir_user_may(l->user, WEIR_MAY_TAKE)
                   ? "the user may use only some policies or keys, and these limits are not among "
                     "them"
                   : "the user lacks the right \"take\"");
        weir_access_denied(c->options->access, c->wake_ctx, l, right);
    }
}

/* Calls the method. The users may have changed since the header fields arrived. */
static void run_method(weir_grpc_connection *c, weir_grpc_stream *s)
{
    check_right(c, s);
    if (is_over(s))
        return;
    if (s->own)
        s->own->run(c, s);
    else
        weir_grpc_enqueue(c, s);
}

/* The header list is complete: refuses what is not a request to a known method. */
static void check_head(weir_grpc_connection *c, weir_grpc_stream *s)
{
    unsigned has = s->fields;
    s->checked = true;
    if (has & WEIR_GRPC_HEAD_TOO_LONG)
        weir_grpc_refuse(c, s, 431, WEIR_GRPC_RESOURCE_EXHAUSTED,
                         "the header list is longer than 16384 bytes");
    else if (!(has & WEIR_GRPC_POST))
        weir_grpc_refuse(c, s, 405, WEIR_GRPC_INTERNAL, "expected the method POST");
    else if (!(has & WEIR_GRPC_CONTENT_TYPE))
        weir_grpc_refuse(c, s, 415, WEIR_GRPC_INTERNAL,
                         "expected the content-type application/grpc");
    else if (!(has & WEIR_GRPC_KNOWN_METHOD))
        weir_grpc_refuse(c, s, 200, WEIR_GRPC_UNIMPLEMENTED, "unknown service or method");
    else if (has & WEIR_GRPC_UNKNOWN_ENCODING)
        weir_grpc_refuse(c, s, 200, WEIR_GRPC_UNIMPLEMENTED,
                         "unsupported grpc-encoding, expected identity or gzip");
    else if (has & WEIR_GRPC_BAD_TIMEOUT)
        weir_grpc_refuse(c, s, 200, WEIR_GRPC_INTERNAL, "malformed grpc-timeout");
    else
        check_right(c, s);
    if (weir_grpc_is_conversation(s))
        weir_grpc_uncount(c, s);
}

/* ---- time ------------------------------------------------------------------------------------ */

/* Whether a request should be complete by now. */
static bool is_late(const weir_grpc_stream *s, int64_t now_ns)
{
    return s->counted && s->checked && !s->responded && now_ns - s->begun_ns >= REQUEST_NS;
}

bool weir_grpc_has_late(const weir_grpc_connection *c)
{
    const weir_grpc_stream *s = c->incomplete_len > 0 ? c->streams : NULL;
    while (s && !is_late(s, c->now_ns))
        s = s->next;
    return s;
}

void weir_grpc_refuse_late(weir_grpc_connection *c)
{
    for (weir_grpc_stream *s = c->streams; s && !weir_grpc_is_broken(c); s = s->next) {
        if (is_late(s, c->now_ns))
            refuse(c, s, WEIR_GRPC_DEADLINE_EXCEEDED, "the request was not complete in time");
    }
}

/* ---- frames ---------------------------------------------------------------------------------- */

/* The request is complete. */
static void end_request(weir_grpc_connection *c, weir_grpc_stream *s)
{
    bool in_message = s->prefix_len != (s->complete ? sizeof s->prefix : 0);
    s->ended = true;
    weir_grpc_uncount(c, s);
    if (is_over(s))
        return;
    if (in_message)
        refuse(c, s, WEIR_GRPC_INTERNAL, "the request ends within a message");
    else if (weir_grpc_is_conversation(s))
        weir_grpc_end(c, s, WEIR_GRPC_OK, NULL);
    else if (!s->complete)
        refuse(c, s, WEIR_GRPC_UNIMPLEMENTED, "expected a message, found none");
    else
        run_method(c, s);
}

int weir_grpc_on_frame(nghttp2_session *h2, const nghttp2_frame *frame, void *user_data)
{
    weir_grpc_connection *c = user_data;
    (void)h2;
    if (frame->hd.type == NGHTTP2_PING && (frame->hd.flags & NGHTTP2_FLAG_ACK))
        c->pinged = c->ending == WEIR_GRPC_NOTICED;
    if (frame->hd.type != NGHTTP2_HEADERS && frame->hd.type != NGHTTP2_DATA)
        return 0;
    weir_grpc_stream *s = weir_grpc_stream_of(c, frame->hd.stream_id);
    if (!s)
        return 0;
    if (!s->checked)
        check_head(c, s);
    if ((frame->hd.flags & NGHTTP2_FLAG_END_STREAM) && !s->ended)
        end_request(c, s);
    return 0;
}
