/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* Replies by table, in every split: what is one, and what never becomes one. */

#include "codec/resp_reply.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* As the reader is asked about each beginning of it, in a block that ends where it ends. */
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
    assert_int_equal(at, len); /* no sooner, no later */
    assert_int_equal(reply.used, len);
    assert_int_equal(reply.nodes, n);
    static const char letters[] = "+-:$_#*%";
    for (size_t i = 0; i < n; i++)
        assert_int_equal(letters[reply.node[i].type], types[i]);
    /* What follows is not looked at. */
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

static void refuses(void **state)
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
        "$1048577\r\n",
        "$2\r\nabX",
        "$2\r\nab\rX",
        "$x\r\n",
        "*-2\r\n",
        "*65\r\n",
        "%-1\r\n",
        "%32\r\n",
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

static void counts_what_a_reply_may_hold(void **state)
{
    (void)state;
    char text[512] = "*63\r\n";
    for (int i = 0; i < 63; i++)
        strcat(text, ":1\r\n");
    weir_resp_reply reply;
    assert_int_equal(weir_resp_reply_read((uint8_t *)text, strlen(text), &reply), WEIR_RESP_READ);
    assert_int_equal(reply.nodes, WEIR_RESP_NODES_MAX);
    bad("*64\r\n:1\r\n");
    bad("*2\r\n*31\r\n*33\r\n");
    /* Depth costs nothing: there is no recursion. */
    text[0] = '\0';
    for (int i = 0; i < 63; i++)
        strcat(text, "*1\r\n");
    strcat(text, ":1\r\n");
    assert_int_equal(weir_resp_reply_read((uint8_t *)text, strlen(text), &reply), WEIR_RESP_READ);
}

static void an_endless_reply_ends(void **state)
{
    (void)state;
    weir_resp_reply reply;
    uint8_t *bytes = malloc(WEIR_RESP_REPLY_LEN_MAX);
    memset(bytes, 'x', WEIR_RESP_REPLY_LEN_MAX);
    memcpy(bytes, "$1048564\r\n", 10); /* the longest of all */
    assert_int_equal(weir_resp_reply_read(bytes, 4096, &reply), WEIR_RESP_READ_MORE);
    assert_int_equal(weir_resp_reply_read(bytes, WEIR_RESP_REPLY_LEN_MAX, &reply),
                     WEIR_RESP_READ_ERROR);
    memcpy(bytes + WEIR_RESP_REPLY_LEN_MAX - 2, "\r\n", 2);
    assert_int_equal(weir_resp_reply_read(bytes, WEIR_RESP_REPLY_LEN_MAX, &reply), WEIR_RESP_READ);
    memcpy(bytes, "$1048565\r\n", 10);
    assert_int_equal(weir_resp_reply_read(bytes, 10, &reply), WEIR_RESP_READ_ERROR);
    memset(bytes, 'x', 4096);
    bytes[0] = '+';
    assert_int_equal(weir_resp_reply_read(bytes, 4095, &reply), WEIR_RESP_READ_MORE);
    assert_int_equal(weir_resp_reply_read(bytes, 4096, &reply), WEIR_RESP_READ_ERROR);
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
    assert_int_equal(weir_resp_reply_member(&reply, "b", WEIR_RESP_INTEGER)->integer, 5);
    assert_int_equal(weir_resp_reply_member(&reply, "e", WEIR_RESP_BOOL)->integer, 1);
    assert_int_equal(weir_resp_reply_member(&reply, "a", WEIR_RESP_ARRAY)->len, 2);
    assert_int_equal(weir_resp_reply_member(&reply, "c", WEIR_RESP_MAP)->len, 2);
    assert_null(weir_resp_reply_member(&reply, "b", WEIR_RESP_BULK));    /* of another type */
    assert_null(weir_resp_reply_member(&reply, "d", WEIR_RESP_INTEGER)); /* deeper */
    assert_null(weir_resp_reply_member(&reply, "1", WEIR_RESP_INTEGER));
    assert_null(weir_resp_reply_member(&reply, "", WEIR_RESP_INTEGER));
    assert_int_equal(weir_resp_reply_read((const uint8_t *)"*2\r\n+b\r\n:5\r\n", 13, &reply),
                     WEIR_RESP_READ);
    assert_null(weir_resp_reply_member(&reply, "b", WEIR_RESP_INTEGER)); /* no map */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reads_each_type),
        cmocka_unit_test(refuses),
        cmocka_unit_test(counts_what_a_reply_may_hold),
        cmocka_unit_test(an_endless_reply_ends),
        cmocka_unit_test(finds_members),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
