/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* A worker runs the calls that other threads post, each once and in order. */

#include "net/worker.h"

#include "port/atomic.h"
#include "port/port.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <pthread.h>

#include <cmocka.h>

enum { POSTERS = 4, POSTS = 5000 };

typedef struct world {
    weir_worker *worker;
    port_dialer *dialer;
    pthread_t thread; /* of the worker */
    int begun, ended;
    int made;          /* calls that have run on the worker's thread */
    int last[POSTERS]; /* the next call of each posting thread */
    int downs;         /* connections */
    bool out_of_order, on_another_thread;
} world;

typedef struct job {
    world *w;
    int poster, number;
} job;

static void on_begin(void *ctx, port_dialer *dialer)
{
    world *w = ctx;
    w->dialer = dialer;
    w->thread = pthread_self();
    w->begun++;
}

static void on_end(void *ctx)
{
    world *w = ctx;
    w->on_another_thread |= !pthread_equal(w->thread, pthread_self());
    w->ended++;
}

static int64_t on_now(void *ctx)
{
    (void)ctx;
    return port_steady_ns();
}

static void work(void *arg)
{
    job *j = arg;
    world *w = j->w;
    w->on_another_thread |= !pthread_equal(w->thread, pthread_self());
    w->out_of_order |= w->last[j->poster] != j->number - 1;
    w->last[j->poster] = j->number;
    w->made++;
}

static void *post_all(void *arg)
{
    job *jobs = arg;
    for (int i = 0; i < POSTS; i++) {
        if (weir_worker_post(jobs[i].w->worker, work, &jobs[i]) != WEIR_OK)
            abort();
    }
    return NULL;
}

static void test_posts(void **state)
{
    (void)state;
    static job jobs[POSTERS][POSTS];
    pthread_t posters[POSTERS];
    world w = {0};
    const weir_worker_options options = {&w, on_begin, on_end, on_now};
    assert_int_equal(weir_worker_open(&w.worker, &options), WEIR_OK);
    assert_int_equal(w.begun, 1);
    for (int i = 0; i < POSTERS; i++) {
        for (int j = 0; j < POSTS; j++)
            jobs[i][j] = (job){&w, i, j + 1};
        assert_int_equal(pthread_create(&posters[i], NULL, post_all, jobs[i]), 0);
    }
    for (int i = 0; i < POSTERS; i++)
        pthread_join(posters[i], NULL);
    weir_worker_close(w.worker);
    assert_int_equal(w.made, POSTERS * POSTS);
    assert_int_equal(w.ended, 1);
    assert_false(w.out_of_order);
    assert_false(w.on_another_thread);
}

static void on_up(void *ctx, int64_t now_ns)
{
    (void)ctx;
    (void)now_ns;
}

static void on_heard(void *ctx, weir_buffer *in, int64_t now_ns)
{
    (void)ctx;
    (void)in;
    (void)now_ns;
}

static void on_down(void *ctx, const char *why, int64_t now_ns)
{
    (void)why;
    (void)now_ns;
    ((world *)ctx)->downs++;
}

static void dial_nowhere(void *arg)
{
    static const port_connection_events events = {on_up, on_heard, on_down};
    world *w = arg;
    const port_endpoint to = {.host = "/nowhere/at/all.sock"};
    if (!w->dialer->calls->connect(w->dialer, &to, &events, w))
        abort();
}

/* Open connections are closed at the end without a callback. */
static void test_close_with_open_connections(void **state)
{
    (void)state;
    world w = {0};
    const weir_worker_options options = {&w, on_begin, on_end, on_now};
    assert_int_equal(weir_worker_open(&w.worker, &options), WEIR_OK);
    assert_int_equal(weir_worker_post(w.worker, dial_nowhere, &w), WEIR_OK);
    weir_worker_close(w.worker);
    assert_int_equal(w.downs, 0);
    assert_int_equal(w.ended, 1);
    weir_worker_close(NULL);
}

static port_counter noted;

static void note(void *arg)
{
    (void)arg;
    port_add_relaxed(&noted, 1);
}

/* The first call wakes the worker, and so does a call after that. */
static void test_a_call_wakes_the_worker(void **state)
{
    (void)state;
    world w = {0};
    const weir_worker_options options = {&w, on_begin, on_end, on_now};
    assert_int_equal(weir_worker_open(&w.worker, &options), WEIR_OK);
    int64_t give_up_ns = port_steady_ns() + 10000000000;
    for (uint64_t i = 1; i <= 2; i++) {
        assert_int_equal(weir_worker_post(w.worker, note, NULL), WEIR_OK);
        while (port_load_relaxed(&noted) < i && port_steady_ns() < give_up_ns)
            port_yield();
        assert_int_equal(port_load_relaxed(&noted), i);
    }
    weir_worker_close(w.worker);
}

static uint64_t accepted; /* of the calls of post_until_refused() */

/* Posts until the worker is being closed. */
static void post_until_refused(void *arg)
{
    world *w = arg;
    while (weir_worker_post(w->worker, note, NULL) == WEIR_OK) {
        accepted++;
        port_yield();
    }
}

/* A call that posts while the worker is being closed is refused; all that was accepted runs. */
static void test_posts_while_closing(void **state)
{
    (void)state;
    world w = {0};
    const weir_worker_options options = {&w, on_begin, on_end, on_now};
    assert_int_equal(weir_worker_open(&w.worker, &options), WEIR_OK);
    uint64_t before = port_load_relaxed(&noted);
    assert_int_equal(weir_worker_post(w.worker, post_until_refused, &w), WEIR_OK);
    weir_worker_close(w.worker);
    assert_int_equal(port_load_relaxed(&noted) - before, accepted);
    assert_int_equal(w.ended, 1);
}

/* `begin` and `end` may be NULL. */
static void test_without_callbacks(void **state)
{
    (void)state;
    weir_worker *worker = NULL;
    const weir_worker_options options = {.now = on_now};
    assert_int_equal(weir_worker_open(&worker, &options), WEIR_OK);
    weir_worker_close(worker);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_posts),
        cmocka_unit_test(test_close_with_open_connections),
        cmocka_unit_test(test_a_call_wakes_the_worker),
        cmocka_unit_test(test_posts_while_closing),
        cmocka_unit_test(test_without_callbacks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
