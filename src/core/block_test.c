/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* Tests blocks: when they begin, end and double, what is written, and damaged states. */

#include "core/block.h"

#include "core/check.h"
#include "tests/kit/kit.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

static const int64_t s = 1000000000, start = 1767225600000000000;

static weir_decision take(const weir_policy *p, uint64_t *state, int64_t now_ns, int64_t cost)
{
    weir_decision d;
    assert_int_equal(weir_check(p, state, WEIR_LEVEL_MAX - 20, now_ns, cost, &d), WEIR_OK);
    return d;
}

static weir_decision peek(const weir_policy *p, const uint64_t *state, int64_t now_ns, int64_t cost)
{
    weir_decision d;
    assert_int_equal(weir_peek(p, state, WEIR_LEVEL_MAX - 20, now_ns, cost, &d), WEIR_OK);
    return d;
}

/* A client that never stops gets five attempts each time a block of ten minutes is over. */
static void the_ban_ends_although_requests_go_on(void **unused)
{
    (void)unused;
    weir_policy p = policy_of("sliding-log 5/m & block 10m");
    uint64_t state[64] = {0};
    int allowed = 0;
    for (int64_t t = 0; t < 3600; t++) {
        weir_decision d = take(&p, state, start + t * s, 1);
        allowed += d.allowed;
        assert_int_equal(d.allowed, t % 605 < 5);
        if (!d.allowed) {
            assert_int_equal(d.retry_after_ns, (605 - t % 605) * s);
            assert_int_equal(d.reset_after_ns, d.retry_after_ns);
            assert_true(d.layer == 1 && d.limit == 5 && d.remaining == 0 && !d.never);
        }
    }
    assert_int_equal(allowed, 30);
}

static void a_block_is_exact(void **unused)
{
    (void)unused;
    weir_policy p = policy_of("gcra 1/s & block 10s");
    uint64_t state[3] = {0}, before[3];
    assert_int_equal(weir_state_words(&p, 0), 2);
    state[2] = 7; /* behind the state */
    assert_true(take(&p, state, start, 1).allowed);
    assert_int_equal(state[1], 0);
    weir_decision d = peek(&p, state, start, 1); /* a peek begins none */
    assert_true(!d.allowed && d.layer == 0 && d.retry_after_ns == s);
    assert_int_equal(state[1], 0);
    d = take(&p, state, start + 1, 1);
    assert_true(!d.allowed && d.layer == 1 && d.retry_after_ns == 10 * s);
    assert_int_equal(state[1], start + 1 + 10 * s);
    memcpy(before, state, sizeof before);
    d = take(&p, state, start + 10 * s, 0); /* a peek with cost 0 is denied too */
    assert_true(!d.allowed && d.retry_after_ns == 1);
    assert_false(take(&p, state, start + 10 * s, 1).allowed);
    assert_memory_equal(state, before, sizeof before);
    d = peek(&p, state, start + 10 * s + 1, 0);
    assert_true(d.allowed && d.layer == 0 && d.remaining == 1 && d.reset_after_ns == 0);
    assert_true(take(&p, state, start + 10 * s + 1, 1).allowed);
    assert_false(peek(&p, state, start + 10 * s, 0).allowed); /* the clock steps back */
    assert_int_equal(state[2], 7);
}

static void a_cost_above_the_limit_blocks(void **unused)
{
    (void)unused;
    weir_policy p = policy_of("fixed-window 9/d & block 10s & gcra 5/s burst 5");
    uint64_t state[3] = {0};
    weir_decision d = take(&p, state, start, 6);
    assert_true(d.never && d.retry_after_ns == INT64_MAX && d.layer == 2 && d.limit == 5);
    assert_int_equal(d.reset_after_ns, 10 * s);
    d = take(&p, state, start + s, 5);
    assert_true(!d.allowed && !d.never && d.retry_after_ns == 9 * s);
    assert_true(take(&p, state, start + 10 * s, 5).allowed);
    /* The day lasts longer than a block, so each denial after one begins another. */
    assert_int_equal(take(&p, state, start + 11 * s, 5).layer, 0);
    assert_int_equal(state[2], start + 21 * s);
    assert_int_equal(take(&p, state, start + 21 * s - 1, 5).layer, 0);
    assert_int_equal(state[2], start + 21 * s);
    assert_int_equal(take(&p, state, start + 21 * s, 5).layer, 0);
    assert_int_equal(state[2], start + 31 * s);
}

static void blocks_double(void **unused)
{
    (void)unused;
    weir_policy p = policy_of("gcra 1/3650d & block 10s doubling 35s");
    uint64_t state[3] = {0};
    assert_true(take(&p, state, start, 1).allowed);
    static const int64_t lengths[] = {10, 20, 35, 35};
    int64_t now_ns = start;
    for (size_t i = 0; i < 4; i++) {
        take(&p, state, now_ns, 1);
        assert_int_equal(state[2], lengths[i] * s);
        assert_int_equal(state[1], now_ns + lengths[i] * s);
        now_ns += 2 * lengths[i] * s - 1; /* the last instant that remembers it */
    }
    take(&p, state, now_ns + 1, 1);
    assert_int_equal(state[2], 10 * s);
    now_ns += 1;
    assert_int_equal(weir_usage_of(&p, state, 0, now_ns + 9 * s).used, WEIR_USED_MAX);
    /* The bucket has used its limit all the time. */
    assert_int_equal(weir_usage_of(&p, state, 0, now_ns + 10 * s).used, 255);
}

static void a_state_is_as_new_once_the_block_is_forgotten(void **unused)
{
    (void)unused;
    weir_policy p = policy_of("gcra 1/1ns & block 10s doubling 1m");
    weir_policy plain = policy_of("gcra 1/1ns & block 10s");
    uint64_t state[3] = {0}, once[2] = {0};
    take(&p, state, start, 2);
    take(&plain, once, start, 2);
    assert_int_equal(weir_fresh_after(&p, state, 0, start), 20 * s);
    assert_int_equal(weir_fresh_after(&plain, once, 0, start), 10 * s);
    assert_int_equal(weir_usage_of(&p, state, 0, start + 10 * s - 1).used, 255);
    assert_int_equal(weir_usage_of(&p, state, 0, start + 10 * s).used, 128);
    assert_int_equal(weir_usage_of(&p, state, 0, start + 20 * s - 1).used, 128);
    assert_int_equal(weir_fresh_after(&p, state, 0, start + 20 * s - 1), 1);
    assert_int_equal(weir_usage_of(&p, state, 0, start + 20 * s).used, 0);
    assert_int_equal(weir_fresh_after(&p, state, 0, start + 20 * s), 0);
    assert_int_equal(weir_usage_of(&plain, once, 0, start + 10 * s - 1).used, 255);
    assert_int_equal(weir_usage_of(&plain, once, 0, start + 10 * s).used, 0);
}

static void nothing_counts_during_a_block(void **unused)
{
    (void)unused;
    weir_policy p = policy_of("fixed-window 3/h count-denied & gcra 1/s & block 10s");
    uint64_t state[3] = {0};
    int64_t hour = start - start % (3600 * s);
    take(&p, state, hour, 1);
    weir_decision d = take(&p, state, hour, 1); /* counts, and begins a block */
    assert_int_equal(state[0], hour + 2);
    assert_true(d.layer == 2 && d.retry_after_ns == 10 * s);
    take(&p, state, hour + s, 3);
    assert_int_equal(state[0], hour + 2);
    assert_true(take(&p, state, hour + 10 * s, 1).allowed);
    assert_int_equal(state[0], hour + 3);
    assert_int_equal(take(&p, state, hour + 11 * s, 1).layer, 0); /* its hour is the longest wait */
}

static void a_refund_does_not_end_a_block(void **unused)
{
    (void)unused;
    weir_policy p = policy_of("gcra 1/s & block 10s");
    uint64_t state[2] = {0};
    weir_decision d;
    take(&p, state, start, 1);
    take(&p, state, start, 1);
    assert_int_equal(weir_refund(&p, state, 0, start, 1, &d), WEIR_OK);
    assert_int_equal(state[0], start);
    assert_true(!d.allowed && d.layer == 1 && d.retry_after_ns == 10 * s);
    assert_int_equal(state[1], start + 10 * s);
    assert_int_equal(weir_state_time(&p, state, 0, start), start);
}

static void a_denial_of_a_transaction_begins_a_block(void **unused)
{
    (void)unused;
    weir_policy p = policy_of("fixed-window 1/h count-denied & block 10s");
    weir_policy none = policy_of("gcra 1/s & fixed-window 1/h");
    uint64_t state[2] = {0};
    weir_decision d;
    assert_int_equal(weir_block_if_denied(&p, state, 0, start, 1, 0, &d), WEIR_OK);
    assert_true(d.allowed && state[0] == 0 && state[1] == 0);
    take(&p, state, start, 1);
    uint64_t count = state[0];
    assert_int_equal(weir_block_if_denied(&p, state, 0, start + 1, 0, 0, &d), WEIR_OK);
    assert_true(d.allowed && state[1] == 0);
    assert_int_equal(weir_block_if_denied(&p, state, 0, start + 1, 2, 0, &d), WEIR_OK);
    assert_true(d.never && d.layer == 0 && state[0] == count);
    assert_int_equal(state[1], start + 1 + 10 * s);
    assert_int_equal(weir_block_if_denied(&p, state, 0, start + 2, 1, 0, &d), WEIR_OK);
    assert_int_equal(state[1], start + 1 + 10 * s);
    assert_int_equal(weir_block_if_denied(&p, state, 0, -1, 1, 0, &d), WEIR_E_RANGE);
    memset(state, 0, sizeof state);
    take(&none, state, start, 1);
    uint64_t before[2] = {state[0], state[1]};
    assert_int_equal(weir_block_if_denied(&none, state, 0, start, 1, 0, &d), WEIR_OK);
    assert_true(!d.allowed);
    assert_memory_equal(state, before, sizeof before);
}

static void damaged_states_are_safe(void **unused)
{
    (void)unused;
    weir_layer b = policy_of("gcra 1/s & block 10s doubling 35s").layer[1];
    weir_decision d = {.delay_ns = 1};
    uint64_t negative[2] = {UINT64_MAX, UINT64_MAX},
             late[2] = {INT64_MAX, (uint64_t)90 * 1000000000};
    weir_block_check(&b, negative, 5, 1, &d);
    assert_true(d.allowed && d.reset_after_ns == 0 && d.retry_after_ns == 0);
    assert_true(d.remaining == INT64_MAX && d.delay_ns == 0);
    weir_block_check(&b, negative, 0, 1, &d); /* at the end of the block */
    assert_int_equal(d.reset_after_ns, 0);
    const uint64_t no_length[2] = {7, UINT64_MAX};
    weir_block_check(&b, no_length, 0, 1, &d);
    assert_true(d.retry_after_ns == 7 && d.reset_after_ns == 7);
    weir_block_check(&b, late, 0, 1, &d);
    assert_true(!d.allowed && d.retry_after_ns == INT64_MAX && d.reset_after_ns == INT64_MAX);
    weir_block_check(&b, late, 35 * s, 1, &d); /* a length is at most the longest */
    assert_int_equal(d.reset_after_ns, INT64_MAX);
    weir_block_check(&b, late, 35 * s + 1, 1, &d);
    assert_int_equal(d.reset_after_ns, INT64_MAX - 1);
    const uint64_t first[2] = {1, 0}; /* the earliest end of a block */
    weir_block_check(&b, first, 0, 1, &d);
    assert_true(!d.allowed && d.retry_after_ns == 1 && d.reset_after_ns == 1);
    weir_block_check(&b, first, 1, 1, &d);
    assert_true(d.allowed && d.reset_after_ns == 0);
    weir_block_begin(&b, negative, 5);
    assert_int_equal(negative[0], 5 + 10 * s);
    assert_int_equal(negative[1], 10 * s);
}

static void bounds_of_a_layer(void **unused)
{
    (void)unused;
    const weir_layer good = policy_of("gcra 1/s burst 7 & block 10s").layer[1];
    assert_true(good.limit == 7 && good.rate == 7 && good.longest_ns == 0);
    static const struct {
        int64_t period_ns, longest_ns;
        weir_status status;
    } rows[] = {
        {0, 0, WEIR_E_RANGE},
        {1, 0, WEIR_OK},
        {WEIR_SPAN_NS_MAX, 0, WEIR_OK},
        {WEIR_SPAN_NS_MAX + 1, 0, WEIR_E_RANGE},
        {5, 5, WEIR_E_RANGE},
        {5, 6, WEIR_OK},
        {5, -1, WEIR_E_RANGE},
        {5, WEIR_SPAN_NS_MAX, WEIR_OK},
        {5, WEIR_SPAN_NS_MAX + 1, WEIR_E_RANGE},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        weir_layer l = good;
        l.period_ns = rows[i].period_ns;
        l.longest_ns = rows[i].longest_ns;
        assert_int_equal(weir_layer_init(&l, NULL), rows[i].status);
    }
}

/* Nothing is blocked by invalid arguments, by a request that is allowed, nor by a peek. */
static void only_a_denial_blocks(void **unused)
{
    (void)unused;
    weir_policy p = policy_of("fixed-window 1/h & block 10s");
    uint64_t state[2] = {0};
    weir_decision d;
    assert_int_equal(weir_block_if_denied(&p, state, 0, -1, 1, 0, &d), WEIR_E_RANGE);
    assert_int_equal(weir_block_if_denied(&p, state, 0, 0, 1, 0, &d), WEIR_OK);
    assert_true(d.allowed);
    assert_int_equal(weir_check(&p, state, 0, 0, 1, &d), WEIR_OK);
    assert_int_equal(weir_block_if_denied(&p, state, 0, 0, 0, 1, &d), WEIR_OK);
    assert_true(!d.allowed && d.layer == 0);
    assert_int_equal(state[1], 0);
    assert_int_equal(weir_block_if_denied(&p, state, 0, 0, 1, 0, &d), WEIR_OK);
    assert_int_equal(state[1], 10000000000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_ban_ends_although_requests_go_on),
        cmocka_unit_test(a_block_is_exact),
        cmocka_unit_test(a_cost_above_the_limit_blocks),
        cmocka_unit_test(blocks_double),
        cmocka_unit_test(a_state_is_as_new_once_the_block_is_forgotten),
        cmocka_unit_test(nothing_counts_during_a_block),
        cmocka_unit_test(a_refund_does_not_end_a_block),
        cmocka_unit_test(a_denial_of_a_transaction_begins_a_block),
        cmocka_unit_test(damaged_states_are_safe),
        cmocka_unit_test(bounds_of_a_layer),
        cmocka_unit_test(only_a_denial_blocks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
