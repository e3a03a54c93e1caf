/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* JSON strings: any bytes become valid JSON, and valid UTF-8 is preserved. */

#include "codec/answer/json.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>
#include <jansson.h>

static void check_string(const char *bytes, size_t len, const char *want)
{
    weir_buffer b;
    weir_buffer_init(&b, 1024);
    weir_json_put_string(&b, bytes, len);
    weir_buffer_append(&b, "", 1);
    assert_string_equal((char *)weir_buffer_data(&b), want);
    weir_buffer_free(&b);
}

static void check_strings(void **state)
{
    (void)state;
    check_string("", 0, "\"\"");
    check_string("gcra 1/s", 8, "\"gcra 1/s\"");
    check_string("a\"b\\c/", 6, "\"a\\\"b\\\\c/\"");
    check_string("\0\n\x1f\x7f", 4, "\"\\u0000\\u000a\\u001f\\u007f\"");
    check_string("\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80", 9,
                 "\"\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80\"");
    check_string("\xc3", 1, "\"\\ufffd\"");
    check_string("\xc0\xaf", 2, "\"\\ufffd\\ufffd\"");            /* overlong */
    check_string("\xed\xa0\x80", 3, "\"\\ufffd\\ufffd\\ufffd\""); /* half a surrogate pair */
    check_string("\xf4\x90\x80\x80", 4, "\"\\ufffd\\ufffd\\ufffd\\ufffd\"");
    check_string("\xe2\x82x", 3, "\"\\ufffd\\ufffdx\"");
}

/* jansson, a strict parser, accepts the output for every pair of bytes. */
static void check_all_pairs(void **state)
{
    (void)state;
    weir_buffer b;
    weir_buffer_init(&b, 1024);
    for (unsigned pair = 0; pair < 65536; pair++) {
        const char bytes[4] = {'\xe1', (char)(pair >> 8), (char)pair, 'x'};
        weir_buffer_clear(&b);
        weir_json_put_string(&b, bytes, sizeof bytes);
        json_t *json = json_loadb((char *)weir_buffer_data(&b), weir_buffer_len(&b),
                                  JSON_DECODE_ANY | JSON_ALLOW_NUL, NULL);
        assert_non_null(json);
        if (json_string_length(json) == sizeof bytes)
            assert_memory_equal(json_string_value(json), bytes, sizeof bytes);
        json_decref(json);
    }
    weir_buffer_free(&b);
}

static void check_long_text(void **state)
{
    (void)state;
    weir_buffer b;
    weir_buffer_init(&b, 2 * WEIR_PRINTF_MAX);
    weir_buffer_printf(&b, "%*d", 3 * WEIR_PRINTF_MAX, 1);
    assert_int_equal(weir_buffer_len(&b), WEIR_PRINTF_MAX - 1);
    weir_buffer_free(&b);
}

static void check_numbers(void **state)
{
    (void)state;
    static const int64_t numbers[] = {0, 1, -1, 9, 10, 1234567890, INT64_MAX, INT64_MIN};
    weir_buffer b;
    weir_buffer_init(&b, 1024);
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++) {
        char want[32];
        snprintf(want, sizeof want, "n=%lld", (long long)numbers[i]);
        weir_buffer_put(&b, "n=", numbers[i]);
        weir_buffer_append(&b, "", 1);
        assert_string_equal((char *)weir_buffer_data(&b), want);
        weir_buffer_clear(&b);
    }
    weir_buffer_free(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(check_strings),
        cmocka_unit_test(check_all_pairs),
        cmocka_unit_test(check_long_text),
        cmocka_unit_test(check_numbers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
