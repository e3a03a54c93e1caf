/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* The HTTP endpoints: requests and their responses. */

#define ZLIB_CONST

#include "codec/http/kit_test.h"
#include "codec/http/message.h"

#include <zlib.h>

/* ---- decisions ------------------------------------------------------------------------------- */

static void check_take(void **state)
{
    fixture *f = *state;
    assert_string_equal(
        get(f, "/v1/take?policy=api&key=alice&cost=2"),
        "HTTP/1.1 200 OK\r\n"
        "Date: Thu, 01 Jan 2026 00:00:00 GMT\r\n"
        "Content-Type: application/json\r\n"
        "Content-Length: 149\r\n"
        "RateLimit-Policy: \"api\";q=5;w=5\r\n"
        "RateLimit: \"api\";r=3;t=2\r\n"
        "X-RateLimit-Limit: 5\r\n"
        "X-RateLimit-Remaining: 3\r\n"
        "X-RateLimit-Reset: 2\r\n"
        "Cache-Control: no-store\r\n"
        "X-Content-Type-Options: nosniff\r\n"
        "\r\n"
        "{\"allowed\":true,\"limit\":5,\"remaining\":3,\"retry_after_ms\":0,"
        "\"reset_after_ms\":2000,"
        "\"delay_ms\":0,\"next_ms\":0,\"policy\":\"api\",\"layer\":0,\"reason\":\"limit\"}\n");
    f->now_ns += SECOND_NS / 2;
    assert_string_equal(
        post(f, "/v1/take", "{\"policy\":\"api\",\"key\":\"alice\",\"cost\":4}"),
        "HTTP/1.1 429 Too Many Requests\r\n"
        "Date: Thu, 01 Jan 2026 00:00:00 GMT\r\n"
        "Content-Type: application/problem+json\r\n"
        "Content-Length: 399\r\n"
        "RateLimit-Policy: \"api\";q=5;w=5\r\n"
        "RateLimit: \"api\";r=3;t=1\r\n"
        "X-RateLimit-Limit: 5\r\n"
        "X-RateLimit-Remaining: 3\r\n"
        "X-RateLimit-Reset: 2\r\n"
        "Retry-After: 1\r\n"
        "Cache-Control: no-store\r\n"
        "X-Content-Type-Options: nosniff\r\n"
        "\r\n"
        "{\"type\":\"https://iana.org/assignments/http-problem-types#quota-exceeded\","
        "\"title\":\"Request cannot be satisfied as assigned quota has been exceeded\","
        "\"status\":429,\"detail\":\"\\\"api\\\" allows 3 more now; try again in 0.500 s.\","
        "\"violated-policies\":[\"api\"],"
        "\"allowed\":false,\"limit\":5,\"remaining\":3,\"retry_after_ms\":500,"
        "\"reset_after_ms\":1500,"
        "\"delay_ms\":0,\"next_ms\":0,\"policy\":\"api\",\"layer\":0,\"reason\":\"limit\"}\n");
    assert_int_equal(status_of(get(f, "/v1/take?policy=api&key=alice&cost=4&denied=403")), 403);
    assert_int_equal(
        status_of(post(f, "/v1/take?denied=503&cost=4&key=alice", "{\"policy\":\"api\"}")), 503);
    assert_int_equal(
        status_of(post(f, "/v1/take?key=alice", "{\"policy\":\"api\",\"cost\":4,\"denied\":403}")),
        403);
    const char *never = get(f, "/v1/take?policy=api&key=alice&cost=6");
    assert_int_equal(status_of(never), 429);
    assert_non_null(strstr(never, "\"retry_after_ms\":-1"));
    assert_non_null(strstr(never, "\\\"api\\\" never allows more than 5 at once."));
    has_no_line(never, "Retry-After");
    assert_int_equal(status_of(get(f, "/v1/take?policy=api&key=alice&cost=0")), 200);
}

static void check_lists_and_shadow(void **state)
{
    fixture *f = *state;
    const char *answer = get(f, "/v1/take?policy=api&key=root&cost=99");
    assert_int_equal(status_of(answer), 200);
    assert_non_null(strstr(answer, "\"reason\":\"allow-list\""));
    has_line(answer, "RateLimit: \"api\";r=5;t=0");
    answer = get(f, "/v1/take?policy=api&key=evil");
    assert_int_equal(status_of(answer), 429);
    assert_non_null(strstr(answer, "\"reason\":\"deny-list\""));
    assert_non_null(strstr(answer, "The key is on the deny list of \\\"api\\\"."));
    has_line(answer, "RateLimit: \"api\";r=0");
    has_no_line(answer, "X-RateLimit-Reset");
    has_no_line(answer, "Retry-After");
    assert_non_null(strstr(get(f, "/v1/take?policy=look&key=a"), "\"reason\":\"limit\""));
    answer = get(f, "/v1/take?policy=look&key=a");
    assert_int_equal(status_of(answer), 200);
    assert_non_null(strstr(answer, "\"reason\":\"shadow\""));
    assert_int_equal(status_of(get(f, "/v1/peek?policy=look&key=a")), 200);
}

static void check_layers(void **state)
{
    fixture *f = *state;
    const char *answer = get(f, "/v1/take?policy=two&key=a&cost=2");
    has_line(answer, "RateLimit-Policy: \"two-1\";q=2;w=60, \"two-2\";q=10");
    has_line(answer, "RateLimit: \"two-1\";r=0;t=60");
    answer = get(f, "/v1/take?policy=two&key=a");
    has_line(answer, "Retry-After: 60");
    assert_non_null(strstr(answer, "\"violated-policies\":[\"two-1\"]"));
    has_line(get(f, "/v1/take?policy=slow&key=a"), "RateLimit-Policy: \"slow\";q=7;w=360");
    has_line(get(f, "/v1/check?limit=gcra+100/s+burst+20&key=a"),
             "RateLimit-Policy: \"limit\";q=20;w=1");
    has_line(get(f, "/v1/check?limit=fixed-window+1/day%26fixed-window+2/week&key=a"),
             "RateLimit-Policy: \"limit-1\";q=1;w=86400, \"limit-2\";q=2;w=604800");
    /* Nothing remains in either layer: t is how long a client must wait. */
    answer = get(f, "/v1/check?limit=gcra+1/s%26sliding-log+1/h&key=a");
    has_line(answer, "RateLimit: \"limit-2\";r=0;t=3600");
    answer = get(f, "/v1/check?limit=gcra+1/s%26sliding-log+1/h&key=a");
    has_line(answer, "Retry-After: 3600");
}

static void check_check(void **state)
{
    fixture *f = *state;
    const char *answer =
        get(f, "/v1/check?limit=sliding-log++2%2fm&key=%00%ff%2B+x&cost=2"); /* any bytes */
    assert_int_equal(status_of(answer), 200);
    assert_non_null(strstr(answer, "\"policy\":\"sliding-log 2/m\""));
    has_line(answer, "RateLimit: \"limit\";r=0;t=60");
    assert_int_equal(status_of(get(f, "/v1/check?limit=sliding-log+2/m&key=%00%FF%2b%20x")), 429);
    assert_int_equal(status_of(get(f, "/v1/check?limit=sliding-log+2/m&key=%00%FF%2b%20y")), 200);
    /* The same key from a body, where NUL is \u0000. */
    assert_int_equal(status_of(get(f, "/v1/check?limit=gcra+1/s+burst+1&key=a%00b")), 200);
    assert_int_equal(
        status_of(post(f, "/v1/check", "{\"limit\":\"gcra 1/s burst 1\",\"key\":\"a\\u0000b\"}")),
        429);
    is_problem(get(f, "/v1/check?limit=gcra+100/x&key=a"), 400,
               "column 10: unknown unit 'x', expected one of ns us ms s m h d w");
    is_problem(
        get(f, "/v1/check?limit=&key=a"), 400,
        "column 1: found the end, expected one of gcra token-bucket leaky-bucket leaky-queue "
        "fixed-window sliding-log sliding-counter sliding-slices block concurrent");
}

static void check_peek_refund_reset(void **state)
{
    fixture *f = *state;
    get(f, "/v1/take?policy=api&key=alice&cost=3");
    assert_non_null(strstr(get(f, "/v1/peek?policy=api&key=alice&cost=2"), "\"remaining\":2"));
    get(f, "/v1/check?limit=sliding-counter+5/m&key=alice&cost=3");
    assert_non_null(strstr(get(f, "/v1/peek?limit=sliding-counter+5/m&key=alice&cost=3"),
                           ",\"count\":3,\"previous\":0,\"window_start_ms\":1767225600000}"));
    assert_null(strstr(get(f, "/v1/check?limit=sliding-counter+5/m&key=alice"), "\"count\""));
    const char *answer = get(f, "/v1/peek?policy=api&key=alice&cost=4");
    assert_int_equal(status_of(answer), 429);
    has_line(answer, "Retry-After: 2");
    assert_int_equal(status_of(get(f, "/v1/peek?policy=api&key=alice&cost=4&denied=403")), 403);
    /* A policy text and a named policy with the same text have separate states. */
    assert_int_equal(status_of(get(f, "/v1/peek?limit=gcra+1/s+burst+5&key=alice&cost=4")), 200);
    answer = post(f, "/v1/refund", "{\"policy\":\"api\",\"key\":\"alice\",\"cost\":2}");
    assert_int_equal(status_of(answer), 200);
    assert_non_null(strstr(answer, "\"remaining\":4"));
    assert_string_equal(body_of(post(f, "/v1/reset?policy=api&key=alice", "")),
                        "{\"reset\":true,\"policy\":\"api\"}\n");
    assert_non_null(strstr(get(f, "/v1/peek?policy=api&key=alice"), "\"remaining\":5"));
    is_problem(post(f, "/v1/refund?policy=queue&key=alice", ""), 400,
               "leaky-queue and count-denied policies do not support refunds");
}

static void check_queue(void **state)
{
    fixture *f = *state;
    const char *three = "GET /v1/take?policy=queue&key=a HTTP/1.1\r\n" HOST "\r\n"
                        "GET /v1/take?policy=queue&key=a HTTP/1.1\r\n" HOST "\r\n"
                        "GET /v1/take?policy=queue&key=a HTTP/1.1\r\n" HOST "\r\n";
    weir_buffer_append(&f->in, three, strlen(three));
    weir_session_step step =
        weir_http_session_run(&f->session, &f->in, &f->out, OUT_PAUSE, f->now_ns);
    assert_int_equal(step.next, WEIR_SESSION_AGAIN); /* the first response is sent at once */
    assert_memory_equal(weir_buffer_data(&f->out), "HTTP/1.1 200", 12);
    weir_buffer_clear(&f->out);
    step = weir_http_session_run(&f->session, &f->in, &f->out, OUT_PAUSE, f->now_ns);
    assert_int_equal(step.next, WEIR_SESSION_WAIT);
    assert_int_equal(step.until_ns, f->now_ns + SECOND_NS / 10);
    weir_buffer_append(&f->out, "", 1);
    assert_non_null(strstr((char *)weir_buffer_data(&f->out), "\"delay_ms\":100,"));
    weir_buffer_clear(&f->out);
    /* The third request is decided when the second has been answered. */
    step = weir_http_session_run(&f->session, &f->in, &f->out, OUT_PAUSE, step.until_ns);
    assert_int_equal(step.next, WEIR_SESSION_WAIT);
    assert_int_equal(step.until_ns, f->now_ns + 2 * SECOND_NS / 10);
    weir_buffer_clear(&f->out);
    step = weir_http_session_run(&f->session, &f->in, &f->out, OUT_PAUSE, step.until_ns);
    assert_int_equal(step.next, WEIR_SESSION_READ);
}

static void check_queue_reports(void **state)
{
    fixture *f = *state;
    for (int i = 0; i < 3; i++) {
        const char *answer = get(f, "/v1/take?policy=queue&key=a&delay=report");
        assert_int_equal(status_of(answer), 200);
        char delay[32];
        snprintf(delay, sizeof delay, "\"delay_ms\":%d,", i * 100);
        assert_non_null(strstr(answer, delay));
    }
    assert_int_equal(f->waited_ns, 0);
    assert_int_equal(status_of(get(f, "/v1/take?policy=queue&key=a&delay=report")), 429);
    get(f, "/v1/take?policy=queue&key=b");
    with(f, "GET /v1/take?policy=queue&key=b", "Connection: close\r\n");
    assert_int_equal(f->waited_ns, SECOND_NS / 10);
    assert_int_equal(f->last, WEIR_SESSION_CLOSE);
}

/* ---- parameters ------------------------------------------------------------------------------ */

static void check_wrong_parameters(void **state)
{
    fixture *f = *state;
    is_problem(get(f, "/v1/take?policy=api&key=a&cots=5"), 400,
               "unknown parameter \"cots\", expected policy, key, cost, keep, delay, denied");
    is_problem(get(f, "/v1/reset?policy=api&key=a"), 405,
               "unsupported method for /v1/reset, expected POST, OPTIONS");
    is_problem(post(f, "/v1/reset?policy=api&key=a&cost=1", ""), 400,
               "unknown parameter \"cost\", expected policy, limit, key");
    is_problem(get(f, "/v1/take?policy=api&key=a&key=b"), 400, "duplicate parameter \"key\"");
    is_problem(post(f, "/v1/take?key=a", "{\"policy\":\"api\",\"key\":\"b\"}"), 400,
               "duplicate parameter \"key\"");
    is_problem(post(f, "/v1/take", "{\"policy\":\"api\",\"key\":\"a\",\"key\":\"b\"}"), 400,
               "invalid JSON in the body: line 1, column 31: duplicate object key near '\"key\"'");
    is_problem(get(f, "/v1/take?policy=api"), 400, "missing key, expected the parameter \"key\"");
    is_problem(get(f, "/v1/take?key=a"), 400, "missing parameter \"policy\"");
    is_problem(get(f, "/v1/check?key=a"), 400, "missing parameter \"limit\"");
    is_problem(get(f, "/v1/peek?key=a"), 400, "missing parameter \"policy\" or \"limit\"");
    is_problem(get(f, "/v1/peek?key=a&policy=api&limit=gcra+1/s"), 400,
               "expected either \"policy\" or \"limit\", found both");
    is_problem(get(f, "/v1/take?policy=api&key="), 400, "the key has 0 bytes, expected 1 to 65536");
    is_problem(get(f, "/v1/take?policy=api&key=%4"), 400,
               "\"%4\" in the query: expected % and two hexadecimal digits");
    is_problem(get(f, "/v1/take?policy=api&key=%zz"), 400,
               "\"%zz\" in the query: expected % and two hexadecimal digits");
    static const char *const costs[] = {"", "-1", "1.5", "2147483648", "99999999999999999999", "x"};
    for (size_t i = 0; i < sizeof costs / sizeof costs[0]; i++) {
        char target[80], detail[128];
        snprintf(target, sizeof target, "/v1/take?policy=api&key=a&cost=%s", costs[i]);
        snprintf(detail, sizeof detail,
                 "\"cost\": expected a whole number from 0 to 2147483647, found \"%s\"", costs[i]);
        is_problem(get(f, target), 400, detail);
    }
    is_problem(post(f, "/v1/take", "{\"cost\":2147483648}"), 400,
               "\"cost\": expected a whole number from 0 to 2147483647, found 2147483648");
    is_problem(post(f, "/v1/take", "{\"cost\":1.0}"), 400,
               "\"cost\" in the body: expected a whole number, found a fraction");
    is_problem(post(f, "/v1/take", "{\"key\":5}"), 400,
               "\"key\" in the body: expected a string, found a number");
    is_problem(get(f, "/v1/take?policy=api&key=a&delay=yes"), 400,
               "\"delay\": expected \"report\", found \"yes\"");
    is_problem(get(f, "/v1/take?policy=api&key=a&denied=200"), 400,
               "\"denied\": expected 403, 429 or 503, found \"200\"");
    is_problem(get(f, "/v1/take?policy=none%22%0a&key=a"), 404,
               "unknown policy \"none\"\n\"; GET /v1/policies lists all");
    is_problem(post(f, "/v1/take", "[]"), 400,
               "a list in the body, expected a JSON object such as "
               "{\"policy\":\"name\",\"key\":\"name\",\"cost\":1}");
    assert_int_equal(status_of(post(f, "/v1/take", "{")), 400);
    assert_int_equal(status_of(get(f, "/v1/take?&policy=api&&key=a&")), 200);
}

static void check_long_key(void **state)
{
    fixture *f = *state;
    for (size_t len = WEIR_KEY_MAX; len <= WEIR_KEY_MAX + 1; len++) {
        char *request = malloc(len + 256);
        size_t end = (size_t)sprintf(request,
                                     "POST /v1/take HTTP/1.1\r\n" HOST
                                     "Content-Type: Application/JSON ; charset=utf-8\r\n"
                                     "Content-Length: %zu\r\n\r\n{\"policy\":\"api\",\"key\":\"",
                                     len + 25);
        memset(request + end, 'k', len);
        end += len;
        memcpy(request + end, "\"}", 2);
        const char *answer = speak(f, request, end + 2);
        if (len == WEIR_KEY_MAX)
            assert_int_equal(status_of(answer), 200);
        else
            is_problem(answer, 400, "the key has 65537 bytes, expected 1 to 65536");
        free(request);
    }
}

static void check_key_from_header(void **state)
{
    fixture *f = *state;
    f->options.key_header = "x-forwarded-for";
    f->options.hops = 2;
    const char *take = "GET /v1/take?policy=api&cost=5";
    assert_int_equal(status_of(with(f, take, "X-Forwarded-For: evil, alice , proxy\r\n")), 200);
    assert_int_equal(status_of(get(f, "/v1/take?policy=api&key=alice")), 429);
    /* Several header lines form one list. */
    assert_int_equal(
        status_of(
            with(f, take, "X-Forwarded-For: x,bob\r\nX-Other: 1\r\nX-FORWARDED-FOR:proxy\r\n")),
        200);
    assert_int_equal(status_of(get(f, "/v1/take?policy=api&key=bob")), 429);
    is_problem(with(f, take, "X-Forwarded-For: proxy\r\n"), 400,
               "the header x-forwarded-for: expected at least 2 elements (http.key.hops), found 1");
    is_problem(with(f, take, "X-Forwarded-For: ,proxy\r\n"), 400,
               "the key has 0 bytes, expected 1 to 65536");
    is_problem(get(f, "/v1/take?policy=api"), 400,
               "missing key, expected the parameter \"key\" or the header x-forwarded-for");
    assert_int_equal(status_of(with(f, "GET /v1/take?policy=api&key=carol&cost=5",
                                    "X-Forwarded-For: dave,proxy\r\n")),
                     200);
    assert_int_equal(status_of(get(f, "/v1/take?policy=api&key=dave")), 200);
    f->options.hops = 0;
    f->options.key_header = "X-Token";
    assert_int_equal(status_of(with(f, take, "X-Token:  a, b \t\r\n")), 200);
    assert_int_equal(status_of(get(f, "/v1/take?policy=api&key=a,+b")), 429);
    /* A trailer is not a header. */
    is_problem(with(f, "POST /v1/take?policy=api",
                    "Transfer-Encoding: chunked\r\n\r\n0\r\nX-Token: a\r\n"),
               400, "missing key, expected the parameter \"key\" or the header X-Token");
}

static void check_key_from_query(void **state)
{
    fixture *f = *state;
    f->options.key_query = "api_key";
    assert_int_equal(status_of(get(f, "/v1/take?policy=api&api_key=alice&cost=5")), 200);
    assert_int_equal(status_of(get(f, "/v1/take?policy=api&key=alice")), 429);
    is_problem(get(f, "/v1/take?policy=api"), 400,
               "missing key, expected the parameter \"key\" or the parameter api_key");
    is_problem(post(f, "/v1/take?policy=api", "{\"api_key\":\"alice\"}"), 400,
               "unknown parameter \"api_key\", expected policy, key, cost, keep, delay, denied");
    is_problem(
        get(f, "/v1/take?policy=api&kye=1"), 400,
        "unknown parameter \"kye\", expected policy, key, cost, keep, delay, denied, api_key");
}

/* ---- other endpoints ------------------------------------------------------------------------- */

static void check_others(void **state)
{
    fixture *f = *state;
    assert_string_equal(get(f, "/healthz"), "HTTP/1.1 200 OK\r\n"
                                            "Date: Thu, 01 Jan 2026 00:00:00 GMT\r\n"
                                            "Content-Type: text/plain; charset=utf-8\r\n"
                                            "Content-Length: 3\r\n"
                                            "Cache-Control: no-store\r\n"
                                            "X-Content-Type-Options: nosniff\r\n\r\nok\n");
    assert_string_equal(with(f, "HEAD /healthz", ""), "HTTP/1.1 200 OK\r\n"
                                                      "Date: Thu, 01 Jan 2026 00:00:00 GMT\r\n"
                                                      "Content-Type: text/plain; charset=utf-8\r\n"
                                                      "Content-Length: 3\r\n"
                                                      "Cache-Control: no-store\r\n"
                                                      "X-Content-Type-Options: nosniff\r\n\r\n");
    assert_int_equal(status_of(get(f, "http://weir/healthz?x")), 200);
    assert_non_null(strstr(get(f, "http://weir"), "/v1/explain"));
    assert_non_null(strstr(get(f, "/"), "/v1/explain"));
    is_problem(get(f, "/v1/none"), 404, "unknown path \"/v1/none\"; GET / lists the endpoints");
    const char *answer = with(f, "DELETE /v1/take", "");
    is_problem(answer, 405, "unsupported method for /v1/take, expected GET, HEAD, POST, OPTIONS");
    has_line(answer, "Allow: GET, HEAD, POST, OPTIONS");
    has_line(with(f, "PUT /v1/policies", ""), "Allow: GET, HEAD, OPTIONS");
    has_line(get(f, "/v1/refund"), "Allow: POST, OPTIONS");
    answer = get(f, "/v1/explain?policy=api&key=alice");
    assert_int_equal(status_of(answer), 200);
    has_line(answer, "Content-Type: text/plain; charset=utf-8");
    answer = get(f, "/metrics");
    has_line(answer, "Content-Type: text/plain; version=0.0.4");
    assert_non_null(strstr(answer, "\nweir_build_info{version=\"1.2.3\"} 1\n"));
    answer = get(f, "/v1/policies");
    json_t *json = json_loads(body_of(answer), 0, NULL);
    assert_int_equal(json_array_size(json_object_get(json, "policies")), 5);
    json_t *api = json_array_get(json_object_get(json, "policies"), 0);
    assert_string_equal(json_string_value(json_object_get(api, "name")), "api");
    assert_string_equal(json_string_value(json_object_get(api, "limit")), "gcra 1/s burst 5");
    assert_int_equal(json_integer_value(json_object_get(api, "deny")), 1);
    json_decref(json);
}

static void check_top(void **state)
{
    fixture *f = *state;
    assert_int_equal(status_of(get(f, "/v1/take?policy=api&key=al%22ice&cost=6")), 429);
    assert_int_equal(status_of(get(f, "/v1/take?policy=api&key=%00%ff%5c&cost=7")), 429);
    assert_int_equal(status_of(get(f, "/v1/take?policy=api&key=bob&cost=5")), 200);
    const char *answer = get(f, "/v1/top?policy=api");
    assert_int_equal(status_of(answer), 200);
    has_line(answer, "Content-Type: application/json");
    has_line(answer, "Cache-Control: no-store");
    assert_string_equal(
        body_of(answer),
        "{\"policy\":\"api\",\"of\":\"denied\",\"cost\":13,\"unlisted_max\":0,\"sampling\":1,"
        "\"half_life_ms\":60000,\"complete\":true,\"keys\":[\n"
        "{\"key\":\"\\u0000\\ufffd\\\\\",\"cost\":7,\"error\":0,\"requests\":1,\"key_bytes\":3},\n"
        "{\"key\":\"al\\\"ice\",\"cost\":6,\"error\":0,\"requests\":1,\"key_bytes\":6}]}\n");
    assert_non_null(strstr(get(f, "/v1/top?policy=api&of=allowed&k=1"), "[\n{\"key\":\"bob\","));
    is_problem(get(f, "/v1/top"), 400, "missing parameter \"policy\"");
    is_problem(get(f, "/v1/top?policy=none"), 404,
               "unknown policy \"none\"; GET /v1/policies lists all");
    is_problem(get(f, "/v1/top?policy=api&of=both"), 400,
               "\"of\": expected \"denied\" or \"allowed\", found \"both\"");
    static const char *const bad[] = {"0", "21", "-1", "x", ""};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        char target[64], detail[128];
        snprintf(target, sizeof target, "/v1/top?policy=api&k=%s", bad[i]);
        snprintf(detail, sizeof detail,
                 "\"k\": expected a whole number from 1 to 20 (top.keys), found \"%s\"", bad[i]);
        is_problem(get(f, target), 400, detail);
    }
    is_problem(get(f, "/v1/top?policy=api&key=bob"), 400,
               "unknown parameter \"key\", expected policy, of, k");
    has_line(with(f, "POST /v1/top", ""), "Allow: GET, HEAD, OPTIONS");
    assert_int_equal(status_of(with(f, "GET /v1/top?policy=api", "Origin: null\r\n")), 403);
    assert_null(strstr(get(f, "/metrics"), "bob")); /* not included by default */
    f->options.metrics_top = true;
    assert_non_null(strstr(get(f, "/metrics"), "\nweir_top_cost{policy=\"api\",verdict=\"allowed\","
                                               "key=\"bob\"} 5\n"));
}

/* Without a number, at most WEIR_TOP_K keys are listed, and never more than are tracked. */
static void check_number_of_top(void **state)
{
    fixture *f = *state;
    for (int i = 0; i < WEIR_TOP_K + 2; i++) {
        char target[64];
        snprintf(target, sizeof target, "/v1/take?policy=api&key=k%d", i);
        assert_int_equal(status_of(get(f, target)), 200);
    }
    int listed = 0;
    const char *at = get(f, "/v1/top?policy=api&of=allowed");
    for (; (at = strstr(at, "{\"key\":")); at++)
        listed++;
    assert_int_equal(listed, WEIR_TOP_K);
}

static void check_no_top(void **state)
{
    fixture *f = *state;
    weir_limiter *limiter;
    weir_service *service;
    assert_int_equal(weir_limiter_open(&limiter, f->store, NULL), WEIR_OK);
    assert_int_equal(weir_service_open(&service, limiter), WEIR_OK);
    f->options.service = service;
    f->options.metrics_top = true;
    is_problem(get(f, "/v1/top?policy=api"), 501,
               "top keys are disabled: the configuration has top: off");
    assert_null(strstr(get(f, "/metrics"), "weir_top_cost"));
    f->options.service = f->service;
    assert_non_null(strstr(get(f, "/metrics"), "weir_top_cost"));
    reopen(f);
    weir_service_close(service);
    weir_limiter_close(limiter);
}

static void check_unknown_policies(void **state)
{
    static const char *const endpoints[] = {"take", "peek", "refund", "reset", "explain"};
    fixture *f = *state;
    for (size_t i = 0; i < sizeof endpoints / sizeof endpoints[0]; i++) {
        char target[32];
        snprintf(target, sizeof target, "/v1/%s", endpoints[i]);
        is_problem(post(f, target, "{\"policy\":\"none\",\"key\":\"k\"}"), 404,
                   "unknown policy \"none\"; GET /v1/policies lists all");
        is_problem(post(f, target, "{\"policy\":\"api\",\"key\":\"\"}"), 400,
                   "the key has 0 bytes, expected 1 to 65536");
    }
}

/* The window in RateLimit-Policy is the time from empty to full. */
static void check_windows(void **state)
{
    static const struct {
        const char *limit, *line;
    } rows[] = {
        {"gcra+1000/h+burst+500", "RateLimit-Policy: \"limit\";q=500;w=1800"},
        {"token-bucket+500+refill+1000+every+1h", "RateLimit-Policy: \"limit\";q=500;w=3600"},
        {"token-bucket+7+refill+2+every+90s", "RateLimit-Policy: \"limit\";q=7;w=360"},
        {"token-bucket+6+refill+2+every+90s", "RateLimit-Policy: \"limit\";q=6;w=270"},
        {"gcra+3/s+burst+3", "RateLimit-Policy: \"limit\";q=3;w=1"},
        {"gcra+3/s+burst+4", "RateLimit-Policy: \"limit\";q=4;w=2"},
        {"leaky-queue+3/m+depth+4", "RateLimit-Policy: \"limit\";q=5;w=100"},
        {"sliding-log+5/1500ms", "RateLimit-Policy: \"limit\";q=5;w=2"},
        {"fixed-window+5/day", "RateLimit-Policy: \"limit\";q=5;w=86400"},
        {"fixed-window+5/week", "RateLimit-Policy: \"limit\";q=5;w=604800"},
        {"fixed-window+5/month", "RateLimit-Policy: \"limit\";q=5"},
        {"fixed-window+5/year", "RateLimit-Policy: \"limit\";q=5"},
    };
    fixture *f = *state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        char target[128];
        snprintf(target, sizeof target, "/v1/check?limit=%s&key=k", rows[i].limit);
        has_line(get(f, target), rows[i].line);
    }
}

/* The detail of a denial has the wait in seconds, with three digits. */
static void check_details(void **state)
{
    static const struct {
        const char *limit, *detail;
    } rows[] = {
        {"gcra+1/s", "\\\"limit\\\" allows 0 more now; try again in 1.000 s."},
        {"gcra+1/1001ms", "\\\"limit\\\" allows 0 more now; try again in 1.001 s."},
        {"gcra+1/999ms", "\\\"limit\\\" allows 0 more now; try again in 0.999 s."},
        {"gcra+1/60s", "\\\"limit\\\" allows 0 more now; try again in 60.000 s."},
    };
    fixture *f = *state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        char target[128];
        snprintf(target, sizeof target, "/v1/check?limit=%s&key=k", rows[i].limit);
        assert_int_equal(status_of(get(f, target)), 200);
        assert_non_null(strstr(get(f, target), rows[i].detail));
    }
}

/* No answer may be cached or sniffed, neither a decision nor an error. */
static void check_no_store(void **state)
{
    static const char *const gets[] = {"/v1/take?policy=api&key=a",
                                       "/v1/check?limit=gcra+1/s&key=a",
                                       "/v1/peek?policy=api&key=a",
                                       "/v1/take?policy=api&key=evil",
                                       "/v1/explain?policy=api&key=a",
                                       "/v1/policies",
                                       "/v1/top?policy=api",
                                       "/readyz",
                                       "/metrics",
                                       "/healthz",
                                       "/",
                                       "/none"};
    static const char *const posts[] = {"/v1/refund?policy=api&key=a&cost=1",
                                        "/v1/reset?policy=api&key=a",
                                        "/v1/reserve?policy=api&key=a&cost=1&ttl=1s"};
    fixture *f = *state;
    for (size_t i = 0; i < sizeof gets / sizeof gets[0]; i++)
        has_line(get(f, gets[i]), "X-Content-Type-Options: nosniff");
    for (size_t i = 0; i < sizeof gets / sizeof gets[0]; i++)
        has_line(get(f, gets[i]), "Cache-Control: no-store");
    for (size_t i = 0; i < sizeof posts / sizeof posts[0]; i++) {
        char start[128];
        snprintf(start, sizeof start, "POST %s", posts[i]);
        has_line(with(f, start, ""), "Cache-Control: no-store");
    }
}

/* ASCII letters are case-insensitive, and nothing else. */
static void check_words(void **state)
{
    static const struct {
        const char *text, *word;
        bool same;
    } rows[] = {
        {"AZaz", "azAZ", true}, {"azAZ", "AZaz", true}, {"@[`{", "@[`{", true},
        {"@", "`", false},      {"`", "@", false},      {"[", "{", false},
        {"{", "[", false},      {"ab", "abc", false},   {"abc", "ab", false},
        {"", "", true},         {"1", "Q", false},      {"Q", "1", false},
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        weir_slice text = {rows[i].text, strlen(rows[i].text)};
        assert_int_equal(weir_slice_is(text, rows[i].word), rows[i].same);
    }
}

/* A header line that does not fit is left out as a whole. */
static void check_full_head(void **state)
{
    weir_http_response *a = calloc(1, sizeof *a);
    (void)state;
    weir_http_response_init(a, NULL);
    weir_http_add_field(a, "%0*d", WEIR_HTTP_HEAD_ROOM, 1);
    assert_int_equal(a->fields_len, 0);
    weir_http_add_field(a, "%0*d", WEIR_HTTP_HEAD_ROOM - 1, 1);
    assert_int_equal(a->fields_len, WEIR_HTTP_HEAD_ROOM - 1);
    weir_http_add_field(a, "x");
    assert_int_equal(a->fields_len, WEIR_HTTP_HEAD_ROOM - 1);
    free(a);
}

/* A fragment is no part of the path or the query. */
static void check_fragments(void **state)
{
    fixture *f = *state;
    assert_int_equal(status_of(get(f, "/healthz#x")), 200);
    assert_int_equal(status_of(get(f, "/healthz?x#y?z")), 200);
    assert_int_equal(status_of(get(f, "/v1/take?policy=api&key=a#bc&cost=5")), 200);
    assert_non_null(strstr(get(f, "/v1/peek?policy=api&key=a"), "\"remaining\":4"));
    is_problem(get(f, "/nothing#x"), 404, "unknown path \"/nothing\"; GET / lists the endpoints");
}

static void more_metrics(void *ctx, weir_buffer *out)
{
    weir_buffer_append(out, ctx, strlen(ctx));
}

static void check_more_metrics(void **state)
{
    fixture *f = *state;
    f->options.metrics = more_metrics;
    f->options.metrics_ctx = "connections 5\n";
    const char *answer = get(f, "/metrics");
    assert_string_equal(answer + strlen(answer) - 15, "\nconnections 5\n");
}

/* Prometheus reads its metrics compressed. */
static void check_compressed_metrics(void **state)
{
    static char plain[1 << 16];
    fixture *f = *state;
    const char *answer = get(f, "/metrics");
    has_line(answer, "Vary: Accept-Encoding");
    has_no_line(answer, "Content-Encoding");
    size_t len = (size_t)snprintf(plain, sizeof plain, "%s", body_of(answer));
    answer = with(f, "GET /metrics", "Accept-Encoding: gzip\r\n");
    assert_int_equal(status_of(answer), 200);
    has_line(answer, "Content-Encoding: gzip");
    has_line(answer, "Vary: Accept-Encoding");
    const char *body = body_of(answer);
    uint8_t unpacked[1 << 16];
    z_stream z = {.next_in = (const Bytef *)body, .next_out = unpacked};
    z.avail_in = (uInt)((const char *)weir_buffer_data(&f->output) + weir_buffer_len(&f->output) -
                        body); /* with the NUL of the fixture */
    z.avail_out = sizeof unpacked;
    assert_true(z.avail_in < len / 2);
    assert_int_equal(inflateInit2(&z, 16 + MAX_WBITS), Z_OK);
    assert_int_equal(inflate(&z, Z_FINISH), Z_STREAM_END);
    inflateEnd(&z);
    assert_int_equal(z.total_out, len);
    assert_memory_equal(unpacked, plain, len);
}

/* OPTIONS * concerns the server as a whole (RFC 9110, 9.3.7), and OPTIONS with a path that path. */
static void check_options(void **state)
{
    fixture *f = *state;
    const char *answer = with(f, "OPTIONS *", "");
    assert_int_equal(status_of(answer), 204);
    has_line(answer, "Allow: GET, HEAD, POST, OPTIONS");
    assert_string_equal(body_of(answer), "");
    answer = with(f, "GET *", "");
    is_problem(answer, 405, "unsupported method for *, expected OPTIONS");
    has_line(answer, "Allow: OPTIONS");
    answer = with(f, "OPTIONS /v1/take", "");
    assert_int_equal(status_of(answer), 204);
    has_line(answer, "Allow: GET, HEAD, POST, OPTIONS");
    has_line(with(f, "OPTIONS /v1/policies", ""), "Allow: GET, HEAD, OPTIONS");
    has_line(with(f, "OPTIONS /v1/reset", ""), "Allow: POST, OPTIONS");
    assert_int_equal(status_of(with(f, "OPTIONS /none", "")), 404);
    users_kit_set_password(&f->users, "secret");
    assert_int_equal(status_of(with(f, "OPTIONS *", "")), 401);
    assert_int_equal(status_of(with(f, "OPTIONS /v1/take", "")), 401);
    users_kit_set_password(&f->users, NULL);
    const char *evil = "OPTIONS * HTTP/1.1\r\nHost: evil\r\n\r\n";
    assert_int_equal(status_of(speak(f, evil, strlen(evil))), 421);
}

static bool two_reasons(void *ctx, weir_buffer *out)
{
    if (!*(bool *)ctx)
        return false;
    weir_buffer_printf(out, "\"one\",\"two\"");
    return true;
}

static void check_readyz(void **state)
{
    fixture *f = *state;
    bool down = false;
    assert_string_equal(body_of(get(f, "/readyz")), "{\"ready\":true,\"reasons\":[]}\n");
    f->options.not_ready = two_reasons;
    f->options.not_ready_ctx = &down;
    users_kit_set_password(&f->users, "secret"); /* no password is needed */
    assert_int_equal(status_of(get(f, "/readyz")), 200);
    down = true;
    const char *answer = get(f, "/readyz");
    assert_int_equal(status_of(answer), 503);
    has_line(answer, "Content-Type: application/json");
    has_line(answer, "Cache-Control: no-store");
    assert_string_equal(body_of(answer), "{\"ready\":false,\"reasons\":[\"one\",\"two\"]}\n");
    assert_int_equal(status_of(get(f, "/healthz")), 200);
    f->options.not_ready = NULL;
    f->options.not_ready_ctx = NULL;
}

/* ---- changes of a policy --------------------------------------------------------------------- */

static void check_shadow(void **state)
{
    fixture *f = *state;
    for (int i = 0; i < 5; i++)
        get(f, "/v1/take?policy=api&key=a");
    assert_int_equal(status_of(get(f, "/v1/take?policy=api&key=a")), 429);
    const char *answer = with(f, "POST /v1/shadow?policy=api&shadow=true", "");
    assert_int_equal(status_of(answer), 200);
    has_line(answer, "Cache-Control: no-store");
    assert_string_equal(body_of(answer), "{\"policy\":\"api\",\"shadow\":true}\n");
    answer = get(f, "/v1/take?policy=api&key=a");
    assert_int_equal(status_of(answer), 200);
    assert_non_null(strstr(answer, "\"reason\":\"shadow\""));
    assert_string_equal(body_of(post(f, "/v1/shadow", "{\"policy\":\"api\",\"shadow\":false}")),
                        "{\"policy\":\"api\",\"shadow\":false}\n");
    assert_int_equal(status_of(get(f, "/v1/take?policy=api&key=a")), 429); /* the state stayed */
    assert_string_equal(body_of(post(f, "/v1/shadow", "{\"policy\":\"api\",\"shadow\":true}")),
                        "{\"policy\":\"api\",\"shadow\":true}\n");
    is_problem(with(f, "POST /v1/shadow?shadow=true", ""), 400, "missing parameter \"policy\"");
    is_problem(with(f, "POST /v1/shadow?policy=api", ""), 400, "missing parameter \"shadow\"");
    is_problem(with(f, "POST /v1/shadow?policy=api&shadow=yes", ""), 400,
               "\"shadow\": expected true or false, found \"yes\"");
    is_problem(post(f, "/v1/shadow", "{\"policy\":\"api\",\"shadow\":1}"), 400,
               "\"shadow\" in the body: expected a boolean, found a number");
    is_problem(with(f, "POST /v1/shadow?policy=none&shadow=true", ""), 404,
               "unknown policy \"none\"; GET /v1/policies lists all");
    has_line(get(f, "/v1/shadow?policy=api&shadow=true"), "Allow: POST, OPTIONS");
    assert_int_equal(
        status_of(with(f, "POST /v1/shadow?policy=api&shadow=false", "Origin: null\r\n")), 403);
}

static void check_candidate(void **state)
{
    fixture *f = *state;
    const char *answer = with(f, "POST /v1/candidate?policy=api&limit=gcra+1/s++burst+2", "");
    assert_int_equal(status_of(answer), 200);
    assert_string_equal(body_of(answer),
                        "{\"policy\":\"api\",\"candidate\":\"gcra 1/s  burst 2\"}\n");
    for (int i = 0; i < 6; i++)
        assert_int_equal(status_of(get(f, "/v1/take?policy=api&key=a")), i < 5 ? 200 : 429);
    static const char *const lines[] = {
        "{policy=\"api\",current=\"allowed\",candidate=\"allowed\"} 2\n",
        "{policy=\"api\",current=\"allowed\",candidate=\"denied\"} 3\n",
        "{policy=\"api\",current=\"denied\",candidate=\"allowed\"} 0\n",
        "{policy=\"api\",current=\"denied\",candidate=\"denied\"} 1\n",
    };
    answer = get(f, "/metrics");
    for (size_t i = 0; i < sizeof lines / sizeof lines[0]; i++) {
        char line[160];
        snprintf(line, sizeof line, "\nweir_candidate_decisions_total%s", lines[i]);
        assert_non_null(strstr(answer, line));
    }
    assert_string_equal(body_of(post(f, "/v1/candidate", "{\"policy\":\"api\",\"limit\":\"\"}")),
                        "{\"policy\":\"api\",\"candidate\":null}\n");
    is_problem(with(f, "POST /v1/candidate?policy=api&limit=gcra+1/q", ""), 400,
               "column 8: unknown unit 'q', expected one of ns us ms s m h d w");
    is_problem(post(f, "/v1/candidate", "{\"policy\":\"api\",\"limit\":\"gcra\\u0000\"}"), 400,
               "\"limit\": expected at most 2047 bytes without NUL");
    is_problem(with(f, "POST /v1/candidate?limit=gcra+1/s", ""), 400,
               "missing parameter \"policy\"");
    is_problem(with(f, "POST /v1/candidate?policy=api", ""), 400, "missing parameter \"limit\"");
    is_problem(with(f, "POST /v1/candidate?policy=none&limit=gcra+1/s", ""), 404,
               "unknown policy \"none\"; GET /v1/policies lists all");
    assert_int_equal(status_of(with(f, "POST /v1/candidate?policy=api&limit=", "Origin: null\r\n")),
                     403);
    for (int len = 2047; len <= 2048; len++) {
        static const char too_long[] = "\"limit\": expected at most 2047 bytes without NUL";
        char body[2200];
        snprintf(body, sizeof body, "{\"policy\":\"api\",\"limit\":\"%*s\"}", len, "x");
        answer = post(f, "/v1/candidate", body);
        assert_int_equal(status_of(answer), 400);
        assert_int_equal(strstr(answer, "expected at most 2047 bytes") != NULL, len == 2048);
        if (len == 2048)
            is_problem(answer, 400, too_long);
    }
    kit_engine = WEIR_ENGINE_REDIS;
    set_rules(f);
    kit_engine = WEIR_ENGINE_LOCAL;
    is_problem(with(f, "POST /v1/candidate?policy=api&limit=gcra+1/s", ""), 501,
               "a candidate requires a policy with engine: local");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(check_take),
        TEST(check_lists_and_shadow),
        TEST(check_layers),
        TEST(check_check),
        TEST(check_peek_refund_reset),
        TEST(check_queue),
        TEST(check_queue_reports),
        TEST(check_wrong_parameters),
        TEST(check_long_key),
        TEST(check_key_from_header),
        TEST(check_key_from_query),
        TEST(check_others),
        TEST(check_top),
        TEST(check_number_of_top),
        TEST(check_no_top),
        TEST(check_windows),
        TEST(check_details),
        TEST(check_no_store),
        TEST(check_words),
        TEST(check_full_head),
        TEST(check_fragments),
        TEST(check_unknown_policies),
        TEST(check_more_metrics),
        TEST(check_compressed_metrics),
        TEST(check_options),
        TEST(check_readyz),
        TEST(check_shadow),
        TEST(check_candidate),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
