/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* The event loop: delayed replies, the interval of sweeps, accepting, reports, draining, and the
 * queues of connections. */

#include "net/loop_kit_test.h"

/* ---- delayed replies ------------------------------------------------------------------------- */

/* A delayed reply is sent in the first millisecond that begins at its time or later. */
static void test_delayed_reply_is_sent_in_time(void **unused)
{
    (void)unused;
    world w;
    open_world(&w, &usual, &lines);
    reach(&w, WEIR_STAGE_SERVE);
    int fd = join_world(&w);
    delay_until(&w, fd, wall_ns + 5 * ms_ns + 1);
    pass(&w, 5);
    expect_now(fd, "");
    pass(&w, 1);
    expect_now(fd, "waited\n");
    delay_until(&w, fd, wall_ns + 5 * ms_ns);
    pass(&w, 4);
    expect_now(fd, "");
    pass(&w, 1);
    expect_now(fd, "waited\n");
    delay_until(&w, fd, wall_ns); /* no delay */
    expect_now(fd, "waited\n");
    close(fd);
    close_world(&w);
}

/* The timer follows the earliest delayed reply, whatever is added and removed. */
static void test_timer_follows_the_earliest_delay(void **unused)
{
    (void)unused;
    world w;
    open_world(&w, &usual, &lines);
    reach(&w, WEIR_STAGE_SERVE);
    int fds[4];
    static const int64_t at_ms[] = {50, 20, 90, 20};
    static const int64_t due_ms[] = {50, 20, 20, 20};
    for (int i = 0; i < 4; i++) {
        fds[i] = join_world(&w);
        delay_until(&w, fds[i], wall_ns + at_ms[i] * ms_ns);
        assert_int_equal(due_in(&w.loop->waits_timer), due_ms[i]);
    }
    pass(&w, 20);
    expect_now(fds[1], "waited\n");
    expect_now(fds[3], "waited\n");
    assert_int_equal(due_in(&w.loop->waits_timer), 30);
    close(fds[0]);
    step(&w);
    assert_int_equal(due_in(&w.loop->waits_timer), 70);
    int sets = timers_set;
    delay_until(&w, fds[1], wall_ns + 71 * ms_ns);
    assert_int_equal(timers_set, sets); /* the timer stays as it is */
    pass(&w, 70);
    expect_now(fds[2], "waited\n");
    assert_int_equal(due_in(&w.loop->waits_timer), 1);
    close(fds[1]);
    step(&w);
    assert_int_equal(due_in(&w.loop->waits_timer), -1);
    close_world(&w);
    close(fds[2]);
    close(fds[3]);
}

/* libuv's clock may be ahead of the clock of the delays: then the timer is set again. It may also
 * have stopped while the machine slept: then the next sweep sends the replies that are due. */
static void test_clocks_that_differ(void **unused)
{
    (void)unused;
    world w;
    open_world(&w, &usual, &lines);
    reach(&w, WEIR_STAGE_SERVE);
    int fd = join_world(&w);
    delay_until(&w, fd, wall_ns + 10 * ms_ns);
    wall_ns -= 3 * ms_ns;
    pass(&w, 10);
    expect_now(fd, "");
    assert_int_equal(due_in(&w.loop->waits_timer), 3);
    pass(&w, 3);
    expect_now(fd, "waited\n");
    delay_until(&w, fd, wall_ns + 3600 * s_ns);
    wall_ns += 3600 * s_ns;
    pass(&w, (uint64_t)due_in(&w.loop->sweep));
    expect_now(fd, "waited\n");
    close(fd);
    close_world(&w);
}

/* ---- sweeps ---------------------------------------------------------------------------------- */

/* A sweep checks the timeouts. Its interval is a quarter of the shortest timeout, from 10 ms to one
 * second. */
static void test_interval_of_sweeps(void **unused)
{
    (void)unused;
    static const struct {
        int64_t idle_ms, request_ms, write_ms, expected_ms;
    } cases[] = {{0, 0, 0, 1000},  {4000, 0, 0, 1000}, {3999, 0, 0, 999},
                 {0, 400, 0, 100}, {0, 0, 400, 100},   {800, 400, 600, 100},
                 {0, 40, 0, 10},   {0, 39, 0, 10},     {60000, 0, 60000, 1000}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        world w;
        weir_server_limits limits = usual;
        limits.idle_ns = cases[i].idle_ms * ms_ns;
        limits.request_ns = cases[i].request_ms * ms_ns;
        limits.write_ns = cases[i].write_ms * ms_ns;
        open_world(&w, &limits, &lines);
        assert_int_equal(due_in(&w.loop->sweep), -1);
        reach(&w, WEIR_STAGE_SERVE);
        assert_int_equal(due_in(&w.loop->sweep), cases[i].expected_ms);
        assert_int_equal(timer_of(&w.loop->sweep)->repeat_ms, cases[i].expected_ms);
        int sets = timers_set;
        reach(&w, WEIR_STAGE_SERVE); /* a repeated wake does nothing */
        assert_int_equal(timers_set, sets);
        close(join_world(&w));
        close_world(&w);
    }
}

/* ---- accepting ------------------------------------------------------------------------------- */

/* Many clients that connect at once do not delay those that are connected: 64 are accepted, then
 * the connections are served. */
static void test_accepts_64_at_once(void **unused)
{
    (void)unused;
    enum { MANY = 70 };
    world w;
    open_world(&w, &usual, &lines);
    reach(&w, WEIR_STAGE_SERVE);
    int fds[MANY];
    for (int i = 0; i < MANY; i++)
        fds[i] = knock(&w, 0);
    accepts = 0;
    uv_run(&w.loop->uv, UV_RUN_NOWAIT);
    assert_int_equal(port_load_relaxed(&w.loop->stats.accepted), 64);
    assert_int_equal(accepts, 64);
    step(&w);
    assert_int_equal(port_load_relaxed(&w.loop->stats.accepted), MANY);
    assert_int_equal(accepts, MANY + 1); /* the last call finds no client */
    close_world(&w);
    for (int i = 0; i < MANY; i++)
        close(fds[i]);
}

/* Without descriptors or memory, accepting pauses for 100 ms. Other errors concern one client. */
static void test_accept_errors(void **unused)
{
    (void)unused;
    static const int shortages[] = {EMFILE, ENFILE, ENOBUFS, ENOMEM};
    world w;
    open_world(&w, &usual, &lines);
    reach(&w, WEIR_STAGE_SERVE);
    for (int i = 0; i < 4; i++) {
        accept_errno = shortages[i];
        accept_errors = 1;
        int fd = join_world(&w);
        assert_int_equal(w.loop->connections_len, 0);
        assert_int_equal(due_in(&w.loop->resume), 100);
        pass(&w, 99);
        assert_int_equal(w.loop->connections_len, 0);
        pass(&w, 1);
        assert_int_equal(w.loop->connections_len, 1);
        close(fd);
        step(&w);
        assert_int_equal(due_in(&w.loop->resume), -1);
        pass(&w, 1000); /* until the next report is due */
    }
    assert_non_null(strstr(w.reports, "accept: cannot accept connections: too many open files; "
                                      "trying again in 100 ms\n"));
    w.reports[0] = '\0';
    accept_errno = ECONNABORTED;
    accept_errors = 3;
    int fd = join_world(&w);
    assert_int_equal(w.loop->connections_len, 1);
    expect_reports(&w, "");
    accept_errno = EMFILE; /* a stopping loop does not try again */
    accept_errors = 1;
    reach(&w, WEIR_STAGE_DRAIN);
    assert_int_equal(due_in(&w.loop->resume), -1);
    close(fd);
    close_world(&w);
}

/* A listener that cannot be polled pauses too, after the clients that wait are accepted. */
static void test_poll_error(void **unused)
{
    (void)unused;
    world w;
    open_world(&w, &usual, &lines);
    reach(&w, WEIR_STAGE_SERVE);
    int fds[] = {join_world(&w), knock(&w, 0)};
    assert_int_equal(due_in(&w.loop->resume), -1);
    uv_poll_t *poll = &w.loop->listeners->poll;
    poll->poll_cb(poll, UV_EBADF, 0);
    assert_int_equal(w.loop->connections_len, 2);
    assert_int_equal(due_in(&w.loop->resume), 100);
    assert_non_null(strstr(w.reports, "accept: cannot accept connections: "));
    close_world(&w);
    close(fds[0]);
    close(fds[1]);
}

/* ---- sessions that pause --------------------------------------------------------------------- */

static int64_t sent_ns; /* the time of the last beat */

/* Sends "beat" every 10 ms, and pauses in between. */
static weir_session_step run_beats(void *session, weir_buffer *in, weir_buffer *out,
                                   size_t out_pause, int64_t now_ns)
{
    (void)session;
    (void)out_pause;
    int64_t beat_ns = now_ns - now_ns % (10 * ms_ns);
    weir_buffer_consume(in, weir_buffer_len(in));
    if (beat_ns == sent_ns)
        return (weir_session_step){.next = WEIR_SESSION_WAIT, .until_ns = beat_ns + 10 * ms_ns};
    sent_ns = beat_ns;
    put(out, "beat\n");
    return (weir_session_step){.next = WEIR_SESSION_AGAIN};
}

/* The session needs more memory from its first beat on. */
static weir_session_usage usage_of_beats(const void *session)
{
    (void)session;
    return (weir_session_usage){.bytes = sent_ns > 0 ? 1000 : 0};
}

static int join_beats(world *w, const weir_server_limits *limits)
{
    static weir_protocol beats;
    sent_ns = 0;
    beats = lines;
    beats.run = run_beats;
    beats.usage = usage_of_beats;
    open_world(w, limits, &beats);
    w->shared.limits.drain_ns = s_ns;
    reach(w, WEIR_STAGE_SERVE);
    int fd = join_world(w);
    tell(w, fd, "x");
    expect_now(fd, "beat\n");
    return fd;
}

/* A pause is no delayed reply: a server that stops does not wait for its end, and if memory is
 * exhausted, no error is sent in the middle of a stream. No timeout applies. */
static void test_pauses(void **unused)
{
    (void)unused;
    world w;
    weir_server_limits limits = usual;
    limits.idle_ns = limits.request_ns = 25 * ms_ns;
    int fd = join_beats(&w, &limits);
    for (int i = 0; i < 10; i++) {
        pass(&w, 9);
        expect_now(fd, "");
        pass(&w, 1);
        expect_now(fd, "beat\n");
    }
    assert_int_equal(w.loop->waits.len, 1);
    close(fd); /* is noticed at once */
    step(&w);
    assert_int_equal(w.loop->connections_len, 0);
    close_world(&w);

    fd = join_beats(&w, &usual);
    reach(&w, WEIR_STAGE_DRAIN);
    assert_true(has_ended(fd));
    assert_int_equal(w.drained, 1);
    close(fd);
    close_world(&w);

    limits = usual;
    limits.buffers = 600;
    fd = join_beats(&w, &limits);
    assert_true(has_ended(fd));
    close(fd);
    close_world(&w);
}

/* ---- reports --------------------------------------------------------------------------------- */

static void test_reports_once_a_second(void **unused)
{
    (void)unused;
    world w;
    open_world(&w, &usual, &lines);
    for (int i = 0; i < 3; i++)
        weir_shared_report(&w.shared, WEIR_EVENT_REFUSED, "full");
    weir_shared_report(&w.shared, WEIR_EVENT_OVERLOADED, "no memory");
    expect_reports(&w, "refused: full\noverloaded: no memory\n");
    pass(&w, 999);
    weir_shared_report(&w.shared, WEIR_EVENT_REFUSED, "full");
    expect_reports(&w, "");
    pass(&w, 1);
    weir_shared_report(&w.shared, WEIR_EVENT_REFUSED, "full");
    weir_shared_report(&w.shared, WEIR_EVENT_WATCH, "no events");
    weir_shared_report(&w.shared, WEIR_EVENT_TIMED_OUT, "idle");
    expect_reports(&w, "refused: full (4 times)\nwatch: no events\ntimed-out: idle\n");
    pass(&w, 1000);
    weir_shared_report(&w.shared, WEIR_EVENT_REFUSED, "full");
    expect_reports(&w, "refused: full\n");
    close_world(&w);
}

/* ---- other limits ---------------------------------------------------------------------------- */

static void put_limits(world *w, const weir_server_limits *limits)
{
    w->shared.limits = *limits;
    w->shared.changes++;
    uv_async_send(&w->loop->wake);
    step(w);
}

static void open_changing_world(world *w, const weir_server_limits *limits)
{
    open_world(w, limits, &lines);
    w->shared.refresh = count_refresh;
    reach(w, WEIR_STAGE_SERVE);
}

/* New timeouts apply to open connections, at the interval of the checks that follows from them. */
static void test_new_timeouts(void **unused)
{
    (void)unused;
    world w;
    weir_server_limits limits = usual;
    open_changing_world(&w, &limits);
    int fd = join_world(&w);
    tell(&w, fd, "x\n");
    expect_now(fd, "x\n");
    pass(&w, 600);
    limits.write_ns = 5 * s_ns;
    put_limits(&w, &limits); /* the interval is a second, as before: the timer goes on */
    assert_int_equal(due_in(&w.loop->sweep), 400);
    limits.idle_ns = 1200 * ms_ns;
    put_limits(&w, &limits);
    assert_int_equal(due_in(&w.loop->sweep), 300);
    pass(&w, 599);
    assert_false(has_ended(fd));
    pass(&w, 1);
    assert_true(has_ended(fd));
    expect_reports(&w, "timed-out: closed an idle connection (limits.idle)\n");
    close(fd);
    limits.idle_ns = 0;
    put_limits(&w, &limits);
    assert_int_equal(due_in(&w.loop->sweep), 1000);
    fd = join_world(&w);
    tell(&w, fd, "x\n");
    expect_now(fd, "x\n");
    pass(&w, 10000);
    assert_false(has_ended(fd));
    assert_int_equal(port_load_relaxed(&w.context.refreshed), 3);
    reach(&w, WEIR_STAGE_SERVE); /* without new limits, a wake refreshes nothing */
    assert_int_equal(port_load_relaxed(&w.context.refreshed), 3);
    close(fd);
    close_world(&w);
}

/* A lower limit closes no connection: new ones are refused until fewer are open. */
static void test_fewer_connections(void **unused)
{
    (void)unused;
    world w;
    weir_server_limits limits = usual;
    open_changing_world(&w, &limits);
    int fds[3], refused;
    for (int i = 0; i < 3; i++)
        fds[i] = join_world(&w);
    limits.connections = 2;
    put_limits(&w, &limits);
    for (int i = 0; i < 3; i++) {
        tell(&w, fds[i], "x\n");
        expect_now(fds[i], "x\n");
    }
    for (int open = 3; open >= 2; open--) {
        refused = join_world(&w);
        expect_now(refused, "REFUSED\n");
        close(refused);
        close(fds[open - 1]);
        step(&w);
    }
    expect_reports(&w, "refused: refused a connection: the maximum is 2 (limits.connections)\n");
    fds[1] = join_world(&w);
    tell(&w, fds[1], "x\n");
    expect_now(fds[1], "x\n");
    refused = join_world(&w);
    expect_now(refused, "REFUSED\n");
    close(refused);
    limits.connections = 3;
    put_limits(&w, &limits);
    fds[2] = join_world(&w);
    tell(&w, fds[2], "x\n");
    expect_now(fds[2], "x\n");
    for (int i = 0; i < 3; i++)
        close(fds[i]);
    step(&w);
    close_world(&w);
}

/* The drain that follows has the new length, and the checks of a drain keep their interval. */
static void test_limits_of_the_drain(void **unused)
{
    (void)unused;
    world w;
    weir_server_limits limits = usual;
    open_changing_world(&w, &limits);
    int fd = join_world(&w);
    tell(&w, fd, "big 2000000\n");
    limits.drain_ns = 70 * ms_ns;
    w.shared.limits = limits;
    w.shared.changes++;
    reach(&w, WEIR_STAGE_DRAIN);
    limits.idle_ns = 40 * ms_ns;
    put_limits(&w, &limits);
    assert_int_equal(due_in(&w.loop->sweep), 50);
    pass(&w, 69);
    assert_int_equal(w.drained, 0);
    pass(&w, 1);
    assert_int_equal(w.drained, 1);
    close(fd);
    close_world(&w);
}

/* ---- draining -------------------------------------------------------------------------------- */

/* A drain ends with the last connection or, at the latest, after drain_ns. A reply that is delayed
 * for longer is dropped at once. */
static void test_drain(void **unused)
{
    (void)unused;
    world w;
    open_world(&w, &usual, &lines);
    w.shared.limits.drain_ns = 400 * ms_ns + 1;
    reach(&w, WEIR_STAGE_SERVE);
    int soon = join_world(&w), late = join_world(&w), stuck = join_world(&w);
    delay_until(&w, soon, wall_ns + 400 * ms_ns + 1);
    delay_until(&w, late, wall_ns + 400 * ms_ns + 2);
    tell(&w, stuck, "big 2000000\n");
    reach(&w, WEIR_STAGE_DRAIN);
    assert_true(has_ended(late));
    assert_int_equal(w.loop->connections_len, 2);
    assert_int_equal(due_in(&w.loop->sweep), 50);
    pass(&w, 400);
    expect_now(soon, "");
    assert_int_equal(w.drained, 0);
    pass(&w, 1);
    assert_int_equal(w.loop->connections_len, 0);
    assert_int_equal(w.drained, 1);
    assert_int_equal(port_load_relaxed(&w.shared.drained), 1);
    reach(&w, WEIR_STAGE_END);
    assert_int_equal(port_load_relaxed(&w.shared.drained), 1);
    close_world(&w);
    close(soon);
    close(late);
    close(stuck);
}

/* A drain accepts the clients that have connected to any listener, and closes the listeners. It is
 * reported once. */
static void test_drain_of_waiting_clients(void **unused)
{
    (void)unused;
    world w;
    open_world(&w, &usual, &lines);
    int fds[] = {knock(&w, 0), knock(&w, 1)};
    say(fds[0], "one\n");
    say(fds[1], "two\n");
    w.shared.limits.drain_ns = s_ns;
    accepts = 0;
    reach(&w, WEIR_STAGE_DRAIN);
    assert_int_equal(accepts, 4); /* of each listener: a client, and then none */
    expect_now(fds[0], "one\n");
    expect_now(fds[1], "two\n");
    for (const weir_listener *at = w.loop->listeners; at; at = at->next) {
        assert_int_equal(at->fd, -1);
        assert_true(uv_is_closing((const uv_handle_t *)&at->poll));
    }
    assert_int_equal(w.drained, 0);
    close(fds[0]);
    close(fds[1]);
    step(&w);
    assert_int_equal(w.drained, 1);
    close_world(&w);

    /* The last request of a connection that was idle for long. Its input is read in the drain. */
    open_world(&w, &usual, &lines);
    reach(&w, WEIR_STAGE_SERVE);
    int late = join_world(&w);
    pass(&w, 5001);
    port_word_store_relaxed(&w.shared.stage, WEIR_STAGE_DRAIN);
    uv_async_send(&w.loop->wake);
    say(late, "late\n");
    step(&w);
    expect_now(late, "late\n");
    assert_true(has_ended(late));
    assert_int_equal(w.loop->connections_len, 1); /* it lingers: more input must not reset it */
    close(late);
    step(&w);
    assert_int_equal(w.drained, 1);
    close_world(&w);

    open_world(&w, &usual, &lines); /* a client that does not read is reset during the drain */
    weir_server_limits *limits = &w.shared.limits;
    limits->write_ns = 200 * ms_ns;
    w.shared.limits.drain_ns = s_ns;
    reach(&w, WEIR_STAGE_SERVE);
    int slow = join_world(&w);
    tell(&w, slow, "big 2000000\n");
    reach(&w, WEIR_STAGE_DRAIN);
    pass(&w, 199);
    assert_int_equal(w.drained, 0);
    pass(&w, 1);
    assert_int_equal(w.drained, 1);
    close(slow);
    close_world(&w);

    open_world(&w, &usual, &lines); /* an idle connection is closed at once */
    reach(&w, WEIR_STAGE_SERVE);
    int idle = join_world(&w);
    pass(&w, 1001);
    reach(&w, WEIR_STAGE_DRAIN);
    assert_int_equal(w.loop->connections_len, 0);
    assert_int_equal(port_load_relaxed(&w.shared.drained), 1);
    assert_int_equal(w.drained, 1);
    close(idle);
    close_world(&w);
}

/* A drain reads all requests that have arrived, in more than one read if need be. */
static void test_drain_of_much_input(void **unused)
{
    (void)unused;
    enum { LONG = 90000, BIG = 900001 };
    static char text[LONG + 1], got[BIG + LONG];
    for (size_t i = 0; i < LONG; i += 100)
        snprintf(text + i, 101, "%099zu\n", i);
    for (int slow = 0; slow <= 1; slow++) { /* slow: the first reply must be read meanwhile */
        world w;
        size_t before = slow ? BIG : 0, whole = before + LONG;
        open_world(&w, &usual, &lines);
        w.shared.limits.drain_ns = s_ns;
        reach(&w, WEIR_STAGE_SERVE);
        int fd = join_world(&w);
        port_word_store_relaxed(&w.shared.stage, WEIR_STAGE_DRAIN);
        uv_async_send(&w.loop->wake);
        say(fd, slow ? "big 900000\n" : "");
        say(fd, text);
        step(&w);
        for (size_t len = 0; len < whole; step(&w)) {
            ssize_t n = recv(fd, got + len, whole - len, MSG_DONTWAIT);
            assert_true(n > 0);
            len += (size_t)n;
        }
        assert_memory_equal(got + before, text, LONG);
        assert_int_equal(port_load_relaxed(&w.loop->stats.bytes_in), LONG + (slow ? 11 : 0));
        assert_int_equal(port_load_relaxed(&w.loop->stats.bytes_out), whole);
        assert_true(has_ended(fd));
        close(fd);
        close_world(&w);
    }
}

/* ---- queues ---------------------------------------------------------------------------------- */

/* A queue against a model: an array in the order of adding. */
static void test_queue(void **unused)
{
    (void)unused;
    static net_place places[CLIENTS];
    net_queue q;
    net_queue_init(&q);
    uint64_t random = 1;
    net_place *model[CLIENTS];
    size_t len = 0;
    for (int i = 0; i < 10000; i++) {
        net_place *p = &places[random_below(&random, CLIENTS)];
        size_t at = 0;
        while (at < len && model[at] != p)
            at++;
        assert_int_equal(net_is_queued(p), at < len);
        if (random_below(&random, 2) == 0) {
            net_queue_add(&q, p);
            if (at == len)
                model[len++] = p;
        } else {
            net_queue_remove(&q, p);
            if (at < len)
                memmove(&model[at], &model[at + 1], (--len - at) * sizeof model[0]);
        }
        net_place **link = &q.first;
        for (size_t k = 0; k < len; k++) {
            assert_ptr_equal(*link, model[k]);
            assert_ptr_equal(model[k]->link, link);
            link = &model[k]->next;
        }
        assert_null(*link);
        assert_ptr_equal(q.end, link);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_delayed_reply_is_sent_in_time),
        cmocka_unit_test(test_timer_follows_the_earliest_delay),
        cmocka_unit_test(test_clocks_that_differ),
        cmocka_unit_test(test_interval_of_sweeps),
        cmocka_unit_test(test_accepts_64_at_once),
        cmocka_unit_test(test_accept_errors),
        cmocka_unit_test(test_poll_error),
        cmocka_unit_test(test_reports_once_a_second),
        cmocka_unit_test(test_new_timeouts),
        cmocka_unit_test(test_fewer_connections),
        cmocka_unit_test(test_limits_of_the_drain),
        cmocka_unit_test(test_drain),
        cmocka_unit_test(test_drain_of_waiting_clients),
        cmocka_unit_test(test_drain_of_much_input),
        cmocka_unit_test(test_pauses),
        cmocka_unit_test(test_queue),
    };
    signal(SIGPIPE, SIG_IGN); /* as weir_server_open() does */
    return cmocka_run_group_tests_name("loop", tests, NULL, NULL);
}
