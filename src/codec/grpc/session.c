/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* gRPC sessions: feeds libnghttp2, answers all complete calls in batches, and appends what
 * libnghttp2 sends to the output. The calls of a batch have the same method; the first calls of the
 * queue are answered first. While an engine is pending, nothing is read. */

#include "codec/grpc/session.h"

#include "codec/answer/password.h"
#include "codec/grpc/connection.h"
#include "port/assert.h"
#include "port/port.h"

#define DELAY_NS   INT64_C(1000000000)  /* the client's time to answer the PING of a drain */
#define BLOCKED_NS INT64_C(30000000000) /* the client's time to read a reply */

enum {
    BATCH = 64,             /* calls in one answer() */
    REPLIES_MAX = 8 << 20,  /* bytes of response messages that are not sent */
    REPLIES_KEPT = 4096,    /* bytes of buffer that a connection keeps */
    BLOCKED_MAX = 1 << 20,  /* bytes of replies that the client does not read */
    CONTINUATIONS_MAX = 32, /* CONTINUATION frames of a header list */
};

/* ---- answering ------------------------------------------------------------------------------- */

/* The first calls of the queue that have the method of the first.
 *  spans  of those that are traced. */
static size_t collect(weir_grpc_connection *c, weir_grpc_call *calls, weir_trace_span *spans,
                      weir_grpc_stream **streams)
{
    size_t n = 0;
    for (weir_grpc_stream *s = c->ready; s && n < BATCH; s = s->ready_next) {
        if (s->method != c->ready->method)
            continue;
        calls[n] = (weir_grpc_call){.message = {(const char *)s->message, s->message_len},
                                    .reply = &c->replies};
        if (s->fields & WEIR_GRPC_TRACED) {
            weir_trace_begin(&spans[n], &s->trace_parent, s->begun_ns);
            calls[n].span = &spans[n];
        }
        streams[n++] = s;
    }
    return n;
}

/* Ends the span of a call that was decided. */
static void end_span(const weir_grpc_connection *c, const weir_grpc_method *m, weir_grpc_call *call)
{
    if (!call->span || !call->span->reason)
        return;
    call->span->name = m->path + 1;
    call->span->status = (int)call->status;
    c->options->tracer->end(c->options->tracer->ctx, call->span);
}

static void send_answer(weir_grpc_connection *c, weir_grpc_stream *s, const weir_grpc_call *call)
{
    weir_grpc_earn(c, WEIR_GRPC_CREDITS_OF_CALL);
    if (s->closed)
        weir_grpc_free_stream(c, s);
    else if (call->status == WEIR_GRPC_OK && c->replies.failed)
        weir_grpc_refuse(c, s, 200, WEIR_GRPC_UNAVAILABLE, "out of memory for replies");
    else if (call->status == WEIR_GRPC_OK)
        weir_grpc_reply(c, s, call->reply_begin, call->reply_len);
    else
        weir_grpc_refuse(c, s, 200, call->status, call->why);
}

/* Answers the calls whose deadline has passed. Calls that an engine decides must be repeated. */
static void expire(weir_grpc_connection *c)
{
    for (weir_grpc_stream *s = c->ready, *next; s && !c->pending && !weir_grpc_is_broken(c);
         s = next) {
        next = s->ready_next;
        if (s->closed)
            weir_grpc_free_stream(c, s);
        else if (s->deadline_ns > 0 && s->deadline_ns <= c->now_ns)
            weir_grpc_refuse(c, s, 200, WEIR_GRPC_DEADLINE_EXCEEDED, "the deadline has passed");
    }
}

/* Answers the complete calls. Returns false if an engine is pending. */
static bool answer(weir_grpc_connection *c)
{
    weir_grpc_call calls[BATCH];
    weir_trace_span spans[BATCH];
    weir_grpc_stream *streams[BATCH];
    if (c->pending && !c->woken)
        return false;
    expire(c);
    while (c->ready && !weir_grpc_is_broken(c)) {
        size_t n = collect(c, calls, spans, streams);
        const weir_grpc_method *m = c->ready->method;
        c->woken = false;
        size_t answered = m->answer(c->options->ctx, c->app, calls, n, c->now_ns);
        WEIR_ASSERT(answered <= n);
        c->pending = answered == 0;
        if (c->pending)
            return false;
        for (size_t i = 0; i < answered && !weir_grpc_is_broken(c); i++) {
            end_span(c, m, &calls[i]);
            send_answer(c, streams[i], &calls[i]);
        }
    }
    return true;
}

/* ---- the end of a connection ----------------------------------------------------------------- */

/* Whether the connection is to be ended. */
static bool must_end(const weir_grpc_connection *c)
{
    return c->stopping || (c->max_age_ns > 0 && c->now_ns - c->born_ns >= c->max_age_ns);
}

static void set_ending(weir_grpc_connection *c, weir_grpc_ending ending)
{
    c->ending = ending;
    c->ending_since_ns = c->now_ns;
}

/* Whether the state `ending` is over. */
static bool ending_is_due(const weir_grpc_connection *c)
{
    int64_t passed_ns = c->now_ns - c->ending_since_ns, grace_ns = c->options->max_age_grace_ns;
    switch (c->ending) {
    case WEIR_GRPC_OPEN:
        return must_end(c);
    case WEIR_GRPC_NOTICED:
        return c->pinged || passed_ns >= DELAY_NS;
    case WEIR_GRPC_FINAL:
        break;
    }
    return grace_ns > 0 && passed_ns >= grace_ns;
}

/* Ends a connection as RFC 9113, 6.8 advises: a GOAWAY that refuses nothing; after a round trip,
 * the client opens no new streams, and a second GOAWAY names the last one. */
static void advance_ending(weir_grpc_connection *c)
{
    static const uint8_t drain[8] = "drain";
    if (!ending_is_due(c))
        return;
    if (c->ending == WEIR_GRPC_OPEN) {
        c->failed |= nghttp2_submit_shutdown_notice(c->h2) != 0;
        c->failed |= nghttp2_submit_ping(c->h2, NGHTTP2_FLAG_NONE, drain) != 0;
        set_ending(c, WEIR_GRPC_NOTICED);
    } else if (c->ending == WEIR_GRPC_NOTICED) {
        int32_t last = nghttp2_session_get_last_proc_stream_id(c->h2);
        c->failed |=
            nghttp2_submit_goaway(c->h2, NGHTTP2_FLAG_NONE, last, NGHTTP2_NO_ERROR, NULL, 0) != 0;
        weir_grpc_health_update(c, true);
        set_ending(c, WEIR_GRPC_FINAL);
    } else {
        c->failed = true;
    }
}

/* The maximum age of this connection: +-10 %, so that connections that were opened together do not
 * end together. */
static int64_t age_of(const weir_grpc_options *o)
{
    uint32_t random;
    if (o->max_age_ns <= 0 || port_random(&random, sizeof random) != WEIR_OK)
        return o->max_age_ns;
    return o->max_age_ns / 10 * 9 + (int64_t)((double)o->max_age_ns / 5 * random / UINT32_MAX);
}

static void set_time(weir_grpc_connection *c, int64_t now_ns)
{
    c->now_ns = now_ns;
    if (c->born_ns == 0) {
        c->born_ns = now_ns;
        c->max_age_ns = age_of(c->options);
    }
}

/* A client that does not read its replies makes them accumulate. */
static bool is_blocked(const weir_grpc_connection *c)
{
    return c->blocked_bytes > BLOCKED_MAX ||
           (c->blocked_bytes > 0 && c->now_ns - c->blocked_since_ns >= BLOCKED_NS);
}

bool weir_grpc_session_poll(weir_grpc_session *s, int64_t now_ns, bool stopping)
{
    weir_grpc_connection *c = s->connection;
    if (!c)
        return true;
    set_time(c, now_ns);
    c->stopping |= stopping;
    c->late = weir_grpc_has_late(c);
    return c->late || ending_is_due(c) || is_blocked(c) || weir_grpc_health_changed(c);
}

/* ---- the session ----------------------------------------------------------------------------- */

static nghttp2_session_callbacks *make_callbacks(void)
{
    nghttp2_session_callbacks *on = NULL;
    if (nghttp2_session_callbacks_new(&on) != 0)
        return NULL;
    nghttp2_session_callbacks_set_on_begin_frame_callback(on, weir_grpc_on_begin_frame);
    nghttp2_session_callbacks_set_on_begin_headers_callback(on, weir_grpc_on_begin_headers);
    nghttp2_session_callbacks_set_on_header_callback(on, weir_grpc_on_header);
    nghttp2_session_callbacks_set_on_data_chunk_recv_callback(on, weir_grpc_on_data);
    nghttp2_session_callbacks_set_on_frame_recv_callback(on, weir_grpc_on_frame);
    nghttp2_session_callbacks_set_on_stream_close_callback(on, weir_grpc_on_stream_close);
    nghttp2_session_callbacks_set_on_frame_send_callback(on, weir_grpc_on_frame_sent);
    return on;
}

static nghttp2_option *make_options(void)
{
    nghttp2_option *option = NULL;
    if (nghttp2_option_new(&option) != 0)
        return NULL;
    nghttp2_option_set_no_closed_streams(option, 1);
    nghttp2_option_set_max_outbound_ack(option, 1000);
#ifdef WEIR_NGHTTP2_RESET_LIMIT /* else libnghttp2 has no limit, or a fixed one */
    nghttp2_option_set_stream_reset_rate_limit(option, 2 * WEIR_GRPC_CREDITS_MAX,
                                               2 * WEIR_GRPC_CREDITS_A_SECOND);
#endif
#ifdef WEIR_NGHTTP2_CONTINUATIONS /* version 1.52 also counts reads of a part of their heads */
    nghttp2_option_set_max_continuations(option, CONTINUATIONS_MAX);
#endif
    return option;
}

static nghttp2_session *open_h2(weir_grpc_connection *c)
{
    nghttp2_session_callbacks *on = make_callbacks();
    nghttp2_option *option = make_options();
    nghttp2_session *h2 = NULL;
    if (on && option && nghttp2_session_server_new3(&h2, on, c, option, &c->heap.mem) != 0)
        h2 = NULL;
    nghttp2_session_callbacks_del(on);
    nghttp2_option_del(option);
    return h2;
}

static bool submit_settings(weir_grpc_connection *c)
{
    const nghttp2_settings_entry settings[] = {
        {NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS, WEIR_GRPC_STREAMS_MAX},
        {NGHTTP2_SETTINGS_MAX_HEADER_LIST_SIZE, WEIR_GRPC_HEAD_MAX},
        {9, 1}, /* SETTINGS_NO_RFC7540_PRIORITIES (RFC 9218, 2.1) */
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
        if (!c->heap.failed)
            nghttp2_session_del(c->h2);
        weir_grpc_heap_free(&c->heap);
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
    if (!c->heap.failed) {
        while (c->streams)
            weir_grpc_free_stream(c, c->streams);
        nghttp2_session_del(c->h2);
        WEIR_ASSERT(c->heap.bytes == 0);
    }
    weir_grpc_heap_free(&c->heap);
    weir_buffer_free(&c->replies);
    port_free(c);
    s->connection = NULL;
}

static weir_session_step step(weir_session_next next)
{
    return (weir_session_step){.next = next};
}

/* Checks the first bytes: a client of another protocol gets an answer that it understands. Returns
 * false if this is no HTTP/2 with prior knowledge. */
static bool check_preface(weir_grpc_connection *c, const weir_buffer *in, weir_buffer *out)
{
    static const char answer[] =
        "HTTP/1.1 400 Bad Request\r\nContent-Type: text/plain\r\nContent-Length: 83\r\n"
        "Connection: close\r\n\r\n"
        "This port is for gRPC: HTTP/2 with prior knowledge. Send HTTP/1.1 to another port.\n";
    size_t len = weir_buffer_len(in);
    if (c->prefaced || len == 0)
        return true;
    const uint8_t *bytes = weir_buffer_data(in);
    size_t compared = len < NGHTTP2_CLIENT_MAGIC_LEN ? len : NGHTTP2_CLIENT_MAGIC_LEN;
    c->prefaced = compared == NGHTTP2_CLIENT_MAGIC_LEN;
    if (memcmp(bytes, NGHTTP2_CLIENT_MAGIC, compared) == 0)
        return true;
    if (bytes[0] >= 'A' && bytes[0] <= 'Z')
        weir_buffer_append(out, answer, sizeof answer - 1);
    return false;
}

/* Passes the input to libnghttp2. Messages of complete requests stay where they are in `in`. */
static void feed(weir_grpc_connection *c, weir_buffer *in)
{
    size_t len = weir_buffer_len(in);
    if (len == 0 || !c->prefaced)
        return;
    ssize_t n = nghttp2_session_mem_recv(c->h2, weir_buffer_data(in), len);
    if (n == NGHTTP2_ERR_NOMEM || n == NGHTTP2_ERR_CALLBACK_FAILURE)
        c->failed = true;
    else if (n < 0) /* NGHTTP2_ERR_FLOODED and its like */
        weir_grpc_calm(c);
    weir_buffer_consume(in, len);
}

/* What the loop does after a run. */
static weir_session_step next_step(weir_grpc_connection *c, bool answered, bool flushed)
{
    if (weir_grpc_is_broken(c))
        return step(WEIR_SESSION_CLOSE);
    if (!flushed)
        return step(WEIR_SESSION_AGAIN);
    if (c->penalty) {
        c->penalty = false;
        return (weir_session_step){.next = WEIR_SESSION_WAIT,
                                   .until_ns = c->now_ns + WEIR_PASSWORD_DELAY_NS};
    }
    if (!answered)
        return step(WEIR_SESSION_PENDING);
    bool alive = nghttp2_session_want_read(c->h2) || nghttp2_session_want_write(c->h2);
    return step(alive ? WEIR_SESSION_READ : WEIR_SESSION_CLOSE);
}

weir_session_step weir_grpc_session_run(weir_grpc_session *s, weir_buffer *in, weir_buffer *out,
                                        size_t out_pause, int64_t now_ns)
{
    weir_grpc_connection *c = s->connection;
    if (!c || !check_preface(c, in, out))
        return step(WEIR_SESSION_CLOSE);
    set_time(c, now_ns);
    weir_access_refresh(c->options->access);
    weir_login_refresh(&c->login, c->options->access, c->wake_ctx);
    weir_grpc_earn_by_time(c);
    bool answered = !c->pending || answer(c);
    if (answered) {
        if (!weir_grpc_flush(c, out, out_pause))
            return step(WEIR_SESSION_AGAIN);
        feed(c, in);
        answered = weir_grpc_is_broken(c) || answer(c);
    }
    if (weir_grpc_is_broken(c))
        return step(WEIR_SESSION_CLOSE);
    if (c->borrowed_len > 0)
        weir_grpc_own_messages(c);
    weir_grpc_health_update(c, false);
    if (is_blocked(c))
        weir_grpc_calm(c);
    if (c->late)
        weir_grpc_refuse_late(c);
    c->late = false;
    advance_ending(c);
    bool flushed = weir_grpc_flush(c, out, out_pause);
    if (weir_buffer_memory(&c->replies) > REPLIES_KEPT && flushed)
        weir_buffer_free(&c->replies);
    return next_step(c, answered, flushed);
}

bool weir_grpc_session_is_new(const weir_grpc_session *s)
{
    const weir_grpc_connection *c = s->connection;
    return c && weir_access_is_limited(c->options->access) && !c->known && !c->login.user;
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
