/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* Rules: which pattern matches a key best, how keys are matched, and which specs are refused. */

#include "service/rules/rule.h"

#include "port/port.h"
#include "store/iterate.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

/* ---- patterns -------------------------------------------------------------------------------- */

static void add(weir_key_patterns *p, const char *pattern, uint32_t value)
{
    char why[200] = "";
    if (weir_key_patterns_add(p, pattern, false, value, why, sizeof why) != WEIR_OK)
        fail_msg("%s: %s", pattern, why);
}

/* The value of the pattern that matches; -1 if none does. */
static int fits(const weir_key_patterns *p, const char *key)
{
    uint32_t value;
    weir_address a;
    bool is_address = weir_address_parse(&a, key, strlen(key));
    if (!weir_key_patterns_find(p, key, strlen(key), is_address ? &a : NULL, &value))
        return -1;
    return (int)value;
}

static void check_patterns(void **unused)
{
    (void)unused;
    weir_key_patterns *p = weir_key_patterns_new(16);
    add(p, "alice", 1);
    add(p, "al*", 2);
    add(p, "ali*", 3);
    char why[100];
    assert_int_equal(weir_key_patterns_add(p, "alice", false, 1, why, sizeof why), WEIR_OK);
    assert_int_equal(weir_key_patterns_add(p, "alice", false, 99, why, sizeof why), WEIR_E_SYNTAX);
    assert_string_equal(why, "'alice' matches the same keys as another entry");
    add(p, "10.0.0.0/8", 4);
    add(p, "10.1.0.0/16", 5);
    add(p, "10.1.2.3", 6);
    add(p, "2001:db8::/32", 7);
    add(p, "::ffff:192.168.0.0/112", 8); /* 192.168.0.0/16 */
    add(p, "2001:db8::1", 9);
    assert_int_equal(fits(p, "alice"), 1);
    assert_int_equal(fits(p, "alicia"), 3);
    assert_int_equal(fits(p, "ali"), 3);
    assert_int_equal(fits(p, "albert"), 2);
    assert_int_equal(fits(p, "bob"), -1);
    assert_int_equal(fits(p, "a"), -1);
    assert_int_equal(fits(p, "10.9.9.9"), 4);
    assert_int_equal(fits(p, "10.1.9.9"), 5);
    assert_int_equal(fits(p, "10.1.2.3"), 6);
    assert_int_equal(fits(p, "::ffff:10.1.2.3"), 6);
    assert_int_equal(fits(p, "11.1.2.3"), -1);
    assert_int_equal(fits(p, "192.168.77.1"), 8);
    assert_int_equal(fits(p, "192.168.200.1"), 8);
    assert_int_equal(fits(p, "192.169.0.1"), -1);
    assert_int_equal(fits(p, "2001:db8:ffff::1"), 7);
    assert_int_equal(fits(p, "2001:0DB8::0:1"), 9);
    assert_int_equal(fits(p, "2001:db9::1"), -1);
    add(p, "::ffff:0.0.0.0/96", 11); /* all IPv4 addresses */
    assert_int_equal(fits(p, "11.1.2.3"), 11);
    assert_int_equal(fits(p, "211.1.2.3"), 11);
    assert_int_equal(fits(p, "10.9.9.9"), 4);
    assert_int_equal(fits(p, "2001:db9::1"), -1);
    assert_int_equal(weir_key_patterns_add(p, "2001:0DB8::0:1", false, 99, why, sizeof why),
                     WEIR_E_SYNTAX);
    assert_int_equal(weir_key_patterns_add(p, "10.1.2.3/32", false, 99, why, sizeof why),
                     WEIR_E_SYNTAX);
    assert_int_equal(weir_key_patterns_add(p, "10.1.*", false, 99, why, sizeof why), WEIR_E_SYNTAX);
    add(p, "172.16.3.*", 12);
    assert_int_equal(fits(p, "172.16.3.7"), 12);
    assert_int_equal(fits(p, "172.16.30.7"), 11);
    add(p, "203.0.113.9/*", 13);
    add(p, "203.0.113.9/me", 14);
    assert_int_equal(fits(p, "203.0.113.9/you"), 13);
    assert_int_equal(fits(p, "203.0.113.9/me"), 14);
    add(p, "*", 10);
    assert_int_equal(fits(p, "bob"), 10);
    assert_int_equal(fits(p, "alicia"), 3);
    weir_key_patterns_free(p);
    weir_key_patterns_free(NULL);
}

/* The longest of many prefixes wins, in whatever order they were added. */
static void check_many_lengths(void **unused)
{
    (void)unused;
    enum { LENGTHS = 61 };
    char text[LENGTHS + 3], as[LENGTHS + 1];
    memset(as, 'a', sizeof as);
    weir_key_patterns *p = weir_key_patterns_new(LENGTHS);
    for (uint32_t i = 0; i < LENGTHS; i++) {
        int len = (int)(i * 7 % LENGTHS) + 1;
        (void)snprintf(text, sizeof text, "%.*s*", len, as);
        add(p, text, (uint32_t)len);
    }
    for (int len = 1; len <= LENGTHS + 1; len++) {
        (void)snprintf(text, sizeof text, "%.*s", len, as);
        assert_int_equal(fits(p, text), len < LENGTHS ? len : LENGTHS);
    }
    weir_key_patterns_free(p);
}

static void check_bad_patterns(void **unused)
{
    (void)unused;
    static const char *const rows[][2] = {
        {"10.0.0.0/33", "'10.0.0.0/33' is not a network: expected /0 to /32 after the address"},
        {"10.0.0.0/", "'10.0.0.0/' is not a network: expected /0 to /32 after the address"},
        {"10.0.0.0/08", "'10.0.0.0/08' is not a network: expected /0 to /32 after the address"},
        {"10.0.0.0/8x", "'10.0.0.0/8x' is not a network: expected /0 to /32 after the address"},
        {"10.0.0.1/8", "'10.0.0.1/8' has bits set after its /8, expected 10.0.0.0/8"},
        {"2001:db8::1/64", "'2001:db8::1/64' has bits set after its /64, expected 2001:db8::/64"},
        {"::/129", "'::/129' is not a network: expected /0 to /128 after the address"},
        {"::ffff:10.0.0.0/8",
         "'::ffff:10.0.0.0/8' is not a network: expected /96 to /128 after the address"},
        {"::ffff:10.0.0.0/95",
         "'::ffff:10.0.0.0/95' is not a network: expected /96 to /128 after the address"},
        {"::ffff:10.0.0.0/129",
         "'::ffff:10.0.0.0/129' is not a network: expected /96 to /128 after the address"},
        {"", "a pattern has 1 to 65536 bytes, this one has 0"},
        {"a*b", "'a*b' has a '*' before its end: expected a whole key, or a prefix and '*'"},
        {"**", "'**' has a '*' before its end: expected a whole key, or a prefix and '*'"},
    };
    weir_key_patterns *p = weir_key_patterns_new(1);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        char why[200] = "";
        assert_int_equal(weir_key_patterns_add(p, rows[i][0], false, 0, why, sizeof why),
                         WEIR_E_SYNTAX);
        assert_string_equal(why, rows[i][1]);
    }
    weir_key_patterns_free(p);
}

/* ---- rules ----------------------------------------------------------------------------------- */

static const weir_override_spec overrides[] = {
    {.pattern = "big", .limit = "gcra 100/s burst 100"},
    {.pattern = "trial-*", .limit = "gcra 1/s burst 5"},
    {.pattern = "192.0.2.0/24", .limit = "gcra 2/s burst 7"},
};
static const char *const allow[] = {"10.0.0.0/8", "root", "2001:db8:a::/48"};
static const char *const deny[] = {"10.6.6.6", "evil*"};

static weir_rule_spec full_spec(void)
{
    weir_rule_spec s = WEIR_RULE_SPEC_DEFAULT;
    s.name = "api";
    s.limit = "gcra 10/s burst 10";
    s.overrides = overrides;
    s.overrides_len = 3;
    s.allow = allow;
    s.allow_len = 3;
    s.deny = deny;
    s.deny_len = 2;
    return s;
}

static weir_store *store;

static int open_store(void **unused)
{
    (void)unused;
    return weir_store_open(&store, NULL) == WEIR_OK ? 0 : -1;
}

static int close_store(void **unused)
{
    (void)unused;
    weir_store_close(store);
    return 0;
}

static bool is_noted(void *ctx, uint64_t id, const char *text, size_t len)
{
    const weir_rule **r = ctx;
    bool found = id == (*r)->limit.id && len == (*r)->limit.canonical_len &&
                 memcmp(text, (*r)->limit.canonical, len) == 0;
    if (found)
        *r = NULL;
    return !found;
}

/* `weir state` prints the policy of a rule's state. */
static void check_noted(void **unused)
{
    (void)unused;
    weir_rule *r;
    weir_rule_spec spec = WEIR_RULE_SPEC_DEFAULT;
    spec.name = "noted";
    spec.limit = "gcra  1/s";
    assert_int_equal(weir_rule_new(&r, store, NULL, &spec, NULL), WEIR_OK);
    const weir_rule *sought = r;
    weir_store_policies(store, is_noted, &sought);
    assert_null(sought);
    uint64_t plain =
        weir_store_policy_id(store, &r->limit.policy); /* an id of its own, same class */
    assert_true(r->limit.id != plain);
    assert_true(((r->limit.id ^ plain) & WEIR_POLICY_CLASS) == 0);
    weir_rule_drop(r);
}

/* A policy that is parsed already is not parsed again. */
static void check_parsed(void **unused)
{
    (void)unused;
    weir_rule *r;
    weir_policy p;
    assert_int_equal(weir_policy_parse(&p, "gcra 1/s burst 6", 16, NULL, NULL), WEIR_OK);
    const weir_override_spec parsed = {.pattern = "big", .limit = "also not read", .policy = &p};
    weir_rule_spec spec = WEIR_RULE_SPEC_DEFAULT;
    spec.name = "parsed";
    spec.limit = "not read";
    spec.policy = &p;
    spec.overrides = &parsed;
    spec.overrides_len = 1;
    assert_int_equal(weir_rule_new(&r, store, NULL, &spec, NULL), WEIR_OK);
    assert_int_equal(r->limit.policy.layer[0].limit, 6);
    assert_string_equal(r->limit.text, "not read");
    assert_int_equal(r->options->overrides[0].policy.layer[0].limit, 6);
    weir_rule_drop(r);
}

static const char lists[] = {
    [WEIR_ON_NO_LIST] = '-', [WEIR_ON_ALLOW_LIST] = 'a', [WEIR_ON_DENY_LIST] = 'd'};

static void matches(const weir_rule *r, const char *key, const char *at, int64_t limit, char list)
{
    weir_key_match k;
    weir_rule_match(r, key, strlen(key), NULL, &k);
    assert_int_equal(k.len, strlen(at));
    assert_memory_equal(k.at, at, k.len);
    assert_int_equal(k.limit->policy.layer[0].limit, limit);
    assert_int_equal(lists[k.list], list);
}

/* The key of a request of a client. */
static void matches_client(const weir_rule *r, const char *key, const char *address, bool is_proxy,
                           int64_t limit, char list)
{
    weir_key_match k;
    weir_client client = {.is_proxy = is_proxy};
    assert_true(weir_address_parse(&client.address, address, strlen(address)));
    weir_rule_match(r, key, strlen(key), &client, &k);
    assert_int_equal(k.limit->policy.layer[0].limit, limit);
    assert_int_equal(lists[k.list], list);
}

static void check_match(void **unused)
{
    (void)unused;
    weir_rule *r;
    weir_rule_spec spec = full_spec();
    assert_int_equal(weir_rule_new(&r, store, NULL, &spec, NULL), WEIR_OK);
    matches(r, "alice", "alice", 10, '-');
    matches(r, "big", "big", 100, '-');
    matches(r, "bigger", "bigger", 10, '-');
    matches(r, "trial-7", "trial-7", 5, '-');
    matches(r, "192.0.2.77", "192.0.2.77", 7, '-');
    matches(r, "::ffff:192.0.2.77", "192.0.2.77", 7, '-');
    matches(r, "root", "root", 10, 'a');
    matches(r, "10.2.3.4", "10.2.3.4", 10, 'a');
    matches(r, "10.6.6.6", "10.6.6.6", 10, 'd'); /* on both lists */
    matches(r, "evil", "evil", 10, 'd');
    matches(r, "evil-twin", "evil-twin", 10, 'd');
    matches(r, "2001:db8:a:b:c::1", "2001:db8:a:b::/64", 10, 'a');
    matches(r, "2001:db8:b:b:c::1", "2001:db8:b:b::/64", 10, '-');
    matches(r, "2001:DB8:b:b:d::2", "2001:db8:b:b::/64", 10, '-');
    weir_rule_drop(r);
    spec.v4_bits = 24;
    spec.v6_bits = 128;
    assert_int_equal(weir_rule_new(&r, store, NULL, &spec, NULL), WEIR_OK);
    matches(r, "172.16.5.9", "172.16.5.0/24", 10, '-');
    matches(r, "2001:DB8:b:b:d:0:0:2", "2001:db8:b:b:d::2", 10, '-');
    weir_rule_drop(r);
    spec.v4_bits = 31;
    spec.v6_bits = 127;
    assert_int_equal(weir_rule_new(&r, store, NULL, &spec, NULL), WEIR_OK);
    matches(r, "172.16.5.9", "172.16.5.8/31", 10, '-');
    matches(r, "2001:db8:b:b:d::3", "2001:db8:b:b:d::2/127", 10, '-');
    weir_rule_drop(r);
    spec.plain_keys = true;
    assert_int_equal(weir_rule_new(&r, store, NULL, &spec, NULL), WEIR_OK);
    matches(r, "172.16.5.9", "172.16.5.9", 10, '-');
    matches(r, "10.2.3.4", "10.2.3.4", 10, '-');               /* "10.0.0.0/8" is a plain key ... */
    matches_client(r, "10.2.3.4", "10.2.3.4", false, 10, 'a'); /* ... and matches a client */
    matches(r, "10.0.0.0/8", "10.0.0.0/8", 10, 'a');
    weir_rule_drop(r);
}

/* Patterns of addresses match the client in a key of several parts, and every spelling of an
 * address. */
static void check_clients(void **unused)
{
    (void)unused;
    weir_rule *r;
    static const char *const denied[] = {"192.0.2.*", "203.0.113.9", "2001:DB8:1::/48",
                                         "2001:db8:2:*", "198.51.100.7/*"};
    weir_rule_spec spec = full_spec();
    spec.deny = denied;
    spec.deny_len = sizeof denied / sizeof denied[0];
    for (int plain = 0; plain < 2; plain++) {
        spec.plain_keys = plain;
        assert_int_equal(weir_rule_new(&r, store, NULL, &spec, NULL), WEIR_OK);
        matches_client(r, "192.0.2.7/k", "192.0.2.7", false, 7, 'd');
        matches_client(r, "k/192.0.2.7", "::ffff:192.0.2.7", false, 7, 'd');
        matches_client(r, "k", "203.0.113.9", false, 10, 'd');
        matches_client(r, "k", "2001:db8:1:2::3", false, 10, 'd');
        matches_client(r, "k", "203.0.113.8", false, 10, '-');
        matches_client(r, "k", "10.1.2.3", false, 10, 'a');
        matches_client(r, "k", "10.1.2.3", true, 10, '-'); /* anyone behind a proxy */
        matches_client(r, "10.1.2.3", "10.1.2.3", true, 10, '-');
        matches_client(r, "k", "203.0.113.9", true, 10, 'd');
        matches_client(r, "root", "10.1.2.3", true, 10, '-');
        matches(r, "198.51.100.7/k", "198.51.100.7/k", 10, 'd');
        matches(r, "192.0.2.77", "192.0.2.77", plain ? 10 : 7, 'd');
        if (!plain) {
            matches(r, "::ffff:192.0.2.77", "192.0.2.77", 7, 'd');
            matches(r, "::FFFF:c000:024d", "192.0.2.77", 7, 'd');
            matches(r, "2001:0DB8:2:0:0::1", "2001:db8:2::/64", 10, 'd');
        }
        weir_rule_drop(r);
    }
}

static void matches_inline(const char *key, const char *want)
{
    weir_key_match k;
    weir_inline_policy_match(key, strlen(key), &k);
    assert_int_equal(k.len, strlen(want));
    assert_memory_equal(k.at, want, k.len);
}

/* Inline policies match keys as a rule without options. */
static void check_inline_match(void **unused)
{
    (void)unused;
    matches_inline("alice", "alice");
    matches_inline("192.0.2.77", "192.0.2.77");
    matches_inline("192.0.2.077", "192.0.2.077");
    matches_inline("::ffff:192.0.2.77", "192.0.2.77");
    matches_inline("2001:DB8:b:b:d::2", "2001:db8:b:b::/64");
    matches_inline("fe80::1%lo", "fe80::1%lo");
}

static void refused(weir_rule_spec spec, weir_status status, uint32_t column, const char *text)
{
    weir_rule *r;
    weir_rule_error e = {0};
    assert_int_equal(weir_rule_new(&r, store, NULL, &spec, &e), status);
    assert_int_equal(e.column, column);
    assert_string_equal(e.text, text);
}

static void check_refused(void **unused)
{
    (void)unused;
    weir_rule_spec good = full_spec(), s = good;
    s.name = "";
    refused(s, WEIR_E_SYNTAX, 0, "a policy's name has 1 to 64 bytes, this one has 0");
    s.name = "a b";
    refused(s, WEIR_E_SYNTAX, 0,
            "byte 2 of a policy's name: expected a letter, a digit or one of - _ . : /");
    char name[WEIR_RULE_NAME_MAX + 2];
    memset(name, 'n', sizeof name - 1);
    name[sizeof name - 1] = '\0';
    s.name = name;
    refused(s, WEIR_E_SYNTAX, 0, "a policy's name has 1 to 64 bytes, this one has 65");
    name[sizeof name - 2] = '\0';
    assert_int_equal(weir_rule_name_check(s.name, strlen(s.name), NULL), WEIR_OK);

    s = good;
    s.limit = "gcra 5/x";
    refused(s, WEIR_E_SYNTAX, 8, "unknown unit 'x', expected one of ns us ms s m h d w");
    s = good;
    const weir_override_spec bad_text[] = {{.pattern = "a", .limit = "gcra 1/s"},
                                           {.pattern = "b", .limit = "gcra"}};
    s.overrides = bad_text;
    s.overrides_len = 2;
    refused(s, WEIR_E_SYNTAX, 0, "");
    const weir_override_spec same[] = {{.pattern = "2001:db8::1", .limit = "gcra 1/s"},
                                       {.pattern = "2001:DB8:0::1", .limit = "gcra 2/s"}};
    s.overrides = same;
    refused(s, WEIR_E_SYNTAX, 0, "");
    const weir_override_spec bad_pattern[] = {{.pattern = "", .limit = "gcra 1/s"}};
    s.overrides = bad_pattern;
    s.overrides_len = 1;
    refused(s, WEIR_E_SYNTAX, 0, "");
    const char *const bad_net[] = {"a", "10.0.0.0/40"};
    s = good;
    s.allow = bad_net;
    s.allow_len = 2;
    refused(s, WEIR_E_SYNTAX, 0, "");
    s = good;
    s.deny = bad_net;
    refused(s, WEIR_E_SYNTAX, 0, "");
    s = good;
    s.v4_bits = 33;
    refused(s, WEIR_E_RANGE, 0, "");
    s = good;
    s.v6_bits = 129;
    refused(s, WEIR_E_RANGE, 0, "");
    s = good;
    s.deny_len = WEIR_RULE_PATTERNS_MAX + 1;
    refused(s, WEIR_E_RANGE, 0, "");
    s = good;
    s.allow_len = WEIR_RULE_PATTERNS_MAX + 1;
    refused(s, WEIR_E_RANGE, 0, "");
    s = good;
    s.overrides_len = WEIR_RULE_PATTERNS_MAX + 1;
    refused(s, WEIR_E_RANGE, 0, "");

    static const char *many[WEIR_RULE_PATTERNS_MAX];
    static weir_override_spec most[WEIR_RULE_PATTERNS_MAX];
    static char keys[WEIR_RULE_PATTERNS_MAX][8];
    for (size_t i = 0; i < WEIR_RULE_PATTERNS_MAX; i++) {
        many[i] = "a";
        snprintf(keys[i], sizeof keys[i], "%zu", i);
        most[i] = (weir_override_spec){.pattern = keys[i], .limit = "gcra 1/s"};
    }
    s = good;
    s.overrides = most;
    s.allow = s.deny = many;
    s.overrides_len = s.allow_len = s.deny_len = WEIR_RULE_PATTERNS_MAX;
    weir_rule *r;
    assert_int_equal(weir_rule_new(&r, store, NULL, &s, NULL), WEIR_OK);
    weir_rule_drop(r);
}

/* ---- sets ------------------------------------------------------------------------------------ */

static void check_sets(void **unused)
{
    (void)unused;
    enum { N = WEIR_RULES_MAX };
    static char names[N + 1][8];
    static weir_rule_spec specs[N + 1];
    for (int i = 0; i <= N; i++) {
        snprintf(names[i], sizeof names[i], "r%d", i * 7919 % (N + 1));
        specs[i] = WEIR_RULE_SPEC_DEFAULT;
        specs[i].name = names[i];
        specs[i].limit = "gcra 1/s";
    }
    weir_rules *rules;
    assert_int_equal(weir_rules_build(&rules, store, NULL, specs, N + 1), WEIR_E_RANGE);
    assert_int_equal(weir_rules_build(&rules, store, NULL, specs, N), WEIR_OK);
    for (int i = 0; i < N; i++) {
        const weir_rule *r = weir_rules_find(rules, names[i], strlen(names[i]));
        assert_non_null(r);
        assert_string_equal(r->name, names[i]);
    }
    assert_null(weir_rules_find(rules, names[N], strlen(names[N])));
    assert_null(weir_rules_find(rules, "", 0));
    assert_null(weir_rules_find(rules, "r", 1));
    assert_null(weir_rules_find(rules, "zzz", 3));
    assert_null(weir_rules_find(NULL, "r1", 2));
    weir_rules_drop(rules);

    /* Rules with the same policy text do not share states. */
    assert_int_equal(weir_rules_build(&rules, store, NULL, specs, 2), WEIR_OK);
    assert_true(rules->rule[0]->limit.id != rules->rule[1]->limit.id);
    assert_false(rules->remote);
    weir_rules_drop(rules);
    for (int i = 0; i < 2; i++) { /* one rule with another engine suffices */
        specs[i].engine = WEIR_ENGINE_REDIS;
        assert_int_equal(weir_rules_build(&rules, store, NULL, specs, 2), WEIR_OK);
        assert_true(rules->remote);
        weir_rules_drop(rules);
        specs[i].engine = WEIR_ENGINE_LOCAL;
    }

    specs[1].limit = "gcra";
    assert_int_equal(weir_rules_build(&rules, store, NULL, specs, 2), WEIR_E_SYNTAX);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(check_patterns),     cmocka_unit_test(check_many_lengths),
        cmocka_unit_test(check_bad_patterns), cmocka_unit_test(check_noted),
        cmocka_unit_test(check_parsed),       cmocka_unit_test(check_match),
        cmocka_unit_test(check_clients),      cmocka_unit_test(check_inline_match),
        cmocka_unit_test(check_refused),      cmocka_unit_test(check_sets),
    };
    return cmocka_run_group_tests(tests, open_store, close_store);
}
