/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_TESTS_PROPERTIES_H
#define WEIR_TESTS_PROPERTIES_H
/* The properties of every policy, as functions of an input: a policy and a sequence of requests for
 * one new key. properties_test.c runs them on fixed examples and on seeded random inputs, and
 * tests/fuzz/core_fuzz.c under libFuzzer. Any bytes can be decoded as an input. */

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

/* Decodes an input: the policy from the first bytes, then a step from every 4 bytes. Times and
 * costs prefer edge cases. Returns false if there are too few bytes, or if the policy is out of
 * range. */
bool input_read(input *ret, const uint8_t *bytes, size_t len);

/* Makes an input from a policy text, with steps from the bytes. */
bool input_parse(input *ret, const char *text, const uint8_t *bytes, size_t len);

/* Each returns false if the property does not hold, and prints why to stderr. */
bool p1_bound(const input *in);  /* the allowed requests satisfy the algorithm's inequality */
bool p2_fields(const input *in); /* retry_after, remaining, reset_after are exact */
bool p3_denial_writes_nothing(
    const input *in); /* a peek writes nothing either, and predicts the decision */
bool p4_clock_back_is_stricter(const input *in);
bool p6_buckets_agree(const input *in); /* gcra, token-bucket and leaky-bucket decide alike */
bool p7_refund_undoes(const input *in);
bool p8_report_is_true(const input *in);       /* no span exceeds the worst case of the report */
bool p9_queue_has_two_stages(const input *in); /* nodelay shortens delays, and changes no more */
bool p10_keep_leaves_units(const input *in);   /* what a request keeps is left for the next one */
bool p11_block_ends(const input *in); /* nothing is allowed or written until a block ends */
bool p12_charge(const input *in);     /* a charge that fits is a take; a debt is denied */

bool all_properties(const input *in);

#endif
