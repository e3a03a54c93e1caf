/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* Connections over real sockets: batches, clients that read slowly or not at all, delayed replies,
 * and every limit. */

#include "net/fixture_test.h"

#include <errno.h>
#include <sys/resource.h>

/* ---- requests and replies -------------------------------------------------------------------- */

static void check_many_connections(void **unused)
{
    (void)unused;
    enum { MANY = 200 };
    fixture f;
    prepare(&f, 3);
    start(&f);
    int fds[MANY], served[LOOPS_MAX] = {0};
    for (int i = 0; i < MANY; i++)
        fds[i] = client(&f);
    for (int i = 0; i < MANY; i++)
        say(fds[i], "one\ntwo\n");
    for (int i = 0; i < MANY; i++) {
        char id[3] = "";
        expect(fds[i], "one\ntwo\n");
        say(fds[i], "loop\n");
        assert_int_equal(receive(fds[i], id, 2, 0), 2);
        served[id[0] - '0']++;
    }
    assert_true(served[0] > 0 && served[1] > 0 && served[2] > 0);
    weir_server_stats stats = weir_server_stats_get(f.server);
    assert_int_equal(stats.connected, MANY);
    assert_int_equal(stats.accepted, MANY);
    assert_int_equal(stats.buffered, 0); /* an idle connection has no buffers */
    for (int i = 0; i < MANY; i++)
        close(fds[i]);
    kill(getpid(), SIGTERM);
    join(&f);
    stats = weir_server_stats_get(f.server);
    assert_int_equal(stats.bytes_in, MANY * 13);
    assert_int_equal(stats.bytes_out, MANY * 10);
    stop(&f);
}

static void check_every_split(void **unused)
{
    (void)unused;
    fixture f;
    prepare(&f, 1);
    start(&f);
    static const char text[] = "first\nsecond\n\nthird\n";
    int fd = client(&f);
    for (size_t cut = 0; cut < sizeof text; cut++) {
        char head[sizeof text];
        memcpy(head, text, cut);
        head[cut] = '\0';
        say(fd, head);
        const char *lf = strrchr(head, '\n');
        char whole[sizeof text] = "";
        memcpy(whole, head, lf ? (size_t)(lf + 1 - head) : 0);
        expect(fd, whole); /* the head has been read before the rest is sent */
        say(fd, text + cut);
        expect(fd, text + strlen(whole));
    }
    close(fd);
    stop(&f);
}

static void *send_lines(void *arg)
{
    char line[32];
    for (int i = 0; i < 100000; i++) {
        snprintf(line, sizeof line, "request %d\n", i);
        expect_in_thread(sent(*(int *)arg, line));
    }
    return NULL;
}

/* Many pipelined requests, split anywhere: every reply arrives, in order. */
static void check_pipelining(void **unused)
{
    (void)unused;
    fixture f;
    prepare(&f, 1);
    start(&f);
    int fd = client(&f);
    pthread_t sender;
    assert_int_equal(pthread_create(&sender, NULL, send_lines, &fd), 0);
    FILE *replies = fdopen(dup(fd), "r");
    char line[32], expected[32];
    for (int i = 0; i < 100000; i++) {
        snprintf(expected, sizeof expected, "request %d\n", i);
        assert_non_null(fgets(line, sizeof line, replies));
        if (strcmp(line, expected) != 0)
            assert_string_equal(line, expected);
    }
    fclose(replies);
    pthread_join(sender, NULL);
    close(fd);
    stop(&f);
}

static void check_a_long_request(void **unused)
{
    (void)unused;
    enum { LONG = 900000 };
    fixture f;
    prepare(&f, 1);
    start(&f);
    int fd = client(&f);
    char *text = malloc(LONG + 2);
    memset(text, 'x', LONG);
    strcpy(text + LONG, "\n");
    say(fd, text);
    char echo[256];
    memset(echo, 'x', 255);
    echo[255] = '\0';
    expect(fd, echo);
    expect(fd, "\n");
    ask(fd, "and goes on\n");
    free(text);
    close(fd);
    stop(&f);
}

/* Back-pressure: a client that does not read its replies is not read from, uses a bounded amount of
 * memory, and delays no other client of its loop. When it reads, all replies arrive. */
static void check_back_pressure(void **unused)
{
    (void)unused;
    enum { BIG = 1000000, TIMES = 50 };
    fixture f;
    prepare(&f, 1);
    start(&f);
    int slow = client(&f), other = client(&f);
    for (int i = 0; i < TIMES; i++)
        say(slow, "big 1000000\n");
    for (int i = 0; i < 100; i++)
        ask(other, "still here\n");
    weir_server_stats stats = weir_server_stats_get(f.server);
    assert_true(stats.buffered > 0 && stats.buffered < 4 * BIG);
    for (int i = 0; i < TIMES; i++)
        expect_big(slow, BIG);
    ask(slow, "done\n");
    close(slow);
    close(other);
    stop(&f);
}

/* Unread input when a session closes must not cost the client its last reply. */
static void check_close_with_unread_input(void **unused)
{
    (void)unused;
    fixture f;
    prepare(&f, 1);
    start(&f);
    char junk[32768];
    memset(junk, 'x', sizeof junk - 1);
    memcpy(junk, "close\n", 6);
    junk[sizeof junk - 1] = '\0';
    for (int i = 0; i < 20; i++) {
        int fd = client(&f);
        say(fd, junk);
        say(fd, junk);
        expect(fd, "bye\n");
        expect_end(fd);
    }
    stop(&f);
}

/* ---- delayed replies ------------------------------------------------------------------------- */

static void check_delayed_reply(void **unused)
{
    (void)unused;
    fixture f;
    prepare(&f, 1);
    start(&f);
    int fd = client(&f);
    int64_t before_ns = port_now_ns();
    say(fd, "before\nwait 100\nafter\nwait 1\nlast\n");
    expect(fd, "before\n");
    expect(fd, "waited\n");
    assert_true(port_now_ns() >= before_ns + 100 * ms_ns);
    expect(fd, "after\nwaited\nlast\n");
    say(fd, "until 1 0\nsoon\n"); /* a time in the past */
    expect(fd, "waited\nsoon\n");
    close(fd);
    stop(&f);
}

/* Delayed replies are sent in the order of their times; equal times keep their order. */
static void check_order_of_delays(void **unused)
{
    (void)unused;
    enum { WAITERS = 12 };
    fixture f;
    prepare(&f, 1);
    start(&f);
    int fds[WAITERS];
    int64_t base_ns = port_now_ns() + 1500 * ms_ns;
    for (int i = 0; i < WAITERS; i++) {
        char line[64];
        fds[i] = client(&f);
        int64_t until_ns = base_ns - (i % 3) * 1000;
        snprintf(line, sizeof line, "here\nuntil %lld %d\n", (long long)until_ns, i);
        say(fds[i], line);
        ask(fds[i], "");
        /* The delayed reply is due once a later request on another connection is answered. */
        int other = client(&f);
        ask(other, "next\n");
        close(other);
    }
    for (int i = 0; i < WAITERS; i++) {
        expect(fds[i], "here\nwaited\n");
        close(fds[i]);
    }
    stop(&f);
    assert_int_equal(f.loop_contexts[0].order_len, WAITERS);
    for (int i = 0; i < WAITERS; i++)
        assert_int_equal(f.loop_contexts[0].order[i], 3 * (i % 4) + 2 - i / 4);
}

/* Connects until the server accepts, soon after another client has disconnected. */
static int client_once_there_is_a_place(const fixture *f)
{
    for (int i = 0; i < 100000; i++) {
        char got[16] = "";
        int fd = client(f);
        if (send(fd, "hello\n", 6, MSG_NOSIGNAL) == 6 && receive(fd, got, 6, MSG_WAITALL) == 6 &&
            strcmp(got, "hello\n") == 0)
            return fd;
        close(fd);
    }
    fail_msg("no client was accepted");
    return -1;
}

static void check_delayed_client_disconnects(void **unused)
{
    (void)unused;
    fixture f;
    prepare(&f, 1);
    f.options.limits.connections = 1;
    start(&f);
    int fd = client(&f);
    say(fd, "wait 60000\nmore\n");
    say(fd, "and more\n");
    close(fd);
    fd = client_once_there_is_a_place(&f);
    close(fd);
    stop(&f);
}

/* ---- limits ---------------------------------------------------------------------------------- */

static void check_too_many_connections(void **unused)
{
    (void)unused;
    fixture f;
    prepare(&f, 2);
    f.options.limits.connections = 2;
    start(&f);
    int a = client(&f), b = client(&f);
    ask(a, "a\n");
    ask(b, "b\n");
    for (int i = 0; i < 300; i++) { /* more than may linger at once */
        int fd = client(&f);
        expect(fd, "REFUSED\n");
        expect_end(fd);
    }
    weir_server_stats stats = weir_server_stats_get(f.server);
    assert_int_equal(stats.connected, 2);
    assert_int_equal(stats.accepted, 2);
    assert_int_equal(stats.refused, 300);
    ask(a, "a again\n");
    close(b);
    b = client_once_there_is_a_place(&f);
    close(a);
    close(b);
    stop(&f);
}

static void check_refusals_are_reported_once(void **unused)
{
    (void)unused;
    fixture f;
    prepare(&f, 1);
    f.options.limits.connections = 1;
    start(&f);
    int a = client(&f);
    ask(a, "a\n");
    int64_t began_ns = port_now_ns();
    for (int i = 0; i < 100; i++) {
        int fd = client(&f);
        expect(fd, "REFUSED\n");
        close(fd);
    }
    int64_t seconds = (port_now_ns() - began_ns) / s_ns;
    char letters[128];
    expect_event(&f, 'r');
    struct pollfd p = {.fd = f.events[0], .events = POLLIN};
    ssize_t more = poll(&p, 1, 0) == 1 ? read(f.events[0], letters, sizeof letters) : 0;
    assert_true(more <= seconds + 1);
    close(a);
    stop(&f);
}

static void check_request_too_long(void **unused)
{
    (void)unused;
    fixture f;
    prepare(&f, 1);
    f.options.limits.request = 1000;
    start(&f);
    char text[1200];
    memset(text, 'x', sizeof text);
    text[1000] = '\0';
    int fd = client(&f);
    say(fd, text);
    ask(fd, ""); /* 1000 bytes are within the limit */
    text[1000] = 'x';
    text[1001] = '\0';
    int other = client(&f);
    say(other, text);
    expect(other, "OVERLOAD\n");
    expect_end(other);
    say(fd, "\n");
    text[255] = '\0';
    expect(fd, text);
    close(fd);
    expect_event(&f, 'o');
    assert_int_equal(weir_server_stats_get(f.server).overloaded, 1);
    stop(&f);
}

static void check_buffers_limit(void **unused)
{
    (void)unused;
    fixture f;
    prepare(&f, 1);
    f.options.limits.buffers = 200000;
    start(&f);
    char half[40001];
    memset(half, 'x', 40000);
    half[40000] = '\0';
    int fds[20], overloaded = 0;
    for (int i = 0; i < 20; i++) {
        fds[i] = client(&f);
        ask(fds[i], "before\n");
        say(fds[i], half);
        int other = client(&f); /* its reply shows that earlier input has been read */
        ask(other, "x\n");
        close(other);
        assert_true(weir_server_stats_get(f.server).buffered <= 200000 + 131072);
    }
    for (int i = 0; i < 20; i++) {
        struct pollfd p = {.fd = fds[i], .events = POLLIN};
        if (poll(&p, 1, 0) == 1) {
            expect(fds[i], "OVERLOAD\n");
            expect_end(fds[i]);
            overloaded++;
        } else {
            close(fds[i]);
        }
    }
    assert_true(overloaded >= 14 && overloaded < 20);
    int waiting = client(&f);
    say(waiting, "wait 60000\n");
    close(waiting);
    stop(&f);
}

/* A connection whose replies exceed the limit is closed, in the middle of a reply without an
 * error. */
static void check_too_many_replies(void **unused)
{
    (void)unused;
    fixture f;
    prepare(&f, 1);
    f.options.limits.buffers = 100000;
    start(&f);
    int fd = client(&f), other = client(&f);
    say(fd, "big 15000000\n");
    expect_reset(fd);
    fd = client(&f);
    say(fd, "big 30000000\n"); /* above the limit on replies */
    expect(fd, "OVERLOAD\n");
    expect_end(fd);
    ask(other, "still here\n");
    close(other);
    stop(&f);
}

static void check_timeouts(void **unused)
{
    (void)unused;
    fixture f;
    prepare(&f, 2);
    f.options.limits.request_ns = 100 * ms_ns;
    start(&f);
    int idle = client(&f), half = client(&f), drip = client(&f), waiting = client(&f);
    int silent = client(&f);
    ask(idle, "idle\n");
    ask(drip, "drip\n");
    say(waiting, "wait 300\n");
    say(half, "whole\nhalf");
    expect(half, "whole\n");
    expect(half, "TIMEOUT\n");
    expect_end(half);
    expect_end(silent);
    /* Sending byte by byte does not extend the timeout. */
    struct pollfd p = {.fd = drip, .events = POLLIN};
    while (poll(&p, 1, 20) == 0)
        assert_true(send(drip, "x", 1, MSG_NOSIGNAL) == 1 || errno == EPIPE);
    expect(drip, "TIMEOUT\n");
    expect_end(drip);
    expect(waiting, "waited\n");
    ask(idle, "still here\n");
    close(idle);
    close(waiting);
    assert_int_equal(weir_server_stats_get(f.server).timed_out, 3);
    stop(&f);
}

static void check_idle_time(void **unused)
{
    (void)unused;
    fixture f;
    prepare(&f, 1);
    f.options.limits.idle_ns = s_ns;
    start(&f);
    int waiting = client(&f), idle = client(&f), busy = client(&f);
    say(waiting, "wait 2000\n"); /* not idle: the client waits for the server */
    ask(idle, "x\n");
    struct pollfd p = {.fd = idle, .events = POLLIN};
    while (poll(&p, 1, 20) == 0)
        ask(busy, "busy\n");
    expect_end(idle);
    expect(waiting, "waited\n");
    close(waiting);
    close(busy);
    expect_event(&f, 't');
    stop(&f);
}

static void check_write_time(void **unused)
{
    (void)unused;
    fixture f;
    prepare(&f, 1);
    f.options.limits.write_ns = 100 * ms_ns;
    start(&f);
    int fd = client(&f);
    say(fd, "big 15000000\n");
    expect_reset(fd);
    assert_int_equal(weir_server_stats_get(f.server).timed_out, 1);
    stop(&f);
}

/* Without descriptors, a client waits in the accept queue, and the event is reported. */
static void check_no_descriptors(void **unused)
{
    (void)unused;
    fixture f;
    prepare(&f, 1);
    start(&f);
    int fd = client_of(AF_INET), lowest = dup(fd);
    struct rlimit before, none;
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
    none = before;
    none.rlim_cur = (rlim_t)lowest;
    close(lowest);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
    int connected = try_connect(fd, weir_server_address(f.server, 0));
    expect_event(&f, 'a');
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
    assert_int_equal(connected, 0);
    ask(fd, "at last\n");
    close(fd);
    stop(&f);
}

/* ---- a protocol that consumes incomplete requests -------------------------------------------- */

typedef struct hoard {
    loop_context *context;
    weir_buffer line;
} hoard;

static void hoard_open(void *session, void *ctx, void (*wake)(void *wake_ctx), void *wake_ctx)
{
    (void)wake;
    (void)wake_ctx;
    hoard *h = session;
    h->context = ctx;
    h->context->open++;
    weir_buffer_init(&h->line, 1 << 20);
}

static void hoard_close(void *session)
{
    hoard *h = session;
    h->context->open--;
    weir_buffer_free(&h->line);
}

static weir_session_step hoard_run(void *session, weir_buffer *in, weir_buffer *out,
                                   size_t out_pause, int64_t now_ns)
{
    (void)out_pause;
    (void)now_ns;
    hoard *h = session;
    for (; weir_buffer_len(in) > 0; weir_buffer_consume(in, 1)) {
        uint8_t byte = *weir_buffer_data(in);
        weir_buffer_append_byte(&h->line, byte);
        if (byte == '\n') {
            weir_buffer_append(out, weir_buffer_data(&h->line), weir_buffer_len(&h->line));
            weir_buffer_free(&h->line);
        }
    }
    return (weir_session_step){.next = WEIR_SESSION_READ};
}

static weir_session_usage hoard_usage(const void *session)
{
    const hoard *h = session;
    return (weir_session_usage){weir_buffer_memory(&h->line), weir_buffer_len(&h->line) > 0};
}

static const weir_protocol hoards = {.session_size = sizeof(hoard),
                                     .open = hoard_open,
                                     .close = hoard_close,
                                     .run = hoard_run,
                                     .usage = hoard_usage,
                                     .overload = "OVERLOAD\n",
                                     .timeout = "TIMEOUT\n"};

static void check_session_memory(void **unused)
{
    (void)unused;
    fixture f;
    prepare(&f, 1);
    f.listens[0].protocol = &hoards;
    f.options.limits.request_ns = s_ns;
    f.options.limits.buffers = 100000;
    start(&f);
    char much[60001];
    memset(much, 'x', 60000);
    much[60000] = '\0';
    int drip = client(&f), idle = client(&f), big = client(&f);
    ask(idle, "one\ntwo\n");
    say(drip, "whole\nhalf");
    expect(drip, "whole\n");
    ask(idle, "next\n");
    assert_true(weir_server_stats_get(f.server).buffered > 0);
    say(big, much);
    say(big, much);
    expect(big, "OVERLOAD\n");
    expect_end(big);
    struct pollfd p = {.fd = drip, .events = POLLIN};
    while (poll(&p, 1, 20) == 0)
        assert_true(send(drip, "x", 1, MSG_NOSIGNAL) == 1 || errno == EPIPE);
    expect(drip, "TIMEOUT\n");
    expect_end(drip);
    ask(idle, "three\n");
    close(idle);
    stop(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(check_many_connections),
        cmocka_unit_test(check_every_split),
        cmocka_unit_test(check_pipelining),
        cmocka_unit_test(check_a_long_request),
        cmocka_unit_test(check_back_pressure),
        cmocka_unit_test(check_close_with_unread_input),
        cmocka_unit_test(check_delayed_reply),
        cmocka_unit_test(check_order_of_delays),
        cmocka_unit_test(check_delayed_client_disconnects),
        cmocka_unit_test(check_too_many_connections),
        cmocka_unit_test(check_refusals_are_reported_once),
        cmocka_unit_test(check_request_too_long),
        cmocka_unit_test(check_buffers_limit),
        cmocka_unit_test(check_too_many_replies),
        cmocka_unit_test(check_timeouts),
        cmocka_unit_test(check_session_memory),
        cmocka_unit_test(check_idle_time),
        cmocka_unit_test(check_write_time),
        cmocka_unit_test(check_no_descriptors),
    };
    return cmocka_run_group_tests_name("connection", tests, NULL, NULL);
}
