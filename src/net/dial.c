/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* Connections are sockets that the loop polls. They are read and written here and not by libuv,
 * because the output buffer must be able to grow while a part of it is being sent. Callbacks are
 * called from the loop only. A closed connection keeps its memory until libuv has closed its timer,
 * so it is still valid when a callback returns. */

#include "net/dial.h"

#include "port/assert.h"
#include "port/port.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

enum {
    READ_SIZE = 64 << 10, /* bytes of one recv() */
    READS_MAX = 4,        /* calls of recv() before other connections are served */
    IN_MAX = 64 << 20,    /* bytes of unread input */
    OUT_MAX = 64 << 20,   /* bytes of unsent output */
    KEPT = 256 << 10,     /* an empty buffer above this size is freed */
    ESTABLISH_MS = 5000,  /* to establish a connection */
    ATTEMPT_MS = 1000,    /* to connect to one of several addresses */
    KEEPALIVE_S = 30,     /* without traffic until TCP keepalive probes are sent */
    WHY_MAX = 256,
};

typedef enum stage {
    STAGE_BEGIN,   /* nothing is done yet */
    STAGE_RESOLVE, /* the host name is being looked up */
    STAGE_CONNECT,
    STAGE_HANDSHAKE, /* the TLS handshake is in progress */
    STAGE_ESTABLISHED,
    STAGE_CLOSED
} stage;

struct net_dialer {
    port_dialer port; /* first: users hold a pointer to it */
    net_dialer_options options;
    net_resolver *resolver;
    uv_prepare_t prepare; /* sends what timers have added, before the loop polls */
    uv_check_t check;     /* sends what socket events have added */
    int handles;          /* how many of `prepare` and `check` are not closed */
    port_connection *connections;
    port_timer *timers;
    port_connection *dirty; /* connections with output to send */
};

struct port_connection {
    net_dialer *dialer;
    port_connection *next, **link; /* in the list of all connections */
    port_connection *dirty_next;   /* in the list of those with output to send */
    bool is_dirty, watches_writes; /* watches_writes: the send buffer of the socket is full */
    stage stage;
    port_connection_events events;
    void *ctx;
    uv_timer_t timer;       /* starts an attempt, then limits it; closing it frees the connection */
    uint64_t give_up_ms;    /* by uv_now() */
    net_lookup *lookup;     /* of its host name, in flight; else NULL */
    struct addrinfo *found; /* to be freed */
    struct addrinfo single; /* used instead of `found` for an address that is no host name */
    struct sockaddr_storage address;
    const struct addrinfo *at; /* the current address */
    int tried;                 /* how many addresses */
    uint32_t skip;             /* how many addresses are tried last */
    uv_poll_t *poll;           /* NULL: no socket */
    int fd;
    const port_tls *tls;
    net_tls_session *tls_session;
    weir_buffer in, out, wire; /* wire: encrypted output */
    uint16_t port;
    char *host, *tls_name; /* stored after this struct */
};

struct port_timer {
    uv_timer_t timer; /* first: freed with it */
    net_dialer *dialer;
    port_timer *next, **link;
    void (*fn)(void *ctx, int64_t now_ns);
    void *ctx;
    int64_t at_ns;    /* INT64_MAX: never */
    int64_t armed_ns; /* when the libuv timer fires, at_ns or earlier; INT64_MAX: not set */
};

static net_dialer *dialer_of(port_dialer *d)
{
    return (net_dialer *)d;
}

static int64_t now_of(const net_dialer *d)
{
    return d->options.now(d->options.ctx);
}

static const char *error_text(int err)
{
    return uv_strerror(uv_translate_sys_error(err));
}

/* ---- closing --------------------------------------------------------------------------------- */

static void free_handle(uv_handle_t *handle)
{
    port_free(handle);
}

static void on_timer_closed(uv_handle_t *timer)
{
    port_connection *c = timer->data;
    weir_buffer_free(&c->in);
    weir_buffer_free(&c->out);
    weir_buffer_free(&c->wire);
    port_free(c);
}

static void drop_socket(port_connection *c)
{
    if (!c->poll)
        return;
    uv_close((uv_handle_t *)c->poll, free_handle);
    close(c->fd);
    c->poll = NULL;
}

static void remove_dirty(port_connection *c)
{
    if (!c->is_dirty)
        return;
    port_connection **link = &c->dialer->dirty;
    while (*link != c) {
        WEIR_ASSERT(*link);
        link = &(*link)->dirty_next;
    }
    *link = c->dirty_next;
}

static void close_connection(port_connection *c)
{
    WEIR_ASSERT(c->stage != STAGE_CLOSED && *c->link == c);
    c->stage = STAGE_CLOSED;
    remove_dirty(c);
    drop_socket(c);
    if (c->lookup)
        net_lookup_cancel(c->lookup);
    if (c->found)
        freeaddrinfo(c->found);
    net_tls_session_close(c->tls_session);
    *c->link = c->next;
    if (c->next)
        c->next->link = c->link;
    uv_close((uv_handle_t *)&c->timer, on_timer_closed);
}

/* Closes the connection and calls its last callback. */
static void end(port_connection *c, const char *why)
{
    close_connection(c);
    c->events.closed(c->ctx, why, now_of(c->dialer));
}

/* ---- sending --------------------------------------------------------------------------------- */

static void on_socket(uv_poll_t *poll, int status, int events);

static void poll_socket(port_connection *c)
{
    uv_poll_start(c->poll, c->watches_writes ? UV_READABLE | UV_WRITABLE : UV_READABLE, on_socket);
}

static void watch(port_connection *c, bool writes)
{
    if (writes == c->watches_writes)
        return;
    c->watches_writes = writes;
    poll_socket(c);
}

static void empty(weir_buffer *b)
{
    if (weir_buffer_memory(b) > KEPT)
        weir_buffer_free(b);
    else
        weir_buffer_clear(b);
}

/* Sends as much as the socket accepts. Returns false with errno if the connection is broken. */
static bool push(port_connection *c, weir_buffer *b)
{
    WEIR_ASSERT(c->poll && c->stage >= STAGE_CONNECT && c->stage < STAGE_CLOSED);
    while (weir_buffer_len(b) > 0) {
        ssize_t n = send(c->fd, weir_buffer_data(b), weir_buffer_len(b), MSG_NOSIGNAL);
        if (n < 0 && errno != EAGAIN)
            return false;
        watch(c, n < 0);
        if (n < 0)
            return true;
        weir_buffer_consume(b, (size_t)n);
    }
    empty(b);
    watch(c, false);
    return true;
}

/* Encrypts and sends as much as the socket accepts. Does not loop while the server renegotiates. */
static void flush_tls(port_connection *c)
{
    char why[WHY_MAX];
    size_t before;
    do {
        before = weir_buffer_len(&c->out) + weir_buffer_len(&c->wire);
        if (net_tls_session_run(c->tls_session, &c->in, &c->out, &c->wire, why, sizeof why) ==
            NET_TLS_CLOSED) {
            end(c, why);
            return;
        }
        if (!push(c, &c->wire)) {
            end(c, error_text(errno));
            return;
        }
    } while (weir_buffer_len(&c->out) > 0 && weir_buffer_len(&c->out) < before &&
             weir_buffer_len(&c->wire) == 0);
    if (weir_buffer_len(&c->out) == 0)
        empty(&c->out);
}

static void flush(port_connection *c)
{
    if (c->out.failed)
        end(c, "more than 64 MiB of output are unsent, or memory is exhausted");
    else if (c->tls_session)
        flush_tls(c);
    else if (c->stage == STAGE_ESTABLISHED && !push(c, &c->out))
        end(c, error_text(errno));
}

/* Encrypts the output. Leaves `in` as it is, which a callback may be reading. */
static bool encrypt_last(port_connection *c)
{
    char why[WHY_MAX];
    weir_buffer in;
    weir_buffer_init(&in, IN_MAX);
    net_tls_state state =
        net_tls_session_run(c->tls_session, &in, &c->out, &c->wire, why, sizeof why);
    weir_buffer_free(&in);
    return state != NET_TLS_CLOSED;
}

/* Sends without waiting, and closes without a callback. */
static void hang_up(port_connection *c)
{
    if (c->stage == STAGE_ESTABLISHED && !c->out.failed && (!c->tls_session || encrypt_last(c)))
        (void)push(c, c->tls_session ? &c->wire : &c->out);
    close_connection(c);
}

static void flush_all(net_dialer *d)
{
    if (d->options.before_send)
        d->options.before_send(d->options.before_send_ctx);
    for (port_connection *c; (c = d->dirty);) {
        WEIR_ASSERT(c->is_dirty && c->stage != STAGE_CLOSED);
        d->dirty = c->dirty_next;
        c->is_dirty = false;
        flush(c);
    }
}

static void on_prepare(uv_prepare_t *prepare)
{
    flush_all(prepare->data);
}

static void on_check(uv_check_t *check)
{
    flush_all(check->data);
}

static weir_buffer *out(port_connection *c)
{
    return &c->out;
}

static void send_soon(port_connection *c)
{
    WEIR_ASSERT(c->stage != STAGE_CLOSED);
    if (c->is_dirty)
        return;
    c->is_dirty = true;
    c->dirty_next = c->dialer->dirty;
    c->dialer->dirty = c;
}

/* ---- receiving ------------------------------------------------------------------------------- */

static void deliver(port_connection *c)
{
    if (weir_buffer_len(&c->in) > 0)
        c->events.received(c->ctx, &c->in, now_of(c->dialer));
    if (weir_buffer_len(&c->in) == 0)
        empty(&c->in);
}

static void become_established(port_connection *c)
{
    WEIR_ASSERT(c->stage == (c->tls ? STAGE_HANDSHAKE : STAGE_CONNECT));
    c->stage = STAGE_ESTABLISHED;
    uv_timer_stop(&c->timer);
    send_soon(c);
    c->events.connected(c->ctx, now_of(c->dialer));
}

/* Advances the TLS session: the handshake, or decrypting input. */
static void run_tls(port_connection *c)
{
    char why[WHY_MAX];
    net_tls_state state =
        net_tls_session_run(c->tls_session, &c->in, &c->out, &c->wire, why, sizeof why);
    bool sent = push(c, &c->wire);
    if (weir_buffer_len(&c->out) == 0)
        empty(&c->out);
    if (state == NET_TLS_ESTABLISHED && c->stage == STAGE_HANDSHAKE)
        become_established(c);
    if (c->stage == STAGE_ESTABLISHED)
        deliver(c);
    if (c->stage == STAGE_CLOSED)
        return;
    if (state == NET_TLS_CLOSED)
        end(c, why);
    else if (!sent)
        end(c, "the connection was reset");
}

/* Reads once. Returns false if there is nothing more to read now or the connection is closed. */
static bool read_some(port_connection *c)
{
    if (!weir_buffer_reserve(&c->in, READ_SIZE)) {
        end(c, "more than 64 MiB of input are unread, or memory is exhausted");
        return false;
    }
    uint8_t *to = weir_buffer_tail(&c->in);
    ssize_t n = recv(c->fd, to, READ_SIZE, 0);
    if (n <= 0) {
        if (n == 0 || errno != EAGAIN)
            end(c, n < 0 ? error_text(errno) : "the server closed the connection");
        return false;
    }
    if (!c->tls_session) {
        weir_buffer_added(&c->in, (size_t)n);
        deliver(c);
    } else if (!net_tls_session_feed(c->tls_session, to, (size_t)n)) {
        end(c, "more than 64 MiB of input are unread, or memory is exhausted");
    } else {
        run_tls(c);
    }
    return c->stage != STAGE_CLOSED && n == READ_SIZE;
}

static void read_all(port_connection *c)
{
    for (int i = 0; i < READS_MAX && read_some(c); i++)
        continue;
}

/* ---- connecting ------------------------------------------------------------------------------ */

static void try_next(port_connection *c, const char *why);
static void set_time(port_connection *c);

static int socket_error(const port_connection *c)
{
    int err;
    socklen_t len = sizeof err;
    return getsockopt(c->fd, SOL_SOCKET, SO_ERROR, &err, &len) == 0 ? err : errno;
}

static void connected(port_connection *c)
{
    int on = 1, idle = KEEPALIVE_S;
    /* The connection works without them, too, and a Unix socket does not have them. */
    (void)setsockopt(c->fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    (void)setsockopt(c->fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
    (void)setsockopt(c->fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle, sizeof idle);
    poll_socket(c);
    if (!c->tls) {
        become_established(c);
        return;
    }
    c->stage = STAGE_HANDSHAKE;
    set_time(c);
    c->tls_session = net_tls_session_open(c->tls, c->tls_name);
    if (!c->tls_session)
        end(c, "out of memory for TLS");
    else
        run_tls(c);
}

static void on_connectable(uv_poll_t *poll, int status, int events)
{
    (void)status; /* the socket has the error */
    (void)events;
    port_connection *c = poll->data;
    int err = socket_error(c);
    if (err != 0)
        try_next(c, error_text(err));
    else
        connected(c);
}

static void on_socket(uv_poll_t *poll, int status, int events)
{
    port_connection *c = poll->data;
    if (status < 0 || (events & UV_READABLE))
        read_all(c);
    if (c->stage == STAGE_CLOSED)
        return;
    if (status < 0)
        poll_socket(c); /* libuv has stopped. Reading reports the error after the unread input */
    else if (!c->is_dirty && weir_buffer_len(&c->out) + weir_buffer_len(&c->wire) > 0)
        flush(c); /* no event need follow: run_tls() may have sent all of `wire` */
}

/* Begins to connect to c->at. Returns NULL, or why that failed at once. */
static const char *open_socket(port_connection *c)
{
    const struct addrinfo *a = c->at;
    int fd = socket(a->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return error_text(errno);
    uv_poll_t *poll = port_zalloc(1, sizeof *poll);
    if (!poll || uv_poll_init(c->dialer->options.uv, poll, fd) != 0) {
        port_free(poll);
        close(fd);
        return error_text(ENOMEM);
    }
    c->fd = fd;
    c->poll = poll;
    poll->data = c;
    if (connect(fd, a->ai_addr, a->ai_addrlen) != 0 && errno != EINPROGRESS) {
        const char *why = error_text(errno);
        drop_socket(c);
        return why;
    }
    uv_poll_start(poll, UV_WRITABLE, on_connectable);
    return NULL;
}

static void on_time(uv_timer_t *timer);

/* Starts the timer of this attempt. An attempt that is not the last leaves time for the next. */
static void set_time(port_connection *c)
{
    uint64_t now_ms = uv_now(c->dialer->options.uv);
    uint64_t left_ms = c->give_up_ms > now_ms ? c->give_up_ms - now_ms : 0;
    if (c->stage == STAGE_CONNECT && c->at->ai_next && left_ms > ATTEMPT_MS)
        left_ms = ATTEMPT_MS;
    uv_timer_start(&c->timer, on_time, left_ms, 0);
}

/* Tries c->at and, if that fails at once, the addresses after it. */
static void try_from(port_connection *c, const char *why)
{
    WEIR_ASSERT(!c->poll && !c->lookup);
    c->stage = STAGE_CONNECT;
    for (; c->at; c->at = c->at->ai_next) {
        c->tried++;
        const char *failed = open_socket(c);
        if (!failed) {
            set_time(c);
            return;
        }
        why = failed;
    }
    char text[WHY_MAX];
    snprintf(text, sizeof text, "%s (tried %d addresses)", why, c->tried);
    end(c, c->tried > 1 ? text : why);
}

/* Tries the next address.
 *  why  why the current address failed. */
static void try_next(port_connection *c, const char *why)
{
    drop_socket(c);
    c->at = c->at->ai_next;
    try_from(c, why);
}

static int compare(const struct addrinfo *a, const struct addrinfo *b)
{
    socklen_t len = a->ai_addrlen < b->ai_addrlen ? a->ai_addrlen : b->ai_addrlen;
    return memcmp(a->ai_addr, b->ai_addr, len);
}

/* Sorts the addresses, then moves the first `skip` ones, modulo their number, to the end. Without
 * sorting, a name server that also rotates them could put the same address first for ever. */
static struct addrinfo *rotate(struct addrinfo *found, uint32_t skip)
{
    struct addrinfo *sorted = NULL, **end = &sorted;
    uint32_t len = 0;
    for (struct addrinfo *a = found, *next; a; a = next, len++) {
        struct addrinfo **at = &sorted;
        next = a->ai_next;
        while (*at && compare(*at, a) < 0)
            at = &(*at)->ai_next;
        a->ai_next = *at;
        *at = a;
    }
    while (*end)
        end = &(*end)->ai_next;
    for (skip = len > 0 ? skip % len : 0; skip > 0; skip--) {
        struct addrinfo *first = sorted;
        sorted = first->ai_next;
        first->ai_next = NULL;
        *end = first;
        end = &first->ai_next;
    }
    return sorted;
}

static void on_looked_up(void *ctx, const char *error, struct addrinfo *found)
{
    port_connection *c = ctx;
    c->lookup = NULL;
    if (error) {
        char text[WHY_MAX];
        snprintf(text, sizeof text, "host name lookup failed: %s", error);
        end(c, text);
        return;
    }
    c->found = c->skip > 0 ? rotate(found, c->skip) : found;
    c->at = c->found;
    try_from(c, "");
}

static void look_up(port_connection *c)
{
    c->stage = STAGE_RESOLVE;
    c->lookup = net_lookup_start(c->dialer->resolver, c->host, c->port, on_looked_up, c);
    if (c->lookup)
        uv_timer_start(&c->timer, on_time, ESTABLISH_MS, 0);
    else
        end(c, "host name lookup failed: no memory or thread, or 32 earlier lookups are still "
               "pending");
}

/* Reads a host that needs no lookup: a socket path or an IP address. Returns false for a name. */
static bool read_address(port_connection *c)
{
    struct sockaddr_un *file = (struct sockaddr_un *)&c->address;
    struct addrinfo *a = &c->single;
    a->ai_addr = (struct sockaddr *)&c->address;
    if (c->host[0] == '/' && strlen(c->host) < sizeof file->sun_path) {
        file->sun_family = AF_UNIX;
        memcpy(file->sun_path, c->host, strlen(c->host) + 1);
        a->ai_addrlen = sizeof *file;
    } else if (uv_ip4_addr(c->host, c->port, (struct sockaddr_in *)&c->address) == 0) {
        a->ai_addrlen = sizeof(struct sockaddr_in);
    } else if (uv_ip6_addr(c->host, c->port, (struct sockaddr_in6 *)&c->address) == 0) {
        a->ai_addrlen = sizeof(struct sockaddr_in6);
    } else {
        return false;
    }
    a->ai_family = c->address.ss_family;
    return true;
}

static void on_time(uv_timer_t *timer)
{
    port_connection *c = timer->data;
    if (c->stage == STAGE_CONNECT) {
        try_next(c, "connect timed out");
    } else if (c->stage != STAGE_BEGIN) {
        end(c,
            c->stage == STAGE_RESOLVE ? "host name lookup timed out" : "TLS handshake timed out");
    } else if (read_address(c)) {
        c->at = &c->single;
        try_from(c, "");
    } else if (c->host[0] == '/') {
        end(c, "the socket path has more than 107 bytes");
    } else {
        look_up(c);
    }
}

static port_connection *connect_to(port_dialer *port, const port_endpoint *to,
                                   const port_connection_events *events, void *ctx)
{
    net_dialer *d = dialer_of(port);
    const char *name = to->tls_name ? to->tls_name : to->host;
    size_t host_size = strlen(to->host) + 1, name_size = strlen(name) + 1;
    port_connection *c = port_zalloc(1, sizeof *c + host_size + name_size);
    if (!c)
        return NULL;
    c->dialer = d;
    c->events = *events;
    c->ctx = ctx;
    c->port = to->port;
    c->skip = to->skip;
    c->tls = to->tls;
    c->host = memcpy((char *)(c + 1), to->host, host_size);
    c->tls_name = memcpy(c->host + host_size, name, name_size);
    weir_buffer_init(&c->in, IN_MAX);
    weir_buffer_init(&c->out, OUT_MAX);
    weir_buffer_init(&c->wire, OUT_MAX);
    c->next = d->connections;
    c->link = &d->connections;
    if (c->next)
        c->next->link = &c->next;
    d->connections = c;
    c->timer.data = c;
    c->give_up_ms = uv_now(d->options.uv) + ESTABLISH_MS;
    uv_timer_init(d->options.uv, &c->timer);
    uv_timer_start(&c->timer, on_time, 0, 0); /* no callback may be called from in here */
    return c;
}

/* ---- timers ---------------------------------------------------------------------------------- */

static void on_timer(uv_timer_t *timer);

/* Sets the libuv timer. The clock of the loop counts milliseconds and lags behind, so the timer may
 * fire early; on_timer() then sets it again. Moving a deadline to a later time leaves the libuv
 * timer as it is: deadlines move with every reply, and resetting a timer is expensive. */
static void arm(port_timer *a, int64_t now_ns)
{
    int64_t left_ns = a->at_ns > now_ns ? a->at_ns - now_ns : 0;
    a->armed_ns = a->at_ns;
    uv_timer_start(&a->timer, on_timer, ((uint64_t)left_ns + 999999) / 1000000, 0);
}

static void on_timer(uv_timer_t *timer)
{
    port_timer *a = timer->data;
    int64_t now_ns = now_of(a->dialer);
    a->armed_ns = INT64_MAX;
    if (a->at_ns == INT64_MAX)
        return;
    if (a->at_ns > now_ns) {
        arm(a, now_ns);
        return;
    }
    a->at_ns = INT64_MAX;
    a->fn(a->ctx, now_ns);
}

static void set_timer(port_timer *a, int64_t at_ns)
{
    a->at_ns = at_ns;
    if (at_ns < a->armed_ns)
        arm(a, now_of(a->dialer));
}

static port_timer *new_timer(port_dialer *port, void (*fn)(void *ctx, int64_t now_ns), void *ctx)
{
    net_dialer *d = dialer_of(port);
    port_timer *a = port_zalloc(1, sizeof *a);
    if (!a)
        return NULL;
    *a = (port_timer){.dialer = d, .next = d->timers, .link = &d->timers, .fn = fn, .ctx = ctx};
    a->at_ns = a->armed_ns = INT64_MAX;
    if (a->next)
        a->next->link = &a->next;
    d->timers = a;
    uv_timer_init(d->options.uv, &a->timer);
    a->timer.data = a;
    return a;
}

static void free_timer(port_timer *a)
{
    if (!a)
        return;
    WEIR_ASSERT(*a->link == a);
    *a->link = a->next;
    if (a->next)
        a->next->link = a->link;
    uv_close((uv_handle_t *)&a->timer, free_handle);
}

/* ---- the dialer ------------------------------------------------------------------------------ */

static int64_t now(port_dialer *d)
{
    return now_of(dialer_of(d));
}

weir_status net_dialer_open(net_dialer **ret, const net_dialer_options *options)
{
    static const port_dialer_calls calls = {connect_to, out,       send_soon,  hang_up,
                                            new_timer,  set_timer, free_timer, now};
    net_dialer *d = port_zalloc(1, sizeof *d);
    if (!d)
        return WEIR_E_NOMEM;
    d->resolver = net_resolver_new(options->uv);
    if (!d->resolver) {
        port_free(d);
        return WEIR_E_NOMEM;
    }
    d->port.calls = &calls;
    d->options = *options;
    d->handles = 2;
    uv_prepare_init(options->uv, &d->prepare);
    uv_check_init(options->uv, &d->check);
    d->prepare.data = d->check.data = d;
    uv_prepare_start(&d->prepare, on_prepare);
    uv_check_start(&d->check, on_check);
    *ret = d;
    return WEIR_OK;
}

port_dialer *net_dialer_port(net_dialer *d)
{
    return &d->port;
}

static void on_handle_closed(uv_handle_t *handle)
{
    net_dialer *d = handle->data;
    if (--d->handles == 0)
        port_free(d);
}

void net_dialer_close(net_dialer *d)
{
    if (!d)
        return;
    while (d->connections)
        close_connection(d->connections);
    while (d->timers)
        free_timer(d->timers);
    net_resolver_free(d->resolver);
    uv_close((uv_handle_t *)&d->prepare, on_handle_closed);
    uv_close((uv_handle_t *)&d->check, on_handle_closed);
}
