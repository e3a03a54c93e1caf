/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* limitador's HTTP API: bodies, statuses and headers as limitador has them, lists, and metrics. */

#include "codec/http/kit_test.h"
#include "limitador/http.h"
#include "port/text.h"

static weir_limitador *shared;
static weir_limitador_loop *loop;

/* Activates limits and their rules. */
static void use(fixture *f, const weir_limitador_options *options,
                const weir_limitador_limit *limits, size_t n)
{
    weir_limitador_config *c;
    weir_rules *rules;
    size_t len;
    assert_int_equal(weir_limitador_config_build(&c, options, limits, n, NULL, NULL), WEIR_OK);
    const weir_rule_spec *specs = weir_limitador_config_rules(c, &len);
    assert_int_equal(weir_rules_build(&rules, f->store, NULL, specs, len), WEIR_OK);
    weir_limiter_configure(f->limiter, rules, WEIR_ENGINE_LOCAL);
    weir_limitador_activate(shared, c);
}

static int open_all(void **state)
{
    static const char *const user[] = {"descriptors[0].user"};
    static const char *const post[] = {"descriptors[0]['method'] == \"POST\""};
    static const weir_limitador_limit limits[] = {
        {.name_space = "ns",
         .max_value = 3,
         .seconds = 60,
         .name = "user",
         .variables = user,
         .variables_len = 1},
        {.name_space = "ns",
         .id = "i",
         .max_value = 9,
         .seconds = 30,
         .conditions = post,
         .conditions_len = 1},
        {.name_space = "a b/\"", .max_value = 1, .seconds = 1},
    };
    const weir_limitador_options options = {.headers = false};
    setup(state);
    fixture *f = *state;
    shared = weir_limitador_open();
    loop = weir_limitador_loop_open(shared, f->service);
    use(f, &options, limits, 3);
    static weir_http_guest guest;
    guest = weir_limitador_http(loop);
    f->options.guests = &guest;
    f->options.guests_len = 1;
    f->options.started_ns = NOW_NS;
    return 0;
}

static int close_all(void **state)
{
    weir_limitador_loop_close(loop);
    weir_limitador_close(shared);
    return teardown(state);
}

static void expect(const char *answer, int status, const char *body)
{
    if (status_of(answer) != status || strcmp(body_of(answer), body) != 0)
        fail_msg("expected %d and %s, got\n%s", status, body, answer);
}

#define ALICE(delta)                                                                               \
    "{\"namespace\":\"ns\",\"values\":{\"user\":\"alice\",\"method\":\"POST\"},\"delta\":" #delta  \
    "}"
#define BOB(delta, headers)                                                                        \
    "{\"namespace\":\"ns\",\"values\":{\"user\":\"bob\"},\"delta\":" #delta                        \
    ",\"response_headers\":" headers "}"

static void test_decisions(void **state)
{
    fixture *f = *state;
    expect(post(f, "/check", ALICE(3)), 200, "null");
    has_line(output_of(f), "Content-Type: application/json");
    expect(post(f, "/check", ALICE(4)), 429, "Too many requests");
    expect(post(f, "/report", ALICE(2)), 200, "null");
    expect(post(f, "/check", ALICE(2)), 429, "Too many requests");
    expect(post(f, "/check_and_report", ALICE(2)), 429, "null");
    expect(post(f, "/check_and_report", ALICE(1)), 200, "null");
    expect(post(f, "/check_and_report", ALICE(1)), 429, "null");
    expect(post(f, "/check_and_report", ALICE(0)), 200, "null");
    expect(post(f, "/check_and_report", "{\"namespace\":\"x\",\"values\":{},\"delta\":9}"), 200,
           "null");
}

static void test_headers(void **state)
{
    fixture *f = *state;
    const char *answer = post(f, "/check_and_report", BOB(2, "\"DraftVersion03\""));
    expect(answer, 200, "null");
    has_line(answer, "X-RateLimit-Limit: 3, 3;w=60;name=\"user\"");
    has_line(answer, "X-RateLimit-Remaining: 1");
    has_line(answer, "X-RateLimit-Reset: 60");
    answer = post(f, "/check_and_report", BOB(2, "\"DraftVersion03\""));
    expect(answer, 429, "null");
    has_line(answer, "X-RateLimit-Remaining: 0");
    has_no_line(post(f, "/check_and_report", BOB(1, "\"none\"")), "X-RateLimit");
    has_no_line(post(f, "/check_and_report", BOB(1, "null")), "X-RateLimit");
    has_no_line(post(f, "/check", BOB(1, "\"DraftVersion03\"")), "X-RateLimit");
}

static void test_bad_bodies(void **state)
{
    static const struct {
        const char *body, *detail;
    } scenes[] = {
        {"", "the body is no JSON"},
        {"{", "the body is no JSON"},
        {"[]", "expected a JSON object with namespace, values and delta"},
        {"null", "expected a JSON object with namespace, values and delta"},
        {"{\"delta\":18446744073709551615}", "the body has a number above 9223372036854775807"},
        {"{}", "\"namespace\": expected a string"},
        {"{\"namespace\":1}", "\"namespace\": expected a string"},
        {"{\"namespace\":\"\"}", "\"delta\": expected a whole number, 0 or more"},
        {"{\"namespace\":\"\",\"delta\":-1}", "\"delta\": expected a whole number, 0 or more"},
        {"{\"namespace\":\"\",\"delta\":1.0}", "\"delta\": expected a whole number, 0 or more"},
        {"{\"namespace\":\"\",\"delta\":1}", "\"values\": expected an object of strings"},
        {"{\"namespace\":\"\",\"delta\":1,\"values\":{\"a\":1}}",
         "\"values\": expected an object of strings"},
        {"{\"namespace\":\"\",\"delta\":1,\"values\":{},\"response_headers\":1}",
         "\"response_headers\": expected \"DraftVersion03\" or \"none\""},
    };
    for (size_t i = 0; i < sizeof scenes / sizeof scenes[0]; i++)
        is_problem(post(*state, "/check", scenes[i].body), 400, scenes[i].detail);
}

/* As in limitador, only the members of the request itself must be there once. */
static void test_duplicate_members(void **state)
{
    static const char detail[] = "expected each of namespace, values, delta and response_headers "
                                 "once, found one twice";
    static const char *const refused[] = {
        "{\"namespace\":\"ns\",\"namespace\":\"ns\",\"values\":{},\"delta\":1}",
        "{\"delta\":9,\"namespace\":\"ns\",\"values\":{},\"delta\" \n:1}",
        "{\"namespace\":\"ns\",\"values\":{\"a\":\"}\\\"\"},\"values\":{},\"delta\":1}",
        "{\"namespace\":\"ns\",\"values\":{},\"delta\":1,\"\\u0064elta\":1}",
    };
    for (size_t i = 0; i < sizeof refused / sizeof refused[0]; i++)
        is_problem(post(*state, "/check", refused[i]), 400, detail);
    is_problem(post(*state, "/check", "{\"delta\":1,\"delta\":1"), 400, "the body is no JSON");
    expect(post(*state, "/check_and_report",
                "{\"namespace\":\"ns\",\"values\":{\"user\":\"eve\",\"delta\":\"1\",\"delta\":"
                "\"2\",\"user\":\"zoe\"},\"delta\":3,\"x\":{\"delta\":1},\"x\":[\"delta\"]}"),
           200, "null");
    expect(
        post(*state, "/check", "{\"namespace\":\"ns\",\"values\":{\"user\":\"zoe\"},\"delta\":1}"),
        429, "Too many requests");
}

static void test_content_types(void **state)
{
    static const struct {
        const char *line;
        int status;
    } scenes[] = {
        {"Content-Type: application/json\r\n", 200},
        {"Content-Type:application/JSON ; charset=utf-8\r\n", 200},
        {"Content-Type: text/json\r\n", 200},
        {"Content-Type: application/problem+json\r\n", 200},
        {"Content-Type: text/plain\r\n", 400},
        {"Content-Type: application/x-www-form-urlencoded\r\n", 400},
        {"Content-Type: application/xjson\r\n", 400},
        {"Content-Type: +json\r\n", 400},
        {"Content-Type: json\r\n", 400},
        {"Content-Type: /json\r\n", 400},
        {"Content-Type: a/b;json\r\n", 400},
        {"Content-Type:\r\n", 400},
        {"", 400},
    };
    for (size_t i = 0; i < sizeof scenes / sizeof scenes[0]; i++) {
        char request[1024];
        int len = snprintf(request, sizeof request,
                           "POST /check HTTP/1.1\r\n" HOST "%sContent-Length: %zu\r\n\r\n%s",
                           scenes[i].line, strlen(ALICE(1)), ALICE(1));
        const char *answer = speak(*state, request, (size_t)len);
        if (scenes[i].status == 200)
            expect(answer, 200, "null");
        else
            is_problem(answer, 400, "expected the Content-Type application/json");
    }
}

static void test_methods_and_paths(void **state)
{
    fixture *f = *state;
    assert_int_equal(status_of(get(f, "/check")), 405);
    assert_int_equal(status_of(post(f, "/status", "{}")), 405);
    assert_int_equal(status_of(get(f, "/limits/")), 404);
    assert_int_equal(status_of(get(f, "/limits/a/b")), 404);
    assert_int_equal(status_of(with(f, "GET /limits/ns", "Sec-Fetch-Site: cross-site\r\n")), 403);
    expect(get(f, "/status"), 200, "{\"started_at\":\"2026-01-01T00:00:00\",\"config_version\":1}");
    assert_non_null(strstr(get(f, "/"), "/check_and_report"));
    f->options.guests_len = 0;
    assert_int_equal(status_of(post(f, "/check", ALICE(1))), 404);
    assert_int_equal(status_of(get(f, "/limits/ns")), 404);
    assert_null(strstr(get(f, "/"), "/check_and_report"));
    assert_null(strstr(get(f, "/metrics"), "limitador"));
}

#define LIMIT_USER                                                                                 \
    "{\"id\":null,\"namespace\":\"ns\",\"max_value\":3,\"seconds\":60,\"name\":\"user\","          \
    "\"conditions\":[],\"variables\":[\"descriptors[0].user\"]}"
#define LIMIT_POST                                                                                 \
    "{\"id\":\"i\",\"namespace\":\"ns\",\"max_value\":9,\"seconds\":30,\"name\":null,"             \
    "\"conditions\":[\"descriptors[0]['method'] == \\\"POST\\\"\"],\"variables\":[]}"

static void test_lists(void **state)
{
    fixture *f = *state;
    expect(get(f, "/limits/ns"), 200, "[" LIMIT_USER "," LIMIT_POST "]");
    expect(get(f, "/limits/a%20b%2F%22"), 200,
           "[{\"id\":null,\"namespace\":\"a b/\\\"\",\"max_value\":1,\"seconds\":1,\"name\":null,"
           "\"conditions\":[],\"variables\":[]}]");
    expect(get(f, "/limits/none"), 200, "[]");
    expect(get(f, "/counters/ns"), 200, "[]");
    expect(post(f, "/check_and_report", ALICE(2)), 200, "null");
    f->now_ns += SECOND_NS / 2;
    expect(get(f, "/counters/ns"), 200,
           "[{\"limit\":" LIMIT_USER ",\"set_variables\":{\"descriptors[0].user\":\"alice\"},"
           "\"remaining\":1,\"expires_in_seconds\":60},"
           "{\"limit\":" LIMIT_POST ",\"set_variables\":{},\"remaining\":7,"
           "\"expires_in_seconds\":30}]");
}

/* Lists of several conditions and variables, and values that come from exactly one descriptor. */
static void test_long_lists(void **state)
{
    fixture *f = *state;
    static const char *const conditions[] = {"descriptors[0].size() == 2",
                                             "size(descriptors) == 1"};
    static const char *const variables[] = {"descriptors[0].a", "descriptors[0].b"};
    static const weir_limitador_limit limits[] = {{.name_space = "x%",
                                                   .name = "two",
                                                   .max_value = 5,
                                                   .seconds = 60,
                                                   .conditions = conditions,
                                                   .conditions_len = 2,
                                                   .variables = variables,
                                                   .variables_len = 2}};
#define LIMIT_TWO                                                                                  \
    "{\"id\":null,\"namespace\":\"x%\",\"max_value\":5,\"seconds\":60,\"name\":\"two\","           \
    "\"conditions\":[\"descriptors[0].size() == 2\",\"size(descriptors) == 1\"],"                  \
    "\"variables\":[\"descriptors[0].a\",\"descriptors[0].b\"]}"
    const weir_limitador_options options = {.headers = false};
    use(f, &options, limits, 1);
    expect(get(f, "/limits/x%25"), 200, "[" LIMIT_TWO "]");
    expect(get(f, "/limits/x%00"), 200, "[]");
    expect(get(f, "/limits/x%"), 200, "[" LIMIT_TWO "]");
    for (int i = 0; i < 2; i++)
        expect(post(f, "/check_and_report",
                    "{\"namespace\":\"x%\",\"values\":{\"a\":\"1\",\"b\":\"\"},\"delta\":3}"),
               i == 0 ? 200 : 429, "null");
    expect(get(f, "/counters/x%25?unknown=1"), 200,
           "[{\"limit\":" LIMIT_TWO ",\"set_variables\":{\"descriptors[0].a\":\"1\","
           "\"descriptors[0].b\":\"\"},\"remaining\":2,\"expires_in_seconds\":60}]");
    assert_int_equal(status_of(get(f, "/limits/ns?unknown=1")), 200);
    assert_int_equal(status_of(get(f, "/status?unknown=1")), 200);
}

/* The states of an engine that is not there are not known. */
static void test_unknown_states(void **state)
{
    static const weir_limitador_limit limit = {
        .name_space = "far", .name = "n", .max_value = 5, .seconds = 60};
    const weir_limitador_options options = {.engine = WEIR_ENGINE_REDIS};
    use(*state, &options, &limit, 1);
    expect(get(*state, "/counters/far"), 200,
           "[{\"limit\":{\"id\":null,\"namespace\":\"far\",\"max_value\":5,\"seconds\":60,"
           "\"name\":\"n\",\"conditions\":[],\"variables\":[]},\"set_variables\":{},"
           "\"remaining\":null,\"expires_in_seconds\":null}]");
}

/* The longest namespace that has counts of its own. */
static void test_long_labels(void **state)
{
    char name[WEIR_LIMITADOR_NAME_MAX + 1], line[512];
    memset(name, 'n', sizeof name - 1);
    name[sizeof name - 1] = '\0';
    snprintf(line, sizeof line, "{\"namespace\":\"%s\",\"values\":{},\"delta\":1}", name);
    expect(post(*state, "/check_and_report", line), 200, "null");
    snprintf(line, sizeof line, "authorized_calls{limitador_namespace=\"%s\"} 1\n", name);
    assert_non_null(strstr(get(*state, "/metrics"), line));
}

static void test_metrics(void **state)
{
    fixture *f = *state;
    post(f, "/check_and_report", ALICE(2));
    post(f, "/check_and_report", ALICE(2));
    post(f, "/check_and_report", "{\"namespace\":\"a b/\\\"\",\"values\":{},\"delta\":1}");
    post(f, "/check", ALICE(1));
    post(f, "/report", ALICE(1));
    const char *answer = get(f, "/metrics");
    static const char *const lines[] = {
        "# TYPE limitador_up gauge\nlimitador_up 1\n",
        "# TYPE authorized_calls counter\n"
        "authorized_calls{limitador_namespace=\"a b/\\\"\"} 1\n"
        "authorized_calls{limitador_namespace=\"ns\"} 1\n",
        "authorized_hits{limitador_namespace=\"ns\"} 2\n",
        "limited_calls{limitador_namespace=\"ns\"} 1\n",
    };
    for (size_t i = 0; i < sizeof lines / sizeof lines[0]; i++) {
        if (!strstr(answer, lines[i]))
            fail_msg("no %s in\n%s", lines[i], answer);
    }
}

#undef TEST
#define TEST(name) cmocka_unit_test_setup_teardown(name, open_all, close_all)

/* ---- spans ----------------------------------------------------------------------------------- */

static weir_trace_span last;
static size_t ended;

static void end_span(void *ctx, const weir_trace_span *span)
{
    (void)ctx;
    ended++;
    last = *span;
}

/* Sends a traced request, and expects a span, or none if `allowed` is negative. */
static void trace(fixture *f, const char *path, const char *json, int allowed)
{
    char text[1024];
    size_t before = ended;
    int len = snprintf(text, sizeof text,
                       "POST %s HTTP/1.1\r\n" HOST "Content-Type: application/json\r\ntraceparent: "
                       "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01\r\n"
                       "Content-Length: %zu\r\n\r\n%s",
                       path, strlen(json), json);
    speak(f, text, (size_t)len);
    assert_int_equal(ended, before + (allowed >= 0));
    if (allowed < 0)
        return;
    assert_int_equal(last.allowed, allowed);
    assert_string_equal(last.name, path);
    assert_string_equal(last.context, "weir.namespace");
    assert_string_equal(last.context_name, "ns");
}

static void test_spans(void **state)
{
    static const weir_tracer tracer = {end_span, NULL};
    fixture *f = *state;
    f->options.tracer = &tracer;
    ended = 0;
    trace(f, "/check_and_report", ALICE(3), true);
    trace(f, "/check_and_report", ALICE(1), false);
    trace(f, "/check", ALICE(1), false);
    trace(f, "/report", ALICE(1), -1);
    trace(f, "/check", "{}", -1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_decisions),      TEST(test_headers),
        TEST(test_bad_bodies),     TEST(test_duplicate_members),
        TEST(test_content_types),  TEST(test_methods_and_paths),
        TEST(test_lists),          TEST(test_long_lists),
        TEST(test_unknown_states), TEST(test_long_labels),
        TEST(test_metrics),        TEST(test_spans),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
