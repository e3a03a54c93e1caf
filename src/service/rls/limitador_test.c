/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* limitador's limits, on a store: matching, counters, the three verbs, headers, counts, reloads.
 * The expected answers are limitador's. */

#include "service/rls/limitador.h"

#include "service/kit_test.h"
#include "service/top/top.h"

#include <inttypes.h>
#include <stdio.h>

#define ENTRY(k, v)                                                                                \
    {                                                                                              \
        {k, sizeof(k) - 1},                                                                        \
        {                                                                                          \
            v, sizeof(v) - 1                                                                       \
        }                                                                                          \
    }

static weir_limitador *shared;
static weir_limitador_loop *loop;
static int64_t at_ns;

static int open_all(void **unused)
{
    const weir_top_options top = {.keys = 16, .memory_bytes = 1 << 20};
    bool good = weir_store_open(&store, NULL) == WEIR_OK &&
                weir_limiter_open(&limiter, store, NULL) == WEIR_OK &&
                weir_limiter_enable_top(limiter, &top) == WEIR_OK &&
                weir_service_open(&service, limiter) == WEIR_OK;
    (void)unused;
    shared = weir_limitador_open();
    loop = weir_limitador_loop_open(shared, service);
    at_ns = now_ns;
    return good && shared && loop ? 0 : -1;
}

static int close_all(void **state)
{
    weir_limitador_loop_close(loop);
    weir_limitador_close(shared);
    return teardown(state);
}

/* ---- building -------------------------------------------------------------------------------- */

static weir_limitador_problem problems[8];
static size_t problems_len;

static void keep_problem(void *ctx, const weir_limitador_problem *problem)
{
    (void)ctx;
    assert_true(problems_len < 8);
    problems[problems_len++] = *problem;
}

static weir_limitador_config *built(const weir_limitador_limit *limits, size_t n)
{
    const weir_limitador_options options = {.headers = true};
    weir_limitador_config *c = NULL;
    problems_len = 0;
    assert_int_equal(weir_limitador_config_build(&c, &options, limits, n, keep_problem, NULL),
                     WEIR_OK);
    return c;
}

static void use(const weir_limitador_limit *limits, size_t n)
{
    size_t len;
    weir_limitador_config *c = built(limits, n);
    const weir_rule_spec *rules = weir_limitador_config_rules(c, &len);
    set_rules(rules, len);
    weir_limitador_activate(shared, c);
}

#define USE(limits) use(limits, sizeof(limits) / sizeof(limits)[0])

static weir_limitador_limit limit_of(uint64_t max, uint64_t seconds)
{
    return (weir_limitador_limit){.name_space = "ns", .max_value = max, .seconds = seconds};
}

static weir_limitador_limit limit_by(uint64_t max, uint64_t seconds, const char *const *variable)
{
    weir_limitador_limit l = limit_of(max, seconds);
    l.variables = variable;
    l.variables_len = 1;
    return l;
}

static weir_limitador_limit limit_if(uint64_t max, uint64_t seconds, const char *const *condition)
{
    weir_limitador_limit l = limit_of(max, seconds);
    l.conditions = condition;
    l.conditions_len = 1;
    return l;
}

/* ---- asking ---------------------------------------------------------------------------------- */

static const weir_rls_entry alice[] = {ENTRY("user", "alice"), ENTRY("method", "GET")};
static const weir_rls_entry bob[] = {ENTRY("user", "bob"), ENTRY("method", "POST")};

static weir_rls_response response;

static weir_rls_code ask(weir_rls_verb verb, const weir_rls_entry *entries, uint64_t delta)
{
    const weir_rls_descriptor d = {.entries = entries, .entries_len = 2};
    const weir_limitador_request r = {.verb = verb,
                                      .name_space = text_of("ns"),
                                      .descriptors = &d,
                                      .descriptors_len = 1,
                                      .delta = delta,
                                      .headers = verb == WEIR_RLS_CHECK_AND_REPORT,
                                      .counted = true};
    assert_true(weir_limitador_take(loop, NULL, &r, &response, at_ns));
    assert_int_equal(response.failure, WEIR_RLS_ANSWERED);
    assert_int_equal(response.statuses_len, 0);
    return response.code;
}

static void check_codes(weir_rls_verb verb, const weir_rls_entry *entries, uint64_t delta,
                        const char *expected)
{
    for (; *expected; expected++)
        assert_int_equal(ask(verb, entries, delta),
                         *expected == '1' ? WEIR_RLS_OK : WEIR_RLS_OVER_LIMIT);
}

#define TAKES(entries, delta, expected)                                                            \
    check_codes(WEIR_RLS_CHECK_AND_REPORT, entries, delta, expected)
#define CHECKS(entries, delta, expected)  check_codes(WEIR_RLS_CHECK, entries, delta, expected)
#define REPORTS(entries, delta, expected) check_codes(WEIR_RLS_REPORT, entries, delta, expected)

static void check_headers(const char *limit, const char *remaining, const char *reset)
{
    assert_int_equal(response.headers_len, 3);
    assert_string_equal(response.headers[0].name, "X-RateLimit-Limit");
    assert_string_equal(response.headers[0].value, limit);
    assert_string_equal(response.headers[1].name, "X-RateLimit-Remaining");
    assert_string_equal(response.headers[1].value, remaining);
    assert_string_equal(response.headers[2].name, "X-RateLimit-Reset");
    assert_string_equal(response.headers[2].value, reset);
}

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
    const weir_limitador_limit limits[] = {limit_if(1, 60, if_post)};
    (void)unused;
    USE(limits);
    TAKES(alice, 1, "1111");
    TAKES(bob, 1, "10");
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

/* A report that exceeds the limit fills the counter. */
static void test_report(void **unused)
{
    const weir_limitador_limit limits[] = {limit_of(5, 60), limit_by(9, 60, by_user)};
    (void)unused;
    USE(limits);
    REPORTS(alice, 3, "111");
    CHECKS(alice, 1, "0");
    at_ns += 60 * s_ns;
    CHECKS(alice, 5, "1");
    REPORTS(alice, 100, "1");
    CHECKS(bob, 1, "0");
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
}

static void test_headers(void **unused)
{
    weir_limitador_limit limits[] = {limit_of(9, 60), limit_by(3, 10, by_user)};
    (void)unused;
    limits[1].name = "a \"gold\" user\n";
    USE(limits);
    TAKES(alice, 1, "1");
    check_headers("3, 3;w=10;name=\"a 'gold' user \", 9;w=60", "2", "10");
    at_ns += 5 * s_ns + 1;
    TAKES(alice, 3, "0");
    check_headers("3, 3;w=10;name=\"a 'gold' user \", 9;w=60", "0", "5");
    TAKES(bob, 3, "1");
    check_headers("3, 3;w=10;name=\"a 'gold' user \", 9;w=60", "0", "10");
}

/* A limit of the list that does not fit is left out. */
static void test_long_headers(void **unused)
{
    weir_limitador_limit limits[3] = {limit_of(1, 60), limit_of(2, 61), limit_of(3, 62)};
    (void)unused;
    for (size_t i = 0; i < 3; i++)
        limits[i].name = "a name of many bytes, a name of many bytes, a name of many bytes, a name "
                         "of many bytes";
    USE(limits);
    TAKES(alice, 1, "1");
    assert_non_null(strstr(response.headers[0].value, ", 2;w=61;name=\"a name of"));
    assert_null(strstr(response.headers[0].value, ";w=62"));
}

/* Whatever its length, the header ends with a whole limit. */
static void test_header_lengths(void **unused)
{
    char name[2][160];
    weir_limitador_limit limits[] = {limit_of(1, 60), limit_of(2, 61)};
    size_t both = 0;
    (void)unused;
    for (size_t len = 90; len < 120; len++) {
        for (size_t i = 0; i < 2; i++) {
            memset(name[i], 'x', len);
            name[i][len] = '\0';
            limits[i].name = name[i];
        }
        USE(limits);
        TAKES(alice, 0, "1");
        size_t header = strlen(response.headers[0].value);
        assert_int_equal(response.headers[0].value[header - 1], '"');
        both += header == 1 + 2 * (strlen(", 1;w=60;name=\"\"") + len);
        assert_in_range(header, both == len - 89 ? 2 * len : len, 255);
    }
    assert_int_equal(both, 22); /* those up to 255 bytes */
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
    weir_limitador_config_drop(c);
}

static void test_problems(void **unused)
{
    const char *const old[] = {"true", "req.method == 'GET'"}, *const bad[] = {"1 +"};
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
    weir_rls_loop_close(l);
    weir_rls_close(rls);
}

/* A rule that is gone counts as no match, in the middle of a reload. */
static void test_absent_rules(void **unused)
{
    weir_limitador_limit limits[] = {limit_of(1, 60), limit_of(3, 61)};
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
    CHECKS(alice, 1, "0");
}

/* ---- counts and counters --------------------------------------------------------------------- */

typedef struct texts {
    char all[512];
} texts;

static void put_count(void *ctx, const weir_limitador_count *c)
{
    texts *t = ctx;
    size_t at = strlen(t->all);
    snprintf(t->all + at, sizeof t->all - at, "%.*s %" PRIu64 " %" PRIu64 " %" PRIu64 ";",
             (int)c->name_space.len, c->name_space.at, c->authorized_calls, c->authorized_hits,
             c->limited_calls);
}

static const char *counts(void)
{
    static texts t;
    t.all[0] = '\0';
    weir_limitador_counts(shared, put_count, &t);
    return t.all;
}

static void test_counts(void **unused)
{
    const weir_limitador_limit limits[] = {limit_of(5, 60)};
    const weir_rls_request other = {.domain = text_of("a")};
    (void)unused;
    USE(limits);
    assert_string_equal(counts(), "");
    TAKES(alice, 3, "10");
    CHECKS(alice, 3, "0");
    CHECKS(alice, 1, "1");
    REPORTS(alice, 7, "1");
    assert_string_equal(counts(), "ns 2 10 2;");
    weir_limitador_loop *second = weir_limitador_loop_open(shared, service);
    assert_true(weir_limitador_decide(second, NULL, &other, &response, at_ns));
    assert_true(weir_limitador_decide(loop, NULL, &other, &response, at_ns));
    assert_string_equal(counts(), "a 2 2 0;ns 2 10 2;");
    weir_limitador_loop_close(second);
}

/* Namespaces come from clients, so their number is bounded. */
static void test_many_namespaces(void **unused)
{
    char name[16];
    (void)unused;
    for (int i = 0; i < 1100; i++) {
        snprintf(name, sizeof name, "n%04d", i);
        const weir_rls_request r = {.domain = text_of(name)};
        assert_true(weir_limitador_decide(loop, NULL, &r, &response, at_ns));
    }
    const weir_rls_request first = {.domain = text_of("n0000")};
    assert_true(weir_limitador_decide(loop, NULL, &first, &response, at_ns));
    assert_memory_equal(counts(), "(others) 100 100 0;n0000 2 2 0;n0001 1 1 0;", 43);
}

static void put_counter(void *ctx, const weir_limitador_counter *c)
{
    texts *t = ctx;
    size_t at = strlen(t->all);
    assert_true(c->has_state);
    at += (size_t)snprintf(t->all + at, sizeof t->all - at, "%s %" PRIu64 " %" PRId64,
                           c->limit->rule, c->remaining, c->expires_ns / s_ns);
    for (size_t i = 0; i < c->limit->limit.variables_len; i++)
        at += (size_t)snprintf(t->all + at, sizeof t->all - at, " [%.*s]", (int)c->values[i].len,
                               c->values[i].at);
    snprintf(t->all + at, sizeof t->all - at, ";");
}

static void test_counters(void **unused)
{
    static texts t;
    const char *const both[] = {"descriptors[0].user", "descriptors[0].method"};
    const weir_rls_entry odd[] = {ENTRY("user", "a|b\\"), ENTRY("method", "")};
    weir_limitador_limit limits[] = {limit_of(9, 60), limit_by(3, 50, both), limit_of(9, 70)};
    (void)unused;
    limits[0].name = "all";
    limits[1].name = "user";
    limits[1].variables_len = 2;
    limits[2].name_space = "other";
    USE(limits);
    weir_limitador_counters(loop, text_of("ns"), at_ns, put_counter, &t);
    assert_string_equal(t.all, "");
    TAKES(alice, 3, "10");
    TAKES(odd, 1, "1");
    weir_limitador_counters(loop, text_of("ns"), at_ns + s_ns, put_counter, &t);
    assert_string_equal(t.all, "ns:all 5 59;ns:user 0 49 [GET] [alice];ns:user 2 49 [] [a|b\\];");
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
        TEST(test_absent_keys),
        TEST(test_expressions_without_value),
        TEST(test_check_charges_nothing),
        TEST(test_report),
        TEST(test_zeros),
        TEST(test_large_numbers),
        TEST(test_headers),
        TEST(test_long_headers),
        TEST(test_header_lengths),
        TEST(test_keys),
        TEST(test_rule_names),
        TEST(test_problems),
        TEST(test_unknown_names),
        TEST(test_too_many_counters),
        TEST(test_decide),
        TEST(test_fallback),
        TEST(test_absent_rules),
        TEST(test_counts),
        TEST(test_many_namespaces),
        TEST(test_counters),
        TEST(test_reload),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
