/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* The board between threads: of each key one asks at a time, what one learns all know, and no unit
 * that is left is handed out twice. */

#include "engine/redis/board.h"

#include "port/port.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static const int64_t us_ns = 1000, ms_ns = 1000000, s_ns = 1000000000;
static const int64_t start_ns = 1767225600000000000;

enum { THREADS = 8, KEYS = 4, ROUNDS = 20000, LEFT = 3 };

static void the_last_takes_it_away(void **state)
{
    (void)state;
    static weir_redis_stats stats;
    weir_board *a, *b;
    assert_int_equal(weir_board_join(&a, &stats, 1 << 20, 1), WEIR_OK);
    assert_int_equal(weir_board_join(&b, &stats, 1 << 20, 2), WEIR_OK);
    assert_ptr_equal(a, b);
    weir_board_leave(&stats);
    assert_non_null(stats.board);
    weir_board_leave(&stats);
    assert_null(stats.board);
    assert_int_equal(weir_board_join(&a, &stats, 1 << 20, 1), WEIR_OK);
    weir_board_leave(&stats);
}

typedef struct shared {
    weir_redis_stats stats;
    weir_policy policy;
    port_counter now_ns;
    port_counter asking[KEYS]; /* by how many */
    port_counter crowds, asked, taken, hits;
} shared;

static void ask(shared *s, weir_board *b, weir_engine_request *q, weir_deny_id id, int key,
                uint32_t dice)
{
    int64_t now_ns = (int64_t)port_load_relaxed(&s->now_ns);
    if (port_add_relaxed(&s->asking[key], 1) != 0)
        port_add_relaxed(&s->crowds, 1);
    port_add_relaxed(&s->asked, 1);
    port_sub_relaxed(&s->asking[key], 1);
    if (dice % 2) { /* it is allowed, with some left */
        weir_board_unclaim(b, id, LEFT);
        return;
    }
    q->status = WEIR_OK;
    q->decision =
        (weir_decision){.limit = 5, .retry_after_ns = 100 * us_ns, .reset_after_ns = s_ns};
    weir_board_learn(b, id, 0, now_ns, now_ns, q);
    weir_board_unclaim(b, id, -1);
}

static void work(void *arg)
{
    shared *s = arg;
    weir_board *b;
    weir_deny *own;
    uint32_t dice = (uint32_t)(uintptr_t)&own / 64;
    if (weir_board_join(&b, &s->stats, 1 << 16, 1) != WEIR_OK ||
        weir_deny_open(&own, 4096, weir_board_secret(b)) != WEIR_OK)
        return;
    for (int i = 0; i < ROUNDS; i++) {
        dice = dice * 1664525 + 1013904223;
        int key = (int)(dice >> 20) % KEYS;
        char name[8];
        (void)snprintf(name, sizeof name, "k%d", key);
        weir_engine_request q = {.policy = &s->policy, .key = {name, 2}, .cost = 1};
        weir_deny_id id = weir_deny_id_of(own, &q);
        int64_t now_ns = (int64_t)port_add_relaxed(&s->now_ns, (uint64_t)(20 * us_ns));
        switch (weir_board_look(b, own, id, 0, now_ns, INT64_MAX, &q)) {
        case WEIR_DENY_DENIED:
            port_add_relaxed(&s->hits, 1);
            break;
        case WEIR_DENY_ENDED:
            ask(s, b, &q, id, key, dice >> 8);
            break;
        case WEIR_DENY_NOTHING: /* one of those that were left */
            port_add_relaxed(&s->taken, 1);
            break;
        case WEIR_DENY_CLAIMED:
            break;
        }
        if (i % 100 == 0)
            weir_board_sweep(b, now_ns);
    }
    weir_deny_close(own);
    weir_board_leave(&s->stats);
}

static void of_all_threads_one_asks(void **state)
{
    (void)state;
    static shared s;
    static const char text[] = "gcra 1/s burst 5";
    weir_board *b;
    port_thread *threads[THREADS];
    assert_int_equal(weir_policy_parse(&s.policy, text, strlen(text), NULL, NULL), WEIR_OK);
    assert_int_equal(weir_board_join(&b, &s.stats, 1 << 16, 1), WEIR_OK);
    port_store_relaxed(&s.now_ns, (uint64_t)start_ns);
    weir_deny *own;
    assert_int_equal(weir_deny_open(&own, 4096, weir_board_secret(b)), WEIR_OK);
    for (int key = 0; key < KEYS; key++) {
        char name[8];
        (void)snprintf(name, sizeof name, "k%d", key);
        weir_engine_request q = {.policy = &s.policy, .key = {name, 2}, .cost = 1};
        q.decision = (weir_decision){.limit = 5, .retry_after_ns = ms_ns, .reset_after_ns = s_ns};
        weir_board_learn(b, weir_deny_id_of(own, &q), 0, start_ns, start_ns, &q);
    }
    assert_int_equal(port_load_relaxed(&s.stats.deny_keys), KEYS);
    for (int i = 0; i < THREADS; i++) {
        threads[i] = port_thread_start(work, &s);
        assert_non_null(threads[i]);
    }
    for (int i = 0; i < THREADS; i++)
        port_thread_join(threads[i]);
    assert_int_equal(port_load_relaxed(&s.crowds), 0);
    assert_true(port_load_relaxed(&s.asked) > 10);
    assert_true(port_load_relaxed(&s.hits) > 10);
    assert_true(port_load_relaxed(&s.taken) <= LEFT * port_load_relaxed(&s.asked));
    assert_true(port_load_relaxed(&s.stats.deny_keys) <= KEYS);
    weir_deny_close(own);
    weir_board_leave(&s.stats);
    assert_int_equal(port_load_relaxed(&s.stats.deny_keys), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_last_takes_it_away),
        cmocka_unit_test(of_all_threads_one_asks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
