/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* One libuv loop. A connection reads, answers all that has arrived in one batch with one look at
 * the clock, and writes. While a write is under way it neither reads nor answers, so that a client
 * which does not read its replies holds up nobody but itself, and takes no more than two
 * buffers. */

#include "net/server.h"

#include "port/port.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <uv.h>

enum {
    READ_SIZE = 16 << 10, /* asked of the system at once */
    IN_MAX = 1 << 21,     /* more than a request may take */
    OUT_PAUSE = 64 << 10, /* replies held before they are sent */
    OUT_MAX = 1 << 20,
    BACKLOG = 511,
    DRAIN_MS = 2000, /* how long a stopping daemon waits for clients to read their replies */
};

typedef struct connection {
    uv_tcp_t tcp;
    uv_write_t write;
    weir_server *server;
    struct connection *next, **link; /* in the server's list */
    weir_buffer in, out;
    bool writing;
    max_align_t session[]; /* the protocol's */
} connection;

struct weir_server {
    uv_loop_t loop;
    uv_tcp_t listener;
    uv_signal_t signals[2];
    uv_timer_t drain;
    connection *connections;
    weir_server_options options;
    int connected;
    bool stopping;
};

static void answer(connection *c);

/* ---- connections ----------------------------------------------------------------------------- */

static void connection_free(uv_handle_t *handle)
{
    connection *c = handle->data;
    weir_buffer_free(&c->in);
    weir_buffer_free(&c->out);
    port_free(c);
}

static void connection_close(connection *c)
{
    if (uv_is_closing((uv_handle_t *)&c->tcp))
        return;
    *c->link = c->next;
    if (c->next)
        c->next->link = c->link;
    c->server->connected--;
    uv_close((uv_handle_t *)&c->tcp, connection_free);
}

static void on_alloc(uv_handle_t *handle, size_t suggested, uv_buf_t *ret)
{
    (void)suggested;
    connection *c = handle->data;
    bool room = weir_buffer_reserve(&c->in, READ_SIZE);
    *ret = uv_buf_init(room ? (char *)weir_buffer_tail(&c->in) : NULL, room ? READ_SIZE : 0);
}

static void on_read(uv_stream_t *stream, ssize_t n, const uv_buf_t *buf)
{
    (void)buf;
    connection *c = stream->data;
    if (n < 0) { /* the end, a broken connection, or no memory for more */
        connection_close(c);
        return;
    }
    weir_buffer_added(&c->in, (size_t)n);
    if (n > 0)
        answer(c);
}

static void on_written(uv_write_t *write, int status)
{
    connection *c = write->data;
    c->writing = false;
    weir_buffer_consume(&c->out, weir_buffer_len(&c->out));
    if (status < 0)
        connection_close(c);
    else if (!uv_is_closing((uv_handle_t *)&c->tcp))
        answer(c);
}

/* Sends what `out` holds: at once if the system takes it all, else when it does. */
static void send_out(connection *c)
{
    uv_stream_t *stream = (uv_stream_t *)&c->tcp;
    uv_buf_t buf =
        uv_buf_init((char *)weir_buffer_data(&c->out), (unsigned)weir_buffer_len(&c->out));
    int n = buf.len > 0 ? uv_try_write(stream, &buf, 1) : 0;
    if (n > 0)
        weir_buffer_consume(&c->out, (size_t)n);
    if (n < 0 && n != UV_EAGAIN) {
        connection_close(c);
        return;
    }
    buf = uv_buf_init((char *)weir_buffer_data(&c->out), (unsigned)weir_buffer_len(&c->out));
    if (buf.len == 0)
        return;
    c->writing = uv_write(&c->write, stream, &buf, 1, on_written) == 0;
    if (!c->writing)
        connection_close(c);
}

/* Answers all that is in `in`. Reading goes on only when everything has been sent. */
static void answer(connection *c)
{
    const weir_protocol *protocol = &c->server->options.protocol;
    int64_t now_ns = port_now_ns();
    bool more = true;
    while (more && !c->writing && !uv_is_closing((uv_handle_t *)&c->tcp)) {
        more = protocol->run(c->session, &c->in, &c->out, OUT_PAUSE, now_ns);
        if (c->out.failed) /* a reply does not fit in memory: it must not be cut */
            connection_close(c);
        else
            send_out(c);
    }
    if (uv_is_closing((uv_handle_t *)&c->tcp))
        return;
    if (c->writing)
        uv_read_stop((uv_stream_t *)&c->tcp);
    else if (protocol->closing(c->session) || c->server->stopping)
        connection_close(c);
    else
        uv_read_start((uv_stream_t *)&c->tcp, on_alloc, on_read); /* harmless if it is reading */
}

static void refuse_connection(connection *c)
{
    const char *text = c->server->options.protocol.refusal;
    uv_buf_t buf = uv_buf_init((char *)text, (unsigned)strlen(text)); /* only read from */
    uv_try_write((uv_stream_t *)&c->tcp, &buf, 1);
    connection_close(c);
}

static void on_connection(uv_stream_t *listener, int status)
{
    weir_server *s = listener->data;
    const weir_protocol *protocol = &s->options.protocol;
    connection *c = status == 0 ? port_zalloc(1, sizeof *c + protocol->session_size) : NULL;
    if (!c)
        return;
    c->server = s;
    c->tcp.data = c->write.data = c;
    weir_buffer_init(&c->in, IN_MAX);
    weir_buffer_init(&c->out, OUT_MAX);
    protocol->open(c->session, protocol->ctx);
    c->next = s->connections;
    c->link = &s->connections;
    if (c->next)
        c->next->link = &c->next;
    s->connections = c;
    s->connected++;
    uv_tcp_init(&s->loop, &c->tcp);
    if (uv_accept(listener, (uv_stream_t *)&c->tcp) != 0) {
        connection_close(c);
        return;
    }
    uv_tcp_nodelay(&c->tcp, 1);
    if (s->connected > s->options.connections_max)
        refuse_connection(c);
    else
        uv_read_start((uv_stream_t *)&c->tcp, on_alloc, on_read);
}

/* ---- the server ------------------------------------------------------------------------------ */

static void close_connections(weir_server *s, bool writing_too)
{
    for (connection *c = s->connections, *next; c; c = next) {
        next = c->next;
        if (writing_too || !c->writing)
            connection_close(c);
    }
}

static void on_drained(uv_timer_t *timer)
{
    weir_server *s = timer->data;
    close_connections(s, true);
}

static void on_signal(uv_signal_t *handle, int signum)
{
    (void)signum;
    weir_server *s = handle->data;
    s->stopping = true;
    uv_close((uv_handle_t *)&s->listener, NULL);
    for (size_t i = 0; i < 2; i++)
        uv_close((uv_handle_t *)&s->signals[i], NULL);
    close_connections(s, false);
    uv_unref((uv_handle_t *)&s->drain); /* it alone keeps nothing waiting */
    uv_timer_start(&s->drain, on_drained, DRAIN_MS, 0);
}

static weir_status start_listening(weir_server *s, char *ret_error, size_t size)
{
    struct sockaddr_in address;
    uv_ip4_addr("127.0.0.1", s->options.port, &address);
    int err = uv_tcp_bind(&s->listener, (struct sockaddr *)&address, 0);
    if (err == 0)
        err = uv_listen((uv_stream_t *)&s->listener, BACKLOG, on_connection);
    if (err == 0)
        return WEIR_OK;
    const char *hint = "";
    if (err == UV_EADDRINUSE)
        hint = ": another server has it; stop that one or choose another with --port N";
    else if (err == UV_EACCES)
        hint = ": ports below 1024 need privileges; choose another with --port N";
    snprintf(ret_error, size, "cannot listen on 127.0.0.1:%d: %s%s", s->options.port,
             uv_strerror(err), hint);
    return WEIR_E_IO;
}

weir_status weir_server_open(weir_server **ret, const weir_server_options *options, char *ret_error,
                             size_t size)
{
    weir_server *s = port_zalloc(1, sizeof *s);
    if (!s)
        return WEIR_E_NOMEM;
    s->options = *options;
    if (uv_loop_init(&s->loop) != 0) {
        port_free(s);
        return WEIR_E_NOMEM;
    }
    uv_tcp_init(&s->loop, &s->listener);
    uv_timer_init(&s->loop, &s->drain);
    s->listener.data = s->drain.data = s;
    static const int signums[2] = {SIGINT, SIGTERM};
    for (size_t i = 0; i < 2; i++) {
        uv_signal_init(&s->loop, &s->signals[i]);
        s->signals[i].data = s;
        uv_signal_start(&s->signals[i], on_signal, signums[i]);
    }
    signal(SIGPIPE, SIG_IGN);
    weir_status st = start_listening(s, ret_error, size);
    if (st != WEIR_OK) {
        weir_server_close(s);
        return st;
    }
    *ret = s;
    return WEIR_OK;
}

int weir_server_port(const weir_server *s)
{
    struct sockaddr_in address;
    int len = sizeof address;
    if (uv_tcp_getsockname(&s->listener, (struct sockaddr *)&address, &len) != 0)
        return s->options.port;
    return ntohs(address.sin_port);
}

void weir_server_run(weir_server *s)
{
    uv_run(&s->loop, UV_RUN_DEFAULT);
}

static void close_handle(uv_handle_t *handle, void *unused)
{
    (void)unused;
    if (!uv_is_closing(handle))
        uv_close(handle, NULL);
}

void weir_server_close(weir_server *s)
{
    if (!s)
        return;
    close_connections(s, true);
    uv_walk(&s->loop, close_handle, NULL);
    uv_run(&s->loop, UV_RUN_DEFAULT);
    uv_loop_close(&s->loop);
    port_free(s);
}
