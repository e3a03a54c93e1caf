/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* Connections over real sockets, including a TLS server in the test. A wrapper counts the calls of
 * send(); see meson.build. */

#include "net/dial.h"

#include "port/port.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cmocka.h>

#include "net/tls_kit_test.h"

enum { PATIENCE_MS = 30000, BEAT_MS = 20, BIG = 8 << 20 };

static const int64_t ms_ns = 1000000;

/* ---- counted calls of send() ----------------------------------------------------------------- */

ssize_t __real_send(int fd, const void *buf, size_t len, int flags);
ssize_t __wrap_send(int fd, const void *buf, size_t len, int flags);

static int sends;

ssize_t __wrap_send(int fd, const void *buf, size_t len, int flags)
{
    sends++;
    return __real_send(fd, buf, len, flags);
}

/* ---- a loop with a dialer -------------------------------------------------------------------- */

typedef struct fixture {
    uv_loop_t uv;
    uv_timer_t patience;
    int beats;
    net_dialer *dialer;
    port_dialer *port;
    int64_t now_ns;
    bool real_time;
    void (*before_send)(struct fixture *f);
    port_connection *late_connection;
    char dir[64];
} fixture;

static int64_t on_now(void *ctx)
{
    const fixture *f = ctx;
    return f->real_time ? port_steady_ns() : f->now_ns;
}

static void on_before_send(void *ctx)
{
    fixture *f = ctx;
    if (f->before_send)
        f->before_send(f);
}

/* Also ends a UV_RUN_ONCE when the awaited event has happened already. */
static void on_beat(uv_timer_t *timer)
{
    fixture *f = timer->data;
    if (++f->beats > PATIENCE_MS / BEAT_MS)
        fail_msg("nothing more happens");
}

static int setup(void **state)
{
    fixture *f = calloc(1, sizeof *f);
    assert_non_null(f);
    f->real_time = true;
    assert_int_equal(uv_loop_init(&f->uv), 0);
    uv_timer_init(&f->uv, &f->patience);
    f->patience.data = f;
    const net_dialer_options options = {&f->uv, f, on_now, on_before_send, f};
    assert_int_equal(net_dialer_open(&f->dialer, &options), WEIR_OK);
    f->port = net_dialer_port(f->dialer);
    strcpy(f->dir, "/tmp/weir-dial-XXXXXX");
    assert_non_null(mkdtemp(f->dir));
    *state = f;
    return 0;
}

static int teardown(void **state)
{
    fixture *f = *state;
    char command[128];
    net_dialer_close(f->dialer);
    uv_close((uv_handle_t *)&f->patience, NULL);
    uv_run(&f->uv, UV_RUN_DEFAULT);
    assert_int_equal(uv_loop_close(&f->uv), 0); /* all memory was freed */
    snprintf(command, sizeof command, "rm -r %s", f->dir);
    assert_int_equal(system(command), 0);
    free(f);
    return 0;
}

/* Runs the loop until *what is at least `least`. */
static void run_until(fixture *f, const int *what, int least)
{
    uv_update_time(&f->uv);
    f->beats = 0;
    uv_timer_start(&f->patience, on_beat, BEAT_MS, BEAT_MS);
    while (*what < least)
        uv_run(&f->uv, UV_RUN_ONCE);
    uv_timer_stop(&f->patience);
}

/* Runs the loop until no event is ready. */
static void run_idle(fixture *f)
{
    for (int i = 0; i < 5; i++)
        uv_run(&f->uv, UV_RUN_NOWAIT);
}

/* ---- clients with a connection --------------------------------------------------------------- */

typedef struct caller {
    fixture *f;
    port_connection *connection;
    int ups, downs, calls; /* calls of received() */
    int received;          /* bytes received, including unread ones */
    size_t leaves;         /* leaves so many bytes unread ... */
    bool closes_when_up, closes_when_received;
    char text[64]; /* the first bytes received */
    char why[256];
} caller;

static void on_up(void *ctx, int64_t now_ns)
{
    caller *c = ctx;
    assert_int_equal(c->downs, 0);
    assert_true(now_ns > 0);
    c->ups++;
    if (c->closes_when_up)
        c->f->port->calls->close(c->connection);
}

static void on_received(void *ctx, weir_buffer *in, int64_t now_ns)
{
    caller *c = ctx;
    size_t len = weir_buffer_len(in);
    assert_int_equal(c->ups, 1);
    assert_int_equal(c->downs, 0);
    assert_true(len > 0 && now_ns > 0);
    c->calls++;
    if (c->received == 0)
        snprintf(c->text, sizeof c->text, "%.*s", (int)(len < 60 ? len : 60),
                 (const char *)weir_buffer_data(in));
    c->received += (int)len;
    if (c->closes_when_received) {
        c->f->port->calls->close(c->connection);
        return;
    }
    weir_buffer_consume(in, len > c->leaves ? len - c->leaves : 0);
    c->received -= (int)weir_buffer_len(in);
}

static void on_down(void *ctx, const char *why, int64_t now_ns)
{
    caller *c = ctx;
    assert_true(now_ns > 0);
    c->downs++;
    snprintf(c->why, sizeof c->why, "%s", why);
}

static void call(fixture *f, caller *c, const port_endpoint *to)
{
    static const port_connection_events events = {on_up, on_received, on_down};
    c->f = f;
    c->connection = f->port->calls->connect(f->port, to, &events, c);
    assert_non_null(c->connection);
    assert_int_equal(c->ups + c->downs, 0);
}

static void say(caller *c, const void *bytes, size_t len)
{
    weir_buffer_append(c->f->port->calls->out(c->connection), bytes, len);
    c->f->port->calls->send(c->connection);
}

static void say_text(caller *c, const char *text)
{
    say(c, text, strlen(text));
}

/* ---- callbacks ------------------------------------------------------------------------------- */

static int listen_tcp(uint16_t *ret_port)
{
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof a;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true(fd >= 0);
    assert_int_equal(bind(fd, (struct sockaddr *)&a, sizeof a), 0);
    assert_int_equal(listen(fd, 8), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)&a, &len), 0);
    *ret_port = ntohs(a.sin_port);
    return fd;
}

static int accept_one(int listener)
{
    struct pollfd p = {.fd = listener, .events = POLLIN};
    assert_int_equal(poll(&p, 1, PATIENCE_MS), 1);
    int fd = accept(listener, NULL, NULL);
    assert_true(fd >= 0);
    return fd;
}

static void expect_bytes(int fd, const char *text)
{
    char got[128] = {0};
    size_t len = 0;
    while (len < strlen(text)) {
        struct pollfd p = {.fd = fd, .events = POLLIN};
        assert_int_equal(poll(&p, 1, PATIENCE_MS), 1);
        ssize_t n = recv(fd, got + len, strlen(text) - len, 0);
        assert_true(n > 0);
        len += (size_t)n;
    }
    assert_string_equal(got, text);
}

static void reply(int fd, const char *text)
{
    assert_int_equal(write(fd, text, strlen(text)), (ssize_t)strlen(text));
}

/* An established connection, and the server's end of it. */
static int connect_tcp(fixture *f, caller *c)
{
    uint16_t port;
    int listener = listen_tcp(&port);
    call(f, c, &(port_endpoint){.host = "127.0.0.1", .port = port});
    run_until(f, &c->ups, 1);
    int fd = accept_one(listener);
    close(listener);
    return fd;
}

/* ---- connections ----------------------------------------------------------------------------- */

static void test_connection(void **state)
{
    fixture *f = *state;
    caller c = {.leaves = 2};
    int fd = connect_tcp(f, &c);
    say_text(&c, "one ");
    say_text(&c, "two");
    run_idle(f);
    expect_bytes(fd, "one two");
    assert_int_equal(weir_buffer_len(f->port->calls->out(c.connection)), 0);
    reply(fd, "abc");
    run_until(f, &c.received, 1);
    assert_string_equal(c.text, "abc");
    c.received = 0;
    c.leaves = 0;
    reply(fd, "def");
    run_until(f, &c.received, 5);
    assert_string_equal(c.text, "bcdef"); /* the unread bytes, and then the rest */
    reply(fd, "last");
    close(fd);
    run_until(f, &c.downs, 1);
    assert_int_equal(c.received, 9);
    assert_string_equal(c.why, "the server closed the connection");
    run_idle(f);
    assert_int_equal(c.downs, 1);
}

/* A host name of this machine, for which [::1] may be tried first. Without /etc/hosts the lookup
 * fails. */
static const char *own_name(void)
{
    struct addrinfo *found;
    if (getaddrinfo("localhost", NULL, NULL, &found) != 0)
        return "127.0.0.1";
    freeaddrinfo(found);
    return "localhost";
}

static void test_send_before_established(void **state)
{
    fixture *f = *state;
    uint16_t port;
    int listener = listen_tcp(&port);
    caller c = {0};
    call(f, &c, &(port_endpoint){.host = own_name(), .port = port});
    say_text(&c, "early ");
    say_text(&c, "bird");
    run_until(f, &c.ups, 1);
    int fd = accept_one(listener);
    run_idle(f);
    expect_bytes(fd, "early bird");
    close(fd);
    close(listener);
    run_until(f, &c.downs, 1);
}

static void test_refused(void **state)
{
    fixture *f = *state;
    uint16_t port;
    close(listen_tcp(&port)); /* almost certainly free */
    caller c = {0}, d = {0}, e = {0}, g = {0};
    char name[200] = {0}, path[150];
    memset(name, 'x', sizeof name - 1); /* this label of the name is too long */
    memset(path, '/', sizeof path);
    path[sizeof path - 1] = '\0';
    call(f, &c, &(port_endpoint){.host = "127.0.0.1", .port = port});
    call(f, &d, &(port_endpoint){.host = name, .port = port});
    call(f, &e, &(port_endpoint){.host = path});
    call(f, &g, &(port_endpoint){.host = "/nowhere/at/all.sock"});
    run_until(f, &c.downs, 1);
    run_until(f, &d.downs, 1);
    run_until(f, &e.downs, 1);
    run_until(f, &g.downs, 1);
    assert_string_equal(c.why, "connection refused");
    assert_string_equal(e.why, "the socket path has more than 107 bytes");
    assert_string_equal(g.why, "no such file or directory");
    assert_int_equal(strncmp(d.why, "host name lookup failed: ", 25), 0);
    assert_int_equal(c.ups + d.ups + e.ups + g.ups, 0);
}

static void test_socket_file(void **state)
{
    fixture *f = *state;
    struct sockaddr_un a = {.sun_family = AF_UNIX};
    snprintf(a.sun_path, sizeof a.sun_path, "%s/s", f->dir);
    int listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(listener, (struct sockaddr *)&a, sizeof a), 0);
    assert_int_equal(listen(listener, 8), 0);
    caller c = {0};
    call(f, &c, &(port_endpoint){.host = a.sun_path});
    run_until(f, &c.ups, 1);
    int fd = accept_one(listener);
    say_text(&c, "through a file");
    run_idle(f);
    expect_bytes(fd, "through a file");
    reply(fd, "yes");
    run_until(f, &c.received, 3);
    close(fd);
    close(listener);
    run_until(f, &c.downs, 1);
}

static void test_close(void **state)
{
    fixture *f = *state;
    uint16_t port, other_port;
    int listener = listen_tcp(&port);
    int other = listen_tcp(&other_port); /* the connection may be established before it closes */
    const port_endpoint to = {.host = "127.0.0.1", .port = port};
    caller before = {0}, resolving = {0}, up = {.closes_when_up = true};
    caller received = {.closes_when_received = true};
    call(f, &before, &to);
    f->port->calls->close(before.connection);
    call(f, &resolving, &(port_endpoint){.host = "localhost", .port = other_port});
    uv_run(&f->uv, UV_RUN_NOWAIT);
    f->port->calls->close(resolving.connection);
    call(f, &up, &to);
    run_until(f, &up.ups, 1);
    close(accept_one(listener));
    call(f, &received, &to);
    run_until(f, &received.ups, 1);
    int fd = accept_one(listener);
    reply(fd, "something");
    run_until(f, &received.calls, 1);
    run_idle(f);
    close(fd);
    close(listener);
    close(other);
    run_idle(f);
    assert_int_equal(before.ups + resolving.ups, 0);
    assert_int_equal(before.downs + resolving.downs + up.downs + received.downs, 0);
}

/* A peer that does not read: the socket accepts a part, and the rest waits in order. */
static void test_much_data(void **state)
{
    fixture *f = *state;
    caller c = {0};
    int fd = connect_tcp(f, &c);
    uint8_t *bytes = malloc(BIG), *got = malloc(BIG);
    for (size_t i = 0; i < BIG; i++)
        bytes[i] = (uint8_t)(i % 251);
    say(&c, bytes, BIG / 2);
    run_idle(f);
    assert_true(weir_buffer_len(f->port->calls->out(c.connection)) > 0);
    say(&c, bytes + BIG / 2, BIG - BIG / 2);
    for (size_t len = 0; len < BIG;) {
        ssize_t n = recv(fd, got + len, BIG - len, MSG_DONTWAIT);
        if (n > 0)
            len += (size_t)n;
        else
            uv_run(&f->uv, UV_RUN_NOWAIT);
    }
    assert_memory_equal(bytes, got, BIG);
    assert_int_equal(weir_buffer_len(f->port->calls->out(c.connection)), 0);
    for (size_t len = 0; len < BIG;) {
        ssize_t n = send(fd, bytes + len, BIG - len, MSG_DONTWAIT);
        if (n > 0)
            len += (size_t)n;
        else
            uv_run(&f->uv, UV_RUN_NOWAIT);
    }
    run_until(f, &c.received, BIG);
    free(bytes);
    free(got);
    close(fd);
    run_until(f, &c.downs, 1);
}

static void test_buffer_limit(void **state)
{
    fixture *f = *state;
    caller c = {0};
    int fd = connect_tcp(f, &c);
    uint8_t *bytes = calloc(1, BIG);
    for (int i = 0; i < 9; i++)
        say(&c, bytes, BIG);
    run_until(f, &c.downs, 1);
    assert_string_equal(c.why, "more than 64 MiB of output are unsent, or memory is exhausted");
    free(bytes);
    close(fd);
}

/* ---- batched output -------------------------------------------------------------------------- */

enum { PEERS = 10 };

typedef struct peer {
    uv_poll_t poll;
    int ends[2];
    caller *c;
} peer;

static void on_peer(uv_poll_t *poll, int status, int events)
{
    char byte;
    peer *p = poll->data;
    assert_int_equal(status, 0);
    assert_true(events & UV_READABLE);
    assert_int_equal(read(p->ends[0], &byte, 1), 1);
    say(p->c, &byte, 1);
}

/* Sends only after the socket events, although before_send() is also called before them. */
static void add_before_send(fixture *f)
{
    if (weir_buffer_len(f->port->calls->out(f->late_connection)) == 0)
        return;
    weir_buffer_append(f->port->calls->out(f->late_connection), "!", 1);
    f->port->calls->send(f->late_connection);
    f->before_send = NULL;
}

/* All output that several socket events add in one iteration of the loop, and that before_send()
 * adds, is sent with one system call. */
static void test_one_send_per_iteration(void **state)
{
    fixture *f = *state;
    peer peers[PEERS];
    caller c = {0};
    int fd = connect_tcp(f, &c);
    for (int i = 0; i < PEERS; i++) {
        assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, peers[i].ends), 0);
        assert_int_equal(uv_poll_init(&f->uv, &peers[i].poll, peers[i].ends[0]), 0);
        peers[i].poll.data = &peers[i];
        peers[i].c = &c;
        assert_int_equal(uv_poll_start(&peers[i].poll, UV_READABLE, on_peer), 0);
        reply(peers[i].ends[1], "x");
    }
    run_idle(f);
    for (int i = 0; i < PEERS; i++)
        reply(peers[i].ends[1], "y");
    sends = 0;
    f->late_connection = c.connection;
    f->before_send = add_before_send;
    uv_run(&f->uv, UV_RUN_NOWAIT);
    assert_null(f->before_send);
    assert_int_equal(sends, 1);
    expect_bytes(fd, "xxxxxxxxxxyyyyyyyyyy!");
    for (int i = 0; i < PEERS; i++) {
        uv_close((uv_handle_t *)&peers[i].poll, NULL);
        close(peers[i].ends[0]);
        close(peers[i].ends[1]);
    }
    run_idle(f);
    close(fd);
    run_until(f, &c.downs, 1);
}

/* ---- timers ---------------------------------------------------------------------------------- */

typedef struct test_timer {
    fixture *f;
    port_timer *timer;
    int rings, again;
    int64_t at_ns;
    bool drops;
} test_timer;

static void on_test_timer(void *ctx, int64_t now_ns)
{
    test_timer *b = ctx;
    assert_true(now_ns >= b->at_ns);
    b->rings++;
    if (b->again > 0) {
        b->again--;
        b->at_ns = now_ns + 2 * ms_ns;
        b->f->port->calls->set_timer(b->timer, b->at_ns);
    }
    if (b->drops)
        b->f->port->calls->free_timer(b->timer);
}

static void start_timer(fixture *f, test_timer *b, int64_t at_ns)
{
    b->f = f;
    b->at_ns = at_ns;
    b->timer = f->port->calls->new_timer(f->port, on_test_timer, b);
    assert_non_null(b->timer);
    f->port->calls->set_timer(b->timer, at_ns);
    assert_int_equal(b->rings, 0);
}

static void test_timers(void **state)
{
    fixture *f = *state;
    int64_t now_ns = f->port->calls->now(f->port);
    test_timer past = {0}, again = {.again = 3}, off = {0}, later = {0}, dropped = {.drops = true};
    start_timer(f, &past, 0);
    start_timer(f, &again, now_ns + 1); /* rounded up: never early */
    start_timer(f, &off, now_ns + ms_ns);
    f->port->calls->set_timer(off.timer, INT64_MAX);
    start_timer(f, &later, now_ns + ms_ns);
    later.at_ns = now_ns + 5 * ms_ns;
    f->port->calls->set_timer(later.timer, later.at_ns);
    start_timer(f, &dropped, now_ns + ms_ns);
    run_until(f, &past.rings, 1);
    run_until(f, &again.rings, 4);
    run_until(f, &later.rings, 1);
    run_until(f, &dropped.rings, 1);
    run_idle(f);
    assert_int_equal(past.rings + again.rings + later.rings + dropped.rings, 7);
    assert_int_equal(off.rings, 0);
    f->port->calls->free_timer(NULL);
    f->port->calls->free_timer(off.timer);
}

/* Timers use the dialer's clock, not the clock of the loop. */
static void test_timer_uses_dialer_clock(void **state)
{
    fixture *f = *state;
    test_timer b = {0}, sooner = {0};
    f->real_time = false;
    f->now_ns = 1000 * ms_ns;
    start_timer(f, &b, f->now_ns + 2 * ms_ns);
    start_timer(f, &sooner, f->now_ns + 3600000 * ms_ns);
    for (int i = 0; i < 5; i++)
        uv_run(&f->uv, UV_RUN_ONCE); /* 2 ms of the loop pass, several times */
    assert_int_equal(b.rings, 0);
    f->now_ns += 2 * ms_ns;
    run_until(f, &b.rings, 1);
    sooner.at_ns = f->now_ns;
    f->port->calls->set_timer(sooner.timer, f->now_ns);
    run_until(f, &sooner.rings, 1);
    assert_int_equal(b.rings, 1);
}

/* ---- TLS ------------------------------------------------------------------------------------- */

typedef struct files {
    authority ours, other;
    char ca[96], other_ca[96], server[96], client[96], stranger[96], bad[96];
} files;

static void make_files(const fixture *f, files *k)
{
    snprintf(k->ca, sizeof k->ca, "%s/ca.pem", f->dir);
    snprintf(k->other_ca, sizeof k->other_ca, "%s/other.pem", f->dir);
    snprintf(k->server, sizeof k->server, "%s/server.pem", f->dir);
    snprintf(k->client, sizeof k->client, "%s/client.pem", f->dir);
    snprintf(k->stranger, sizeof k->stranger, "%s/stranger.pem", f->dir);
    snprintf(k->bad, sizeof k->bad, "%s/bad.pem", f->dir);
    k->ours = make_authority(k->ca);
    k->other = make_authority(k->other_ca);
    make_pair(&k->ours, "DNS:redis.test,IP:127.0.0.1", k->server);
    make_pair(&k->ours, "DNS:client.test", k->client);
    make_pair(&k->other, "DNS:redis.test", k->stranger);
    FILE *file = fopen(k->bad, "w");
    fputs("no certificate\n", file);
    fclose(file);
}

static void free_files(files *k)
{
    free_authority(&k->ours);
    free_authority(&k->other);
}

static port_tls *open_tls(const char *ca, const char *pair, bool insecure)
{
    port_tls *tls = NULL;
    char error[256] = "";
    weir_status st = net_tls_open(&tls, ca, pair, pair, insecure, error, sizeof error);
    assert_string_equal(error, "");
    assert_int_equal(st, WEIR_OK);
    return tls;
}

static void test_tls(void **state)
{
    fixture *f = *state;
    files k;
    uint16_t port;
    tls_server server;
    make_files(f, &k);
    tls_start(&server, listen_tcp(&port), k.server, NULL);
    port_tls *tls = open_tls(k.ca, NULL, false);
    caller c = {.leaves = 1};
    call(f, &c, &(port_endpoint){.host = "127.0.0.1", .port = port, .tls = tls});
    say_text(&c, "early bird");
    run_until(f, &c.received, 9);
    assert_string_equal(c.text, "early bird");
    c.leaves = 0;
    c.received = 0;
    uint8_t *bytes = calloc(1, BIG);
    say(&c, bytes, BIG);
    run_until(f, &c.received, BIG + 1);
    f->port->calls->close(c.connection);
    free(bytes);

    caller named = {0};
    call(f, &named,
         &(port_endpoint){.host = "127.0.0.1", .port = port, .tls = tls, .tls_name = "redis.test"});
    run_until(f, &named.ups, 1);
    say_text(&named, "hello");
    run_until(f, &named.received, 5);
    f->port->calls->close(named.connection);
    tls_stop(&server);
    net_tls_close(tls);
    free_files(&k);
}

/* Returns why a connection is not established, or closes soon after. */
static void expect_down(fixture *f, const port_endpoint *to, const char *why)
{
    caller c = {0};
    call(f, &c, to);
    run_until(f, &c.downs, 1);
    if (!strstr(c.why, why))
        print_error("%s\n", c.why);
    assert_non_null(strstr(c.why, why));
}

static void test_tls_verification(void **state)
{
    fixture *f = *state;
    files k;
    uint16_t port, port_of_stranger, plain;
    tls_server server, stranger;
    make_files(f, &k);
    tls_start(&server, listen_tcp(&port), k.server, NULL);
    tls_start(&stranger, listen_tcp(&port_of_stranger), k.stranger, NULL);
    int listener = listen_tcp(&plain);
    port_tls *tls = open_tls(k.ca, NULL, false), *any = open_tls(NULL, NULL, true);
    port_endpoint to = {.host = "127.0.0.1", .port = port, .tls = tls, .tls_name = "other.test"};
    expect_down(f, &to, "TLS: the server's certificate is not valid for \"other.test\"");
    to.tls_name = "127.0.0.2";
    expect_down(f, &to, "TLS: the server's certificate is not valid for \"127.0.0.2\"");
    to.port = port_of_stranger;
    to.tls_name = "redis.test";
    expect_down(f, &to, "TLS: the server's certificate is not trusted: ");

    caller c = {0};
    to.tls = any;
    to.tls_name = "other-name.test";
    call(f, &c, &to);
    run_until(f, &c.ups, 1);
    f->port->calls->close(c.connection);

    caller d = {0};
    to.port = plain;
    call(f, &d, &to);
    while (uv_run(&f->uv, UV_RUN_NOWAIT) && d.calls == 0) {
        struct pollfd p = {.fd = listener, .events = POLLIN};
        if (poll(&p, 1, 1) == 1)
            break;
    }
    int fd = accept_one(listener);
    reply(fd, "-ERR what is that\r\n");
    run_until(f, &d.downs, 1);
    assert_string_equal(d.why, "TLS: the server does not speak TLS");
    close(fd);
    close(listener);
    tls_stop(&server);
    tls_stop(&stranger);
    net_tls_close(tls);
    net_tls_close(any);
    free_files(&k);
}

static void test_tls_client_certificate(void **state)
{
    fixture *f = *state;
    files k;
    uint16_t port;
    tls_server server;
    make_files(f, &k);
    tls_start(&server, listen_tcp(&port), k.server, k.ca);
    port_tls *no_client = open_tls(k.ca, NULL, false), *one = open_tls(k.ca, k.client, false);
    port_endpoint to = {.host = "127.0.0.1", .port = port, .tls = no_client};
    expect_down(f, &to, "certificate required");
    to.tls = one;
    caller c = {0};
    call(f, &c, &to);
    say_text(&c, "it is me");
    run_until(f, &c.received, 8);
    f->port->calls->close(c.connection);
    tls_stop(&server);
    net_tls_close(no_client);
    net_tls_close(one);
    free_files(&k);
}

static void test_tls_files(void **state)
{
    fixture *f = *state;
    files k;
    port_tls *tls = NULL;
    char error[256], nowhere[96];
    make_files(f, &k);
    snprintf(nowhere, sizeof nowhere, "%s/nowhere.pem", f->dir);
    const struct {
        const char *ca, *cert, *key, *error;
    } bad[] = {
        {nowhere, NULL, NULL, "cannot load the trusted certificates %s/nowhere.pem: No such file"},
        {k.bad, NULL, NULL,
         "cannot load the trusted certificates %s/bad.pem: no certificate or crl found"},
        {k.ca, nowhere, k.client, "cannot load the certificate %s/nowhere.pem: No such file"},
        {k.ca, k.bad, k.client, "cannot load the certificate %s/bad.pem: no start line"},
        {k.ca, k.client, k.bad, "cannot load the private key %s/bad.pem: "},
        {k.ca, k.client, k.server,
         "cannot load the private key %s/server.pem: key values mismatch"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        char expected[256];
        snprintf(expected, sizeof expected, bad[i].error, f->dir);
        error[0] = '\0';
        assert_int_equal(
            net_tls_open(&tls, bad[i].ca, bad[i].cert, bad[i].key, false, error, sizeof error),
            WEIR_E_IO);
        if (strncmp(error, expected, strlen(expected)) != 0)
            print_error("%s\n", error);
        assert_int_equal(strncmp(error, expected, strlen(expected)), 0);
    }
    assert_null(tls);
    free_files(&k);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_connection, setup, teardown),
        cmocka_unit_test_setup_teardown(test_send_before_established, setup, teardown),
        cmocka_unit_test_setup_teardown(test_refused, setup, teardown),
        cmocka_unit_test_setup_teardown(test_socket_file, setup, teardown),
        cmocka_unit_test_setup_teardown(test_close, setup, teardown),
        cmocka_unit_test_setup_teardown(test_much_data, setup, teardown),
        cmocka_unit_test_setup_teardown(test_buffer_limit, setup, teardown),
        cmocka_unit_test_setup_teardown(test_one_send_per_iteration, setup, teardown),
        cmocka_unit_test_setup_teardown(test_timers, setup, teardown),
        cmocka_unit_test_setup_teardown(test_timer_uses_dialer_clock, setup, teardown),
        cmocka_unit_test_setup_teardown(test_tls, setup, teardown),
        cmocka_unit_test_setup_teardown(test_tls_verification, setup, teardown),
        cmocka_unit_test_setup_teardown(test_tls_client_certificate, setup, teardown),
        cmocka_unit_test_setup_teardown(test_tls_files, setup, teardown),
    };
    signal(SIGPIPE, SIG_IGN);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
