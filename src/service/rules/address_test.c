/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* IP addresses: which texts are addresses, and their canonical form. */

#include "service/rules/address.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

/* The canonical form of `text`, masked to `bits` (0: all); "-" if it is not an address. */
static const char *form(const char *text, unsigned bits)
{
    static char buf[WEIR_ADDRESS_TEXT_MAX + 1];
    weir_address a;
    if (!weir_address_parse(&a, text, strlen(text)))
        return "-";
    bits = bits > 0 ? bits : weir_address_bits(&a);
    weir_address_mask(&a, bits);
    buf[weir_address_print(&a, bits, buf)] = '\0';
    return buf;
}

static void check_canonical_forms(void **unused)
{
    (void)unused;
    static const char *const rows[][2] = {
        {"0.0.0.0", "0.0.0.0"},
        {"255.255.255.255", "255.255.255.255"},
        {"1.20.103.4", "1.20.103.4"},
        {"::", "::"},
        {"::1", "::1"},
        {"1::", "1::"},
        {"2001:DB8:0:0:0:0:0:1", "2001:db8::1"},
        {"2001:0db8::0001", "2001:db8::1"},
        {"2001:db8:0:1:1:1:1:1", "2001:db8:0:1:1:1:1:1"}, /* a single zero group is not shortened */
        {"2001:0:0:1:0:0:0:1", "2001:0:0:1::1"},          /* the longest run is shortened */
        {"2001:db8:0:0:1:0:0:1", "2001:db8::1:0:0:1"},    /* the first of equal runs */
        {"1:2:3:4:5:6:7::", "1:2:3:4:5:6:7:0"},
        {"::2:3:4:5:6:7:8", "0:2:3:4:5:6:7:8"},
        {"::ffff:10.1.2.3", "10.1.2.3"},
        {"::FFFF:a01:203", "10.1.2.3"},
        {"0:0:0:0:0:ffff:10.1.2.3", "10.1.2.3"},
        {"0000:0000:0000:0000:0000:ffff:255.255.255.255", "255.255.255.255"}, /* the longest text */
        {"64:ff9b::192.0.2.33", "64:ff9b::c000:221"},
        {"ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff", "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        assert_string_equal(form(rows[i][0], 0), rows[i][1]);
}

static void check_no_address(void **unused)
{
    (void)unused;
    static const char *const texts[] = {
        "",
        "1",
        "1.2.3",
        "1.2.3.4.5",
        "1.2.3.256",
        "01.2.3.4",
        "1.2.3.4 ",
        " 1.2.3.4",
        "1.2.3.4/8",
        "1..3.4",
        "1.2.3.",
        "a.b.c.d",
        ":",
        ":::",
        "1:2",
        "::1::",
        "1::2::3",
        "12345::",
        "::g",
        "1:2:3:4:5:6:7:8:9",
        "1:2:3:4:5:6:7",
        ":1:2:3:4:5:6:7",
        "1:2:3:4:5:6:7:8:",
        "::1.2.3",
        "1.2.3.4::",
        "::1.2.3.4:1",
        "[::1]",
        "fe80::1%eth0",
        "1:2:3:4:5:6:7:1.2.3.4",
        "::1:2:3:4:5:6:7:8",
        "alice",
        "::ffff:10.1.2.300",
        "1.2.3.1000",
        "1.2.3.18446744073709551617",
        "1:2:3:4:5:6:7:8:1.2.3.4",
        "::1:2:3:4:5:6:1.2.3.4",
        "00000000:0000:0000:0000:0000:ffff:255.255.255.255",
    };
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        if (strcmp(form(texts[i], 0), "-") != 0)
            fail_msg("'%s' was read as %s", texts[i], form(texts[i], 0));
    }
}

static void check_networks(void **unused)
{
    (void)unused;
    assert_string_equal(form("10.1.2.3", 8), "10.0.0.0/8");
    assert_string_equal(form("10.1.2.255", 31), "10.1.2.254/31");
    assert_string_equal(form("10.1.2.255", 32), "10.1.2.255");
    assert_string_equal(form("2001:db8:1:2:3:4:5:6", 64), "2001:db8:1:2::/64");
    assert_string_equal(form("2001:db8:1:2:3:4:5:6", 47), "2001:db8::/47");
    assert_string_equal(form("ffff::", 1), "8000::/1");
    weir_address a;
    assert_true(weir_address_parse(&a, "10.0.0.1", 8));
    assert_false(weir_address_mask(&a, 32));
    assert_true(weir_address_mask(&a, 31));
    assert_false(weir_address_mask(&a, 31));
    assert_true(weir_address_mask(&a, 0));
    assert_true(weir_address_parse(&a, "::ffff:1.2.3.4", 14));
    assert_false(weir_address_mask(&a, 32)); /* nothing is left of the IPv6 address */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(check_canonical_forms),
        cmocka_unit_test(check_no_address),
        cmocka_unit_test(check_networks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
