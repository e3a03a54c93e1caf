/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* Tests of what `weir top` reads from a daemon's replies, and of the rates and quantiles. */

#include "cmd/client/top_stats.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static weir_resp_reply reply;
static top_sample first, second;
static char bytes[65536];

/* Parses a reply in RESP3. */
static const weir_resp_reply *parse(const char *text)
{
    assert_int_equal(weir_resp_reply_read((const uint8_t *)text, strlen(text), &reply),
                     WEIR_RESP_READ);
    return &reply;
}

static const weir_resp_reply *bulk(const char *text)
{
    snprintf(bytes, sizeof bytes, "$%zu\r\n%s\r\n", strlen(text), text);
    return parse(bytes);
}

#define HEAD "# Server\r\nweir_version:1.2.3\r\n"

static void check_info(void **unused)
{
    (void)unused;
    memset(&second, 0xA5, sizeof second); /* fields that are missing become 0 */
    assert_true(top_read_info(bulk(HEAD), 7, &second));
    assert_int_equal(second.uptime_s + second.connections + second.keys + second.policies, 0);
    assert_true(top_read_info(
        bulk(HEAD
             "uptime_in_seconds:67\r\n\r\n# Clients\r\nconnected_clients:12\r\nmaxclients:345\r\n"
             "store_keys:1\r\nstore_memory_bytes:2\r\nstore_memory_max_bytes:3\r\n"
             "store_evicted:4\r\nstore_refused:5\r\n"
             "memory_api:keys=9,bytes=9\r\n"
             "decision_duration_ns:128=9,256=4,1073741824=6,inf=1\r\n"
             "policy_a:b:allowed=1,denied=2,shadowed=3,allow_listed=4,deny_listed=5,failed=6,"
             "unreached=7\r\npolicy_:allowed=1\r\npolicy_x\r\npolicy_old:allowed=8"),
        7, &second));
    assert_int_equal(second.at_ns, 7);
    assert_string_equal(second.version, "1.2.3");
    assert_int_equal(second.uptime_s, 67);
    assert_int_equal(second.connections, 12);
    assert_int_equal(second.connections_max, 345);
    assert_int_equal(second.keys, 1);
    assert_int_equal(second.bytes, 2);
    assert_int_equal(second.bytes_max, 3);
    assert_int_equal(second.evicted, 4);
    assert_int_equal(second.refused, 5);
    assert_int_equal(second.latency[0], 9);
    assert_int_equal(second.latency[1], 4);
    assert_int_equal(second.latency[2], 0);
    assert_int_equal(second.latency[23], 1);
    assert_int_equal(second.policies, 2);
    assert_string_equal(second.policy[0].name, "a:b");
    static const top_counts counts = {1, 2, 3, 4, 5, 6, 7};
    assert_memory_equal(&second.policy[0].counts, &counts, sizeof counts);
    assert_string_equal(second.policy[1].name, "old");
    assert_int_equal(second.policy[1].counts.allowed, 8);
}

/* Any bytes after the first line are read without a failure, and so is every prefix. */
static void check_damaged_info(void **unused)
{
    (void)unused;
    static const char alphabet[] =
        "policy_:allowed=1,denied=99999999999999999999\r\n\n,=decision_duration_ns:inf";
    char text[300];
    uint64_t seed = 17;
    for (int round = 0; round < 5000; round++) {
        size_t len = (size_t)snprintf(text, sizeof text, HEAD);
        for (; len < sizeof text - 1 - (size_t)(round % 200); len++) {
            seed = seed * 6364136223846793005u + 1442695040888963407u;
            text[len] = alphabet[(seed >> 33) % (sizeof alphabet - 1)];
        }
        text[len] = '\0';
        assert_true(top_read_info(bulk(text), 7, &second));
        for (size_t i = 0; i < second.policies; i++)
            assert_true(strlen(second.policy[i].name) >= 1);
    }
}

static void check_other_servers(void **unused)
{
    (void)unused;
    second.at_ns = 42;
    assert_false(top_read_info(bulk("# Server\r\nredis_version:7.2.0\r\n"), 7, &second));
    assert_false(top_read_info(parse("+OK\r\n"), 7, &second));
    assert_false(top_read_info(parse("-ERR no\r\n"), 7, &second));
    assert_false(top_read_info(parse("*0\r\n"), 7, &second));
    assert_int_equal(second.at_ns, 42);
    static top_rules rules;
    static top_keys keys;
    assert_false(top_read_rules(parse("+OK\r\n"), &rules));
    assert_false(top_read_rules(parse("*1\r\n:1\r\n"), &rules));
    assert_false(top_read_rules(parse("*1\r\n%1\r\n$4\r\nname\r\n$1\r\na\r\n"), &rules));
    assert_int_equal(rules.len, 0);
    assert_false(top_read_keys(parse("+OK\r\n"), &keys));
    assert_false(top_read_keys(parse("%1\r\n$4\r\nkeys\r\n*1\r\n:1\r\n"), &keys));
    assert_int_equal(keys.len, 0);
}

/* Only names that a policy can have are read. */
static void check_long_names(void **unused)
{
    (void)unused;
    char text[300], name[TOP_NAME_MAX + 2];
    for (int len = TOP_NAME_MAX; len <= TOP_NAME_MAX + 1; len++) {
        memset(name, 'n', sizeof name);
        name[len] = '\0';
        snprintf(text, sizeof text, HEAD "policy_%s:allowed=1\r\n", name);
        assert_true(top_read_info(bulk(text), 7, &second));
        assert_int_equal(second.policies, len == TOP_NAME_MAX);
    }
}

/* More policies than a daemon can have are left out. */
static void check_many_policies(void **unused)
{
    (void)unused;
    static char text[TOP_POLICIES_MAX * 32 + 2048], whole[sizeof text + 64];
    size_t len = (size_t)snprintf(text, sizeof text, HEAD);
    for (int i = 0; i < TOP_POLICIES_MAX + 9; i++)
        len += (size_t)snprintf(text + len, sizeof text - len, "policy_%d:allowed=%d\r\n", i, i);
    snprintf(whole, sizeof whole, "$%zu\r\n%s\r\n", len, text);
    assert_true(top_read_info(parse(whole), 7, &second));
    assert_int_equal(second.policies, TOP_POLICIES_MAX);
    assert_int_equal(second.policy[TOP_POLICIES_MAX - 1].counts.allowed, TOP_POLICIES_MAX - 1);
}

static void add(top_sample *s, const char *name, top_counts counts)
{
    top_policy *p = &s->policy[s->policies++];
    snprintf(p->name, sizeof p->name, "%s", name);
    p->counts = counts;
}

static void check_rates(void **unused)
{
    (void)unused;
    memset(&first, 0, sizeof first);
    memset(&second, 0, sizeof second);
    first.at_ns = 1000000000;
    second.at_ns = 3000000000;
    add(&first, "a", (top_counts){10, 10, 10, 10, 10, 10, 10});
    add(&first, "b", (top_counts){.allowed = 5});
    add(&second, "b", (top_counts){.allowed = 9}); /* at another place */
    add(&second, "a", (top_counts){12, 14, 16, 18, 20, 22, 24});
    add(&second, "new", (top_counts){.denied = 2});
    top_rates r = top_policy_rates(&first, &second, 0);
    assert_true(r.decided == 2 && r.denied == 0 && r.shadowed == 0 && r.failed == 0);
    r = top_policy_rates(&first, &second, 1); /* 2+4+6+8+10+14 decided, 4+10 denied */
    assert_true(r.decided == 22 && r.denied == 7 && r.shadowed == 3 && r.failed == 6);
    r = top_policy_rates(&first, &second, 2);
    assert_true(r.decided == 1 && r.denied == 1);
    assert_true(top_policy_rates(NULL, &second, 1).decided == 0);
    assert_true(top_policy_rates(&second, &second, 1).decided == 0);
    assert_true(top_policy_rates(&second, &first, 0).decided == 0);
    first.uptime_s = 9; /* the daemon was restarted */
    assert_true(top_policy_rates(&first, &second, 1).decided == 0);
    first.uptime_s = 0;
    second.policy[1].counts = (top_counts){.allowed = 11};
    assert_true(top_policy_rates(&first, &second, 1).denied == 0);
}

static void check_latency(void **unused)
{
    (void)unused;
    memset(&first, 0, sizeof first);
    memset(&second, 0, sizeof second);
    second.at_ns = 1;
    assert_true(top_latency_ns(NULL, &second, 0.5) < 0);
    assert_true(top_latency_ns(&first, &second, 0.5) < 0);
    first.latency[0] = 5; /* before: ignored */
    second.latency[0] = 5 + 4;
    second.latency[2] = 4;
    assert_true(top_latency_ns(&first, &second, 0.5) == 128);
    assert_true(top_latency_ns(&first, &second, 0.25) == 64);
    assert_true(top_latency_ns(&first, &second, 0.75) == 256 + 128);
    assert_true(top_latency_ns(&first, &second, 1) == 512);
    assert_true(top_latency_ns(&first, &second, 0) == 0);
    second.latency[23] = 100; /* no upper bound */
    assert_true(top_latency_ns(&first, &second, 0.99) == (double)(1 << 29));
}

static void check_rules(void **unused)
{
    (void)unused;
    static top_rules rules;
#define RULE(name, limit, shadow)                                                                  \
    "%6\r\n$4\r\nname\r\n" name "$5\r\nlimit\r\n" limit                                            \
    "$9\r\noverrides\r\n:0\r\n$5\r\nallow\r\n:0\r\n$4\r\ndeny\r\n:0\r\n$6\r\nshadow\r\n" shadow
    assert_true(top_read_rules(parse("*2\r\n" RULE("$1\r\na\r\n", "$8\r\ngcra 1/s\r\n", "#f\r\n")
                                         RULE("$1\r\nb\r\n", "$2\r\n\x1B[\r\n", "#t\r\n")),
                               &rules));
    assert_int_equal(rules.len, 2);
    assert_string_equal(top_find_rule(&rules, "a")->limit, "gcra 1/s");
    assert_false(top_find_rule(&rules, "a")->shadow);
    assert_string_equal(top_find_rule(&rules, "b")->limit, "?[");
    assert_true(top_find_rule(&rules, "b")->shadow);
    assert_null(top_find_rule(&rules, "c"));
}

static void check_keys(void **unused)
{
    (void)unused;
    static top_keys keys = {.policy = "api", .allowed = true};
#define KEY(key, cost, error, len)                                                                 \
    "%5\r\n$3\r\nkey\r\n" key "$4\r\ncost\r\n:" cost "\r\n$5\r\nerror\r\n:" error                  \
    "\r\n$8\r\nrequests\r\n:3\r\n$9\r\nkey_bytes\r\n:" len "\r\n"
    assert_true(
        top_read_keys(parse("%1\r\n$4\r\nkeys\r\n*2\r\n" KEY("$2\r\n\xFF\x01\r\n", "9", "4", "2")
                                KEY("$1\r\nb\r\n", "2", "4", "500")),
                      &keys));
    assert_int_equal(keys.len, 2);
    assert_memory_equal(keys.key[0].text, "\xFF\x01", 2);
    assert_int_equal(keys.key[0].len, 2);
    assert_int_equal(keys.key[0].units, 9);
    assert_int_equal(keys.key[0].at_least, 5);
    assert_int_equal(keys.key[0].requests, 3);
    assert_false(keys.key[0].cut);
    assert_int_equal(keys.key[1].at_least, 0);
    assert_true(keys.key[1].cut);
    assert_string_equal(keys.note, "");
    assert_true(top_read_keys(parse("-ERR WEIR.TOP is \x1B"
                                    "disabled\r\n"),
                              &keys));
    assert_string_equal(keys.note, "WEIR.TOP is ?disabled");
    assert_int_equal(keys.len, 0);
    assert_string_equal(keys.policy, "api");
    assert_true(keys.allowed);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(check_info),          cmocka_unit_test(check_damaged_info),
        cmocka_unit_test(check_other_servers), cmocka_unit_test(check_many_policies),
        cmocka_unit_test(check_rates),         cmocka_unit_test(check_latency),
        cmocka_unit_test(check_rules),         cmocka_unit_test(check_long_names),
        cmocka_unit_test(check_keys),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
