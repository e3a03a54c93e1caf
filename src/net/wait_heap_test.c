/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* The heap of waits against a slow, obvious model: the least by time, then by order of adding. */

#include "net/queue.h"
#include "port/random_kit_test.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

enum { MANY = 200 };

static weir_wait *first_of(weir_wait *waits, size_t n)
{
    weir_wait *first = NULL;
    for (size_t i = 0; i < n; i++) {
        weir_wait *w = &waits[i];
        if (w->place != 0 && (!first || w->at_ns < first->at_ns ||
                              (w->at_ns == first->at_ns && w->sequence < first->sequence)))
            first = w;
    }
    return first;
}

static void check_equal_times_keep_their_order(void **unused)
{
    (void)unused;
    weir_wait waits[MANY] = {0};
    weir_wait_heap w = {0};
    assert_true(weir_wait_heap_reserve(&w, MANY));
    for (size_t i = 0; i < MANY; i++)
        weir_wait_heap_add(&w, &waits[i], (int64_t)(i % 2));
    for (size_t i = 0; i < MANY; i++) {
        size_t expected = i < MANY / 2 ? 2 * i : 2 * (i - MANY / 2) + 1;
        assert_ptr_equal(weir_wait_heap_first(&w), &waits[expected]);
        weir_wait_heap_remove(&w, &waits[expected]);
    }
    assert_null(weir_wait_heap_first(&w));
    weir_wait_heap_free(&w);
}

static void check_against_model(void **unused)
{
    (void)unused;
    weir_wait waits[MANY] = {0};
    weir_wait_heap w = {0};
    uint64_t seed = 1;
    for (int step = 0; step < 20000; step++) {
        weir_wait *one = &waits[next_random(&seed) % MANY];
        if (one->place != 0) {
            weir_wait_heap_remove(&w, one);
            weir_wait_heap_remove(&w, one); /* no effect */
        } else {
            assert_true(weir_wait_heap_reserve(&w, w.len + 1));
            weir_wait_heap_add(&w, one, (int64_t)(next_random(&seed) % 50));
        }
        assert_ptr_equal(weir_wait_heap_first(&w), first_of(waits, MANY));
    }
    weir_wait_heap_free(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(check_equal_times_keep_their_order),
        cmocka_unit_test(check_against_model),
    };
    return cmocka_run_group_tests_name("waits", tests, NULL, NULL);
}
