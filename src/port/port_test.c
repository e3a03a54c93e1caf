/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* The byte queue against an array, reading of files, and every function of port/ when memory runs
 * out. */

#include "port/buffer.h"
#include "port/port.h"
#include "port/text.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>

#include "port/memory_kit_test.h"

/* ---- buffers --------------------------------------------------------------------------------- */

static uint64_t random_below(uint64_t *random, uint64_t n)
{
    *random = *random * 6364136223846793005U + 1442695040888963407U;
    return (*random >> 33) % n;
}

static void check_buffer(const weir_buffer *b, const uint8_t *bytes, size_t len)
{
    assert_int_equal(weir_buffer_len(b), len);
    if (len > 0)
        assert_memory_equal(weir_buffer_data(b), bytes, len);
    assert_true(weir_buffer_memory(b) <= 2 * b->len_max);
    assert_true(b->begin <= b->end && b->end <= b->limit && b->limit <= b->capacity);
}

/* Adds up to n bytes in one of several ways. Returns how many were added. */
static size_t add_bytes(weir_buffer *b, const uint8_t *bytes, size_t n, uint64_t way)
{
    size_t before = weir_buffer_len(b);
    if (way == 0) {
        for (size_t i = 0; i < n; i++)
            weir_buffer_append_byte(b, bytes[i]);
    } else if (way == 1) {
        weir_buffer_append(b, bytes, n);
    } else if (weir_buffer_reserve(b, n) && n > 0) {
        memcpy(weir_buffer_tail(b), bytes, n);
        weir_buffer_added(b, n);
    }
    return weir_buffer_len(b) - before;
}

/* Random steps: the buffer holds what was added and not consumed. Adding succeeds exactly as long
 * as the length allows, and after a failure nothing is added. */
static void test_buffer_against_array(void **unused)
{
    (void)unused;
    static const size_t maxes[] = {1, 7, 511, 512, 513, 3000};
    static uint8_t model[3000], bytes[4000];
    for (size_t i = 0; i < sizeof maxes / sizeof maxes[0]; i++) {
        weir_buffer b;
        uint64_t random = i;
        size_t len = 0, max = maxes[i];
        weir_buffer_init(&b, max);
        for (int step = 0; step < 20000; step++) {
            uint64_t what = random_below(&random, 20);
            size_t n = random_below(&random, random_below(&random, 4) == 0 ? max + 2 : max / 4 + 2);
            if (what < 10) {
                memset(bytes, step, n);
                bool fits = !b.failed && n <= max - len, whole = n > 0 && what % 3 > 0;
                size_t added = add_bytes(&b, bytes, n, what % 3);
                if (whole || fits)
                    assert_int_equal(added, fits ? n : 0);
                assert_true(!fits || !b.failed);
                memcpy(model + len, bytes, added);
                len += added;
            } else if (what < 19) {
                n = n < len ? n : len;
                weir_buffer_consume(&b, n);
                memmove(model, model + n, len - n);
                len -= n;
            } else {
                step % 2 ? weir_buffer_clear(&b) : weir_buffer_free(&b);
                assert_false(b.failed);
                len = 0;
            }
            check_buffer(&b, model, len);
        }
        weir_buffer_free(&b);
    }
}

/* A failure keeps what the buffer holds, and nothing follows it until the buffer is cleared. */
static void test_buffer_that_failed(void **unused)
{
    (void)unused;
    weir_buffer b;
    weir_buffer_init(&b, 10);
    weir_buffer_append(&b, "12345678", 8);
    weir_buffer_append(&b, "90X", 3);
    assert_true(b.failed);
    weir_buffer_append_byte(&b, '9');
    weir_buffer_consume(&b, 4);
    weir_buffer_append_byte(&b, '9');
    check_buffer(&b, (const uint8_t *)"5678", 4);
    weir_buffer_clear(&b);
    weir_buffer_append(&b, "1234567890", 10);
    check_buffer(&b, (const uint8_t *)"1234567890", 10);
    assert_false(b.failed);
    weir_buffer_free(&b);
}

/* The capacity doubles, so that few allocations are made. */
static void test_buffer_growth(void **unused)
{
    (void)unused;
    weir_buffer b;
    uint64_t made = port_load_relaxed(&memory.made);
    weir_buffer_init(&b, 1 << 20);
    for (int i = 0; i < 512 << 8; i++)
        weir_buffer_append_byte(&b, 'x');
    assert_int_equal(weir_buffer_memory(&b), 512 << 8);
    assert_int_equal(port_load_relaxed(&memory.made), made + 1 + 8);
    weir_buffer_free(&b);
}

static void test_formatted_text(void **unused)
{
    (void)unused;
    weir_buffer b;
    static char text[2 * WEIR_PRINTF_MAX];
    memset(text, 'x', sizeof text - 1);
    weir_buffer_init(&b, 10000);
    weir_buffer_printf(&b, "%d-%s", 7, "seven");
    weir_buffer_printf(&b, "%s", "");
    assert_int_equal(weir_buffer_len(&b), 7);
    weir_buffer_printf(&b, "%s", text);
    assert_int_equal(weir_buffer_len(&b), 7 + WEIR_PRINTF_MAX - 1);
    weir_buffer_clear(&b);
    text[WEIR_PRINTF_MAX - 1] = '\0'; /* just fits */
    weir_buffer_printf(&b, "%s", text);
    check_buffer(&b, (const uint8_t *)text, WEIR_PRINTF_MAX - 1);
    weir_buffer_free(&b);
}

/* ---- files ----------------------------------------------------------------------------------- */

static char path[] = "/tmp/weir-port-XXXXXX";

static void write_bytes(size_t n)
{
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    for (size_t i = 0; i < n; i++)
        fputc((int)(i % 251), file);
    assert_int_equal(fclose(file), 0);
}

static void expect_file(size_t n, size_t max)
{
    uint8_t *bytes = NULL;
    size_t len = 0;
    assert_int_equal(port_read_file(path, max, &bytes, &len), n <= max ? WEIR_OK : WEIR_E_RANGE);
    assert_int_equal(len, n <= max ? n : 0);
    for (size_t i = 0; i < len; i++)
        assert_int_equal(bytes[i], i % 251);
    port_free(bytes);
}

static void test_read_file(void **unused)
{
    (void)unused;
    static const size_t sizes[] = {0, 1, 4095, 4096, 4097, 8192, 20000};
    uint8_t *bytes = NULL;
    size_t len = 0;
    close(mkstemp(path));
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        write_bytes(sizes[i]);
        expect_file(sizes[i], 1 << 20);
        expect_file(sizes[i], sizes[i]);
        if (sizes[i] > 0)
            expect_file(sizes[i], sizes[i] - 1);
    }
    unlink(path);
    assert_int_equal(port_read_file(path, 10, &bytes, &len), WEIR_E_IO);
    assert_int_equal(port_read_file("/tmp", 10, &bytes, &len), WEIR_E_IO);
    assert_null(bytes);
}

/* ---- out of memory --------------------------------------------------------------------------- */

static bool try_buffer(uint64_t n, bool later)
{
    weir_buffer b;
    weir_buffer_init(&b, 1 << 20);
    weir_buffer_append(&b, "kept", 4);
    memory_fail(n, later);
    weir_buffer_append(&b, path, 1);
    bool reserved = weir_buffer_reserve(&b, 1000) && weir_buffer_reserve(&b, 100000);
    bool failed = memory_stop();
    assert_int_equal(reserved, !failed);
    assert_int_equal(b.failed, failed);
    check_buffer(&b, (const uint8_t *)"kept/", 5);
    weir_buffer_free(&b);
    return failed;
}

static bool try_read_file(uint64_t n, bool later)
{
    uint8_t *bytes = NULL;
    size_t len = 0;
    memory_fail(n, later);
    weir_status st = port_read_file(path, 1 << 20, &bytes, &len);
    bool failed = memory_stop();
    assert_int_equal(st, failed ? WEIR_E_NOMEM : WEIR_OK);
    assert_int_equal(len, failed ? 0 : 20000);
    port_free(bytes);
    return failed;
}

static void count_down(void *arg)
{
    port_word_sub_release(arg, 1);
}

static bool try_locks_and_threads(uint64_t n, bool later)
{
    port_word left = {2};
    memory_fail(n, later);
    port_mutex *mutex = port_mutex_new();
    port_cond *cond = port_cond_new();
    port_thread *thread = port_thread_start(count_down, &left);
    bool runs_detached = port_thread_run(count_down, &left);
    bool failed = memory_stop();
    uint64_t expected = 2 - (uint64_t)(thread != NULL) - (uint64_t)runs_detached;
    assert_int_equal(mutex && cond && thread && runs_detached, !failed);
    while (port_word_load_acquire(&left) > expected)
        port_yield();
    port_thread_join(thread);
    port_cond_free(cond);
    port_mutex_free(mutex);
    assert_int_equal(port_word_load_acquire(&left), expected);
    return failed;
}

static void test_out_of_memory(void **unused)
{
    (void)unused;
    fail_each_allocation(try_buffer);
    fail_each_allocation(try_locks_and_threads);
    strcpy(path + strlen(path) - 6, "XXXXXX");
    close(mkstemp(path));
    write_bytes(20000);
    fail_each_allocation(try_read_file);
    unlink(path);
}

/* ---- text ------------------------------------------------------------------------------------ */

static void test_numbers(void **unused)
{
    (void)unused;
    static const uint64_t edges[] = {0,    1,    9,     10,    99,     100,       999,
                                     1000, 9999, 10000, 99999, 100000, INT64_MAX, UINT64_MAX};
    for (size_t i = 0; i < sizeof edges / sizeof edges[0]; i++) {
        char text[32], expected[32], hex[17] = "";
        uint64_t read = 0;
        int len = snprintf(expected, sizeof expected, "%llu", (unsigned long long)edges[i]);
        assert_int_equal(weir_decimal_len(edges[i]), len);
        assert_true(weir_decimal_read(expected, (size_t)len, edges[i], &read));
        assert_int_equal(read, edges[i]);
        if (edges[i] > 0)
            assert_false(weir_decimal_read(expected, (size_t)len, edges[i] - 1, &read));
        expected[len] = '0';
        bool tenfold = edges[i] <= UINT64_MAX / 10;
        assert_int_equal(weir_decimal_read(expected, (size_t)len + 1, UINT64_MAX, &read), tenfold);
        weir_hex64_print(edges[i], hex);
        assert_true(weir_hex64_read(hex, 16, &read) && read == edges[i]);
        int64_t value = (int64_t)edges[i], back = 1;
        len = snprintf(expected, sizeof expected, "%lld", (long long)value);
        assert_int_equal(weir_i64_print(text, value), len);
        assert_memory_equal(text, expected, (size_t)len);
        assert_true(weir_i64_read(text, (size_t)len, &back) && back == value);
    }
    static const char *const beyond[] = {"",
                                         "x",
                                         "1x",
                                         "x1",
                                         "-1",
                                         "18446744073709551616",
                                         "0018446744073709551625",
                                         "184467440737095516150",
                                         "99999999999999999999999"};
    uint64_t unread = 7;
    for (size_t i = 0; i < sizeof beyond / sizeof beyond[0]; i++)
        assert_false(weir_decimal_read(beyond[i], strlen(beyond[i]), UINT64_MAX, &unread));
    assert_false(weir_decimal_read(&"12"[1], 0, UINT64_MAX, &unread));
    assert_int_equal(unread, 7);
    assert_true(weir_decimal_read("0018446744073709551615", 22, UINT64_MAX, &unread));
    assert_true(unread == UINT64_MAX);
    assert_false(weir_decimal_read("7", 1, 5, &unread));
    int64_t back = 5;
    char text[32];
    assert_int_equal(weir_i64_print(text, INT64_MIN), 20);
    assert_true(weir_i64_read(text, 20, &back) && back == INT64_MIN);
    static const char *const bad[] = {"",
                                      "-",
                                      "-0",
                                      "+1",
                                      "01",
                                      "1a",
                                      "9223372036854775808",
                                      " 1",
                                      "--1",
                                      "-9223372036854775809",
                                      "99999999999999999999"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        assert_false(weir_i64_read(bad[i], strlen(bad[i]), &back));
    assert_int_equal(weir_percent_read("%41", 3), 'A');
    assert_int_equal(weir_percent_read("%fF", 3), 255);
    assert_int_equal(weir_percent_read("%41", 2), -1);
    assert_int_equal(weir_percent_read("x41", 3), -1);
    assert_int_equal(weir_percent_read("%4g", 3), -1);
}

/* The first and the last sequence of each row of Unicode's table 3-7, and their neighbours. */
/* The styles of untrusted text: each row has the same text in all of them. */
static void test_escapes(void **unused)
{
    (void)unused;
    static const char *const rows[][1 + WEIR_MASKED + 1] = {
        {"a \"\\", "a \\\"\\\\", "a \\\"\\\\", "a \\\"\\\\", "a \"\\", "a \"\\x5c", "a \"\\x5C",
         "a \"\\"},
        {"\n", "\\u000a", "\\u000a", "\\u000a", "\\x0a", "\\x0a", "\\x0A", "?"},
        {"\x7f", "\x7f", "\\u007f", "\\u007f", "\\x7f", "\\x7f", "\\x7F", "?"},
        {"\xc2\x9b", "\xc2\x9b", "\\u009b", "\xc2\x9b", "\\xc2\\x9b", "\xc2\x9b", "\xc2\x9b", "?"},
        {"\xe2\x80\xae", "\xe2\x80\xae", "\xe2\x80\xae", "\xe2\x80\xae", "\xe2\x80\xae",
         "\xe2\x80\xae", "\xe2\x80\xae", "?"},
        {"\xe2\x82z", "\xef\xbf\xbdz", "\xef\xbf\xbdz", "\\ufffd\\ufffdz", "\xe2\x82z", "\xe2\x82z",
         "\\xE2\\x82z", "?z"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        for (int style = 0; style <= WEIR_MASKED; style++) {
            char text[32];
            size_t len = weir_text_escape_to(text, sizeof text, rows[i][0], strlen(rows[i][0]),
                                             (weir_escape)style);
            assert_string_equal(text, rows[i][1 + style]);
            assert_int_equal(len, strlen(text));
        }
    }
    /* The first character that does not fit ends the text, although a later one would fit. */
    char small[4];
    assert_int_equal(weir_text_escape_to(small, sizeof small, "ab\nc", 4, WEIR_HEX_LINE), 2);
    assert_string_equal(small, "ab");
    assert_int_equal(weir_text_escape_to(small, sizeof small, "abcd", 4, WEIR_HEX_LINE), 3);
    assert_string_equal(small, "abc");
}

static void test_utf8(void **unused)
{
    (void)unused;
    static const struct {
        const char *text;
        size_t len; /* of the sequence or of its maximal subpart */
        bool valid;
    } rows[] = {
        {"a", 1, true},
        {"\x7f", 1, true},
        {"\x80", 1, false},
        {"\xbf", 1, false},
        {"\xc1\xbf", 1, false},
        {"\xc2\x80", 2, true},
        {"\xdf\xbf", 2, true},
        {"\xc2\x7f", 1, false},
        {"\xc2\xc0", 1, false},
        {"\xc2", 1, false},
        {"\xe0\x9f\xbf", 1, false},
        {"\xe0\xa0\x80", 3, true},
        {"\xe0\xbf\xbf", 3, true},
        {"\xe1\x80\x80", 3, true},
        {"\xec\xbf\xbf", 3, true},
        {"\xed\x80\x80", 3, true},
        {"\xed\x9f\xbf", 3, true},
        {"\xed\xa0\x80", 1, false},
        {"\xee\x80\x80", 3, true},
        {"\xef\xbf\xbf", 3, true},
        {"\xef\xbf\xc0", 2, false},
        {"\xef\xbf", 2, false},
        {"\xf0\x8f\xbf\xbf", 1, false},
        {"\xf0\x90\x80\x80", 4, true},
        {"\xf0\xbf\xbf\xbf", 4, true},
        {"\xf3\x80\x80\x80", 4, true},
        {"\xf3\xbf\xbf\xbf", 4, true},
        {"\xf3\xbf\xbf\x7f", 3, false},
        {"\xf4\x80\x80\x80", 4, true},
        {"\xf4\x8f\xbf\xbf", 4, true},
        {"\xf4\x90\x80\x80", 1, false},
        {"\xf5\x80\x80\x80", 1, false},
        {"\xff", 1, false},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        bool valid = !rows[i].valid;
        assert_int_equal(weir_utf8_len(rows[i].text, strlen(rows[i].text), &valid), rows[i].len);
        assert_int_equal(valid, rows[i].valid);
    }
    bool valid = true; /* bytes after the end do not count */
    assert_int_equal(weir_utf8_len("\xe1\x80\x80", 2, &valid), 2);
    assert_false(valid);
    static const char *const controls[] = {"\x1f", "\x7f", "\xc2\x80", "\xc2\x9f"};
    static const char *const others[] = {" ", "~", "\xc2\xa0", "\xc3\x80", "\xe2\x80\x80"};
    for (size_t i = 0; i < 4; i++)
        assert_true(weir_utf8_is_control(controls[i], strlen(controls[i])));
    for (size_t i = 0; i < 5; i++)
        assert_false(weir_utf8_is_control(others[i], strlen(others[i])));
}

static void test_invisible_characters(void **unused)
{
    (void)unused;
    static const struct {
        const char *text;
        uint32_t code_point;
        bool invisible;
    } rows[] = {
        {"a", 0x61, false},
        {"\x7f", 0x7F, false},
        {"\xc2\xa0", 0xA0, false},
        {"\xc2\xad", 0xAD, true},
        {"\xc3\xa9", 0xE9, false},
        {"\xcc\x81", 0x301, false},
        {"\xe2\x80\x8a", 0x200A, false},
        {"\xe2\x80\x8b", 0x200B, true},
        {"\xe2\x80\x8f", 0x200F, true},
        {"\xe2\x80\x90", 0x2010, false},
        {"\xe2\x80\xae", 0x202E, true},
        {"\xe2\x80\xaf", 0x202F, false},
        {"\xe2\x81\xa0", 0x2060, true},
        {"\xe6\x97\xa5", 0x65E5, false},
        {"\xef\xb8\x8f", 0xFE0F, true},
        {"\xef\xbb\xbf", 0xFEFF, true},
        {"\xef\xbf\xbd", 0xFFFD, false},
        {"\xf0\x9f\x98\x80", 0x1F600, false},
        {"\xf3\xa0\x80\x81", 0xE0001, true},
        {"\xf4\x8f\xbf\xbf", 0x10FFFF, false},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        size_t len = strlen(rows[i].text);
        assert_int_equal(weir_utf8_code_point(rows[i].text, len), rows[i].code_point);
        assert_int_equal(weir_utf8_is_invisible(rows[i].text, len), rows[i].invisible);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_buffer_against_array),
        cmocka_unit_test(test_buffer_that_failed),
        cmocka_unit_test(test_formatted_text),
        cmocka_unit_test(test_read_file),
        cmocka_unit_test(test_out_of_memory),
        cmocka_unit_test(test_numbers),
        cmocka_unit_test(test_utf8),
        cmocka_unit_test(test_escapes),
        cmocka_unit_test(test_invisible_characters),
        cmocka_unit_test(test_buffer_growth),
    };
    return cmocka_run_group_tests_name("port", tests, NULL, NULL);
}
