/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* Tests the FIFO queue: order, spacing, depth, costs, a full ring, agreement with leaky-queue. */

#include "tests/kit/kit.h"

#include <weir/weir_queue.h>

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

static const int64_t ms = 1000000;

static void check_spacing(void **unused)
{
    (void)unused;
    weir_policy p = policy_of("leaky-queue 10/s depth 3");
    weir_queue_item items[4], item = {0};
    weir_queue q;
    weir_decision d;
    int64_t due_ns = -1;
    assert_int_equal(weir_queue_init(&q, &p, items, 4), WEIR_OK);
    assert_false(weir_queue_next(&q, &due_ns));
    assert_false(weir_queue_pop(&q, WEIR_NOW_NS_MAX, &item));
    assert_int_equal(due_ns, -1);
    for (uint64_t id = 0; id < 4; id++) { /* one is due at once, three wait */
        assert_int_equal(weir_queue_push(&q, 5000 * ms, 1, id, &d), WEIR_OK);
        assert_true(d.allowed);
        assert_int_equal(d.delay_ns, (int64_t)id * 100 * ms);
    }
    for (int64_t i = 0; i < 4; i++) {
        assert_true(weir_queue_next(&q, &due_ns));
        assert_int_equal(due_ns, (5000 + i * 100) * ms);
        assert_false(weir_queue_pop(&q, due_ns - 1, &item));
        assert_true(weir_queue_pop(&q, due_ns, &item));
        assert_int_equal(item.id, i);
        assert_int_equal(item.due_ns, due_ns);
        assert_int_equal(item.cost, 1);
    }
    assert_false(weir_queue_pop(&q, WEIR_NOW_NS_MAX, &item));
}

static void check_denied_and_full(void **unused)
{
    (void)unused;
    weir_policy p = policy_of("leaky-queue 10/s depth 3");
    weir_queue_item items[8], item;
    weir_queue q;
    weir_decision d;
    assert_int_equal(weir_queue_init(&q, &p, items, 8), WEIR_OK);
    for (uint64_t id = 0; id < 4; id++)
        assert_int_equal(weir_queue_push(&q, 0, 1, id, &d), WEIR_OK);
    assert_int_equal(weir_queue_push(&q, 0, 1, 9, &d), WEIR_OK);
    assert_false(d.allowed); /* depth requests wait */
    assert_int_equal(d.retry_after_ns, 100 * ms);
    assert_int_equal(q.len, 4);
    assert_int_equal(weir_queue_push(&q, 100 * ms, 1, 4, &d), WEIR_OK);
    assert_true(d.allowed);

    /* The due items are not popped, so the ring is full, and nothing is charged. */
    weir_queue_item small[2];
    assert_int_equal(weir_queue_init(&q, &p, small, 2), WEIR_OK);
    for (int64_t i = 0; i < 2; i++)
        assert_int_equal(weir_queue_push(&q, i * 1000 * ms, 1, (uint64_t)i, &d), WEIR_OK);
    uint64_t before = q.state[0];
    assert_int_equal(weir_queue_push(&q, 5000 * ms, 1, 2, &d), WEIR_E_FULL);
    assert_int_equal(q.state[0], before);
    assert_true(weir_queue_pop(&q, 5000 * ms, &item));
    assert_int_equal(weir_queue_push(&q, 5000 * ms, 1, 2, &d), WEIR_OK); /* the ring wraps */
    assert_true(weir_queue_pop(&q, 5000 * ms, &item));
    assert_int_equal(item.id, 1);
    assert_true(weir_queue_pop(&q, 5000 * ms, &item));
    assert_int_equal(item.id, 2);
}

static void check_refused(void **unused)
{
    (void)unused;
    weir_policy queue = policy_of("leaky-queue 3/s depth 3");
    weir_policy gcra = policy_of("gcra 3/s"), two = policy_of("leaky-queue 3/s depth 1 & gcra 3/s");
    weir_queue_item items[1];
    weir_queue q;
    weir_decision d = {.limit = -7};
    assert_int_equal(weir_queue_init(&q, &gcra, items, 1), WEIR_E_UNSUPPORTED);
    assert_int_equal(weir_queue_init(&q, &two, items, 1), WEIR_E_UNSUPPORTED);
    assert_int_equal(weir_queue_init(&q, &queue, items, 0), WEIR_E_RANGE);
    assert_int_equal(weir_queue_init(&q, &queue, items, 1), WEIR_OK);
    assert_int_equal(weir_queue_push(&q, 0, 0, 1, &d), WEIR_E_RANGE);
    assert_int_equal(weir_queue_push(&q, 0, -1, 1, &d), WEIR_E_RANGE);
    assert_int_equal(weir_queue_push(&q, -1, 1, 1, &d), WEIR_E_RANGE);
    assert_int_equal(weir_queue_push(&q, WEIR_NOW_NS_MAX + 1, 1, 1, &d), WEIR_E_RANGE);
    assert_int_equal(d.limit, -7);
    assert_int_equal(q.len, 0);
}

/* At an interval of a third of a second, the rounding errors of many costs do not add up. */
static void check_costs(void **unused)
{
    (void)unused;
    weir_policy p = policy_of("leaky-queue 3/s depth 100");
    weir_queue_item items[64], item;
    weir_queue q;
    weir_decision d;
    assert_int_equal(weir_queue_init(&q, &p, items, 64), WEIR_OK);
    int64_t ahead = 0;
    for (int64_t cost = 1; cost <= 8; cost++) {
        assert_int_equal(weir_queue_push(&q, 0, cost, (uint64_t)cost, &d), WEIR_OK);
        assert_int_equal(d.delay_ns, (ahead * 1000000000 + 2) / 3); /* rounded up */
        ahead += cost;
    }
    int64_t due_ns, last_ns = -1;
    for (uint64_t id = 1; id <= 8; id++) {
        assert_true(weir_queue_next(&q, &due_ns));
        assert_true(due_ns >= last_ns);
        last_ns = due_ns;
        assert_true(weir_queue_pop(&q, due_ns, &item));
        assert_int_equal(item.id, id);
    }
}

/* The example of nginx's documentation, limit_req burst=20 delay=8: one request and 8 more at once,
 * 12 paced, the others denied. */
static void check_two_stages(void **unused)
{
    (void)unused;
    weir_policy p = policy_of("leaky-queue 10/s depth 20 nodelay 8");
    weir_queue_item items[22], item;
    weir_queue q;
    weir_decision d;
    assert_int_equal(weir_queue_init(&q, &p, items, 22), WEIR_OK);
    for (uint64_t id = 0; id < 25; id++) {
        assert_int_equal(weir_queue_push(&q, 0, 1, id, &d), WEIR_OK);
        assert_int_equal(d.allowed, id < 21);
        assert_int_equal(d.delay_ns, id < 9 || id > 20 ? 0 : (int64_t)(id - 8) * 100 * ms);
    }
    for (uint64_t id = 0; id < 9; id++) {
        assert_true(weir_queue_pop(&q, 0, &item));
        assert_int_equal(item.id, id);
    }
    for (uint64_t id = 9; id < 21; id++) {
        int64_t due_ns = (int64_t)(id - 8) * 100 * ms;
        assert_false(weir_queue_pop(&q, due_ns - 1, &item));
        assert_true(weir_queue_pop(&q, due_ns, &item));
        assert_int_equal(item.id, id);
    }
    assert_false(weir_queue_pop(&q, 1200 * ms, &item));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(check_spacing),    cmocka_unit_test(check_denied_and_full),
        cmocka_unit_test(check_refused),    cmocka_unit_test(check_costs),
        cmocka_unit_test(check_two_stages),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
