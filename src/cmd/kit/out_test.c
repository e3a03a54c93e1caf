/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* Buffered output: all bytes in their order, partial and failing writes, and JSON escapes. write()
 * is a fake (see meson.build). */

#include "cmd/kit/out.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>
#include <sys/types.h>

#include <cmocka.h>

static struct {
    char bytes[4 * OUT_BYTES]; /* that were written */
    size_t len, most;          /* bytes of one write(); 0: any */
    int errors[3];             /* of the next writes */
    size_t calls;
} fake;

ssize_t __wrap_write(int fd, const void *bytes, size_t len);
ssize_t __real_write(int fd, const void *bytes, size_t len);

ssize_t __wrap_write(int fd, const void *bytes, size_t len)
{
    if (fd != 77)
        return __real_write(fd, bytes, len);
    size_t call = fake.calls++;
    if (call < sizeof fake.errors / sizeof fake.errors[0] && fake.errors[call] != 0) {
        errno = fake.errors[call];
        return -1;
    }
    len = fake.most > 0 && len > fake.most ? fake.most : len;
    assert_true(fake.len + len <= sizeof fake.bytes);
    memcpy(fake.bytes + fake.len, bytes, len);
    fake.len += len;
    return (ssize_t)len;
}

static out_stream out;

static int begin(void **unused)
{
    (void)unused;
    memset(&fake, 0, sizeof fake);
    memset(&out, 0xFF, sizeof out);
    out_init(&out, 77);
    return 0;
}

static void writes_nothing_before_a_flush(void **unused)
{
    (void)unused;
    assert_int_equal(out_flush(&out), 0);
    assert_int_equal(fake.calls, 0);
    out_text(&out, "abc");
    out_bytes(&out, "de\0", 3);
    assert_int_equal(fake.calls, 0);
    assert_int_equal(out_flush(&out), 0);
    assert_int_equal(fake.len, 6);
    assert_memory_equal(fake.bytes, "abcde\0", 6);
    assert_int_equal(out_flush(&out), 0);
    assert_int_equal(fake.calls, 1);
}

static void writes_more_than_the_buffer(void **unused)
{
    (void)unused;
    static char bytes[3 * OUT_BYTES + 1];
    for (size_t i = 0; i < sizeof bytes; i++)
        bytes[i] = (char)('a' + i % 23);
    fake.most = 1000;
    out_bytes(&out, bytes, sizeof bytes);
    assert_int_equal(out_flush(&out), 0);
    assert_int_equal(fake.len, sizeof bytes);
    assert_memory_equal(fake.bytes, bytes, sizeof bytes);
}

static void reserves(void **unused)
{
    (void)unused;
    char *at = out_reserve(&out, OUT_BYTES);
    memset(at, 'x', OUT_BYTES - 1);
    out_commit(&out, at + OUT_BYTES - 1);
    *out_reserve(&out, 1) = 'y'; /* it fits */
    assert_int_equal(fake.calls, 0);
    out_commit(&out, out.buf + OUT_BYTES);
    *out_reserve(&out, 1) = 'z';
    assert_int_equal(fake.len, OUT_BYTES);
    assert_int_equal(fake.bytes[OUT_BYTES - 1], 'y');
}

static void fails_once(void **unused)
{
    (void)unused;
    fake.errors[0] = fake.errors[1] = EINTR;
    out_text(&out, "abc");
    assert_int_equal(out_flush(&out), 0);
    assert_int_equal(fake.calls, 3);
    (void)begin(NULL);
    fake.errors[0] = ENOSPC;
    out_text(&out, "abc");
    assert_int_equal(out_flush(&out), ENOSPC);
    out_text(&out, "def"); /* nothing is written after a failure */
    assert_int_equal(out_flush(&out), ENOSPC);
    assert_int_equal(fake.calls, 1);
    assert_int_equal(out.error, ENOSPC);
}

static void escapes(void **unused)
{
    (void)unused;
    static const char *const rows[][2] = {
        {"", ""},
        {"plain ~", "plain ~"},
        {"\"a\\b\"", "\\\"a\\\\b\\\""},
        {"\n\x1F", "\\u000a\\u001f"},
        {"\x7F", "\x7F"},
        {"\xC3\xBC\xE2\x82\xAC", "\xC3\xBC\xE2\x82\xAC"},
        {"a\xFFz", "a\xEF\xBF\xBDz"},
        {"\xE2\x82", "\xEF\xBF\xBD"},
        {"\xE2\x82z", "\xEF\xBF\xBDz"},
        {"\xC3\xC3\xBC", "\xEF\xBF\xBD\xC3\xBC"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        (void)begin(NULL);
        out_json(&out, rows[i][0], strlen(rows[i][0]));
        assert_int_equal(out_flush(&out), 0);
        assert_int_equal(fake.len, strlen(rows[i][1]));
        assert_memory_equal(fake.bytes, rows[i][1], fake.len);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(writes_nothing_before_a_flush, begin),
        cmocka_unit_test_setup(writes_more_than_the_buffer, begin),
        cmocka_unit_test_setup(reserves, begin),
        cmocka_unit_test_setup(fails_once, begin),
        cmocka_unit_test_setup(escapes, begin),
    };
    return cmocka_run_group_tests_name("out", tests, NULL, NULL);
}
