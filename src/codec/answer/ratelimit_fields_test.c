/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* The values of RateLimit-Policy and RateLimit for every kind of policy, and the largest ones. */

#include "codec/answer/fields.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#define CANARY    0x5A
#define SECOND_NS INT64_C(1000000000)

static weir_slice slice(const char *text)
{
    return (weir_slice){text, text ? strlen(text) : 0};
}

static weir_policy parse(const char *text)
{
    weir_policy p;
    weir_policy_error e;
    if (weir_policy_parse(&p, text, strlen(text), NULL, &e) != WEIR_OK)
        fail_msg("%s: column %u: %s", text, e.column, e.text);
    return p;
}

/* The items of all layers, as a list. */
static size_t put_items(char *buf, weir_slice name, const weir_policy *policy)
{
    size_t len = 0;
    for (uint32_t i = 0; i < policy->layers; i++) {
        if (i > 0) {
            memcpy(buf + len, ", ", 2);
            len += 2;
        }
        len += weir_ratelimit_policy_item(buf + len, name, policy, i, false);
    }
    return len;
}

static void check_policy(void **unused)
{
    (void)unused;
    static const struct {
        const char *name, *policy, *want;
    } rows[] = {
        {"api", "gcra 5/s burst 5", "\"api\";q=5;w=1"},
        {NULL, "gcra 5/s burst 5", "\"limit\";q=5;w=1"},
        {"", "gcra 5/s burst 5", "\"limit\";q=5;w=1"},
        {"a-b_c.d:e/f", "gcra 1000/h burst 500", "\"a-b_c.d:e/f\";q=500;w=1800"},
        {"x", "token-bucket 500 refill 1000 every 1h", "\"x\";q=500;w=3600"},
        {"x", "token-bucket 7 refill 2 every 90s", "\"x\";q=7;w=360"},
        {"x", "token-bucket 6 refill 2 every 90s", "\"x\";q=6;w=270"},
        {"x", "token-bucket 10 refill 10/1500ms", "\"x\";q=10;w=2"},
        {"x", "gcra 3/s burst 3", "\"x\";q=3;w=1"},
        {"x", "gcra 3/s burst 4", "\"x\";q=4;w=2"},
        {"x", "gcra 1/1ns", "\"x\";q=1;w=1"},
        {"x", "leaky-bucket 3/m capacity 5", "\"x\";q=5;w=100"},
        {"x", "leaky-queue 3/m depth 4", "\"x\";q=5;w=100"},
        {"x", "sliding-log 5/1500ms", "\"x\";q=5;w=2"},
        {"x", "sliding-log 5/2s", "\"x\";q=5;w=2"},
        {"x", "sliding-counter 100/m", "\"x\";q=100;w=60"},
        {"x", "sliding-slices 100/h slices 60", "\"x\";q=100;w=3600"},
        {"x", "fixed-window 5/10m", "\"x\";q=5;w=600"},
        {"x", "fixed-window 5/10m from-first", "\"x\";q=5;w=600"},
        {"x", "fixed-window 5/day", "\"x\";q=5;w=86400"},
        {"x", "fixed-window 5/week", "\"x\";q=5;w=604800"},
        {"x", "fixed-window 5/month", "\"x\";q=5"},
        {"x", "fixed-window 5/year", "\"x\";q=5"},
        {"two", "gcra 2/m burst 2 & fixed-window 10/month", "\"two-1\";q=2;w=60, \"two-2\";q=10"},
        {NULL, "fixed-window 1/day & fixed-window 2/week & gcra 9/s burst 9",
         "\"limit-1\";q=1;w=86400, \"limit-2\";q=2;w=604800, \"limit-3\";q=9;w=1"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        weir_policy p = parse(rows[i].policy);
        char buf[WEIR_RATELIMIT_POLICY_ROOM + 1];
        buf[put_items(buf, slice(rows[i].name), &p)] = '\0';
        assert_string_equal(buf, rows[i].want);
    }
}

static void check_value(void **unused)
{
    (void)unused;
    static const struct {
        const char *name, *policy;
        weir_decision d;
        bool resets;
        const char *want;
        int64_t next_ns;
    } rows[] = {
        {"api",
         "gcra 5/s",
         {.allowed = true, .remaining = 4, .reset_after_ns = 1},
         true,
         "\"api\";r=4;t=1",
         0},
        {"api", "gcra 5/s", {.allowed = true, .remaining = 5}, true, "\"api\";r=5;t=0", 0},
        {"api",
         "gcra 5/s",
         {.retry_after_ns = INT64_MAX, .reset_after_ns = 2000000000},
         true,
         "\"api\";r=0;t=2",
         0},
        {"api",
         "gcra 5/s",
         {.retry_after_ns = 1, .reset_after_ns = 9000000000},
         true,
         "\"api\";r=0;t=1",
         0},
        {"api",
         "gcra 5/s",
         {.retry_after_ns = 3000000000, .reset_after_ns = 2000000000},
         true,
         "\"api\";r=0;t=2",
         0},
        {"api",
         "gcra 1/s burst 9",
         {.allowed = true, .reset_after_ns = 9000000000},
         true,
         "\"api\";r=0;t=1",
         0},
        {"api",
         "gcra 1/s burst 9",
         {.allowed = true, .reset_after_ns = 7000000000},
         true,
         "\"api\";r=0;t=7",
         0},
        {"api",
         "gcra 1/s burst 9",
         {.allowed = true, .remaining = 1, .reset_after_ns = 8000000000},
         true,
         "\"api\";r=1;t=8",
         0},
        {"api",
         "fixed-window 9/9s",
         {.allowed = true, .reset_after_ns = 9000000000},
         true,
         "\"api\";r=0;t=9",
         0},
        {"api",
         "gcra 5/s",
         {.retry_after_ns = INT64_MAX, .reset_after_ns = 2000000001},
         true,
         "\"api\";r=0;t=3",
         0},
        {"api",
         "gcra 5/s",
         {.retry_after_ns = INT64_MAX, .reset_after_ns = 2000000001},
         false,
         "\"api\";r=0",
         0},
        {NULL, "gcra 5/s", {.allowed = true, .remaining = 1}, false, "\"limit\";r=1", 0},
        {"log",
         "sliding-log 9/m",
         {.allowed = true, .reset_after_ns = 60000000000},
         true,
         "\"log\";r=0;t=3",
         2000000001},
        {"log",
         "sliding-log 9/m",
         {.allowed = true, .reset_after_ns = 60000000000},
         true,
         "\"log\";r=0;t=1",
         1},
        {"log",
         "sliding-log 9/m",
         {.allowed = true, .remaining = 1, .reset_after_ns = 60000000000},
         true,
         "\"log\";r=1;t=60",
         5},
        {"log",
         "sliding-log 9/m",
         {.retry_after_ns = 30000000000, .reset_after_ns = 60000000000},
         true,
         "\"log\";r=0;t=30",
         5},
        {"two",
         "gcra 2/m & gcra 9/h",
         {.allowed = true, .remaining = 1},
         true,
         "\"two-1\";r=1;t=0",
         0},
        {"two",
         "gcra 2/m & gcra 9/h",
         {.allowed = true, .remaining = 7, .layer = 1},
         true,
         "\"two-2\";r=7;t=0",
         0},
        {NULL, "gcra 2/m & gcra 9/h", {.layer = 1}, true, "\"limit-2\";r=0;t=0", 0},
        {"api", "gcra 5/s", {.allowed = true}, true, "\"api\";r=0", INT64_MAX},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        weir_policy p = parse(rows[i].policy);
        char buf[WEIR_RATELIMIT_FIELD_ROOM + 1];
        const weir_answered a = {.name = slice(rows[i].name),
                                 .policy = &p,
                                 .decision = &rows[i].d,
                                 .resets = rows[i].resets,
                                 .next_ns = rows[i].next_ns};
        size_t len = weir_ratelimit_value(buf, &a);
        buf[len] = '\0';
        assert_string_equal(buf, rows[i].want);
    }
}

/* An old server may answer with a layer that the policy no longer has. */
static void check_unknown_layer(void **unused)
{
    (void)unused;
    weir_policy p = parse("gcra 2/m & gcra 30/m burst 30");
    const weir_decision d = {.allowed = true, .reset_after_ns = 60 * SECOND_NS, .layer = 1};
    const weir_answered a = {.policy = &p, .decision = &d};
    assert_int_equal(weir_ratelimit_reset(&a), 2);
    p.layers = 1;
    assert_int_equal(weir_ratelimit_reset(&a), 60);
}

/* The seconds after an allowed request that took the last unit of a bucket are the fewest after
 * which another request is allowed. */
static void check_next_unit(void **unused)
{
    (void)unused;
    static const char *const policies[] = {
        "gcra 10/m burst 5",
        "gcra 7/m burst 3",
        "gcra 1/h",
        "gcra 3/100s burst 1000",
        "token-bucket 7 refill 2 every 90s",
        "token-bucket 6 refill 2 every 90s",
        "token-bucket 20000 refill 100000/d",
        "leaky-bucket 7/m capacity 5",
        "leaky-queue 7/m depth 4",
        "gcra 2147483647/900000000s burst 2147483647",
    };
    for (size_t i = 0; i < sizeof policies / sizeof policies[0]; i++) {
        weir_policy p = parse(policies[i]);
        uint64_t state[2] = {0};
        int64_t now_ns = INT64_C(1700000000123456789);
        weir_decision d;
        assert_int_equal(weir_check(&p, state, 0, now_ns, p.layer[0].limit, &d), WEIR_OK);
        for (int round = 0; round < 5; round++) {
            if (!d.allowed || d.remaining > 0)
                fail_msg("%s, round %d: expected that the last unit was taken", policies[i], round);
            const weir_answered a = {.policy = &p, .decision = &d};
            int64_t next_ns = now_ns + weir_ratelimit_reset(&a) * SECOND_NS;
            assert_int_equal(weir_peek(&p, state, 0, next_ns - SECOND_NS, 1, &d), WEIR_OK);
            if (d.allowed)
                fail_msg("%s, round %d: allowed a second earlier", policies[i], round);
            now_ns = next_ns - 987654321; /* the next unit is earned in this second */
            assert_int_equal(weir_peek(&p, state, 0, now_ns, 1, &d), WEIR_OK);
            if (!d.allowed)
                now_ns += d.retry_after_ns;
            if (now_ns > next_ns)
                fail_msg("%s, round %d: denied when the time has passed", policies[i], round);
            assert_int_equal(weir_peek(&p, state, 0, now_ns, 0, &d), WEIR_OK);
            assert_int_equal(weir_check(&p, state, 0, now_ns, d.remaining, &d), WEIR_OK);
        }
    }
}

/* The numbers are from another implementation of SipHash-1-3. */
static void check_spread(void **unused)
{
    (void)unused;
    static const struct {
        int percent;
        const char *name, *key;
        int64_t wait_s, want_s;
    } rows[] = {
        {0, "api", "alice", 60, 0},
        {10, "api", "alice", 60, 3},
        {10, "other", "alice", 60, 4},
        {10, NULL, "alice", 60, 2},
        {10, "", "alice", 60, 2},
        {100, "api", "alice", 60, 30},
        {10, "api", "10.0.0.1", 3600, 249},
        {100, "api", "alice", 1, 0},
        {100, "api", "bob", 1, 1},
        {1, "api", "bob", 1, 1},
        {100, "api", "bob", 0, 0},
        {100, "api", "alice", 9223372037, 4563647800},
        {100, "api", "carol", 9223372037, 8906989298},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        weir_decision d = {.limit = 10};
        weir_answered a = {.name = slice(rows[i].name),
                           .decision = &d,
                           .key = slice(rows[i].key),
                           .spread = rows[i].percent};
        int64_t wait_s = rows[i].wait_s;
        int64_t wait_ns = wait_s > INT64_MAX / SECOND_NS ? INT64_MAX : wait_s * SECOND_NS;
        assert_int_equal(weir_answer_spread_s(&a, wait_ns), rows[i].want_s);
        assert_int_equal(weir_answer_wait_s(&a, wait_ns), wait_s + rows[i].want_s);
        d.allowed = true;
        assert_int_equal(weir_answer_spread_s(&a, wait_ns), 0);
        assert_int_equal(weir_answer_wait_s(&a, wait_ns), wait_s);
    }
}

/* Over all keys, each wait from the exact one to the longest occurs, about equally often. */
static void check_spread_of_keys(void **unused)
{
    (void)unused;
    enum { KEYS = 7000, PLACES = 7 };
    size_t found[PLACES] = {0};
    const weir_decision d = {.limit = 10};
    for (int i = 0; i < KEYS; i++) {
        char key[16];
        snprintf(key, sizeof key, "%d", i);
        const weir_answered a = {
            .name = slice("api"), .decision = &d, .key = slice(key), .spread = 10};
        int64_t more_s = weir_answer_spread_s(&a, 51 * SECOND_NS);
        assert_in_range(more_s, 0, PLACES - 1);
        found[more_s]++;
    }
    for (size_t i = 0; i < PLACES; i++)
        assert_in_range(found[i], KEYS / PLACES * 9 / 10, KEYS / PLACES * 11 / 10);
}

static void check_item(void **unused)
{
    (void)unused;
    weir_policy one = parse("gcra 5/s"), two = parse("gcra 5/s & gcra 9/h");
    char buf[WEIR_RATELIMIT_ITEM_ROOM];
    assert_int_equal(weir_ratelimit_item(buf, slice("api"), &one, 0), 3);
    assert_memory_equal(buf, "api", 3);
    assert_int_equal(weir_ratelimit_item(buf, slice("api"), &two, 1), 5);
    assert_memory_equal(buf, "api-2", 5);
    assert_int_equal(weir_ratelimit_item(buf, slice(NULL), &one, 0), 5);
    assert_memory_equal(buf, "limit", 5);
}

/* The longest window that a policy can have: 2^60 ns are 1152921505 s, rounded up. */
static weir_policy largest_policy(void)
{
    char text[WEIR_POLICY_TEXT_MAX] = "";
    for (int i = 0; i < WEIR_LAYERS_MAX; i++)
        snprintf(text + strlen(text), sizeof text - strlen(text), "%ssliding-log 2147483647/%lldns",
                 i ? " & " : "", (long long)WEIR_SPAN_NS_MAX - i);
    return parse(text);
}

/* Eight layers, a name of 64 bytes and the largest numbers fit, and nothing beyond is written. */
static void check_largest(void **unused)
{
    (void)unused;
    char name[WEIR_RATELIMIT_NAME_MAX + 1] = "", want[WEIR_RATELIMIT_POLICY_ROOM] = "";
    memset(name, 'n', sizeof name - 1);
    weir_policy p = largest_policy();
    for (int i = 1; i <= WEIR_LAYERS_MAX; i++)
        snprintf(want + strlen(want), sizeof want - strlen(want),
                 "%s\"%s-%d\";q=2147483647;w=1152921505", i > 1 ? ", " : "", name, i);

    char buf[WEIR_RATELIMIT_POLICY_ROOM + 1];
    memset(buf, CANARY, sizeof buf);
    size_t len = put_items(buf, slice(name), &p);
    assert_int_equal(len, strlen(want));
    assert_memory_equal(buf, want, len);
    assert_int_equal(buf[len], CANARY);

    weir_decision d = {
        .allowed = true, .remaining = WEIR_LIMIT_MAX, .reset_after_ns = INT64_MAX, .layer = 7};
    snprintf(want, sizeof want, "\"%s-8\";r=2147483647;t=9223372037", name);
    memset(buf, CANARY, sizeof buf);
    const weir_answered a = {.name = slice(name), .policy = &p, .decision = &d, .resets = true};
    len = weir_ratelimit_value(buf, &a);
    assert_int_equal(len, strlen(want));
    assert_memory_equal(buf, want, len);
    assert_int_equal(buf[len], CANARY);
}

/* The rooms suffice for the longest numbers that an int64_t has, whatever a policy allows. */
static void check_rooms(void **unused)
{
    (void)unused;
    static const char number[] = "-9223372036854775808";
    size_t item = WEIR_RATELIMIT_NAME_MAX + strlen("-") + strlen(number);
    size_t field = strlen("\"\";q=;w=") + item + 2 * strlen(number);
    assert_true(WEIR_RATELIMIT_ITEM_ROOM >= item);
    assert_true(WEIR_RATELIMIT_FIELD_ROOM >= field);
    assert_true(WEIR_RATELIMIT_POLICY_ROOM >= WEIR_LAYERS_MAX * (field + strlen(", ")));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(check_policy),         cmocka_unit_test(check_value),
        cmocka_unit_test(check_unknown_layer),  cmocka_unit_test(check_next_unit),
        cmocka_unit_test(check_item),           cmocka_unit_test(check_largest),
        cmocka_unit_test(check_rooms),          cmocka_unit_test(check_spread),
        cmocka_unit_test(check_spread_of_keys),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
