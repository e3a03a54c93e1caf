/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* Connections over real sockets, and timers. */

#include "net/dial_kit_test.h"
#include "net/names_test.h"

#include <fcntl.h>

/* ---- connections ----------------------------------------------------------------------------- */

static int open_descriptors(void)
{
    int n = 0;
    for (int fd = 0; fd < 256; fd++)
        n += fcntl(fd, F_GETFD) >= 0;
    return n;
}

static void test_connection(void **state)
{
    fixture *f = *state;
    caller c = {.leaves = 2};
    int descriptors = open_descriptors(), fd = connect_tcp(f, &c);
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
    assert_int_equal(open_descriptors(), descriptors);
}

static void test_send_before_established(void **state)
{
    fixture *f = *state;
    uint16_t port;
    int listener = listen_tcp(&port);
    caller c = {0};
    call(f, &c, &(port_endpoint){.host = NAME_OF_BOTH, .port = port});
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

/* Sets listener[i] to a socket on 127.0.0.(i + 1). All have one port. */
static uint16_t listen_on_three(int listener[3])
{
    struct sockaddr_in a = {.sin_family = AF_INET};
    uint16_t port;
    for (int bound = 0; bound < 3;) {
        listener[0] = listen_tcp(&port);
        a.sin_port = htons(port);
        for (bound = 1; bound < 3; bound++) {
            listener[bound] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
            a.sin_addr.s_addr = htonl(INADDR_LOOPBACK + (in_addr_t)bound);
            if (bind(listener[bound], (struct sockaddr *)&a, sizeof a) != 0) /* in use */
                break;
            assert_int_equal(listen(listener[bound], 8), 0);
        }
        for (int i = 0; bound < 3 && i <= bound; i++)
            close(listener[i]);
    }
    return port;
}

/* A user that was unhappy with a server of a name gets to all others. */
static void test_skipped_addresses(void **state)
{
    fixture *f = *state;
    static const uint32_t skip[] = {0, 1, 2, 3, 4, UINT32_MAX};
    static const int expected[] = {2, 1, 2, 0, 1, 0}; /* first as found, then sorted */
    int listener[3];
    uint16_t port = listen_on_three(listener);
    for (size_t i = 0; i < sizeof skip / sizeof *skip; i++) {
        caller c = {0};
        call(f, &c, &(port_endpoint){.host = NAME_OF_THREE, .port = port, .skip = skip[i]});
        run_until(f, &c.ups, 1);
        close(accept_one(listener[expected[i]]));
        run_until(f, &c.downs, 1);
    }
    close(listener[1]); /* the others are tried, too */
    caller c = {0};
    call(f, &c, &(port_endpoint){.host = NAME_OF_THREE, .port = port, .skip = 1});
    run_until(f, &c.ups, 1);
    close(accept_one(listener[2]));
    run_until(f, &c.downs, 1);
    close(listener[0]);
    close(listener[2]);
}

static void test_refused(void **state)
{
    fixture *f = *state;
    uint16_t port;
    close(listen_tcp(&port)); /* almost certainly free */
    caller c = {0}, d = {0}, e = {0}, g = {0}, ip6 = {0};
    char name[200] = {0}, path[109] = {0}, nowhere[108] = {0};
    memset(name, 'x', sizeof name - 1); /* this label of the name is too long */
    memset(path, '/', sizeof path - 1);
    memset(nowhere, '/', sizeof nowhere - 1);
    memcpy(nowhere, "/nowhere", 8);
    call(f, &c, &(port_endpoint){.host = "127.0.0.1", .port = port});
    call(f, &d, &(port_endpoint){.host = name, .port = port});
    call(f, &e, &(port_endpoint){.host = path});
    call(f, &g, &(port_endpoint){.host = nowhere});
    call(f, &ip6, &(port_endpoint){.host = "::1", .port = port});
    run_until(f, &c.downs, 1);
    run_until(f, &d.downs, 1);
    run_until(f, &e.downs, 1);
    run_until(f, &g.downs, 1);
    run_until(f, &ip6.downs, 1);
    assert_string_equal(ip6.why, "connection refused");
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

/* Large buffers are freed once they are empty. */
static void test_buffers_shrink(void **state)
{
    fixture *f = *state;
    caller c = {.leaves = BIG - 1};
    int fd = connect_tcp(f, &c), got = 0;
    static uint8_t bytes[BIG];
    say(&c, bytes, BIG);
    while (got < BIG) {
        ssize_t n = recv(fd, bytes, sizeof bytes, MSG_DONTWAIT);
        got += n > 0 ? (int)n : 0;
        uv_run(&f->uv, UV_RUN_NOWAIT);
    }
    assert_true(weir_buffer_memory(f->port->calls->out(c.connection)) <= 256 << 10);
    for (size_t sent = 0; sent < BIG;) {
        ssize_t n = send(fd, bytes, BIG - sent, MSG_DONTWAIT);
        sent += n > 0 ? (size_t)n : 0;
        uv_run(&f->uv, UV_RUN_NOWAIT);
    }
    while (c.memory < BIG)
        uv_run(&f->uv, UV_RUN_ONCE);
    c.leaves = 0;
    int calls = c.calls;
    reply(fd, "x"); /* everything is read */
    run_until(f, &c.calls, calls + 1);
    reply(fd, "y");
    run_until(f, &c.calls, calls + 2);
    assert_true(c.memory <= 256 << 10);
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

/* The client's end of a connection. */
static int other_end(int fd)
{
    struct sockaddr_in peer, own;
    socklen_t len = sizeof peer;
    assert_int_equal(getpeername(fd, (struct sockaddr *)&peer, &len), 0);
    for (int i = 0; i < 256; i++) {
        len = sizeof own;
        if (getsockname(i, (struct sockaddr *)&own, &len) == 0 && own.sin_port == peer.sin_port)
            return i;
    }
    fail_msg("no client");
    return -1;
}

static int option(int fd, int level, int name)
{
    int value = -1;
    socklen_t len = sizeof value;
    assert_int_equal(getsockopt(fd, level, name, &value, &len), 0);
    return value;
}

static void test_socket_options(void **state)
{
    fixture *f = *state;
    caller c = {0};
    int fd = connect_tcp(f, &c), client = other_end(fd);
    assert_true(option(client, IPPROTO_TCP, TCP_NODELAY));
    assert_true(option(client, SOL_SOCKET, SO_KEEPALIVE));
    assert_int_equal(option(client, IPPROTO_TCP, TCP_KEEPIDLE), 30);
    close(fd);
    run_until(f, &c.downs, 1);
}

/* A connection with much input reads four times. Then the others are served. */
static void test_reads_are_bounded(void **state)
{
    enum { READ = 64 << 10 };
    fixture *f = *state;
    caller c = {0};
    int fd = connect_tcp(f, &c);
    run_idle(f);
    recvs = polls = 0;
    reply(fd, "x");
    run_until(f, &c.received, 1);
    assert_int_equal(recvs, 1);
    say_text(&c, "x");
    run_idle(f);
    assert_int_equal(polls, 0); /* reading and sending change nothing that is polled for */
    reply(fd, "y");
    full_recvs = 6;
    uv_run(&f->uv, UV_RUN_NOWAIT);
    assert_int_equal(recvs, 1 + 4);
    run_until(f, &c.received, 1 + 6 * READ + 1);
    assert_int_equal(c.received, 1 + 6 * READ + 1);
    close(fd);
    run_until(f, &c.downs, 1);
}

/* All input is read before a reset is reported. */
static void test_reset(void **state)
{
    enum { READ = 64 << 10 };
    fixture *f = *state;
    caller c = {0};
    int fd = connect_tcp(f, &c);
    run_idle(f);
    full_recvs = 6;
    const struct linger at_once = {.l_onoff = 1};
    assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once), 0);
    close(fd);
    run_until(f, &c.downs, 1);
    assert_int_equal(c.received, 6 * READ);
    assert_string_equal(c.why, "connection reset by peer");
}

static void test_send_error(void **state)
{
    fixture *f = *state;
    caller c = {0};
    int fd = connect_tcp(f, &c);
    run_idle(f);
    send_errno = EPIPE;
    say_text(&c, "lost");
    run_until(f, &c.downs, 1);
    assert_string_equal(c.why, "broken pipe");
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

static void expect_end(int fd)
{
    char byte;
    assert_int_equal(recv(fd, &byte, 1, 0), 0);
    close(fd);
}

/* A connection that is closed sends what the socket accepts at once, and calls nothing. */
static void test_close_sends(void **state)
{
    fixture *f = *state;
    static const char *const expected[] = {"last word", "last", ""};
    for (size_t i = 0; i < 3; i++) {
        caller c = {0};
        int fd = connect_tcp(f, &c);
        run_idle(f);
        say_text(&c, "last word");
        send_room = i == 1 ? 4 : SIZE_MAX;
        f->port->calls->out(c.connection)->failed = i == 2;
        sends = 0;
        f->port->calls->close(c.connection);
        assert_int_equal(sends, i == 0 ? 1 : i == 1 ? 2 : 0);
        expect_bytes(fd, expected[i]);
        expect_end(fd);
        run_idle(f);
        assert_int_equal(c.downs, 0);
    }
}

/* Closing connections, with and without unsent output, does not lose the output of others. */
static void test_close_keeps_the_output_of_others(void **state)
{
    fixture *f = *state;
    caller c[4] = {{0}};
    int fds[4];
    for (int i = 0; i < 4; i++)
        fds[i] = connect_tcp(f, &c[i]);
    run_idle(f);
    for (int i = 0; i < 3; i++)
        say_text(&c[i], "output");
    f->port->calls->close(c[1].connection); /* with output, in the middle of the list */
    f->port->calls->close(c[3].connection); /* without output */
    run_idle(f);
    expect_bytes(fds[0], "output");
    expect_bytes(fds[2], "output");
    for (int i = 0; i < 4; i++)
        close(fds[i]);
    run_until(f, &c[0].downs, 1);
    run_until(f, &c[2].downs, 1);
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_connection, setup, teardown),
        cmocka_unit_test_setup_teardown(test_send_before_established, setup, teardown),
        cmocka_unit_test_setup_teardown(test_skipped_addresses, setup, teardown),
        cmocka_unit_test_setup_teardown(test_refused, setup, teardown),
        cmocka_unit_test_setup_teardown(test_socket_file, setup, teardown),
        cmocka_unit_test_setup_teardown(test_close, setup, teardown),
        cmocka_unit_test_setup_teardown(test_much_data, setup, teardown),
        cmocka_unit_test_setup_teardown(test_buffers_shrink, setup, teardown),
        cmocka_unit_test_setup_teardown(test_buffer_limit, setup, teardown),
        cmocka_unit_test_setup_teardown(test_socket_options, setup, teardown),
        cmocka_unit_test_setup_teardown(test_reads_are_bounded, setup, teardown),
        cmocka_unit_test_setup_teardown(test_reset, setup, teardown),
        cmocka_unit_test_setup_teardown(test_send_error, setup, teardown),
        cmocka_unit_test_setup_teardown(test_one_send_per_iteration, setup, teardown),
        cmocka_unit_test_setup_teardown(test_close_sends, setup, teardown),
        cmocka_unit_test_setup_teardown(test_close_keeps_the_output_of_others, setup, teardown),
        cmocka_unit_test_setup_teardown(test_timers, setup, teardown),
        cmocka_unit_test_setup_teardown(test_timer_uses_dialer_clock, setup, teardown),
    };
    signal(SIGPIPE, SIG_IGN);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
