/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* Leases whose limit changes. */

#include "core/leases_kit_test.h"

#include <string.h>

/* If the limit changes, what is held stays held. */
static void limits_change(void **unused)
{
    (void)unused;
    weir_decision d;
    uint64_t other[WORDS];
    key k = key_of("concurrent 9 lease 100ns");
    weir_policy low = policy_of("concurrent 4 lease 100ns");
    take(&k, 1000, 3, 100);
    take(&k, 1010, 3, 100);
    assert_int_equal(weir_state_convert(&k.policy, k.state, LEVEL, &low, 1050, other, 0), WEIR_OK);
    assert_int_equal(weir_check(&low, other, 0, 1099, 1, &d), WEIR_OK);
    assert_true(!d.allowed && d.remaining == 0 && d.retry_after_ns == 1);
    assert_int_equal(weir_check(&low, other, 0, 1100, 1, &d), WEIR_OK);
    assert_true(d.allowed && d.remaining == 0);
    assert_int_equal(weir_state_convert(&k.policy, k.state, LEVEL, &low, 1100, other, 0), WEIR_OK);
    assert_int_equal(weir_check(&low, other, 0, 1100, 0, &d), WEIR_OK);
    assert_int_equal(d.remaining, 1);
    for (int64_t t = 1020; t < 1023; t++)
        take(&k, t, 1, 100);
    weir_policy high = policy_of("concurrent 99 lease 100ns");
    assert_int_equal(weir_state_convert(&k.policy, k.state, LEVEL, &high, 1050, other, 0),
                     WEIR_E_ROOM);
    assert_int_equal(weir_state_convert(&k.policy, k.state, LEVEL, &high, 1050, other, 1), WEIR_OK);
    assert_int_equal(weir_check(&high, other, 1, 1050, 0, &d), WEIR_OK);
    assert_int_equal(d.remaining, 90);
}

static int64_t wait_of(const key *k, int64_t now_ns)
{
    weir_decision d;
    assert_int_equal(weir_peek(&k->policy, k->state, LEVEL, now_ns, 1, &d), WEIR_OK);
    assert_true(!d.allowed && d.remaining == 0);
    return d.retry_after_ns;
}

/* Of leases above a limit that was lowered, those that end first become one. It is given back and
 * renewed as a whole, and never ends earlier. */
static void a_limit_is_lowered(void **unused)
{
    (void)unused;
    key k = key_of("concurrent 9 lease 100ns"), low = key_of("concurrent 3 lease 100ns"), copy;
    for (int64_t t = 1000; t < 1006; t++)
        take(&k, t, 1, 100);
    assert_int_equal(
        weir_state_convert(&k.policy, k.state, LEVEL, &low.policy, 1050, low.state, LEVEL),
        WEIR_OK);
    assert_int_equal(low.state[0] >> 32, 3); /* 4 units that end at 1103, and two of one unit */
    assert_int_equal(wait_of(&low, 1050), 53);
    release(&low, 1100, 1, 1050); /* is in the entry that ends at 1103 */
    assert_int_equal(wait_of(&low, 1050), 53);
    copy = low;
    renew(&copy, 1103, 1, 20, 1050);
    assert_int_equal(wait_of(&copy, 1050), 53);
    renew(&copy, 1103, 1, 54, 1050); /* shares an entry */
    assert_int_equal(wait_of(&copy, 1050), 54);
    copy = low;
    renew(&copy, 1103, 1, 80, 1050);
    assert_int_equal(copy.state[0] >> 32, 3);
    assert_int_equal(wait_of(&copy, 1050), 80);
    assert_int_equal(left(&copy, 1130), 3);
    copy = low;
    renew(&copy, 1100, 1, 20, 1050);
    assert_int_equal(wait_of(&copy, 1050), 53);
    renew(&copy, 1100, 1, 80, 1050);
    assert_int_equal(wait_of(&copy, 1050), 80);
    copy = low;
    renew(&copy, 1100, 1, 100, 1100); /* it has ended */
    assert_int_equal(wait_of(&copy, 1050), 53);
    copy = low;
    renew(&copy, 1102, 6, 80, 1050); /* all of them, and no more */
    assert_int_equal(copy.state[0] >> 32, 1);
    assert_int_equal(wait_of(&copy, 1050), 80);
    release(&low, 1104, 1, 1050);
    assert_int_equal(wait_of(&low, 1050), 53);
    copy = low;
    renew(&copy, 1103, 1, 80, 1050); /* there is room for a part of it */
    assert_int_equal(wait_of(&copy, 1050), 53);
    assert_int_equal(left(&copy, 1110), 2);
    release(&low, 1103, 3, 1050);
    assert_int_equal(left(&low, 1050), 1);
}

/* Whatever the limit was in between, and in whichever order holders renew and end, a lease is only
 * given if it fits beside those of all holders. */
static void limits_change_while_leases_are_renewed(void **unused)
{
    (void)unused;
    static const char *const texts[] = {"concurrent 1 lease 100ns", "concurrent 3 lease 100ns",
                                        "concurrent 7 lease 100ns", "concurrent 20 lease 100ns"};
    uint64_t x = 3;
    unsigned given = 0;
    for (int round = 0; round < 300; round++) {
        key k = key_of(texts[3]);
        int64_t now_ns = 1000;
        for (int i = 0; i < 300; i++) {
            holder *h = &k.held[next(&x) % HOLDERS];
            bool holds = h->ends_ns > now_ns;
            int64_t sum = 0;
            key to = key_of(texts[next(&x) % 4]);
            for (size_t n = 0; n < HOLDERS; n++)
                sum += k.held[n].ends_ns > now_ns ? k.held[n].units : 0;
            switch (next(&x) % 8) {
            case 0:
                assert_int_equal(weir_state_convert(&k.policy, k.state, LEVEL, &to.policy, now_ns,
                                                    to.state, LEVEL),
                                 WEIR_OK);
                memcpy(to.held, k.held, sizeof k.held);
                k = to;
                break;
            case 1:
                if (holds)
                    release(&k, h->ends_ns, h->units, now_ns);
                h->ends_ns = holds ? 0 : h->ends_ns;
                break;
            case 2:
            case 3:
            case 4:
                if (holds)
                    renew(&k, h->ends_ns, h->units, 100, now_ns);
                h->ends_ns = holds ? now_ns + 100 : h->ends_ns;
                break;
            default:
                if (holds)
                    break;
                h->units = 1 + (int64_t)(next(&x) % 2);
                if (take(&k, now_ns, h->units, 100).allowed) {
                    assert_true(sum + h->units <= k.policy.layer[0].limit);
                    h->ends_ns = now_ns + 100;
                    given++;
                }
            }
            now_ns += (int64_t)(next(&x) % 9);
        }
    }
    assert_true(given > 1000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(limits_change),
        cmocka_unit_test(a_limit_is_lowered),
        cmocka_unit_test(limits_change_while_leases_are_renewed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
