/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* The fake nginx: timers, posted events, and the socket of a daemon. */

#include "fake.h"

#include <arpa/inet.h>

enum { TIMERS_MAX = 64 };

static ngx_event_t *timers[TIMERS_MAX], *posted[TIMERS_MAX];
static size_t timers_len, posted_len;
static int sockets[2] = {-1, -1};
static ngx_event_t socket_read, socket_write;

ngx_msec_t ngx_current_msec;
ngx_queue_t ngx_posted_events;

/* ---- events ---------------------------------------------------------------------------------- */

time_t ngx_time(void)
{
    return fake.now_s;
}

static void forget(ngx_event_t **list, size_t *len, const ngx_event_t *event)
{
    size_t i = 0;
    while (i < *len && list[i] != event)
        i++;
    assert_true(i < *len);
    memmove(list + i, list + i + 1, (--*len - i) * sizeof list[0]);
}

void ngx_add_timer(ngx_event_t *event, ngx_msec_t ms)
{
    if (event->timer_set)
        ngx_del_timer(event);
    assert_true(timers_len < TIMERS_MAX);
    event->timer.key = ngx_current_msec + ms;
    event->timer_set = 1;
    timers[timers_len++] = event;
}

void ngx_del_timer(ngx_event_t *event)
{
    forget(timers, &timers_len, event);
    event->timer_set = 0;
}

void fake_post(ngx_event_t *event)
{
    if (event->posted)
        return;
    assert_true(posted_len < TIMERS_MAX);
    event->posted = 1;
    posted[posted_len++] = event;
}

void ngx_delete_posted_event(ngx_event_t *event)
{
    forget(posted, &posted_len, event);
    event->posted = 0;
}

void fake_run(void)
{
    while (posted_len > 0) {
        ngx_event_t *event = posted[0];
        ngx_delete_posted_event(event);
        event->handler(event);
    }
}

/* The timer that is due first, if it is due by `end`. */
static ngx_event_t *next_timer(ngx_msec_t end)
{
    ngx_event_t *next = NULL;
    for (size_t i = 0; i < timers_len; i++) {
        if (timers[i]->timer.key <= end && (!next || timers[i]->timer.key < next->timer.key))
            next = timers[i];
    }
    return next;
}

void fake_pass(ngx_msec_t ms)
{
    ngx_msec_t end = ngx_current_msec + ms;
    for (ngx_event_t *event; (event = next_timer(end));) {
        ngx_current_msec = event->timer.key;
        ngx_del_timer(event);
        event->handler(event);
        fake_run();
    }
    ngx_current_msec = end;
}

/* ---- the socket ------------------------------------------------------------------------------ */

static ssize_t recv_fake(ngx_connection_t *c, u_char *to, size_t max)
{
    assert_true(c == &fake.c);
    size_t n = fake.received ? strlen(fake.received) : 0;
    n = n < max ? n : max;
    if (n == 0)
        return fake.ended ? 0 : NGX_AGAIN;
    memcpy(to, fake.received, n);
    fake.received += n;
    return (ssize_t)n;
}

static ssize_t send_fake(ngx_connection_t *c, u_char *from, size_t n)
{
    assert_true(c == &fake.c && fake.sent_len + n < sizeof fake.sent);
    memcpy(fake.sent + fake.sent_len, from, n);
    fake.sent_len += n;
    fake.sent[fake.sent_len] = '\0';
    return (ssize_t)n;
}

const char *fake_sent(void)
{
    static char text[FAKE_TEXT_MAX];
    memcpy(text, fake.sent, fake.sent_len + 1);
    fake.sent[fake.sent_len = 0] = '\0';
    return text;
}

static void close_sockets(void)
{
    for (int i = 0; i < 2; i++) {
        if (sockets[i] >= 0)
            close(sockets[i]);
        sockets[i] = -1;
    }
}

ngx_int_t ngx_event_connect_peer(ngx_peer_connection_t *pc)
{
    fake.connects++;
    if (fake.connect_rc != NGX_OK && fake.connect_rc != NGX_AGAIN) {
        errno = ECONNREFUSED;
        return fake.connect_rc;
    }
    close_sockets();
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, sockets), 0);
    socket_read = (ngx_event_t){.data = &fake.c};
    socket_write = (ngx_event_t){.data = &fake.c, .ready = 1};
    fake.c = (ngx_connection_t){.read = &socket_read,
                                .write = &socket_write,
                                .fd = sockets[0],
                                .recv = recv_fake,
                                .send = send_fake};
    fake.received = NULL;
    fake.ended = false;
    pc->connection = &fake.c;
    return fake.connect_rc;
}

ngx_int_t ngx_event_get_peer(ngx_peer_connection_t *pc, void *data)
{
    (void)pc;
    (void)data;
    return NGX_OK;
}

void ngx_close_connection(ngx_connection_t *c)
{
    assert_true(c == &fake.c);
    fake.closes++;
    close_sockets();
}

ngx_int_t ngx_handle_read_event(ngx_event_t *event, ngx_uint_t flags)
{
    (void)event;
    (void)flags;
    return NGX_OK;
}

ngx_int_t ngx_handle_write_event(ngx_event_t *event, size_t lowat)
{
    (void)event;
    (void)lowat;
    return NGX_OK;
}

void fake_receive(const char *bytes)
{
    fake.received = bytes;
    fake.ended = !bytes;
    socket_read.handler(&socket_read);
    fake_run();
}

void fake_connected(int error)
{
    if (error) { /* the event comes with the error of the socket */
        close_sockets();
        fake.c.fd = -1;
    }
    socket_write.handler(&socket_write);
    fake_run();
}

ngx_int_t ngx_parse_url(ngx_pool_t *pool, ngx_url_t *url)
{
    static struct sockaddr address = {.sa_family = AF_INET};
    bool two = url->url.len >= 4 && memcmp(url->url.data, "two:", 4) == 0;
    if (memchr(url->url.data, '!', url->url.len)) {
        url->err = "invalid host";
        return NGX_ERROR;
    }
    if (memchr(url->url.data, '?', url->url.len))
        url->uri = (ngx_str_t)ngx_string("?");
    url->naddrs = two ? 2 : 1;
    url->addrs = ngx_pcalloc(pool, url->naddrs * sizeof *url->addrs);
    for (ngx_uint_t i = 0; url->addrs && i < url->naddrs; i++)
        url->addrs[i] = (ngx_addr_t){&address, sizeof address, url->url};
    return url->addrs ? NGX_OK : NGX_ERROR;
}

ngx_int_t ngx_parse_addr(ngx_pool_t *pool, ngx_addr_t *addr, u_char *text, size_t len)
{
    char copy[64];
    struct sockaddr_in6 *in6 = ngx_pcalloc(pool, sizeof *in6);
    struct sockaddr_in *in = (struct sockaddr_in *)in6;
    snprintf(copy, sizeof copy, "%.*s", (int)len, text);
    addr->sockaddr = (struct sockaddr *)in6;
    if (inet_pton(AF_INET, copy, &in->sin_addr) == 1)
        in->sin_family = AF_INET;
    else if (inet_pton(AF_INET6, copy, &in6->sin6_addr) == 1)
        in6->sin6_family = AF_INET6;
    else
        return NGX_ERROR;
    return NGX_OK;
}

void fake_forget_events(void)
{
    close_sockets();
    timers_len = posted_len = 0;
}
