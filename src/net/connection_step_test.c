/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* Connections, with a clock of milliseconds: timeouts, slow clients, lingering, refusals, memory
 * that runs out, and random steps of all of these. */

#include "net/loop_kit_test.h"

#include "port/memory_kit_test.h"

/* ---- timeouts -------------------------------------------------------------------------------- */

static void test_idle_timeout(void **unused)
{
    (void)unused;
    world w;
    weir_server_limits limits = usual;
    limits.idle_ns = 39 * ms_ns + 1; /* rounded up */
    open_world(&w, &limits, &lines);
    reach(&w, WEIR_STAGE_SERVE);
    int idle = join_world(&w), busy = join_world(&w), waiting = join_world(&w);
    delay_until(&w, waiting, wall_ns + 100 * ms_ns);
    pass(&w, 39);
    tell(&w, busy, "busy\n");
    expect_now(busy, "busy\n");
    assert_int_equal(w.loop->connections_len, 3);
    pass(&w, 1);
    assert_true(has_ended(idle));
    expect_reports(&w, "timed-out: closed an idle connection (limits.idle)\n");
    pass(&w, 30);
    assert_int_equal(w.loop->connections_len, 2);
    pass(&w, 10);
    assert_true(has_ended(busy));
    pass(&w, 20);
    expect_now(waiting, "waited\n"); /* was not idle: the client waited for the server */
    pass(&w, 39);
    assert_false(has_ended(waiting));
    pass(&w, 1);
    assert_true(has_ended(waiting));
    assert_int_equal(port_load_relaxed(&w.loop->stats.timed_out), 3);
    close_world(&w);
    close(idle);
    close(busy);
    close(waiting);
}

/* The timeout of a request begins at its first byte; further bytes do not extend it. */
static void test_request_timeout(void **unused)
{
    (void)unused;
    world w;
    weir_server_limits limits = usual;
    limits.request_ns = 40 * ms_ns;
    open_world(&w, &limits, &lines);
    reach(&w, WEIR_STAGE_SERVE);
    int drip = join_world(&w), whole = join_world(&w), silent = join_world(&w);
    tell(&w, drip, "a\n");
    tell(&w, whole, "a\n");
    expect_now(drip, "a\n");
    expect_now(whole, "a\n");
    pass(&w, 39);
    assert_false(has_ended(silent)); /* time without a request counts before the first byte ... */
    pass(&w, 1);
    assert_true(has_ended(silent));
    close(silent);
    expect_reports(
        &w, "timed-out: closed a connection: its client has sent nothing (limits.request)\n");
    pass(&w, 1000); /* ... and not later */
    tell(&w, drip, "x");
    tell(&w, whole, "x");
    pass(&w, 30);
    tell(&w, drip, "y");
    tell(&w, whole, "y\nz"); /* the next request begins */
    expect_now(whole, "xy\n");
    pass(&w, 9);
    expect_now(drip, "");
    pass(&w, 1);
    expect_now(drip, "TIMEOUT\n");
    assert_true(has_ended(drip));
    pass(&w, 29);
    expect_now(whole, "");
    pass(&w, 1);
    expect_now(whole, "TIMEOUT\n");
    assert_int_equal(port_load_relaxed(&w.loop->stats.timed_out), 3);
    assert_int_equal(port_load_relaxed(&w.loop->stats.bytes_in), strlen("a\n"
                                                                        "a\n"
                                                                        "x"
                                                                        "x"
                                                                        "y"
                                                                        "y\nz"));
    assert_int_equal(port_load_relaxed(&w.loop->stats.bytes_out), strlen("a\n"
                                                                         "a\n"
                                                                         "xy\n"
                                                                         "TIMEOUT\n"
                                                                         "TIMEOUT\n"));
    expect_reports(
        &w,
        "timed-out: closed a connection: its request was not complete in time (limits.request)\n");
    close_world(&w);
    close(drip);
    close(whole);
}

/* The timeout of a write begins at the last progress. */
static void test_write_timeout(void **unused)
{
    (void)unused;
    world w;
    weir_server_limits limits = usual;
    limits.write_ns = 40 * ms_ns;
    open_world(&w, &limits, &lines);
    reach(&w, WEIR_STAGE_SERVE);
    int fd = join_world(&w);
    static char some[100000];
    pass(&w, 100);
    tell(&w, fd, "big 2000000\n");
    pass(&w, 30);
    while (recv(fd, some, sizeof some, MSG_DONTWAIT) > 0)
        continue;
    step(&w);
    pass(&w, 10 + 30);
    assert_int_equal(w.loop->connections_len, 1);
    expect_reports(&w, "");
    pass(&w, 10);
    assert_int_equal(w.loop->connections_len, 0);
    expect_reports(
        &w,
        "timed-out: closed a connection: the client does not read its replies (limits.write)\n");
    close(fd);
    close_world(&w);
}

/* ---- slow clients ---------------------------------------------------------------------------- */

/* A client that reads slowly gets the whole reply, and the buffer is freed when it is sent. */
static void test_slow_reader(void **unused)
{
    (void)unused;
    enum { BIG = 2000000 };
    world w;
    open_world(&w, &usual, &lines);
    reach(&w, WEIR_STAGE_SERVE);
    int fd = join_world(&w);
    static char some[50000];
    tell(&w, fd, "big 2000000\nand\n");
    assert_true(port_load_relaxed(&w.shared.buffered) > BIG / 2);
    size_t got = 0;
    for (ssize_t n; got < BIG + 5 && (n = recv(fd, some, sizeof some, MSG_DONTWAIT)) > 0; step(&w))
        got += (size_t)n;
    assert_int_equal(got, BIG + 5);
    assert_true(port_load_relaxed(&w.shared.buffered) <= 512);
    assert_int_equal(port_load_relaxed(&w.loop->stats.bytes_out), BIG + 5);
    int last = join_world(&w); /* its session closes before the replies are sent */
    tell(&w, last, "big 2000000\nclose\n");
    for (got = 0; got < BIG + 5; step(&w)) {
        ssize_t n = recv(last, some, sizeof some, MSG_DONTWAIT);
        assert_true(n > 0);
        got += (size_t)n;
    }
    assert_true(has_ended(last));
    close(last);
    tell(&w, fd, "big 2000000\n"); /* closes in the middle of a reply */
    close(fd);
    step(&w);
    assert_int_equal(w.loop->connections_len, 0);
    close_world(&w);
}

/* Reads all that the server has to send now. */
static void drain_input(world *w, int fd)
{
    static char bytes[1 << 20];
    while (recv(fd, bytes, sizeof bytes, MSG_DONTWAIT) > 0)
        step(w);
}

/* A connection that closes waits one second for the client, and discards at most 4 MiB. */
static void test_lingering(void **unused)
{
    (void)unused;
    enum { CHUNK = 64 << 10, CHUNKS = (4 << 20) / CHUNK };
    world w;
    weir_server_limits limits = usual;
    limits.idle_ns = 40 * ms_ns; /* sweeps every 10 ms */
    open_world(&w, &limits, &lines);
    reach(&w, WEIR_STAGE_SERVE);
    int slow = join_world(&w), noisy = join_world(&w), polite = join_world(&w);
    tell(&w, slow, "close\n");
    tell(&w, noisy, "big 2000000\nclose\n");
    drain_input(&w, noisy);
    tell(&w, polite, "close\n");
    expect_now(slow, "bye\n");
    assert_true(has_ended(slow));
    close(polite);
    step(&w);
    assert_int_equal(w.loop->connections_len, 2);
    static char junk[CHUNK + 1];
    memset(junk, 'x', CHUNK);
    for (int i = 0; i < CHUNKS; i++)
        tell(&w, noisy, junk);
    assert_int_equal(w.loop->connections_len, 2);
    tell(&w, noisy, "x");
    assert_int_equal(w.loop->connections_len, 1);
    pass(&w, 999);
    assert_int_equal(w.loop->connections_len, 1);
    pass(&w, 1);
    assert_int_equal(w.loop->connections_len, 0);
    expect_reports(&w, "");
    close_world(&w);
    close(slow);
    close(noisy);
}

/* ---- limits ---------------------------------------------------------------------------------- */

/* 128 refused connections may linger; more are closed at once. */
static void test_refused_connections(void **unused)
{
    (void)unused;
    enum { MANY = 130 };
    world w;
    weir_server_limits limits = usual;
    limits.connections = 1;
    open_world(&w, &limits, &lines);
    reach(&w, WEIR_STAGE_SERVE);
    int first = join_world(&w), fds[MANY];
    for (int i = 0; i < MANY; i++) {
        fds[i] = join_world(&w);
        expect_now(fds[i], "REFUSED\n");
        assert_true(has_ended(fds[i]));
        assert_int_equal(w.loop->refused_len, i < 128 ? i + 1 : 128);
    }
    expect_reports(&w, "refused: refused a connection: the maximum is 1 (limits.connections)\n");
    assert_int_equal(port_load_relaxed(&w.loop->stats.refused), MANY);
    assert_int_equal(port_load_relaxed(&w.loop->stats.bytes_out), 128 * strlen("REFUSED\n"));
    assert_int_equal(port_load_relaxed(&w.loop->stats.accepted), 1);
    close(first);
    step(&w);
    int next = join_world(&w);
    tell(&w, next, "a place\n");
    expect_now(next, "a place\n");
    close_world(&w);
    close(next);
    for (int i = 0; i < MANY; i++)
        close(fds[i]);
}

static void answer_all(void *session)
{
    (void)session;
}

/* A refused client that does not read the answer about the health is not waited for. */
static void test_refused_and_unread(void **unused)
{
    (void)unused;
    world w;
    weir_protocol protocol = lines;
    weir_server_limits limits = usual;
    protocol.only_health = answer_all;
    limits.connections = 1;
    open_world(&w, &limits, &protocol);
    reach(&w, WEIR_STAGE_SERVE);
    int first = join_world(&w), refused = join_world(&w);
    tell(&w, refused, "big 2000000\n");
    assert_int_equal(w.loop->refused_len, 1);
    pass(&w, 999);
    assert_int_equal(w.loop->refused_len, 1);
    pass(&w, 1001);
    assert_int_equal(w.loop->refused_len, 0);
    assert_int_equal(w.loop->connections_len, 1);
    close_world(&w);
    close(first);
    close(refused);
}

int __real_uv_read_start(uv_stream_t *stream, uv_alloc_cb alloc, uv_read_cb read);
int __wrap_uv_read_start(uv_stream_t *stream, uv_alloc_cb alloc, uv_read_cb read);

static bool cannot_read;

int __wrap_uv_read_start(uv_stream_t *stream, uv_alloc_cb alloc, uv_read_cb read)
{
    return cannot_read ? UV_ENOTCONN : __real_uv_read_start(stream, alloc, read);
}

int __real_uv_pipe_open(uv_pipe_t *pipe, uv_file fd);
int __wrap_uv_pipe_open(uv_pipe_t *pipe, uv_file fd);

static bool cannot_open;

int __wrap_uv_pipe_open(uv_pipe_t *pipe, uv_file fd)
{
    return cannot_open ? UV_EMFILE : __real_uv_pipe_open(pipe, fd);
}

/* A socket that libuv does not take is refused. */
static void test_open_error(void **unused)
{
    (void)unused;
    world w;
    open_world(&w, &usual, &lines);
    reach(&w, WEIR_STAGE_SERVE);
    cannot_open = true;
    int fd = join_world(&w);
    cannot_open = false;
    assert_int_equal(w.loop->connections_len, 0);
    assert_int_equal(port_load_relaxed(&w.loop->stats.overloaded), 1);
    expect_reports(&w, "overloaded: refused a connection: out of memory\n");
    expect_now(fd, "REFUSED\n");
    assert_true(has_ended(fd));
    close(fd);
    close_world(&w);
}

/* A protocol need not have messages. */
static void test_without_messages(void **unused)
{
    (void)unused;
    world w;
    weir_server_limits limits = usual;
    weir_protocol protocol = lines;
    protocol.refusal = NULL;
    limits.connections = 1;
    open_world(&w, &limits, &protocol);
    reach(&w, WEIR_STAGE_SERVE);
    cannot_open = true;
    int first = join_world(&w);
    cannot_open = false;
    int second = join_world(&w), third = join_world(&w);
    assert_true(has_ended(first));
    assert_false(has_ended(second));
    assert_true(has_ended(third));
    assert_int_equal(port_load_relaxed(&w.loop->stats.bytes_out), 0);
    close_world(&w);
    close(first);
    close(second);
    close(third);
}

/* A connection that cannot be read is closed. */
static void test_read_error(void **unused)
{
    (void)unused;
    world w;
    open_world(&w, &usual, &lines);
    reach(&w, WEIR_STAGE_SERVE);
    cannot_read = true;
    int fd = join_world(&w);
    cannot_read = false;
    assert_int_equal(w.loop->connections_len, 0);
    assert_true(has_ended(fd));
    close(fd);
    close_world(&w);
}

/* ---- memory ---------------------------------------------------------------------------------- */

/* A connection that lingers has no reply to lose: without memory, it is closed. */
static void test_lingering_without_memory(void **unused)
{
    (void)unused;
    world w;
    weir_server_limits limits = usual;
    limits.connections = 0;
    open_world(&w, &limits, &lines);
    reach(&w, WEIR_STAGE_SERVE);
    int fd = join_world(&w);
    expect_now(fd, "REFUSED\n");
    memory_fail(0, true);
    tell(&w, fd, "x");
    assert_true(memory_stop());
    assert_int_equal(w.loop->connections_len, 0);
    assert_int_equal(port_load_relaxed(&w.loop->stats.overloaded), 0);
    close(fd);
    close_world(&w);
}

/* Returns all that has arrived, up to 255 bytes. */
static const char *take_text(int fd)
{
    static char text[256];
    ssize_t n = recv(fd, text, sizeof text - 1, MSG_DONTWAIT);
    text[n > 0 ? n : 0] = '\0';
    return text;
}

/* Without memory, a client is refused, or its connection is closed with an error. Other clients
 * notice nothing. */
static bool try_clients(uint64_t n, bool later)
{
    world w;
    open_world(&w, &usual, &lines);
    reach(&w, WEIR_STAGE_SERVE);
    int before = join_world(&w);
    tell(&w, before, "warm up\n");
    expect_now(before, "warm up\n");
    memory_fail(n, later);
    int fd = join_world(&w);
    bool accepted = w.loop->connections_len == 2;
    if (accepted)
        tell(&w, fd, "half a re");
    if (w.context.open == 2)
        tell(&w, fd, "quest\nwait 10\nlast\n");
    bool failed = memory_stop();
    if (!failed)
        pass(&w, 10);
    const char *text = take_text(fd);
    const char *reply = strstr(text, "OVERLOAD\n");
    if (!failed)
        assert_string_equal(text, "half a request\nwaited\nlast\n");
    else if (!accepted)
        assert_string_equal(text, "REFUSED\n");
    else
        assert_true(reply && strlen(reply) == 9);
    assert_int_equal(has_ended(fd), failed);
    assert_int_equal(port_load_relaxed(&w.loop->stats.overloaded), failed);
    assert_int_equal(strstr(w.reports, "out of memory") != NULL, failed);
    tell(&w, before, "still here\n");
    expect_now(before, "still here\n");
    close(fd);
    close(before);
    close_world(&w);
    return failed;
}

/* The first client, for which the heap of delays is allocated, too. */
static bool try_first_client(uint64_t n, bool later)
{
    world w;
    open_world(&w, &usual, &lines);
    reach(&w, WEIR_STAGE_SERVE);
    memory_fail(n, later);
    int fd = join_world(&w);
    bool failed = memory_stop();
    assert_int_equal(w.loop->connections_len, !failed);
    expect_now(fd, failed ? "REFUSED\n" : "");
    close(fd);
    close_world(&w);
    return failed;
}

/* A client that reads nothing. Without memory for its replies, its connection is closed. */
static bool try_slow_reader(uint64_t n, bool later)
{
    world w;
    open_world(&w, &usual, &lines);
    reach(&w, WEIR_STAGE_SERVE);
    int fd = join_world(&w);
    const weir_connection *c = w.loop->connections;
    static int replies; /* that the socket accepts as a whole */
    for (int i = 0; replies == 0 || i < replies; i++) {
        tell(&w, fd, "big 50000\n");
        if (c->state != WEIR_CONNECTION_WRITE)
            continue;
        replies = i; /* and once more, with less memory */
        close_world(&w);
        close(fd);
        return true;
    }
    memory_fail(n, later);
    tell(&w, fd, "big 50000\n");
    bool failed = memory_stop();
    assert_int_equal(w.loop->connections_len, !failed);
    assert_int_equal(port_load_relaxed(&w.loop->stats.overloaded), failed);
    expect_reports(&w,
                   failed ? "overloaded: closed a connection: out of memory for replies\n" : "");
    close_world(&w);
    close(fd);
    return failed;
}

static void test_out_of_memory(void **unused)
{
    (void)unused;
    fail_each_allocation(try_clients);
    fail_each_allocation(try_first_client);
    fail_each_allocation(try_slow_reader);
}

/* The buffers of a long request are freed when it is answered. */
static void test_input_memory(void **unused)
{
    (void)unused;
    static char part[30001];
    memset(part, 'x', 30000);
    world w;
    open_world(&w, &usual, &lines);
    reach(&w, WEIR_STAGE_SERVE);
    int fd = join_world(&w);
    tell(&w, fd, part);
    assert_in_range(port_load_relaxed(&w.shared.buffered), 30000, 200000);
    tell(&w, fd, part);
    tell(&w, fd, "\n");
    assert_int_equal(port_load_relaxed(&w.shared.buffered), 0);
    int small = join_world(&w);
    tell(&w, small, "sma");
    assert_int_equal(port_load_relaxed(&w.shared.buffered), 512);
    tell(&w, small, "ll\n");
    assert_int_equal(port_load_relaxed(&w.shared.buffered), 512); /* is kept */
    close(small);
    close(fd);
    close_world(&w);
}

/* While a reply is delayed, up to 16 KiB of input and a little more are read. */
static void test_waiting_connection(void **unused)
{
    (void)unused;
    enum { MOST = 16 << 10 };
    static char input[MOST + 1];
    memset(input, 'x', MOST);
    world w;
    open_world(&w, &usual, &lines);
    reach(&w, WEIR_STAGE_SERVE);
    int fd = join_world(&w);
    const weir_connection *c = w.loop->connections;
    tell(&w, fd, "big 100000\n"); /* the loop keeps a large buffer */
    drain_input(&w, fd);
    delay_until(&w, fd, wall_ns + 100 * ms_ns);
    assert_int_equal(port_load_relaxed(&w.shared.buffered), 512);
    tell(&w, fd, input);
    assert_true(c->reading);
    tell(&w, fd, "\n");
    assert_false(c->reading);
    tell(&w, fd, "last\n");
    assert_int_equal(weir_buffer_len(&c->in), MOST + 1);
    pass(&w, 100);
    step(&w);
    assert_int_equal(port_load_relaxed(&w.loop->stats.bytes_out),
                     100001 + strlen("waited\n") + 256 +
                         strlen("last\n")); /* the line is cut off */
    assert_true(c->reading);
    close(fd);
    close_world(&w);

    weir_server_limits limits = usual; /* the client of a delayed reply gets an error */
    limits.buffers = 511;
    open_world(&w, &limits, &lines);
    reach(&w, WEIR_STAGE_SERVE);
    fd = join_world(&w);
    delay_until(&w, fd, wall_ns + 100 * ms_ns);
    expect_now(fd, "OVERLOAD\n");
    assert_true(has_ended(fd));
    close(fd);
    close_world(&w);
}

/* Pending at first, after a long reply to "b"; then the reply is delayed by 10 ms. */
static weir_session_step run_slowly(void *session, weir_buffer *in, weir_buffer *out,
                                    size_t out_pause, int64_t now_ns)
{
    (void)out_pause;
    line_session *s = session;
    if (weir_buffer_len(in) == 0)
        return (weir_session_step){.next = WEIR_SESSION_READ};
    static const char big[900000];
    if (s->waits_as++ < 0) {
        weir_buffer_append(out, big, *weir_buffer_data(in) == 'b' ? sizeof big : 0);
        return (weir_session_step){.next = WEIR_SESSION_PENDING};
    }
    weir_buffer_consume(in, weir_buffer_len(in));
    put(out, "slow\n");
    return (weir_session_step){.next = WEIR_SESSION_WAIT, .until_ns = now_ns + 10 * ms_ns};
}

/* A session with a pending reply runs again when it is woken, and not when earlier replies are
 * sent. */
static void test_pending_after_a_write(void **unused)
{
    (void)unused;
    world w;
    weir_protocol protocol = lines;
    protocol.run = run_slowly;
    open_world(&w, &usual, &protocol);
    reach(&w, WEIR_STAGE_SERVE);
    int fd = join_world(&w);
    const weir_connection *c = w.loop->connections;
    tell(&w, fd, "big\n");
    assert_int_equal(c->state, WEIR_CONNECTION_WRITE);
    drain_input(&w, fd);
    assert_int_equal(c->state, WEIR_CONNECTION_PENDING);
    close(fd);
    close_world(&w);
}

/* A client that shuts down sending while its reply is pending gets it, even with a delay, and even
 * if its connection has to wait for the next iteration of the loop. */
static void test_end_while_pending(void **unused)
{
    (void)unused;
    char request[3001];
    memset(request, 'r', sizeof request - 1);
    request[sizeof request - 1] = '\0';
    for (int busy = 0; busy < 2; busy++) {
        world w;
        weir_protocol protocol = lines;
        protocol.run = run_slowly;
        open_world(&w, &usual, &protocol);
        reach(&w, WEIR_STAGE_SERVE);
        int fd = join_world(&w);
        weir_connection *c = w.loop->connections;
        tell(&w, fd, request);
        shutdown(fd, SHUT_WR);
        step(&w);
        assert_int_equal(c->state, WEIR_CONNECTION_PENDING);
        assert_false(c->reading);
        c->woken = true;
        w.loop->budget = busy ? 0 : WEIR_TURN;
        weir_connection_wake(c);
        assert_int_equal(w.loop->backlog.first != NULL, busy);
        step(&w);
        assert_int_equal(w.loop->connections_len, 1);
        assert_int_equal(c->state, WEIR_CONNECTION_WAIT);
        pass(&w, 10);
        expect_now(fd, "slow\n");
        assert_int_equal(w.loop->connections_len, 0);
        close(fd);
        close_world(&w);
    }
}

static weir_session_usage usage;

static weir_session_usage get_usage(const void *session)
{
    (void)session;
    return usage;
}

/* What a session holds counts as memory of its connection, and may be a part of a request. */
static void test_memory_of_a_session(void **unused)
{
    (void)unused;
    world w;
    weir_server_limits limits = usual;
    weir_protocol protocol = lines;
    limits.request_ns = 40 * ms_ns;
    limits.buffers = 1000;
    protocol.usage = get_usage;
    usage = (weir_session_usage){.bytes = 999};
    open_world(&w, &limits, &protocol);
    reach(&w, WEIR_STAGE_SERVE);
    int fd = join_world(&w);
    assert_int_equal(port_load_relaxed(&w.shared.buffered), 999); /* from the beginning */
    usage.bytes = 1000;
    tell(&w, fd, "one\n");
    expect_now(fd, "one\n");
    assert_int_equal(port_load_relaxed(&w.shared.buffered), 1000);
    w.loop->limits.buffers = 999; /* then only a connection that needs more memory is closed */
    tell(&w, fd, "again\n");
    expect_now(fd, "again\n");
    assert_false(has_ended(fd));
    w.loop->limits.buffers = 1000;
    usage.mid_request = true;
    pass(&w, 39);
    expect_now(fd, "");
    pass(&w, 1);
    expect_now(fd, "TIMEOUT\n");
    assert_true(has_ended(fd));
    close(fd);
    usage = (weir_session_usage){0};
    fd = join_world(&w);
    usage.bytes = 1001;
    tell(&w, fd, "two\n");
    expect_now(fd, "two\n"); /* and no error, since no reply is pending */
    assert_true(has_ended(fd));
    assert_int_equal(port_load_relaxed(&w.loop->stats.overloaded), 1);
    close(fd);
    close_world(&w);
}

/* ---- random steps ---------------------------------------------------------------------------- */

static void take_random_step(world *w, int *fd, uint64_t *random)
{
    static const char *const words[] = {"hello\n",      "wait 15\n",   "wait 90\n", "big 3000\n",
                                        "big 900000\n", "half a line", "\n",        "close\n"};
    uint64_t x = random_below(random, 12);
    if (*fd < 0) {
        *fd = join_world(w);
    } else if (x < 7) {
        const char *word = words[random_below(random, sizeof words / sizeof words[0])];
        (void)!send(*fd, word, strlen(word), MSG_NOSIGNAL | MSG_DONTWAIT);
    } else if (x < 9) {
        drain_input(w, *fd);
    } else if (x < 11) {
        pass(w, random_below(random, 30));
    } else {
        close(*fd);
        *fd = -1;
    }
    step(w);
}

/* check_world() runs after each of many random steps of clients, limits and clocks. */
static void test_random_steps(void **unused)
{
    (void)unused;
    for (uint64_t seed = 1; seed <= 8; seed++) {
        world w;
        uint64_t random = seed;
        weir_server_limits limits = {.connections = CLIENTS - 2,
                                     .buffers = seed % 2 == 0 ? 500000 : (size_t)64 << 20,
                                     .request = seed % 4 < 2 ? 100 : 1 << 20,
                                     .idle_ns = seed % 3 == 0 ? 0 : 200 * ms_ns,
                                     .request_ns = seed % 3 == 1 ? 0 : 100 * ms_ns,
                                     .write_ns = 60 * ms_ns};
        int fds[CLIENTS];
        memset(fds, -1, sizeof fds);
        open_world(&w, &limits, &lines);
        w.shared.limits.drain_ns = 50 * ms_ns;
        reach(&w, WEIR_STAGE_SERVE);
        for (int i = 0; i < 1500; i++)
            take_random_step(&w, &fds[random_below(&random, CLIENTS)], &random);
        reach(&w, WEIR_STAGE_DRAIN);
        pass(&w, 50);
        assert_int_equal(w.loop->connections_len, 0);
        assert_int_equal(w.drained, 1);
        close_world(&w);
        for (int i = 0; i < CLIENTS; i++) {
            if (fds[i] >= 0)
                close(fds[i]);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_idle_timeout),
        cmocka_unit_test(test_request_timeout),
        cmocka_unit_test(test_write_timeout),
        cmocka_unit_test(test_slow_reader),
        cmocka_unit_test(test_lingering),
        cmocka_unit_test(test_refused_connections),
        cmocka_unit_test(test_refused_and_unread),
        cmocka_unit_test(test_read_error),
        cmocka_unit_test(test_out_of_memory),
        cmocka_unit_test(test_input_memory),
        cmocka_unit_test(test_without_messages),
        cmocka_unit_test(test_waiting_connection),
        cmocka_unit_test(test_memory_of_a_session),
        cmocka_unit_test(test_end_while_pending),
        cmocka_unit_test(test_pending_after_a_write),
        cmocka_unit_test(test_open_error),
        cmocka_unit_test(test_lingering_without_memory),
        cmocka_unit_test(test_random_steps),
    };
    signal(SIGPIPE, SIG_IGN); /* as weir_server_open() does */
    return cmocka_run_group_tests_name("connection-step", tests, NULL, NULL);
}
