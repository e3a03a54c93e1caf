/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* Tests of the texts in columns: every cut of texts of every kind, and the formats of numbers. */

#include "cmd/client/screen.h"

#include <locale.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

/* Appends to an empty buffer, and returns the text. */
static const char *put(weir_buffer *out, const char *text, size_t len, int cols, bool utf8,
                       int *ret_cols)
{
    weir_buffer_clear(out);
    *ret_cols = cells_put(out, text, len, cols, utf8);
    weir_buffer_append_byte(out, '\0');
    return (const char *)weir_buffer_data(out);
}

static void check_texts(void **unused)
{
    (void)unused;
    static const struct {
        const char *text;
        int cols;
        bool utf8;
        const char *shown;
        int used;
    } rows[] = {
        {"api", 3, true, "api", 3},
        {"api", 2, true, "a~", 2},
        {"api", 1, true, "~", 1},
        {"api", 0, true, "", 0},
        {"api", -5, true, "", 0},
        {"", 4, true, "", 0},
        {"caf\xC3\xA9", 4, true, "caf\xC3\xA9", 4},
        {"caf\xC3\xA9", 12, false, "caf\\xC3\\xA9", 11},
        {"\xE6\x97\xA5\xE6\x9C\xAC", 4, true, "\xE6\x97\xA5\xE6\x9C\xAC", 4}, /* two columns each */
        {"\xE6\x97\xA5\xE6\x9C\xAC", 3, true, "\xE6\x97\xA5~", 3},
        {"\xE6\x97\xA5\xE6\x9C\xAC", 2, true, "~", 1},
        {"e\xCC\x81", 1, true, "e\xCC\x81", 1}, /* a combining accent */
        {"\xFF", 4, true, "\\xFF", 4},
        {"\xFF", 3, true, "~", 1},
        {"a\xFF", 4, true, "a~", 2},
        {"\x1B[2J", 9, true, "\\x1B[2J", 7},
        {"\x7F\n", 9, true, "\\x7F\\x0A", 8},
        {"\xC2\x9B", 9, true, "\\xC2\\x9B", 8},                     /* CSI of C1 */
        {"\xE2\x80\xAE", 12, true, "\\xE2\\x80\\xAE", 12},          /* turns the direction */
        {"\xE2\x80\x8F", 12, true, "\\xE2\\x80\\x8F", 12},          /* right-to-left mark */
        {"\xD8\x9C", 12, true, "\\xD8\\x9C", 8},                    /* Arabic letter mark */
        {"\xF0\x9F\x98\x80", 2, true, "\xF0\x9F\x98\x80", 2},       /* four bytes */
        {"\xED\xA0\x80", 12, true, "\\xED\\xA0\\x80", 12},          /* a surrogate */
        {"a\xE2\x80\x8B", 13, true, "a\\xE2\\x80\\x8B", 13},        /* a space without a width */
        {"\xEF\xBB\xBF", 12, true, "\\xEF\\xBB\\xBF", 12},          /* a byte order mark */
        {"\xF3\xA0\x80\x81", 16, true, "\\xF3\\xA0\\x80\\x81", 16}, /* a tag */
        {"e\xCC\x81\xCC\x81", 1, true, "e\xCC\x81\xCC\x81", 1},
        {"e\xCC\x81\xCC\x81\xCC\x81z", 10, true, "e\xCC\x81\xCC\x81\\xCC\\x81z", 10},
        {"e\xCC\x81\xCC\x81\xCC\x81\xCC\x81", 17, true, "e\xCC\x81\xCC\x81\\xCC\\x81\\xCC\\x81",
         17},
    };
    weir_buffer out;
    weir_buffer_init(&out, 4096);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        int used;
        const char *shown =
            put(&out, rows[i].text, strlen(rows[i].text), rows[i].cols, rows[i].utf8, &used);
        assert_string_equal(shown, rows[i].shown);
        assert_int_equal(used, rows[i].used);
    }
    int used;
    assert_string_equal(put(&out, "a\0b", 3, 9, true, &used), "a\\x00b");
    weir_buffer_free(&out);
}

/* Random bytes never take more columns than there are, and only printable bytes come out. */
static void check_random_texts(void **unused)
{
    (void)unused;
    weir_buffer out;
    weir_buffer_init(&out, 4096);
    uint64_t seed = 16;
    for (int round = 0; round < 20000; round++) {
        char text[24];
        for (size_t i = 0; i < sizeof text; i++) {
            seed = seed * 6364136223846793005u + 1442695040888963407u;
            text[i] = (char)(seed >> 33);
        }
        int cols = round % 40, used;
        size_t len = strlen(put(&out, text, sizeof text, cols, round % 2 == 0, &used));
        assert_true(used >= 0 && used <= cols);
        for (size_t i = 0; i < len; i++) {
            uint8_t byte = weir_buffer_data(&out)[i];
            assert_true(byte >= 0x20 && byte != 0x7F);
            assert_true(round % 2 == 0 || byte < 0x80);
        }
        if (round % 2 == 1)
            assert_int_equal(len, used);
    }
    weir_buffer_free(&out);
}

static void check_numbers(void **unused)
{
    (void)unused;
    static const struct {
        double n;
        const char *text;
    } rows[] = {{0, "0"},         {0.004, "0"},     {0.25, "0.25"},  {0.994, "0.99"},
                {0.996, "1.0"},   {7.5, "7.5"},     {7, "7"},        {9.94, "9.9"},
                {9.96, "10"},     {310, "310"},     {999.4, "999"},  {999.6, "1.0k"},
                {12345, "12.3k"}, {99949, "99.9k"}, {99960, "100k"}, {1234567, "1.2M"},
                {3e18, "3.0E"},   {1e30, "9999E"}};
    char text[CELLS_NUMBER_MAX];
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        cells_number(rows[i].n, text);
        assert_string_equal(text, rows[i].text);
        assert_true(strlen(text) <= 5);
    }
}

static void check_bytes_and_times(void **unused)
{
    (void)unused;
    static const struct {
        uint64_t n;
        const char *text;
    } bytes[] = {{0, "0 B"},
                 {1023, "1023 B"},
                 {1024, "1.0 KiB"},
                 {35756441, "34.1 MiB"},
                 {UINT64_C(1) << 62, "4.0 EiB"}};
    static const struct {
        double ns;
        const char *text;
    } times[] = {{0, "0 ns"},      {850, "850 ns"},  {999.6, "1.0 us"},
                 {1234, "1.2 us"}, {12345, "12 us"}, {3.5e6, "3.5 ms"},
                 {2e9, "2.0 s"},   {5e12, "5000 s"}, {1e300, "999999 s"}};
    char text[CELLS_NUMBER_MAX];
    for (size_t i = 0; i < sizeof bytes / sizeof *bytes; i++) {
        cells_bytes(bytes[i].n, text);
        assert_string_equal(text, bytes[i].text);
    }
    for (size_t i = 0; i < sizeof times / sizeof *times; i++) {
        cells_ns(times[i].ns, text);
        assert_string_equal(text, times[i].text);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(check_texts),
        cmocka_unit_test(check_random_texts),
        cmocka_unit_test(check_numbers),
        cmocka_unit_test(check_bytes_and_times),
    };
    if (!setlocale(LC_CTYPE, "C.UTF-8"))
        return 1;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
