/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* Protocols whose sessions are polled: they run without input, and end a connection themselves when
 * the server stops. */

#include "net/loop_kit_test.h"

/* What the sessions of the next test do. */
static int polls;           /* calls of poll() */
static int polls_true;      /* the next polls that return true */
static bool told;           /* the server stops, as poll() has learned */
static bool ends;           /* run() closes the connection */
static const char *say_now; /* what run() sends without input */

static bool on_poll(void *session, int64_t now_ns, bool stopping)
{
    (void)session;
    expect_in_thread(now_ns == wall_ns);
    polls++;
    told |= stopping;
    return polls_true > 0 && polls_true-- > 0;
}

static weir_session_step run_polled(void *session, weir_buffer *in, weir_buffer *out,
                                    size_t out_pause, int64_t now_ns)
{
    weir_session_step step = line_run(session, in, out, out_pause, now_ns);
    if (say_now)
        put(out, say_now);
    say_now = NULL;
    if (ends)
        step.next = WEIR_SESSION_CLOSE;
    return step;
}

static const weir_protocol polled = {.session_size = sizeof(line_session),
                                     .open = line_open,
                                     .close = line_close,
                                     .run = run_polled,
                                     .poll = on_poll};

static int open_polled(world *w)
{
    polls = polls_true = 0;
    told = ends = false;
    say_now = NULL;
    open_world(w, &usual, &polled);
    reach(w, WEIR_STAGE_SERVE);
    return join_world(w);
}

/* A session is polled once a second, and runs without input if poll() returns true. */
static void test_runs_without_input(void **unused)
{
    (void)unused;
    world w;
    int fd = open_polled(&w);
    pass(&w, 999);
    assert_int_equal(polls, 0);
    say_now = "news\n";
    pass(&w, 1);
    assert_int_equal(polls, 1);
    expect_now(fd, ""); /* poll() returned false */
    polls_true = 1;
    pass(&w, 1000);
    assert_int_equal(polls, 2);
    expect_now(fd, "news\n");
    tell(&w, fd, "ab"); /* a part of a request stays where it is */
    say_now = "more news\n";
    polls_true = 1;
    pass(&w, 1000);
    expect_now(fd, "more news\n");
    tell(&w, fd, "c\n");
    expect_now(fd, "abc\n");
    ends = true;
    polls_true = 1;
    pass(&w, 1000);
    assert_true(has_ended(fd));
    assert_false(told);
    close(fd);
    close_world(&w);
}

/* Only a connection that waits for input is polled. */
static void test_is_not_polled_while_it_waits(void **unused)
{
    (void)unused;
    world w;
    int fd = open_polled(&w);
    delay_until(&w, fd, wall_ns + 4500 * ms_ns);
    pass(&w, 4499);
    assert_int_equal(polls, 0);
    pass(&w, 1);
    expect_now(fd, "waited\n");
    pass(&w, 500);
    assert_int_equal(polls, 1);
    close(fd);
    close_world(&w);
}

/* A connection outlives the beginning of the drain, until its session ends. */
static void test_ends_itself_when_the_server_stops(void **unused)
{
    (void)unused;
    world w;
    int fd = open_polled(&w);
    w.shared.limits.drain_ns = 10 * s_ns;
    say_now = "stopping\n";
    polls_true = 1;
    reach(&w, WEIR_STAGE_DRAIN);
    assert_true(told);
    expect_now(fd, "stopping\n");
    pass(&w, 1000);
    assert_int_equal(polls, 21); /* every 50 ms */
    assert_false(has_ended(fd));
    tell(&w, fd, "still served\n");
    expect_now(fd, "still served\n");
    assert_int_equal(w.drained, 0);
    ends = true;
    polls_true = 1;
    pass(&w, 50);
    assert_true(has_ended(fd));
    close(fd);
    step(&w);
    assert_int_equal(w.drained, 1);
    close_world(&w);
}

/* The end of the drain closes a connection whose session does not end. */
static void test_drain_is_bounded(void **unused)
{
    (void)unused;
    world w;
    int fd = open_polled(&w);
    w.shared.limits.drain_ns = 100 * ms_ns;
    reach(&w, WEIR_STAGE_DRAIN);
    pass(&w, 99);
    assert_int_equal(w.loop->connections_len, 1);
    pass(&w, 1);
    assert_int_equal(w.loop->connections_len, 0);
    assert_int_equal(w.drained, 1);
    close(fd);
    close_world(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_runs_without_input),
        cmocka_unit_test(test_is_not_polled_while_it_waits),
        cmocka_unit_test(test_ends_itself_when_the_server_stops),
        cmocka_unit_test(test_drain_is_bounded),
    };
    return cmocka_run_group_tests_name("poll", tests, NULL, NULL);
}
