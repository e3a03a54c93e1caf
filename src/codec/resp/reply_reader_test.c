/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* Tests of the reply reader: valid and malformed replies by table, byte by byte. */

#include "codec/resp/reply_reader.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* Reads every prefix of a reply, each in an allocation of exactly its length. */
static weir_resp_reading read_growing(const char *text, size_t len, weir_resp_reply *ret,
                                      size_t *ret_at)
{
    for (size_t n = 0; n <= len; n++) {
        uint8_t *copy = malloc(n > 0 ? n : 1);
        memcpy(copy, text, n);
        weir_resp_reading r = weir_resp_reply_read(copy, n, ret);
        free(copy);
        *ret_at = n;
        if (r != WEIR_RESP_READ_MORE)
            return r;
    }
    return WEIR_RESP_READ_MORE;
}

static void good(const char *text, const char *types)
{
    weir_resp_reply reply;
    size_t at, len = strlen(text), n = strlen(types);
    assert_int_equal(read_growing(text, len, &reply, &at), WEIR_RESP_READ);
    assert_int_equal(at, len); /* complete at its last byte */
    assert_int_equal(reply.used, len);
    assert_int_equal(reply.values, n);
    static const char letters[] = "+-:$_#*%";
    for (size_t i = 0; i < n; i++)
        assert_int_equal(letters[reply.value[i].type], types[i]);
    /* The bytes after the reply are not examined. */
    char *more = malloc(len + 2);
    memcpy(more, text, len);
    memcpy(more + len, "?x", 2);
    assert_int_equal(weir_resp_reply_read((uint8_t *)more, len + 2, &reply), WEIR_RESP_READ);
    assert_int_equal(reply.used, len);
    free(more);
}

static void reads_each_type(void **state)
{
    (void)state;
    good("+OK\r\n", "+");
    good("+\r\n", "+");
    good("-ERR no\r\n", "-");
    good(":0\r\n", ":");
    good(":-9223372036854775808\r\n", ":");
    good(":9223372036854775807\r\n", ":");
    good("$0\r\n\r\n", "$");
    good("$4\r\na\r\nb\r\n", "$");
    good("$-1\r\n", "_");
    good("*-1\r\n", "_");
    good("_\r\n", "_");
    good("#t\r\n", "#");
    good("#f\r\n", "#");
    good("*0\r\n", "*");
    good("%0\r\n", "%");
    good("*2\r\n*1\r\n:1\r\n%1\r\n+a\r\n*0\r\n", "**:%+*");
}

static void bad(const char *text)
{
    weir_resp_reply reply;
    size_t at;
    assert_int_equal(read_growing(text, strlen(text), &reply, &at), WEIR_RESP_READ_ERROR);
}

static void refuses_malformed_replies(void **state)
{
    (void)state;
    static const char *const texts[] = {
        "?",
        "\r\n",
        "HTTP/1.1",
        "+a\n",
        "+a\rb",
        "+a\r\r\n",
        ":\r\n",
        ":x\r\n",
        ":1 \r\n",
        ":01\r\n",
        ":-0\r\n",
        "$-2\r\n",
        "$5242881\r\n",
        "$2\r\nabX",
        "$2\r\nab\rX",
        "$x\r\n",
        "*-2\r\n",
        "*16385\r\n",
        "%-1\r\n",
        "%8192\r\n",
        "_xy",
        "#x\r\n",
        "#\r\n",
        "#ttt",
        ",1.5\r\n",
        ":9223372036854775808\r\n",
        ":1111111111111111111111111",
    };
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++)
        bad(texts[i]);
}

static void limits_the_values_of_a_reply(void **state)
{
    (void)state;
    static char text[WEIR_RESP_VALUES_MAX * 4 + 16];
    char *at = text + sprintf(text, "*%d\r\n", WEIR_RESP_VALUES_MAX - 1);
    for (int i = 1; i < WEIR_RESP_VALUES_MAX; i++)
        at += sprintf(at, ":1\r\n");
    static weir_resp_reply reply;
    assert_int_equal(weir_resp_reply_read((uint8_t *)text, strlen(text), &reply), WEIR_RESP_READ);
    assert_int_equal(reply.values, WEIR_RESP_VALUES_MAX);
    bad("*16384\r\n:1\r\n");
    bad("*2\r\n*8191\r\n*8193\r\n");
    /* The depth is not limited: there is no recursion. */
    at = text;
    for (int i = 1; i < WEIR_RESP_VALUES_MAX; i++)
        at += sprintf(at, "*1\r\n");
    sprintf(at, ":1\r\n");
    assert_int_equal(weir_resp_reply_read((uint8_t *)text, strlen(text), &reply), WEIR_RESP_READ);
}

static void limits_the_length_of_a_reply(void **state)
{
    (void)state;
    weir_resp_reply reply;
    uint8_t *bytes = malloc(WEIR_RESP_REPLY_LEN_MAX);
    memset(bytes, 'x', WEIR_RESP_REPLY_LEN_MAX);
    memcpy(bytes, "$5242868\r\n", 10); /* the longest valid bulk string */
    assert_int_equal(weir_resp_reply_read(bytes, 4096, &reply), WEIR_RESP_READ_MORE);
    assert_int_equal(weir_resp_reply_read(bytes, WEIR_RESP_REPLY_LEN_MAX, &reply),
                     WEIR_RESP_READ_ERROR);
    memcpy(bytes + WEIR_RESP_REPLY_LEN_MAX - 2, "\r\n", 2);
    assert_int_equal(weir_resp_reply_read(bytes, WEIR_RESP_REPLY_LEN_MAX, &reply), WEIR_RESP_READ);
    memcpy(bytes, "$5242869\r\n", 10);
    assert_int_equal(weir_resp_reply_read(bytes, 10, &reply), WEIR_RESP_READ_ERROR);
    memset(bytes, 'x', 4096);
    bytes[0] = '+';
    assert_int_equal(weir_resp_reply_read(bytes, 4094, &reply), WEIR_RESP_READ_MORE);
    assert_int_equal(weir_resp_reply_read(bytes, 4095, &reply), WEIR_RESP_READ_ERROR);
    free(bytes);
}

static void finds_members(void **state)
{
    (void)state;
    static const char text[] = "%5\r\n$1\r\na\r\n*2\r\n$1\r\nb\r\n:7\r\n+b\r\n:5\r\n:1\r\n:2\r\n"
                               "$1\r\nc\r\n%1\r\n$1\r\nd\r\n:9\r\n$1\r\ne\r\n#t\r\n";
    weir_resp_reply reply;
    assert_int_equal(weir_resp_reply_read((const uint8_t *)text, sizeof text - 1, &reply),
                     WEIR_RESP_READ);
    const weir_resp_value *map = reply.value;
    assert_int_equal(weir_resp_value_member(map, "b")->integer, 5);
    assert_int_equal(weir_resp_value_member(map, "e")->integer, 1);
    assert_int_equal(weir_resp_value_member(map, "a")->len, 2);
    assert_int_equal(weir_resp_value_member(map, "c")->len, 2);
    assert_int_equal(weir_resp_value_member(weir_resp_value_member(map, "c"), "d")->integer, 9);
    assert_null(weir_resp_value_member(map, "d")); /* in a nested map */
    assert_null(weir_resp_value_member(map, "1"));
    assert_null(weir_resp_value_member(map, ""));
    assert_null(weir_resp_value_member(weir_resp_value_member(map, "a"), "b")); /* not a map */
    assert_ptr_equal(weir_resp_value_next(map), map + reply.values);
    assert_int_equal(weir_resp_value_next(map + 2)[1].integer, 5); /* after the array of "a" */
}

/* ---- value by value -------------------------------------------------------------------------- */

/* Reads a reply that arrives byte by byte, each time in an allocation of exactly its length. Writes
 * a letter for the type of each value, its depth and its index. Returns the last result. */
static weir_resp_reading spell(const char *text, size_t len, char *ret, size_t size)
{
    static const char letters[] = "+-:$_#*%";
    weir_resp_stream r = {0};
    size_t at = 0, out = 0;
    ret[0] = 0;
    for (size_t n = 0; n <= len; n++) {
        uint8_t *copy = malloc(n - at > 0 ? n - at : 1);
        memcpy(copy, text + at, n - at);
        weir_resp_value v;
        size_t used = 0;
        weir_resp_reading reading = weir_resp_stream_read(&r, copy, n - at, &v, &used);
        free(copy);
        if (reading == WEIR_RESP_READ_ERROR)
            return reading;
        if (reading == WEIR_RESP_READ_MORE)
            continue;
        at += used;
        assert_int_equal(at, n); /* complete at its last byte */
        unsigned index = v.depth > 0 ? r.index[v.depth] : 0;
        out += (size_t)snprintf(ret + out, size - out, "%c%u.%u ", letters[v.type], v.depth, index);
        assert_int_equal(v.last, n == len);
    }
    return at == len ? WEIR_RESP_READ : WEIR_RESP_READ_MORE;
}

static void good_stream(const char *text, const char *expected)
{
    char spelt[256];
    assert_int_equal(spell(text, strlen(text), spelt, sizeof spelt), WEIR_RESP_READ);
    assert_string_equal(spelt, expected);
}

static void bad_stream(const char *text)
{
    char spelt[256];
    assert_int_equal(spell(text, strlen(text), spelt, sizeof spelt), WEIR_RESP_READ_ERROR);
}

static void stream_reads_nested_values(void **state)
{
    (void)state;
    good_stream("+OK\r\n", "+0.0 ");
    good_stream("-ERR no\r\n", "-0.0 ");
    good_stream(":-9223372036854775808\r\n", ":0.0 ");
    good_stream("$0\r\n\r\n", "$0.0 ");
    good_stream("$4\r\na\r\nb\r\n", "$0.0 ");
    good_stream("$-1\r\n", "_0.0 ");
    good_stream("*-1\r\n", "_0.0 ");
    good_stream("*0\r\n", "*0.0 ");
    good_stream("*2\r\n*2\r\n:1\r\n*0\r\n*1\r\n+a\r\n", "*0.0 *1.0 :2.0 *2.1 *1.1 +2.0 ");
    good_stream("*3\r\n:1\r\n*1\r\n*1\r\n:2\r\n:3\r\n", "*0.0 :1.0 *1.1 *2.0 :3.0 :1.2 ");
}

/* The limit of values applies to each reply, not to all of them together. */
static void stream_reads_many_replies(void **state)
{
    (void)state;
    static const uint8_t reply[] = {':', '1', '\r', '\n'};
    weir_resp_stream r = {0};
    for (uint32_t i = 0; i <= WEIR_RESP_STREAM_VALUES_MAX; i++) {
        weir_resp_value v;
        size_t used;
        if (weir_resp_stream_read(&r, reply, sizeof reply, &v, &used) != WEIR_RESP_READ)
            fail_msg("reply %u was refused", i);
    }
}

static void stream_refuses_malformed_replies(void **state)
{
    (void)state;
    bad_stream("x");
    bad_stream("\r\n");
    bad_stream("%1\r\n");
    bad_stream("_\r\n");
    bad_stream(":\r\n");
    bad_stream(":01\r\n");
    bad_stream(":1 \r\n");
    bad_stream(":1\n");
    bad_stream(":9223372036854775808\r\n");
    bad_stream("+a\rb\r\n");
    bad_stream("+a\nb\r\n");
    bad_stream("$-2\r\n");
    bad_stream("$1\r\nab\r\n");
    bad_stream("$1\r\na\rb");
    bad_stream("$16385\r\n");
    bad_stream("*-2\r\n");
    bad_stream("*1048577\r\n");
    bad_stream("*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n");
    bad_stream(":11111111111111111111111111");
}

static void stream_has_limits(void **state)
{
    (void)state;
    enum { LONG = WEIR_RESP_STREAM_TEXT_MAX + 64 };
    uint8_t *text = malloc(LONG);
    memset(text, 'a', LONG);
    text[0] = '-';
    weir_resp_stream r = {0};
    weir_resp_value v;
    size_t used;
    assert_int_equal(weir_resp_stream_read(&r, text, WEIR_RESP_STREAM_TEXT_MAX, &v, &used),
                     WEIR_RESP_READ_MORE);
    assert_int_equal(weir_resp_stream_read(&r, text, WEIR_RESP_STREAM_TEXT_MAX + 32, &v, &used),
                     WEIR_RESP_READ_ERROR);
    /* The limit of values applies to the whole reply. */
    size_t n = 0;
    const char node[] = "*1000\r\n", leaf[] = ":1\r\n";
    for (unsigned depth = 0; n <= WEIR_RESP_STREAM_VALUES_MAX + 10u; n++) {
        const char *at = depth < 7 ? node : leaf;
        weir_resp_reading reading =
            weir_resp_stream_read(&r, (const uint8_t *)at, strlen(at), &v, &used);
        if (reading == WEIR_RESP_READ_ERROR)
            break;
        depth = r.depth;
    }
    assert_int_equal(n, WEIR_RESP_STREAM_VALUES_MAX);
    free(text);
}

static size_t at_once(const char *text, size_t len, int64_t *v, size_t n)
{
    uint8_t *copy = malloc(len > 0 ? len : 1);
    memcpy(copy, text, len);
    size_t used = weir_resp_read_integers(copy, len, v, n);
    free(copy);
    return used;
}

static void reads_integers_at_once(void **state)
{
    (void)state;
    const char text[] = "*3\r\n:-1\r\n:0\r\n:999999999999999999\r\n";
    int64_t v[3];
    for (size_t len = 0; len < sizeof text - 1; len++)
        assert_int_equal(at_once(text, len, v, 3), 0);
    assert_int_equal(at_once(text, sizeof text - 1, v, 3), sizeof text - 1);
    assert_true(v[0] == -1 && v[1] == 0 && v[2] == 999999999999999999);
    assert_int_equal(at_once(text, sizeof text - 1, v, 2), 0);
    static const char *const none[] = {"*1\r\n:-0\r\n",  "*1\r\n:01\r\n",
                                       "*1\r\n:\r\n",    "*1\r\n:1\n\r\n",
                                       "*1\r\n+1\r\n",   "*1\r\n:1\r\r",
                                       "*01\r\n:1\r\n",  "-ERR no\r\n",
                                       "*1\r\n:--1\r\n", "*1\r\n:99999999999999999999\r\n"};
    for (size_t i = 0; i < sizeof none / sizeof *none; i++)
        assert_int_equal(at_once(none[i], strlen(none[i]), v, 1), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reads_each_type),
        cmocka_unit_test(refuses_malformed_replies),
        cmocka_unit_test(limits_the_values_of_a_reply),
        cmocka_unit_test(limits_the_length_of_a_reply),
        cmocka_unit_test(finds_members),
        cmocka_unit_test(stream_reads_nested_values),
        cmocka_unit_test(stream_reads_many_replies),
        cmocka_unit_test(stream_refuses_malformed_replies),
        cmocka_unit_test(stream_has_limits),
        cmocka_unit_test(reads_integers_at_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
