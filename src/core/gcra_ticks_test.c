/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* Random requests on two copies of a TAT: one decided in 64 bits, one in 128 bits. All fields and
 * the new TATs must agree. Quantities that are too large must be refused. */

#include "core/decision_kit_test.h"
#include "core/gcra.h"
#include "core/wide.h"
#include "port/random_kit_test.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

static weir_layer layer_of(const char *text)
{
    weir_policy p;
    assert_int_equal(weir_policy_parse(&p, text, strlen(text), NULL, NULL), WEIR_OK);
    assert_int_equal(p.layer[0].format, WEIR_STATE_TAT_TICKS);
    return p.layer[0];
}

/* The TAT f_ns - rest / num as a state of the core. */
static void to_state(const weir_layer *l, int64_t f_ns, uint64_t rest, uint64_t state[2])
{
    weir_wide t = weir_wide_sub(weir_wide_mul((uint64_t)f_ns, l->num), (weir_wide){0, rest});
    state[0] = t.hi;
    state[1] = t.lo;
}

static void run(const char *text, uint64_t *seed)
{
    weir_layer l = layer_of(text);
    int64_t now_ns = 1795377343327627102, f_ns = now_ns;
    uint64_t rest = 0;
    weir_decision d = {.limit = l.limit}, wide = {0};
    for (int i = 0; i < 20000; i++) {
        uint64_t x = next_random(seed), state[2], expected[2];
        const int64_t costs[] = {0, 1, 1, 1, d.remaining, d.remaining + 1, l.limit, l.limit + 1};
        const int64_t waits[] = {
            0, 0, 1, d.reset_after_ns, d.reset_after_ns - 1, d.reset_after_ns / 3, -5, 1000000000};
        int64_t cost = costs[x % 8], wait_ns = waits[x >> 8 & 7];
        now_ns += wait_ns;
        to_state(&l, f_ns, rest, expected);
        weir_gcra_wide_check(&l, expected, now_ns, cost, &wide);
        d = (weir_decision){.limit = -1, .delay_ns = -1}; /* both are written */
        assert_true(weir_gcra_ticks_check(&l, &f_ns, &rest, now_ns, cost, &d));
        assert_same_decision(&d, &wide);
        assert_true(rest < l.num);
        to_state(&l, f_ns, rest, state);
        assert_int_equal(state[0], expected[0]);
        assert_int_equal(state[1], expected[1]);
    }
}

static void ticks_decide_as_wide_numbers(void **state)
{
    (void)state;
    static const char *const texts[] = {"gcra 3/s burst 1",
                                        "gcra 3/s burst 20",
                                        "gcra 7/m burst 1000",
                                        "gcra 60/s burst 99",
                                        "token-bucket 50 refill 11/s",
                                        "leaky-bucket 13/s capacity 40",
                                        "leaky-queue 3/s depth 9",
                                        "gcra 65521/s burst 65521",
                                        "leaky-queue 7/m depth 9 nodelay 4"};
    uint64_t seed = 20261123;
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++)
        run(texts[i], &seed);
}

static void large_quantities_are_refused(void **state)
{
    (void)state;
    weir_layer l = layer_of("gcra 3/s burst 20");
    int64_t f_ns = ((int64_t)1 << 44) + 5;
    uint64_t rest = 2;
    weir_decision d;
    assert_true(weir_gcra_ticks_check(&l, &f_ns, &rest, 6, 1, &d));
    assert_false(d.allowed);
    assert_false(weir_gcra_ticks_check(&l, &f_ns, &rest, 5, 1, &d)); /* too far ahead */
    assert_true(f_ns == ((int64_t)1 << 44) + 5 && rest == 2);
    l = layer_of("gcra 65537/s burst 9"); /* too many ticks */
    assert_false(weir_gcra_ticks_check(&l, &f_ns, &rest, f_ns, 1, &d));
    l = layer_of("gcra 3/s burst 20");
    l.cap_lo = (uint64_t)1 << 62;
    assert_false(weir_gcra_ticks_check(&l, &f_ns, &rest, f_ns, 1, &d));
    l.cap_lo--;
    assert_true(weir_gcra_ticks_check(&l, &f_ns, &rest, f_ns, 0, &d));
    l.cap_hi = 1;
    assert_false(weir_gcra_ticks_check(&l, &f_ns, &rest, f_ns, 0, &d));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ticks_decide_as_wide_numbers),
        cmocka_unit_test(large_quantities_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
