/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* The variables that answer a frame: its errors, which of several decisions represents it, and the
 * header fields that fit. */

#include "codec/answer/fields.h"
#include "codec/spop/session_kit_test.h"

enum { REQUESTS = 3 };

static weir_policy policy; /* of all requests */

/* Expects an answer of n requests with these variables. */
static void answers(fixture *f, const weir_spop_answer *a, size_t frame_max, bool decided,
                    const char *expected)
{
    char frame[512];
    f->session.frame_max = frame_max;
    assert_int_equal(weir_spop_put_answer(&f->output, frame_max, a, NOW_NS), decided);
    snprintf(frame, sizeof frame, "103 1 1.1 %s", expected);
    expect(f, frame);
    expect(f, "");
}

static uint32_t bits_of(const char *names)
{
    char copy[128];
    uint32_t bits = 0;
    snprintf(copy, sizeof copy, "%s", names);
    for (char *rest, *name = strtok_r(copy, " ", &rest); name; name = strtok_r(NULL, " ", &rest)) {
        assert_int_not_equal(weir_spop_variable(name, strlen(name)), 0);
        bits |= weir_spop_variable(name, strlen(name));
    }
    return bits;
}

static weir_spop_answer answer_of(const weir_request *requests, size_t n, const char *variables)
{
    return (weir_spop_answer){.stream_id = 1,
                              .frame_id = 1,
                              .requests = requests,
                              .len = n,
                              .answer = {.headers = WEIR_HEADERS_IETF},
                              .variables = bits_of(variables)};
}

static weir_request request_of(const char *rule, weir_reason reason, weir_decision d)
{
    return (weir_request){.rule = {rule, strlen(rule)},
                          .status = WEIR_OK,
                          .decision = d,
                          .reason = reason,
                          .policy = &policy};
}

static void check_errors(void **state)
{
    static const struct {
        weir_status status;
        const char *why, *error;
    } rows[] = {
        {WEIR_E_ABSENT, "not shown", "unknown policy \"api\""},
        {WEIR_E_IO, "Redis is away", "Redis is away"},
        {WEIR_E_NOMEM, "why comes first", "why comes first"},
        {WEIR_E_NOMEM, NULL, "the store is out of memory; raise memory.size"},
        {WEIR_E_FULL, NULL, "the store is full and refuses new keys (memory.when_full)"},
        {WEIR_E_BUSY, NULL, NULL},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        weir_request failed = request_of("api", WEIR_BY_LIMIT, (weir_decision){0});
        weir_spop_answer a = answer_of(&failed, 1, "error limit");
        char expected[256];
        failed.status = rows[i].status;
        failed.why = rows[i].why;
        snprintf(expected, sizeof expected, "-allowed error='%s'",
                 rows[i].error ? rows[i].error : weir_status_str(rows[i].status));
        answers(*state, &a, WEIR_SPOP_FRAME_MAX, false, expected);
    }
}

/* An error has at most 119 bytes. Of several failed requests, the first is reported. */
static void check_longest_error(void **state)
{
    weir_request failed[] = {request_of("api", WEIR_BY_LIMIT, (weir_decision){.allowed = true}),
                             request_of("a", WEIR_BY_LIMIT, (weir_decision){0}),
                             request_of("b", WEIR_BY_LIMIT, (weir_decision){0})};
    weir_spop_answer a = answer_of(failed, 3, "error");
    char error[200], expected[256];
    memset(error, 'e', sizeof error - 1);
    error[sizeof error - 1] = '\0';
    failed[1].status = failed[2].status = WEIR_E_IO;
    failed[1].why = error;
    failed[2].why = "the second";
    snprintf(expected, sizeof expected, "-allowed error='%.119s'", error);
    answers(*state, &a, WEIR_SPOP_FRAME_MAX, false, expected);
    a.error = "of the frame";
    answers(*state, &a, WEIR_SPOP_FRAME_MAX, false, "-allowed error='of the frame'");
}

/* The first decision of a row represents the frame, whatever their order. */
static void check_which_represents(void **state)
{
    static const struct {
        weir_reason reason[2];
        weir_decision decision[2];
    } rows[] = {
        /* a denial, though waiting is no use for the other one */
        {{WEIR_BY_LIMIT, WEIR_BY_LIMIT},
         {{.retry_after_ns = SECOND_NS}, {.allowed = true, .never = true}}},
        /* an enforced decision, though less is left of the other one */
        {{WEIR_BY_LIMIT, WEIR_BY_SHADOW},
         {{.allowed = true, .remaining = 3}, {.allowed = true, .remaining = 1}}},
        {{WEIR_BY_LIMIT, WEIR_BY_ALLOW_LIST},
         {{.allowed = true, .remaining = 3}, {.allowed = true, .remaining = 1}}},
        {{WEIR_BY_ON_ERROR, WEIR_BY_SHADOW},
         {{.allowed = true, .remaining = 3}, {.allowed = true, .remaining = 1}}},
        /* the denial that lasts longer */
        {{WEIR_BY_LIMIT, WEIR_BY_LIMIT},
         {{.retry_after_ns = 2 * SECOND_NS}, {.retry_after_ns = SECOND_NS}}},
        /* less is left */
        {{WEIR_BY_LIMIT, WEIR_BY_LIMIT},
         {{.allowed = true, .remaining = 1}, {.allowed = true, .remaining = 3}}},
        {{WEIR_BY_SHADOW, WEIR_BY_ALLOW_LIST},
         {{.allowed = true, .remaining = 1}, {.allowed = true, .remaining = 3}}},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        for (size_t first = 0; first < 2; first++) {
            weir_request two[2];
            two[first] = request_of("shown", rows[i].reason[0], rows[i].decision[0]);
            two[!first] = request_of("other", rows[i].reason[1], rows[i].decision[1]);
            weir_spop_answer a = answer_of(two, 2, "policy");
            answers(*state, &a, WEIR_SPOP_FRAME_MAX, true,
                    rows[i].decision[0].allowed ? "allowed=1 policy='shown'"
                                                : "allowed=0 policy='shown'");
        }
    }
}

/* The longest of the delays, and none for a denial. */
static void check_delays(void **state)
{
    weir_request r[REQUESTS];
    weir_spop_answer a = answer_of(r, REQUESTS, "delay");
    for (int i = 0; i < REQUESTS; i++) {
        const weir_decision d = {.allowed = true, .delay_ns = i == 1 ? 1 : SECOND_NS / 4 * i};
        r[i] = request_of("queue", WEIR_BY_LIMIT, d);
    }
    answers(*state, &a, WEIR_SPOP_FRAME_MAX, true, "allowed=1 delay=500");
    r[2].decision.delay_ns = 0;
    answers(*state, &a, WEIR_SPOP_FRAME_MAX, true, "allowed=1 delay=1");
    r[0].decision.allowed = false;
    answers(*state, &a, WEIR_SPOP_FRAME_MAX, true, "allowed=0 delay=0");
}

/* A request that failed has no header fields, and those after it have. */
static void check_fields_beside_failure(void **state)
{
    weir_request r[REQUESTS];
    weir_spop_answer a = answer_of(r, REQUESTS, "ratelimit");
    static const char *const names[REQUESTS] = {"one", "failed", "two"};
    for (int i = 0; i < REQUESTS; i++)
        r[i] = request_of(names[i], WEIR_BY_LIMIT,
                          (weir_decision){.limit = 5,
                                          .retry_after_ns = SECOND_NS * (i + 1),
                                          .reset_after_ns = SECOND_NS * (i + 1)});
    r[1].status = WEIR_E_NOMEM;
    answers(*state, &a, WEIR_SPOP_FRAME_MAX, true,
            "allowed=0 ratelimit='\"two\";r=0;t=3, \"one\";r=0;t=1'");
    a.variables = bits_of("policy"); /* no field is asked for */
    answers(*state, &a, WEIR_SPOP_FRAME_MAX, true, "allowed=0 policy='two'");
}

/* The time of Retry-After has the spread of the listener or the policy; the reset has not. */
static void check_spread(void **state)
{
    const weir_answer own = {.retry_spread = 1};
    const weir_decision d = {
        .limit = 5, .retry_after_ns = 7 * SECOND_NS, .reset_after_ns = 7 * SECOND_NS};
    weir_request r = request_of("api", WEIR_BY_LIMIT, d);
    weir_spop_answer a = answer_of(&r, 1, "retry_after reset ratelimit");
    r.key = (weir_slice){"alice", 5};
    a.answer.retry_spread = 101;
    answers(*state, &a, WEIR_SPOP_FRAME_MAX, true,
            "allowed=0 retry_after=10 reset=7 ratelimit='\"api\";r=0;t=10'");
    r.answer = &own;
    answers(*state, &a, WEIR_SPOP_FRAME_MAX, true,
            "allowed=0 retry_after=7 reset=7 ratelimit='\"api\";r=0;t=7'");
}

/* A field that does not fit is left out, and shorter ones after it are set. */
static void check_fields_that_fit(void **state)
{
    char name[2][WEIR_RATELIMIT_NAME_MAX + 1] = {""};
    weir_request r[2];
    for (int i = 0; i < 2; i++) {
        memset(name[i], 'm' + i, WEIR_RATELIMIT_NAME_MAX);
        r[i] = request_of(name[i], WEIR_BY_LIMIT,
                          (weir_decision){.allowed = true, .limit = 5, .remaining = 4});
    }
    weir_spop_answer a =
        answer_of(r, 2, "ratelimit_policy ratelimit x_ratelimit_limit x_ratelimit_remaining reset");
    char expected[400];
    a.answer.headers = WEIR_HEADERS_IETF | WEIR_HEADERS_X_RATELIMIT;
    snprintf(expected, sizeof expected,
             "allowed=1 reset=0 ratelimit_policy='\"%s\";q=1;w=1, \"%s\";q=1;w=1'"
             " x_ratelimit_limit='5' x_ratelimit_remaining='4'",
             name[0], name[1]);
    answers(*state, &a, WEIR_SPOP_FRAME_MIN, true, expected);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(check_errors), TEST(check_longest_error),         TEST(check_which_represents),
        TEST(check_delays), TEST(check_fields_beside_failure), TEST(check_fields_that_fit),
        TEST(check_spread),
    };
    weir_policy_error e;
    if (weir_policy_parse(&policy, "gcra 5/s", 8, NULL, &e) != WEIR_OK)
        return 1;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
