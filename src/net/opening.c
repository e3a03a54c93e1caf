/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* Accepted sockets become connections, or are refused; then the session opens, after the PROXY
 * header if there must be one. It must not know what a session reads or writes. */

#include "net/loop.h"
#include "port/assert.h"

#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { REFUSED_MAX = 128 }; /* lingering refused connections of a loop; more are closed at once */

static void on_closed(uv_handle_t *handle)
{
    port_free(handle->data);
}

/* ---- peers ----------------------------------------------------------------------------------- */

int weir_connection_socket(const weir_connection *c)
{
    uv_os_fd_t fd = -1;
    return uv_fileno(&c->uv.handle, &fd) == 0 ? fd : -1;
}

static bool is_unix(const weir_connection *c)
{
    return c->uv.handle.type == UV_NAMED_PIPE && weir_connection_socket(c) >= 0;
}

bool weir_server_peer_address(const void *wake_ctx, weir_peer_address *ret)
{
    weir_connection *c = (weir_connection *)wake_ctx; /* sessions know it as a constant */
    c->peer_known = c->peer_known || weir_listen_peer(weir_connection_socket(c), &c->peer);
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

bool weir_server_peer_has_name(const void *wake_ctx, const char *name)
{
    const weir_connection *c = wake_ctx;
    return weir_tls_session_has_name(c->protocol, c->session, name);
}

size_t weir_server_listener(const void *wake_ctx)
{
    return ((const weir_connection *)wake_ctx)->listener->index;
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

static void queue_refused(weir_connection *c)
{
    c->loop->refused_len++;
    net_queue_add(&c->loop->refused, &c->refused_place);
}

/* Sends the refusal without using memory for a connection, and closes the socket. */
static void refuse_socket(const weir_listener *listener, int fd)
{
    const char *text = listener->protocol->refusal;
    if (text)
        (void)send(fd, text, strlen(text), MSG_DONTWAIT | MSG_NOSIGNAL);
    close(fd);
}

/* ---- admission ------------------------------------------------------------------------------- */

static void count_refused(weir_loop *l, const weir_peer_address *peer, weir_status why)
{
    const weir_server_limits *limits = &l->limits;
    char text[160], from[WEIR_PEER_TEXT_MAX];
    if (why == WEIR_E_NOMEM) {
        port_bump_relaxed(&l->stats.overloaded, 1);
        weir_shared_report(l->shared, WEIR_EVENT_OVERLOADED, "refused a connection: out of memory");
        return;
    }
    port_bump_relaxed(&l->stats.refused, 1);
    if (why == WEIR_E_BUSY) {
        port_bump_relaxed(&l->stats.refused_address, 1);
        weir_listen_print_peer(peer, from);
        snprintf(text, sizeof text,
                 "refused a connection from %s: the maximum is %d of one address "
                 "(limits.per_address)",
                 from, limits->per_address);
    } else {
        snprintf(text, sizeof text, "refused a connection: the maximum is %d (limits.connections)",
                 limits->connections);
    }
    weir_shared_report(l->shared, WEIR_EVENT_REFUSED, text);
}

/* Whether only some proxies may report clients. */
static bool asks_proxies(const weir_loop *l)
{
    return l->shared->may_proxy && !l->limits.any_proxy;
}

/* Counts the connection for the client at c->peer, unless that is a proxy. Returns false if the
 * client has too many connections, which is then counted and reported. */
static bool count_client(weir_connection *c)
{
    weir_loop *l = c->loop;
    const net_client client = net_client_of(&c->peer);
    if (l->limits.per_address == 0 || client.family == 0 ||
        (asks_proxies(l) && l->shared->may_proxy(l->context, &c->peer)))
        return true;
    weir_status st = net_admission_enter(&l->shared->admission, &client, l->limits.per_address);
    if (st == WEIR_OK)
        c->client = client;
    else
        count_refused(l, &c->peer, st);
    return st == WEIR_OK;
}

/* Counts the connection, and its client unless a PROXY header will say who that is. Returns whether
 * it is accepted. */
static bool admit(weir_connection *c, bool is_tcp, bool proxied)
{
    weir_shared *shared = c->loop->shared;
    int places = c->loop->limits.connections, reserved = net_admission_reserved(places);
    bool is_local = c->peer_known && net_client_of(&c->peer).family == 0;
    if (is_tcp)
        places -= is_local ? reserved : 2 * reserved;
    if (port_add_relaxed(&shared->connected, 1) >= (uint64_t)places) {
        port_sub_relaxed(&shared->connected, 1);
        count_refused(c->loop, &c->peer, WEIR_E_FULL);
        return false;
    }
    if (proxied || !c->peer_known || count_client(c))
        return true;
    port_sub_relaxed(&shared->connected, 1);
    return false;
}

/* Makes room for one more refused connection. With only_health, it replaces the oldest one if there
 * are REFUSED_MAX. Returns whether there is room. */
static bool make_room(weir_loop *l, bool only_health)
{
    if (l->refused_len >= REFUSED_MAX && only_health)
        weir_connection_close(WEIR_CONNECTION_OF(l->refused.first, refused_place));
    return l->refused_len < REFUSED_MAX;
}

/* Counts the connection for the client at c->peer, which a PROXY header has named, unless that is a
 * proxy. If the client has too many connections, this one is no longer counted, and is refused like
 * a new one. Returns whether its session can open. */
static bool admit_client(weir_connection *c)
{
    weir_loop *l = c->loop;
    bool only_health = c->protocol->only_health;
    if (c->refused || count_client(c))
        return true;
    bool has_room = make_room(l, only_health);
    port_sub_relaxed(&l->shared->connected, 1);
    c->refused = true;
    queue_refused(c);
    if (!has_room)
        weir_connection_close(c);
    else if (!only_health)
        weir_connection_refuse(c);
    return has_room && only_health;
}

/* ---- the session ----------------------------------------------------------------------------- */

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
    c->protocol->open(c->session, c->listener->context, weir_connection_on_ready, c);
    if (c->refused)
        c->protocol->only_health(c->session);
}

bool weir_connection_take_proxy_header(weir_connection *c, weir_buffer *in)
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
        c->opened_ms = c->begun_ms = uv_now(&c->loop->uv); /* of the client, not of the proxy */
        c->heard = weir_buffer_len(in) > 0;
        c->peer_known = header.has_address;
        c->peer = header.client;
        if (header.has_address && !admit_client(c))
            return false;
        open_session(c);
    }
    return true;
}

/* Waits for the PROXY header, if the peer may send one. A connection without a peer was reset by it
 * already, as health checks do. */
static void expect_proxy_header(weir_connection *c)
{
    const weir_loop *l = c->loop;
    weir_peer_address peer;
    bool known = weir_server_peer_address(c, &peer);
    if (!known && c->uv.handle.type == UV_TCP)
        weir_connection_close(c);
    else if (known && asks_proxies(l) && !l->shared->may_proxy(l->context, &peer))
        refuse_proxy(c, "it is not a trusted proxy (trusted_proxies)");
    else
        c->unproxied = true;
}

/* Opens the session, or waits for the PROXY header, and starts to read. */
static void begin(weir_connection *c)
{
    weir_buffer_init(&c->in, c->loop->limits.request + WEIR_CONNECTION_IN_MORE);
    weir_buffer_init(&c->out, WEIR_CONNECTION_OUT_MAX);
    if (c->listener->proxy_protocol)
        expect_proxy_header(c);
    else
        open_session(c);
    if (c->state == WEIR_CONNECTION_READ)
        weir_connection_check_memory(c);
    weir_connection_after_event(c);
}

/* ---- accepting ------------------------------------------------------------------------------- */

static void start(weir_connection *c)
{
    weir_loop *l = c->loop;
    c->next = l->connections;
    c->link = &l->connections;
    if (c->next)
        c->next->link = &c->next;
    l->connections = c;
    l->connections_len++;
    c->opened_ms = c->idle_since_ms = c->begun_ms = uv_now(&l->uv);
    if (c->refused)
        queue_refused(c);
    else
        port_bump_relaxed(&l->stats.accepted, 1);
    if (c->refused && !c->protocol->only_health)
        weir_connection_refuse(c);
    else
        begin(c);
}

void weir_connection_open(weir_listener *listener, int fd)
{
    weir_loop *l = listener->loop;
    const weir_protocol *protocol = listener->protocol;
    /* Reserving now makes sure that delaying a reply cannot fail later. */
    weir_connection *c = weir_wait_heap_reserve(&l->waits, l->connections_len + 1)
                             ? port_zalloc(1, sizeof *c + protocol->session_size)
                             : NULL;
    if (!c) {
        count_refused(l, NULL, WEIR_E_NOMEM);
        refuse_socket(listener, fd);
        return;
    }
    c->loop = l;
    c->protocol = protocol;
    c->listener = listener;
    c->peer_known = listener->is_tcp && weir_listen_peer(fd, &c->peer);
    c->refused = !admit(c, listener->is_tcp, listener->proxy_protocol);
    if (c->refused && !make_room(l, protocol->only_health)) {
        port_free(c);
        refuse_socket(listener, fd);
    } else if (open_socket(c, listener->is_tcp, fd)) {
        start(c);
    } else {
        if (!c->refused) {
            weir_connection_uncount(c);
            count_refused(l, NULL, WEIR_E_NOMEM);
        }
        uv_close(&c->uv.handle, on_closed);
        refuse_socket(listener, fd);
    }
}

void weir_connection_uncount(weir_connection *c)
{
    if (!c->refused)
        port_sub_relaxed(&c->loop->shared->connected, 1);
    if (c->client.family != 0)
        net_admission_leave(&c->loop->shared->admission, &c->client);
}
