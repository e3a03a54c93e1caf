/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_CODEC_GRPC_KIT_TEST_H
#define WEIR_CODEC_GRPC_KIT_TEST_H
/* The fixture of the tests of gRPC sessions: a client of libnghttp2 that is connected to a session
 * in memory, and an application with two methods. */

#include "codec/grpc/connection.h"
#include "codec/grpc/session.h"
#include "service/users/kit_test.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <nghttp2/nghttp2.h>

enum { OUT_PAUSE = 1 << 16, STREAMS = 16384 };

/* What the client has received for a stream. */
typedef struct response {
    char http[8], status[8], message[256], accept_encoding[64], content_type[64], allow[8];
    uint8_t *body;
    size_t body_len;
    bool closed;
    uint32_t code; /* of RST_STREAM */
} response;

/* The application: Echo repeats the message; Fail refuses it with the status in its first byte. */
typedef struct app {
    size_t batches, calls; /* of Echo: calls of answer(), and answered messages */
    size_t biggest;        /* batch */
    size_t at_most;        /* calls that are answered at once; 0: all */
    bool pending;          /* Echo waits for an engine */
    size_t opened, closed;
    void (*wake)(void *wake_ctx);
    void *wake_ctx;
} app;

typedef struct fixture {
    app app;
    users_kit users;
    weir_grpc_options options;
    weir_grpc_session session;
    weir_buffer in, out;
    size_t out_pause;
    int64_t now_ns;
    weir_session_step step;
    size_t woken;
    nghttp2_session *client;
    response responses[STREAMS]; /* by (id - 1) / 2 */
    const uint8_t *sending;      /* the rest of a request's body */
    size_t sending_len;
    bool goaway;
    uint32_t goaway_code;
    int32_t goaway_last_id;
} fixture;

/* ---- the application ------------------------------------------------------------------------- */

static inline size_t echo(void *ctx, void *memory, weir_grpc_call *calls, size_t n, int64_t now_ns)
{
    app *a = ctx;
    (void)memory;
    (void)now_ns;
    a->batches++;
    a->biggest = n > a->biggest ? n : a->biggest;
    if (a->pending)
        return 0;
    n = a->at_most > 0 && n > a->at_most ? a->at_most : n;
    for (size_t i = 0; i < n; i++) {
        calls[i].reply_begin = weir_buffer_len(calls[i].reply);
        calls[i].reply_len = calls[i].message.len;
        weir_buffer_append(calls[i].reply, calls[i].message.at, calls[i].message.len);
    }
    a->calls += n;
    return n;
}

static inline size_t refuse(void *ctx, void *memory, weir_grpc_call *calls, size_t n,
                            int64_t now_ns)
{
    (void)ctx;
    (void)memory;
    (void)now_ns;
    for (size_t i = 0; i < n; i++) {
        calls[i].status = (weir_grpc_status)calls[i].message.at[0];
        calls[i].why = "100 % wrong\x7F\n";
    }
    return n;
}

static inline void app_open(void *ctx, void *memory, void (*wake)(void *wake_ctx), void *wake_ctx)
{
    app *a = ctx;
    assert_memory_equal(memory, "\0\0\0\0\0\0\0\0", 8);
    a->opened++;
    a->wake = wake;
    a->wake_ctx = wake_ctx;
}

static inline void app_close(void *ctx, void *memory)
{
    app *a = ctx;
    (void)memory;
    a->closed++;
}

static const weir_grpc_method methods[] = {{"/test.Service/Echo", WEIR_MAY_TAKE, echo},
                                           {"/test.Service/Fail", WEIR_MAY_RESET, refuse}};

/* ---- the client ------------------------------------------------------------------------------ */

static inline response *response_of(fixture *f, int32_t id)
{
    assert_true(id > 0 && (id - 1) / 2 < STREAMS);
    return &f->responses[(id - 1) / 2];
}

static inline void copy_field(char *to, size_t size, const uint8_t *value, size_t len)
{
    assert_true(len < size);
    memcpy(to, value, len);
    to[len] = 0;
}

static inline int on_client_header(nghttp2_session *h2, const nghttp2_frame *frame,
                                   const uint8_t *name, size_t name_len, const uint8_t *value,
                                   size_t len, uint8_t flags, void *user_data)
{
    response *r = response_of(user_data, frame->hd.stream_id);
    (void)h2;
    (void)flags;
    (void)name_len;
    const char *field = (const char *)name;
    if (strcmp(field, ":status") == 0)
        copy_field(r->http, sizeof r->http, value, len);
    else if (strcmp(field, "grpc-status") == 0)
        copy_field(r->status, sizeof r->status, value, len);
    else if (strcmp(field, "grpc-message") == 0)
        copy_field(r->message, sizeof r->message, value, len);
    else if (strcmp(field, "grpc-accept-encoding") == 0)
        copy_field(r->accept_encoding, sizeof r->accept_encoding, value, len);
    else if (strcmp(field, "content-type") == 0)
        copy_field(r->content_type, sizeof r->content_type, value, len);
    else if (strcmp(field, "allow") == 0)
        copy_field(r->allow, sizeof r->allow, value, len);
    return 0;
}

static inline int on_client_data(nghttp2_session *h2, uint8_t flags, int32_t id,
                                 const uint8_t *bytes, size_t len, void *user_data)
{
    response *r = response_of(user_data, id);
    (void)h2;
    (void)flags;
    r->body = realloc(r->body, r->body_len + len);
    memcpy(r->body + r->body_len, bytes, len);
    r->body_len += len;
    return 0;
}

static inline int on_client_close(nghttp2_session *h2, int32_t id, uint32_t code, void *user_data)
{
    response *r = response_of(user_data, id);
    (void)h2;
    r->closed = true;
    r->code = code;
    return 0;
}

/*  option  NULL: the usual. */
static inline void open_client(fixture *f, const nghttp2_option *option)
{
    nghttp2_session_callbacks *on = NULL;
    assert_int_equal(nghttp2_session_callbacks_new(&on), 0);
    nghttp2_session_callbacks_set_on_header_callback(on, on_client_header);
    nghttp2_session_callbacks_set_on_data_chunk_recv_callback(on, on_client_data);
    nghttp2_session_callbacks_set_on_stream_close_callback(on, on_client_close);
    assert_int_equal(nghttp2_session_client_new2(&f->client, on, f, option), 0);
    nghttp2_session_callbacks_del(on);
    assert_int_equal(nghttp2_submit_settings(f->client, 0, NULL, 0), 0);
}

/* Sends the body of a request, which is kept in static memory; at most one is unsent. */
static inline ssize_t read_body(nghttp2_session *h2, int32_t id, uint8_t *to, size_t room,
                                uint32_t *ret_flags, nghttp2_data_source *source, void *user_data)
{
    fixture *f = user_data;
    (void)h2;
    (void)id;
    (void)source;
    size_t n = f->sending_len < room ? f->sending_len : room;
    if (n > 0) {
        memcpy(to, f->sending, n);
        f->sending += n;
        f->sending_len -= n;
    }
    if (f->sending_len == 0)
        *ret_flags |= NGHTTP2_DATA_FLAG_EOF;
    return (ssize_t)n;
}

/* The same, and more may follow: the stream stays open. */
static inline ssize_t read_body_part(nghttp2_session *h2, int32_t id, uint8_t *to, size_t room,
                                     uint32_t *ret_flags, nghttp2_data_source *source,
                                     void *user_data)
{
    ssize_t n = read_body(h2, id, to, room, ret_flags, source, user_data);
    *ret_flags = 0;
    return n > 0 ? n : NGHTTP2_ERR_DEFERRED;
}

#define MAKE_FIELD(name, value)                                                                    \
    {                                                                                              \
        (uint8_t *)(name), (uint8_t *)(value), strlen(name), strlen(value), NGHTTP2_NV_FLAG_NONE   \
    }

/* Moves what the client sends to the input buffer. */
static inline void client_sends(fixture *f)
{
    const uint8_t *bytes;
    for (ssize_t n; (n = nghttp2_session_mem_send(f->client, &bytes)) != 0;) {
        assert_true(n > 0);
        weir_buffer_append(&f->in, bytes, (size_t)n);
    }
    assert_false(f->in.failed);
}

static inline uint32_t number_at(const uint8_t *at, size_t len)
{
    uint32_t v = 0;
    for (size_t i = 0; i < len; i++)
        v = v << 8 | at[i];
    return v;
}

/* Looks for GOAWAY in the output: a client without streams ignores the second one. */
static inline void look_at_output(fixture *f)
{
    const uint8_t *at = weir_buffer_data(&f->out);
    for (size_t left = weir_buffer_len(&f->out), n; left > 0; at += n, left -= n) {
        assert_true(left >= 9);
        n = 9 + number_at(at, 3);
        assert_true(left >= n);
        if (at[3] != NGHTTP2_GOAWAY)
            continue;
        f->goaway = true;
        f->goaway_last_id = (int32_t)number_at(at + 9, 4);
        f->goaway_code = number_at(at + 13, 4);
    }
}

/* Checks that the lists and counts of a connection agree with its streams. */
static inline void check_connection(const weir_grpc_connection *c)
{
    size_t incomplete = 0, watches = 0, bodies = 0, replies = 0, blocked = 0, queued = 0;
    bool knows_current = !c->current;
    weir_grpc_stream *const *link = &c->streams, *const *ready = &c->ready;
    for (const weir_grpc_stream *s = c->streams; s; link = &s->next, s = s->next) {
        assert_ptr_equal(s->link, link);
        assert_true(!s->message || s->message == s->owned); /* nothing refers to the input */
        assert_true(!s->ready_link || (s->ended && s->complete && !s->responded));
        incomplete += s->counted;
        watches += s->health != 0;
        bodies += s->owned ? s->message_len : 0;
        replies += !s->out_owned && s->out_len > 0;
        blocked += s->out_owned ? s->out_len : 0;
        queued += s->ready_link != NULL;
        knows_current |= s == c->current;
    }
    for (const weir_grpc_stream *s = c->ready; s; ready = &s->ready_next, s = s->ready_next) {
        assert_ptr_equal(s->ready_link, ready);
        assert_true(queued-- > 0);
    }
    assert_ptr_equal(c->ready_end, ready);
    assert_int_equal(queued, 0);
    assert_true(knows_current);
    assert_int_equal(c->borrowed_len, 0);
    assert_int_equal(c->incomplete_len, incomplete);
    assert_int_equal(c->watches_len, watches);
    assert_int_equal(c->body_bytes, bodies);
    assert_int_equal(c->replies_len, replies);
    assert_int_equal(c->blocked_bytes, blocked);
}

/* Runs the session once, and passes the output to the client. */
static inline weir_session_next run_once(fixture *f)
{
    f->step = weir_grpc_session_run(&f->session, &f->in, &f->out, f->out_pause, f->now_ns);
    if (f->step.next != WEIR_SESSION_CLOSE)
        check_connection(f->session.connection);
    size_t len = weir_buffer_len(&f->out);
    assert_false(f->out.failed);
    look_at_output(f);
    if (len > 0)
        assert_int_equal(nghttp2_session_mem_recv(f->client, weir_buffer_data(&f->out), len), len);
    weir_buffer_clear(&f->out);
    return f->step.next;
}

/* Exchanges bytes until neither side has more to send. */
static inline weir_session_next exchange(fixture *f)
{
    weir_session_next next;
    do {
        client_sends(f);
        next = run_once(f);
    } while (next == WEIR_SESSION_AGAIN ||
             (next == WEIR_SESSION_READ && nghttp2_session_want_write(f->client)));
    return next;
}

/* Submits a request with its own header fields. Returns the stream. The bytes of the body must not
 * change until they are sent; they go to the input buffer now, as far as flow control allows. */
static inline int32_t submit(fixture *f, const nghttp2_nv *fields, size_t n, const void *body,
                             size_t len)
{
    nghttp2_data_provider data = {.read_callback = read_body};
    f->sending = body;
    f->sending_len = len;
    int32_t id = nghttp2_submit_request(f->client, NULL, fields, n, &data, NULL);
    assert_true(id > 0);
    client_sends(f);
    return id;
}

/* Submits the call of a method with the bytes of a body. */
static inline int32_t submit_body(fixture *f, const char *path, const void *body, size_t len)
{
    const nghttp2_nv fields[] = {MAKE_FIELD(":method", "POST"),
                                 MAKE_FIELD(":scheme", "http"),
                                 MAKE_FIELD(":authority", "test"),
                                 MAKE_FIELD(":path", path),
                                 MAKE_FIELD("content-type", "application/grpc"),
                                 MAKE_FIELD("te", "trailers")};
    return submit(f, fields, sizeof fields / sizeof fields[0], body, len);
}

/* Writes prefix and message. Returns the length. */
static inline size_t frame_message(uint8_t *to, const void *message, size_t len)
{
    const uint8_t prefix[] = {0, (uint8_t)(len >> 24), (uint8_t)(len >> 16), (uint8_t)(len >> 8),
                              (uint8_t)len};
    memcpy(to, prefix, sizeof prefix);
    memcpy(to + sizeof prefix, message, len);
    return sizeof prefix + len;
}

/* Submits the call of a method with one message. */
static inline int32_t submit_call(fixture *f, const char *path, const char *message)
{
    uint8_t body[1024];
    assert_true(strlen(message) + 5 <= sizeof body);
    int32_t id = submit_body(f, path, body, frame_message(body, message, strlen(message)));
    assert_int_equal(f->sending_len, 0);
    return id;
}

/* Expects a response with one message. */
static inline void expect_message(fixture *f, int32_t id, const char *message)
{
    const response *r = response_of(f, id);
    uint8_t body[1024];
    size_t len = frame_message(body, message, strlen(message));
    assert_true(r->closed);
    assert_int_equal(r->code, NGHTTP2_NO_ERROR);
    assert_string_equal(r->http, "200");
    assert_string_equal(r->content_type, "application/grpc");
    assert_string_equal(r->status, "0");
    assert_int_equal(r->body_len, len);
    assert_memory_equal(r->body, body, len);
}

/* Expects a response with a status and no message. */
static inline void expect_status(fixture *f, int32_t id, const char *http, const char *status,
                                 const char *message)
{
    const response *r = response_of(f, id);
    assert_string_equal(r->http, http);
    assert_string_equal(r->status, status);
    assert_string_equal(r->message, message);
    assert_int_equal(r->body_len, 0);
    assert_true(r->closed);
    assert_int_equal(r->code, NGHTTP2_NO_ERROR);
}

/* ---- set-up ---------------------------------------------------------------------------------- */

static inline void wake_connection(void *ctx)
{
    ((fixture *)ctx)->woken++;
}

static inline void open_session(fixture *f)
{
    weir_grpc_session_open(&f->session, &f->options, wake_connection, f);
    open_client(f, NULL);
}

static inline void close_session(fixture *f)
{
    weir_grpc_session_close(&f->session);
    assert_null(f->session.connection);
    nghttp2_session_del(f->client);
    for (size_t i = 0; i < STREAMS; i++)
        free(f->responses[i].body);
    memset(f->responses, 0, sizeof f->responses);
    weir_buffer_clear(&f->in);
    weir_buffer_clear(&f->out);
    f->goaway = false;
}

static inline int setup(void **state)
{
    fixture *f = calloc(1, sizeof *f);
    f->options = (weir_grpc_options){.methods = methods,
                                     .methods_len = sizeof methods / sizeof methods[0],
                                     .ctx = &f->app,
                                     .access = &f->users.access,
                                     .app_size = 8,
                                     .open = app_open,
                                     .close = app_close};
    f->out_pause = OUT_PAUSE;
    f->now_ns = 1767225600000000000;
    weir_buffer_init(&f->in, 1 << 24);
    weir_buffer_init(&f->out, 1 << 24);
    open_session(f);
    *state = f;
    return 0;
}

static inline int teardown(void **state)
{
    fixture *f = *state;
    close_session(f);
    assert_int_equal(f->app.opened, f->app.closed);
    users_kit_close(&f->users);
    weir_buffer_free(&f->in);
    weir_buffer_free(&f->out);
    free(f);
    return 0;
}

#define TEST(function) cmocka_unit_test_setup_teardown(function, setup, teardown)

#endif
