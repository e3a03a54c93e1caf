/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_CORE_DECISION_KIT_TEST_H
#define WEIR_CORE_DECISION_KIT_TEST_H
/* A kit for the tests that decide in two ways. */

#include <weir/weir.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

static inline void assert_same_decision(const weir_decision *a, const weir_decision *b)
{
    assert_int_equal(a->allowed, b->allowed);
    assert_int_equal(a->never, b->never);
    assert_int_equal(a->limit, b->limit);
    assert_int_equal(a->remaining, b->remaining);
    assert_int_equal(a->retry_after_ns, b->retry_after_ns);
    assert_int_equal(a->reset_after_ns, b->reset_after_ns);
    assert_int_equal(a->delay_ns, b->delay_ns);
    assert_int_equal(a->layer, b->layer);
}

#endif
