/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* Configurations: which are refused and why, what rules they have, and how they are printed. */

#include "kit_test.h"

static const weir_rls_options plain;

/* A limit of N hits a minute. */
#define PER_MINUTE(n) .has_limit = true, .requests_per_unit = (n), .unit = WEIR_RLS_MINUTE

static void units_have_the_words_of_the_protocol(void **unused)
{
    (void)unused;
    for (int i = 1; i < WEIR_RLS_UNITS; i++)
        assert_int_equal(weir_rls_unit_read(weir_rls_unit_word((weir_rls_unit)i)), i);
    assert_int_equal(weir_rls_unit_read("Second"), WEIR_RLS_SECOND);
    assert_int_equal(weir_rls_unit_read("month"), WEIR_RLS_MONTH);
    static const char *const bad[] = {"",      "sec",  "seconds", "unknown",
                                      "MINUT", " day", "xinute",  "minutx"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        assert_int_equal(weir_rls_unit_read(bad[i]), WEIR_RLS_UNIT_UNKNOWN);
    assert_string_equal(weir_rls_unit_word(WEIR_RLS_UNIT_UNKNOWN), "UNKNOWN");
    assert_string_equal(weir_rls_unit_word(WEIR_RLS_UNITS), "UNKNOWN");
}

/* ---- errors ---------------------------------------------------------------------------------- */

/* Expects that one descriptor below the domain "d" is refused. */
static void refused(weir_rls_spec s, weir_status expected, uint32_t column, const char *text)
{
    const weir_rls_domain_spec domain = {.domain = "d", .descriptors = &s, .descriptors_len = 1};
    weir_rls_config_error e = {.column = 99};
    weir_rls_config *c = NULL;
    assert_int_equal(weir_rls_config_build(&c, NULL, &plain, &domain, 1, &e), expected);
    assert_null(c);
    assert_string_equal(e.text, text);
    assert_ptr_equal(e.domain, &domain);
    assert_ptr_equal(e.descriptor, &s);
    assert_int_equal(e.column, column);
}

static void bad_descriptors_are_refused(void **unused)
{
    (void)unused;
    static const char *const own[] = {"x", "n"}, *const empty[] = {"x", ""};
    refused((weir_rls_spec){.value = "v"}, WEIR_E_SYNTAX, 0, "descriptor has empty key");
    refused(
        (weir_rls_spec){.key = "k", .has_limit = true, .requests_per_unit = 1}, WEIR_E_SYNTAX, 0,
        "invalid rate limit unit: expected one of second, minute, hour, day, week, month, year");
    refused(
        (weir_rls_spec){
            .key = "k", .has_limit = true, .requests_per_unit = 1, .unit = WEIR_RLS_UNITS},
        WEIR_E_SYNTAX, 0,
        "invalid rate limit unit: expected one of second, minute, hour, day, week, month, year");
    refused((weir_rls_spec){.key = "k", .unlimited = true, PER_MINUTE(1)}, WEIR_E_SYNTAX, 0,
            "should not specify rate limit unit when unlimited");
    refused((weir_rls_spec){.key = "k", .has_limit = true, .unlimited = true, .policy = "gcra 1/s"},
            WEIR_E_SYNTAX, 0, "should not specify a policy when unlimited");
    refused((weir_rls_spec){.key = "k", .replaces = empty, .replaces_len = 2, PER_MINUTE(1)},
            WEIR_E_SYNTAX, 0, "should not have an empty replaces entry");
    refused(
        (weir_rls_spec){.key = "k", .name = "n", .replaces = own, .replaces_len = 2, PER_MINUTE(1)},
        WEIR_E_SYNTAX, 0, "replaces should not contain name of same descriptor");
    refused((weir_rls_spec){.key = "k", .value = "v", .share_threshold = true}, WEIR_E_SYNTAX, 0,
            "share_threshold can only be used with wildcard values (containing '*'), but found key "
            "'k_v'");
    refused((weir_rls_spec){.key = "k", .has_limit = true, .policy = "gcra 1/x"}, WEIR_E_SYNTAX, 8,
            "unknown unit 'x', expected one of ns us ms s m h d w");
    refused((weir_rls_spec){.key = "k", .has_limit = true, .policy = "leaky-queue 1/s depth 5"},
            WEIR_E_UNSUPPORTED, 1,
            "leaky-queue delays requests, but the answers of this service cannot be delayed: use "
            "gcra or leaky-bucket");
    static const char *const not_late[] = {
        "concurrent 2 lease 30s", "gcra 1/s & concurrent 2 lease 30s", "gcra 1/s & block 1m"};
    for (size_t i = 0; i < sizeof not_late / sizeof *not_late; i++)
        refused((weir_rls_spec){.key = "k", .has_limit = true, .policy = not_late[i], .late = true},
                WEIR_E_UNSUPPORTED, 1,
                "late charges what was used already, which holds no concurrent units and begins no "
                "block: use another limit");
}

/* The keys and values of a path have up to 65535 bytes, with the domain, and two for each level. */
static void texts_are_bounded(void **unused)
{
    (void)unused;
    static char text[RLS_DESCRIPTOR_MAX + 2];
    static const char why[] = "the keys and values have more than 65535 bytes";
    weir_rls_spec inner = {.key = "k", .value = text};
    const weir_rls_spec outer = {.key = "a", .descriptors = &inner, .descriptors_len = 1};
    weir_rls_domain_spec domain = {.domain = "d", .descriptors = &outer, .descriptors_len = 1};
    weir_rls_config_error e;
    weir_rls_config *c = NULL;
    for (int below = 1; below >= -1; below--) {
        size_t len = RLS_DESCRIPTOR_MAX - strlen("d.a.k_") - (size_t)below;
        memset(text, 'x', len);
        text[len] = '\0';
        weir_status st = weir_rls_config_build(&c, NULL, &plain, &domain, 1, &e);
        assert_int_equal(st, below >= 0 ? WEIR_OK : WEIR_E_RANGE);
        if (st == WEIR_OK)
            weir_rls_config_drop(c);
    }
    assert_string_equal(e.text, why);
    assert_ptr_equal(e.descriptor, &inner);
    inner = (weir_rls_spec){.key = text};
    assert_int_equal(weir_rls_config_build(&c, NULL, &plain, &domain, 1, &e), WEIR_OK);
    weir_rls_config_drop(c);
    for (size_t len = RLS_DESCRIPTOR_MAX; len <= RLS_DESCRIPTOR_MAX + 1; len++) {
        memset(text, 'x', len);
        domain = (weir_rls_domain_spec){.domain = text};
        weir_status st = weir_rls_config_build(&c, NULL, &plain, &domain, 1, &e);
        assert_int_equal(st, len == RLS_DESCRIPTOR_MAX ? WEIR_OK : WEIR_E_RANGE);
        if (st == WEIR_OK)
            weir_rls_config_drop(c);
    }
    assert_string_equal(e.text, "the name of the domain is too long");
    assert_ptr_equal(e.domain, &domain);
    assert_null(e.descriptor);
}

static void bad_domains_are_refused(void **unused)
{
    (void)unused;
    const weir_rls_spec twice[] = {{.key = "k_v"}, {.key = "k", .value = "v"}};
    const weir_rls_spec top = {.key = "a", .descriptors = twice, .descriptors_len = 2};
    const weir_rls_domain_spec list[] = {{.domain = "d", .descriptors = &top, .descriptors_len = 1},
                                         {.domain = ""}};
    weir_rls_config_error e;
    weir_rls_config *c = NULL;
    assert_int_equal(weir_rls_config_build(&c, NULL, &plain, list, 2, &e), WEIR_E_SYNTAX);
    assert_string_equal(e.text, "duplicate descriptor composite key 'd.a.k_v'");
    assert_ptr_equal(e.descriptor, &twice[1]);
    assert_int_equal(weir_rls_config_build(&c, NULL, &plain, &list[1], 1, &e), WEIR_E_SYNTAX);
    assert_string_equal(e.text, "config file cannot have empty domain");
    assert_ptr_equal(e.domain, &list[1]);
    assert_null(e.descriptor);
}

/* Descriptors of the same domain in several files are merged, and must still differ. */
static void the_same_domain_is_merged(void **unused)
{
    (void)unused;
    const weir_rls_spec a = {.key = "a", PER_MINUTE(1)}, b = {.key = "b", PER_MINUTE(2)};
    weir_rls_domain_spec list[] = {{.domain = "d", .descriptors = &a, .descriptors_len = 1},
                                   {.domain = "d", .descriptors = &b, .descriptors_len = 1}};
    activate(&plain, list, 2);
    assert_int_equal(ask("d", "a=x", 0, now_ns).requests_per_unit, 1);
    assert_int_equal(ask("d", "b=x", 0, now_ns).requests_per_unit, 2);
    list[1].descriptors = &a;
    weir_rls_config_error e;
    weir_rls_config *c;
    assert_int_equal(weir_rls_config_build(&c, NULL, &plain, list, 2, &e), WEIR_E_SYNTAX);
    assert_string_equal(e.text, "duplicate descriptor composite key 'd.a'");
    assert_ptr_equal(e.domain, &list[1]);
}

static void descriptors_nest_to_a_limit(void **unused)
{
    (void)unused;
    weir_rls_spec chain[RLS_DEPTH_MAX + 1];
    for (int i = 0; i <= RLS_DEPTH_MAX; i++)
        chain[i] = (weir_rls_spec){
            .key = "k", .descriptors = &chain[i + 1], .descriptors_len = i < RLS_DEPTH_MAX};
    chain[RLS_DEPTH_MAX - 1].has_limit = true;
    chain[RLS_DEPTH_MAX - 1].policy = "gcra 1/s";
    weir_rls_domain_spec domain = {.domain = "d", .descriptors = chain, .descriptors_len = 1};
    weir_rls_config_error e;
    weir_rls_config *c;
    assert_int_equal(weir_rls_config_build(&c, NULL, &plain, &domain, 1, &e), WEIR_E_RANGE);
    assert_ptr_equal(e.descriptor, &chain[RLS_DEPTH_MAX]);
    chain[RLS_DEPTH_MAX - 1].descriptors_len = 0;
    activate(&plain, &domain, 1);
    weir_rls_entry entry[RLS_DEPTH_MAX];
    for (int i = 0; i < RLS_DEPTH_MAX; i++)
        entry[i] = (weir_rls_entry){text_of("k"), text_of("v")};
    kit_request r;
    begin(&r, "d", 0)->descriptor[0] =
        (weir_rls_descriptor){.entries = entry, .entries_len = RLS_DEPTH_MAX};
    r.request.descriptors_len = 1;
    assert_true(decide(&r, now_ns).statuses[0].has_limit);
}

static weir_status build_limits(size_t n, weir_rls_config **ret, weir_rls_config_error *e)
{
    static char keys[WEIR_RLS_LIMITS_MAX + 1][8];
    static weir_rls_spec specs[WEIR_RLS_LIMITS_MAX + 1];
    for (size_t i = 0; i < n; i++) {
        snprintf(keys[i], sizeof keys[i], "k%zu", i);
        specs[i] = (weir_rls_spec){.key = keys[i], PER_MINUTE(1)};
    }
    static weir_rls_domain_spec domain = {.domain = "d", .descriptors = specs};
    domain.descriptors_len = n;
    weir_status st = weir_rls_config_build(ret, NULL, &plain, &domain, 1, e);
    assert_ptr_equal(st == WEIR_OK ? &domain : e->domain, &domain);
    return st;
}

static void limits_are_counted(void **unused)
{
    (void)unused;
    weir_rls_config *c;
    weir_rls_config_error e;
    weir_rules *rules;
    size_t n;
    assert_int_equal(build_limits(WEIR_RLS_LIMITS_MAX + 1, &c, &e), WEIR_E_RANGE);
    assert_string_equal(e.text, "the configuration has 8193 limits, expected at most 8192");
    assert_int_equal(build_limits(WEIR_RLS_LIMITS_MAX, &c, &e), WEIR_OK);
    const weir_rule_spec *specs = weir_rls_config_rules(c, &n);
    assert_int_equal(weir_rls_config_limits(c), WEIR_RLS_LIMITS_MAX);
    assert_int_equal(n, WEIR_RLS_LIMITS_MAX);
    assert_int_equal(weir_rules_build(&rules, store, NULL, specs, n), WEIR_OK);
    weir_limiter_set_rules(limiter, rules);
    weir_rls_activate(rls, c);
    assert_true(ask("d", "k8191=x", 0, now_ns).has_limit);
    assert_false(ask("d", "k8192=x", 0, now_ns).has_limit);
}

/* ---- rules ----------------------------------------------------------------------------------- */

/* Expects the names and texts of the rules of a configuration. */
static void expect_rules(const weir_rls_options *options, const weir_rls_domain_spec *list,
                         size_t n, const char *const (*expected)[2], size_t rules)
{
    weir_rls_config *c;
    weir_rls_config_error e;
    size_t len;
    assert_int_equal(weir_rls_config_build(&c, NULL, options, list, n, &e), WEIR_OK);
    const weir_rule_spec *rule = weir_rls_config_rules(c, &len);
    assert_int_equal(len, rules);
    for (size_t i = 0; i < len; i++) {
        assert_string_equal(rule[i].name, expected[i][0]);
        assert_string_equal(rule[i].limit, expected[i][1]);
        assert_true(rule[i].plain_keys);
        assert_false(rule[i].shadow);
        assert_int_equal(rule[i].v4_bits, WEIR_RULE_SPEC_DEFAULT.v4_bits);
        assert_int_equal(rule[i].engine, options->engine);
        assert_int_equal(rule[i].on_error, options->on_error);
    }
    weir_rls_config_drop(c);
}

static void each_unit_has_a_policy(void **unused)
{
    (void)unused;
    static const char *const units[] = {"second", "minute", "hour", "day", "month", "year", "week"};
    static const char *const keys[] = {"s", "m", "h", "d", "mo", "y", "w"};
    weir_rls_spec specs[7];
    for (int i = 0; i < 7; i++)
        specs[i] = (weir_rls_spec){.key = keys[i],
                                   .has_limit = true,
                                   .requests_per_unit = i == 6 ? UINT32_MAX : 7,
                                   .unit = weir_rls_unit_read(units[i])};
    const weir_rls_domain_spec domain = {.domain = "d", .descriptors = specs, .descriptors_len = 7};
    static const char *const counting[][2] = {
        {"d.s", "fixed-window 7/s count-denied"},
        {"d.m", "fixed-window 7/m count-denied"},
        {"d.h", "fixed-window 7/h count-denied"},
        {"d.d", "fixed-window 7/d count-denied"},
        {"d.mo", "fixed-window 7/30d count-denied"},
        {"d.y", "fixed-window 7/365d count-denied"},
        {"d.w", "fixed-window 2147483647/7d count-denied"},
    };
    expect_rules(&plain, &domain, 1, counting, 7);
    static const char *const calendar[][2] = {
        {"d.s", "fixed-window 7/s"},           {"d.m", "fixed-window 7/m"},
        {"d.h", "fixed-window 7/h"},           {"d.d", "fixed-window 7/d"},
        {"d.mo", "fixed-window 7/month"},      {"d.y", "fixed-window 7/year"},
        {"d.w", "fixed-window 2147483647/7d"},
    };
    const weir_rls_options options = {.calendar = true,
                                      .stop_when_over = true,
                                      .engine = WEIR_ENGINE_REDIS,
                                      .on_error = WEIR_ON_ERROR_CLOSED};
    expect_rules(&options, &domain, 1, calendar, 7);
}

/* A name that is too long, has other bytes or is not the only one of its kind ends in a hash.
 * Limits without a state have no rule. */
static void rules_have_different_valid_names(void **unused)
{
    (void)unused;
    const weir_rls_spec inner = {.key = "b", PER_MINUTE(1)};
    const weir_rls_spec specs[] = {
        {.key = "a", .descriptors = &inner, .descriptors_len = 1},
        {.key = "a.b", PER_MINUTE(1)},
        {.key = "path", .value = "/x y*", PER_MINUTE(1)},
        {.key = "a-key-of-many-bytes",
         .value = "and-a-value-of-even-more-bytes-than-that-one",
         PER_MINUTE(1)},
        {.key = "zero", PER_MINUTE(0)},
        {.key = "free", .has_limit = true, .unlimited = true},
        {.key = "plain", .value = "v", .has_limit = true, .policy = "gcra 5/s"},
    };
    const weir_rls_domain_spec list[] = {
        {.domain = "d", .descriptors = specs, .descriptors_len = 7},
        {.domain = "d.a", .descriptors = &inner, .descriptors_len = 1}};
    weir_rls_config *c;
    weir_rls_config_error e;
    size_t n;
    assert_int_equal(weir_rls_config_build(&c, NULL, &plain, list, 2, &e), WEIR_OK);
    const weir_rule_spec *rule = weir_rls_config_rules(c, &n);
    static const char *const begins[] = {
        "d.a.b-",        "d.a.b-",
        "d.path_/x_y_-", "d.a-key-of-many-bytes_and-a-value-of-even-more-bytes-th-",
        "d.plain_v",     "d.a.b-"};
    assert_int_equal(n, 6);
    for (size_t i = 0; i < n; i++) {
        size_t len = strlen(begins[i]);
        assert_memory_equal(rule[i].name, begins[i], len);
        assert_int_equal(strlen(rule[i].name), i == 4 ? len : len + 8);
        assert_int_equal(weir_rule_name_check(rule[i].name, strlen(rule[i].name), NULL), WEIR_OK);
        for (size_t k = 0; k < i; k++)
            assert_string_not_equal(rule[i].name, rule[k].name);
    }
    /* Without the others, the name is the plain one; its own hash does not depend on them. */
    char hashed[WEIR_RULE_NAME_MAX + 1];
    snprintf(hashed, sizeof hashed, "%s", rule[2].name);
    weir_rls_config_drop(c);
    const weir_rls_domain_spec alone = {
        .domain = "d", .descriptors = &specs[1], .descriptors_len = 2};
    const char *const expected[][2] = {{"d.a.b", "fixed-window 1/m count-denied"},
                                       {hashed, "fixed-window 1/m count-denied"}};
    expect_rules(&plain, &alone, 1, expected, 2);
}

/* The hash of a name never changes, since the state of the limit would be lost. If two hashes are
 * equal, the second limit gets another one. */
static void names_of_rules_are_stable(void **unused)
{
    (void)unused;
#define LONG "0123456789_123456789_123456789_123456789_123456789_123456789_"
    const weir_rls_spec inner = {.key = "b", PER_MINUTE(1)};
    const weir_rls_spec specs[] = {
        {.key = LONG "414", PER_MINUTE(1)},
        {.key = LONG "61364", PER_MINUTE(1)},
        {.key = LONG "99628", PER_MINUTE(1)},
        {.key = LONG "82128", PER_MINUTE(1)},
        {.key = LONG "8572670", PER_MINUTE(1)}, /* equals the second hash of the one before */
        {.key = "\x80\x7f~ -_.:/azAZ09\xff", PER_MINUTE(1)},
        {.key = "a.b", PER_MINUTE(1)},
        {.key = "a", .descriptors = &inner, .descriptors_len = 1},
        {.key = "0123456789_123456789_123456789_123456789_123456789_123456789_1", PER_MINUTE(1)},
        {.key = "0123456789_123456789_123456789_123456789_123456789_123456789_12", PER_MINUTE(1)},
    };
    const weir_rls_domain_spec list[] = {
        {.domain = "d", .descriptors = specs, .descriptors_len = 10},
        {.domain = "d.a", .descriptors = &inner, .descriptors_len = 1}};
    static const char *const names[] = {
        "d.0123456789_123456789_123456789_123456789_123456789_12-3b827532",
        "d.0123456789_123456789_123456789_123456789_123456789_12-b5d12b3e",
        "d.0123456789_123456789_123456789_123456789_123456789_12-606234c1",
        "d.0123456789_123456789_123456789_123456789_123456789_12-7f5584ae",
        "d.0123456789_123456789_123456789_123456789_123456789_12-61a44a7c",
        "d.____-_.:/azAZ09_-410ffb10",
        "d.a.b-03db95c2",
        "d.a.b-5d98d0eb",
        "d.0123456789_123456789_123456789_123456789_123456789_123456789_1",
        "d.0123456789_123456789_123456789_123456789_123456789_12-68af8c6c",
        "d.a.b-81b88f7f"};
    weir_rls_config *c;
    weir_rls_config_error e;
    size_t n;
    assert_int_equal(weir_rls_config_build(&c, NULL, &plain, list, 2, &e), WEIR_OK);
    const weir_rule_spec *rules = weir_rls_config_rules(c, &n);
    assert_int_equal(n, 11);
    for (size_t i = 0; i < n; i++)
        assert_string_equal(rules[i].name, names[i]);
    weir_rls_config_drop(c);
}

/* ---- policies -------------------------------------------------------------------------------- */

/* A fixed window has an end before its first hit; other policies, or several, have none. */
static void windows_of_policies(void **unused)
{
    (void)unused;
    static const struct {
        const char *policy;
        int64_t reset_s; /* at 00:01:10 on 3 February 2026 */
    } rows[] = {
        {"fixed-window 4/m", 50},
        {"fixed-window 4/90s", 20},
        {"fixed-window 4/month", 26 * 86400 - 70},
        {"fixed-window 4/day", 86400 - 70},
        {"fixed-window 4/m from-first", 0},
        {"sliding-log 4/m", 0},
        {"sliding-counter 4/m", 0},
        {"gcra 4/m", 0},
        {"fixed-window 4/m & fixed-window 9/d", 0},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        const weir_rls_spec spec = {.key = "k", .has_limit = true, .policy = rows[i].policy};
        activate_one(&plain, &spec, 1);
        kit_request r;
        add(begin(&r, "d", 0), "k=v")->has_hits = true;
        int64_t at_ns = now_ns + (33 * 86400 + 70) * s_ns;
        assert_int_equal(decide(&r, at_ns).statuses[0].reset_ns, rows[i].reset_s * s_ns);
    }
}

/* Denied hits count if those of one layer do: then nothing can be given back. */
static void layers_that_count_denied_hits(void **unused)
{
    (void)unused;
    static const struct {
        const char *policy;
        bool counts;
    } rows[] = {
        {"fixed-window 3/d", false},
        {"fixed-window 3/d count-denied", true},
        {"fixed-window 3/h & fixed-window 9/d", false},
        {"fixed-window 3/h count-denied & fixed-window 9/d", true},
        {"fixed-window 3/h & fixed-window 9/d count-denied", true},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        const weir_rls_spec spec = {.key = "k", .has_limit = true, .policy = rows[i].policy};
        activate_one(&plain, &spec, 1);
        kit_request r;
        add(begin(&r, "d", 1), "k=v")->negative = true;
        assert_int_equal(decide(&r, now_ns).failure,
                         rows[i].counts ? WEIR_RLS_REFUSED : WEIR_RLS_ANSWERED);
    }
}

/* Names have ids: whichever limit replaces a name, all limits with the name are replaced. */
static void names_are_replaced(void **unused)
{
    (void)unused;
    static const char *const two[] = {"first", "third"}, *const one[] = {"second", "none", "last"};
    const weir_rls_spec specs[] = {
        {.key = "a", .name = "first", PER_MINUTE(5)},
        {.key = "b", .name = "second", PER_MINUTE(5)},
        {.key = "c", .name = "third", PER_MINUTE(5)},
        {.key = "x", .name = "x", .replaces = two, .replaces_len = 2, PER_MINUTE(5)},
        {.key = "y", .replaces = one, .replaces_len = 3, PER_MINUTE(5)}};
    static const char *const texts[] = {"a=v", "b=v", "c=v", "x=v", "y=v"};
    activate_one(&plain, specs, 5);
    for (size_t by = 3; by < 5; by++) {
        kit_request r;
        begin(&r, "d", 0);
        for (size_t i = 0; i < 3; i++)
            add(&r, texts[i]);
        add(&r, texts[by]);
        weir_rls_response response = decide(&r, now_ns);
        for (size_t i = 0; i < 3; i++)
            assert_int_equal(response.statuses[i].has_limit, by == 3 ? i == 1 : i != 1);
        assert_true(response.statuses[3].has_limit);
    }
}

/* ---- printing -------------------------------------------------------------------------------- */

static void limits_are_printed_as_the_reference_does(void **unused)
{
    (void)unused;
    const weir_rls_spec inner = {.key = "ip", .shadow_mode = true, PER_MINUTE(10)};
    const weir_rls_spec specs[] = {
        {.key = "k",
         .value = "v:1",
         .descriptors = &inner,
         .descriptors_len = 1,
         .quota_mode = true,
         PER_MINUTE(5)},
        {.key = "u", .has_limit = true, .unlimited = true},
        {.key = "p", .has_limit = true, .policy = "gcra 7/s burst 2"},
        {.key = "q", .has_limit = true, .policy = "sliding-log 7/90s"},
    };
    const weir_rls_domain_spec domain = {.domain = "d", .descriptors = specs, .descriptors_len = 4};
    weir_rls_config *c;
    weir_rls_config_error e;
    weir_buffer out;
    weir_buffer_init(&out, 4096);
    assert_int_equal(weir_rls_config_build(&c, NULL, &plain, &domain, 1, &e), WEIR_OK);
    weir_rls_config_print(c, &out);
    weir_buffer_append(&out, "", 1);
    assert_string_equal(
        (const char *)weir_buffer_data(&out),
        "d.k_v:1: unit=MINUTE requests_per_unit=5, shadow_mode: false, quota_mode: true\n"
        "d.k_v:1.ip: unit=MINUTE requests_per_unit=10, shadow_mode: true, quota_mode: false\n"
        "d.u: unit=UNKNOWN requests_per_unit=0, shadow_mode: false, quota_mode: false\n"
        "d.p: unit=SECOND requests_per_unit=7, shadow_mode: false, quota_mode: false, "
        "weir: gcra 7/s burst 2\n"
        "d.q: unit=UNKNOWN requests_per_unit=0, shadow_mode: false, quota_mode: false, "
        "weir: sliding-log 7/90s\n");
    weir_buffer_free(&out);
    weir_rls_config_drop(c);
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, rls_setup, rls_teardown)
    const struct CMUnitTest tests[] = {
        TEST(units_have_the_words_of_the_protocol),
        TEST(bad_descriptors_are_refused),
        TEST(texts_are_bounded),
        TEST(bad_domains_are_refused),
        TEST(the_same_domain_is_merged),
        TEST(descriptors_nest_to_a_limit),
        TEST(limits_are_counted),
        TEST(each_unit_has_a_policy),
        TEST(rules_have_different_valid_names),
        TEST(names_of_rules_are_stable),
        TEST(windows_of_policies),
        TEST(layers_that_count_denied_hits),
        TEST(names_are_replaced),
        TEST(limits_are_printed_as_the_reference_does),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
