/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_TESTS_PROPERTIES_H
#define WEIR_TESTS_PROPERTIES_H
/* What must hold of every policy, as functions of an input: a policy and a run of requests on one
 * fresh key. The drivers are properties_test.c (fixed examples and seeded random) and
 * tests/fuzz/core_fuzz.c. An input is made from bytes, so that any bytes are one. */

#include <weir/weir.h>

enum { STEPS_MAX = 48 };

typedef struct step {
    int64_t t_ns; /* ascending */
    int64_t cost;
} step;

typedef struct input {
    weir_policy policy;
    size_t steps;
    step step[STEPS_MAX];
} input;

/* Reads an input: the policy from the first bytes, then a step for every 4 until they end. Times
 * and costs are drawn towards the edges. False if there are too few bytes, or the bounds refuse
 * it. */
bool input_read(input *ret, const uint8_t *bytes, size_t len);

/* The same policy, with the steps made for it. */
bool input_parse(input *ret, const char *text, const uint8_t *bytes, size_t len);

/* Each prints what failed on stderr and returns false. */
bool p1_bound(const input *in);   /* what was allowed obeys the algorithm's inequality */
bool p2_figures(const input *in); /* retry_after, remaining, reset_after are exact */
bool p3_denial_writes_nothing(const input *in); /* nor does a peek, which is true */
bool p4_clock_back_is_stricter(const input *in);
bool p6_buckets_agree(const input *in); /* gcra, token-bucket and leaky-bucket decide alike */
bool p7_refund_undoes(const input *in);
bool p8_report_is_true(const input *in); /* no span takes more than weir_policy_report() says */

bool all_properties(const input *in);

#endif
