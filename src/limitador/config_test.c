/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* Building limits: the names of their rules, and what is reported about them. */

#include "kit_test.h"

static void test_rule_names(void **unused)
{
    weir_limitador_limit limits[] = {limit_of(1, 1), limit_of(1, 2), limit_of(1, 3), limit_of(1, 4),
                                     limit_of(1, 5)};
    const char *const expected[] = {"ns:a", "ns:id", "ns:a-", "ns:", "ns:a_b-"};
    size_t n;
    (void)unused;
    limits[0].name = limits[2].name = "a";
    limits[0].id = limits[1].id = "id";
    limits[4].name = "a b";
    weir_limitador_config *c = built(limits, 5);
    const weir_rule_spec *rules = weir_limitador_config_rules(c, &n);
    assert_int_equal(n, 5);
    for (size_t i = 0; i < n; i++) {
        bool hashed = expected[i][strlen(expected[i]) - 1] == (i == 3 ? ':' : '-');
        assert_memory_equal(rules[i].name, expected[i], strlen(expected[i]));
        assert_int_equal(strlen(rules[i].name), strlen(expected[i]) + (hashed ? 8 : 0));
        assert_int_equal(weir_rule_name_check(rules[i].name, strlen(rules[i].name), NULL), WEIR_OK);
    }
    assert_string_equal(rules[4].limit, "fixed-window 1/5s from-first");
    for (size_t i = 0; i < n; i++)
        assert_true(rules[i].plain_keys);
    weir_limitador_config_drop(c);
}

static void test_problems(void **unused)
{
    const char *const old[] = {"descriptors[0].a == 'b'", "req.method == 'GET'"}, *const bad[] = {
                                                                                      "1 +"};
    weir_limitador_limit limits[] = {limit_of(1, 1), limit_of(2, 1), limit_if(1, 1, old)};
    const weir_limitador_options options = {.headers = false};
    weir_limitador_config *c = NULL;
    (void)unused;
    limits[2].conditions_len = 2;
    weir_limitador_config_drop(built(limits, 3));
    assert_int_equal(problems_len, 2);
    assert_true(problems[0].warning && problems[1].warning);
    assert_int_equal(problems[0].limit, 1);
    assert_int_equal(problems[1].limit, 2);
    assert_int_equal(problems[1].part, WEIR_LIMITADOR_CONDITION);
    assert_int_equal(problems[1].index, 1);
    assert_string_equal(problems[1].text,
                        "the limit never applies, because requests have no 'req'; write "
                        "descriptors[0]['req'] for an entry of the first descriptor");
    limits[0].variables = bad;
    limits[0].variables_len = 1;
    limits[1].seconds = WEIR_LIMITADOR_SECONDS_MAX + UINT64_C(1);
    problems_len = 0;
    assert_int_equal(weir_limitador_config_build(&c, &options, limits, 2, keep_problem, NULL),
                     WEIR_E_SYNTAX);
    assert_int_equal(problems_len, 2);
    assert_int_equal(problems[0].part, WEIR_LIMITADOR_VARIABLE);
    assert_int_equal(problems[0].column, 4);
    assert_int_equal(problems[1].part, WEIR_LIMITADOR_SECONDS);
    assert_string_equal(problems[1].text, "expected at most 1152921504, found 1152921505");
    assert_null(c);
}

/* The rules of some limits. */
static void check_rules(const weir_limitador_limit *limits, size_t n, const char *const *names)
{
    weir_limitador_config *c = built(limits, n);
    size_t rules;
    const weir_rule_spec *rule = weir_limitador_config_rules(c, &rules);
    assert_int_equal(rules, n);
    assert_int_equal(problems_len, 0);
    for (size_t i = 0; i < n; i++)
        assert_string_equal(rule[i].name, names[i]);
    weir_limitador_config_drop(c);
}

/* The hash of a name never changes, since the state of the limit would be lost. It depends on the
 * namespace, the window, the conditions and the variables, in any order. */
static void test_hashes(void **unused)
{
    static const char *const conditions[] = {"descriptors[0].b == '1'", "descriptors[0].a == '2'"};
    static const char *const sorted[] = {"descriptors[0].a == '2'", "descriptors[0].b == '1'"};
    static const char *const variables[] = {"descriptors[0].d", "descriptors[0].c"};
    static const char *const names[] = {"ns:a94fc906", "ns:2bdbc4b6", "ns:416da4bd",
                                        "ns:422c296d", "ns:e46b03c2", "other:f93e3800"};
    weir_limitador_limit limits[6];
    (void)unused;
    for (size_t i = 0; i < 6; i++)
        limits[i] = (weir_limitador_limit){.name_space = i == 5 ? "other" : "ns",
                                           .max_value = 1,
                                           .seconds = i == 4 ? 61 : 60,
                                           .conditions = conditions,
                                           .conditions_len = i == 1 || i >= 3 ? 2 : 0,
                                           .variables = variables,
                                           .variables_len = i >= 2 ? 2 : 0};
    check_rules(limits, 6, names);
    limits[1].conditions = sorted;
    limits[1].max_value = 9;
    limits[1].conditions_len = 2;
    check_rules(limits, 6, names);
}

/* Limits with the same hash are not the same limit. */
static void test_equal_hashes(void **unused)
{
    static const char *const first[] = {"descriptors[0].lqiqEblazkCtn"};
    static const char *const second[] = {"descriptors[0].EuxunEjjnrweg"};
    static const char *const names[] = {"ns:79f58035", "ns:79f58035-79f58035"};
    const weir_limitador_limit limits[] = {limit_by(1, 60, first), limit_by(1, 60, second),
                                           limit_by(2, 60, first)};
    (void)unused;
    check_rules(limits, 2, names);
    weir_limitador_config_drop(built(limits, 3));
    assert_int_equal(problems_len, 1);
    assert_int_equal(problems[0].limit, 2);
}

/* Names of up to 64 bytes are kept, longer ones are cut. A name that another limit has already gets
 * the hash, even if it looks like one with a hash. */
static void test_long_and_equal_names(void **unused)
{
#define TEN   "0123456789"
#define FIFTY TEN TEN TEN TEN TEN
    static const char *const names[] = {"ns:" FIFTY TEN "a", "ns:" FIFTY "01-e5ea6e81", "ns:a",
                                        "ns:a-590d549f", "ns:a-590d549f-9736dec2"};
    weir_limitador_limit limits[5];
    (void)unused;
    for (size_t i = 0; i < 5; i++)
        limits[i] = limit_of(1, 60 + i);
    limits[0].name = FIFTY TEN "a";
    limits[1].name = FIFTY TEN "ab";
    limits[2].name = limits[3].name = "a";
    limits[4].name = "a-590d549f";
    check_rules(limits, 5, names);
}

static void test_an_error_before_a_good_limit(void **unused)
{
    static const char *const bad[] = {"1 +"}, *const good[] = {"true"};
    weir_limitador_limit limits[] = {limit_of(1, 1), limit_of(1, 2)};
    const weir_limitador_options options = {.headers = false};
    weir_limitador_config *c = NULL;
    (void)unused;
    limits[0].conditions = bad;
    limits[1].conditions = good;
    limits[0].conditions_len = limits[1].conditions_len = 1;
    assert_int_equal(weir_limitador_config_build(&c, &options, limits, 2, NULL, NULL),
                     WEIR_E_SYNTAX); /* a good limit after the bad one does not help */
    assert_null(c);
}

/* A long name is cut in the message. */
static void test_long_unknown_names(void **unused)
{
    static const char *const names[] = {"n" FIFTY TEN "abcde"}, *const last[] = {"n" FIFTY TEN
                                                                                 "ab + other"};
    const weir_limitador_limit limits[] = {limit_by(1, 60, names), limit_by(1, 60, last)};
    (void)unused;
    weir_limitador_config_drop(built(limits, 2));
    assert_int_equal(problems_len, 2);
    assert_string_equal(problems[1].text,
                        "the limit never applies, because requests have no 'n" FIFTY TEN
                        "ab'; write descriptors[0]['n" FIFTY TEN
                        "ab'] for an entry of the first descriptor");
    assert_int_equal(problems[0].part, WEIR_LIMITADOR_VARIABLE);
    assert_string_equal(problems[0].text,
                        "the limit never applies, because requests have no 'n" FIFTY TEN
                        "abc'; write descriptors[0]['n" FIFTY TEN
                        "abc'] for an entry of the first descriptor");
}

static void test_number_of_limits(void **unused)
{
    static weir_limitador_limit limits[WEIR_LIMITADOR_LIMITS_MAX + 1];
    const weir_limitador_options options = {.headers = false};
    weir_limitador_config *c = NULL;
    (void)unused;
    for (size_t i = 0; i <= WEIR_LIMITADOR_LIMITS_MAX; i++)
        limits[i] = limit_of(0, i); /* no rules */
    assert_int_equal(weir_limitador_config_build(&c, &options, limits,
                                                 WEIR_LIMITADOR_LIMITS_MAX + 1, NULL, NULL),
                     WEIR_E_FULL);
    assert_null(c);
    assert_int_equal(
        weir_limitador_config_build(&c, &options, limits, WEIR_LIMITADOR_LIMITS_MAX, NULL, NULL),
        WEIR_OK);
    weir_limitador_config_drop(c);
}

static void list_limit(void *ctx, const weir_limitador_view *limit)
{
    char *text = ctx;
    size_t at = strlen(text);
    snprintf(text + at, 64 - at, "%s:%s ", limit->limit.name_space, limit->limit.name);
}

/* Namespaces are found whatever their order, and their limits are in that of the file. */
static void test_namespaces(void **unused)
{
    static const char *const spaces[] = {"b", "ab", "a", "b", "abc", "a", "a"};
    static const char *const names[] = {"1", "2", "3", "4", "5", "6", "7"};
    static const char *const expected[][2] = {
        {"a", "a:3 a:6 a:7 "}, {"ab", "ab:2 "}, {"abc", "abc:5 "},
        {"b", "b:1 b:4 "},     {"", ""},        {"aa", ""},
        {"abcd", ""},          {"c", ""}};
    weir_limitador_limit limits[7];
    (void)unused;
    for (size_t i = 0; i < 7; i++) {
        limits[i] = limit_of(1, 60 + i);
        limits[i].name_space = spaces[i];
        limits[i].name = names[i];
    }
    weir_limitador_config *c = built(limits, 7);
    for (size_t i = 0; i < sizeof expected / sizeof expected[0]; i++) {
        char text[64] = "";
        weir_limitador_config_limits(c, text_of(expected[i][0]), list_limit, text);
        assert_string_equal(text, expected[i][1]);
    }
    weir_limitador_config_drop(c);
}

static void test_engines(void **unused)
{
    const weir_limitador_limit limits[] = {limit_of(1, 60), limit_of(UINT64_MAX, 61)};
    const weir_limitador_options options = {.engine = WEIR_ENGINE_REDIS,
                                            .on_error = WEIR_ON_ERROR_CLOSED};
    weir_limitador_config *c;
    size_t n;
    (void)unused;
    assert_int_equal(weir_limitador_config_build(&c, &options, limits, 2, NULL, NULL), WEIR_OK);
    const weir_rule_spec *rules = weir_limitador_config_rules(c, &n);
    for (size_t i = 0; i < 2; i++) {
        assert_int_equal(rules[i].engine, WEIR_ENGINE_REDIS);
        assert_int_equal(rules[i].on_error, WEIR_ON_ERROR_CLOSED);
    }
    assert_string_equal(rules[1].limit, "fixed-window 2147483647/61s from-first");
    weir_limitador_config_set_engine(c, WEIR_ENGINE_HYBRID);
    for (size_t i = 0; i < 2; i++)
        assert_int_equal(rules[i].engine, WEIR_ENGINE_HYBRID);
    weir_limitador_config_hold(c);
    weir_limitador_config_drop(c);
    assert_int_equal(weir_limitador_config_rules(c, &n)[0].engine, WEIR_ENGINE_HYBRID);
    weir_limitador_config_drop(c);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, open_all, close_all)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_rule_names),
        TEST(test_problems),
        TEST(test_hashes),
        TEST(test_equal_hashes),
        TEST(test_long_and_equal_names),
        TEST(test_an_error_before_a_good_limit),
        TEST(test_long_unknown_names),
        TEST(test_number_of_limits),
        TEST(test_namespaces),
        TEST(test_engines),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
