/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* Sends gRPC replies: response headers, a message, and trailers. A message stays in the buffer of
 * all replies until it is sent; one that the client's flow control blocks is copied. */

#include "codec/grpc/connection.h"
#include "port/assert.h"

#define FIELD(name, value)                                                                         \
    {                                                                                              \
        (uint8_t *)(name), (uint8_t *)(value), sizeof(name) - 1, sizeof(value) - 1,                \
            NGHTTP2_NV_FLAG_NO_COPY_NAME | NGHTTP2_NV_FLAG_NO_COPY_VALUE                           \
    }

enum { WHY_MAX = 1024 }; /* bytes of grpc-message */

/* ---- fields ---------------------------------------------------------------------------------- */

/* Percent-encodes a text for grpc-message. Returns its length, at most `size`.
 *  size  of `to`. */
static size_t percent_encode(const char *text, uint8_t *to, size_t size)
{
    static const char digits[] = "0123456789ABCDEF";
    size_t n = 0;
    for (; *text && n + 3 <= size; text++) {
        uint8_t byte = (uint8_t)*text;
        if (byte >= 0x20 && byte < 0x7F && byte != '%') {
            to[n++] = byte;
        } else {
            to[n++] = '%';
            to[n++] = (uint8_t)digits[byte >> 4];
            to[n++] = (uint8_t)digits[byte & 15];
        }
    }
    return n;
}

/* The trailer grpc-status.
 *  memory  WEIR_I64_MAX_LEN bytes. */
static nghttp2_nv status_field(uint8_t *memory, weir_grpc_status status)
{
    size_t len = weir_i64_print((char *)memory, (int64_t)status);
    return (nghttp2_nv){(uint8_t *)"grpc-status", memory, 11, len, NGHTTP2_NV_FLAG_NO_COPY_NAME};
}

/* The trailer grpc-message.
 *  memory  WHY_MAX bytes. */
static nghttp2_nv message_field(uint8_t *memory, const char *why)
{
    size_t len = percent_encode(why ? why : "", memory, WHY_MAX);
    return (nghttp2_nv){(uint8_t *)"grpc-message", memory, 12, len, NGHTTP2_NV_FLAG_NO_COPY_NAME};
}

/* ---- messages -------------------------------------------------------------------------------- */

/* Bytes of a stream's output in all, with the prefix of a unary reply. */
static size_t out_end(const weir_grpc_stream *s)
{
    return weir_grpc_is_streaming(s) ? s->out_len : WEIR_GRPC_PREFIX_LEN + s->out_len;
}

void weir_grpc_drop_reply(weir_grpc_connection *c, weir_grpc_stream *s)
{
    if (s->out_owned) {
        WEIR_ASSERT(c->blocked_bytes >= s->out_len);
        c->blocked_bytes -= s->out_len;
        weir_grpc_free(&c->heap, s->out_owned);
    } else if (s->out_len > 0) {
        c->replies_len--;
    }
    s->out_owned = NULL;
    s->out_len = s->out_sent = 0;
}

/* Copies the next bytes of the prefix of a unary reply. Returns how many, at most `room`. */
static size_t put_prefix(weir_grpc_stream *s, uint8_t *to, size_t room)
{
    uint32_t len = (uint32_t)s->out_len;
    const uint8_t prefix[WEIR_GRPC_PREFIX_LEN] = {0, (uint8_t)(len >> 24), (uint8_t)(len >> 16),
                                                  (uint8_t)(len >> 8), (uint8_t)len};
    size_t n = 0;
    while (s->out_sent < sizeof prefix && n < room)
        to[n++] = prefix[s->out_sent++];
    return n;
}

/* Copies the next bytes of the output. Returns how many, at most `room`. */
static size_t put_bytes(const weir_grpc_connection *c, weir_grpc_stream *s, uint8_t *to,
                        size_t room)
{
    size_t head = out_end(s) - s->out_len;
    size_t n = s->out_sent < head ? put_prefix(s, to, room) : 0;
    if (s->out_sent < head || s->out_len == 0)
        return n;
    const uint8_t *from =
        s->out_owned ? s->out_owned : weir_buffer_data(&c->replies) + s->out_begin;
    size_t at = s->out_sent - head, more = s->out_len - at;
    more = more < room - n ? more : room - n;
    memcpy(to + n, from + at, more);
    s->out_sent += more;
    return n + more;
}

static bool submit_trailers(nghttp2_session *h2, weir_grpc_stream *s)
{
    static const nghttp2_nv good[] = {FIELD("grpc-status", "0")};
    if (s->end_status == WEIR_GRPC_OK)
        return nghttp2_submit_trailer(h2, s->id, good, 1) == 0;
    uint8_t message[WHY_MAX], status[WEIR_I64_MAX_LEN];
    const nghttp2_nv fields[] = {
        status_field(status, s->end_status),
        message_field(message, s->end_why),
    };
    return nghttp2_submit_trailer(h2, s->id, fields, 2) == 0;
}

static ssize_t read_reply(nghttp2_session *h2, int32_t id, uint8_t *to, size_t room,
                          uint32_t *ret_flags, nghttp2_data_source *source, void *user_data)
{
    weir_grpc_connection *c = user_data;
    weir_grpc_stream *s = source->ptr;
    (void)id;
    size_t n = put_bytes(c, s, to, room);
    if (s->out_owned && n > 0)
        c->blocked_since_ns = c->now_ns;
    if (s->out_sent < out_end(s))
        return (ssize_t)n;
    weir_grpc_drop_reply(c, s);
    if (weir_grpc_is_streaming(s) && !s->out_last)
        return n > 0 ? (ssize_t)n : NGHTTP2_ERR_DEFERRED;
    *ret_flags |= NGHTTP2_DATA_FLAG_EOF | NGHTTP2_DATA_FLAG_NO_END_STREAM;
    return submit_trailers(h2, s) ? (ssize_t)n : NGHTTP2_ERR_CALLBACK_FAILURE;
}

static void submit(weir_grpc_connection *c, weir_grpc_stream *s, const nghttp2_nv *fields, size_t n,
                   const nghttp2_data_provider *data)
{
    WEIR_ASSERT(!s->responded);
    s->responded = true;
    weir_grpc_unqueue(c, s);
    weir_grpc_drop_message(c, s);
    if (nghttp2_submit_response(c->h2, s->id, fields, n, data) != 0)
        c->failed = true;
}

/* ---- refusals -------------------------------------------------------------------------------- */

void weir_grpc_refuse(weir_grpc_connection *c, weir_grpc_stream *s, unsigned http,
                      weir_grpc_status status, const char *why)
{
    uint8_t message[WHY_MAX], status_text[WEIR_I64_MAX_LEN], http_text[WEIR_I64_MAX_LEN];
    size_t http_len = weir_i64_print((char *)http_text, (int64_t)http);
    const nghttp2_nv accept = FIELD("grpc-accept-encoding", "identity,gzip");
    const nghttp2_nv allow = FIELD("allow", "POST");
    const nghttp2_nv fields[] = {
        {(uint8_t *)":status", http_text, 7, http_len, NGHTTP2_NV_FLAG_NO_COPY_NAME},
        FIELD("content-type", "application/grpc"),
        status_field(status_text, status),
        message_field(message, why),
        http == 405 ? allow : accept};
    s->reset = s->out_last = true;
    submit(c, s, fields, http == 405 || status == WEIR_GRPC_UNIMPLEMENTED ? 5 : 4, NULL);
}

/* ---- streams --------------------------------------------------------------------------------- */

static void submit_head(weir_grpc_connection *c, weir_grpc_stream *s)
{
    static const nghttp2_nv head[] = {FIELD(":status", "200"),
                                      FIELD("content-type", "application/grpc")};
    const nghttp2_data_provider data = {.source.ptr = s, .read_callback = read_reply};
    submit(c, s, head, 2, &data);
}

void weir_grpc_reply(weir_grpc_connection *c, weir_grpc_stream *s, size_t begin, size_t len)
{
    s->out_begin = begin;
    s->out_len = len;
    c->replies_len += len > 0;
    submit_head(c, s);
}

/* Makes room for `more` bytes of a stream's output, without those that were sent. */
static uint8_t *grow_stream(weir_grpc_connection *c, weir_grpc_stream *s, size_t more)
{
    size_t left = s->out_len - s->out_sent;
    uint8_t *bytes = weir_grpc_alloc(&c->heap, left + more);
    if (!bytes) {
        c->failed = true;
        return NULL;
    }
    if (left > 0)
        memcpy(bytes, s->out_owned + s->out_sent, left);
    weir_grpc_drop_reply(c, s);
    s->out_owned = bytes;
    s->out_len = left + more;
    if (c->blocked_bytes == 0)
        c->blocked_since_ns = c->now_ns;
    c->blocked_bytes += s->out_len;
    return bytes + left;
}

/* Sends what was added to a stream. */
static void resume(weir_grpc_connection *c, weir_grpc_stream *s)
{
    if (!s->responded)
        submit_head(c, s);
    else
        (void)nghttp2_session_resume_data(c->h2, s->id); /* fails if the stream is not deferred */
}

void weir_grpc_send(weir_grpc_connection *c, weir_grpc_stream *s, const void *message, size_t len)
{
    const uint8_t prefix[WEIR_GRPC_PREFIX_LEN] = {0, (uint8_t)(len >> 24), (uint8_t)(len >> 16),
                                                  (uint8_t)(len >> 8), (uint8_t)len};
    if (s->out_last)
        return;
    if (s->out_len - s->out_sent + len > WEIR_GRPC_STREAM_OUT_MAX) {
        weir_grpc_end(c, s, WEIR_GRPC_RESOURCE_EXHAUSTED, "the client does not read its messages");
        return;
    }
    uint8_t *to = grow_stream(c, s, sizeof prefix + len);
    if (!to)
        return;
    memcpy(to, prefix, sizeof prefix);
    memcpy(to + sizeof prefix, message, len);
    resume(c, s);
}

void weir_grpc_end(weir_grpc_connection *c, weir_grpc_stream *s, weir_grpc_status status,
                   const char *why)
{
    if (s->out_last)
        return;
    s->out_last = s->reset = true;
    s->end_status = status;
    s->end_why = why;
    resume(c, s);
}

/* ---- output ---------------------------------------------------------------------------------- */

int weir_grpc_on_frame_sent(nghttp2_session *h2, const nghttp2_frame *frame, void *user_data)
{
    (void)user_data;
    if (frame->hd.type != NGHTTP2_HEADERS || !(frame->hd.flags & NGHTTP2_FLAG_END_STREAM))
        return 0;
    weir_grpc_stream *s = nghttp2_session_get_stream_user_data(h2, frame->hd.stream_id);
    if (!s || s->ended || !s->reset)
        return 0;
    /* Tells a client that is still sending to stop. */
    return nghttp2_submit_rst_stream(h2, NGHTTP2_FLAG_NONE, s->id, NGHTTP2_NO_ERROR);
}

/* Copies the messages that the client's flow control blocks, so that the buffer of replies can be
 * used again. */
static void own_replies(weir_grpc_connection *c)
{
    for (weir_grpc_stream *s = c->streams; s && c->replies_len > 0; s = s->next) {
        if (s->out_owned || s->out_len == 0)
            continue;
        s->out_owned = weir_grpc_alloc(&c->heap, s->out_len);
        if (!s->out_owned) {
            c->failed = true;
            return;
        }
        memcpy(s->out_owned, weir_buffer_data(&c->replies) + s->out_begin, s->out_len);
        c->replies_len--;
        if (c->blocked_bytes == 0)
            c->blocked_since_ns = c->now_ns;
        c->blocked_bytes += s->out_len;
    }
}

bool weir_grpc_flush(weir_grpc_connection *c, weir_buffer *out, size_t out_pause)
{
    while (weir_buffer_len(out) <= out_pause && !weir_grpc_is_broken(c)) {
        const uint8_t *bytes;
        ssize_t n = nghttp2_session_mem_send(c->h2, &bytes);
        if (n > 0) {
            weir_buffer_append(out, bytes, (size_t)n);
            continue;
        }
        c->failed |= n < 0;
        own_replies(c);
        weir_buffer_clear(&c->replies);
        return true;
    }
    return weir_grpc_is_broken(c);
}
