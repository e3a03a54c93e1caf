/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* Replies by table, in every split: what is one, and what never becomes one. */

#include "engine/redis/client/reply.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* Reads a reply that comes byte by byte, each beginning in a block that ends where it ends, and
 * writes down what is read: a letter for each type, its depth and its index. Returns how. */
static weir_redis_reading spell(const char *text, size_t len, char *ret, size_t size)
{
    static const char letters[] = "+-:$_*";
    weir_redis_reader r = {0};
    size_t at = 0, out = 0;
    ret[0] = 0;
    for (size_t n = 0; n <= len; n++) {
        uint8_t *copy = malloc(n - at > 0 ? n - at : 1);
        memcpy(copy, text + at, n - at);
        weir_redis_value v;
        size_t used = 0;
        weir_redis_reading reading = weir_redis_read(&r, copy, n - at, &v, &used);
        free(copy);
        if (reading == WEIR_REDIS_READ_ERROR)
            return reading;
        if (reading == WEIR_REDIS_READ_MORE)
            continue;
        at += used;
        assert_int_equal(at, n); /* no sooner, no later */
        unsigned index = v.depth > 0 ? r.index[v.depth] : 0;
        out += (size_t)snprintf(ret + out, size - out, "%c%u.%u ", letters[v.type], v.depth, index);
        assert_int_equal(v.last, n == len);
    }
    return at == len ? WEIR_REDIS_READ : WEIR_REDIS_READ_MORE;
}

static void good(const char *text, const char *expected)
{
    char spelt[256];
    assert_int_equal(spell(text, strlen(text), spelt, sizeof spelt), WEIR_REDIS_READ);
    assert_string_equal(spelt, expected);
}

static void bad(const char *text)
{
    char spelt[256];
    assert_int_equal(spell(text, strlen(text), spelt, sizeof spelt), WEIR_REDIS_READ_ERROR);
}

static void reads_values_where_they_stand(void **state)
{
    (void)state;
    good("+OK\r\n", "+0.0 ");
    good("-ERR no\r\n", "-0.0 ");
    good(":-9223372036854775808\r\n", ":0.0 ");
    good("$0\r\n\r\n", "$0.0 ");
    good("$4\r\na\r\nb\r\n", "$0.0 ");
    good("$-1\r\n", "_0.0 ");
    good("*-1\r\n", "_0.0 ");
    good("*0\r\n", "*0.0 ");
    good("*2\r\n*2\r\n:1\r\n*0\r\n*1\r\n+a\r\n", "*0.0 *1.0 :2.0 *2.1 *1.1 +2.0 ");
    good("*3\r\n:1\r\n*1\r\n*1\r\n:2\r\n:3\r\n", "*0.0 :1.0 *1.1 *2.0 :3.0 :1.2 ");
}

static void refuses_what_is_none(void **state)
{
    (void)state;
    bad("x");
    bad("\r\n");
    bad("%1\r\n");
    bad("_\r\n");
    bad(":\r\n");
    bad(":01\r\n");
    bad(":1 \r\n");
    bad(":1\n");
    bad(":9223372036854775808\r\n");
    bad("+a\rb\r\n");
    bad("+a\nb\r\n");
    bad("$-2\r\n");
    bad("$1\r\nab\r\n");
    bad("$1\r\na\rb");
    bad("$16385\r\n");
    bad("*-2\r\n");
    bad("*1048577\r\n");
    bad("*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n");
    bad(":11111111111111111111111111");
}

static void has_bounds(void **state)
{
    (void)state;
    enum { LONG = WEIR_REDIS_VALUE_MAX + 64 };
    uint8_t *text = malloc(LONG);
    memset(text, 'a', LONG);
    text[0] = '-';
    weir_redis_reader r = {0};
    weir_redis_value v;
    size_t used;
    assert_int_equal(weir_redis_read(&r, text, WEIR_REDIS_VALUE_MAX, &v, &used),
                     WEIR_REDIS_READ_MORE);
    assert_int_equal(weir_redis_read(&r, text, WEIR_REDIS_VALUE_MAX + 32, &v, &used),
                     WEIR_REDIS_READ_ERROR);
    /* Values are counted over all of a reply: a tree cannot grow for ever. */
    size_t n = 0;
    const char node[] = "*1000\r\n", leaf[] = ":1\r\n";
    for (unsigned depth = 0; n <= WEIR_REDIS_VALUES_MAX + 10u; n++) {
        const char *at = depth < 7 ? node : leaf;
        weir_redis_reading reading =
            weir_redis_read(&r, (const uint8_t *)at, strlen(at), &v, &used);
        if (reading == WEIR_REDIS_READ_ERROR)
            break;
        depth = r.depth;
    }
    assert_int_equal(n, WEIR_REDIS_VALUES_MAX);
    free(text);
}

static size_t at_once(const char *text, size_t len, int64_t *v, size_t n)
{
    uint8_t *copy = malloc(len > 0 ? len : 1);
    memcpy(copy, text, len);
    size_t used = weir_redis_read_integers(copy, len, v, n);
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
        cmocka_unit_test(reads_values_where_they_stand),
        cmocka_unit_test(refuses_what_is_none),
        cmocka_unit_test(has_bounds),
        cmocka_unit_test(reads_integers_at_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
