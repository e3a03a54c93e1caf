/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* Configured responses over HTTP: header fields, status and body of denials, from the policy, the
 * listener and the defaults; a denial never has a status below 400. */

#include "codec/http/kit_test.h"

/* Adds the policies "plain", without an answer, and "own", with `answer`. */
static void set_answers(fixture *f, weir_answer answer)
{
    weir_rule_spec specs[] = {WEIR_RULE_SPEC_DEFAULT, WEIR_RULE_SPEC_DEFAULT};
    static const char *const evil = "evil";
    specs[0].name = "own";
    specs[0].limit = "gcra 1/s burst 5";
    specs[0].answer = answer;
    specs[0].deny = &evil;
    specs[0].deny_len = 1;
    specs[1].name = "plain";
    specs[1].limit = "fixed-window 2/h";
    weir_rules *rules;
    assert_int_equal(weir_rules_build(&rules, f->store, NULL, specs, 2), WEIR_OK);
    weir_limiter_configure(f->limiter, rules, WEIR_ENGINE_LOCAL);
}

static void check_policy_headers(void **state)
{
    fixture *f = *state;
    set_answers(f, (weir_answer){.headers = WEIR_HEADERS_GITHUB});
    f->answer.headers = WEIR_HEADERS_IETF_03;
    const char *answer = get(f, "/v1/take?policy=own&key=a");
    has_line(answer, "X-RateLimit-Limit: 5");
    has_line(answer, "X-RateLimit-Remaining: 4");
    has_line(answer, "X-RateLimit-Reset: 1767225601"); /* seconds since the epoch */
    has_line(answer, "X-RateLimit-Used: 1");
    has_line(answer, "X-RateLimit-Resource: own");
    has_no_line(answer, "\nRateLimit");
    answer = get(f, "/v1/take?policy=plain&key=a"); /* the listener's */
    has_line(answer, "RateLimit-Limit: 2, 2;w=3600");
    has_no_line(answer, "X-RateLimit-Limit");
    answer = get(f, "/v1/check?limit=gcra+1/s&key=a");
    has_line(answer, "RateLimit-Limit: 1, 1;w=1");
    f->answer.headers = WEIR_HEADERS_NONE;
    get(f, "/v1/take?policy=plain&key=a");
    answer = get(f, "/v1/take?policy=plain&key=a");
    assert_int_equal(status_of(answer), 429);
    has_no_line(answer, "RateLimit-Limit");
    has_line(answer, "Retry-After: 3600");
}

/* The members of the body stay exact. */
static void check_spread(void **state)
{
    fixture *f = *state;
    set_answers(f, (weir_answer){.retry_spread = 1});
    f->answer.headers = WEIR_HEADERS_IETF;
    f->answer.retry_spread = 11;
    const char *answer = get(f, "/v1/take?policy=plain&key=b&cost=2");
    has_line(answer, "RateLimit: \"plain\";r=0;t=3600"); /* allowed */
    answer = get(f, "/v1/take?policy=plain&key=b");
    has_line(answer, "RateLimit: \"plain\";r=0;t=3953");
    has_line(answer, "Retry-After: 3953");
    assert_non_null(
        strstr(body_of(answer), "\"retry_after_ms\":3600000,\"reset_after_ms\":3600000"));
    f->answer.retry_spread = 101;
    get(f, "/v1/take?policy=own&key=b&cost=5");
    answer = get(f, "/v1/take?policy=own&key=b&cost=5"); /* the policy's comes first */
    has_line(answer, "Retry-After: 5");
    f->answer.denied_body = "{retry_after}";
    get(f, "/v1/check?limit=fixed-window+1/m&key=b");
    answer = get(f, "/v1/check?limit=fixed-window+1/m&key=b");
    has_line(answer, "Retry-After: 94");
    assert_string_equal(body_of(answer), "94");
}

static void check_units(void **state)
{
    fixture *f = *state;
    set_answers(f, (weir_answer){.unit = WEIR_UNIT_TOKENS});
    f->answer.headers = WEIR_HEADERS_OPENAI;
    const char *answer = post(f, "/v1/takeall",
                              "{\"requests\":[{\"policy\":\"own\",\"key\":\"a\",\"cost\":2},"
                              "{\"policy\":\"plain\",\"key\":\"a\"}]}");
    has_line(answer, "X-RateLimit-Limit-Requests: 2");
    has_line(answer, "X-RateLimit-Reset-Requests: 1h0m0s");
    has_line(answer, "X-RateLimit-Remaining-Tokens: 3");
    has_line(answer, "X-RateLimit-Reset-Tokens: 2s");
    set_answers(f, (weir_answer){.unit = WEIR_UNIT_BYTES, .headers = WEIR_HEADERS_IETF});
    answer = get(f, "/v1/take?policy=own&key=b");
    has_line(answer, "RateLimit-Policy: \"own\";q=5;w=5;qu=\"content-bytes\"");
}

/* Several policies: the one that the body describes is the first. */
static void check_several(void **state)
{
    fixture *f = *state;
    set_answers(f, (weir_answer){0});
    const char *both = "{\"requests\":[{\"policy\":\"own\",\"key\":\"a\"},"
                       "{\"policy\":\"plain\",\"key\":\"a\",\"cost\":2}]}";
    const char *answer = post(f, "/v1/takeall", both);
    has_line(answer, "RateLimit-Policy: \"plain\";q=2;w=3600, \"own\";q=5;w=5");
    has_line(answer, "RateLimit: \"plain\";r=0;t=3600, \"own\";r=4;t=1");
    answer = post(f, "/v1/takeall", both);
    assert_int_equal(status_of(answer), 429);
    has_line(answer, "RateLimit: \"plain\";r=0;t=3600, \"own\";r=4;t=1");
    has_line(answer, "Retry-After: 3600");
}

static void check_denied(void **state)
{
    fixture *f = *state;
    set_answers(f, (weir_answer){.denied_status = 403, .denied_body = "{policy}: {retry_after} s"});
    f->answer =
        (weir_answer){.denied_status = 503, .denied_type = "text/html", .denied_body = "<p>"};
    const char *answer = get(f, "/v1/take?policy=own&key=a&cost=5");
    assert_int_equal(status_of(answer), 200); /* an allowed request keeps its body */
    has_line(answer, "Content-Type: application/json");
    answer = get(f, "/v1/take?policy=own&key=a&cost=2");
    assert_int_equal(status_of(answer), 403);
    has_line(answer, "Content-Type: text/html"); /* the member that the policy leaves unset */
    has_line(answer, "Content-Length: 8");
    assert_string_equal(body_of(answer), "own: 2 s");
    answer = get(f, "/v1/take?policy=own&key=a&cost=2&denied=429");
    assert_int_equal(status_of(answer), 429); /* the parameter wins */
    assert_string_equal(body_of(answer), "own: 2 s");
    answer = get(f, "/v1/take?policy=own&key=evil");
    assert_int_equal(status_of(answer), 403);
    assert_string_equal(body_of(answer), "own: 0 s");
    has_no_line(answer, "Retry-After");
    answer = get(f, "/v1/take?policy=plain&key=a&cost=3");
    assert_int_equal(status_of(answer), 503);
    assert_string_equal(body_of(answer), "<p>");
    is_problem(get(f, "/v1/take?policy=own&key=a&denied=0"), 400,
               "\"denied\": expected 403, 429 or 503, found \"0\"");
    f->answer = (weir_answer){.denied_body = "no"};
    answer = get(f, "/v1/take?policy=plain&key=a&cost=3");
    assert_int_equal(status_of(answer), 429);
    has_line(answer, "Content-Type: text/plain; charset=utf-8");
}

/* A waiting time that never ends is not sent: neither for a deny list nor for a cost that the limit
 * never allows. */
static void check_never(void **state)
{
    fixture *f = *state;
    set_answers(f, (weir_answer){.headers = WEIR_HEADERS_DEFAULT});
    get(f, "/v1/take?policy=own&key=a");
    const char *answer = get(f, "/v1/take?policy=own&key=a&cost=6");
    has_line(answer, "RateLimit: \"own\";r=4");
    has_no_line(answer, "X-RateLimit-Reset");
    has_no_line(answer, "Retry-After");
}

/* Rules refuse a status that would make a denial look allowed. */
static void check_status_range(void **state)
{
    fixture *f = *state;
    static const int statuses[] = {-1, 1, 200, 204, 302, 399, 600};
    for (size_t i = 0; i < sizeof statuses / sizeof statuses[0]; i++) {
        weir_rule_spec spec = WEIR_RULE_SPEC_DEFAULT;
        weir_rules *rules;
        spec.name = "own";
        spec.limit = "gcra 1/s";
        spec.answer.denied_status = statuses[i];
        assert_int_equal(weir_rules_build(&rules, f->store, NULL, &spec, 1), WEIR_E_RANGE);
    }
}

/* An answer stays when the limit of its policy is changed. */
static void check_changed_limit(void **state)
{
    fixture *f = *state;
    set_answers(f, (weir_answer){.denied_status = 418, .denied_body = "tea"});
    assert_int_equal(weir_limiter_set_limit(f->limiter, "own", "fixed-window 1/h", NULL), WEIR_OK);
    get(f, "/v1/take?policy=own&key=a");
    const char *answer = get(f, "/v1/take?policy=own&key=a");
    assert_int_equal(status_of(answer), 418);
    assert_string_equal(body_of(answer), "tea");
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(check_policy_headers), TEST(check_units),  TEST(check_several),
        TEST(check_denied),         TEST(check_never),  TEST(check_status_range),
        TEST(check_changed_limit),  TEST(check_spread),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
