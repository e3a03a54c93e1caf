/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* Events that several loops report about the same servers, and which of them pass. */

#include "cmd/serve/event_filter.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static event_filter all;

static bool up(unsigned loop, const char *node)
{
    return event_filter_passes(&all, loop, "redis-up", node, "the module", 1);
}

static bool down(unsigned loop, const char *node, const char *why)
{
    return event_filter_passes(&all, loop, "redis-down", node, why, 1);
}

static bool breaker(unsigned loop, const char *text)
{
    return event_filter_passes(&all, loop, "redis-breaker", "a:1", text, 1);
}

static int reset(void **unused)
{
    (void)unused;
    memset(&all, 0, sizeof all);
    return 0;
}

static void check_up_and_down(void **unused)
{
    (void)unused;
    assert_true(up(0, "a:1"));
    assert_false(up(1, "a:1"));
    assert_false(up(255, "a:1"));
    assert_true(up(1, "b:1")); /* another server */
    assert_false(down(1, "a:1", "it closed the connection"));
    assert_false(down(0, "a:1", "it closed the connection"));
    assert_true(down(255, "a:1", "it closed the connection")); /* the last loop */
    assert_false(down(0, "a:1", "it closed the connection"));
    assert_true(down(0, "a:1", "connection refused")); /* another reason */
    assert_true(up(0, "a:1"));
    assert_false(up(1, "a:1"));
    assert_false(down(0, "a:1", "no answer")); /* only one connection broke */
    assert_false(up(0, "a:1"));
}

static void check_never_up(void **unused)
{
    (void)unused;
    assert_true(down(0, "a:1", "connection refused"));
    assert_false(down(1, "a:1", "connection refused"));
    assert_true(up(1, "a:1"));
    assert_true(down(1, "a:1", "connection refused")); /* again */
    assert_true(up(63, "b:1"));
    assert_true(down(63, "b:1", "no answer"));
}

static void check_breakers(void **unused)
{
    (void)unused;
    assert_false(breaker(0, "closed"));
    assert_true(breaker(0, "open"));
    assert_false(breaker(1, "open"));
    assert_true(breaker(0, "probing"));
    assert_false(breaker(1, "probing"));
    assert_false(breaker(0, "closed"));
    assert_true(breaker(1, "closed"));
    assert_true(breaker(1, "open"));
    assert_true(breaker(1, "probing")); /* of this time */
}

static void check_probe_first(void **unused)
{
    (void)unused;
    assert_false(breaker(0, "probing")); /* it was open before the table had the server */
    assert_true(breaker(0, "open"));
}

/* A long reason is compared by its beginning. */
static void check_long_reasons(void **unused)
{
    (void)unused;
    char one[400], other[400];
    memset(one, 'x', sizeof one);
    one[sizeof one - 1] = '\0';
    memcpy(other, one, sizeof one);
    other[sizeof other - 2] = 'y';
    assert_true(down(0, "a:1", one));
    assert_false(down(0, "a:1", other));
    other[sizeof all.node[0].text - 2] = 'y'; /* the last one that is stored */
    assert_true(down(0, "a:1", other));
    assert_false(down(0, "a:1", other));
}

static void check_other_events(void **unused)
{
    (void)unused;
    const int64_t s_ns = 1000000000;
    assert_true(event_filter_passes(&all, 0, "redis-slots", "a:1", "3 masters", s_ns));
    assert_false(event_filter_passes(&all, 1, "redis-slots", "b:1", "3 masters", 2 * s_ns));
    assert_true(event_filter_passes(&all, 1, "redis-slots", "b:1", "4 masters", 2 * s_ns));
    assert_true(event_filter_passes(&all, 1, "redis-master", "b:1", "4 masters", 2 * s_ns));
    assert_false(event_filter_passes(&all, 1, "redis-slots", "b:1", "3 masters", 11 * s_ns - 1));
    assert_true(event_filter_passes(&all, 1, "redis-slots", "b:1", "3 masters", 11 * s_ns));
}

static bool other(int n)
{
    char text[16];
    snprintf(text, sizeof text, "%d", n);
    return event_filter_passes(&all, 0, "redis-slots", "a:1", text, 1);
}

/* The last EVENT_FILTER_RECENT events are remembered. */
static void check_recent_events(void **unused)
{
    (void)unused;
    for (int n = 0; n < EVENT_FILTER_RECENT; n++)
        assert_true(other(n));
    for (int n = 0; n < EVENT_FILTER_RECENT; n++)
        assert_false(other(n));
    assert_true(other(EVENT_FILTER_RECENT));
    assert_true(other(0)); /* forgotten, and remembered instead of 1 */
    assert_false(other(2));
    assert_true(other(1));
}

/* Events of servers beyond the table pass rather than get lost. */
static void check_many(void **unused)
{
    (void)unused;
    char name[32];
    for (int i = 0; i < EVENT_FILTER_NODES_MAX; i++) {
        snprintf(name, sizeof name, "host-%d:6379", i);
        assert_true(up(0, name));
        assert_false(up(1, name));
    }
    assert_true(up(0, "one more:1"));
    assert_true(up(1, "one more:1"));
}

/* A name that does not fit passes, too. */
static void check_long_names(void **unused)
{
    (void)unused;
    char name[sizeof all.node[0].name + 1];
    memset(name, 'x', sizeof name);
    name[sizeof name - 1] = '\0';
    assert_true(up(0, name));
    assert_true(up(1, name));
    assert_int_equal(all.nodes, 0);
    name[sizeof name - 2] = '\0';
    assert_true(up(0, name));
    assert_false(up(1, name));
}

static void check_reaches(void **unused)
{
    (void)unused;
    assert_false(event_filter_reaches(&all, 0, false));
    (void)event_filter_passes(&all, 0, "redis-up", "s:1", "a Sentinel", 1);
    assert_false(event_filter_reaches(&all, 0, false));
    (void)up(0, "a:1");
    assert_true(event_filter_reaches(&all, 0, true));
    assert_false(event_filter_reaches(&all, 1, false));
    (void)breaker(0, "open");
    assert_false(event_filter_reaches(&all, 0, true));
    assert_true(event_filter_reaches(&all, 0, false));
    (void)breaker(0, "probing");
    assert_false(event_filter_reaches(&all, 0, true));
    (void)up(0, "b:1"); /* another node of a Cluster */
    assert_true(event_filter_reaches(&all, 0, true));
    (void)down(0, "b:1", "no answer");
    (void)breaker(0, "closed");
    assert_true(event_filter_reaches(&all, 0, true));
    (void)down(0, "a:1", "no answer");
    assert_false(event_filter_reaches(&all, 0, false));
}

static void expect_why(unsigned loops, const char *name, const char *why)
{
    const char *found = NULL, *at = event_filter_why(&all, loops, &found);
    if (name) {
        assert_string_equal(at, name);
        assert_string_equal(found, why);
    } else {
        assert_null(at);
    }
}

static void check_why(void **unused)
{
    (void)unused;
    expect_why(2, NULL, NULL);
    (void)event_filter_passes(&all, 0, "redis-up", "s:1", "a Sentinel", 1);
    (void)event_filter_passes(&all, 0, "redis-down", "s:1", "gone", 1);
    (void)up(0, "a:1");
    expect_why(2, NULL, NULL);
    (void)down(1, "a:1", "LOADING");
    expect_why(1, NULL, NULL); /* the first loop has it */
    expect_why(2, "a:1", "LOADING");
    (void)down(1, "a:1", "READONLY"); /* the latest reason, also if it was not logged */
    expect_why(2, "a:1", "READONLY");
    (void)up(1, "a:1");
    expect_why(2, NULL, NULL);
}

static void check_failed(void **unused)
{
    (void)unused;
    assert_int_equal(event_filter_failed(&all), 0);
    (void)up(0, "a:1");
    (void)down(1, "a:1", "LOADING"); /* the other loop has it */
    assert_int_equal(event_filter_failed(&all), 0);
    (void)event_filter_passes(&all, 0, "redis-breaker", "b:1", "open", 1); /* no reason is known */
    assert_int_equal(event_filter_failed(&all), 0);
    (void)down(0, "a:1", "gone");
    assert_int_equal(event_filter_failed(&all), 1);
    (void)down(0, "b:1", "gone");
    assert_int_equal(event_filter_failed(&all), 2);
    (void)up(1, "a:1");
    assert_int_equal(event_filter_failed(&all), 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(check_up_and_down, reset),
        cmocka_unit_test_setup(check_never_up, reset),
        cmocka_unit_test_setup(check_breakers, reset),
        cmocka_unit_test_setup(check_other_events, reset),
        cmocka_unit_test_setup(check_probe_first, reset),
        cmocka_unit_test_setup(check_long_reasons, reset),
        cmocka_unit_test_setup(check_recent_events, reset),
        cmocka_unit_test_setup(check_many, reset),
        cmocka_unit_test_setup(check_long_names, reset),
        cmocka_unit_test_setup(check_reaches, reset),
        cmocka_unit_test_setup(check_why, reset),
        cmocka_unit_test_setup(check_failed, reset),
    };
    return cmocka_run_group_tests_name("event_filter", tests, NULL, NULL);
}
