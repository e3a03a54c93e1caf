/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* gRPC sessions: feeds libnghttp2, answers all complete calls in batches, and appends what libnghttp2
 * sends to the output. The calls of a batch have the same method; the first calls of the queue are
 * answered first. While an engine is pending, nothing is read. */

#include "codec/grpc_session.h"

#include "codec/grpc_connection.h"
#include "port/assert.h"
#include "port/port.h"

enum {
    BATCH = 64,            /* calls in one answer() */
    REPLIES_MAX = 1 << 20, /* bytes of response messages that are not sent */
    REPLIES_KEPT = 4096,   /* bytes of buffer that a connection keeps */
};

/* ---- answering ------------------------------------------------------------------------------- */

/* The first calls of the queue that have the method of the first. */
static size_t collect(weir_grpc_connection *c, weir_grpc_call *calls, weir_grpc_stream **streams)
{
    size_t n = 0;
    for (weir_grpc_stream *s = c->ready; s && n < BATCH; s = s->ready_next) {
        if (s->method != c->ready->method)
            continue;
        calls[n] = (weir_grpc_call){.message = {(const char *)s->message, s->message_len},
                                    .reply = &c->replies};
        streams[n++] = s;
    }
    return n;
}

static void send_answer(weir_grpc_connection *c, weir_grpc_stream *s, const weir_grpc_call *call)
{
    if (call->status == WEIR_GRPC_OK && c->replies.failed)
        weir_grpc_refuse(c, s, 200, WEIR_GRPC_UNAVAILABLE, "out of memory for replies");
    else if (call->status == WEIR_GRPC_OK)
        weir_grpc_reply(c, s, call->reply_begin, call->reply_len);
    else
        weir_grpc_refuse(c, s, 200, call->status, call->why);
}

/* Answers the calls whose deadline has passed. Calls that an engine decides must be repeated. */
static void expire(weir_grpc_connection *c)
{
    for (weir_grpc_stream *s = c->ready, *next; s && !c->pending; s = next) {
        next = s->ready_next;
        if (s->deadline_ns > 0 && s->deadline_ns <= c->now_ns)
            weir_grpc_refuse(c, s, 200, WEIR_GRPC_DEADLINE_EXCEEDED, "the deadline has passed");
    }
}

/* Answers the complete calls. Returns false if an engine is pending. */
static bool answer(weir_grpc_connection *c)
{
    weir_grpc_call calls[BATCH];
    weir_grpc_stream *streams[BATCH];
    if (c->pending && !c->woken)
        return false;
    expire(c);
    while (c->ready) {
        size_t n = collect(c, calls, streams);
        const weir_grpc_method *m = c->ready->method;
        c->woken = false;
        size_t answered = m->answer(c->options->ctx, c->app, calls, n, c->now_ns);
        WEIR_ASSERT(answered <= n);
        c->pending = answered == 0;
        if (c->pending)
            return false;
        for (size_t i = 0; i < answered; i++)
            send_answer(c, streams[i], &calls[i]);
    }
    return true;
}

/* ---- the session ----------------------------------------------------------------------------- */

static nghttp2_session *open_h2(weir_grpc_connection *c)
{
    nghttp2_session_callbacks *on = NULL;
    nghttp2_session *h2 = NULL;
    if (nghttp2_session_callbacks_new(&on) != 0)
        return NULL;
    nghttp2_session_callbacks_set_on_begin_headers_callback(on, weir_grpc_on_begin_headers);
    nghttp2_session_callbacks_set_on_header_callback(on, weir_grpc_on_header);
    nghttp2_session_callbacks_set_on_data_chunk_recv_callback(on, weir_grpc_on_data);
    nghttp2_session_callbacks_set_on_frame_recv_callback(on, weir_grpc_on_frame);
    nghttp2_session_callbacks_set_on_stream_close_callback(on, weir_grpc_on_stream_close);
    nghttp2_session_callbacks_set_on_frame_send_callback(on, weir_grpc_on_frame_sent);
    if (nghttp2_session_server_new3(&h2, on, c, NULL, &c->heap.mem) != 0)
        h2 = NULL;
    nghttp2_session_callbacks_del(on);
    return h2;
}

static bool submit_settings(weir_grpc_connection *c)
{
    const nghttp2_settings_entry settings[] = {
        {NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS, WEIR_GRPC_STREAMS_MAX},
        {NGHTTP2_SETTINGS_MAX_HEADER_LIST_SIZE, WEIR_GRPC_HEAD_MAX},
    };
    return nghttp2_submit_settings(c->h2, NGHTTP2_FLAG_NONE, settings,
                                   sizeof settings / sizeof settings[0]) == 0;
}

/* The wake callback of the application. */
static void wake_session(void *ctx)
{
    weir_grpc_connection *c = ctx;
    c->woken = true;
    c->wake(c->wake_ctx);
}

void weir_grpc_session_open(weir_grpc_session *s, const weir_grpc_options *options,
                            void (*wake)(void *wake_ctx), void *wake_ctx)
{
    weir_grpc_connection *c = port_zalloc(1, sizeof *c + options->app_size);
    s->connection = NULL;
    if (!c)
        return;
    c->options = options;
    c->wake = wake;
    c->wake_ctx = wake_ctx;
    c->ready_end = &c->ready;
    weir_buffer_init(&c->replies, REPLIES_MAX);
    weir_grpc_heap_init(&c->heap);
    c->h2 = open_h2(c);
    if (!c->h2 || !submit_settings(c)) {
        nghttp2_session_del(c->h2);
        port_free(c);
        return;
    }
    if (options->open)
        options->open(options->ctx, c->app, wake_session, c);
    s->connection = c;
}

void weir_grpc_session_close(weir_grpc_session *s)
{
    weir_grpc_connection *c = s->connection;
    if (!c)
        return;
    if (c->options->close)
        c->options->close(c->options->ctx, c->app);
    while (c->streams)
        weir_grpc_free_stream(c, c->streams);
    nghttp2_session_del(c->h2);
    weir_buffer_free(&c->replies);
    WEIR_ASSERT(c->heap.bytes == 0);
    port_free(c);
    s->connection = NULL;
}

static weir_session_step step(weir_session_next next)
{
    return (weir_session_step){.next = next};
}

/* Passes the input to libnghttp2. Messages of complete requests stay where they are in `in`. */
static void feed(weir_grpc_connection *c, weir_buffer *in)
{
    size_t len = weir_buffer_len(in);
    if (len == 0)
        return;
    ssize_t n = nghttp2_session_mem_recv(c->h2, weir_buffer_data(in), len);
    c->failed |= n < 0;
    weir_buffer_consume(in, len);
}

weir_session_step weir_grpc_session_run(weir_grpc_session *s, weir_buffer *in, weir_buffer *out,
                                        size_t out_pause, int64_t now_ns)
{
    weir_grpc_connection *c = s->connection;
    if (!c)
        return step(WEIR_SESSION_CLOSE);
    c->now_ns = now_ns;
    if (!c->pending) {
        if (!weir_grpc_flush(c, out, out_pause))
            return step(WEIR_SESSION_AGAIN);
        feed(c, in);
    }
    bool answered = answer(c);
    if (c->borrowed_len > 0)
        weir_grpc_own_messages(c);
    bool flushed = weir_grpc_flush(c, out, out_pause);
    if (weir_buffer_memory(&c->replies) > REPLIES_KEPT && flushed)
        weir_buffer_free(&c->replies);
    if (c->failed)
        return step(WEIR_SESSION_CLOSE);
    if (!flushed)
        return step(WEIR_SESSION_AGAIN);
    if (!answered)
        return step(WEIR_SESSION_PENDING);
    bool alive = nghttp2_session_want_read(c->h2) || nghttp2_session_want_write(c->h2);
    return step(alive ? WEIR_SESSION_READ : WEIR_SESSION_CLOSE);
}

weir_session_usage weir_grpc_session_usage(const weir_grpc_session *s)
{
    const weir_grpc_connection *c = s->connection;
    if (!c)
        return (weir_session_usage){0};
    return (weir_session_usage){.bytes = sizeof *c + c->options->app_size + c->heap.bytes +
                                         weir_buffer_memory(&c->replies),
                                .mid_request = c->incomplete_len > 0};
}

bool weir_grpc_session_poll(weir_grpc_session *s, int64_t now_ns, bool stopping)
{
    (void)s;
    (void)now_ns;
    return stopping;
}
