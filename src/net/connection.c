/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* A connection reads into the buffer of its loop, lets its session answer all requests as one batch
 * with the same time, and sends the replies. Input and output that cannot be handled at once are
 * copied to buffers of the connection. Back-pressure: while replies are unsent, it neither reads
 * nor answers, so a client that does not read its replies delays only itself. It must not know the
 * protocol. */

#include "net/connection.h"

#include "net/proxy_protocol.h"
#include "port/assert.h"

#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum {
    READ_SIZE = 64 << 10,   /* bytes of one read */
    COPY_MAX = 16 << 10,    /* kept input up to this size is copied before the next read */
    OUT_PAUSE = 64 << 10,   /* bytes of replies after which they are sent */
    OUT_MAX = 16 << 20,     /* bytes of the replies to one batch */
    OUT_KEPT = 256 << 10,   /* bytes of output buffer that a loop keeps */
    KEPT = 512,             /* bytes of buffer that an idle connection keeps */
    LINGER_MS = 1000,       /* the longest time that a connection lingers */
    LINGER_BYTES = 4 << 20, /* the most input that it discards meanwhile */
    REFUSED_MAX = 128,      /* lingering refused connections of a loop; more are closed at once */
    LAST_READS_MAX = 16,    /* reads from a connection when the server stops */
};

static void resume(weir_connection *c);

/* The wake callback of the session. During a write, resume() checks `woken` later. */
static void wake(void *ctx)
{
    weir_connection *c = ctx;
    WEIR_ASSERT(c->in_session);
    c->woken = true;
    weir_loop_woken(c->loop, c);
}

/* ---- memory ---------------------------------------------------------------------------------- */

static weir_session_usage session_usage(const weir_connection *c)
{
    bool known = c->in_session && c->protocol->usage;
    return known ? c->protocol->usage(c->session) : (weir_session_usage){0};
}

/* Returns whether a request has begun and is not complete. */
static bool mid_request(const weir_connection *c)
{
    return weir_buffer_len(&c->in) > 0 || c->unproxied || session_usage(c).mid_request;
}

/* Returns whether a reply is delayed. A session that pauses has the same state, but no reply. */
static bool delays_reply(const weir_connection *c)
{
    return c->state == WEIR_CONNECTION_WAIT && weir_buffer_len(&c->out) > 0;
}

/* Updates shared->buffered. */
static void count_memory(weir_connection *c)
{
    size_t held = weir_buffer_memory(&c->in) + weir_buffer_memory(&c->out) + session_usage(c).bytes;
    port_counter *buffered = &c->loop->shared->buffered;
    if (held != c->held)
        port_add_relaxed(buffered, (uint64_t)held - c->held); /* modulo 2^64 */
    c->held = held;
}

/* Frees the session and the buffers. */
static void free_session(weir_connection *c)
{
    if (c->in_session && c->protocol->close)
        c->protocol->close(c->session);
    c->in_session = false;
    weir_buffer_free(&c->in);
    weir_buffer_free(&c->out);
    count_memory(c);
}

/* ---- closing --------------------------------------------------------------------------------- */

static void on_closed(uv_handle_t *handle)
{
    port_free(handle->data);
}

/* Does nothing if no reply is delayed. */
static void stop_waiting(weir_connection *c)
{
    weir_wait_heap_remove(&c->loop->waits, &c->wait);
    weir_loop_waits_changed(c->loop);
}

static void unlink_from_loop(weir_connection *c)
{
    weir_loop *l = c->loop;
    WEIR_ASSERT(c->state != WEIR_CONNECTION_CLOSED && *c->link == c && l->connections_len > 0);
    WEIR_ASSERT(!c->refused || l->refused_len > 0);
    weir_loop_not_woken(l, c);
    c->state = WEIR_CONNECTION_CLOSED;
    if (c->refused)
        l->refused_len--;
    else
        port_sub_relaxed(&l->shared->connected, 1);
    stop_waiting(c);
    *c->link = c->next;
    if (c->next)
        c->next->link = c->link;
    l->connections_len--;
}

/*  reset  the client does not read: TCP RST discards the data in the send buffer. */
static void close_connection(weir_connection *c, bool reset)
{
    unlink_from_loop(c);
    bool is_tcp = c->uv.handle.type == UV_TCP;
    if (!reset || !is_tcp || uv_tcp_close_reset(&c->uv.tcp, on_closed) != 0)
        uv_close(&c->uv.handle, on_closed); /* also cancels a write in flight */
    free_session(c);
    weir_loop_left(c->loop);
}

void weir_connection_close(weir_connection *c)
{
    close_connection(c, false);
}

/* ---- reading --------------------------------------------------------------------------------- */

/* The buffer of the next read: that of the loop, after a copy of the kept input; or the
 * connection's own if there is much kept input. */
static weir_buffer *reading_buffer(weir_connection *c)
{
    return weir_buffer_len(&c->in) > COPY_MAX ? &c->in : &c->loop->in;
}

static weir_buffer *ready_to_read(weir_connection *c)
{
    weir_buffer *in = reading_buffer(c);
    if (in != &c->in) {
        weir_buffer_clear(in);
        weir_buffer_append(in, weir_buffer_data(&c->in), weir_buffer_len(&c->in));
    }
    return weir_buffer_reserve(in, READ_SIZE) ? in : NULL;
}

static void on_alloc(uv_handle_t *handle, size_t suggested, uv_buf_t *ret)
{
    (void)suggested;
    weir_buffer *in = ready_to_read(handle->data);
    *ret = uv_buf_init(in ? (char *)weir_buffer_tail(in) : NULL, in ? READ_SIZE : 0);
}

static void on_read(uv_stream_t *stream, ssize_t n, const uv_buf_t *buf);

static void read_on(weir_connection *c)
{
    if (!c->reading && uv_read_start(&c->uv.stream, on_alloc, on_read) != 0)
        weir_connection_close(c);
    else
        c->reading = true;
}

static void read_stop(weir_connection *c)
{
    if (c->reading)
        uv_read_stop(&c->uv.stream);
    c->reading = false;
}

/* ---- lingering ------------------------------------------------------------------------------- */

static int socket_of(const weir_connection *c)
{
    uv_os_fd_t fd = -1;
    return uv_fileno(&c->uv.handle, &fd) == 0 ? fd : -1;
}

static bool is_unix(const weir_connection *c)
{
    return c->uv.handle.type == UV_NAMED_PIPE && socket_of(c) >= 0;
}

bool weir_server_peer_address(const void *wake_ctx, weir_peer_address *ret)
{
    weir_connection *c = (weir_connection *)wake_ctx; /* sessions know it as a constant */
    c->peer_known = c->peer_known || weir_listen_peer(socket_of(c), &c->peer);
    if (c->peer_known)
        *ret = c->peer;
    return c->peer_known;
}

void weir_server_peer(const void *wake_ctx, char ret[static WEIR_PEER_TEXT_MAX])
{
    weir_peer_address a;
    if (weir_server_peer_address(wake_ctx, &a))
        weir_listen_print_peer(&a, ret);
    else
        snprintf(ret, WEIR_PEER_TEXT_MAX, "%s", is_unix(wake_ctx) ? "unix" : "unknown");
}

size_t weir_server_listener(const void *wake_ctx)
{
    return ((const weir_connection *)wake_ctx)->listener;
}

/* Shuts down sending, and waits for the client to close. */
static void linger(weir_connection *c)
{
    c->state = WEIR_CONNECTION_LINGER;
    c->since_ms = uv_now(&c->loop->uv);
    c->unsent = 0;
    free_session(c);
    if (shutdown(socket_of(c), SHUT_WR) == 0)
        read_on(c);
    else
        weir_connection_close(c);
}

/* Sends a last message, if the socket accepts it, and lingers. No write may be in flight. */
static void close_with(weir_connection *c, const char *text)
{
    if (text) {
        uv_buf_t buf = uv_buf_init((char *)text, (unsigned)strlen(text)); /* libuv only reads it */
        int n = uv_try_write(&c->uv.stream, &buf, 1);
        port_bump_relaxed(&c->loop->stats.bytes_out, n > 0 ? (uint64_t)n : 0);
    }
    linger(c);
}

/* Closes because a limit on memory or size is reached.
 *  waits  the client waits for a reply, so it gets an error. Another client would take an error for
 *         the reply to its next request. */
static void overload(weir_connection *c, const char *what, bool waits)
{
    bool mid_reply = c->state == WEIR_CONNECTION_WRITE;
    port_bump_relaxed(&c->loop->stats.overloaded, 1);
    weir_shared_report(c->loop->shared, WEIR_EVENT_OVERLOADED, what);
    stop_waiting(c);
    if (mid_reply)
        close_connection(c, true);
    else if (waits)
        close_with(c, c->protocol->overload);
    else
        linger(c);
}

static void time_out(weir_connection *c, const char *what)
{
    port_bump_relaxed(&c->loop->stats.timed_out, 1);
    weir_shared_report(c->loop->shared, WEIR_EVENT_TIMED_OUT, what);
    if (c->state == WEIR_CONNECTION_WRITE)
        close_connection(c, true);
    else if (mid_request(c) && !c->unproxied)
        close_with(c, c->protocol->timeout);
    else
        weir_connection_close(c);
}

/* ---- sending --------------------------------------------------------------------------------- */

/* Moves the output from the loop's buffer to the connection's, which is empty. */
static bool keep_out(weir_connection *c)
{
    weir_buffer *out = &c->loop->out;
    WEIR_ASSERT(weir_buffer_len(&c->out) == 0);
    if (weir_buffer_memory(out) > OUT_KEPT) {
        weir_buffer_free(&c->out);
        weir_buffer all = *out;
        *out = c->out;
        c->out = all;
    } else {
        weir_buffer_append(&c->out, weir_buffer_data(out), weir_buffer_len(out));
        weir_buffer_clear(out);
    }
    return !c->out.failed;
}

static void empty(weir_buffer *b, size_t kept)
{
    if (weir_buffer_memory(b) > kept)
        weir_buffer_free(b);
    else
        weir_buffer_clear(b);
}

static void on_written(uv_write_t *write, int status)
{
    weir_connection *c = write->data;
    if (c->state == WEIR_CONNECTION_CLOSED)
        return;
    if (status < 0) {
        weir_connection_close(c);
        return;
    }
    WEIR_ASSERT(c->state == WEIR_CONNECTION_WRITE && !c->reading);
    port_bump_relaxed(&c->loop->stats.bytes_out, weir_buffer_len(&c->out));
    empty(&c->out, KEPT);
    resume(c);
}

/* Sends `out`, the loop's buffer or the connection's. What the socket does not accept now is sent
 * later. */
static void send_out(weir_connection *c, weir_buffer *out)
{
    if (weir_buffer_len(out) == 0)
        return;
    uv_buf_t buf = uv_buf_init((char *)weir_buffer_data(out), (unsigned)weir_buffer_len(out));
    int n = uv_try_write(&c->uv.stream, &buf, 1);
    if (n < 0 && n != UV_EAGAIN) {
        weir_connection_close(c);
        return;
    }
    if (n > 0) {
        port_bump_relaxed(&c->loop->stats.bytes_out, (uint64_t)n);
        weir_buffer_consume(out, (size_t)n);
    }
    if (weir_buffer_len(out) == 0)
        return;
    c->state = WEIR_CONNECTION_WRITE;
    c->since_ms = uv_now(&c->loop->uv);
    c->unsent = weir_buffer_len(out);
    if (out != &c->out && !keep_out(c)) {
        overload(c, "closed a connection: out of memory for replies", true);
        return;
    }
    buf = uv_buf_init((char *)weir_buffer_data(&c->out), (unsigned)weir_buffer_len(&c->out));
    c->write.data = c;
    if (uv_write(&c->write, &c->uv.stream, &buf, 1, on_written) != 0)
        weir_connection_close(c);
}

/* Delays the reply: it stays in c->out until until_ns. If the client closes before then, on_read()
 * closes the connection and drops the reply; its charge stays. */
static void hold_out(weir_connection *c, int64_t until_ns)
{
    if (!keep_out(c)) {
        overload(c, "closed a connection: out of memory for replies", true);
        return;
    }
    WEIR_ASSERT(c->state == WEIR_CONNECTION_READ);
    c->state = WEIR_CONNECTION_WAIT;
    weir_wait_heap_add(&c->loop->waits, &c->wait, until_ns);
    weir_loop_waits_changed(c->loop);
}

void weir_connection_release(weir_connection *c)
{
    WEIR_ASSERT(c->state == WEIR_CONNECTION_WAIT && c->wait.place == 0);
    c->state = WEIR_CONNECTION_READ;
    send_out(c, &c->out);
    if (c->state == WEIR_CONNECTION_READ) {
        empty(&c->out, KEPT);
        resume(c);
    } else {
        read_stop(c);
    }
}

/* ---- answering ------------------------------------------------------------------------------- */

/* Moves the rest of the input to the connection's buffer. Without memory, in.failed stays set, and
 * check_memory() closes the connection. */
static void keep_in(weir_connection *c, weir_buffer *in)
{
    if (in != &c->in) {
        size_t len = weir_buffer_len(in);
        weir_buffer_clear(&c->in);
        weir_buffer_append(&c->in, weir_buffer_data(in), len);
    }
    if (weir_buffer_len(&c->in) == 0 && !c->in.failed)
        empty(&c->in, KEPT);
}

/* Runs the session on `in` and sends the replies. Returns whether a request was answered: the
 * session has replied or, if it consumes only complete requests, has consumed input. */
static bool run(weir_connection *c, weir_buffer *in)
{
    weir_loop *l = c->loop;
    int64_t now_ns = weir_loop_now(l);
    bool answered = false, more = true;
    while (more) {
        size_t len = weir_buffer_len(in);
        WEIR_ASSERT(c->in_session && c->state == WEIR_CONNECTION_READ);
        WEIR_ASSERT(weir_buffer_len(&l->out) == 0);
        c->woken = false;
        weir_session_step step = c->protocol->run(c->session, in, &l->out, OUT_PAUSE, now_ns);
        bool consumed = weir_buffer_len(in) < len;
        bool replied = weir_buffer_len(&l->out) > 0;
        answered |= replied || (consumed && !c->protocol->usage);
        c->after = step.next;
        if (l->out.failed) /* all replies of the batch are dropped: none is truncated */
            overload(c,
                     "closed a connection: the replies to a batch exceed 16 MiB, or memory is "
                     "exhausted",
                     true);
        else if (step.next == WEIR_SESSION_WAIT && step.until_ns > now_ns)
            hold_out(c, step.until_ns);
        else
            send_out(c, &l->out);
        if (step.next == WEIR_SESSION_PENDING && c->state == WEIR_CONNECTION_READ)
            c->state = WEIR_CONNECTION_PENDING;
        empty(&l->out, OUT_KEPT);
        more = (consumed || replied) && c->state == WEIR_CONNECTION_READ &&
               (step.next == WEIR_SESSION_AGAIN || step.next == WEIR_SESSION_WAIT);
    }
    return answered;
}

static void check_memory(weir_connection *c)
{
    const weir_server_limits *limits = &c->loop->shared->limits;
    size_t before = c->held;
    WEIR_ASSERT(c->state < WEIR_CONNECTION_LINGER);
    count_memory(c);
    if (c->in.failed)
        overload(c, "closed a connection: out of memory for requests", true);
    else if (c->state == WEIR_CONNECTION_READ && weir_buffer_len(&c->in) > limits->request)
        overload(c, "closed a connection: its request is too long", true);
    else if (c->held > before && port_load_relaxed(&c->loop->shared->buffered) > limits->buffers)
        overload(c, "closed a connection: the buffers of all connections exceed limits.buffers",
                 mid_request(c) || delays_reply(c) || c->state == WEIR_CONNECTION_PENDING);
}

/* Closes because of the PROXY header. The client gets no text: it does not know the protocol. */
static void refuse_proxy(weir_connection *c, const char *why)
{
    char peer[WEIR_PEER_TEXT_MAX], text[192];
    weir_server_peer(c, peer);
    snprintf(text, sizeof text, "closed a connection from %s: %s", peer, why);
    port_bump_relaxed(&c->loop->stats.unproxied, 1);
    weir_shared_report(c->loop->shared, WEIR_EVENT_PROXY_HEADER, text);
    weir_connection_close(c);
}

static void open_session(weir_connection *c)
{
    c->in_session = true;
    c->protocol->open(c->session, c->loop->listeners[c->listener].context, wake, c);
}

/* Consumes the PROXY header at the front of `in`. Returns whether the session can run: the header
 * is complete and something follows. */
static bool take_proxy_header(weir_connection *c, weir_buffer *in)
{
    weir_proxy_header header;
    const char *why;
    weir_proxy_result result =
        weir_proxy_header_read(weir_buffer_data(in), weir_buffer_len(in), &header, &why);
    if (result == WEIR_PROXY_MALFORMED) {
        refuse_proxy(c, why);
        return false;
    }
    if (result == WEIR_PROXY_DONE) {
        weir_buffer_consume(in, header.len);
        c->unproxied = false;
        c->begun_ms = uv_now(&c->loop->uv);
        c->peer_known = header.has_address;
        c->peer = header.client;
        open_session(c);
        if (weir_buffer_len(in) > 0)
            return true;
    }
    keep_in(c, in);
    check_memory(c);
    return false;
}

/* Answers the requests in `in`.
 *  continued  `in` begins with a part of a request whose timeout is already running. */
static void serve(weir_connection *c, weir_buffer *in, bool continued)
{
    if (c->unproxied && !take_proxy_header(c, in))
        return;
    bool answered = run(c, in);
    if (c->state == WEIR_CONNECTION_CLOSED || c->state == WEIR_CONNECTION_LINGER)
        return;
    keep_in(c, in);
    if (answered || !continued)
        c->begun_ms = uv_now(&c->loop->uv);
    if (c->state == WEIR_CONNECTION_READ && c->after == WEIR_SESSION_CLOSE)
        linger(c);
    else
        check_memory(c);
}

/* Answers the requests that arrived before the server stopped, and closes. */
static void finish(weir_connection *c)
{
    while (c->state == WEIR_CONNECTION_READ && c->last_reads < LAST_READS_MAX) {
        c->last_reads++;
        bool continued = mid_request(c);
        weir_buffer *in = ready_to_read(c);
        ssize_t n = in ? recv(socket_of(c), weir_buffer_tail(in), READ_SIZE, MSG_DONTWAIT) : -1;
        if (n <= 0)
            break;
        port_bump_relaxed(&c->loop->stats.bytes_in, (uint64_t)n);
        c->idle_since_ms = uv_now(&c->loop->uv);
        weir_buffer_added(in, (size_t)n);
        serve(c, in, continued);
    }
    if (c->state != WEIR_CONNECTION_READ)
        return;
    /* Without recent input, there is no unread input that could reset the connection. */
    if (uv_now(&c->loop->uv) - c->idle_since_ms > LINGER_MS)
        weir_connection_close(c);
    else
        linger(c);
}

/* Starts or stops reading after an event, as the state requires. */
static void after_event(weir_connection *c)
{
    const weir_loop *l = c->loop;
    /* A session that is polled decides itself when it ends. */
    if (l->stopping && c->state == WEIR_CONNECTION_READ && (!c->protocol->poll || c->unproxied))
        finish(c);
    if (l->stopping && c->state == WEIR_CONNECTION_WAIT &&
        (c->wait.at_ns > l->last_ns || !delays_reply(c)))
        weir_connection_close(c);
    if (c->ended && c->state == WEIR_CONNECTION_READ)
        weir_connection_close(c);
    bool waits = c->state == WEIR_CONNECTION_WAIT || c->state == WEIR_CONNECTION_PENDING;
    /* A waiting connection reads only to notice that the client has closed. */
    if (c->state == WEIR_CONNECTION_READ ||
        (waits && !c->ended && weir_buffer_len(&c->in) <= COPY_MAX))
        read_on(c);
    else if (c->state == WEIR_CONNECTION_WRITE || waits)
        read_stop(c);
}

/* Continues after a write, a delay or a pending reply. */
static void resume(weir_connection *c)
{
    c->state = WEIR_CONNECTION_READ;
    c->idle_since_ms = c->begun_ms = uv_now(&c->loop->uv);
    if (c->after == WEIR_SESSION_CLOSE) {
        linger(c);
    } else if (c->after == WEIR_SESSION_READ) {
        count_memory(c);
    } else if (c->after == WEIR_SESSION_PENDING && !c->woken) {
        c->state = WEIR_CONNECTION_PENDING;
        count_memory(c);
    } else {
        serve(c, &c->in, false);
    }
    after_event(c);
}

void weir_connection_wake(weir_connection *c)
{
    if (c->state == WEIR_CONNECTION_PENDING)
        resume(c);
}

static void on_read(uv_stream_t *stream, ssize_t n, const uv_buf_t *buf)
{
    (void)buf;
    weir_connection *c = stream->data;
    weir_buffer *in = reading_buffer(c);
    if (n == UV_ENOBUFS && c->state != WEIR_CONNECTION_LINGER) {
        overload(c, "closed a connection: out of memory for requests", true);
        return;
    }
    if (n == UV_EOF &&
        c->state == WEIR_CONNECTION_PENDING) { /* the client may still want the reply */
        c->ended = true;
        read_stop(c);
        return;
    }
    if (n < 0) { /* closed by the client, or broken */
        weir_connection_close(c);
        return;
    }
    WEIR_ASSERT(c->reading && c->state != WEIR_CONNECTION_WRITE);
    port_bump_relaxed(&c->loop->stats.bytes_in, (uint64_t)n);
    weir_buffer_added(in, (size_t)n);
    c->idle_since_ms = uv_now(&c->loop->uv);
    if (c->state == WEIR_CONNECTION_LINGER) {
        c->unsent += (size_t)n;
        if (c->unsent > LINGER_BYTES)
            weir_connection_close(c);
        return;
    }
    if (c->state == WEIR_CONNECTION_WAIT || c->state == WEIR_CONNECTION_PENDING) {
        keep_in(c, in);
        check_memory(c);
    } else {
        serve(c, in, mid_request(c));
    }
    after_event(c);
}

/* ---- time ------------------------------------------------------------------------------------ */

static bool over(uint64_t since_ms, uint64_t now_ms, int64_t limit_ns)
{
    return limit_ns > 0 && now_ms - since_ms >= ((uint64_t)limit_ns + 999999) / 1000000;
}

static void sweep_write(weir_connection *c, uint64_t now_ms)
{
    size_t unsent = uv_stream_get_write_queue_size(&c->uv.stream);
    if (unsent != c->unsent) {
        c->unsent = unsent;
        c->since_ms = now_ms;
    } else if (over(c->since_ms, now_ms, c->loop->shared->limits.write_ns)) {
        time_out(c, "closed a connection: the client does not read its replies (limits.write)");
    }
}

/* Runs the session without input, if it has something to do. */
static void poll_session(weir_connection *c)
{
    const weir_loop *l = c->loop;
    if (c->state != WEIR_CONNECTION_READ || !c->in_session || !c->protocol->poll ||
        !c->protocol->poll(c->session, weir_loop_now(l), l->stopping))
        return;
    serve(c, &c->in, mid_request(c));
    after_event(c);
}

void weir_connection_sweep(weir_connection *c, uint64_t now_ms)
{
    const weir_server_limits *limits = &c->loop->shared->limits;
    if (c->state == WEIR_CONNECTION_WRITE) {
        sweep_write(c, now_ms);
    } else if (c->state == WEIR_CONNECTION_LINGER && now_ms - c->since_ms >= LINGER_MS) {
        weir_connection_close(c);
    } else if (c->state == WEIR_CONNECTION_READ) {
        if (mid_request(c) && over(c->begun_ms, now_ms, limits->request_ns))
            time_out(c, c->unproxied ? "closed a connection: its PROXY header was not complete in "
                                       "time (limits.request)"
                                     : "closed a connection: its request was not complete in time "
                                       "(limits.request)");
        else if (over(c->idle_since_ms, now_ms, limits->idle_ns))
            time_out(c, "closed an idle connection (limits.idle)");
        else
            poll_session(c);
    }
}

void weir_connection_stop(weir_connection *c)
{
    poll_session(c);
    after_event(c);
}

/* ---- opening --------------------------------------------------------------------------------- */

static bool open_socket(weir_connection *c, bool is_tcp, int fd)
{
    uv_loop_t *uv = &c->loop->uv;
    int err = is_tcp ? uv_tcp_init(uv, &c->uv.tcp) : uv_pipe_init(uv, &c->uv.pipe, 0);
    WEIR_ASSERT(err == 0); /* they allocate nothing */
    c->uv.handle.data = c;
    err = is_tcp ? uv_tcp_open(&c->uv.tcp, fd) : uv_pipe_open(&c->uv.pipe, fd);
    return err == 0;
}

/* Waits for the PROXY header, if the peer may send one. A connection without a peer was reset by it
 * already, as health checks do. */
static void expect_proxy_header(weir_connection *c)
{
    const weir_shared *shared = c->loop->shared;
    weir_peer_address peer;
    bool known = weir_server_peer_address(c, &peer);
    if (!known && !is_unix(c))
        weir_connection_close(c);
    else if (known && shared->may_proxy && !shared->may_proxy(shared->ctx, &peer))
        refuse_proxy(c, "it is not a trusted proxy (trusted_proxies)");
    else
        c->unproxied = true;
}

static void start(weir_connection *c, const weir_listener *listener)
{
    weir_loop *l = c->loop;
    c->next = l->connections;
    c->link = &l->connections;
    if (c->next)
        c->next->link = &c->next;
    l->connections = c;
    l->connections_len++;
    c->idle_since_ms = c->begun_ms = uv_now(&l->uv);
    if (c->refused) {
        l->refused_len++;
        close_with(c, listener->protocol->refusal);
        return;
    }
    port_bump_relaxed(&l->stats.accepted, 1);
    weir_buffer_init(&c->in, l->shared->limits.request + COPY_MAX + 2 * READ_SIZE);
    weir_buffer_init(&c->out, OUT_MAX);
    if (listener->proxy_protocol)
        expect_proxy_header(c);
    else
        open_session(c);
    after_event(c);
}

/* Sends the refusal without using memory for a connection, and closes the socket. */
static void refuse_socket(const weir_listener *listener, int fd)
{
    const char *text = listener->protocol->refusal;
    if (text)
        (void)send(fd, text, strlen(text), MSG_DONTWAIT | MSG_NOSIGNAL);
    close(fd);
}

static void count_refused(weir_loop *l)
{
    char text[96];
    snprintf(text, sizeof text,
             "refused a connection: %d are open, the maximum (limits.connections)",
             l->shared->limits.connections);
    port_bump_relaxed(&l->stats.refused, 1);
    weir_shared_report(l->shared, WEIR_EVENT_REFUSED, text);
}

void weir_connection_open(weir_listener *listener, int fd)
{
    weir_loop *l = listener->loop;
    port_counter *connected = &l->shared->connected;
    bool refused = port_add_relaxed(connected, 1) >= (uint64_t)l->shared->limits.connections;
    if (refused) {
        port_sub_relaxed(connected, 1);
        count_refused(l);
    }
    weir_connection *c = NULL;
    /* Reserving now makes sure that delaying a reply cannot fail later. */
    if ((!refused || l->refused_len < REFUSED_MAX) &&
        weir_wait_heap_reserve(&l->waits, l->connections_len + 1))
        c = port_zalloc(1, sizeof *c + (refused ? 0 : listener->protocol->session_size));
    if (c) {
        c->loop = l;
        c->protocol = listener->protocol;
        c->refused = refused;
        c->listener = (uint8_t)(listener - l->listeners);
        if (open_socket(c, listener->is_tcp, fd)) {
            start(c, listener);
            return;
        }
        uv_close(&c->uv.handle, on_closed);
    }
    if (!refused) {
        port_sub_relaxed(connected, 1);
        port_bump_relaxed(&l->stats.overloaded, 1);
        weir_shared_report(l->shared, WEIR_EVENT_OVERLOADED, "refused a connection: out of memory");
    }
    refuse_socket(listener, fd);
}
