/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* Lines are sockets that the loop is asked to watch; they are read and written here, for what is
 * not yet sent must be able to grow while a part of it is on its way. Events only ever come from
 * the loop. A line that is gone keeps its memory until the loop has let go of its timer, so that
 * whoever called an event finds it still there. */

#include "net/dial.h"

#include "net/lookup.h"
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
    READ_SIZE = 64 << 10, /* asked of the system at once ... */
    READS_MAX = 4,        /* ... so often; then others have their turn */
    IN_MAX = 64 << 20,    /* what was not yet read */
    OUT_MAX = 64 << 20,   /* what was not yet sent */
    KEPT = 256 << 10,     /* an empty buffer keeps so much memory */
    UP_MS = 5000,         /* until a line is up */
    ATTEMPT_MS = 1000,    /* for one of several addresses */
    KEEPALIVE_S = 30,     /* of silence; then the system asks whether the other side is there */
    WHY_MAX = 256,
};

typedef enum stage {
    STAGE_BEGIN,   /* nothing is done yet */
    STAGE_RESOLVE, /* the name's addresses are being looked up */
    STAGE_CONNECT,
    STAGE_SHAKE, /* connected; keys are being agreed on */
    STAGE_UP,
    STAGE_GONE
} stage;

struct net_dialer {
    port_dialer port; /* first: it is what users have */
    net_dialer_options options;
    net_resolver *resolver;
    uv_prepare_t before; /* what timers added is sent before the loop waits ... */
    uv_check_t after;    /* ... and what the sockets' events added, after them */
    int handles;         /* of these two, those that are not closed */
    port_connection *lines;
    port_timer *alarms;
    port_connection *dirty; /* lines with something to send */
    uint8_t *scratch;       /* READ_SIZE bytes: what is read before it is decrypted */
};

struct port_connection {
    net_dialer *dialer;
    port_connection *next, **link; /* of all */
    port_connection *dirty_next;   /* of those with something to send */
    bool is_dirty, watches_writes; /* of the latter: the system's buffer was full */
    stage stage;
    port_connection_events events;
    void *ctx;
    uv_timer_t timer; /* begins; gives up an attempt; gives up. Closing it frees the connection */
    uint64_t give_up_ms;    /* by uv_now() */
    net_lookup *lookup;     /* of its host name, in flight; else NULL */
    struct addrinfo *found; /* to be freed */
    struct addrinfo single; /* instead of that, for what needs no looking up */
    struct sockaddr_storage address;
    const struct addrinfo *at; /* being tried, or connected to */
    int tried;                 /* addresses */
    uv_poll_t *poll;           /* NULL: no socket */
    int fd;
    const port_tls *tls;
    net_secure *secure;
    weir_buffer in, out, wire; /* wire: encrypted and not sent */
    uint16_t port;
    char *host, *tls_name; /* behind this struct */
};

struct port_timer {
    uv_timer_t timer; /* first: freed with it */
    net_dialer *dialer;
    port_timer *next, **link;
    void (*fn)(void *ctx, int64_t now_ns);
    void *ctx;
    int64_t at_ns;    /* INT64_MAX: never */
    int64_t armed_ns; /* what the timer is set to, at_ns or before it; INT64_MAX: it is not */
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

/* ---- the end of a line ----------------------------------------------------------------------- */

static void free_handle(uv_handle_t *handle)
{
    port_free(handle);
}

static void on_line_closed(uv_handle_t *timer)
{
    port_connection *l = timer->data;
    weir_buffer_free(&l->in);
    weir_buffer_free(&l->out);
    weir_buffer_free(&l->wire);
    port_free(l);
}

static void drop_socket(port_connection *l)
{
    if (!l->poll)
        return;
    l->poll->data = NULL;
    uv_close((uv_handle_t *)l->poll, free_handle);
    close(l->fd);
    l->poll = NULL;
    l->watches_writes = false;
}

static void undirty(port_connection *l)
{
    port_connection **link = &l->dialer->dirty;
    while (l->is_dirty && *link != l)
        link = &(*link)->dirty_next;
    if (l->is_dirty)
        *link = l->dirty_next;
    l->is_dirty = false;
}

static void hang_up(port_connection *l)
{
    if (l->stage == STAGE_GONE)
        return;
    l->stage = STAGE_GONE;
    undirty(l);
    drop_socket(l);
    if (l->lookup)
        net_lookup_cancel(l->lookup);
    if (l->found)
        freeaddrinfo(l->found);
    net_secure_close(l->secure);
    *l->link = l->next;
    if (l->next)
        l->next->link = l->link;
    uv_close((uv_handle_t *)&l->timer, on_line_closed);
}

/* Its last event. */
static void end(port_connection *l, const char *why)
{
    hang_up(l);
    l->events.closed(l->ctx, why, now_of(l->dialer));
}

/* ---- sending --------------------------------------------------------------------------------- */

static void on_socket(uv_poll_t *poll, int status, int events);

static void watch(port_connection *l, bool writes)
{
    if (writes == l->watches_writes)
        return;
    l->watches_writes = writes;
    uv_poll_start(l->poll, writes ? UV_READABLE | UV_WRITABLE : UV_READABLE, on_socket);
}

static void empty(weir_buffer *b)
{
    if (weir_buffer_memory(b) > KEPT)
        weir_buffer_free(b);
    else
        weir_buffer_clear(b);
}

/* Gives the system what it takes. False if the line is broken, which errno tells of. */
static bool push(port_connection *l, weir_buffer *b)
{
    while (weir_buffer_len(b) > 0) {
        ssize_t n = send(l->fd, weir_buffer_data(b), weir_buffer_len(b), MSG_NOSIGNAL);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0 && errno != EAGAIN)
            return false;
        watch(l, n < 0);
        if (n < 0)
            return true;
        weir_buffer_consume(b, (size_t)n);
    }
    empty(b);
    watch(l, false);
    return true;
}

/* Encrypts and sends as much as goes. */
static void push_secure(port_connection *l)
{
    char why[WHY_MAX];
    size_t before = 0;
    do {
        before = weir_buffer_len(&l->out);
        if (net_secure_turn(l->secure, &l->in, &l->out, &l->wire, why, sizeof why) ==
            NET_SECURE_ENDED) {
            end(l, why);
            return;
        }
        if (!push(l, &l->wire)) {
            end(l, error_text(errno));
            return;
        }
    } while (weir_buffer_len(&l->out) > 0 && weir_buffer_len(&l->out) < before &&
             weir_buffer_len(&l->wire) == 0);
    if (weir_buffer_len(&l->out) == 0)
        empty(&l->out);
}

static void flush(port_connection *l)
{
    if (l->out.failed || l->wire.failed)
        end(l, "more waits to be sent than there is memory for");
    else if (l->stage != STAGE_UP)
        return;
    else if (l->secure)
        push_secure(l);
    else if (!push(l, &l->out))
        end(l, error_text(errno));
}

static void flush_all(net_dialer *d)
{
    if (d->options.turn)
        d->options.turn(d->options.turn_ctx);
    for (port_connection *l; (l = d->dirty);) {
        d->dirty = l->dirty_next;
        l->is_dirty = false;
        flush(l);
    }
}

static void on_before(uv_prepare_t *before)
{
    flush_all(before->data);
}

static void on_after(uv_check_t *after)
{
    flush_all(after->data);
}

static weir_buffer *out(port_connection *l)
{
    return &l->out;
}

static void send_soon(port_connection *l)
{
    if (l->is_dirty || l->stage == STAGE_GONE)
        return;
    l->is_dirty = true;
    l->dirty_next = l->dialer->dirty;
    l->dialer->dirty = l;
}

/* ---- receiving ------------------------------------------------------------------------------- */

static void tell_heard(port_connection *l)
{
    if (weir_buffer_len(&l->in) > 0)
        l->events.received(l->ctx, &l->in, now_of(l->dialer));
    if (l->stage != STAGE_GONE && weir_buffer_len(&l->in) == 0)
        empty(&l->in);
}

static void become_up(port_connection *l)
{
    l->stage = STAGE_UP;
    uv_timer_stop(&l->timer);
    uv_freeaddrinfo(l->found);
    l->found = NULL;
    send_soon(l);
    l->events.connected(l->ctx, now_of(l->dialer));
}

/* Something was received that is encrypted, or nothing was said yet. */
static void turn_secure(port_connection *l)
{
    char why[WHY_MAX];
    net_secure_state state = net_secure_turn(l->secure, &l->in, &l->out, &l->wire, why, sizeof why);
    bool sent = push(l, &l->wire);
    if (state == NET_SECURE_UP && l->stage == STAGE_SHAKE)
        become_up(l);
    if (l->stage == STAGE_UP)
        tell_heard(l);
    if (l->stage == STAGE_GONE)
        return;
    if (state == NET_SECURE_ENDED)
        end(l, why);
    else if (!sent)
        end(l, "the connection was reset");
    else if (l->in.failed)
        end(l, "it said more than there is memory for");
}

/* Reads once. False if there is nothing more to be read now, or the line is gone. */
static bool read_some(port_connection *l)
{
    uint8_t *to = l->dialer->scratch;
    if (!l->secure) {
        if (!weir_buffer_reserve(&l->in, READ_SIZE)) {
            end(l, "it said more than there is memory for");
            return false;
        }
        to = weir_buffer_tail(&l->in);
    }
    ssize_t n = recv(l->fd, to, READ_SIZE, 0);
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return false;
    if (n <= 0) {
        end(l, n < 0 ? error_text(errno) : "it closed the connection");
        return false;
    }
    if (!l->secure) {
        weir_buffer_added(&l->in, (size_t)n);
        tell_heard(l);
    } else if (!net_secure_feed(l->secure, to, (size_t)n)) {
        end(l, "it said more than there is memory for");
    } else {
        turn_secure(l);
    }
    return l->stage != STAGE_GONE && n == READ_SIZE;
}

static void read_all(port_connection *l)
{
    for (int i = 0; i < READS_MAX && read_some(l); i++)
        continue;
}

/* ---- connecting ------------------------------------------------------------------------------ */

static void try_next(port_connection *l, const char *why);
static void set_time(port_connection *l);

static int socket_error(const port_connection *l)
{
    int err = 0;
    socklen_t len = sizeof err;
    return getsockopt(l->fd, SOL_SOCKET, SO_ERROR, &err, &len) == 0 ? err : errno;
}

static void connected(port_connection *l)
{
    int on = 1, idle = KEEPALIVE_S;
    if (l->at->ai_family != AF_UNIX) { /* that these fail is no reason not to use it */
        (void)setsockopt(l->fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
        (void)setsockopt(l->fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
        (void)setsockopt(l->fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle, sizeof idle);
    }
    l->watches_writes = true; /* for the connection; no more */
    watch(l, false);
    if (!l->tls) {
        become_up(l);
        return;
    }
    l->stage = STAGE_SHAKE;
    set_time(l);
    l->secure = net_secure_open(l->tls, l->tls_name);
    if (!l->secure)
        end(l, "no memory for TLS");
    else
        turn_secure(l);
}

static void on_socket(uv_poll_t *poll, int status, int events)
{
    port_connection *l = poll->data;
    if (!l)
        return;
    if (l->stage == STAGE_CONNECT) {
        int err = socket_error(l);
        if (err != 0)
            try_next(l, error_text(err));
        else if (status < 0)
            try_next(l, uv_strerror(status));
        else
            connected(l);
        return;
    }
    if (status < 0 || (events & UV_READABLE))
        read_all(l);
    if (l->stage == STAGE_GONE)
        return;
    if (status < 0)
        end(l, "the connection was reset"); /* and nothing was left to be read */
    else if (events & UV_WRITABLE)
        l->stage == STAGE_SHAKE ? turn_secure(l) : flush(l);
}

static bool open_socket(port_connection *l)
{
    const struct addrinfo *a = l->at;
    int fd = socket(a->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return false;
    uv_poll_t *poll = port_zalloc(1, sizeof *poll);
    if (!poll || uv_poll_init(l->dialer->options.uv, poll, fd) != 0) {
        port_free(poll);
        close(fd);
        errno = ENOMEM;
        return false;
    }
    l->fd = fd;
    l->poll = poll;
    poll->data = l;
    if (connect(fd, a->ai_addr, a->ai_addrlen) != 0 && errno != EINPROGRESS) {
        int err = errno;
        drop_socket(l);
        errno = err;
        return false;
    }
    uv_poll_start(poll, UV_WRITABLE, on_socket);
    return true;
}

static void on_time(uv_timer_t *timer);

/* How long this attempt may take: one that is not the last leaves time for the next. */
static void set_time(port_connection *l)
{
    uint64_t now_ms = uv_now(l->dialer->options.uv);
    uint64_t left_ms = l->give_up_ms > now_ms ? l->give_up_ms - now_ms : 0;
    if (l->stage == STAGE_CONNECT && l->at->ai_next && left_ms > ATTEMPT_MS)
        left_ms = ATTEMPT_MS;
    uv_timer_start(&l->timer, on_time, left_ms, 0);
}

/* Tries l->at, and what follows it if that fails at once. */
static void try_from(port_connection *l, const char *why)
{
    l->stage = STAGE_CONNECT;
    for (; l->at; l->at = l->at->ai_next) {
        l->tried++;
        if (open_socket(l)) {
            set_time(l);
            return;
        }
        why = error_text(errno);
    }
    char text[WHY_MAX];
    snprintf(text, sizeof text, "%s (tried %d addresses)", why, l->tried);
    end(l, l->tried > 1 ? text : why);
}

/* `why` it is not the address that was tried last. */
static void try_next(port_connection *l, const char *why)
{
    drop_socket(l);
    l->at = l->at->ai_next;
    try_from(l, why);
}

static void on_looked_up(void *ctx, const char *error, struct addrinfo *found)
{
    port_connection *l = ctx;
    l->lookup = NULL;
    if (error) {
        char text[WHY_MAX];
        snprintf(text, sizeof text, "host name lookup failed: %s", error);
        end(l, text);
        return;
    }
    l->found = found;
    l->at = found;
    try_from(l, "");
}

static void look_up(port_connection *l)
{
    l->stage = STAGE_RESOLVE;
    l->lookup = net_lookup_start(l->dialer->resolver, l->host, l->port, on_looked_up, l);
    if (l->lookup)
        uv_timer_start(&l->timer, on_time, UP_MS, 0);
    else
        end(l, "host name lookup failed: no memory or thread, or 32 earlier lookups are still "
               "pending");
}

/* An address that need not be looked up. */
static bool read_address(port_connection *l)
{
    struct sockaddr_un *file = (struct sockaddr_un *)&l->address;
    struct addrinfo *a = &l->single;
    a->ai_addr = (struct sockaddr *)&l->address;
    if (l->host[0] == '/' && strlen(l->host) < sizeof file->sun_path) {
        file->sun_family = AF_UNIX;
        memcpy(file->sun_path, l->host, strlen(l->host) + 1);
        a->ai_addrlen = sizeof *file;
    } else if (uv_ip4_addr(l->host, l->port, (struct sockaddr_in *)&l->address) == 0) {
        a->ai_addrlen = sizeof(struct sockaddr_in);
    } else if (uv_ip6_addr(l->host, l->port, (struct sockaddr_in6 *)&l->address) == 0) {
        a->ai_addrlen = sizeof(struct sockaddr_in6);
    } else {
        return false;
    }
    a->ai_family = l->address.ss_family;
    return true;
}

static void on_time(uv_timer_t *timer)
{
    port_connection *l = timer->data;
    if (l->stage == STAGE_CONNECT) {
        try_next(l, "no answer");
    } else if (l->stage != STAGE_BEGIN) {
        end(l, l->stage == STAGE_RESOLVE ? "looking up its name took too long" : "TLS: no answer");
    } else if (read_address(l)) {
        l->at = &l->single;
        try_from(l, "");
    } else if (l->host[0] == '/') {
        end(l, "the path is too long for a socket file");
    } else {
        look_up(l);
    }
}

static port_connection *dial(port_dialer *port, const port_endpoint *to,
                             const port_connection_events *events, void *ctx)
{
    net_dialer *d = dialer_of(port);
    const char *name = to->tls_name ? to->tls_name : to->host;
    size_t host_size = strlen(to->host) + 1, name_size = strlen(name) + 1;
    port_connection *l = port_zalloc(1, sizeof *l + host_size + name_size);
    if (!l)
        return NULL;
    l->dialer = d;
    l->events = *events;
    l->ctx = ctx;
    l->port = to->port;
    l->tls = to->tls;
    l->host = memcpy((char *)(l + 1), to->host, host_size);
    l->tls_name = memcpy(l->host + host_size, name, name_size);
    weir_buffer_init(&l->in, IN_MAX);
    weir_buffer_init(&l->out, OUT_MAX);
    weir_buffer_init(&l->wire, OUT_MAX);
    l->next = d->lines;
    l->link = &d->lines;
    if (l->next)
        l->next->link = &l->next;
    d->lines = l;
    l->timer.data = l;
    l->give_up_ms = uv_now(d->options.uv) + UP_MS;
    uv_timer_init(d->options.uv, &l->timer);
    uv_timer_start(&l->timer, on_time, 0, 0); /* what fails at once must not fail in here */
    return l;
}

/* ---- alarms ---------------------------------------------------------------------------------- */

static void on_alarm(uv_timer_t *timer);

/* The loop's clock is in ms and a little behind, so that a timer may come too early; then it is set
 * again. One that is set too early is left as it is, for alarms are put off all the time. */
static void arm(port_timer *a, int64_t now_ns)
{
    int64_t left_ns = a->at_ns > now_ns ? a->at_ns - now_ns : 0;
    a->armed_ns = a->at_ns;
    uv_timer_start(&a->timer, on_alarm, ((uint64_t)left_ns + 999999) / 1000000, 0);
}

static void on_alarm(uv_timer_t *timer)
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

static void set(port_timer *a, int64_t at_ns)
{
    a->at_ns = at_ns;
    if (at_ns < a->armed_ns)
        arm(a, now_of(a->dialer));
}

static port_timer *alarm_new(port_dialer *port, void (*fn)(void *ctx, int64_t now_ns), void *ctx)
{
    net_dialer *d = dialer_of(port);
    port_timer *a = port_zalloc(1, sizeof *a);
    if (!a)
        return NULL;
    *a = (port_timer){.dialer = d, .next = d->alarms, .link = &d->alarms, .fn = fn, .ctx = ctx};
    a->at_ns = a->armed_ns = INT64_MAX;
    if (a->next)
        a->next->link = &a->next;
    d->alarms = a;
    uv_timer_init(d->options.uv, &a->timer);
    a->timer.data = a;
    return a;
}

static void drop(port_timer *a)
{
    if (!a)
        return;
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
    static const port_dialer_calls calls = {dial,      out, send_soon, hang_up,
                                            alarm_new, set, drop,      now};
    net_dialer *d = port_zalloc(1, sizeof *d + READ_SIZE);
    if (!d)
        return WEIR_E_NOMEM;
    d->resolver = net_resolver_new(options->uv);
    if (!d->resolver) {
        port_free(d);
        return WEIR_E_NOMEM;
    }
    d->port.calls = &calls;
    d->options = *options;
    d->scratch = (uint8_t *)(d + 1);
    d->handles = 2;
    uv_prepare_init(options->uv, &d->before);
    uv_check_init(options->uv, &d->after);
    d->before.data = d->after.data = d;
    uv_prepare_start(&d->before, on_before);
    uv_check_start(&d->after, on_after);
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
    while (d->lines)
        hang_up(d->lines);
    while (d->alarms)
        drop(d->alarms);
    net_resolver_free(d->resolver);
    uv_close((uv_handle_t *)&d->before, on_handle_closed);
    uv_close((uv_handle_t *)&d->after, on_handle_closed);
}
