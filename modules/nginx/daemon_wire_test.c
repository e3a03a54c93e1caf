/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* Tests of questions to a daemon, with the daemon's own parser, and of its replies, by table and in
 * every split. */

#include "daemon_wire.h"

#include "codec/resp/resp.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

static weir_slice slice(const char *text)
{
    return (weir_slice){text, strlen(text)};
}

/* Parses what is in the buffer, which must be one request, as the daemon does. Returns its
 * arguments, until the next call. */
static size_t parse(const weir_buffer *out, const weir_slice **ret)
{
    static weir_slice arg[WEIR_RESP_ARGS_MAX];
    weir_resp_parser parser;
    weir_resp_request request = {.arg = arg};
    weir_resp_init(&parser, NULL);
    size_t len = weir_buffer_len(out);
    assert_int_equal(weir_resp_next(&parser, weir_buffer_data(out), len, &request),
                     WEIR_RESP_REQUEST);
    assert_int_equal(request.used, len);
    *ret = arg;
    return request.args;
}

/* Compares the arguments of the request in the buffer, which are separated by '|', and empties
 * it. */
static void expect_request(weir_buffer *out, const char *expected)
{
    const weir_slice *arg;
    size_t args = parse(out, &arg);
    for (size_t i = 0; i < args; i++) {
        size_t n = strcspn(expected, "|");
        assert_int_equal(arg[i].len, n);
        assert_memory_equal(arg[i].at, expected, n);
        expected += n + (expected[n] == '|');
    }
    assert_string_equal(expected, "");
    weir_buffer_clear(out);
}

static void writes_questions(void **state)
{
    (void)state;
    weir_buffer out;
    weir_buffer_init(&out, 1 << 20);
    weir_ngx_ask_limit limit[WEIR_NGX_ASK_MAX] = {
        {slice("gcra 5/m burst 3"), slice("alice"), 1, 0},
        {slice("fixed-window 9/d"), slice("::1"), WEIR_COST_MAX, 0},
        {slice("gcra 7/s"), slice("bob"), 0, 0},
    };
    weir_ngx_wire_put(&out, limit, 1);
    expect_request(&out, "WEIR.CHECK|gcra 5/m burst 3|alice");
    weir_ngx_wire_put(&out, limit + 1, 1);
    expect_request(&out, "WEIR.CHECK|fixed-window 9/d|::1|COST|2147483647");
    weir_ngx_wire_put(&out, limit, 3);
    expect_request(&out, "WEIR.TAKEALL|3|gcra 5/m burst 3|alice|1|fixed-window 9/d|::1|2147483647|"
                         "gcra 7/s|bob|0");
    limit[0].keep = 20;
    limit[1].keep = WEIR_KEEP_PERCENT(20);
    weir_ngx_wire_put(&out, limit, 1);
    expect_request(&out, "WEIR.CHECK|gcra 5/m burst 3|alice|KEEP|20");
    weir_ngx_wire_put(&out, limit + 1, 1);
    expect_request(&out, "WEIR.CHECK|fixed-window 9/d|::1|COST|2147483647|KEEP|20%");
    weir_ngx_wire_put(&out, limit, 3);
    expect_request(&out, "WEIR.TAKEALL|3|gcra 5/m burst 3|alice|1+20|fixed-window 9/d|::1|"
                         "2147483647+20%|gcra 7/s|bob|0");
    weir_ngx_wire_put_greeting(&out, (weir_slice){NULL, 0});
    expect_request(&out, "PING");
    weir_ngx_wire_put_greeting(&out, slice("a word"));
    expect_request(&out, "AUTH|a word");
    weir_buffer_free(&out);
}

/* The longest question fits the size that was announced, and the daemon accepts it. */
static void announces_the_size(void **state)
{
    (void)state;
    static char key[65536];
    memset(key, 'k', sizeof key);
    weir_buffer out;
    weir_buffer_init(&out, 4 << 20);
    weir_ngx_ask_limit limit[WEIR_NGX_ASK_MAX];
    for (size_t n = 1; n <= WEIR_NGX_ASK_MAX; n++) {
        limit[n - 1] = (weir_ngx_ask_limit){slice("gcra 5/m burst 3"),
                                            {key, n < 15 ? sizeof key : 8000},
                                            WEIR_COST_MAX,
                                            WEIR_COST_MAX};
        size_t size = weir_ngx_wire_size(limit, n);
        weir_ngx_wire_put(&out, limit, n);
        assert_false(out.failed);
        assert_in_range(weir_buffer_len(&out), 1, size);
        assert_in_range(size, 1, WEIR_NGX_QUESTION_LEN_MAX);
        const weir_slice *arg;
        assert_int_equal(parse(&out, &arg), n == 1 ? 7 : 2 + 3 * n);
        weir_buffer_clear(&out);
    }
    weir_buffer_free(&out);
}

/* Reads every prefix, each in an allocation of exactly its length; then with more bytes behind. */
static weir_ngx_reading read_growing(const char *text, size_t limits, weir_ngx_reply *ret)
{
    size_t len = strlen(text);
    weir_ngx_reading reading = WEIR_NGX_READ_MORE;
    for (size_t n = 0; n <= len && reading == WEIR_NGX_READ_MORE; n++) {
        uint8_t *copy = malloc(n > 0 ? n : 1);
        memcpy(copy, text, n);
        reading = weir_ngx_wire_read(copy, n, limits, ret);
        assert_true(reading == WEIR_NGX_READ_MORE || reading == WEIR_NGX_READ_BAD || n == len);
        free(copy);
    }
    char more[256];
    snprintf(more, sizeof more, "%s*6\r", text);
    weir_ngx_reading with_more =
        weir_ngx_wire_read((const uint8_t *)more, strlen(more), limits, ret);
    if (reading == WEIR_NGX_READ_DECISION || reading == WEIR_NGX_READ_ERROR ||
        reading == WEIR_NGX_READ_GREETING) {
        assert_int_equal(with_more, reading);
        assert_int_equal(ret->used, len);
    }
    return reading;
}

static void reads_decisions(void **state)
{
    (void)state;
    weir_ngx_reply r;
    assert_int_equal(read_growing("*6\r\n:1\r\n:9\r\n:8\r\n:0\r\n:70\r\n:5\r\n", 1, &r),
                     WEIR_NGX_READ_DECISION);
    assert_true(r.decision.allowed && !r.decision.never && r.index == 0);
    assert_int_equal(r.decision.limit, 9);
    assert_int_equal(r.decision.remaining, 8);
    assert_int_equal(r.decision.retry_after_ns, 0);
    assert_int_equal(r.decision.reset_after_ns, 70000000);
    assert_int_equal(r.decision.delay_ns, 5000000);
    assert_int_equal(read_growing("*7\r\n:0\r\n:9\r\n:0\r\n:20\r\n:70\r\n:0\r\n:2\r\n", 3, &r),
                     WEIR_NGX_READ_DECISION);
    assert_true(!r.decision.allowed && !r.decision.never && r.index == 2);
    assert_int_equal(r.decision.retry_after_ns, 20000000);
    assert_int_equal(read_growing("*6\r\n:0\r\n:9\r\n:0\r\n:-1\r\n:70\r\n:0\r\n", 1, &r),
                     WEIR_NGX_READ_DECISION);
    assert_true(r.decision.never && r.decision.retry_after_ns == INT64_MAX);
    /* Beyond the digits of the fast path, and beyond 64 bits of nanoseconds. */
    assert_int_equal(read_growing("*6\r\n:0\r\n:9223372036854775807\r\n:0\r\n:9223372036855\r\n"
                                  ":9223372036854\r\n:0\r\n",
                                  1, &r),
                     WEIR_NGX_READ_DECISION);
    assert_true(r.decision.limit == INT64_MAX && !r.decision.never);
    assert_true(r.decision.retry_after_ns == INT64_MAX);
    assert_true(r.decision.reset_after_ns == INT64_C(9223372036854000000));
}

static void reads_words(void **state)
{
    (void)state;
    weir_ngx_reply r;
    assert_int_equal(read_growing("+PONG\r\n", 0, &r), WEIR_NGX_READ_GREETING);
    for (size_t limits = 0; limits < 3; limits++) {
        assert_int_equal(read_growing("-OOM full\r\n", limits, &r), WEIR_NGX_READ_ERROR);
        assert_int_equal(r.error.len, 8);
    }
}

static void refuses_all_else(void **state)
{
    (void)state;
    static const char *const one[] = {
        "+OK\r\n",
        ":1\r\n",
        "$-1\r\n",
        "$2\r\nhi\r\n",
        "%0\r\n",
        "*0\r\n",
        "x",
        "\r\n",
        "*5\r\n:1\r\n:9\r\n:8\r\n:0\r\n:0\r\n",
        "*7\r\n:1\r\n:9\r\n:8\r\n:0\r\n:0\r\n:0\r\n:0\r\n",
        "*6\r\n:1\r\n:9\r\n:8\r\n:0\r\n:0\r\n$1\r\n0\r\n",
        "*6\r\n*6\r\n:1\r\n",
        "*6\r\n-ERR x\r\n",
        "*6\r\n:2\r\n:9\r\n:8\r\n:0\r\n:0\r\n:0\r\n",
        "*6\r\n:-1\r\n:9\r\n:8\r\n:0\r\n:0\r\n:0\r\n",
        "*6\r\n:1\r\n:-9\r\n:-10\r\n:0\r\n:0\r\n:0\r\n",
        "*6\r\n:1\r\n:9\r\n:-1\r\n:0\r\n:0\r\n:0\r\n",
        "*6\r\n:1\r\n:9\r\n:10\r\n:0\r\n:0\r\n:0\r\n",
        "*6\r\n:0\r\n:9\r\n:8\r\n:-2\r\n:0\r\n:0\r\n",
        "*6\r\n:1\r\n:9\r\n:8\r\n:-1\r\n:0\r\n:0\r\n",
        "*6\r\n:1\r\n:9\r\n:8\r\n:0\r\n:-1\r\n:0\r\n",
        "*6\r\n:1\r\n:9\r\n:8\r\n:0\r\n:0\r\n:-1\r\n",
    };
    weir_ngx_reply r;
    for (size_t i = 0; i < sizeof one / sizeof *one; i++)
        assert_int_equal(read_growing(one[i], 1, &r), WEIR_NGX_READ_BAD);
    static const char *const two[] = {"*7\r\n:1\r\n:9\r\n:8\r\n:0\r\n:0\r\n:0\r\n:2\r\n",
                                      "*7\r\n:1\r\n:9\r\n:8\r\n:0\r\n:0\r\n:0\r\n:-1\r\n",
                                      "*6\r\n:1\r\n:9\r\n:8\r\n:0\r\n:0\r\n:0\r\n", "+OK\r\n"};
    for (size_t i = 0; i < sizeof two / sizeof *two; i++)
        assert_int_equal(read_growing(two[i], 2, &r), WEIR_NGX_READ_BAD);
    static const char *const greeting[] = {":1\r\n", "*1\r\n:1\r\n", "*0\r\n", "$4\r\nPONG\r\n"};
    for (size_t i = 0; i < sizeof greeting / sizeof *greeting; i++)
        assert_int_equal(read_growing(greeting[i], 0, &r), WEIR_NGX_READ_BAD);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(writes_questions), cmocka_unit_test(announces_the_size),
        cmocka_unit_test(reads_decisions),  cmocka_unit_test(reads_words),
        cmocka_unit_test(refuses_all_else),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
