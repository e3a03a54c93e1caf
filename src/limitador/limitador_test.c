/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* limitador's limits, on a store: matching, counters, the three verbs, headers, counts, reloads.
 * The expected answers are limitador's. */

#include "kit_test.h"

static const char *const by_user[] = {"descriptors[0].user"};
static const char *const if_post[] = {"descriptors[0]['method'] == 'POST'"};

/* ---- scenes ---------------------------------------------------------------------------------- */

/* The window begins at the first hit, not at a multiple of its length. */
static void test_window_from_first(void **unused)
{
    const weir_limitador_limit limits[] = {limit_of(2, 10)};
    (void)unused;
    USE(limits);
    at_ns = now_ns + 7 * s_ns;
    TAKES(alice, 1, "110");
    at_ns += 10 * s_ns - 1;
    TAKES(alice, 1, "0");
    at_ns += 1;
    TAKES(alice, 1, "110");
}

/* A denied request charges no counter: neither the one that denies nor another. */
static void test_all_or_none(void **unused)
{
    weir_limitador_limit limits[] = {limit_of(5, 60), limit_by(2, 60, by_user)};
    (void)unused;
    limits[0].name = "all";
    USE(limits);
    TAKES(alice, 1, "11000");
    TAKES(bob, 1, "110");
    TAKES(bob, 3, "0");
    assert_int_equal(left("ns:all", "*", at_ns), 1);
}

static void test_conditions(void **unused)
{
    const char *const two[] = {"descriptors[0].method == 'POST'", "descriptors[0].user == 'alice'"};
    weir_limitador_limit limits[] = {limit_if(1, 60, if_post), limit_if(0, 60, two)};
    (void)unused;
    limits[1].conditions_len = 2; /* bob meets one of them, and so does alice */
    USE(limits);
    TAKES(alice, 1, "1111");
    TAKES(bob, 1, "10");
}

/* An expression may use the id and the name of its limit. */
static void test_limit_in_conditions(void **unused)
{
    const char *const id[] = {"limit.id == 'i' && limit.name == 'n'"};
    weir_limitador_limit limits[] = {limit_if(1, 60, id), limit_if(2, 61, id), limit_if(3, 62, id)};
    (void)unused;
    limits[0].name = limits[1].name = "n";
    limits[1].id = limits[2].id = "i";
    USE(limits);
    TAKES(alice, 1, "110");
}

/* A missing key makes a condition false and a limit with the variable inapplicable. */
static void test_absent_keys(void **unused)
{
    const char *const role[] = {"descriptors[0].role"}, *const admin[] = {
                                                            "descriptors[0].role != 'admin'"};
    const weir_limitador_limit limits[] = {limit_if(1, 60, admin), limit_by(1, 60, role)};
    (void)unused;
    USE(limits);
    TAKES(alice, 1, "1111");
    assert_int_equal(response.headers_len, 0);
}

static void test_expressions_without_value(void **unused)
{
    const char *const second[] = {"descriptors[1].user == 'alice'"};
    const weir_limitador_limit limits[] = {limit_if(1, 60, second)};
    const weir_rls_descriptor d = {.entries = alice, .entries_len = 2};
    const weir_rls_request r = {.domain = text_of("ns"), .descriptors = &d, .descriptors_len = 1};
    (void)unused;
    USE(limits);
    assert_true(weir_limitador_decide(loop, NULL, &r, &response, at_ns));
    assert_int_equal(response.failure, WEIR_RLS_UNAVAILABLE);
    assert_string_equal(response.why,
                        "a condition or a variable of a limit has no value for this request");
}

static void test_check_charges_nothing(void **unused)
{
    const weir_limitador_limit limits[] = {limit_of(2, 60)};
    (void)unused;
    USE(limits);
    CHECKS(alice, 1, "1111");
    CHECKS(alice, 2, "1");
    CHECKS(alice, 3, "0");
    TAKES(alice, 2, "1");
    CHECKS(alice, 1, "0");
    CHECKS(alice, 0, "1");
}

/* A report counts all hits, also those above the limit. */
static void test_report(void **unused)
{
    weir_limitador_limit limits[] = {limit_of(5, 60), limit_by(9, 60, by_user)};
    (void)unused;
    limits[1].name = "user";
    USE(limits);
    REPORTS(alice, 3, "111");
    CHECKS(alice, 1, "0");
    at_ns += 60 * s_ns;
    CHECKS(alice, 5, "1");
    REPORTS(alice, 6, "1");
    CHECKS(bob, 1, "0");
    assert_int_equal(left("ns:user", "alice", at_ns), 3);
    at_ns += 60 * s_ns;
    REPORTS(bob, 4, "1");
    REPORTS(bob, 1, "1");
    CHECKS(bob, 0, "1");      /* the first counter is full */
    REPORTS(alice, 100, "1"); /* above both limits */
    CHECKS(bob, 0, "0");
    TAKES(bob, 0, "0");
    CHECKS(bob, 1, "0");
    assert_int_equal(left("ns:user", "alice", at_ns), 0);
    at_ns += 60 * s_ns;
    CHECKS(alice, 5, "1");
}

/* With a 0, a limit has no state, and decides by the delta alone. */
static void test_zeros(void **unused)
{
    const char *const post[] = {"descriptors[0].method == 'POST'"};
    weir_limitador_limit limits[] = {limit_if(0, 60, post), limit_of(3, 0), limit_of(9, 60)};
    size_t rules;
    (void)unused;
    USE(limits);
    (void)weir_limitador_config_rules(weir_limitador_loop_config(loop), &rules);
    assert_int_equal(rules, 1);
    TAKES(bob, 1, "0");
    check_headers("0, 0;w=60, 3;w=0, 9;w=60", "0", "0");
    TAKES(bob, 0, "1");
    CHECKS(bob, 1, "0");
    CHECKS(bob, 0, "1");
    TAKES(alice, 4, "0");
    TAKES(alice, 3, "1110");
    CHECKS(alice, 3, "0");
    use(&limits[1], 1);
    TAKES(alice, 1, "1");
    check_headers("3, 3;w=0", "2", "0");
    limits[0] = limit_of(5, 61); /* with what is left, equal limits keep their order */
    limits[1] = limit_of(0, 60);
    limits[2] = limit_of(5, 62);
    USE(limits);
    TAKES(alice, 1, "0");
    use(&limits[2], 1);
    limits[1] = limit_of(9, 63);
    USE(limits);
    TAKES(alice, 1, "1");
    check_headers("5, 5;w=61, 5;w=62, 9;w=63", "4", "61");
}

static void test_large_numbers(void **unused)
{
    const weir_limitador_limit limits[] = {limit_of(UINT64_MAX, WEIR_LIMITADOR_SECONDS_MAX)};
    (void)unused;
    USE(limits);
    TAKES(alice, 1, "1");
    check_headers("18446744073709551615, 18446744073709551615;w=1152921504", "18446744073709551614",
                  "1152921504");
    TAKES(alice, UINT64_MAX, "0");
    TAKES(alice, WEIR_LIMIT_MAX - 1, "1");
    check_headers("18446744073709551615, 18446744073709551615;w=1152921504", "0", "1152921504");
    CHECKS(alice, 1, "0");
}

/* A request of more hits than a counter can count is denied, and charges nothing. */
static void test_large_deltas(void **unused)
{
    const weir_limitador_limit both[] = {limit_of(UINT64_MAX, 62), limit_of(1, 61)};
    const weir_limitador_limit limits[] = {limit_of(WEIR_LIMIT_MAX, 60), limit_of(UINT64_MAX, 0)};
    (void)unused;
    use(limits, 1);
    CHECKS(alice, (uint64_t)WEIR_LIMIT_MAX + 1, "0");
    TAKES(alice, (uint64_t)WEIR_LIMIT_MAX + 1, "0");
    TAKES(alice, WEIR_LIMIT_MAX, "1");
    check_headers("2147483647, 2147483647;w=60", "0", "60");
    USE(both); /* a denied request is shown as charged, so that both are full, in their order */
    TAKES(alice, WEIR_LIMIT_MAX, "0");
    check_headers("18446744073709551615, 18446744073709551615;w=62, 1;w=61", "0", "0");
    use(limits + 1, 1); /* it has no counter */
    TAKES(alice, UINT64_MAX - 1, "1");
    check_headers("18446744073709551615, 18446744073709551615;w=0", "1", "0");
}

static void test_headers(void **unused)
{
    weir_limitador_limit limits[] = {limit_of(9, 60), limit_by(3, 10, by_user)};
    (void)unused;
    limits[1].name = "a \"gold\" user\n";
    USE(limits);
    TAKES(alice, 1, "1");
    check_headers("3, 3;w=10;name=\"a 'gold' user \", 9;w=60", "2", "10");
    at_ns += 5 * s_ns - 1;
    TAKES(alice, 3, "0");
    check_headers("3, 3;w=10;name=\"a 'gold' user \", 9;w=60", "0", "6");
    TAKES(bob, 3, "1");
    check_headers("3, 3;w=10;name=\"a 'gold' user \", 9;w=60", "0", "10");
}

/* The limits are listed by what is left. One that does not fit is left out. */
static void test_long_headers(void **unused)
{
    weir_limitador_limit limits[] = {limit_of(5, 62), limit_of(2, 61), limit_of(1, 60),
                                     limit_of(9, 63)};
#define LONG_NAME "a name of many bytes, a name of many bytes, a name of many bytes, a name of many"
    (void)unused;
    for (size_t i = 0; i < 3; i++)
        limits[i].name = LONG_NAME;
    USE(limits);
    TAKES(alice, 1, "1");
    check_headers("1, 1;w=60;name=\"" LONG_NAME "\", 2;w=61;name=\"" LONG_NAME "\", 9;w=63", "0",
                  "60");
}

static void test_names_in_headers(void **unused)
{
    char name[200] = "\x1f\x20\x21\x7f\x80", expected[256];
    weir_limitador_limit limits[] = {limit_of(1, 60)};
    (void)unused;
    memset(name + 5, 'x', sizeof name - 6);
    limits[0].name = name;
    USE(limits);
    TAKES(alice, 1, "1");
    snprintf(expected, sizeof expected, "1, 1;w=60;name=\"  ! \x80%.154s\"", name + 5);
    check_headers(expected, "0", "60");
}

/* The headers of an answer are valid for 63 more calls. */
static void test_lifetime_of_headers(void **unused)
{
    const weir_limitador_limit limits[] = {limit_of(100, 60)};
    weir_rls_response answers[64];
    char expected[16];
    (void)unused;
    USE(limits);
    for (int round = 0; round < 2; round++) {
        for (int i = 0; i < 64; i++) {
            TAKES(alice, round == 0, "1");
            answers[i] = response;
        }
        for (int i = 0; i < 64; i++) {
            snprintf(expected, sizeof expected, "%d", round == 0 ? 99 - i : 36);
            assert_string_equal(answers[i].headers[1].value, expected);
        }
    }
}

/* Whatever its length, the header ends with a whole limit. */
static void test_header_lengths(void **unused)
{
    char name[2][160];
    weir_limitador_limit limits[] = {limit_of(1, 60), limit_of(2, 61)};
    (void)unused;
    for (size_t len = 180; len < 240; len++) { /* of both names */
        for (size_t i = 0; i < 2; i++) {
            size_t n = (len + i) / 2;
            memset(name[i], 'x', n);
            name[i][n] = '\0';
            limits[i].name = name[i];
        }
        USE(limits);
        TAKES(alice, 0, "1");
        size_t one = strlen("1, 1;w=60;name=\"\"") + len / 2;
        size_t both = one + strlen(", 2;w=61;name=\"\"") + (len + 1) / 2;
        assert_int_equal(strlen(response.headers[0].value), both <= 255 ? both : one);
        assert_int_equal(response.headers[0].value[one - 1], '"');
        assert_string_equal(response.headers[1].name, "X-RateLimit-Remaining");
    }
}

/* The keys of counters: the values of the variables, escaped and joined. */
static void test_keys(void **unused)
{
    const char *const both[] = {"descriptors[0].b", "descriptors[0].a"};
    const weir_rls_entry odd[] = {ENTRY("a", "1|2"), ENTRY("b", "\\")};
    const weir_rls_entry empty[] = {ENTRY("user", ""), ENTRY("b", "x")};
    weir_limitador_limit limits[] = {limit_by(5, 60, by_user), limit_of(5, 60)};
    (void)unused;
    limits[0].name = "user";
    limits[1].name = "both";
    limits[1].variables = both;
    limits[1].variables_len = 2;
    USE(limits);
    TAKES(odd, 1, "1");
    assert_int_equal(left("ns:both", "1\\|2|\\\\", at_ns), 4);
    TAKES(empty, 2, "1");
    assert_int_equal(left("ns:user", "\\", at_ns), 3);
    TAKES(alice, 3, "1");
    assert_int_equal(left("ns:user", "alice", at_ns), 2);
}

/* A limit with an unknown name never applies. */
static void test_unknown_names(void **unused)
{
    const char *const user[] = {"user"}, *const gold[] = {"limit.name == 'gold'"};
    weir_limitador_limit limits[] = {limit_by(1, 60, user), limit_if(2, 60, gold),
                                     limit_if(1, 61, gold)};
    (void)unused;
    limits[1].name = "gold";
    USE(limits);
    TAKES(alice, 1, "110");
}

/* Decides a request with one entry, whose value has `len` times the byte 'v' after `first`. */
static const weir_rls_response *ask_long(const char *first, size_t len)
{
    static char value[2 * WEIR_KEY_MAX + 16];
    const weir_rls_entry e = {{"user", 4}, {value, strlen(first) + len}};
    const weir_rls_descriptor d = {.entries = &e, .entries_len = 1};
    const weir_rls_request r = {.domain = text_of("ns"), .descriptors = &d, .descriptors_len = 1};
    memset(value, 'v', sizeof value);
    memcpy(value, first, strlen(first));
    assert_true(weir_limitador_decide(loop, NULL, &r, &response, at_ns));
    return &response;
}

static void test_long_keys(void **unused)
{
    static char key[WEIR_KEY_MAX + 1];
    weir_limitador_limit limits[] = {limit_of(9, 60), limit_by(9, 60, by_user),
                                     limit_by(9, 61, by_user)};
    (void)unused;
    limits[0].name = "all";
    limits[1].name = "user";
    USE(limits);
    assert_int_equal(ask_long("a", 1000)->failure, WEIR_RLS_ANSWERED);
    assert_int_equal(left("ns:all", "*", at_ns), 8);
    assert_int_equal(ask_long("a|b", WEIR_KEY_MAX - 4)->failure, WEIR_RLS_ANSWERED);
    assert_int_equal(ask_long("a|b", WEIR_KEY_MAX - 3)->failure, WEIR_RLS_REFUSED);
    assert_string_equal(response.why, "the values of a limit's variables exceed 65536 bytes");
    assert_int_equal(ask_long("", WEIR_KEY_MAX)->failure, WEIR_RLS_ANSWERED);
    assert_int_equal(ask_long("", WEIR_KEY_MAX + 1)->failure, WEIR_RLS_REFUSED);
    memset(key, 'v', sizeof key - 1);
    assert_int_equal(left("ns:user", key, at_ns), 8);
    memcpy(key, "a\\|b", 4);
    assert_int_equal(left("ns:user", key, at_ns), 8);
}

/* Each variable may use the whole scratch for the texts that it makes. */
static void test_long_texts(void **unused)
{
    const char *const texts[] = {"size(descriptors[0].user + 'a') == 1",
                                 "size(descriptors[0].user + 'a') == 2"};
    weir_limitador_limit limits[] = {limit_by(9, 60, texts)};
    (void)unused;
    limits[0].name = "l";
    limits[0].variables_len = 2;
    USE(limits);
    assert_int_equal(ask_long("", 2 * WEIR_KEY_MAX - 1)->failure, WEIR_RLS_ANSWERED);
    assert_int_equal(left("ns:l", "false|false", at_ns), 8);
    assert_int_equal(ask_long("", 2 * WEIR_KEY_MAX)->failure, WEIR_RLS_UNAVAILABLE);
    assert_string_equal(response.why,
                        "a condition or a variable of a limit has no value for this request");
}

/* A limit that does not apply, or has no state, leaves nothing in the key of the next one. */
static void test_keys_of_other_limits(void **unused)
{
    const char *const absent[] = {"descriptors[0].user", "descriptors[0].zone"};
    weir_limitador_limit limits[] = {limit_by(1, 60, absent), limit_by(0, 61, by_user),
                                     limit_by(9, 62, by_user)};
    (void)unused;
    limits[0].variables_len = 2;
    limits[2].name = "user";
    USE(limits);
    TAKES(alice, 0, "1");
    TAKES(alice, 1, "0");
    use(&limits[2], 1);
    TAKES(alice, 1, "1");
    limits[1].max_value = 2;
    limits[1].seconds = 0;
    USE(limits);
    TAKES(alice, 2, "1");
    assert_int_equal(left("ns:user", "alice", at_ns), 6);
}

static void test_too_many_counters(void **unused)
{
    weir_limitador_limit limits[17];
    const weir_rls_request r = {.domain = text_of("ns")};
    (void)unused;
    for (size_t i = 0; i < 17; i++)
        limits[i] = limit_of(9, 1 + i);
    use(limits, 16);
    TAKES(alice, 1, "1");
    use(limits, 17);
    assert_true(weir_limitador_decide(loop, NULL, &r, &response, at_ns));
    assert_int_equal(response.failure, WEIR_RLS_UNAVAILABLE);
    assert_string_equal(response.why, "more than 16 limits apply to the request");
}

/* ShouldRateLimit: the addend, domains that are unknown or empty, no statuses. */
static void test_decide(void **unused)
{
    const weir_limitador_limit limits[] = {limit_of(5, 60)};
    weir_rls_request r = {.domain = text_of("ns"), .hits_addend = 4};
    (void)unused;
    USE(limits);
    assert_true(weir_limitador_has(loop, text_of("ns")));
    assert_false(weir_limitador_has(loop, text_of("n")) || weir_limitador_has(loop, text_of("")));
    assert_true(weir_limitador_decide(loop, NULL, &r, &response, at_ns));
    assert_int_equal(response.code, WEIR_RLS_OK);
    check_headers("5, 5;w=60", "1", "60");
    r.hits_addend = 0;
    assert_true(weir_limitador_decide(loop, NULL, &r, &response, at_ns));
    assert_int_equal(response.code, WEIR_RLS_OK);
    assert_true(weir_limitador_decide(loop, NULL, &r, &response, at_ns));
    assert_int_equal(response.code, WEIR_RLS_OVER_LIMIT);
    r.domain = text_of("other");
    assert_true(weir_limitador_decide(loop, NULL, &r, &response, at_ns));
    assert_int_equal(response.code, WEIR_RLS_OK);
    assert_int_equal(response.headers_len, 0);
    r.domain = text_of("");
    assert_true(weir_limitador_decide(loop, NULL, &r, &response, at_ns));
    assert_int_equal(response.code, WEIR_RLS_UNKNOWN);
    assert_int_equal(response.failure, WEIR_RLS_ANSWERED);
}

/* Through the Rate Limit Service: limitador decides what Envoy's limits do not know. */
static void test_fallback(void **unused)
{
    const weir_limitador_limit limits[] = {limit_of(1, 60)};
    const weir_rls_descriptor d = {.entries = alice, .entries_len = 2};
    weir_rls_request r = {.domain = text_of("ns"), .descriptors = &d, .descriptors_len = 1};
    weir_rls_wait wait = {0};
    const weir_rls_fallback fallback = weir_limitador_fallback(loop);
    weir_rls *rls = weir_rls_open();
    weir_rls_loop *l = weir_rls_loop_open(rls, service);
    (void)unused;
    USE(limits);
    weir_rls_set_fallback(l, &fallback);
    assert_int_equal(weir_rls_decide(l, &wait, &r, 1, &response, at_ns), 1);
    assert_int_equal(response.code, WEIR_RLS_OK);
    check_headers("1, 1;w=60", "0", "60");
    assert_int_equal(weir_rls_decide(l, &wait, &r, 1, &response, at_ns), 1);
    assert_int_equal(response.code, WEIR_RLS_OVER_LIMIT);
    assert_int_equal(response.statuses_len, 0);
    r.domain.len = 0;
    assert_int_equal(weir_rls_decide(l, &wait, &r, 1, &response, at_ns), 1);
    assert_int_equal(response.code, WEIR_RLS_UNKNOWN);
    const weir_rls_options options = {.headers = false};
    const weir_rls_domain_spec envoy = {.domain = "d"};
    weir_rls_config *c;
    weir_rls_config_error e;
    assert_int_equal(weir_rls_config_build(&c, NULL, &options, &envoy, 1, &e), WEIR_OK);
    weir_rls_activate(rls, c);
    static const char *const domains[] = {"ns", "d", "other"};
    for (size_t i = 0; i < 3; i++) {
        r.domain = text_of(domains[i]);
        assert_int_equal(weir_rls_decide(l, &wait, &r, 1, &response, at_ns), 1);
        assert_int_equal(response.code, i == 0 ? WEIR_RLS_OVER_LIMIT : WEIR_RLS_OK);
    }
    weir_rls_loop_close(l);
    weir_rls_close(rls);
}

/* A rule that is gone counts as no match, in the middle of a reload. */
static void test_absent_rules(void **unused)
{
    weir_limitador_limit limits[] = {limit_of(1, 60), limit_of(3, 61), limit_of(7, 0)};
    size_t n;
    (void)unused;
    limits[0].name = "one";
    USE(limits);
    TAKES(alice, 1, "10");
    set_rules(weir_limitador_config_rules(weir_limitador_loop_config(loop), &n) + 1, 1);
    TAKES(alice, 1, "110");
    CHECKS(alice, 1, "0");
    REPORTS(alice, 1, "1");
    at_ns += 61 * s_ns;
    set_rules(weir_limitador_config_rules(weir_limitador_loop_config(loop), &n), 1);
    CHECKS(alice, 1, "1");
    TAKES(alice, 1, "10");
    check_headers("1, 1;w=60;name=\"one\", 7;w=0", "0", "60");
    CHECKS(alice, 1, "0");
}

/* Limits whose numbers alone change keep no counters, as a policy whose text changes. */
static void test_reload(void **unused)
{
    weir_limitador_limit limits[] = {limit_of(1, 60), limit_by(2, 60, by_user)};
    (void)unused;
    limits[0].name = "all";
    limits[1].name = "user";
    USE(limits);
    TAKES(alice, 1, "10");
    limits[0].max_value = 4;
    USE(limits);
    TAKES(alice, 1, "10");
    TAKES(bob, 1, "110");
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, open_all, close_all)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_window_from_first),
        TEST(test_all_or_none),
        TEST(test_conditions),
        TEST(test_limit_in_conditions),
        TEST(test_absent_keys),
        TEST(test_expressions_without_value),
        TEST(test_check_charges_nothing),
        TEST(test_report),
        TEST(test_zeros),
        TEST(test_large_numbers),
        TEST(test_large_deltas),
        TEST(test_headers),
        TEST(test_long_headers),
        TEST(test_names_in_headers),
        TEST(test_lifetime_of_headers),
        TEST(test_header_lengths),
        TEST(test_keys),
        TEST(test_unknown_names),
        TEST(test_long_keys),
        TEST(test_long_texts),
        TEST(test_keys_of_other_limits),
        TEST(test_too_many_counters),
        TEST(test_decide),
        TEST(test_fallback),
        TEST(test_absent_rules),
        TEST(test_reload),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
