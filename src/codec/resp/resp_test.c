/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* Tests of the buffer and of RESP: tables, every protocol error, every way to cut the input, and
 * seeded round trips. */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "codec/resp/resp.h"
#include "port/random_kit_test.h"

/* Lets a huge allocation fail instead of ending the program. */
const char *__asan_default_options(void);
const char *__asan_default_options(void)
{
    return "allocator_may_return_null=1";
}

/* ---- the buffer ------------------------------------------------------------------------------ */

static void buffer_keeps_its_maximum(void **state)
{
    (void)state;
    weir_buffer b;
    weir_buffer_init(&b, 10);
    weir_buffer_append(&b, "01234567", 8);
    weir_buffer_append(&b, NULL, 0);
    assert_false(b.failed);
    weir_buffer_consume(&b, 3);
    weir_buffer_append(&b, "abcde", 5);
    assert_false(b.failed);
    weir_buffer_append_byte(&b, 'f');
    assert_true(b.failed);
    weir_buffer_consume(&b, 1);
    weir_buffer_append_byte(&b, 'f'); /* fits, but must not follow a lost reply */
    assert_int_equal(weir_buffer_len(&b), 9);
    assert_memory_equal(weir_buffer_data(&b), "4567abcde", 9);
    weir_buffer_consume(&b, 9);
    assert_false(weir_buffer_reserve(&b, 1));
    weir_buffer_clear(&b);
    assert_true(weir_buffer_reserve(&b, 10));
    assert_false(weir_buffer_reserve(&b, 11));
    weir_buffer_free(&b);
    weir_buffer_append(&b, "again", 5);
    assert_int_equal(weir_buffer_len(&b), 5);
    weir_buffer_free(&b);
    weir_buffer_free(&(weir_buffer){0});
}

static void buffer_survives_no_memory(void **state)
{
    (void)state;
    weir_buffer b;
    weir_buffer_init(&b, SIZE_MAX / 4);
    weir_buffer_append(&b, "kept", 4);
    assert_false(weir_buffer_reserve(&b, SIZE_MAX / 4 - 4));
    assert_true(b.failed);
    assert_memory_equal(weir_buffer_data(&b), "kept", 4);
    weir_buffer_free(&b);
}

static void buffer_is_a_queue(void **state)
{
    (void)state;
    uint64_t seed = 1;
    for (size_t len_max = 1; len_max < 3000; len_max = len_max * 3 + 1) {
        weir_buffer b;
        weir_buffer_init(&b, len_max);
        uint8_t in = 0, out = 0; /* the bytes count up */
        for (int i = 0; i < 4000; i++) {
            size_t len = weir_buffer_len(&b);
            size_t n = (size_t)next_random(&seed) % (len_max - len + 1);
            if (n > 0 && next_random(&seed) % 2) {
                assert_true(weir_buffer_reserve(&b, n));
                for (size_t k = 0; k < n; k++)
                    weir_buffer_tail(&b)[k] = in++;
                weir_buffer_added(&b, n);
            } else {
                for (size_t k = 0; k < n; k++)
                    weir_buffer_append_byte(&b, in++);
            }
            assert_int_equal(weir_buffer_len(&b), len + n);
            n = (size_t)next_random(&seed) % (len + n + 1);
            for (size_t k = 0; k < n; k++)
                assert_int_equal(weir_buffer_data(&b)[k], out++);
            weir_buffer_consume(&b, n);
            assert_true(b.capacity <= 2 * len_max && !b.failed);
        }
        weir_buffer_free(&b);
    }
}

/* ---- the parser ------------------------------------------------------------------------------ */

static bool lies_in(const weir_slice *arg, const uint8_t *at, size_t len)
{
    const uint8_t *begin = (const uint8_t *)arg->at;
    return begin >= at && begin + arg->len <= at + len;
}

/* Writes the results of the parser as text: "[3:GET,1:a]" for each request, then "more", "http" or
 * an error.
 *  cut   the input is cut here
 *  step  > 0: it is cut every `step` bytes instead */
static void run(const weir_resp_limits *limits, const char *bytes, size_t len, size_t cut,
                size_t step, weir_buffer *ret)
{
    weir_resp_parser p;
    weir_slice arg[WEIR_RESP_ARGS_MAX];
    static uint8_t words[WEIR_RESP_INLINE_LEN_MAX];
    weir_resp_request req = {.arg = arg, .words = words};
    weir_resp_result r = WEIR_RESP_NEED_MORE;
    weir_resp_init(&p, limits);
    size_t begin = 0, arrived = 0;
    uint8_t *rest = malloc(len + 1);
    while (arrived < len && r == WEIR_RESP_NEED_MORE) {
        size_t until = step > 0 ? arrived + step : arrived < cut ? cut : len;
        arrived = until < len ? until : len;
        do { /* the input moves each time, and ends at the end of its allocation */
            size_t n = arrived - begin;
            uint8_t *in = realloc(rest, n + (n == 0));
            rest = in;
            memcpy(in, bytes + begin, n);
            r = weir_resp_next(&p, in, n, &req);
            assert_true(req.used <= n);
            begin += req.used;
            if (r == WEIR_RESP_REQUEST)
                weir_buffer_append_byte(ret, '[');
            for (size_t i = 0; i < req.args; i++) {
                assert_true(lies_in(&arg[i], in, req.used) ||
                            lies_in(&arg[i], words, sizeof words));
                char head[32];
                weir_buffer_append(
                    ret, head,
                    (size_t)snprintf(head, sizeof head, "%s%zu:", i ? "," : "", arg[i].len));
                weir_buffer_append(ret, arg[i].at, arg[i].len);
            }
            if (r == WEIR_RESP_REQUEST)
                weir_buffer_append_byte(ret, ']');
        } while (r == WEIR_RESP_REQUEST);
    }
    const char *end = r == WEIR_RESP_ERROR        ? req.error
                      : r == WEIR_RESP_HTTP_GUARD ? "http"
                                                  : "more";
    weir_buffer_append(ret, end, strlen(end));
    if (r == WEIR_RESP_NEED_MORE && begin < len)
        weir_buffer_append(ret, "...", 3); /* a request is incomplete */
    free(rest);
}

/* Expects the same of the whole input, cut in two at each byte, and in pieces of 1, 2, 3, 7
 * bytes. */
static void check(const weir_resp_limits *limits, const char *bytes, size_t len,
                  const char *expected, size_t expected_len)
{
    static const size_t steps[] = {1, 2, 3, 7};
    weir_buffer got;
    weir_buffer_init(&got, 1 << 20);
    for (size_t i = 0; i <= len + 4; i++) {
        weir_buffer_clear(&got);
        run(limits, bytes, len, i, i > len ? steps[i - len - 1] : 0, &got);
        weir_buffer_append_byte(&got, 0);
        if (weir_buffer_len(&got) != expected_len + 1 ||
            memcmp(weir_buffer_data(&got), expected, expected_len) != 0)
            fail_msg("cut %zu of '%s': got %s, expected %s", i, bytes,
                     (const char *)weir_buffer_data(&got), expected);
    }
    weir_buffer_free(&got);
}

#define ERR "Protocol error: "
#define T(in, out)                                                                                 \
    {                                                                                              \
        in, sizeof in - 1, out, sizeof out - 1                                                     \
    }

typedef struct row {
    const char *in;
    size_t len;
    const char *out;
    size_t out_len;
} row;

static void requests_by_table(void **state)
{
    (void)state;
    static const row rows[] = {
        T("*1\r\n$4\r\nPING\r\n", "[4:PING]more"),
        T("*2\r\n$0\r\n\r\n$3\r\na\r\n\r\n", "[0:,3:a\r\n]more"),
        T("*2\r\n$1\r\n\0\r\n$12\r\n$1\r\nx\r\n*1\r\n$\r\n", "[1:\0,12:$1\r\nx\r\n*1\r\n$]more"),
        T("*1\r\n$4\r\nPING\r\n*1\r\n$4\r\nPONG\r\nECHO 1\n", "[4:PING][4:PONG][4:ECHO,1:1]more"),
        T("*0\r\n*-1\r\n\r\n\n  \r\n*1\r\n$1\r\na\r\n*-7\r\n", "[1:a]more"),
        T("*1\r\n$4\r\nPIN", "more..."),
        T("*1\r\n$4\r\nPING\r", "more..."),
        T("*", "more..."),
        T("PING", "more..."),
        T("PING\r\n", "[4:PING]more"),
        T("  set\ta  b \r\n", "[3:set,1:a,1:b]more"),
        T("\"\\x41\\n\\r\\t\\b\\a\\\\\\\"\\q\\xg1\" ''\n", "[12:A\n\r\t\b\a\\\"qxg1,0:]more"),
        T("'\\'a\\n\"' b'c d' \"\\xfF\\x00\"\n", "[5:'a\\n\",4:bc d,2:\xff\0]more"),
        T("a b\0c\n", "[1:a,3:b\0c]more"),
        T("a \x16\n", "[1:a,1:\x16]more"),
        T("\xc3\xbc\n", "[2:\xc3\xbc]more"),
        T("POST / HTTP/1.1\r\n", "http"),
        T("  post\n", "http"),
        T("POST \"\n", "http"),
        T("GET / HTTP/1.1\r\nhOsT: x\r\n", "[3:GET,1:/,8:HTTP/1.1]http"),
        T("*2\r\n$5\r\nhost:\r\n$1\r\nx\r\n", "http"),
        T("HOSTS: 1\r\nHost : 2\r\nPOSTS\r\n", "[6:HOSTS:,1:1][4:Host,1::,1:2][5:POSTS]more"),
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        check(NULL, rows[i].in, rows[i].len, rows[i].out, rows[i].out_len);
}

#define BINARY "expected a command, found control bytes; this port has no TLS"

static void errors_by_table(void **state)
{
    (void)state;
    static const row rows[] = {
        T("*+1\r\n", ERR "invalid multibulk length"),
        T("*01\r\n", ERR "invalid multibulk length"),
        T("*-0\r\n", ERR "invalid multibulk length"),
        T("*\r\n", ERR "invalid multibulk length"),
        T("*1\n", ERR "invalid multibulk length"),
        T("*1:\r\n", ERR "invalid multibulk length"),
        T("*1/\r\n", ERR "invalid multibulk length"),
        T("*:0\r\n", ERR "invalid multibulk length"),
        T("*/9\r\n", ERR "invalid multibulk length"),
        T("*:\r\n\r\n", ERR "invalid multibulk length"),
        T("*\n", ERR "invalid multibulk length"),
        T("* 1\r\n", ERR "invalid multibulk length"),
        T("*65\r\n", ERR "invalid multibulk length"),
        T("*9223372036854775807\r\n", ERR "invalid multibulk length"),
        T("*99999999999999999999\r\n", ERR "invalid multibulk length"),
        T("*1\r\n4\r\nPING\r\n", ERR "expected '$', got '4'"),
        T("*1\r\n\r\n", ERR "expected '$', got '\\x0d'"),
        T("*2\r\n$1\r\na\r\n*", ERR "expected '$', got '*'"),
        T("*1\r\n$-1\r\n", ERR "invalid bulk length"),
        T("*1\r\n$+1\r\n", ERR "invalid bulk length"),
        T("*1\r\n$01\r\n", ERR "invalid bulk length"),
        T("*1\r\n$1\n", ERR "invalid bulk length"),
        T("*1\r\n$536870913\r\n", ERR "invalid bulk length"),
        T("*1\r\n$69633\r\n", ERR "invalid bulk length"),
        T("*1\r\n$1\r\nab\r\n", ERR "expected CR LF after a bulk string"),
        T("*1\r\n$1\r\na\r\r", ERR "expected CR LF after a bulk string"),
        T("*00000000000000000000000000000000\r\n", ERR "too big mbulk count string"),
        T("*1\r\n$0000000000000000000000000000000\r\n", ERR "too big bulk count string"),
        T("a \"b\n", ERR "unbalanced quotes in request"),
        T("a 'b\\'\n", ERR "unbalanced quotes in request"),
        T("a \"b\"c\n", ERR "unbalanced quotes in request"),
        T("\x16\x03\x01\x02\0\x01", ERR BINARY),
        T("\0", ERR BINARY),
        T("  a\0", ERR BINARY),
        T("\"a\x7f", ERR BINARY),
        T("PING\r\n\n\x16\n", "[4:PING]" ERR BINARY),
        T("PING\r\n*x\r\n", "[4:PING]" ERR "invalid multibulk length"),
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        check(NULL, rows[i].in, rows[i].len, rows[i].out, rows[i].out_len);
}

static void limits_are_kept(void **state)
{
    (void)state;
    static const weir_resp_limits limits = {
        .args_max = 2, .arg_len_max = 4, .inline_len_max = 8, .request_len_max = 21};
    static const row rows[] = {
        T("*2\r\n$4\r\nabcd\r\n$1\r\nx\r\n", "[4:abcd,1:x]more"),
        T("*2\r\n$4\r\nabcd\r\n$2\r\n", ERR "too big request"),
        T("*3\r\n", ERR "invalid multibulk length"),
        T("*1\r\n$5\r\n", ERR "invalid bulk length"),
        T("abcd efg\n", "[4:abcd,3:efg]more"),
        T("ab cdef\r\n", "[2:ab,4:cdef]more"),
        T("abcd ef\r\r\n", ERR "too big inline request"),
        T("abcd efgh", ERR "too big inline request"),
        T("a b c\n", ERR "too big inline request"),
        T("abcde\n", ERR "too big inline request"),
        T("\"abc\\x41\"\n", ERR "too big inline request"), /* 9 bytes before decoding */
        T("'a\\'bc'\n", "[4:a'bc]more"),
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        check(&limits, rows[i].in, rows[i].len, rows[i].out, rows[i].out_len);
}

/* The default inline limit, to the byte; and a long line that comes byte by byte is scanned
 * once. */
static void a_long_line_is_refused(void **state)
{
    (void)state;
    static uint8_t line[WEIR_RESP_INLINE_LEN_MAX + 2];
    weir_slice arg[WEIR_RESP_ARGS_MAX];
    static uint8_t words[WEIR_RESP_INLINE_LEN_MAX];
    weir_resp_request req = {.arg = arg, .words = words};
    weir_resp_parser p;
    memset(line, 'a', sizeof line);
    weir_resp_init(&p, NULL);
    for (size_t n = 0; n <= WEIR_RESP_INLINE_LEN_MAX; n++)
        assert_int_equal(weir_resp_next(&p, line, n, &req), WEIR_RESP_NEED_MORE);
    assert_int_equal(weir_resp_next(&p, line, sizeof line - 1, &req), WEIR_RESP_ERROR);
    assert_string_equal(req.error, ERR "too big inline request");
    weir_resp_init(&p, NULL);
    line[WEIR_RESP_INLINE_LEN_MAX] = '\n';
    assert_int_equal(weir_resp_next(&p, line, sizeof line, &req), WEIR_RESP_REQUEST);
    assert_int_equal(req.used, WEIR_RESP_INLINE_LEN_MAX + 1);
}

/* Random pipelines, written by the reply writer, are parsed back however they are cut. */
static void random_pipelines_are_parsed_back(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 60; seed++) {
        uint64_t s = seed;
        weir_buffer in, out;
        weir_buffer_init(&in, 1 << 20);
        weir_buffer_init(&out, 1 << 20);
        for (uint64_t r = next_random(&s) % 5; r < 5; r++) {
            size_t args = 1 + next_random(&s) % 5;
            weir_resp_put_array(&in, args);
            for (size_t i = 0; i < args; i++) {
                uint8_t bytes[130], head[32];
                size_t len = next_random(&s) % (next_random(&s) % 8 ? 12 : sizeof bytes);
                for (size_t k = 0; k < len; k++)
                    bytes[k] = (uint8_t) "\r\n$*1ab\"'\\"[next_random(&s) % 10];
                weir_resp_put_bulk(&in, bytes, len);
                weir_buffer_append(
                    &out, head,
                    (size_t)snprintf((char *)head, sizeof head, "%c%zu:", i ? ',' : '[', len));
                weir_buffer_append(&out, bytes, len);
            }
            weir_buffer_append_byte(&out, ']');
        }
        weir_buffer_append(&out, "more", 4);
        check(NULL, (const char *)weir_buffer_data(&in), weir_buffer_len(&in),
              (const char *)weir_buffer_data(&out), weir_buffer_len(&out));
        weir_buffer_free(&in);
        weir_buffer_free(&out);
    }
}

/* ---- numbers, words, replies ----------------------------------------------------------------- */

static void numbers_are_strict(void **state)
{
    (void)state;
    static const char *const bad[] = {"",
                                      "-",
                                      "+1",
                                      "01",
                                      "-0",
                                      "-01",
                                      "00",
                                      " 1",
                                      "1 ",
                                      "1a",
                                      "0x1",
                                      "1.0",
                                      "--1",
                                      "/",
                                      ":",
                                      "1-",
                                      "9223372036854775808",
                                      "-9223372036854775809",
                                      "18446744073709551617",
                                      "10000000000000000000000"};
    int64_t v = 77;
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        assert_false(weir_i64_read(bad[i], strlen(bad[i]), &v));
    assert_int_equal(v, 77);
    uint64_t seed = 3;
    static const int64_t edges[] = {0, 1, -1, 9, 10, 99, 100, -100, INT64_MAX, INT64_MIN};
    for (size_t i = 0; i < 20000; i++) {
        int64_t x = i < 10 ? edges[i] : (int64_t)(next_random(&seed) >> next_random(&seed) % 64);
        x = i % 2 && i >= 10 ? -x : x;
        char text[32];
        int len = snprintf(text, sizeof text, ":%lld\r\n", (long long)x);
        weir_buffer b;
        weir_buffer_init(&b, 64);
        weir_resp_put_i64(&b, x);
        assert_int_equal(weir_buffer_len(&b), len);
        assert_memory_equal(weir_buffer_data(&b), text, (size_t)len);
        assert_true(weir_i64_read((const char *)weir_buffer_data(&b) + 1, (size_t)len - 3, &v));
        assert_true(v == x);
        weir_buffer_free(&b);
    }
}

static void an_array_of_integers_equals_single_integers(void **state)
{
    (void)state;
    static const int64_t edges[] = {0,  1,   -1,  9,    10,        -9,       -10,
                                    99, 100, 999, 1000, INT64_MAX, INT64_MIN};
    enum { EDGES = sizeof edges / sizeof edges[0] };
    weir_buffer one_by_one, together;
    weir_buffer_init(&one_by_one, 1024);
    weir_buffer_init(&together, 1024);
    for (size_t n = 0; n <= EDGES; n++) {
        weir_resp_put_integers(&together, edges, n, 1);
        weir_resp_put_array(&one_by_one, n + 1);
        for (size_t i = 0; i < n; i++)
            weir_resp_put_i64(&one_by_one, edges[i]);
        assert_int_equal(weir_buffer_len(&together), weir_buffer_len(&one_by_one));
        assert_memory_equal(weir_buffer_data(&together), weir_buffer_data(&one_by_one),
                            weir_buffer_len(&together));
        weir_buffer_clear(&one_by_one);
        weir_buffer_clear(&together);
    }
    weir_buffer_free(&one_by_one);
    weir_buffer_free(&together);
    weir_buffer_init(&together, 60); /* too small: nothing is written rather than a part */
    weir_resp_put_integers(&together, edges, EDGES, 0);
    assert_true(together.failed);
    assert_int_equal(weir_buffer_len(&together), 0);
    weir_buffer_free(&together);
}

static void words_are_case_insensitive(void **state)
{
    (void)state;
    static const struct {
        const char *arg;
        bool same;
    } rows[] = {{"COST", true},   {"cost", true},     {"CoSt", true}, {"COS", false},
                {"COSTS", false}, {"CO\x13T", false}, {"", false},    {"C0ST", false}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        weir_slice arg = {rows[i].arg, strlen(rows[i].arg)};
        assert_int_equal(weir_resp_word_is(arg, "COST"), rows[i].same);
    }
    assert_false(weir_resp_word_is((weir_slice){"{", 1}, "["));
}

static void write_all(weir_buffer *b, int proto)
{
    weir_resp_put_map(b, 1, proto);
    weir_resp_put_text(b, "k");
    weir_resp_put_array(b, 4);
    weir_resp_put_null(b, proto);
    weir_resp_put_bool(b, true, proto);
    weir_resp_put_bool(b, false, proto);
    weir_resp_put_bulk(b, NULL, 0);
    weir_resp_put_simple(b, "OK");
    weir_resp_put_error(b, "ERR bad\r\nword", 13);
}

static void replies_by_version(void **state)
{
    (void)state;
    static const char two[] =
        "*2\r\n$1\r\nk\r\n*4\r\n$-1\r\n:1\r\n:0\r\n$0\r\n\r\n+OK\r\n-ERR bad  word\r\n";
    static const char three[] =
        "%1\r\n$1\r\nk\r\n*4\r\n_\r\n#t\r\n#f\r\n$0\r\n\r\n+OK\r\n-ERR bad  word\r\n";
    for (int proto = 2; proto <= 3; proto++) {
        const char *all = proto == 2 ? two : three;
        for (size_t len_max = 1; len_max <= sizeof two; len_max++) {
            weir_buffer b;
            weir_buffer_init(&b, len_max);
            write_all(&b, proto);
            assert_int_equal(b.failed, len_max < strlen(all));
            assert_true(b.failed || weir_buffer_len(&b) == strlen(all));
            assert_memory_equal(all, b.bytes ? (char *)b.bytes : "", weir_buffer_len(&b));
            weir_buffer_free(&b);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(buffer_keeps_its_maximum),
        cmocka_unit_test(buffer_survives_no_memory),
        cmocka_unit_test(buffer_is_a_queue),
        cmocka_unit_test(requests_by_table),
        cmocka_unit_test(errors_by_table),
        cmocka_unit_test(limits_are_kept),
        cmocka_unit_test(a_long_line_is_refused),
        cmocka_unit_test(random_pipelines_are_parsed_back),
        cmocka_unit_test(numbers_are_strict),
        cmocka_unit_test(an_array_of_integers_equals_single_integers),
        cmocka_unit_test(words_are_case_insensitive),
        cmocka_unit_test(replies_by_version),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
