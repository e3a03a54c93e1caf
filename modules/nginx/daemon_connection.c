/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* The socket, the timers, and the ring of questions without a reply.
 *
 * on_read() calls the peer's on_reply(). That may ask and cancel questions, which never closes a
 * connection or calls back: what fails there is left to a posted event. So on_read() can go on. */

#include "daemon_connection.h"

#include "port/assert.h"

#include <ngx_event_connect.h>

enum {
    RETRY_MIN_MS = 100,
    RETRY_MAX_MS = 5000,
    SILENT_MS = 1000, /* without a byte on a connection with an overdue reply, until it is closed */
    SLOTS_MIN = 64,
    SLOTS_MAX = 65536,  /* questions without a reply */
    OUT_MAX = 16 << 20, /* bytes that are not sent yet */
    OUT_KEPT = 1 << 20, /* the memory that an empty buffer keeps */
    IN_MAX = 32 << 10   /* more than the longest reply */
};

/* ---- the ring -------------------------------------------------------------------------------- */

static weir_ngx_slot *slot_of(const weir_ngx_connection *k, size_t number)
{
    WEIR_ASSERT(number - k->head <= k->tail - k->head && k->tail - k->head <= k->slots);
    return &k->slot[number & (k->slots - 1)];
}

static bool grow(weir_ngx_connection *k)
{
    size_t slots = k->slots ? 2 * k->slots : SLOTS_MIN;
    if (slots > SLOTS_MAX)
        return false;
    weir_ngx_slot *slot = ngx_alloc(slots * sizeof *slot, ngx_cycle->log);
    if (!slot)
        return false;
    for (size_t i = k->head; i != k->tail; i++)
        slot[i & (slots - 1)] = *slot_of(k, i);
    ngx_free(k->slot);
    k->slot = slot;
    k->slots = slots;
    return true;
}

/* Takes the question out of its slot, which then only waits for a reply to drop. */
static weir_ngx_waiting *detach(weir_ngx_connection *k, weir_ngx_slot *slot)
{
    weir_ngx_waiting *question = slot->question;
    if (!question)
        return NULL;
    WEIR_ASSERT(question->connection == k && k->live > 0);
    slot->question = NULL;
    question->connection = NULL;
    k->live--;
    return question;
}

static void fail_slot(weir_ngx_connection *k, weir_ngx_slot *slot, weir_ngx_answer why)
{
    weir_ngx_waiting *question = detach(k, slot);
    if (question)
        k->peer->on_fail(k->peer, question, why);
}

/* ---- closing --------------------------------------------------------------------------------- */

static void stop_timer(ngx_event_t *timer)
{
    if (timer->timer_set)
        ngx_del_timer(timer);
}

static void close_socket(weir_ngx_connection *k)
{
    if (k->c)
        ngx_close_connection(k->c);
    k->c = NULL;
    k->state = WEIR_NGX_CLOSED;
    k->in_len = 0;
    stop_timer(&k->retry);
}

/* Closes the connection, and fails its questions. */
static void close_connection(weir_ngx_connection *k, weir_ngx_answer why)
{
    close_socket(k);
    stop_timer(&k->deadline);
    for (; k->head != k->tail; k->head++)
        fail_slot(k, slot_of(k, k->head), why);
    k->due = k->head;
    weir_buffer_free(&k->out);
}

/* Logs only the first reason until the daemon is available again, and after it only the first error
 * reply, such as for a wrong password, which needs the operator.
 *  text  the error reply, or empty */
static void log_lost(weir_ngx_peer *d, ngx_err_t err, const char *why, weir_slice text)
{
    if (d->lost && (text.len == 0 || ngx_strcmp(d->lost, why) == 0))
        return;
    d->lost = why;
    ngx_log_error(NGX_LOG_ERR, ngx_cycle->log, err, "weir daemon \"%V\" is unavailable: %s%*s",
                  &d->name, why, text.len, text.at);
}

/* Closes a connection that broke, and starts the timer for the next attempt. */
static void fail_with(weir_ngx_connection *k, ngx_err_t err, const char *why, weir_slice text)
{
    weir_ngx_peer *d = k->peer;
    if (!ngx_exiting)
        log_lost(d, err, why, text);
    if (k->state != WEIR_NGX_READY)
        k->address = (k->address + 1) % d->addresses;
    bool was_sent = k->state == WEIR_NGX_GREETING || k->state == WEIR_NGX_READY;
    close_connection(k, was_sent ? WEIR_NGX_ASK_LOST : WEIR_NGX_ASK_DOWN);
    k->down = true;
    if (ngx_exiting)
        return;
    ngx_add_timer(&k->retry, k->delay);
    k->delay = ngx_min(2 * k->delay, (ngx_msec_t)RETRY_MAX_MS);
}

static void fail(weir_ngx_connection *k, ngx_err_t err, const char *why)
{
    fail_with(k, err, why, (weir_slice){"", 0});
}

/* Called last in each event handler. A worker that shuts down closes a connection as soon as no
 * request waits for it. */
static void settle(weir_ngx_connection *k)
{
    bool idle = k->live == 0;
    k->deadline.cancelable = idle;
    if (k->c)
        k->c->idle = idle;
    if (idle && ngx_exiting)
        close_connection(k, WEIR_NGX_ASK_LOST);
}

/* ---- deadlines ------------------------------------------------------------------------------- */

static bool is_past(ngx_msec_t time)
{
    return (ngx_msec_int_t)(ngx_current_msec - time) >= 0;
}

static void set_deadline(weir_ngx_connection *k, ngx_msec_t time)
{
    ngx_event_t *timer = &k->deadline;
    if (timer->timer_set && (ngx_msec_int_t)(timer->timer.key - time) <= 0)
        return; /* the handler sets it again */
    stop_timer(timer);
    ngx_msec_int_t wait = (ngx_msec_int_t)(time - ngx_current_msec);
    ngx_add_timer(timer, wait > 0 ? (ngx_msec_t)wait : 0);
}

/* When the connection is given up, if no byte arrives until then. Only valid if a reply is overdue,
 * that is, if head != due. */
static ngx_msec_t silent_until(const weir_ngx_connection *k)
{
    ngx_msec_t since = slot_of(k, k->head)->deadline;
    if ((ngx_msec_int_t)(k->heard - since) > 0)
        since = k->heard;
    return since + SILENT_MS;
}

/* Fails the questions whose deadline has passed. Returns whether there were any. */
static bool expire(weir_ngx_connection *k)
{
    size_t before = k->due;
    while (k->due != k->tail && is_past(slot_of(k, k->due)->deadline)) {
        fail_slot(k, slot_of(k, k->due), WEIR_NGX_ASK_TIMEOUT);
        k->due++;
    }
    return k->due != before;
}

static void on_deadline(ngx_event_t *timer)
{
    weir_ngx_connection *k = ((ngx_connection_t *)timer->data)->data;
    bool expired = expire(k);
    if (expired && k->state != WEIR_NGX_READY) {
        /* The next attempt may take as long as connect_timeout, as no question waits for it. */
        fail(k, 0, "connecting took longer than timeout= allows");
    } else if (k->head != k->due && is_past(silent_until(k))) {
        fail(k, NGX_ETIMEDOUT, "no reply");
    } else {
        if (k->head != k->due)
            set_deadline(k, silent_until(k));
        if (k->due != k->tail)
            set_deadline(k, slot_of(k, k->due)->deadline);
    }
    settle(k);
}

/* ---- replies --------------------------------------------------------------------------------- */

static void on_greeting(weir_ngx_connection *k)
{
    weir_ngx_peer *d = k->peer;
    k->state = WEIR_NGX_READY;
    k->down = false;
    k->tried = 0;
    stop_timer(&k->retry);
    if (!d->lost)
        return;
    d->lost = NULL;
    ngx_log_error(NGX_LOG_NOTICE, ngx_cycle->log, 0, "weir daemon \"%V\" is available again",
                  &d->name);
}

static void log_refused(weir_ngx_peer *d, weir_slice text)
{
    if (d->may_warn(d))
        ngx_log_error(NGX_LOG_ERR, ngx_cycle->log, 0,
                      "weir daemon \"%V\" replied with an error: %*s", &d->name, text.len, text.at);
}

/* A reply to the question at the head. */
static void on_reply(weir_ngx_connection *k, weir_ngx_reading reading, const weir_ngx_reply *reply)
{
    WEIR_ASSERT(k->head != k->tail);
    weir_ngx_waiting *question = detach(k, slot_of(k, k->head));
    k->due += k->due == k->head;
    k->head++;
    bool decided = reading == WEIR_NGX_READ_DECISION;
    if (decided)
        k->delay = RETRY_MIN_MS;
    else
        log_refused(k->peer, reply->error);
    if (question)
        k->peer->on_reply(question, decided ? reply : NULL);
}

/* Parses the reply at *pos. Returns false if it is incomplete, or if the connection had to be
 * closed. */
static bool read_reply(weir_ngx_connection *k, size_t *pos)
{
    bool greets = k->state == WEIR_NGX_GREETING;
    if (!greets && k->head == k->tail) {
        fail(k, 0, "it sent a reply that no command waits for");
        return false;
    }
    size_t limits = greets ? 0 : slot_of(k, k->head)->limits;
    weir_ngx_reply reply;
    weir_ngx_reading r = weir_ngx_wire_read(k->in + *pos, k->in_len - *pos, limits, &reply);
    if (r == WEIR_NGX_READ_MORE) {
        if (k->in_len - *pos == IN_MAX)
            fail(k, 0, "a reply is too long");
        return false;
    }
    if (r == WEIR_NGX_READ_BAD) {
        fail(k, 0, "its reply is not one of a weir daemon");
        return false;
    }
    if (greets && r == WEIR_NGX_READ_ERROR) {
        fail_with(k, 0, "it refused the connection: ", reply.error);
        return false;
    }
    *pos += reply.used;
    if (greets)
        on_greeting(k);
    else
        on_reply(k, r, &reply);
    return true;
}

/* Returns false if the connection had to be closed. */
static bool read_replies(weir_ngx_connection *k)
{
    size_t pos = 0;
    while (pos < k->in_len && read_reply(k, &pos))
        continue;
    if (!k->c)
        return false;
    k->in_len -= pos;
    if (pos > 0 && k->in_len > 0)
        ngx_memmove(k->in, k->in + pos, k->in_len);
    return true;
}

/* ---- the socket ------------------------------------------------------------------------------ */

/* The connection was closed by the daemon, or recv() failed. While no reply is awaited, that is no
 * failure: the next question opens it again. */
static void on_end(weir_ngx_connection *k, ngx_err_t err)
{
    if (k->state == WEIR_NGX_READY && k->head == k->tail)
        close_connection(k, WEIR_NGX_ASK_LOST);
    else
        fail(k, err, err ? "recv() failed" : "it closed the connection");
}

static void send_questions(weir_ngx_connection *k)
{
    ngx_connection_t *c = k->c;
    while (weir_buffer_len(&k->out) > 0) {
        ssize_t n = NGX_AGAIN;
        if (c->write->ready)
            n = c->send(c, weir_buffer_data(&k->out), weir_buffer_len(&k->out));
        if (n == NGX_AGAIN) {
            if (ngx_handle_write_event(c->write, 0) != NGX_OK)
                fail(k, 0, "nginx cannot wait for it; the log has nginx's error before this line");
            return;
        }
        if (n < 0) {
            fail(k, ngx_socket_errno, "send() failed");
            return;
        }
        weir_buffer_consume(&k->out, (size_t)n);
    }
    if (weir_buffer_memory(&k->out) > OUT_KEPT)
        weir_buffer_free(&k->out);
}

static void connect_to(weir_ngx_connection *k);

static void on_refused(weir_ngx_connection *k, ngx_err_t err)
{
    close_socket(k); /* nothing was sent: the questions can go to another address */
    k->tried++;
    if (k->tried < k->peer->addresses) {
        k->address = (k->address + 1) % k->peer->addresses;
        connect_to(k);
        return;
    }
    k->tried = 0;
    fail(k, err, "connect() failed");
}

/* Whether connect() has ended well. */
static bool is_connected(weir_ngx_connection *k)
{
    int err = 0;
    socklen_t len = sizeof err;
    if (getsockopt(k->c->fd, SOL_SOCKET, SO_ERROR, &err, &len) == -1)
        err = ngx_socket_errno;
    if (err) {
        on_refused(k, err);
        return false;
    }
    k->state = WEIR_NGX_GREETING;
    if (k->peer->address[k->address].sockaddr->sa_family != AF_UNIX)
        (void)ngx_tcp_nodelay(k->c);
    return true;
}

static void on_write(ngx_event_t *event)
{
    ngx_connection_t *c = event->data;
    weir_ngx_connection *k = c->data;
    if (k->state != WEIR_NGX_CONNECTING || is_connected(k))
        send_questions(k);
    settle(k);
}

/* Reads until the socket is empty or the connection is closed. */
static void receive(weir_ngx_connection *k)
{
    ngx_connection_t *c = k->c;
    for (;;) {
        ssize_t n = c->recv(c, k->in + k->in_len, IN_MAX - k->in_len);
        if (n == NGX_AGAIN)
            break;
        if (n <= 0) {
            on_end(k, n == 0 ? 0 : ngx_socket_errno);
            return;
        }
        k->heard = ngx_current_msec;
        k->in_len += (size_t)n;
        if (!read_replies(k))
            return;
    }
    if (ngx_handle_read_event(c->read, 0) != NGX_OK)
        fail(k, 0, "nginx cannot wait for it; the log has nginx's error before this line");
}

static void on_read(ngx_event_t *event)
{
    ngx_connection_t *c = event->data;
    weir_ngx_connection *k = c->data;
    if (c->close) /* the worker shuts down */
        close_connection(k, WEIR_NGX_ASK_LOST);
    else if (k->state != WEIR_NGX_CONNECTING)
        receive(k);
    else if (is_connected(k))
        send_questions(k); /* on_write() may be called later or not at all */
    settle(k);
}

static bool prepare(weir_ngx_connection *k)
{
    if (!k->in)
        k->in = ngx_alloc(IN_MAX, ngx_cycle->log);
    if (weir_buffer_len(&k->out) == 0)
        weir_ngx_wire_put_greeting(&k->out, k->peer->password);
    return k->in && !k->out.failed;
}

/* Connects to k->address. */
static void connect_to(weir_ngx_connection *k)
{
    weir_ngx_peer *d = k->peer;
    WEIR_ASSERT(k->state == WEIR_NGX_CLOSED && !k->c);
    ngx_addr_t *address = &d->address[k->address];
    ngx_peer_connection_t peer;
    ngx_memzero(&peer, sizeof peer);
    peer.sockaddr = address->sockaddr;
    peer.socklen = address->socklen;
    peer.name = &address->name;
    peer.get = ngx_event_get_peer;
    peer.log = &d->quiet;
    peer.log_error = NGX_ERROR_INFO;
    d->quiet = *ngx_cycle->log;
    d->quiet.log_level = NGX_LOG_ALERT;
    ngx_set_socket_errno(0);
    ngx_int_t rc = ngx_event_connect_peer(&peer);
    if (rc != NGX_OK && rc != NGX_AGAIN) {
        on_refused(k, ngx_socket_errno);
        return;
    }
    ngx_connection_t *c = peer.connection;
    c->data = k;
    c->log = c->read->log = c->write->log = ngx_cycle->log;
    c->read->handler = on_read;
    c->write->handler = on_write;
    k->c = c;
    k->state = WEIR_NGX_CONNECTING;
    ngx_add_timer(&k->retry, d->connect_timeout);
    if (rc == NGX_OK && is_connected(k))
        send_questions(k);
}

static void begin(weir_ngx_connection *k)
{
    k->tried = 0;
    if (prepare(k))
        connect_to(k);
    else
        fail(k, NGX_ENOMEM, "out of memory");
}

static void on_retry(ngx_event_t *timer)
{
    weir_ngx_connection *k = ((ngx_connection_t *)timer->data)->data;
    if (k->state != WEIR_NGX_CLOSED)
        fail(k, NGX_ETIMEDOUT, k->state == WEIR_NGX_CONNECTING ? "connect() failed" : "no reply");
    else if (!ngx_exiting)
        begin(k);
    settle(k);
}

static void on_flush(ngx_event_t *event)
{
    weir_ngx_connection *k = ((ngx_connection_t *)event->data)->data;
    if (k->out.failed)
        fail(k, NGX_ENOMEM, "out of memory");
    else if (k->state == WEIR_NGX_CLOSED && k->live > 0)
        begin(k);
    else if (k->state == WEIR_NGX_CLOSED && !k->down)
        close_connection(k, WEIR_NGX_ASK_DOWN); /* all questions were cancelled */
    else if (k->state == WEIR_NGX_GREETING || k->state == WEIR_NGX_READY)
        send_questions(k);
    settle(k);
}

/* ---- questions ------------------------------------------------------------------------------- */

static void event_init(weir_ngx_connection *k, ngx_event_t *event, ngx_event_handler_pt handler)
{
    event->handler = handler;
    event->data = &k->stand_in;
}

void weir_ngx_connection_init(weir_ngx_connection *k, weir_ngx_peer *peer)
{
    *k = (weir_ngx_connection){.peer = peer, .delay = RETRY_MIN_MS};
    k->stand_in.fd = (ngx_socket_t)-1;
    k->stand_in.data = k;
    weir_buffer_init(&k->out, OUT_MAX);
    event_init(k, &k->flush, on_flush);
    event_init(k, &k->deadline, on_deadline);
    event_init(k, &k->retry, on_retry);
    k->retry.cancelable = 1;
}

void weir_ngx_connection_free(weir_ngx_connection *k)
{
    close_connection(k, WEIR_NGX_ASK_LOST);
    if (k->flush.posted) {
        ngx_delete_posted_event(&k->flush); /* a macro of two statements */
    }
    ngx_free(k->slot);
    ngx_free(k->in);
}

static void post_flush(weir_ngx_connection *k)
{
    ngx_post_event(&k->flush, &ngx_posted_events);
}

bool weir_ngx_connection_ask(weir_ngx_connection *k, weir_ngx_waiting *question,
                             const weir_ngx_ask_limit *limit, size_t limits)
{
    k->flush.log = k->deadline.log = k->retry.log = ngx_cycle->log;
    post_flush(k);
    if (k->state == WEIR_NGX_CLOSED && !prepare(k))
        return false;
    size_t size = weir_ngx_wire_size(limit, limits);
    if (k->out.failed || size > OUT_MAX - weir_buffer_len(&k->out))
        return false;
    if (k->tail - k->head == k->slots && !grow(k))
        return false;
    weir_ngx_wire_put(&k->out, limit, limits);
    if (k->out.failed)
        return false;
    ngx_msec_t deadline = ngx_current_msec + k->peer->timeout;
    question->connection = k;
    question->number = k->tail;
    *slot_of(k, k->tail++) = (weir_ngx_slot){question, deadline, limits};
    k->live++; /* on_flush() marks the connection as busy */
    set_deadline(k, deadline);
    return true;
}

void weir_ngx_connection_cancel(weir_ngx_waiting *question)
{
    weir_ngx_connection *k = question->connection;
    WEIR_ASSERT(k && slot_of(k, question->number)->question == question);
    (void)detach(k, slot_of(k, question->number));
    if (k->live == 0)
        post_flush(k); /* a worker that shuts down closes the connection then */
}
