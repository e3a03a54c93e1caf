/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* Every flavour for every kind of decision, with one policy and with several; the largest answers;
 * the sets that cannot be sent. */

#include "codec/answer/fields.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#define CANARY    0x5A
#define SECOND_NS INT64_C(1000000000)
#define MS_NS     INT64_C(1000000)
#define NOW_NS    (INT64_C(1700000000) * SECOND_NS)

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

/* Decisions on a policy with the limit 10. */
#define SEC(x) ((int64_t)((x)*1e9))
#define ALLOWED(left, reset)                                                                       \
    {                                                                                              \
        .limit = 10, .remaining = (left), .reset_after_ns = SEC(reset), .allowed = true            \
    }
#define DENIED(retry, reset)                                                                       \
    {                                                                                              \
        .limit = 10, .retry_after_ns = SEC(retry), .reset_after_ns = SEC(reset)                    \
    }
#define NEVER                                                                                      \
    {                                                                                              \
        .limit = 10, .remaining = 4, .retry_after_ns = INT64_MAX, .reset_after_ns = SEC(1),        \
        .never = true                                                                              \
    }

#define FULL 4
typedef struct scene {
    unsigned headers;
    size_t shown;
    struct {
        const char *name, *policy;
        weir_decision d;
        weir_quota_unit unit;
        bool listed; /* on a deny list */
    } of[FULL];      /* up to the first without a policy */
    const char *want;
} scene;

#define GCRA "gcra 10/s burst 10"

/* clang-format off */
static const scene scenes[] = {
    /* ietf */
    {WEIR_HEADERS_IETF, 0, {{"api", GCRA, ALLOWED(9, 0.1), 0, false}},
     "RateLimit-Policy: \"api\";q=10;w=1\nRateLimit: \"api\";r=9;t=1\n"},
    {WEIR_HEADERS_IETF, 0, {{"api", GCRA, DENIED(0.1, 1.2), 0, false}},
     "RateLimit-Policy: \"api\";q=10;w=1\nRateLimit: \"api\";r=0;t=1\nRetry-After: 1\n"},
    {WEIR_HEADERS_IETF, 0, {{"api", GCRA, NEVER, 0, false}},
     "RateLimit-Policy: \"api\";q=10;w=1\nRateLimit: \"api\";r=4\n"},
    {WEIR_HEADERS_IETF, 0, {{"api", GCRA, NEVER, 0, true}},
     "RateLimit-Policy: \"api\";q=10;w=1\nRateLimit: \"api\";r=4\n"},
    {WEIR_HEADERS_IETF, 0, {{NULL, GCRA, ALLOWED(9, 0), 0, false}},
     "RateLimit-Policy: \"limit\";q=10;w=1\nRateLimit: \"limit\";r=9;t=0\n"},
    {WEIR_HEADERS_IETF, 0, {{"up", "gcra 10/s burst 10 & fixed-window 99/month",
                             ALLOWED(9, 0.1), WEIR_UNIT_BYTES, false}},
     "RateLimit-Policy: \"up-1\";q=10;w=1;qu=\"content-bytes\", "
     "\"up-2\";q=99;qu=\"content-bytes\"\n"
     "RateLimit: \"up-1\";r=9;t=1\n"},
    {WEIR_HEADERS_IETF, 0, {{"jobs", "gcra 10/s burst 10 & concurrent 10 lease 30s",
                             {.limit = 10, .remaining = 9, .layer = 1, .reset_after_ns = SEC(30),
                              .allowed = true}, WEIR_UNIT_BYTES, false}},
     "RateLimit-Policy: \"jobs-1\";q=10;w=1;qu=\"content-bytes\", "
     "\"jobs-2\";q=10;qu=\"concurrent-requests\"\n"
     "RateLimit: \"jobs-2\";r=9;t=30\n"},
    {WEIR_HEADERS_IETF, 0, {{"llm", GCRA, ALLOWED(9, 0.1), WEIR_UNIT_TOKENS, false}},
     "RateLimit-Policy: \"llm\";q=10;w=1\nRateLimit: \"llm\";r=9;t=1\n"},
    {WEIR_HEADERS_IETF, 0, {{"q", "leaky-queue 10/s depth 9", {.limit = 10, .remaining = 5,
        .reset_after_ns = SEC(0.5), .delay_ns = SEC(0.5), .allowed = true}, 0, false}},
     "RateLimit-Policy: \"q\";q=10;w=1\nRateLimit: \"q\";r=5;t=1\n"},
    /* A layer that is unknown: the RateLimit field of that policy is left out. */
    {WEIR_HEADERS_IETF | WEIR_HEADERS_IETF_03, 0,
     {{"api", GCRA, {.limit = 10, .layer = 1}, 0, false}},
     "RateLimit-Policy: \"api\";q=10;w=1\nRateLimit-Limit: 10\nRateLimit-Remaining: 0\n"
     "RateLimit-Reset: 0\nRetry-After: 0\n"},
    {WEIR_HEADERS_IETF, 0, {{"a", GCRA, {.limit = 10, .layer = 8, .allowed = true}, 0, false},
                            {"b", GCRA, ALLOWED(9, 1), 0, false}},
     "RateLimit-Policy: \"a\";q=10;w=1, \"b\";q=10;w=1\nRateLimit: \"b\";r=9;t=1\n"},
    /* Several policies: the shown one is the first; a name occurs once. */
    {WEIR_HEADERS_IETF, 2, {{"a", GCRA, ALLOWED(9, 1), 0, false},
                            {"b", GCRA, ALLOWED(8, 1), 0, false},
                            {"c", GCRA, DENIED(2, 3), 0, false},
                            {"d", GCRA, ALLOWED(7, 1), 0, false}},
     "RateLimit-Policy: \"c\";q=10;w=1, \"a\";q=10;w=1, \"b\";q=10;w=1, \"d\";q=10;w=1\n"
     "RateLimit: \"c\";r=0;t=2, \"a\";r=9;t=1, \"b\";r=8;t=1, \"d\";r=7;t=1\nRetry-After: 2\n"},
    {WEIR_HEADERS_IETF, 0, {{"a", GCRA, ALLOWED(1, 1), 0, false},
                            {"b", GCRA, ALLOWED(8, 1), 0, false},
                            {"b", GCRA, ALLOWED(6, 1), 0, false},
                            {"a", GCRA, ALLOWED(1, 1), 0, false}},
     "RateLimit-Policy: \"a\";q=10;w=1, \"b\";q=10;w=1\n"
     "RateLimit: \"a\";r=1;t=1, \"b\";r=6;t=1\n"},
    {WEIR_HEADERS_IETF, 0, {{"a", GCRA, ALLOWED(1, 1), 0, false},
                            {"b", GCRA, ALLOWED(6, 1), 0, false},
                            {"b", GCRA, ALLOWED(6, 1), 0, false},
                            {"b", GCRA, DENIED(1, 4), 0, false}},
     "RateLimit-Policy: \"a\";q=10;w=1, \"b\";q=10;w=1\n"
     "RateLimit: \"a\";r=1;t=1, \"b\";r=0;t=1\n"},
    {WEIR_HEADERS_IETF, 1, {{"a", GCRA, ALLOWED(6, 1), 0, false},
                            {"a", GCRA, ALLOWED(8, 1), 0, false}},
     "RateLimit-Policy: \"a\";q=10;w=1\nRateLimit: \"a\";r=8;t=1\n"},
    /* ietf-07 */
    {WEIR_HEADERS_IETF_07, 0, {{"api", GCRA, ALLOWED(9, 0.1), 0, false}},
     "RateLimit-Policy: 10;w=1\nRateLimit: limit=10, remaining=9, reset=1\n"},
    {WEIR_HEADERS_IETF_07, 0, {{"api", GCRA, DENIED(0.1, 1.2), 0, false}},
     "RateLimit-Policy: 10;w=1\nRateLimit: limit=10, remaining=0, reset=1\nRetry-After: 1\n"},
    {WEIR_HEADERS_IETF_07, 0, {{"api", GCRA, NEVER, 0, true}},
     "RateLimit-Policy: 10;w=1\nRateLimit: limit=10, remaining=4\n"},
    {WEIR_HEADERS_IETF_07, 0, {{"api", "fixed-window 10/month", ALLOWED(9, 90), 0, false}},
     "RateLimit-Policy: 10\nRateLimit: limit=10, remaining=9, reset=90\n"},
    /* ietf-03 */
    {WEIR_HEADERS_IETF_03, 0, {{"api", GCRA, ALLOWED(9, 0.1), 0, false}},
     "RateLimit-Limit: 10, 10;w=1\nRateLimit-Remaining: 9\nRateLimit-Reset: 1\n"},
    {WEIR_HEADERS_IETF_03, 0, {{"api", GCRA, DENIED(0.1, 1.2), 0, false}},
     "RateLimit-Limit: 10, 10;w=1\nRateLimit-Remaining: 0\nRateLimit-Reset: 1\nRetry-After: 1\n"},
    {WEIR_HEADERS_IETF_03, 0, {{"api", GCRA, NEVER, 0, true}},
     "RateLimit-Limit: 10, 10;w=1\nRateLimit-Remaining: 4\n"},
    {WEIR_HEADERS_IETF_03, 0, {{"api", "fixed-window 10/month", ALLOWED(9, 90), 0, false}},
     "RateLimit-Limit: 10\nRateLimit-Remaining: 9\nRateLimit-Reset: 90\n"},
    {WEIR_HEADERS_IETF_03, 1, {{"a", GCRA, ALLOWED(9, 1), 0, false},
        {"b", "gcra 1/s & fixed-window 7/day", {.limit = 7, .layer = 1,
         .allowed = true}, 0, false}},
     "RateLimit-Limit: 7, 7;w=86400\nRateLimit-Remaining: 0\nRateLimit-Reset: 0\n"},
    /* x-ratelimit */
    {WEIR_HEADERS_X_RATELIMIT, 0, {{"api", GCRA, ALLOWED(9, 0.1), 0, false}},
     "X-RateLimit-Limit: 10\nX-RateLimit-Remaining: 9\nX-RateLimit-Reset: 1\n"},
    {WEIR_HEADERS_X_RATELIMIT, 0, {{"api", GCRA, DENIED(60, 61), 0, false}},
     "X-RateLimit-Limit: 10\nX-RateLimit-Remaining: 0\nX-RateLimit-Reset: 61\nRetry-After: 60\n"},
    {WEIR_HEADERS_X_RATELIMIT, 0, {{"api", GCRA, NEVER, 0, false}},
     "X-RateLimit-Limit: 10\nX-RateLimit-Remaining: 4\n"},
    {WEIR_HEADERS_X_RATELIMIT, 1, {{"a", GCRA, ALLOWED(9, 1), 0, false},
                                   {"b", GCRA, ALLOWED(3, 2), 0, false}},
     "X-RateLimit-Limit: 10\nX-RateLimit-Remaining: 3\nX-RateLimit-Reset: 2\n"},
    /* github: seconds since the epoch */
    {WEIR_HEADERS_GITHUB, 0, {{"core", GCRA, ALLOWED(9, 0.1), 0, false}},
     "X-RateLimit-Limit: 10\nX-RateLimit-Remaining: 9\nX-RateLimit-Reset: 1700000001\n"
     "X-RateLimit-Used: 1\nX-RateLimit-Resource: core\n"},
    {WEIR_HEADERS_GITHUB, 0, {{"core", GCRA, DENIED(60, 60), 0, false}},
     "X-RateLimit-Limit: 10\nX-RateLimit-Remaining: 0\nX-RateLimit-Reset: 1700000060\n"
     "X-RateLimit-Used: 10\nX-RateLimit-Resource: core\nRetry-After: 60\n"},
    {WEIR_HEADERS_GITHUB, 0, {{NULL, GCRA, NEVER, 0, true}},
     "X-RateLimit-Limit: 10\nX-RateLimit-Remaining: 4\nX-RateLimit-Used: 6\n"
     "X-RateLimit-Resource: limit\n"},
    {WEIR_HEADERS_GITHUB, 0, {{"a", GCRA, {.limit = 3, .remaining = 5, .reset_after_ns = INT64_MAX,
                                           .allowed = true}, 0, false}},
     "X-RateLimit-Limit: 3\nX-RateLimit-Remaining: 5\nX-RateLimit-Reset: 9223372037\n"
     "X-RateLimit-Used: 0\nX-RateLimit-Resource: a\n"},
    /* openai */
    {WEIR_HEADERS_OPENAI, 0, {{"rpm", GCRA, ALLOWED(9, 0.1), 0, false}},
     "X-RateLimit-Limit-Requests: 10\nX-RateLimit-Remaining-Requests: 9\n"
     "X-RateLimit-Reset-Requests: 100ms\n"},
    {WEIR_HEADERS_OPENAI, 0, {{"rpm", GCRA, NEVER, WEIR_UNIT_REQUESTS, true}},
     "X-RateLimit-Limit-Requests: 10\nX-RateLimit-Remaining-Requests: 4\n"},
    {WEIR_HEADERS_OPENAI, 2, {{"rpm", GCRA, ALLOWED(9, 1), WEIR_UNIT_REQUESTS, false},
                              {"rpd", GCRA, ALLOWED(2, 360), 0, false},
                              {"tpm", GCRA, DENIED(0.5, 1.5), WEIR_UNIT_TOKENS, false},
                              {"up", GCRA, ALLOWED(0, 9), WEIR_UNIT_BYTES, false}},
     "X-RateLimit-Limit-Requests: 10\nX-RateLimit-Remaining-Requests: 2\n"
     "X-RateLimit-Reset-Requests: 6m0s\nX-RateLimit-Limit-Tokens: 10\n"
     "X-RateLimit-Remaining-Tokens: 0\nX-RateLimit-Reset-Tokens: 1.5s\nRetry-After: 1\n"},
    {WEIR_HEADERS_OPENAI, 0, {{"up", GCRA, DENIED(1, 9), WEIR_UNIT_BYTES, false}},
     "Retry-After: 1\n"},
    /* none, and sets */
    {WEIR_HEADERS_NONE, 0, {{"api", GCRA, ALLOWED(9, 1), 0, false}}, ""},
    {WEIR_HEADERS_NONE, 0, {{"api", GCRA, DENIED(1, 1), 0, false}}, "Retry-After: 1\n"},
    {WEIR_HEADERS_NONE, 0, {{"api", GCRA, NEVER, 0, false}}, ""},
    {WEIR_HEADERS_DEFAULT, 0, {{"api", GCRA, DENIED(1, 1), 0, false}},
     "RateLimit-Policy: \"api\";q=10;w=1\nRateLimit: \"api\";r=0;t=1\nX-RateLimit-Limit: 10\n"
     "X-RateLimit-Remaining: 0\nX-RateLimit-Reset: 1\nRetry-After: 1\n"},
    {WEIR_HEADERS_IETF_03 | WEIR_HEADERS_GITHUB, 0, {{"a", GCRA, ALLOWED(9, 1), 0, false}},
     "RateLimit-Limit: 10, 10;w=1\nRateLimit-Remaining: 9\nRateLimit-Reset: 1\n"
     "X-RateLimit-Limit: 10\nX-RateLimit-Remaining: 9\nX-RateLimit-Reset: 1700000001\n"
     "X-RateLimit-Used: 1\nX-RateLimit-Resource: a\n"},
};
/* clang-format on */

/* Checks the fields of a scene, and that the lines are these fields. */
static void check_scene(const scene *s)
{
    weir_policy policies[FULL];
    weir_answered a[FULL];
    size_t n = 0;
    for (; n < FULL && s->of[n].policy; n++) {
        policies[n] = parse(s->of[n].policy);
        a[n] = (weir_answered){.name = slice(s->of[n].name),
                               .policy = &policies[n],
                               .decision = &s->of[n].d,
                               .unit = s->of[n].unit,
                               .resets = !s->of[n].listed};
    }
    weir_answer_field fields[WEIR_ANSWER_FIELDS_MAX];
    char buf[WEIR_ANSWER_ROOM], lines[WEIR_ANSWER_ROOM], text[2048] = "", wire[2048] = "";
    size_t len = weir_answer_fields(s->headers, a, n, s->shown, NOW_NS, fields, buf);
    for (size_t i = 0; i < len; i++) {
        size_t at = strlen(text);
        snprintf(text + at, sizeof text - at, "%s: %.*s\n", fields[i].name,
                 (int)fields[i].value.len, fields[i].value.at);
        at = strlen(wire);
        snprintf(wire + at, sizeof wire - at, "%s: %.*s\r\n", fields[i].name,
                 (int)fields[i].value.len, fields[i].value.at);
    }
    assert_string_equal(text, s->want);
    len = weir_answer_lines(s->headers, a, n, s->shown, NOW_NS, lines);
    assert_int_equal(len, strlen(wire));
    assert_memory_equal(lines, wire, len);
}

static void check_scenes(void **unused)
{
    (void)unused;
    for (size_t i = 0; i < sizeof scenes / sizeof scenes[0]; i++)
        check_scene(&scenes[i]);
}

/* Durations as Go's time.Duration.String() prints them, rounded up to milliseconds. */
static void check_durations(void **unused)
{
    (void)unused;
    static const struct {
        int64_t ns;
        const char *want;
    } rows[] = {
        {0, "0s"},
        {1, "1ms"},
        {17 * MS_NS, "17ms"},
        {17 * MS_NS + 1, "18ms"},
        {999 * MS_NS, "999ms"},
        {999 * MS_NS + 1, "1s"},
        {SECOND_NS, "1s"},
        {1010 * MS_NS, "1.01s"},
        {1001 * MS_NS, "1.001s"},
        {1500 * MS_NS, "1.5s"},
        {59999 * MS_NS, "59.999s"},
        {60 * SECOND_NS, "1m0s"},
        {360 * SECOND_NS, "6m0s"},
        {3600 * SECOND_NS, "1h0m0s"},
        {3723500 * MS_NS, "1h2m3.5s"},
        {90000 * SECOND_NS, "25h0m0s"},
        {INT64_MAX, "2562047h47m16.855s"},
    };
    weir_policy p = parse(GCRA);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        weir_decision d = {.limit = 10, .reset_after_ns = rows[i].ns, .allowed = true};
        weir_answered a = {.name = slice("a"), .policy = &p, .decision = &d, .resets = true};
        weir_answer_field fields[WEIR_ANSWER_FIELDS_MAX];
        char buf[WEIR_ANSWER_ROOM];
        assert_int_equal(weir_answer_fields(WEIR_HEADERS_OPENAI, &a, 1, 0, 0, fields, buf), 3);
        assert_int_equal(fields[2].value.len, strlen(rows[i].want));
        assert_memory_equal(fields[2].value.at, rows[i].want, strlen(rows[i].want));
    }
}

/* Sixteen policies of eight layers with the longest names and the largest numbers: nothing beyond
 * the buffer is written, RateLimit-Policy is cut between policies, RateLimit has all of them. */
static void check_largest(void **unused)
{
    (void)unused;
    static char names[WEIR_ANSWERED_MAX][WEIR_RATELIMIT_NAME_MAX + 1];
    char text[WEIR_POLICY_TEXT_MAX] = "", buf[WEIR_ANSWER_ROOM + 1];
    for (int i = 0; i < WEIR_LAYERS_MAX; i++)
        snprintf(text + strlen(text), sizeof text - strlen(text), "%ssliding-log 2147483647/%lldns",
                 i ? " & " : "", (long long)WEIR_SPAN_NS_MAX - i);
    weir_policy p = parse(text);
    weir_decision d = {INT64_MAX, INT64_MAX, INT64_MAX, INT64_MAX, INT64_MAX, 7, false, false};
    weir_answered a[WEIR_ANSWERED_MAX];
    for (size_t i = 0; i < WEIR_ANSWERED_MAX; i++) {
        memset(names[i], (int)('a' + i), WEIR_RATELIMIT_NAME_MAX);
        weir_quota_unit unit = i % 2 == 0 ? WEIR_UNIT_BYTES : WEIR_UNIT_TOKENS;
        a[i] = (weir_answered){
            .name = slice(names[i]), .policy = &p, .decision = &d, .unit = unit, .resets = true};
    }
    a[3].unit = WEIR_UNIT_REQUESTS;
    memset(buf, CANARY, sizeof buf);
    size_t len = weir_answer_lines(63, a, WEIR_ANSWERED_MAX, 9, INT64_MAX, buf);
    assert_true(len < WEIR_ANSWER_ROOM);
    assert_int_equal(buf[len], CANARY);

    weir_answer_field fields[WEIR_ANSWER_FIELDS_MAX];
    assert_true(weir_answer_fields(63, a, WEIR_ANSWERED_MAX, 9, INT64_MAX, fields, buf) <=
                WEIR_ANSWER_FIELDS_MAX);
    assert_true(fields[0].value.len <= WEIR_ANSWER_POLICY_MAX);
    assert_memory_equal(fields[0].value.at, "\"jjjj", 5);
    assert_int_not_equal(fields[0].value.at[fields[0].value.len - 1], ' ');
    size_t items = 1;
    for (size_t i = 0; i < fields[1].value.len; i++)
        items += fields[1].value.at[i] == ',';
    assert_int_equal(items, WEIR_ANSWERED_MAX);
}

static void check_merge(void **unused)
{
    (void)unused;
    weir_answer a = {.unit = WEIR_UNIT_TOKENS, .denied_type = "text/html"};
    const weir_answer listener = {
        .headers = WEIR_HEADERS_GITHUB, .unit = WEIR_UNIT_BYTES, .denied_type = "text/plain"};
    const weir_answer top = {WEIR_HEADERS_NONE, WEIR_UNIT_BYTES, 11, 403, "text/css", "no"};
    weir_answer_merge(&a, &listener);
    weir_answer_merge(&a, NULL);
    weir_answer_merge(&a, &top);
    assert_int_equal(a.headers, WEIR_HEADERS_GITHUB);
    assert_int_equal(a.unit, WEIR_UNIT_TOKENS);
    assert_int_equal(a.retry_spread, 11);
    assert_int_equal(a.denied_status, 403);
    assert_string_equal(a.denied_type, "text/html");
    assert_string_equal(a.denied_body, "no");
    a.retry_spread = 1; /* 0 % is set */
    weir_answer_merge(&a, &top);
    assert_int_equal(a.retry_spread, 1);
}

static void check_percent(void **unused)
{
    (void)unused;
    const weir_answer unset = {0}, none = {.retry_spread = 1}, all = {.retry_spread = 101};
    assert_int_equal(weir_answer_spread(NULL, NULL), 0);
    assert_int_equal(weir_answer_spread(&unset, NULL), 0);
    assert_int_equal(weir_answer_spread(&unset, &unset), 0);
    assert_int_equal(weir_answer_spread(&unset, &all), 100);
    assert_int_equal(weir_answer_spread(NULL, &all), 100);
    assert_int_equal(weir_answer_spread(&none, &all), 0);
    assert_int_equal(weir_answer_spread(&all, &none), 100);
}

/* The waits of a denial have the spread in every flavour; those of allowed requests do not. */
static void check_spread(void **unused)
{
    (void)unused;
    static const struct {
        unsigned headers;
        const char *want, *allowed;
    } rows[] = {
        {WEIR_HEADERS_IETF,
         "RateLimit-Policy: \"api\";q=10;w=1\r\nRateLimit: \"api\";r=0;t=9\r\nRetry-After: 9\r\n",
         "RateLimit-Policy: \"api\";q=10;w=1\r\nRateLimit: \"api\";r=9;t=30\r\n"},
        {WEIR_HEADERS_IETF_07,
         "RateLimit-Policy: 10;w=1\r\nRateLimit: limit=10, remaining=0, reset=9\r\n"
         "Retry-After: 9\r\n",
         "RateLimit-Policy: 10;w=1\r\nRateLimit: limit=10, remaining=9, reset=30\r\n"},
        {WEIR_HEADERS_IETF_03,
         "RateLimit-Limit: 10, 10;w=1\r\nRateLimit-Remaining: 0\r\nRateLimit-Reset: 9\r\n"
         "Retry-After: 9\r\n",
         "RateLimit-Limit: 10, 10;w=1\r\nRateLimit-Remaining: 9\r\nRateLimit-Reset: 30\r\n"},
        {WEIR_HEADERS_X_RATELIMIT,
         "X-RateLimit-Limit: 10\r\nX-RateLimit-Remaining: 0\r\nX-RateLimit-Reset: 45\r\n"
         "Retry-After: 9\r\n",
         "X-RateLimit-Limit: 10\r\nX-RateLimit-Remaining: 9\r\nX-RateLimit-Reset: 30\r\n"},
        {WEIR_HEADERS_GITHUB,
         "X-RateLimit-Limit: 10\r\nX-RateLimit-Remaining: 0\r\nX-RateLimit-Reset: 1700000045\r\n"
         "X-RateLimit-Used: 10\r\nX-RateLimit-Resource: api\r\nRetry-After: 9\r\n",
         "X-RateLimit-Limit: 10\r\nX-RateLimit-Remaining: 9\r\nX-RateLimit-Reset: 1700000030\r\n"
         "X-RateLimit-Used: 1\r\nX-RateLimit-Resource: api\r\n"},
        {WEIR_HEADERS_OPENAI,
         "X-RateLimit-Limit-Requests: 10\r\nX-RateLimit-Remaining-Requests: 0\r\n"
         "X-RateLimit-Reset-Requests: 45s\r\nRetry-After: 9\r\n",
         "X-RateLimit-Limit-Requests: 10\r\nX-RateLimit-Remaining-Requests: 9\r\n"
         "X-RateLimit-Reset-Requests: 30s\r\n"},
        {WEIR_HEADERS_NONE, "Retry-After: 9\r\n", ""},
    };
    weir_policy p = parse(GCRA);
    const weir_decision denied = DENIED(6, 30), allowed = ALLOWED(9, 30);
    char buf[WEIR_ANSWER_ROOM];
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        weir_answered a = {.name = slice("api"),
                           .policy = &p,
                           .decision = &denied,
                           .resets = true,
                           .key = slice("alice"),
                           .spread = 100};
        size_t len = weir_answer_lines(rows[i].headers, &a, 1, 0, NOW_NS, buf);
        assert_int_equal(len, strlen(rows[i].want));
        assert_memory_equal(buf, rows[i].want, len);
        a.decision = &allowed;
        len = weir_answer_lines(rows[i].headers, &a, 1, 0, NOW_NS, buf);
        assert_int_equal(len, strlen(rows[i].allowed));
        assert_memory_equal(buf, rows[i].allowed, len);
    }
}

/* The longest duration stays the longest. */
static void check_longest_spread(void **unused)
{
    (void)unused;
    weir_policy p = parse(GCRA);
    const weir_decision d = {.limit = 10, .reset_after_ns = INT64_MAX - SECOND_NS};
    const weir_answered a = {.name = slice("api"),
                             .policy = &p,
                             .decision = &d,
                             .resets = true,
                             .key = slice("alice"),
                             .spread = 100};
    weir_answer_field fields[WEIR_ANSWER_FIELDS_MAX];
    char buf[WEIR_ANSWER_ROOM];
    static const char want[] = "2562047h47m16.855s";
    assert_int_equal(weir_answer_fields(WEIR_HEADERS_OPENAI, &a, 1, 0, 0, fields, buf), 4);
    assert_int_equal(fields[2].value.len, strlen(want));
    assert_memory_equal(fields[2].value.at, want, strlen(want));
}

static void check_names(void **unused)
{
    (void)unused;
    assert_int_equal(weir_answer_flavour("ietf", 4), WEIR_HEADERS_IETF);
    assert_int_equal(weir_answer_flavour("ietf-03", 7), WEIR_HEADERS_IETF_03);
    assert_int_equal(weir_answer_flavour("x-ratelimit", 11), WEIR_HEADERS_X_RATELIMIT);
    assert_int_equal(weir_answer_flavour("github", 6), WEIR_HEADERS_GITHUB);
    assert_int_equal(weir_answer_flavour("openai", 6), WEIR_HEADERS_OPENAI);
    assert_int_equal(weir_answer_flavour("none", 4), WEIR_HEADERS_NONE);
    assert_int_equal(weir_answer_flavour("IETF", 4), 0);
    assert_int_equal(weir_answer_flavour("ietf-0", 6), 0);
    assert_int_equal(weir_answer_flavour("", 0), 0);
    for (size_t i = 0; weir_answer_flavour_name(i); i++) {
        const char *name = weir_answer_flavour_name(i);
        assert_int_equal(weir_answer_flavour(name, strlen(name)), 1 << i);
    }
    assert_null(weir_answer_check(WEIR_HEADERS_NONE));
    assert_null(weir_answer_check(WEIR_HEADERS_DEFAULT));
    assert_null(weir_answer_check(WEIR_HEADERS_IETF | WEIR_HEADERS_IETF_03 | WEIR_HEADERS_OPENAI |
                                  WEIR_HEADERS_GITHUB));
    assert_non_null(weir_answer_check(WEIR_HEADERS_NONE | WEIR_HEADERS_IETF));
    assert_non_null(weir_answer_check(WEIR_HEADERS_X_RATELIMIT | WEIR_HEADERS_GITHUB));
    assert_non_null(weir_answer_check(WEIR_HEADERS_IETF | WEIR_HEADERS_IETF_07));
    assert_null(weir_answer_check(WEIR_HEADERS_IETF_07 | WEIR_HEADERS_IETF_03));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(check_scenes),  cmocka_unit_test(check_durations),
        cmocka_unit_test(check_largest), cmocka_unit_test(check_merge),
        cmocka_unit_test(check_names),   cmocka_unit_test(check_percent),
        cmocka_unit_test(check_spread),  cmocka_unit_test(check_longest_spread),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
