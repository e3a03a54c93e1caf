/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* A connection reads into the buffer of its loop, lets its session answer all requests as one batch
 * with the same time, and sends the replies. Input and output that cannot be handled at once are
 * copied to buffers of the connection. Back-pressure: while replies are unsent, it neither reads
 * nor answers, so a client that does not read its replies delays only itself. It must not know the
 * protocol. */

#include "net/loop.h"
#include "port/assert.h"

#include <errno.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

enum {
    READ_SIZE = 64 << 10,   /* bytes of one read */
    COPY_MAX = 16 << 10,    /* kept input up to this size is copied before the next read */
    OUT_PAUSE = 64 << 10,   /* bytes of replies after which they are sent */
    OUT_KEPT = 256 << 10,   /* bytes of output buffer that a loop keeps */
    KEPT = 512,             /* bytes of buffer that an idle connection keeps */
    LINGER_BYTES = 4 << 20, /* the most input that it discards meanwhile */
    LAST_READS_MAX = 16,    /* reads from a connection when the server stops */
    VISIT = 64 << 10,       /* bytes of input and replies, after which others are served */
    VISIT_MIN = 256,        /* added to the bytes of each visit */
    /* Once the budget of an iteration of the loop is used up, only connections with at most SMALL
     * bytes of input are served, and send about as many. Once it is exceeded by OVERDRAFT, none
     * are. */
    SMALL = 2 << 10,
    OVERDRAFT = 1 << 20,
};

_Static_assert(COPY_MAX + 2 * READ_SIZE == WEIR_CONNECTION_IN_MORE, "what is kept, and two reads");

static void resume(weir_connection *c);

void weir_connection_on_ready(void *ctx)
{
    weir_connection *c = ctx;
    WEIR_ASSERT(c->in_session);
    c->woken = true;
    net_queue_add(&c->loop->woken, &c->woken_place);
}

/* ---- memory ---------------------------------------------------------------------------------- */

static weir_session_usage session_usage(const weir_connection *c)
{
    bool known = c->in_session && c->protocol->usage;
    return known ? c->protocol->usage(c->session) : (weir_session_usage){0};
}

bool weir_connection_is_mid_request(const weir_connection *c)
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

static void leave_queues(weir_connection *c)
{
    net_queue_remove(&c->loop->woken, &c->woken_place);
    net_queue_remove(&c->loop->backlog, &c->backlog_place);
}

static void unlink_from_loop(weir_connection *c)
{
    weir_loop *l = c->loop;
    WEIR_ASSERT(c->state != WEIR_CONNECTION_CLOSED && *c->link == c && l->connections_len > 0);
    WEIR_ASSERT(!c->refused || l->refused_len > 0);
    leave_queues(c);
    c->state = WEIR_CONNECTION_CLOSED;
    l->refused_len -= c->refused;
    net_queue_remove(&l->refused, &c->refused_place);
    weir_connection_uncount(c);
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

void weir_connection_reset(weir_connection *c)
{
    close_connection(c, true);
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

static bool has_budget(const weir_loop *l)
{
    return l->budget > 0 || l->stopping;
}

/* Whether a visit must wait for a later iteration of the loop.
 *  len  bytes of input; negative: unknown, so the socket is asked if it matters. */
static bool must_wait(const weir_connection *c, int len)
{
    if (has_budget(c->loop))
        return false;
    if (c->loop->budget <= -OVERDRAFT)
        return true;
    if (len < 0 && ioctl(weir_connection_socket(c), FIONREAD, &len) != 0)
        return true;
    return len > SMALL;
}

static void queue_up(weir_connection *c)
{
    c->missed = false;
    weir_loop_queue(c->loop, c);
}

/* Without a buffer, libuv calls on_read() with UV_ENOBUFS. Input of a connection that must wait is
 * not read, so it takes no memory. */
static void on_alloc(uv_handle_t *handle, size_t suggested, uv_buf_t *ret)
{
    (void)suggested;
    weir_connection *c = handle->data;
    if (c->state == WEIR_CONNECTION_READ && !weir_connection_is_queued(c) && must_wait(c, -1))
        queue_up(c);
    weir_buffer *in = weir_connection_is_queued(c) ? NULL : ready_to_read(c);
    unsigned size = has_budget(c->loop) ? READ_SIZE : SMALL;
    *ret = uv_buf_init(in ? (char *)weir_buffer_tail(in) : NULL, in ? size : 0);
}

static void received(weir_connection *c, weir_buffer *in, size_t n)
{
    port_bump_relaxed(&c->loop->stats.bytes_in, n);
    weir_buffer_added(in, n);
    c->idle_since_ms = uv_now(&c->loop->uv);
    c->heard = true;
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

/* Shuts down sending, and waits for the client to close. */
static void linger(weir_connection *c)
{
    leave_queues(c);
    c->state = WEIR_CONNECTION_LINGER;
    c->since_ms = uv_now(&c->loop->uv);
    c->unsent = 0;
    free_session(c);
    if (shutdown(weir_connection_socket(c), SHUT_WR) == 0)
        read_on(c);
    else
        weir_connection_close(c);
}

void weir_connection_close_with(weir_connection *c, const char *text)
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
        weir_connection_close_with(c, c->protocol->overload);
    else
        linger(c);
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
 * weir_connection_check_memory() closes the connection. */
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

/* Runs the session on `in` and sends the replies, until it needs input or has had its share of the
 * iteration. Then `again` is set. Returns whether a request was answered: the session has replied
 * or, if it consumes only complete requests, has consumed input. */
static bool run(weir_connection *c, weir_buffer *in)
{
    weir_loop *l = c->loop;
    int64_t now_ns = weir_loop_now(l);
    size_t share = has_budget(l) ? VISIT : SMALL, used = VISIT_MIN;
    size_t out_pause = share < OUT_PAUSE ? share : OUT_PAUSE;
    bool answered = false, more = true;
    c->again = false;
    while (more) {
        size_t len = weir_buffer_len(in);
        WEIR_ASSERT(c->in_session && c->state == WEIR_CONNECTION_READ);
        WEIR_ASSERT(weir_buffer_len(&l->out) == 0);
        c->woken = false;
        weir_session_step step = c->protocol->run(c->session, in, &l->out, out_pause, now_ns);
        bool consumed = weir_buffer_len(in) < len;
        bool replied = weir_buffer_len(&l->out) > 0;
        used += len - weir_buffer_len(in) + weir_buffer_len(&l->out) + step.work;
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
        c->again = more && used >= share && !l->stopping;
        more = more && !c->again;
    }
    l->budget -= (int64_t)used;
    return answered;
}

void weir_connection_check_memory(weir_connection *c)
{
    const weir_server_limits *limits = &c->loop->limits;
    size_t before = c->held;
    WEIR_ASSERT(c->state < WEIR_CONNECTION_LINGER);
    count_memory(c);
    if (c->in.failed)
        overload(c, "closed a connection: out of memory for requests", true);
    else if (c->state == WEIR_CONNECTION_READ && !c->again &&
             weir_buffer_len(&c->in) > limits->request)
        overload(c, "closed a connection: its request is too long", true);
    else if (c->held > before && port_load_relaxed(&c->loop->shared->buffered) > limits->buffers)
        overload(c, "closed a connection: the buffers of all connections exceed limits.buffers",
                 weir_connection_is_mid_request(c) || delays_reply(c) ||
                     c->state == WEIR_CONNECTION_PENDING);
}

/* Answers the requests in `in`.
 *  continued  `in` begins with a part of a request whose timeout is already running. */
static void serve(weir_connection *c, weir_buffer *in, bool continued)
{
    if (c->unproxied) {
        if (!weir_connection_take_proxy_header(c, in))
            return;
        if (c->unproxied || weir_buffer_len(in) == 0) { /* nothing for the session has arrived */
            keep_in(c, in);
            weir_connection_check_memory(c);
            return;
        }
    }
    bool answered = run(c, in);
    if (c->state == WEIR_CONNECTION_CLOSED || c->state == WEIR_CONNECTION_LINGER)
        return;
    keep_in(c, in);
    if (answered || !continued)
        c->begun_ms = uv_now(&c->loop->uv);
    if (c->state == WEIR_CONNECTION_READ && c->after == WEIR_SESSION_CLOSE)
        linger(c);
    else
        weir_connection_check_memory(c);
    if (c->again && c->state == WEIR_CONNECTION_READ)
        queue_up(c);
}

/* Reads without libuv what has arrived. Returns how many bytes were answered; 0 if the connection
 * was closed; -1 if nothing has arrived. */
static ssize_t read_and_serve(weir_connection *c)
{
    bool continued = weir_connection_is_mid_request(c);
    weir_buffer *in = ready_to_read(c);
    if (!in) {
        overload(c, "closed a connection: out of memory for requests", true);
        return 0;
    }
    ssize_t n = recv(weir_connection_socket(c), weir_buffer_tail(in), READ_SIZE, MSG_DONTWAIT);
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return -1;
    if (n <= 0) {
        weir_connection_close(c);
        return 0;
    }
    received(c, in, (size_t)n);
    serve(c, in, continued);
    return n;
}

/* Answers the requests that arrived before the server stopped, and closes. */
static void finish(weir_connection *c)
{
    net_queue_remove(&c->loop->backlog, &c->backlog_place);
    if (c->again)
        serve(c, &c->in, false);
    while (c->state == WEIR_CONNECTION_READ && c->last_reads < LAST_READS_MAX) {
        c->last_reads++;
        if (read_and_serve(c) < 0)
            break;
    }
    if (c->state != WEIR_CONNECTION_READ)
        return;
    /* Without recent input, there is no unread input that could reset the connection. */
    if (uv_now(&c->loop->uv) - c->idle_since_ms > WEIR_LINGER_MS)
        weir_connection_close(c);
    else
        linger(c);
}

void weir_connection_after_event(weir_connection *c)
{
    const weir_loop *l = c->loop;
    /* A session that is polled decides itself when it ends. */
    if (l->stopping && c->state == WEIR_CONNECTION_READ && (!c->protocol->poll || c->unproxied))
        finish(c);
    if (l->stopping && c->state == WEIR_CONNECTION_WAIT &&
        (c->wait.at_ns > l->last_ns || !delays_reply(c)))
        weir_connection_close(c);
    if (weir_connection_is_queued(c))
        return;
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
        c->again = must_wait(c, (int)weir_buffer_len(&c->in));
        if (c->again)
            queue_up(c);
        else
            serve(c, &c->in, false);
    }
    weir_connection_after_event(c);
}

void weir_connection_visit(weir_connection *c)
{
    WEIR_ASSERT(c->state == WEIR_CONNECTION_READ);
    if (c->again)
        serve(c, &c->in, false);
    else if (read_and_serve(c) == READ_SIZE && c->state == WEIR_CONNECTION_READ)
        queue_up(c);
    weir_connection_after_event(c);
}

void weir_connection_wake(weir_connection *c)
{
    if (c->state == WEIR_CONNECTION_PENDING)
        resume(c);
}

static void on_read(uv_stream_t *stream, ssize_t n, const uv_buf_t *buf)
{
    weir_connection *c = stream->data;
    weir_buffer *in = reading_buffer(c);
    if (n == UV_ENOBUFS && weir_connection_is_queued(c)) {
        if (c->missed) /* it waits for more than an iteration */
            read_stop(c);
        c->missed = true;
        return;
    }
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
    received(c, in, (size_t)n);
    if (c->state == WEIR_CONNECTION_LINGER) {
        c->unsent += (size_t)n;
        c->loop->budget -= n;
        if (c->unsent > LINGER_BYTES)
            weir_connection_close(c);
        return;
    }
    if (c->state == WEIR_CONNECTION_WAIT || c->state == WEIR_CONNECTION_PENDING) {
        keep_in(c, in);
        weir_connection_check_memory(c);
    } else {
        serve(c, in, weir_connection_is_mid_request(c));
        if ((size_t)n == buf->len && c->state == WEIR_CONNECTION_READ && !c->loop->stopping)
            queue_up(c); /* probably, more has arrived */
    }
    weir_connection_after_event(c);
}

/* ---- polling --------------------------------------------------------------------------------- */

void weir_connection_poll(weir_connection *c)
{
    const weir_loop *l = c->loop;
    if (c->state != WEIR_CONNECTION_READ || !c->in_session || !c->protocol->poll ||
        !c->protocol->poll(c->session, weir_loop_now(l), l->stopping))
        return;
    if (weir_connection_is_queued(c)) {
        c->again = true;
        return;
    }
    serve(c, &c->in, weir_connection_is_mid_request(c));
    weir_connection_after_event(c);
}

void weir_connection_stop(weir_connection *c)
{
    weir_connection_poll(c);
    weir_connection_after_event(c);
}

void weir_connection_refuse(weir_connection *c)
{
    weir_connection_close_with(c, c->protocol->refusal);
}
