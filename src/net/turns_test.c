/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* What one iteration of the event loop does: a client with much input or output delays the others
 * by at most its share of an iteration, and no client is forgotten. */

#include "net/loop_kit_test.h"

enum {
    BUSY = 20,
    MUCH = 150000,   /* bytes; in the buffer of a socket */
    SMALL = 2 << 10, /* so much input is served in every iteration */
    /* Two phases, the last visit of each, and some small ones. */
    TURN_MAX = 2 * WEIR_TURN + 2 * (128 << 10) + 4 * SMALL,
};

static char much[MUCH + 1];
static int busy[BUSY];

/* Lines of 16 bytes. */
static void fill_much(void)
{
    for (int i = 0; i < MUCH; i++)
        much[i] = i % 16 == 15 || i == MUCH - 1 ? '\n' : 'x';
}

static void turn(world *w)
{
    uv_run(&w->loop->uv, UV_RUN_NOWAIT);
}

/* Moves bytes of the world, in both directions, since the last call. */
static uint64_t moved(const world *w)
{
    static uint64_t before;
    uint64_t now =
        port_load_relaxed(&w->loop->stats.bytes_in) + port_load_relaxed(&w->loop->stats.bytes_out);
    uint64_t since = now - before;
    before = now;
    return since;
}

static void open_busy(world *w, const weir_protocol *protocol)
{
    open_world(w, &usual, protocol);
    reach(w, WEIR_STAGE_SERVE);
    for (int i = 0; i < BUSY; i++)
        busy[i] = join_world(w);
}

static void close_busy(world *w)
{
    close_world(w);
    for (int i = 0; i < BUSY; i++)
        close(busy[i]);
}

/* Reads what has arrived. Returns how much it was. */
static size_t drain_client(int fd)
{
    char some[65536];
    size_t len = 0;
    for (ssize_t n; (n = recv(fd, some, sizeof some, MSG_DONTWAIT)) > 0;)
        len += (size_t)n;
    return len;
}

/* Twenty clients have sent much. Each iteration is bounded, short requests are answered in two of
 * them, and all others are answered without another byte, one after another. */
static void test_much_input(void **unused)
{
    (void)unused;
    world w;
    open_busy(&w, &lines);
    int quick = join_world(&w), small = join_world(&w), longer = join_world(&w);
    size_t got[BUSY] = {0}, left = BUSY;
    for (int i = 0; i < BUSY; i++)
        say(busy[i], much);
    say(quick, "quick\n");
    say(small, much + MUCH - SMALL);
    say(longer, much + MUCH - SMALL - 16);
    moved(&w);
    for (int turns = 1; left > 0; turns++) {
        size_t least = SIZE_MAX, most = 0;
        assert_true(turns < 1000);
        turn(&w);
        assert_in_range(moved(&w), 1, TURN_MAX);
        if (turns == 2) {
            expect_now(quick, "quick\n");
            assert_int_equal(drain_client(small), SMALL);
            assert_int_equal(drain_client(longer), 0);
        }
        left = 0;
        for (int i = 0; i < BUSY; i++) {
            got[i] += drain_client(busy[i]);
            least = got[i] < least ? got[i] : least;
            most = got[i] > most ? got[i] : most;
            left += got[i] < MUCH;
        }
        assert_true(most - least <= 2 * 64 << 10);
    }
    step(&w);
    assert_int_equal(drain_client(longer), SMALL + 16);
    close(quick);
    close(small);
    close(longer);
    close_busy(&w);
}

/* The same with short requests for long replies, which are not read. */
static void test_much_output(void **unused)
{
    (void)unused;
    world w;
    open_busy(&w, &lines);
    int quick = join_world(&w);
    for (int i = 0; i < BUSY; i++) {
        for (int k = 0; k < 60; k++)
            say(busy[i], "big 10000\n");
    }
    say(quick, "quick\n");
    moved(&w);
    turn(&w);
    assert_in_range(moved(&w), 1, TURN_MAX);
    turn(&w);
    expect_now(quick, "quick\n");
    assert_in_range(moved(&w), 1, TURN_MAX);
    size_t got = 0;
    for (int i = 0; i < 1000 && got < (size_t)BUSY * 60 * 10001; i++) {
        turn(&w);
        for (int k = 0; k < BUSY; k++)
            got += drain_client(busy[k]);
    }
    assert_int_equal(got, (size_t)BUSY * 60 * 10001);
    step(&w);
    close(quick);
    close_busy(&w);
}

static int runs;

static weir_session_step run_slowly(void *session, weir_buffer *in, weir_buffer *out,
                                    size_t out_pause, int64_t now_ns)
{
    weir_session_step step = line_run(session, in, out, out_pause, now_ns);
    step.work = 128 << 10;
    runs++;
    return step;
}

/* Short requests that take long, such as TLS handshakes, wait for a later iteration, too. */
static void test_much_work(void **unused)
{
    (void)unused;
    weir_protocol slow = lines;
    slow.run = run_slowly;
    world w;
    open_busy(&w, &slow);
    runs = 0;
    for (int i = 0; i < BUSY; i++)
        say(busy[i], "x\n");
    turn(&w);
    assert_in_range(runs, 1, 10); /* the overdraft is 1 MiB */
    turn(&w);
    assert_in_range(runs, 2, 19);
    step(&w);
    assert_int_equal(runs, BUSY);
    for (int i = 0; i < BUSY; i++)
        expect_now(busy[i], "x\n");
    close_busy(&w);
}

/* Clients with a backlog that close their side, and a server that stops, lose no reply. */
static void test_end_with_backlog(void **unused)
{
    (void)unused;
    for (int stops = 0; stops < 2; stops++) {
        world w;
        open_busy(&w, &lines);
        for (int i = 0; i < BUSY; i++) {
            say(busy[i], much);
            if (!stops)
                shutdown(busy[i], SHUT_WR);
        }
        turn(&w);
        assert_non_null(w.loop->backlog.first);
        if (stops)
            reach(&w, WEIR_STAGE_DRAIN);
        size_t got[BUSY] = {0};
        for (int turns = 0; turns < 200; turns++) {
            turn(&w);
            for (int i = 0; i < BUSY; i++)
                got[i] += drain_client(busy[i]);
        }
        for (int i = 0; i < BUSY; i++) {
            assert_int_equal(got[i], MUCH);
            assert_true(has_ended(busy[i]));
        }
        close_busy(&w);
    }
}

/* Clients with a backlog may also go, or the loop may end. */
static void test_close_with_backlog(void **unused)
{
    (void)unused;
    world w;
    open_busy(&w, &lines);
    for (int i = 0; i < BUSY; i++)
        say(busy[i], much);
    turn(&w);
    for (int i = 0; i < BUSY; i += 2)
        close(busy[i]);
    turn(&w);
    turn(&w);
    assert_non_null(w.loop->backlog.first);
    close_world(&w);
    for (int i = 1; i < BUSY; i += 2)
        close(busy[i]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_much_input),         cmocka_unit_test(test_much_output),
        cmocka_unit_test(test_much_work),          cmocka_unit_test(test_end_with_backlog),
        cmocka_unit_test(test_close_with_backlog),
    };
    signal(SIGPIPE, SIG_IGN); /* as weir_server_open() does */
    fill_much();
    return cmocka_run_group_tests_name("turns", tests, NULL, NULL);
}
