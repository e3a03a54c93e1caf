/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* Compares log lines byte by byte. */

#include "cmd/kit/log.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

static const int64_t now_ns = 1795251600123999999; /* 2026-11-21T09:00:00.123999999Z */

static void check_line(bool json, const log_pair *pairs, const char *expected)
{
    char buf[WEIR_LOG_LINE_MAX + 1];
    size_t len = log_line(json, now_ns, WEIR_LOG_INFO, "listening", pairs, buf);
    assert_in_range(len, 1, WEIR_LOG_LINE_MAX);
    buf[len] = '\0';
    assert_string_equal(buf, expected);
}

#define TEXT(expected, ...) check_line(false, (const log_pair[]){__VA_ARGS__{0}}, expected)
#define JSON(expected, ...) check_line(true, (const log_pair[]){__VA_ARGS__{0}}, expected)

static void text_lines(void **unused)
{
    (void)unused;
    TEXT("2026-11-21T09:00:00.123Z info listening\n", );
    TEXT("2026-11-21T09:00:00.123Z info listening resp=127.0.0.1:6380 http=off\n",
         log_text("resp", "127.0.0.1:6380"), log_text("http", "off"), );
    TEXT("2026-11-21T09:00:00.123Z info listening b=2\n", log_text("a", NULL),
         log_text("b", "2"), );
    TEXT("2026-11-21T09:00:00.123Z info listening a=\"\" b=\"x y\" c=\"k=v\"\n", log_text("a", ""),
         log_text("b", "x y"), log_text("c", "k=v"), );
    TEXT("2026-11-21T09:00:00.123Z info listening a=\"\\\"\" b=\"\\\\\" c=\"\\u000a\\u001b[31m\"\n",
         log_text("a", "\""), log_text("b", "\\"), log_text("c", "\n\033[31m"), );
    TEXT(
        "2026-11-21T09:00:00.123Z info listening a=\"\xC3\xBC\" b=\"\\u009b\" c=\"\xEF\xBF\xBD\"\n",
        log_text("a", "\xC3\xBC"), log_text("b", "\xC2\x9B"), log_text("c", "\xFF"), );
    TEXT("2026-11-21T09:00:00.123Z info listening n=-7 s=-0.001\n", log_integer("n", -7),
         log_seconds("s", -1), );
}

static void json_lines(void **unused)
{
    (void)unused;
    JSON("{\"time\":\"2026-11-21T09:00:00.123Z\",\"level\":\"info\",\"event\":\"listening\"}\n", );
    JSON("{\"time\":\"2026-11-21T09:00:00.123Z\",\"level\":\"info\",\"event\":\"listening\","
         "\"a\":\"127.0.0.1:1\",\"b\":\"\",\"c\":\"\\\"\\\\\\u0001\\u007f\xEF\xBF\xBDx\"}\n",
         log_text("a", "127.0.0.1:1"), log_text("b", ""), log_text("c", "\"\\\001\x7F\xC3x"), );
    JSON("{\"time\":\"2026-11-21T09:00:00.123Z\",\"level\":\"info\",\"event\":\"listening\","
         "\"a\":\"2\",\"b\":0,\"c\":9223372036854775807,\"d\":-9223372036854775808,"
         "\"e\":0.000,\"f\":-3600.050}\n",
         log_text("a", "2"), log_integer("b", 0), log_integer("c", INT64_MAX),
         log_integer("d", INT64_MIN), log_seconds("e", 0), log_seconds("f", -3600050), );
}

static void levels_and_times(void **unused)
{
    (void)unused;
    char buf[WEIR_LOG_LINE_MAX];
    const log_pair none[] = {{0}};
    static const char *const expected[] = {
        "1970-01-01T00:00:00.000Z debug e\n", "1970-01-01T00:00:00.000Z info e\n",
        "1970-01-01T00:00:00.000Z warning e\n", "1970-01-01T00:00:00.000Z error e\n"};
    for (int level = WEIR_LOG_DEBUG; level <= WEIR_LOG_ERROR; level++) {
        size_t len = log_line(false, 0, (weir_log_level)level, "e", none, buf);
        assert_int_equal(len, strlen(expected[level]));
        assert_memory_equal(buf, expected[level], len);
    }
}

/* The line stays well-formed for every length of a value, of an escaped value, and of a second
 * field. */
static void long_values_are_truncated(void **unused)
{
    (void)unused;
    char value[WEIR_LOG_LINE_MAX + 100], buf[WEIR_LOG_LINE_MAX];
    static const char fill[] = {'x', '"', '\001', ' '};
    for (size_t i = 0; i < 2 * sizeof fill; i++) {
        bool json = i >= sizeof fill;
        for (size_t n = 600; n < sizeof value; n++) {
            memset(value, fill[i % sizeof fill], n);
            value[n] = '\0';
            const log_pair *pairs = LOG(log_text("first", value), log_integer("second", 1234567),
                                        log_text("third", "y z"));
            size_t len = log_line(json, now_ns, WEIR_LOG_ERROR, "long", pairs, buf);
            assert_in_range(len, 600, WEIR_LOG_LINE_MAX);
            assert_int_equal(buf[len - 1], '\n');
            assert_null(memchr(buf, '\n', len - 1));
            if (json) /* the line ends in a text or in a complete number */
                assert_true(memcmp(buf + len - 3, "\"}\n", 3) == 0 ||
                            memcmp(buf + len - 18, "\"second\":1234567}\n", 18) == 0);
        }
    }
    /* A plain value is whole if 8 bytes are left after it, and quoted and cut otherwise. */
    static const char head[] = "2026-11-21T09:00:00.123Z error long first=";
    for (size_t n = 600; n < sizeof value; n++) {
        memset(value, 'x', n);
        value[n] = '\0';
        size_t len =
            log_line(false, now_ns, WEIR_LOG_ERROR, "long", LOG(log_text("first", value)), buf);
        bool fits = sizeof head - 1 + n <= WEIR_LOG_LINE_MAX - 8;
        assert_int_equal(len, fits ? sizeof head - 1 + n + 1 : WEIR_LOG_LINE_MAX - 8 + 5);
        assert_int_equal(buf[sizeof head - 1], fits ? 'x' : '"');
    }
    memset(value, 'x', sizeof value - 1);
    value[sizeof value - 1] = '\0';
    const log_pair *pairs = LOG(log_text("first", value), log_integer("second", 1));
    size_t len = log_line(true, now_ns, WEIR_LOG_ERROR, "long", pairs, buf);
    assert_memory_equal(buf + len - 8, "xx...\"}\n", 8);
}

/* The next `fails` calls of write() fail. */
static int fails, fail_errno;
ssize_t __wrap_write(int fd, const void *buf, size_t len);
ssize_t __real_write(int fd, const void *buf, size_t len);

ssize_t __wrap_write(int fd, const void *buf, size_t len)
{
    if (fails == 0)
        return __real_write(fd, buf, len);
    fails--;
    errno = fail_errno;
    return -1;
}

/* Each event is one write, so a pipe delivers whole lines. Events below the level are dropped. */
static void each_event_is_one_write(void **unused)
{
    (void)unused;
    int fd[2];
    char buf[256];
    assert_int_equal(pipe(fd), 0);
    log_target log = {.fd = fd[1], .least = {WEIR_LOG_INFO}};
    log_event(&log, WEIR_LOG_DEBUG, "unseen", LOG(log_text("a", "b")));
    log_event(&log, WEIR_LOG_WARNING, "seen",
              LOG(log_text("a", "b"), log_text("c", NULL), log_text("d", "e f")));
    ssize_t len = read(fd[0], buf, sizeof buf - 1);
    assert_true(len > 24);
    buf[len] = '\0';
    assert_string_equal(buf + 24, " warning seen a=b d=\"e f\"\n");
    assert_int_equal(buf[23], 'Z');
    fails = 2;
    fail_errno = EINTR; /* the write is repeated */
    log_event(&log, WEIR_LOG_INFO, "again", LOG(log_text("a", "b")));
    assert_true(read(fd[0], buf, sizeof buf) > 0);
    assert_memory_equal(buf + 24, " info again a=b\n", 16);
    assert_int_equal(fails, 0);
    fails = 2;
    fail_errno = EIO; /* the event is lost */
    log_event(&log, WEIR_LOG_INFO, "lost", LOG(log_text("a", "b")));
    assert_int_equal(fails, 1);
    fails = 0;
    errno = EINTR; /* of an earlier call */
    log_event(&log, WEIR_LOG_INFO, "once", LOG(log_text("a", "b")));
    assert_int_equal(read(fd[0], buf, sizeof buf), 24 + 15);
    log_configure(&log, WEIR_LOG_WARNING, true);
    log_event(&log, WEIR_LOG_INFO, "unseen", LOG(log_text("a", "b")));
    log_event(&log, WEIR_LOG_WARNING, "seen", LOG(log_text("a", "b")));
    len = read(fd[0], buf, sizeof buf - 1);
    assert_true(len > 0);
    buf[len] = '\0';
    assert_non_null(strstr(buf, "\"level\":\"warning\",\"event\":\"seen\",\"a\":\"b\"}\n"));
    assert_int_equal(buf[0], '{');
    log_configure(&log, WEIR_LOG_DEBUG, false);
    log_event(&log, WEIR_LOG_DEBUG, "debug", LOG(log_text("a", "b")));
    assert_int_equal(read(fd[0], buf, sizeof buf), 24 + 17);
    close(fd[0]);
    close(fd[1]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(text_lines),
        cmocka_unit_test(json_lines),
        cmocka_unit_test(levels_and_times),
        cmocka_unit_test(long_values_are_truncated),
        cmocka_unit_test(each_event_is_one_write),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
