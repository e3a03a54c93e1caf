/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* A child process accesses a truncated state file at a fake time. Its last log line is compared. */

#define _GNU_SOURCE /* strptime, timegm */

#include "cmd/kit/sigbus.h"

#include "cmd/kit/log.h"
#include "store/store.h"
#include "tests/kit/kit.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

static int64_t fault_ns; /* the time of the fault */
static int64_t now_ns;   /* 0: the true time */
int64_t __wrap_port_now_ns(void);
int64_t __real_port_now_ns(void);

int64_t __wrap_port_now_ns(void)
{
    return now_ns != 0 ? now_ns : __real_port_now_ns();
}

static const char path[] = "state";

static weir_store *open_store(void)
{
    weir_store *s = NULL;
    const weir_store_options options = {.file = path, .memory_bytes = 8 << 20, .reset = true};
    assert_int_equal(weir_store_open(&s, &options), WEIR_OK);
    return s;
}

/* Runs `fault` in a child process that watches a state file. Returns the status of waitpid(), and
 * the log in `ret`. */
static int run(bool json, void (*fault)(const weir_store *s), char *ret, size_t size)
{
    int out[2], status;
    assert_int_equal(pipe(out), 0);
    fflush(NULL);
    pid_t child = fork();
    if (child == 0) {
        log_target log = {.fd = out[1], .json = {!json}};
        weir_store *s = open_store();
        setrlimit(RLIMIT_CORE, &(struct rlimit){0, 0});
        sigbus_watch(&log, "a file", s);
        log_configure(&log, WEIR_LOG_INFO, json); /* the line has the format of this moment */
        now_ns = fault_ns;
        fault(s);
        weir_store_close(s);
        exit(0); /* records coverage; a child that a signal terminates leaves none */
    }
    close(out[1]);
    size_t len = 0;
    for (ssize_t n; (n = read(out[0], ret + len, size - 1 - len)) > 0;)
        len += (size_t)n;
    ret[len] = '\0';
    close(out[0]);
    assert_int_equal(waitpid(child, &status, 0), child);
    return status;
}

static void touch_last_byte(const weir_store *s)
{
    weir_mapping file = weir_store_mapping(s);
    *(volatile char *)((char *)file.at + file.bytes - 1) = 1;
}

static void truncate_and_touch(const weir_store *s)
{
    if (truncate(path, 4096) == 0)
        touch_last_byte(s);
}

/* Truncates the file at the end of a page, and accesses the first byte after it. */
static void touch_next_byte(const weir_store *s)
{
    if (truncate(path, 8192) == 0)
        *(volatile char *)((char *)weir_store_mapping(s).at + 8192) = 1;
}

static struct {
    bool from_end;
    ptrdiff_t at; /* from the begin or the end of the file */
} bad_byte;

/* Sends the signal that the kernel sends if it cannot read bad_byte. */
static void send_fault(const weir_store *s)
{
    weir_mapping file = weir_store_mapping(s);
    siginfo_t info = {.si_signo = SIGBUS, .si_code = BUS_ADRERR};
    info.si_addr = (char *)file.at + (bad_byte.from_end ? (ptrdiff_t)file.bytes : 0) + bad_byte.at;
    syscall(SYS_rt_sigqueueinfo, getpid(), SIGBUS, &info);
}

static void fail_to_read(const weir_store *s)
{
    send_fault(s);
    touch_last_byte(s); /* the page is there */
}

/* The file has its pages again when the handler has returned, so that the process continues. */
static void fail_while_truncated(const weir_store *s)
{
    const off_t bytes = (off_t)weir_store_mapping(s).bytes;
    if (truncate(path, 8192) == 0)
        send_fault(s);
    if (truncate(path, bytes) == 0)
        touch_last_byte(s);
}

static void send_signal(const weir_store *s)
{
    (void)s;
    kill(getpid(), SIGBUS);
}

/* Accesses a page of another file. */
static void fault_elsewhere(const weir_store *s)
{
    (void)s;
    FILE *f = tmpfile();
    void *at = f ? mmap(NULL, 4096, PROT_WRITE, MAP_SHARED, fileno(f), 0) : MAP_FAILED;
    if (at != MAP_FAILED)
        *(volatile char *)at = 1;
}

static void unwatch_and_touch(const weir_store *s)
{
    sigbus_unwatch();
    truncate_and_touch(s);
}

#define TEXT                                                                                       \
    "the state file was truncated while in use; weir is terminating. Restore the file from a "     \
    "copy, "                                                                                       \
    "or start with --reset-state"

static const char truncated[] =
    "2025-11-21T09:00:00.123Z error state-file-fault file=\"a file\" text=\"" TEXT "\"\n";

static void check_log_lines(void **unused)
{
    (void)unused;
    char got[WEIR_LOG_LINE_MAX + 1];
    static void (*const faults[])(const weir_store *s) = {truncate_and_touch, touch_next_byte};
    fault_ns = INT64_C(1763715600123999999);
    for (size_t i = 0; i < 2; i++) {
        int status = run(false, faults[i], got, sizeof got);
        assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGBUS);
        assert_string_equal(got, truncated);
    }
    run(true, truncate_and_touch, got, sizeof got);
    assert_string_equal(got, "{\"time\":\"2025-11-21T09:00:00.123Z\",\"level\":\"error\",\"event\":"
                             "\"state-file-fault\",\"file\":\"a file\",\"text\":\"" TEXT "\"}\n");
}

static void check_unreadable_pages(void **unused)
{
    (void)unused;
    char got[WEIR_LOG_LINE_MAX + 1];
    static const char expected[] =
        "2025-11-21T09:00:00.123Z error state-file-fault file=\"a file\" text=\"the system could "
        "not read or write a page of the state file: the disk is full or has an error; weir is "
        "terminating\"\n";
    static const struct {
        bool from_end;
        ptrdiff_t at;
        const char *log;
    } rows[] = {{false, -1, ""}, {false, 0, expected}, {true, -1, expected}, {true, 0, ""}};
    fault_ns = INT64_C(1763715600123999999);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        bad_byte.from_end = rows[i].from_end;
        bad_byte.at = rows[i].at;
        assert_int_equal(run(false, fail_to_read, got, sizeof got), 0);
        assert_string_equal(got, rows[i].log);
    }
    static const ptrdiff_t ends[] = {8191, 8192};
    for (size_t i = 0; i < 2; i++) {
        bad_byte.from_end = false;
        bad_byte.at = ends[i];
        assert_int_equal(run(false, fail_while_truncated, got, sizeof got), 0);
        assert_string_equal(got, i == 0 ? expected : truncated);
    }
}

static void check_other_faults_log_nothing(void **unused)
{
    (void)unused;
    char got[WEIR_LOG_LINE_MAX + 1];
    static void (*const faults[])(const weir_store *s) = {send_signal, fault_elsewhere,
                                                          unwatch_and_touch};
    for (size_t i = 0; i < sizeof faults / sizeof faults[0]; i++) {
        int status = run(false, faults[i], got, sizeof got);
        assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGBUS);
        assert_string_equal(got, "");
    }
    assert_int_equal(run(false, touch_last_byte, got, sizeof got), 0);
    assert_string_equal(got, "");
}

/* The handler may call no function of the C library for the date. */
static void check_dates(void **unused)
{
    (void)unused;
    static const char *const times[] = {
        "1970-01-01T00:00:00.001Z", "1972-02-29T12:34:56.789Z", "1999-12-31T23:59:59.999Z",
        "2000-02-29T00:00:00.000Z", "2000-03-01T00:00:00.000Z", "2023-02-28T23:59:59.999Z",
        "2024-02-29T09:08:07.060Z", "2024-03-01T00:00:00.000Z", "2026-04-30T10:20:30.405Z",
        "2026-05-31T01:02:03.004Z", "2026-10-01T00:00:00.000Z", "2027-01-31T23:00:00.000Z",
        "2100-02-28T23:59:59.999Z", "2100-03-01T00:00:00.000Z", "2104-02-29T00:00:00.000Z",
        "2225-01-01T00:00:00.000Z"};
    char got[WEIR_LOG_LINE_MAX + 1];
    bad_byte.from_end = false;
    bad_byte.at = 0;
    for (size_t i = 0; i < sizeof times / sizeof times[0]; i++) {
        struct tm t = {0};
        const char *fraction = strptime(times[i], "%Y-%m-%dT%H:%M:%S", &t);
        fault_ns = (int64_t)timegm(&t) * 1000000000 + strtol(fraction + 1, NULL, 10) * 1000000;
        assert_int_equal(run(false, fail_to_read, got, sizeof got), 0);
        assert_memory_equal(got, times[i], strlen(times[i]));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(check_log_lines),
        cmocka_unit_test(check_unreadable_pages),
        cmocka_unit_test(check_other_faults_log_nothing),
        cmocka_unit_test(check_dates),
    };
    return cmocka_run_group_tests(tests, make_dir, remove_dir);
}
