/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* Sends gRPC replies: response headers, a message, and trailers. A message stays in the buffer of all
 * replies until it is sent; one that the client's flow control blocks is copied. */

#include "codec/grpc_connection.h"
#include "port/assert.h"

#define FIELD(name, value)                                                                         \
    {                                                                                              \
        (uint8_t *)(name), (uint8_t *)(value), sizeof(name) - 1, sizeof(value) - 1,                \
            NGHTTP2_NV_FLAG_NO_COPY_NAME | NGHTTP2_NV_FLAG_NO_COPY_VALUE                           \
    }

/* ---- messages -------------------------------------------------------------------------------- */

static void finish_message(weir_grpc_connection *c, weir_grpc_stream *s)
{
    if (s->out_owned)
        weir_grpc_free(&c->heap, s->out_owned);
    else if (s->out_len > 0)
        c->replies_len--;
    s->out_owned = NULL;
    s->out_len = s->out_sent = 0;
}

/* Copies the next bytes of the prefix and the message. Returns how many, at most `room`. */
static size_t put_bytes(const weir_grpc_connection *c, weir_grpc_stream *s, uint8_t *to,
                        size_t room)
{
    uint32_t len = (uint32_t)s->out_len;
    const uint8_t prefix[WEIR_GRPC_PREFIX_LEN] = {0, (uint8_t)(len >> 24), (uint8_t)(len >> 16),
                                                  (uint8_t)(len >> 8), (uint8_t)len};
    size_t n = 0;
    while (s->out_sent < sizeof prefix && n < room)
        to[n++] = prefix[s->out_sent++];
    if (s->out_sent < sizeof prefix || s->out_len == 0)
        return n;
    const uint8_t *from =
        s->out_owned ? s->out_owned : weir_buffer_data(&c->replies) + s->out_begin;
    size_t at = s->out_sent - sizeof prefix, more = s->out_len - at;
    more = more < room - n ? more : room - n;
    memcpy(to + n, from + at, more);
    s->out_sent += more;
    return n + more;
}

static ssize_t read_reply(nghttp2_session *h2, int32_t id, uint8_t *to, size_t room,
                          uint32_t *ret_flags, nghttp2_data_source *source, void *user_data)
{
    static const nghttp2_nv trailers[] = {FIELD("grpc-status", "0")};
    weir_grpc_connection *c = user_data;
    weir_grpc_stream *s = source->ptr;
    size_t n = put_bytes(c, s, to, room);
    if (s->out_sent < WEIR_GRPC_PREFIX_LEN + s->out_len)
        return (ssize_t)n;
    finish_message(c, s);
    *ret_flags |= NGHTTP2_DATA_FLAG_EOF | NGHTTP2_DATA_FLAG_NO_END_STREAM;
    if (nghttp2_submit_trailer(h2, id, trailers, 1) != 0)
        return NGHTTP2_ERR_CALLBACK_FAILURE;
    return (ssize_t)n;
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

void weir_grpc_reply(weir_grpc_connection *c, weir_grpc_stream *s, size_t begin, size_t len)
{
    static const nghttp2_nv head[] = {FIELD(":status", "200"),
                                      FIELD("content-type", "application/grpc")};
    const nghttp2_data_provider data = {.source.ptr = s, .read_callback = read_reply};
    s->out_begin = begin;
    s->out_len = len;
    c->replies_len += len > 0;
    submit(c, s, head, 2, &data);
}

/* ---- refusals -------------------------------------------------------------------------------- */

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

void weir_grpc_refuse(weir_grpc_connection *c, weir_grpc_stream *s, unsigned http,
                      weir_grpc_status status, const char *why)
{
    uint8_t message[1024], status_text[WEIR_I64_MAX_LEN], http_text[WEIR_I64_MAX_LEN];
    size_t message_len = percent_encode(why ? why : "", message, sizeof message);
    size_t status_len = weir_i64_print((char *)status_text, (int64_t)status);
    size_t http_len = weir_i64_print((char *)http_text, (int64_t)http);
    const nghttp2_nv fields[] = {
        {(uint8_t *)":status", http_text, 7, http_len, NGHTTP2_NV_FLAG_NO_COPY_NAME},
        FIELD("content-type", "application/grpc"),
        {(uint8_t *)"grpc-status", status_text, 11, status_len, NGHTTP2_NV_FLAG_NO_COPY_NAME},
        {(uint8_t *)"grpc-message", message, 12, message_len, NGHTTP2_NV_FLAG_NO_COPY_NAME},
        FIELD("grpc-accept-encoding", "identity,gzip")};
    s->reset = true;
    submit(c, s, fields, status == WEIR_GRPC_UNIMPLEMENTED ? 5 : 4, NULL);
}

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

/* ---- output ---------------------------------------------------------------------------------- */

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
    }
}

bool weir_grpc_flush(weir_grpc_connection *c, weir_buffer *out, size_t out_pause)
{
    while (weir_buffer_len(out) <= out_pause) {
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
    return false;
}
