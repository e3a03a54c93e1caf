/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* OTLP in JSON, byte by byte, and addresses. */

#include "telemetry/otlp.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <jansson.h>

static const otlp_sender sender = {"{\"key\":\"a\",\"value\":{\"stringValue\":\"b\"}}", "1.2.3", 5};

#define HEAD(signal, list)                                                                         \
    "{\"resource" signal "\":[{\"resource\":{\"attributes\":[{\"key\":\"a\",\"value\":"            \
    "{\"stringValue\":\"b\"}}]},\"scope" signal                                                    \
    "\":[{\"scope\":{\"name\":\"weir\",\"version\":\"1.2.3\"},\"" list "\":["
#define TAIL "]}]}]}"

static void expect(weir_buffer *b, const char *want)
{
    json_t *parsed = json_loadb((char *)weir_buffer_data(b), weir_buffer_len(b), 0, NULL);
    weir_buffer_append(b, "", 1);
    assert_false(b->failed);
    assert_string_equal((char *)weir_buffer_data(b), want);
    assert_non_null(parsed);
    json_decref(parsed);
    weir_buffer_free(b);
}

static void expect_metrics(const char *text, const char *want)
{
    weir_buffer b;
    weir_buffer_init(&b, 1 << 16);
    otlp_put_metrics(&b, &sender, (weir_slice){text, strlen(text)}, 9);
    expect(&b, want);
}

/* ---- addresses ------------------------------------------------------------------------------- */

static void expect_endpoint(const char *text, const char *host, int port, const char *authority,
                            const char *base)
{
    otlp_endpoint e;
    if (!otlp_endpoint_read(text, &e))
        fail_msg("refused %s", text);
    assert_string_equal(e.host, host);
    assert_int_equal(e.port, port);
    assert_string_equal(e.authority, authority);
    assert_string_equal(e.base, base);
    assert_int_equal(e.tls, strncmp(text, "https", 5) == 0);
}

static void test_endpoints(void **state)
{
    (void)state;
    expect_endpoint("http://127.0.0.1:4318", "127.0.0.1", 4318, "127.0.0.1:4318", "");
    expect_endpoint("http://c:1/", "c", 1, "c:1", "");
    expect_endpoint("https://c:65535/otlp/x//", "c", 65535, "c:65535", "/otlp/x");
    expect_endpoint("http://c", "c", 80, "c", "");
    expect_endpoint("https://c.example/otlp", "c.example", 443, "c.example", "/otlp");
    expect_endpoint("http://[::1]:4318", "::1", 4318, "[::1]:4318", "");
    expect_endpoint("https://[::1]", "::1", 443, "[::1]", "");
}

static void test_bad_endpoints(void **state)
{
    static const char *const texts[] = {"",
                                        "c:4318",
                                        "ftp://c:1",
                                        "http:/c",
                                        "http://",
                                        "http://:1",
                                        "http://c:",
                                        "http://c:0",
                                        "http://c:65536",
                                        "http://c:x",
                                        "http://a:b@c",
                                        "http://c?d",
                                        "http://c#d",
                                        "http://c /",
                                        "http://c/ d",
                                        "http://c/\x7F",
                                        "http://[::1",
                                        "http://[]:1",
                                        "http://::1",
                                        "http://[::1]4318",
                                        "http://c/\"",
                                        "HTTP://c"};
    otlp_endpoint e;
    (void)state;
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        if (otlp_endpoint_read(texts[i], &e))
            fail_msg("accepted %s", texts[i]);
    }
}

/* A URL with a host and a path of these lengths. */
static bool reads(size_t host, size_t path)
{
    char text[1024] = "http://";
    otlp_endpoint e;
    memset(text + 7, 'h', host);
    memset(text + 7 + host, 'p', path);
    if (path > 0)
        text[7 + host] = '/';
    text[7 + host + path] = '\0';
    return otlp_endpoint_read(text, &e);
}

static void test_long_endpoints(void **state)
{
    (void)state;
    assert_true(reads(255, 255));
    assert_false(reads(256, 255));
    assert_false(reads(255, 256));
    assert_false(reads(300, 0));
}

/* ---- metrics --------------------------------------------------------------------------------- */

static void test_no_metrics(void **state)
{
    (void)state;
    expect_metrics("", HEAD("Metrics", "metrics") TAIL);
    expect_metrics("# HELP a Text.\n# TYPE a counter\n", HEAD("Metrics", "metrics") TAIL);
}

static void test_numbers(void **state)
{
    (void)state;
    expect_metrics(
        "# HELP up_total Says \"up\".\n"
        "# TYPE up_total counter\n"
        "up_total{policy=\"a\",verdict=\"denied\"} 12\n"
        "up_total 999999999999999999\n"
        "up_total 1000000000000000000\n"
        "# HELP empty Text.\n"
        "# TYPE empty gauge\n"
        "# HELP level Text.\n"
        "# TYPE level gauge\n"
        "level -0.000000001\n",
        HEAD("Metrics",
             "metrics") "{\"name\":\"up_total\",\"description\":\"Says \\\"up\\\".\",\"sum\":"
                        "{\"aggregationTemporality\":2,\"isMonotonic\":true,\"dataPoints\":["
                        "{\"attributes\":[{\"key\":\"policy\",\"value\":{\"stringValue\":\"a\"}},"
                        "{\"key\":\"verdict\",\"value\":{\"stringValue\":\"denied\"}}],"
                        "\"startTimeUnixNano\":\"5\",\"timeUnixNano\":\"9\",\"asInt\":\"12\"},"
                        "{\"attributes\":[],\"startTimeUnixNano\":\"5\",\"timeUnixNano\":\"9\","
                        "\"asInt\":\"999999999999999999\"},"
                        "{\"attributes\":[],\"startTimeUnixNano\":\"5\",\"timeUnixNano\":\"9\","
                        "\"asDouble\":1000000000000000000}]}},"
                        "{\"name\":\"level\",\"description\":\"Text.\",\"gauge\":{\"dataPoints\":["
                        "{\"attributes\":[],\"timeUnixNano\":\"9\",\"asDouble\":-0.000000001}]}"
                        "}" TAIL);
}

static void test_labels(void **state)
{
    (void)state;
    expect_metrics(
        "# HELP a b\n# TYPE a gauge\n"
        "a{x=\"q\\\"b\\\\n\\nz\",y=\"\",z=\"t\t\xFF,}= \"} 1\n",
        HEAD("Metrics",
             "metrics") "{\"name\":\"a\",\"description\":\"b\",\"gauge\":{\"dataPoints\":["
                        "{\"attributes\":[{\"key\":\"x\",\"value\":{\"stringValue\":"
                        "\"q\\\"b\\\\n\\nz\"}},{\"key\":\"y\",\"value\":{\"stringValue\":\"\"}},"
                        "{\"key\":\"z\",\"value\":{\"stringValue\":\"t\\u0009\\ufffd,}= \"}}],"
                        "\"timeUnixNano\":\"9\",\"asInt\":\"1\"}]}}" TAIL);
}

static void test_histogram(void **state)
{
    static const char one[] = "h_bucket{le=\"0.5\"} 2\n"
                              "h_bucket{le=\"1.5\"} 2\n"
                              "h_bucket{le=\"+Inf\"} 5\n"
                              "h_sum 7.250000000\n"
                              "h_count 5\n";
    char text[512];
    (void)state;
    snprintf(text, sizeof text, "# HELP h Text.\n# TYPE h histogram\n%s%s", one, one);
#define POINT                                                                                      \
    "{\"startTimeUnixNano\":\"5\",\"timeUnixNano\":\"9\",\"sum\":7.250000000,\"count\":\"5\","     \
    "\"bucketCounts\":[\"2\",\"0\",\"3\"],\"explicitBounds\":[0.5,1.5]}"
    expect_metrics(
        text, HEAD("Metrics", "metrics") "{\"name\":\"h\",\"description\":\"Text.\",\"histogram\":"
                                         "{\"aggregationTemporality\":2,\"dataPoints\":[" POINT
                                         "," POINT "]}}" TAIL);
}

/* ---- spans ----------------------------------------------------------------------------------- */

static weir_trace_span span_of(const char *method, const char *name, int status)
{
    return (weir_trace_span){.parent = {{0x0A, [15] = 0xF0}, {0xB7, [7] = 1}},
                             .method = method,
                             .name = name,
                             .status = status,
                             .reason = "limit"};
}

static void expect_span(const otlp_span *span, const char *want)
{
    weir_buffer b;
    weir_buffer_init(&b, 1 << 16);
    otlp_put_span(&b, span, 0xABC, true);
    expect(&b, want);
}

#define IDS                                                                                        \
    "\"traceId\":\"0a0000000000000000000000000000f0\",\"spanId\":\"0000000000000abc\","            \
    "\"parentSpanId\":\"b700000000000001\",\"flags\":769,"
#define TIMES "\"kind\":2,\"startTimeUnixNano\":\"3\",\"endTimeUnixNano\":\"4\",\"attributes\":["
static void test_http_span(void **state)
{
    otlp_span span = {span_of("POST", "/v1/take", 429), 3, 4};
    (void)state;
    strcpy(span.of.policy, "api");
    strcpy(span.of.context_name, "front");
    span.of.context = "weir.route";
    expect_span(&span, "{" IDS "\"name\":\"POST /v1/take\"," TIMES
                       "{\"key\":\"http.request.method\",\"value\":{\"stringValue\":\"POST\"}},"
                       "{\"key\":\"http.route\",\"value\":{\"stringValue\":\"/v1/take\"}},"
                       "{\"key\":\"http.response.status_code\",\"value\":{\"intValue\":\"429\"}},"
                       "{\"key\":\"weir.allowed\",\"value\":{\"boolValue\":false}},"
                       "{\"key\":\"weir.reason\",\"value\":{\"stringValue\":\"limit\"}},"
                       "{\"key\":\"weir.policy\",\"value\":{\"stringValue\":\"api\"}},"
                       "{\"key\":\"weir.route\",\"value\":{\"stringValue\":\"front\"}}"
                       "],\"status\":{}}");
}

static void test_status(void **state)
{
    otlp_span span = {span_of("GET", "/x", 499), 3, 4};
    weir_buffer b;
    (void)state;
    weir_buffer_init(&b, 1 << 16);
    otlp_put_span(&b, &span, 1, true);
    weir_buffer_append(&b, "", 1);
    assert_non_null(strstr((char *)weir_buffer_data(&b), "\"status\":{}}"));
    weir_buffer_clear(&b);
    span.of.status = 500;
    otlp_put_span(&b, &span, 1, true);
    weir_buffer_append(&b, "", 1);
    assert_non_null(strstr((char *)weir_buffer_data(&b), "\"status\":{\"code\":2}}"));
    weir_buffer_free(&b);
}

static void test_grpc_span(void **state)
{
    otlp_span span = {span_of(NULL, "a.b.Service/Method", 500), 3, 4};
    (void)state;
    span.of.allowed = true;
    expect_span(&span, "{" IDS "\"name\":\"a.b.Service/Method\"," TIMES
                       "{\"key\":\"rpc.system\",\"value\":{\"stringValue\":\"grpc\"}},"
                       "{\"key\":\"rpc.service\",\"value\":{\"stringValue\":\"a.b.Service\"}},"
                       "{\"key\":\"rpc.method\",\"value\":{\"stringValue\":\"Method\"}},"
                       "{\"key\":\"rpc.grpc.status_code\",\"value\":{\"intValue\":\"500\"}},"
                       "{\"key\":\"weir.allowed\",\"value\":{\"boolValue\":true}},"
                       "{\"key\":\"weir.reason\",\"value\":{\"stringValue\":\"limit\"}}"
                       "],\"status\":{}}");
}

static void test_spans(void **state)
{
    const otlp_span span = {span_of(NULL, "S/M", 0), 3, 4};
    weir_buffer b, one;
    char want[4096];
    (void)state;
    weir_buffer_init(&b, 1 << 16);
    weir_buffer_init(&one, 1 << 16);
    otlp_put_span(&one, &span, 7, true);
    weir_buffer_append(&one, "", 1);
    otlp_begin_spans(&b, &sender);
    otlp_put_span(&b, &span, 7, true);
    otlp_put_span(&b, &span, 7, false);
    otlp_end_spans(&b);
    snprintf(want, sizeof want, HEAD("Spans", "spans") "%s,%s" TAIL, (char *)weir_buffer_data(&one),
             (char *)weir_buffer_data(&one));
    expect(&b, want);
    weir_buffer_free(&one);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_endpoints),      cmocka_unit_test(test_bad_endpoints),
        cmocka_unit_test(test_long_endpoints), cmocka_unit_test(test_no_metrics),
        cmocka_unit_test(test_numbers),        cmocka_unit_test(test_labels),
        cmocka_unit_test(test_histogram),      cmocka_unit_test(test_http_span),
        cmocka_unit_test(test_status),         cmocka_unit_test(test_grpc_span),
        cmocka_unit_test(test_spans),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
