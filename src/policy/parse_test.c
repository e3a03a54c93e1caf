/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* Tests the policy language: valid texts, their canonical form, and every error. */

#include "policy/scan.h"

#include <weir/weir_zone.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

/* A callback for which every name with a capital letter is a zone with the rules of UTC. */
static const weir_zone *any_zone(void *ctx, const char *name, size_t len)
{
    weir_zone *zone = ctx;
    if (name[0] < 'A' || name[0] > 'Z')
        return NULL;
    memcpy(zone->name, name, len);
    zone->name[len] = '\0';
    return zone;
}

static weir_status parse(weir_policy *ret, const char *text, weir_policy_error *e)
{
    static weir_zone zone;
    const weir_zones zones = {.find = any_zone, .ctx = &zone};
    return weir_policy_parse(ret, text, strlen(text), &zones, e);
}

static const struct {
    const char *text, *canonical;
} good[] = {
    {"gcra 100/s burst 20", "gcra 100/s burst 20"},
    {"gcra 1/s", "gcra 1/s burst 1"},
    {"sliding-log 5/m & block 10m", "sliding-log 5/m & block 10m"},
    {"block 60s&sliding-log 5/m", "sliding-log 5/m & block 1m"},
    {"gcra 1/s & block m & sliding-log 5/m", "gcra 1/s burst 1 & sliding-log 5/m & block 1m"},
    {"gcra 1/s & block 1m doubling 24h", "gcra 1/s burst 1 & block 1m doubling 1d"},
    {"gcra 1/s & block 1ns doubling 2ns", "gcra 1/s burst 1 & block 1ns doubling 2ns"},
    {"gcra 1/s & block 1152921504606846975ns", "gcra 1/s burst 1 & block 1152921504606846975ns"},
    {"  gcra\t100/1s  burst\n20 ", "gcra 100/s burst 20"},
    {"gcra\r1/s\r\n", "gcra 1/s burst 1"},
    {"gcra 007/0060s burst 0020", "gcra 7/m burst 20"},
    {"gcra 5/90s", "gcra 5/90s burst 1"},
    {"gcra 5/1h30m", "gcra 5/90m burst 1"},
    {"gcra 5/250ms", "gcra 5/250ms burst 1"},
    {"gcra 5/1w1d1h1m1s1ms1us1ns", "gcra 5/694861001001001ns burst 1"},
    {"gcra 5/7d", "gcra 5/w burst 1"},
    {"gcra 1/155382367ns", "gcra 1/155382367ns burst 1"},
    {"gcra 1099511627776/s", "gcra 1099511627776/s burst 1"},
    {"gcra 1/1152921504606846975ns", "gcra 1/1152921504606846975ns burst 1"},
    {"token-bucket 500 refill 100/s", "token-bucket 500 refill 100/s"},
    {"token-bucket 500 refill 5 every 1s", "token-bucket 500 refill 5 every 1s"},
    {"token-bucket 500 refill 5 every s", "token-bucket 500 refill 5 every 1s"},
    {"leaky-bucket 10/s capacity 20", "leaky-bucket 10/s capacity 20"},
    {"leaky-queue 10/s depth 0", "leaky-queue 10/s depth 0"},
    {"leaky-queue 10/s depth 2147483646", "leaky-queue 10/s depth 2147483646"},
    {"leaky-queue 10/s depth 20 nodelay 8", "leaky-queue 10/s depth 20 nodelay 8"},
    {"leaky-queue 10/s depth 20 nodelay 020&gcra 1/s",
     "leaky-queue 10/s depth 20 nodelay 20 & gcra 1/s burst 1"},
    {"leaky-queue 10/s depth 20 nodelay 0", "leaky-queue 10/s depth 20"},
    {"leaky-queue 10/s depth 1 nodelay 1", "leaky-queue 10/s depth 1 nodelay 1"},
    {"leaky-queue 10/s depth 0 nodelay 0", "leaky-queue 10/s depth 0"},
    {"leaky-queue 10/s depth 2147483646 nodelay 2147483646",
     "leaky-queue 10/s depth 2147483646 nodelay 2147483646"},
    {"fixed-window 5000/h", "fixed-window 5000/h"},
    {"fixed-window 5/day", "fixed-window 5/day"},
    {"fixed-window 5/day tz UTC", "fixed-window 5/day"},
    {"fixed-window 5/week tz Europe/Berlin", "fixed-window 5/week tz Europe/Berlin"},
    {"fixed-window 5/week tz AZ/az_09+-", "fixed-window 5/week tz AZ/az_09+-"},
    {"fixed-window 5/day tz Z", "fixed-window 5/day tz Z"},
    {"fixed-window 5/day tz UTX", "fixed-window 5/day tz UTX"},
    {"fixed-window 5/day tz UXC", "fixed-window 5/day tz UXC"},
    {"fixed-window 5/day tz XTC", "fixed-window 5/day tz XTC"},
    {"fixed-window 5/day tz UTC0", "fixed-window 5/day tz UTC0"},
    {"fixed-window 5/month count-denied tz Asia/Tokyo",
     "fixed-window 5/month tz Asia/Tokyo count-denied"},
    {"fixed-window 5/d count-denied from-first", "fixed-window 5/d from-first count-denied"},
    {"fixed-window 2147483647/1ns", "fixed-window 2147483647/ns"},
    {"sliding-log 100/m", "sliding-log 100/m"},
    {"sliding-log 100/m count-denied", "sliding-log 100/m count-denied"},
    {"sliding-counter 100/m strict", "sliding-counter 100/m"},
    {"sliding-counter 100/m relaxed", "sliding-counter 100/m relaxed"},
    {"sliding-slices 100/h slices 60", "sliding-slices 100/h slices 60"},
    {"sliding-slices 1/2ns slices 2", "sliding-slices 1/2ns slices 2"},
    {"sliding-slices 1/m slices 1", "sliding-slices 1/m slices 1"},
    {"concurrent 10 lease 60s", "concurrent 10 lease 1m"},
    {"concurrent 2147483647 lease ns", "concurrent 2147483647 lease 1ns"},
    {"gcra 1/s & concurrent 1 lease 90s&gcra 2/s burst 3",
     "gcra 1/s burst 1 & concurrent 1 lease 90s & gcra 2/s burst 3"},
    {"gcra 1/s&gcra 2/m & fixed-window 3/h",
     "gcra 1/s burst 1 & gcra 2/m burst 1 & fixed-window 3/h"},
};

static void check_valid(void **unused)
{
    (void)unused;
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
        weir_policy p;
        weir_policy_error e = {0};
        char printed[WEIR_POLICY_TEXT_MAX];
        const char *text = good[i].text;
        for (int round = 0; round < 2; round++) { /* parse(print(p)) == p */
            if (parse(&p, text, &e) != WEIR_OK)
                fail_msg("'%s': column %u: %s", text, e.column, e.text);
            size_t len = weir_policy_print(&p, printed, sizeof printed);
            assert_int_equal(len, strlen(printed));
            assert_string_equal(printed, good[i].canonical);
            text = printed;
        }
    }
}

#define UNITS "one of ns us ms s m h d w"
#define ALGORITHMS                                                                                 \
    "one of gcra token-bucket leaky-bucket leaky-queue fixed-window sliding-log "                  \
    "sliding-counter sliding-slices block concurrent"

static const struct {
    const char *text;
    weir_status status;
    unsigned column;
    const char *error;
} bad[] = {
    {"block 10m", WEIR_E_SYNTAX, 1,
     "found 'block', expected a limit beside it, as in sliding-log 5/m & block 10m"},
    {"gcra 1/s & block 1m & block 2m", WEIR_E_SYNTAX, 23,
     "found 'block', expected at most one block"},
    {"gcra 1/s & block", WEIR_E_SYNTAX, 17,
     "found the end, expected a period such as s, 90s or 1h30m"},
    {"gcra 1/s & block day", WEIR_E_SYNTAX, 18,
     "'day' is a calendar period, supported only by fixed-window, expected a length: d is 24 "
     "hours"},
    {"gcra 1/s & block 1m x", WEIR_E_SYNTAX, 21,
     "found 'x', expected doubling and a period, '&' or the end"},
    {"gcra 1/s & block 1m doubling=1d", WEIR_E_SYNTAX, 29,
     "found '=1d', expected a space: write doubling 1d"},
    {"gcra 1/s & block 1m doubling 1h x", WEIR_E_SYNTAX, 33, "found 'x', expected '&' or the end"},
    {"gcra 1/s & block 1m doubling 60s", WEIR_E_RANGE, 30,
     "found '60s', expected a period longer than the first block, as in block 1m doubling 1d"},
    {"gcra 1/s & Block 1m", WEIR_E_SYNTAX, 12, "found 'Block', expected block"},
    {"gcra 100/x", WEIR_E_SYNTAX, 10, "unknown unit 'x', expected " UNITS},
    {"gcra 100/5x", WEIR_E_SYNTAX, 11, "unknown unit 'x', expected " UNITS},
    {"fixed-window 1/x", WEIR_E_SYNTAX, 16,
     "unknown unit 'x', expected " UNITS " day week month year"},
    {"", WEIR_E_SYNTAX, 1, "found the end, expected " ALGORITHMS},
    {"   ", WEIR_E_SYNTAX, 4, "found the end, expected " ALGORITHMS},
    {"gcrx 1/s", WEIR_E_SYNTAX, 1, "found 'gcrx', expected " ALGORITHMS},
    {"gcra-x 1/s", WEIR_E_SYNTAX, 1, "found 'gcra-x', expected " ALGORITHMS},
    {"Gcra_x 1/s", WEIR_E_SYNTAX, 1, "found 'Gcra_x', expected " ALGORITHMS},
    {"Gcraa 1/s", WEIR_E_SYNTAX, 1, "found 'Gcraa', expected " ALGORITHMS},
    {"Gcraz 1/s", WEIR_E_SYNTAX, 1, "found 'Gcraz', expected " ALGORITHMS},
    {"GcraA 1/s", WEIR_E_SYNTAX, 1, "found 'GcraA', expected " ALGORITHMS},
    {"GcraZ 1/s", WEIR_E_SYNTAX, 1, "found 'GcraZ', expected " ALGORITHMS},
    {"gcra 5/secx", WEIR_E_SYNTAX, 8, "unknown unit 'secx', expected " UNITS},
    {"gcra 5/secsx", WEIR_E_SYNTAX, 8, "unknown unit 'secsx', expected " UNITS},
    {"gcra 5/abcdefghijklmnopqrstuvwxyzabcdef", WEIR_E_SYNTAX, 8,
     "unknown unit 'abcdefghijklmnopqrstuvwxyzabcdef', expected " UNITS},
    {"gcra 5/abcdefghijklmnopqrstuvwxyzabcdefg", WEIR_E_SYNTAX, 8,
     "unknown unit 'abcdefghijklmnopqrstuvwxyzabcdef', expected " UNITS},
    {"gcra .5/s", WEIR_E_SYNTAX, 6,
     "found '.5/s', expected a rate such as 100/s, from 1 to 1099511627776"},
    {"gcra 1./s", WEIR_E_SYNTAX, 7, "found './s', expected '/' and a period, as in 100/s"},
    {"gcra 1,x/s", WEIR_E_SYNTAX, 7, "found ',x/s', expected '/' and a period, as in 100/s"},
    {"gcra 10rps", WEIR_E_SYNTAX, 8, "found 'rps', expected '/' and a period, as in 100/s"},
    {"gcra 10x/s", WEIR_E_SYNTAX, 8, "found 'x/s', expected '/' and a period, as in 100/s"},
    {"gcra  ~{|}!\"#$%'()*+,-.0123456789:;<=>", WEIR_E_SYNTAX, 7,
     "found '~{|}!\"#$%'()*+,-.0123456789:;<=>', expected a rate such as 100/s, from 1 to "
     "1099511627776"},
    {"gcra ~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~\x7f~", WEIR_E_SYNTAX, 6,
     "found '~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~?...', expected a rate such as 100/s, from 1 to "
     "1099511627776"},
    {"token-bucket 5 refill 5/s5", WEIR_E_SYNTAX, 26,
     "found '5', expected a space, '&' or the end"},
    {"token-bucket 5 refill 5/x", WEIR_E_SYNTAX, 25, "unknown unit 'x', expected " UNITS},
    {"token-bucket 5 refill 5/s x", WEIR_E_SYNTAX, 27, "found 'x', expected '&' or the end"},
    {"token-bucket 5 refill 5 every 1s5", WEIR_E_SYNTAX, 34,
     "found the end, expected a unit: " UNITS},
    {"token-bucket 5 refill 5 every 1x", WEIR_E_SYNTAX, 32, "unknown unit 'x', expected " UNITS},
    {"token-bucket 5 refill 5 every 1s x", WEIR_E_SYNTAX, 34, "found 'x', expected '&' or the end"},
    {"leaky-bucket 5/s capacity 0", WEIR_E_RANGE, 27,
     "found '0', expected a capacity, from 1 to 2147483647"},
    {"leaky-bucket 5/s capacity 1 x", WEIR_E_SYNTAX, 29, "found 'x', expected '&' or the end"},
    {"leaky-bucket 1/3650d capacity 9", WEIR_E_RANGE, 31,
     "found '9', expected at most 3 at this rate (an empty bucket must refill within 36.5 years)"},
    {"leaky-queue 5/s depth 1 x", WEIR_E_SYNTAX, 25,
     "found 'x', expected nodelay and a number, '&' or the end"},
    {"leaky-queue 5/s depth 5 nodelay", WEIR_E_SYNTAX, 32,
     "found the end, expected a number of undelayed requests, from 0 to 5"},
    {"leaky-queue 5/s depth 5 nodelay 6", WEIR_E_RANGE, 33,
     "found '6', expected a number of undelayed requests, from 0 to 5"},
    {"leaky-queue 5/s depth 0 nodelay 1", WEIR_E_RANGE, 33,
     "found '1', expected a number of undelayed requests, from 0 to 0"},
    {"leaky-queue 5/s depth 5 nodelay 5 x", WEIR_E_SYNTAX, 35,
     "found 'x', expected '&' or the end"},
    {"leaky-queue 5/s nodelay 5 depth 5", WEIR_E_SYNTAX, 17,
     "found 'nodelay', expected depth and a number, as in depth 20"},
    {"leaky-queue 1/3650d depth 9 nodelay 1", WEIR_E_RANGE, 27,
     "found '9', expected at most 2 at this rate (an empty bucket must refill within 36.5 years)"},
    {"leaky-bucket 5/s capacity 5 nodelay 1", WEIR_E_SYNTAX, 29,
     "found 'nodelay', expected '&' or the end"},
    {"sliding-log 5/m x", WEIR_E_SYNTAX, 17, "found 'x', expected count-denied, '&' or the end"},
    {"sliding-log 5/m count-denied x", WEIR_E_SYNTAX, 30, "found 'x', expected '&' or the end"},
    {"sliding-counter 5/m x", WEIR_E_SYNTAX, 21,
     "found 'x', expected strict or relaxed, '&' or the end"},
    {"sliding-counter 5/m strict x", WEIR_E_SYNTAX, 28, "found 'x', expected '&' or the end"},
    {"sliding-slices 5/m slices 6 x", WEIR_E_SYNTAX, 29, "found 'x', expected '&' or the end"},
    {"sliding-slices 5/m slices 0", WEIR_E_RANGE, 27,
     "found '0', expected a number of slices, from 1 to 65536"},
    {"concurrent", WEIR_E_SYNTAX, 11, "found the end, expected a limit, from 1 to 2147483647"},
    {"concurrent 0 lease 1s", WEIR_E_RANGE, 12,
     "found '0', expected a limit, from 1 to 2147483647"},
    {"concurrent 2147483648 lease 1s", WEIR_E_RANGE, 12,
     "found '2147483648', expected a limit, from 1 to 2147483647"},
    {"concurrent 10/s", WEIR_E_SYNTAX, 14, "found '/s', expected a space, '&' or the end"},
    {"concurrent 10", WEIR_E_SYNTAX, 14,
     "found the end, expected lease and a period, as in lease 30s"},
    {"concurrent 10 30s", WEIR_E_SYNTAX, 15,
     "found '30s', expected lease and a period, as in lease 30s"},
    {"concurrent 10 lease", WEIR_E_SYNTAX, 20,
     "found the end, expected a period such as s, 90s or 1h30m"},
    {"concurrent 10 lease=30s", WEIR_E_SYNTAX, 20,
     "found '=30s', expected a space: write lease 30s"},
    {"concurrent 10 lease 0s", WEIR_E_RANGE, 21, "found '0s', expected a period of at least 1ns"},
    {"concurrent 10 lease 1day", WEIR_E_SYNTAX, 22,
     "'day' is a calendar period and takes no number, expected a length: d is 24 hours"},
    {"concurrent 10 lease 30s x", WEIR_E_SYNTAX, 25, "found 'x', expected '&' or the end"},
    {"concurrent 1 lease 1s & gcra 1/s & concurrent 2 lease 2s", WEIR_E_SYNTAX, 36,
     "found 'concurrent', expected at most one concurrent layer"},
    {"fixed-window 5/h from-first from-first", WEIR_E_SYNTAX, 29,
     "found 'from-first', expected from-first or count-denied, each once, '&' or the end"},
    {"fixed-window 5/h count-denied count-denied", WEIR_E_SYNTAX, 31,
     "found 'count-denied', expected from-first or count-denied, each once, '&' or the end"},
    {"gcra", WEIR_E_SYNTAX, 5,
     "found the end, expected a rate such as 100/s, from 1 to 1099511627776"},
    {"gcra 0/s", WEIR_E_RANGE, 6,
     "found '0/s', expected 1 or more; to deny keys always, put them on the policy's list 'deny'"},
    {"fixed-window 00/d", WEIR_E_RANGE, 14,
     "found '00/d', expected a limit such as 100/m, from 1 to 2147483647"},
    {"unlimited", WEIR_E_SYNTAX, 1,
     "found 'unlimited', expected an algorithm; to exempt keys from the limit, put them on the "
     "policy's list 'allow'"},
    {"gcra 1/s & OFF", WEIR_E_SYNTAX, 12,
     "found 'OFF', expected an algorithm; to exempt keys from the limit, put them on the policy's "
     "list 'allow'"},
    {"deny", WEIR_E_SYNTAX, 1,
     "found 'deny', expected an algorithm; to deny keys always, put them on the policy's list "
     "'deny'"},
    {"offline", WEIR_E_SYNTAX, 1,
     "found 'offline', expected one of gcra token-bucket leaky-bucket leaky-queue fixed-window "
     "sliding-log sliding-counter sliding-slices block concurrent"},
    {"gcra -1/s", WEIR_E_SYNTAX, 6,
     "found '-1/s', expected a rate such as 100/s, from 1 to 1099511627776"},
    {"gcra 1099511627777/s", WEIR_E_RANGE, 6,
     "found '1099511627777/s', expected a rate such as 100/s, from 1 to 1099511627776"},
    {"gcra 99999999999999999999999999/s", WEIR_E_RANGE, 6,
     "found '99999999999999999999999999/s', expected a rate such as 100/s, from 1 to "
     "1099511627776"},
    {"gcra 5", WEIR_E_SYNTAX, 7, "found the end, expected '/' and a period, as in 100/s"},
    {"gcra 5 /s", WEIR_E_SYNTAX, 7, "found a space, expected '/' and a period, as in 100/s"},
    {"gcra 5/", WEIR_E_SYNTAX, 8, "found the end, expected a period such as s, 90s or 1h30m"},
    {"gcra 5/5", WEIR_E_SYNTAX, 9, "found the end, expected a unit: " UNITS},
    {"gcra 5/0s", WEIR_E_RANGE, 8, "found '0s', expected a period of at least 1ns"},
    {"gcra 5/1152921504606846976ns", WEIR_E_RANGE, 8,
     "found '1152921504606846976ns', expected a period of at most 1152921504606846975ns (36.5 "
     "years)"},
    {"gcra 5/9999999999999999999ns", WEIR_E_RANGE, 8,
     "found '9999999999999999999ns', expected a period of at most 1152921504606846975ns (36.5 "
     "years)"},
    {"gcra 5/1w1152921504606846975ns", WEIR_E_RANGE, 8,
     "found '1w1152921504606846975ns', expected a period of at most 1152921504606846975ns (36.5 "
     "years)"},
    {"gcra 5/1h1h", WEIR_E_SYNTAX, 11,
     "found 'h', expected units from the largest to the smallest, as in 1h30m"},
    {"gcra 5/s5", WEIR_E_SYNTAX, 9, "found '5', expected a space, '&' or the end"},
    {"gcra 5/day", WEIR_E_SYNTAX, 8,
     "'day' is a calendar period, supported only by fixed-window, expected a length: d is 24 "
     "hours"},
    {"sliding-log 5/month", WEIR_E_SYNTAX, 15,
     "'month' is a calendar period, supported only by fixed-window, expected a length such as 30d"},
    {"token-bucket 5 refill 5 every5s", WEIR_E_SYNTAX, 30,
     "found '5s', expected a space, '&' or the end"},
    {"token-bucket 5 refill5/s", WEIR_E_SYNTAX, 22,
     "found '5/s', expected a space, '&' or the end"},
    {"leaky-bucket 0/s capacity 5", WEIR_E_RANGE, 14,
     "found '0/s', expected 1 or more; to deny keys always, put them on the policy's list 'deny'"},
    {"leaky-queue 0/s depth 5", WEIR_E_RANGE, 13,
     "found '0/s', expected 1 or more; to deny keys always, put them on the policy's list 'deny'"},
    {"gcra 0/s burst 5", WEIR_E_RANGE, 6,
     "found '0/s', expected 1 or more; to deny keys always, put them on the policy's list 'deny'"},
    {"gcra x burst 5", WEIR_E_SYNTAX, 6,
     "found 'x', expected a rate such as 100/s, from 1 to 1099511627776"},
    {"leaky-bucket x capacity 5", WEIR_E_SYNTAX, 14,
     "found 'x', expected a rate such as 100/s, from 1 to 1099511627776"},
    {"leaky-queue x depth 5", WEIR_E_SYNTAX, 13,
     "found 'x', expected a rate such as 100/s, from 1 to 1099511627776"},
    {"fixed-window 0/m count-denied", WEIR_E_RANGE, 14,
     "found '0/m', expected 1 or more; to deny keys always, put them on the policy's list 'deny'"},
    {"sliding-log 0/m count-denied", WEIR_E_RANGE, 13,
     "found '0/m', expected 1 or more; to deny keys always, put them on the policy's list 'deny'"},
    {"token-bucket 0 refill 5/s", WEIR_E_RANGE, 14,
     "found '0', expected a capacity in tokens, from 1 to 2147483647"},
    {"token-bucket 5 refill 0/s", WEIR_E_RANGE, 23,
     "found '0/s', expected 1 or more; to deny keys always, put them on the policy's list 'deny'"},
    {"sliding-counter 5/month", WEIR_E_SYNTAX, 19,
     "'month' is a calendar period, supported only by fixed-window, expected a length such as 30d"},
    {"sliding-counter 0/m relaxed", WEIR_E_RANGE, 17,
     "found '0/m', expected 1 or more; to deny keys always, put them on the policy's list 'deny'"},
    {"sliding-slices 0/m slices 6", WEIR_E_RANGE, 16,
     "found '0/m', expected 1 or more; to deny keys always, put them on the policy's list 'deny'"},
    {"fixed-window 5/2day", WEIR_E_SYNTAX, 17,
     "'day' is a calendar period and takes no number, expected a length: d is 24 hours"},
    {"gcra 5/s burst", WEIR_E_SYNTAX, 15, "found the end, expected a burst, from 1 to 2147483647"},
    {"gcra 5/s burst 0", WEIR_E_RANGE, 16, "found '0', expected a burst, from 1 to 2147483647"},
    {"gcra 5/s burst 2147483648", WEIR_E_RANGE, 16,
     "found '2147483648', expected a burst, from 1 to 2147483647"},
    {"gcra 5/s bust 3", WEIR_E_SYNTAX, 10,
     "found 'bust', expected burst and a number, '&' or the end"},
    {"gcra 5/s burst 3 burst 3", WEIR_E_SYNTAX, 18, "found 'burst', expected '&' or the end"},
    {"gcra 1/3650d burst 2147483647", WEIR_E_RANGE, 20,
     "found '2147483647', expected at most 3 at this rate (an empty bucket must refill within 36.5 "
     "years)"},
    {"leaky-queue 1/3650d depth 9", WEIR_E_RANGE, 27,
     "found '9', expected at most 2 at this rate (an empty bucket must refill within 36.5 years)"},
    {"token-bucket 9 refill 1 every 3650d", WEIR_E_RANGE, 14,
     "found '9', expected at most 3 at this rate (an empty bucket must refill within 36.5 years)"},
    {"token-bucket 5", WEIR_E_SYNTAX, 15,
     "found the end, expected refill and a rate, as in refill 100/s or refill 5 every 1s"},
    {"token-bucket 5 refill 5", WEIR_E_SYNTAX, 24,
     "found the end, expected '/' and a period, or 'every' and a period"},
    {"leaky-bucket 5/s", WEIR_E_SYNTAX, 17,
     "found the end, expected capacity and a number, as in capacity 20"},
    {"leaky-queue 5/s depth -1", WEIR_E_SYNTAX, 23,
     "found '-1', expected a depth, from 0 to 2147483646"},
    {"fixed-window 2147483648/s", WEIR_E_RANGE, 14,
     "found '2147483648/s', expected a limit such as 100/m, from 1 to 2147483647"},
    {"fixed-window 5/h tz UTC", WEIR_E_SYNTAX, 18,
     "found 'tz', expected day, week, month or year before tz, as in 100/day"},
    {"fixed-window 5/day from-first", WEIR_E_SYNTAX, 20,
     "found 'from-first', expected a length such as 24h with from-first"},
    {"fixed-window 5/day tz", WEIR_E_ZONE, 22,
     "found the end, expected the name of a time zone, as in tz Europe/Berlin"},
    {"fixed-window 5/day tz nowhere", WEIR_E_ZONE, 23,
     "found 'nowhere', expected the name of a time zone, as in tz Europe/Berlin"},
    {"fixed-window 5/day tz ../X", WEIR_E_ZONE, 23,
     "found '../X', expected the name of a time zone, as in tz Europe/Berlin"},
    {"fixed-window 5/day tz UTC tz UTC", WEIR_E_SYNTAX, 27,
     "found 'tz', expected from START, tz ZONE or count-denied, each once, '&' or the end"},
    {"sliding-counter 5/m relaxed strict", WEIR_E_SYNTAX, 29,
     "found 'strict', expected '&' or the end"},
    {"sliding-slices 5/3ns slices 4", WEIR_E_RANGE, 29,
     "found '4', expected a number of slices, from 1 to 3"},
    {"sliding-slices 5/h slices 65537", WEIR_E_RANGE, 27,
     "found '65537', expected a number of slices, from 1 to 65536"},
    {"gcra 1/s &", WEIR_E_SYNTAX, 11, "found the end, expected " ALGORITHMS},
    {"& gcra 1/s", WEIR_E_SYNTAX, 1, "found '&', expected " ALGORITHMS},
    {"  & gcra 1/s", WEIR_E_SYNTAX, 3, "found '&', expected " ALGORITHMS},
    {"gcra 1/s burst 3\x01", WEIR_E_SYNTAX, 17, "found '?', expected a space, '&' or the end"},
    {"gcra 1/s&gcra 1/s&gcra 1/s&gcra 1/s&gcra 1/s&gcra 1/s&gcra 1/s&gcra 1/s&gcra 1/s",
     WEIR_E_SYNTAX, 72, "found '&gcra', expected at most 8 layers"},
};

/* Common mistakes: the error suggests what to write instead. */
static const struct {
    const char *text;
    unsigned column;
    const char *error;
} habits[] = {
    {"gcra 0.5/s", 6, "found '0.5/s', expected a whole number: write 1/2s"},
    {"gcra 2.5/sec", 6, "found '2.5/sec', expected a whole number: write 5/2s"},
    {"gcra 0.5/10s burst 3", 6, "found '0.5/10s', expected a whole number: write 1/20s"},
    {"gcra 3.0/m", 6, "found '3.0/m', expected a whole number: write 3/m"},
    {"gcra 0.000001/s", 6, "found '0.000001/s', expected a whole number: write 1/1000000s"},
    {"gcra 0.0000001/s", 6, "found '0.0000001/s', expected a whole number"},
    {"gcra 1000000000.5/999999999s", 6,
     "found '1000000000.5/999999999s', expected a whole number: write 666666667/666666666s"},
    {"gcra 1000000001.5/s", 6, "found '1000000001.5/s', expected a whole number"},
    {"gcra 99999999999999999999.5/s", 6,
     "found '99999999999999999999.5/s', expected a whole number"},
    {"gcra 0.5/99999999999999999999s", 6,
     "found '0.5/99999999999999999999s', expected a whole number"},
    {"gcra 0.0/s", 6, "found '0.0/s', expected a whole number"},
    {"gcra 1.5", 6, "found '1.5', expected a whole number"},
    {"fixed-window 0.5/day", 14, "found '0.5/day', expected a whole number: write 1/2d"},
    {"token-bucket 5 refill 0.1/s", 23, "found '0.1/s', expected a whole number: write 1/10s"},
    {"gcra 0.5/", 6, "found '0.5/', expected a whole number"},
    {"gcra 0.5/sx", 6, "found '0.5/sx', expected a whole number"},
    {"gcra 0.5/0s", 6, "found '0.5/0s', expected a whole number"},
    {"gcra 0.5/1000000000s", 6,
     "found '0.5/1000000000s', expected a whole number: write 1/2000000000s"},
    {"gcra 0.5/1000000001s", 6, "found '0.5/1000000001s', expected a whole number"},
    {"gcra 10000000000.5/s", 6, "found '10000000000.5/s', expected a whole number"},
    {"gcra 5/sec", 8, "unknown unit 'sec', expected s"},
    {"gcra 5/10seconds", 10, "unknown unit 'seconds', expected s"},
    {"gcra 5/hour", 8, "unknown unit 'hour', expected h"},
    {"sliding-log 5/minutes", 15, "unknown unit 'minutes', expected m"},
    {"gcra 5/days", 8, "unknown unit 'days', expected d"},
    {"GCRA 1/s", 1, "found 'GCRA', expected gcra"},
    {"Token_Bucket 5 refill 1/s", 1, "found 'Token_Bucket', expected token-bucket"},
    {"tokenbucket 5 refill 1/s", 1, "found 'tokenbucket', expected token-bucket"},
    {"fixed window 5/m", 1, "found 'fixed window', expected fixed-window"},
    {"gcra 1/s & sliding window log 5/m", 12, "found 'sliding window log', expected sliding-log"},
    {"sliding-window 5/m", 1,
     "found 'sliding-window', expected sliding-log (exact), sliding-counter (16 bytes a key) or "
     "sliding-slices (a count for each part of the window)"},
    {"Concurrency 5", 1, "found 'Concurrency', expected concurrent"},
    {"in flight 5", 1, "found 'in flight', expected concurrent"},
    {"CONCURRENT 5", 1, "found 'CONCURRENT', expected concurrent"},
    {"leaky 5/m", 1,
     "found 'leaky', expected leaky-bucket (denies) or leaky-queue (requests wait)"},
    {"5/s", 1, "found '5/s', expected an algorithm before the rate, as in gcra 5/s"},
    {"10r/s", 1, "found '10r/s', expected an algorithm before the rate, as in gcra 10/s"},
    {"10 per minute", 1, "found '10', expected an algorithm before the rate, as in gcra 10/s"},
    {"09/s", 1, "found '09/s', expected an algorithm before the rate, as in gcra 09/s"},
    {"9/s&gcra 1/s", 1, "found '9/s', expected an algorithm before the rate, as in gcra 9/s"},
    {"9/s~", 1, "found '9/s~', expected an algorithm before the rate, as in gcra 9/s~"},
    {"gcra 1/s & 5/s burst 3", 12,
     "found '5/s', expected an algorithm before the rate, as in gcra 5/s"},
    {"12345678901234567/s x", 1,
     "found '12345678901234567/s', expected an algorithm before the rate, as in gcra "
     "12345678901234567/s"},
    {"1234567890123456789/s", 1,
     "found '1234567890123456789/s', expected an algorithm before the rate, as in gcra "
     "1234567890123456789/"},
    {"gcra 10r/s", 8, "found 'r/s', expected '/' and a period, as in 100/s: write 10/s"},
    {"gcra 10r/5s", 8, "found 'r/5s', expected '/' and a period, as in 100/s: write 10/5s"},
    {"gcra 0000000000000000010r/s", 25,
     "found 'r/s', expected '/' and a period, as in 100/s: write 0000000000000000010/s"},
    {"gcra 1/s & gcra 10r/s", 19,
     "found 'r/s', expected '/' and a period, as in 100/s: write 10/s"},
    {"gcra 1,000/s", 7, "found ',000/s', expected digits only, as in 1000/s"},
    {"gcra 1_000/s", 7, "found '_000/s', expected digits only, as in 1000/s"},
    {"gcra 10/s burst=20", 16, "found '=20', expected a space: write burst 20"},
    {"gcra 10/s burst=20 & gcra 1/s", 16, "found '=20', expected a space: write burst 20"},
    {"gcra 10/s burst=20&gcra 1/s", 16, "found '=20', expected a space: write burst 20"},
    {"gcra 10/s burst=~~~~~~~~~~~~~~~~~~~~~~~~~", 16,
     "found '=~~~~~~~~~~~~~~~~~~~~~~~~~', expected a space: write burst ~~~~~~~~~~~~~~~~~~~~~~~~"},
    {"leaky-queue 5/s depth 5 nodelay=1", 32, "found '=1', expected a space: write nodelay 1"},
    {"leaky-bucket 10/s capacity=20", 27, "found '=20', expected a space: write capacity 20"},
    {"fixed-window 100/day tz=UTC", 24, "found '=UTC', expected a space: write tz UTC"},
    {"fixed-window 100/month from=17", 28, "found '=17', expected a space: write from 17"},
    {"token-bucket 5 refill=1/s", 22, "found '=1/s', expected a space: write refill 1/s"},
    {"token-bucket 5 refill 1 every=1s", 30, "found '=1s', expected a space: write every 1s"},
    {"gcra 1/s && gcra 5/m", 11, "found '&', expected one '&' between two layers"},
    {"token-bucket 10/s burst 5", 16,
     "found '/s', expected a capacity and a refill: write token-bucket 5 refill 10/s"},
    {"token-bucket 10/s  burst   5", 16,
     "found '/s', expected a capacity and a refill: write token-bucket 5 refill 10/s"},
    {"token-bucket 10/abcdefghijklmnopqrstuvwxyz", 16,
     "found '/abcdefghijklmnopqrstuvwxyz', expected a capacity and a refill: write token-bucket 10 "
     "refill 10/abcdefghijklmnopqrstu"},
    {"token-bucket 10/s", 16,
     "found '/s', expected a capacity and a refill: write token-bucket 10 refill 10/s"},
};

static void check_suggestions(void **unused)
{
    (void)unused;
    for (size_t i = 0; i < sizeof habits / sizeof habits[0]; i++) {
        weir_policy p;
        weir_policy_error e = {0};
        weir_status st = parse(&p, habits[i].text, &e);
        if (st != WEIR_E_SYNTAX || e.column != habits[i].column ||
            strcmp(e.text, habits[i].error) != 0)
            fail_msg("'%s': status %d, column %u: %s", habits[i].text, st, e.column, e.text);
    }
}

/* Each unit has other spellings, and each spelling a plural. The error suggests the unit. */
static void check_spellings_of_units(void **unused)
{
    (void)unused;
    static const struct {
        const char *from, *to;
    } units[] = {
        {"nsec", "ns"}, {"nanosecond", "ns"},  {"usec", "us"}, {"microsecond", "us"},
        {"msec", "ms"}, {"millisecond", "ms"}, {"sec", "s"},   {"second", "s"},
        {"min", "m"},   {"minute", "m"},       {"hr", "h"},    {"hour", "h"},
    };
    for (size_t i = 0; i < 2 * (sizeof units / sizeof units[0]); i++) {
        weir_policy p;
        weir_policy_error e = {0};
        char text[64], expected[96];
        const char *from = units[i / 2].from, *plural = i % 2 ? "s" : "", *to = units[i / 2].to;
        snprintf(text, sizeof text, "gcra 5/7%s%s", from, plural);
        snprintf(expected, sizeof expected, "unknown unit '%s%s', expected %s", from, plural, to);
        assert_int_equal(parse(&p, text, &e), WEIR_E_SYNTAX);
        assert_int_equal(e.column, 9);
        assert_string_equal(e.text, expected);
        snprintf(text, sizeof text, "gcra 0.5/7%s%s", from, plural);
        snprintf(expected, sizeof expected,
                 "found '0.5/7%s%s', expected a whole number: write 1/14%s", from, plural, to);
        assert_int_equal(parse(&p, text, &e), WEIR_E_SYNTAX);
        assert_string_equal(e.text, expected);
    }
}

static void check_invalid(void **unused)
{
    (void)unused;
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        weir_policy p = {.layers = 77};
        weir_policy_error e = {0};
        weir_status st = parse(&p, bad[i].text, &e);
        if (st != bad[i].status || e.column != bad[i].column || strcmp(e.text, bad[i].error) != 0)
            fail_msg("'%s': status %d, column %u: %s", bad[i].text, st, e.column, e.text);
        assert_int_equal(p.layers, 77); /* nothing is written on failure */
        assert_int_equal(parse(&p, bad[i].text, NULL), st);
    }
}

static void check_lengths(void **unused)
{
    (void)unused;
    char text[WEIR_POLICY_TEXT_MAX + 1];
    memset(text, ' ', sizeof text);
    memcpy(text, "gcra 1/s", 8);
    weir_policy p;
    weir_policy_error e;
    assert_int_equal(weir_policy_parse(&p, text, WEIR_POLICY_TEXT_MAX - 1, NULL, &e), WEIR_OK);
    assert_int_equal(weir_policy_parse(&p, text, WEIR_POLICY_TEXT_MAX, NULL, &e), WEIR_E_SYNTAX);
    assert_string_equal(e.text, "the policy text is too long, expected at most 1023 bytes");
    /* A text may contain any bytes and need not be terminated. */
    assert_int_equal(weir_policy_parse(&p, "gcra 1/s\0", 9, NULL, &e), WEIR_E_SYNTAX);
    assert_int_equal(weir_policy_parse(&p, "gcra 1/sX", 8, NULL, &e), WEIR_OK);
    assert_int_equal(weir_policy_parse(&p, "gcra 1/s&", 8, NULL, &e), WEIR_OK);
    /* Without zones, UTC is the only one. */
    assert_int_equal(weir_policy_parse(&p, "fixed-window 5/day tz UTC", 25, NULL, &e), WEIR_OK);
    assert_int_equal(weir_policy_parse(&p, "fixed-window 5/day tz GMT", 25, NULL, &e), WEIR_E_ZONE);
}

/* A duration has at most 64 bytes, is not empty, and has nothing before or after it. */
static void check_durations(void **unused)
{
    (void)unused;
    char text[65];
    memset(text, '0', sizeof text);
    memcpy(text + 62, "7s", 2);
    int64_t ns = 1;
    assert_true(weir_duration_read("5s", 2, &ns));
    assert_int_equal(ns, 5000000000);
    assert_true(weir_duration_read(text, 64, &ns));
    assert_int_equal(ns, 7000000000);
    memcpy(text + 62, "05s", 3);
    assert_false(weir_duration_read(text, 65, &ns));
    static const char *const refused[] = {"", "s", " 5s", "5s ", "5", "5day"};
    for (size_t i = 0; i < sizeof refused / sizeof refused[0]; i++)
        assert_false(weir_duration_read(refused[i], strlen(refused[i]), &ns));
    assert_int_equal(ns, 7000000000); /* unchanged */
}

/* The longest canonical text fits in WEIR_POLICY_TEXT_MAX, and a short buffer does not overflow. */
static void check_print_sizes(void **unused)
{
    (void)unused;
    static const char longest[] = "fixed-window 2147483647/week from wednesday count-denied tz "
                                  "Aaaaaaaaaaaaaaaaaaaa/aaaaaaaaaaaaaaaaaaaaaaa/aaaaaaaaaaaaaaaaaa";
    char text[WEIR_POLICY_TEXT_MAX] = "", printed[WEIR_POLICY_TEXT_MAX];
    for (int i = 0; i < WEIR_LAYERS_MAX; i++) {
        strcat(text, i ? "&" : "");
        strcat(text, longest);
    }
    weir_policy p;
    assert_int_equal(parse(&p, text, NULL), WEIR_OK);
    size_t len = weir_policy_print(&p, printed, sizeof printed);
    assert_true(len < sizeof printed - 1);
    for (size_t size = 0; size <= len + 1; size++) {
        char small[WEIR_POLICY_TEXT_MAX];
        memset(small, '~', sizeof small);
        size_t got = weir_policy_print(&p, small, size);
        assert_int_equal(got, size == 0 ? 0 : size - 1 < len ? size - 1 : len);
        assert_memory_equal(small, printed, got);
        if (size > 0)
            assert_int_equal(small[got], '\0');
        assert_int_equal(small[size], '~');
    }
}

/* Reports of each kind of layer. The worst case is that of docs/algorithms.md. */
static const struct {
    const char *text, *report;
} reports[] = {
    {"block 1m doubling 1d & gcra 1/s",
     "gcra 1/s burst 1\n"
     "  sustained   1 every 1s, one every 1s: exactly 86400 a day\n"
     "  at once     1\n"
     "  worst case  1 within 1s: a full burst and the refill\n"
     "block 1m doubling 1d\n"
     "  a denial    blocks the key: every request is denied for 1m\n"
     "  meanwhile   requests do not count, and do not make the block longer\n"
     "  again       a block that begins sooner after the last one than that one was long\n"
     "              is twice as long, up to 1d\n"
     "state         24 bytes a key\n"},
    {"token-bucket 100 refill 10/s",
     "token-bucket 100 refill 10/s\n"
     "  sustained   10 every 1s, one every 100ms: exactly 864000 a day\n"
     "  at once     100\n"
     "  worst case  109 within 1s: a full burst and the refill\n"
     "state         8 bytes a key\n"},
    {"token-bucket 10 refill 3 every 7s",
     "token-bucket 10 refill 3 every 7s\n"
     "  sustained   3 every 7s, in one step at each multiple of the period since "
     "1970: 37028+ a day\n"
     "  at once     10\n"
     "  worst case  13 within 7s: a full burst and the refill\n"
     "state         16 bytes a key\n"},
    {"gcra 7/3s", "gcra 7/3s burst 1\n"
                  "  sustained   7 every 3s, one every 3s/7: exactly 201600 a day\n"
                  "  at once     1: a second request right after the first is denied; to allow 7 "
                  "at once, write burst 7\n"
                  "  worst case  7 within 3s: a full burst and the refill\n"
                  "state         16 bytes a key\n"},
    {"gcra 2000000000/s burst 5",
     "gcra 2000000000/s burst 5\n"
     "  sustained   2000000000 every 1s: exactly 172800000000000 a day\n"
     "  at once     5\n"
     "  worst case  2000000004 within 1s: a full burst and the refill\n"
     "state         16 bytes a key\n"},
    {"gcra 1000000000/s burst 2",
     "gcra 1000000000/s burst 2\n"
     "  sustained   1000000000 every 1s, one every 1ns: exactly 86400000000000 a day\n"
     "  at once     2\n"
     "  worst case  1000000001 within 1s: a full burst and the refill\n"
     "state         8 bytes a key\n"},
    {"leaky-queue 10/s depth 20",
     "leaky-queue 10/s depth 20\n"
     "  sustained   10 every 1s, one every 100ms: exactly 864000 a day\n"
     "  at once     21: 1 is served, and up to 20 wait\n"
     "  worst case  30 within 1s: a full burst and the refill\n"
     "state         8 bytes a key\n"},
    {"leaky-queue 10/s depth 20 nodelay 8",
     "leaky-queue 10/s depth 20 nodelay 8\n"
     "  sustained   10 every 1s, one every 100ms: exactly 864000 a day\n"
     "  at once     21: 9 are served, and up to 12 wait\n"
     "  worst case  30 within 1s: a full burst and the refill\n"
     "state         8 bytes a key\n"},
    {"leaky-queue 10/s depth 8 nodelay 8",
     "leaky-queue 10/s depth 8 nodelay 8\n"
     "  sustained   10 every 1s, one every 100ms: exactly 864000 a day\n"
     "  at once     9: 9 are served, and none waits\n"
     "  worst case  18 within 1s: a full burst and the refill\n"
     "state         8 bytes a key\n"},
    {"leaky-bucket 10/s capacity 20",
     "leaky-bucket 10/s capacity 20\n"
     "  sustained   10 every 1s, one every 100ms: exactly 864000 a day\n"
     "  at once     20\n"
     "  worst case  29 within 1s: a full burst and the refill\n"
     "state         8 bytes a key\n"},
    {"fixed-window 10/h",
     "fixed-window 10/h\n"
     "  sustained   10 every 1h: exactly 240 a day\n"
     "  at once     10\n"
     "  one window  10 at most\n"
     "  worst case  20 within the window's length: around the boundary of two windows\n"
     "state         8 bytes a key\n"},
    {"fixed-window 7/24h from-first",
     "fixed-window 7/d from-first\n"
     "  sustained   7 every 1d, from the key's first request: exactly 7 a day\n"
     "  at once     7\n"
     "  one window  7 at most\n"
     "  worst case  13 within the window's length: around the boundary of two windows\n"
     "state         16 bytes a key\n"},
    {"fixed-window 7/day",
     "fixed-window 7/day\n"
     "  sustained   7 every calendar day of UTC\n"
     "  at once     7\n"
     "  one window  7 at most\n"
     "  worst case  14 within the window's length: around the boundary of two windows\n"
     "state         8 bytes a key\n"},
    {"fixed-window 7/week",
     "fixed-window 7/week\n"
     "  sustained   7 every calendar week of UTC\n"
     "  at once     7\n"
     "  one window  7 at most\n"
     "  worst case  14 within the window's length: around the boundary of two windows\n"
     "state         8 bytes a key\n"},
    {"fixed-window 7/day tz Europe/Berlin",
     "fixed-window 7/day tz Europe/Berlin\n"
     "  sustained   7 every calendar day of Europe/Berlin\n"
     "  at once     7\n"
     "  one window  7 at most\n"
     "  worst case  21 within the longest window's length: before, in and after a short window\n"
     "state         8 bytes a key\n"},
    {"fixed-window 7/month",
     "fixed-window 7/month\n"
     "  sustained   7 every calendar month of UTC\n"
     "  at once     7\n"
     "  one window  7 at most\n"
     "  worst case  21 within the longest window's length: before, in and after a short window\n"
     "state         8 bytes a key\n"},
    {"fixed-window 7/year count-denied",
     "fixed-window 7/year count-denied\n"
     "  sustained   7 every calendar year of UTC\n"
     "  at once     7\n"
     "  one window  7 at most\n"
     "  worst case  21 within the longest window's length: before, in and after a short window\n"
     "  denials     count: a client that keeps retrying stays denied\n"
     "state         8 bytes a key\n"},
    {"sliding-counter 11/13m",
     "sliding-counter 11/13m\n"
     "  sustained   11 every 13m: 1218+ a day\n"
     "  at once     11\n"
     "  worst case  21 within the window's length, if the previous limit was used up "
     "at the end of its window\n"
     "state         16 bytes a key\n"},
    {"sliding-counter 10/m relaxed",
     "sliding-counter 10/m relaxed\n"
     "  sustained   10 every 1m: exactly 14400 a day\n"
     "  at once     10\n"
     "  worst case  20 within the window's length, if the previous limit was used up "
     "at the end of its window\n"
     "state         16 bytes a key\n"},
    {"sliding-slices 10/m slices 6",
     "sliding-slices 10/m slices 6\n"
     "  sustained   10 every 1m: exactly 14400 a day\n"
     "  at once     10\n"
     "  worst case  20 within the window's length; at most 10 within a span that is "
     "one slice shorter\n"
     "state         40 bytes a key\n"},
    {"concurrent 10 lease 90s",
     "concurrent 10 lease 90s\n"
     "  in flight   10 at most\n"
     "  lease       90s: what is not given back or renewed by then is free again\n"
     "state         64 to 136 bytes a key\n"},
    {"gcra 5/s & sliding-log 1/h",
     "gcra 5/s burst 1\n"
     "  sustained   5 every 1s, one every 200ms: exactly 432000 a day\n"
     "  at once     1: a second request right after the first is denied; to allow 5 at once, write "
     "burst 5\n"
     "  worst case  5 within 1s: a full burst and the refill\n"
     "sliding-log 1/h\n"
     "  sustained   1 every 1h: exactly 24 a day\n"
     "  at once     1\n"
     "  worst case  1 within the window's length\n"
     "state         40 bytes a key\n"},
};

static void check_report(void **unused)
{
    (void)unused;
    weir_policy p;
    char report[WEIR_POLICY_REPORT_MAX];
    assert_int_equal(parse(&p, "gcra 3/s burst 5 & sliding-log 10/h count-denied", NULL), WEIR_OK);
    weir_policy_report(&p, report, sizeof report);
    assert_string_equal(report, "gcra 3/s burst 5\n"
                                "  sustained   3 every 1s, one every 1s/3: exactly 259200 a day\n"
                                "  at once     5\n"
                                "  worst case  7 within 1s: a full burst and the refill\n"
                                "sliding-log 10/h count-denied\n"
                                "  sustained   10 every 1h: exactly 240 a day\n"
                                "  at once     10\n"
                                "  worst case  10 within the window's length\n"
                                "  denials     count: a client that keeps retrying stays denied\n"
                                "state         80 to 152 bytes a key\n");
    for (size_t i = 0; i < sizeof reports / sizeof reports[0]; i++) {
        assert_int_equal(parse(&p, reports[i].text, NULL), WEIR_OK);
        weir_policy_report(&p, report, sizeof report);
        assert_string_equal(report, reports[i].report);
    }
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
        assert_int_equal(parse(&p, good[i].text, NULL), WEIR_OK);
        assert_true(weir_policy_report(&p, report, sizeof report) < sizeof report - 1);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(check_valid),       cmocka_unit_test(check_invalid),
        cmocka_unit_test(check_suggestions), cmocka_unit_test(check_spellings_of_units),
        cmocka_unit_test(check_lengths),     cmocka_unit_test(check_print_sizes),
        cmocka_unit_test(check_report),      cmocka_unit_test(check_durations),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
