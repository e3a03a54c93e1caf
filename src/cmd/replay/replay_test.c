/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* Tests of `weir replay` that a script cannot make: the progress bar at each time and width, reads
 * that return few bytes or fail, and failing allocations. The clock, the terminal, read() and the
 * allocator are fakes (see meson.build). */

#define _GNU_SOURCE /* memfd_create */

#include "cmd/kit/commands.h"
#include "tests/kit/kit.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "port/memory_kit_test.h"
#include "port/port.h"

/* ---- fakes ----------------------------------------------------------------------------------- */

static struct {
    bool terminal;           /* standard error is one; standard output is none */
    int cols;                /* -1: ioctl() fails */
    int64_t now_ns, step_ns; /* each reading of the clock adds step_ns */
    size_t read_max, reads;  /* the most bytes that a read() returns, if read_max > 0 */
    int read_errno;          /* of the read() number `read_fails`, from 1; 0: it finds the end */
    size_t read_fails;
    size_t write_max, writes; /* the same of write() */
    int write_errno;
    size_t write_fails;
    uint64_t random; /* what port_random() returns follows from it; 0: it is random */
} fake;

static ino_t log_inode;

weir_status __wrap_port_random(void *buf, size_t len);
weir_status __real_port_random(void *buf, size_t len);
int64_t __wrap_port_steady_ns(void);
int __wrap_isatty(int fd);
int __wrap_ioctl(int fd, unsigned long request, struct winsize *ret);
ssize_t __wrap_read(int fd, void *buf, size_t size);
ssize_t __real_read(int fd, void *buf, size_t size);
ssize_t __wrap_write(int fd, const void *buf, size_t size);
ssize_t __real_write(int fd, const void *buf, size_t size);

int64_t __wrap_port_steady_ns(void)
{
    fake.now_ns += fake.step_ns;
    return fake.now_ns;
}

weir_status __wrap_port_random(void *buf, size_t len)
{
    if (fake.random == 0)
        return __real_port_random(buf, len);
    for (size_t i = 0; i < len; i++) {
        fake.random = fake.random * 6364136223846793005 + 1442695040888963407;
        ((uint8_t *)buf)[i] = (uint8_t)(fake.random >> 56);
    }
    return WEIR_OK;
}

int __wrap_isatty(int fd)
{
    return fd == STDERR_FILENO && fake.terminal;
}

int __wrap_ioctl(int fd, unsigned long request, struct winsize *ret)
{
    assert_true(request == TIOCGWINSZ);
    if (fd == STDOUT_FILENO)
        return -1; /* no terminal */
    assert_int_equal(fd, STDERR_FILENO);
    *ret = (struct winsize){.ws_col = (unsigned short)(fake.cols > 0 ? fake.cols : 0)};
    return fake.cols < 0 ? -1 : 0;
}

ssize_t __wrap_read(int fd, void *buf, size_t size)
{
    struct stat s;
    if (fstat(fd, &s) != 0 || s.st_ino != log_inode)
        return __real_read(fd, buf, size);
    if (++fake.reads == fake.read_fails) {
        errno = fake.read_errno;
        return fake.read_errno != 0 ? -1 : 0;
    }
    return __real_read(fd, buf, fake.read_max > 0 && fake.read_max < size ? fake.read_max : size);
}

ssize_t __wrap_write(int fd, const void *buf, size_t size)
{
    if (fake.write_fails > 0 && ++fake.writes == fake.write_fails) {
        errno = fake.write_errno;
        return -1;
    }
    size_t max = fake.write_max;
    return __real_write(fd, buf, max > 0 && max < size ? max : size);
}

/* ---- running it ------------------------------------------------------------------------------ */

static char output[1 << 20], errors[1 << 20]; /* of the last run */

static void capture(int saved, int to, int fd, char *ret, size_t size)
{
    dup2(saved, to);
    close(saved);
    ssize_t n = pread(fd, ret, size - 1, 0);
    ret[n > 0 ? n : 0] = '\0';
    close(fd);
}

/* Runs `weir replay ARGUMENT...`; the list ends with NULL. Returns the exit status. */
static int run(const char *first, ...)
{
    char *argv[16] = {"replay", NULL};
    int argc = 1, out = memfd_create("out", 0), err = memfd_create("err", 0);
    va_list args;
    va_start(args, first);
    for (const char *arg = first; arg; arg = va_arg(args, const char *))
        argv[argc++] = (char *)arg;
    va_end(args);
    fflush(stdout);
    int saved_out = dup(STDOUT_FILENO), saved_err = dup(STDERR_FILENO);
    dup2(out, STDOUT_FILENO);
    dup2(err, STDERR_FILENO);
    int status = weir_cmd_replay(argc, argv);
    fflush(stdout);
    capture(saved_out, STDOUT_FILENO, out, output, sizeof output);
    capture(saved_err, STDERR_FILENO, err, errors, sizeof errors);
    return status;
}

#define POLICY "--policy", "gcra 1/s burst 1"

/* A log of n lines of 64 bytes. */
static void write_log(const char *name, size_t n)
{
    struct stat s;
    FILE *f = fopen(name, "w");
    assert_non_null(f);
    assert_int_equal(fstat(fileno(f), &s), 0);
    log_inode = s.st_ino;
    for (size_t i = 0; i < n; i++)
        fprintf(f, "1%017zu\tk%043zu\n", i, i % 100);
    fclose(f);
}

static int reset(void **unused)
{
    (void)unused;
    memset(&fake, 0, sizeof fake);
    (void)memory_stop();
    fake.cols = 80;
    return 0;
}

/* ---- the progress bar ------------------------------------------------------------------------ */

enum { STEP = 4096 }; /* lines between two looks at the clock; the bytes of a read() */

/* A log of `steps` steps; each look at the clock is step_ns later. */
static void expect_bar(size_t steps, int64_t step_ns, int cols, const char *expected)
{
    fake.terminal = true;
    fake.now_ns = 0;
    fake.step_ns = step_ns;
    fake.cols = cols;
    write_log("log", steps * STEP);
    assert_int_equal(run(POLICY, "log", NULL), 0);
    assert_string_equal(errors, expected);
    assert_int_equal(strncmp(output, "gcra 1/s", 8), 0);
}

static void check_progress_bar(void **unused)
{
    (void)unused;
    expect_bar(4, 1000000000, 80,
               "\r[##########..............................]  25%  4.10 klines/s  ETA 4s\033[K"
               "\r[####################....................]  50%  4.10 klines/s  ETA 3s\033[K"
               "\r[##############################..........]  75%  4.10 klines/s  ETA 2s\033[K"
               "\r[########################################] 100%  4.10 klines/s  ETA 1s\033[K"
               "\r\033[K");
    /* at most ten times a second */
    expect_bar(4, 50000000, 80,
               "\r[####################....................]  50%  81.9 klines/s  ETA 1s\033[K"
               "\r[########################################] 100%  81.9 klines/s  ETA 1s\033[K"
               "\r\033[K");
    expect_bar(1, 99999999, 80, "");
    expect_bar(1, 100000000, 80,
               "\r[########################################] 100%  41.0 klines/s  ETA 1s\033[K"
               "\r\033[K");
}

static void check_bar_widths(void **unused)
{
    (void)unused;
    static const char wide[] =
        "\r[########################################] 100%  4.10 klines/s  ETA 1s\033[K\r\033[K";
    expect_bar(1, 1000000000, 0, wide); /* unknown: 80 */
    expect_bar(1, 1000000000, -1, wide);
    expect_bar(1, 1000000000, 300, wide);
    expect_bar(1, 1000000000, 71, wide);
    expect_bar(1, 1000000000, 70,
               "\r[#######################################] 100%  4.10 klines/s  ETA 1s\033[K"
               "\r\033[K");
    expect_bar(1, 1000000000, 36, "\r[#####] 100%  4.10 klines/s  ETA 1s\033[K\r\033[K");
    expect_bar(1, 1000000000, 35, "\r100%  4.10 klines/s  ETA 1s\033[K\r\033[K");
    expect_bar(1, 1000000000, 10, "\r100%  4.1\033[K\r\033[K");
}

static void expect_rate(int64_t step_ns, const char *rate)
{
    char expected[200];
    snprintf(expected, sizeof expected,
             "\r[########################################] 100%%  %slines/s  ETA 1s\033[K\r\033[K",
             rate);
    expect_bar(1, step_ns, 80, expected);
}

static void check_bar_rates(void **unused)
{
    (void)unused;
    expect_rate(INT64_C(4096000000000), "1 ");
    expect_rate(INT64_C(409600000000), "10 ");
    expect_rate(INT64_C(4100000000), "999 ");   /* 999.02 */
    expect_rate(INT64_C(4097229168), "1.00 k"); /* 999.7 */
    expect_rate(INT64_C(4096000000), "1.00 k"); /* 1000 */
    expect_rate(INT64_C(410000000), "9.99 k");  /* 9990.2 */
    expect_rate(INT64_C(409700000), "10.0 k");  /* 9997.6 */
    expect_rate(INT64_C(409600000), "10.0 k");
    fake.terminal = true;
    fake.cols = 80;
    fake.step_ns = INT64_C(1000000000);
    write_log("log", STEP);
    assert_int_equal(run(POLICY, "--no-progress", "log", NULL), 0);
    assert_string_equal(errors, "");
    fake.terminal = false;
    assert_int_equal(run(POLICY, "log", NULL), 0);
    assert_string_equal(errors, "");
}

/* The bar is erased before a message, and drawn again after it. */
static void check_message_erases_bar(void **unused)
{
    (void)unused;
    fake.terminal = true;
    fake.step_ns = 1000000000;
    write_log("log", STEP);
    FILE *f = fopen("log", "a");
    assert_non_null(f);
    fputs("x\n", f);
    fclose(f);
    assert_int_equal(run(POLICY, "log", NULL), 0);
    assert_string_equal(
        errors, "\r[#######################################.]  99%  4.10 klines/s  ETA 1s\033[K"
                "\r\033[K"
                "log:4097: column 1: expected t_ns, whole nanoseconds since 1970\n"
                "weir replay: 1 line could not be read and was left out\n");
}

/* ---- input ----------------------------------------------------------------------------------- */

static void check_reads(void **unused)
{
    (void)unused;
    write_log("log", 300);
    assert_int_equal(run(POLICY, "--decisions", "jsonl", "log", NULL), 0);
    char *all = strdup(output);
    static const size_t pieces[] = {1, 2, 3, 63, 64, 65, 4096};
    for (size_t i = 0; i < sizeof pieces / sizeof pieces[0]; i++) {
        fake.read_max = pieces[i];
        assert_int_equal(run(POLICY, "--decisions", "jsonl", "log", NULL), 0);
        assert_string_equal(output, all);
    }
    for (size_t n = 1; n < 12; n++) { /* an interrupted read() is repeated */
        fake.read_max = 2048;
        fake.reads = 0;
        fake.read_fails = n;
        fake.read_errno = EINTR;
        assert_int_equal(run(POLICY, "--decisions", "jsonl", "log", NULL), 0);
        assert_string_equal(output, all);
        assert_true(fake.reads >= n);
    }
    free(all);
}

/* Output is complete if a write() writes few bytes or is interrupted. */
static void check_writes(void **unused)
{
    (void)unused;
    write_log("log", 300);
    assert_int_equal(run(POLICY, "--decisions", "jsonl", "log", NULL), 0);
    char *all = strdup(output);
    for (size_t max = 1; max < 5000; max = max * 7 + 1) {
        fake.write_max = max;
        assert_int_equal(run(POLICY, "--decisions", "jsonl", "log", NULL), 0);
        assert_string_equal(output, all);
    }
    for (size_t n = 1; n < 12; n++) {
        fake.write_max = 4096;
        fake.writes = 0;
        fake.write_fails = n;
        fake.write_errno = EINTR;
        assert_int_equal(run(POLICY, "--decisions", "jsonl", "log", NULL), 0);
        assert_string_equal(output, all);
        assert_true(fake.writes >= n);
        fake.writes = 0;
        fake.write_errno = ENOSPC;
        assert_int_equal(run(POLICY, "--decisions", "jsonl", "log", NULL), 1);
        assert_string_equal(errors, "weir replay: standard output: No space left on device\n");
        assert_int_equal(strlen(output), (n - 1) * 4096);
        assert_memory_equal(output, all, (n - 1) * 4096);
    }
    free(all);
}

/* A line of exactly the longest length is read, also if a read() ends before its LF. */
static void check_longest_line(void **unused)
{
    (void)unused;
    enum { FIRST = 65536, LONGEST = 1 << 20 }; /* the bytes of the first read() */
    for (size_t more = 0; more < 2; more++) {
        FILE *f = fopen("log", "w");
        assert_non_null(f);
        for (int i = 0; i < 2; i++) {
            int len = i == 0 ? FIRST - 1 : LONGEST + (int)more;
            int part = fprintf(f, "{\"t_ns\":1,\"key\":\"a\",\"x\":\"");
            fprintf(f, "%0*d\"}\n", len - part - 2, 0);
        }
        fclose(f);
        assert_int_equal(run(POLICY, "log", NULL), 0);
        assert_string_equal(errors, more == 0
                                        ? ""
                                        : "log:2: column 1048577: expected the end of the line: a "
                                          "line has at most 1 MiB\n"
                                          "weir replay: 1 line could not be read and was left "
                                          "out\n");
    }
}

/* A failed read() is reported. The decisions before it are printed. */
static void check_failed_reads(void **unused)
{
    (void)unused;
    write_log("log", 300);
    for (size_t n = 1; n < 12; n++) {
        reset(NULL);
        fake.read_max = 2048;
        fake.read_fails = n;
        fake.read_errno = EIO;
        assert_int_equal(run(POLICY, "--decisions", "jsonl", "log", NULL), 1);
        assert_string_equal(errors, "weir replay: log: Input/output error\n");
        size_t lines = 0;
        for (const char *at = output; (at = strchr(at, '\n')); at++)
            lines++;
        assert_int_equal(lines, n == 11 ? 300 : (n - 1) * 2048 / 64);
    }
}

static void check_shortened_file(void **unused)
{
    (void)unused;
    write_log("log", 300);
    fake.read_max = 2048;
    fake.read_fails = 4;
    assert_int_equal(run(POLICY, "log", NULL), 0);
    assert_string_equal(errors, "weir replay: WARNING: log became shorter while it was read: 13056 "
                                "of 19200 bytes are missing\n");
}

/* ---- memory ---------------------------------------------------------------------------------- */

/* A log in which each of n keys, in no order, has two requests. */
static void write_pairs(const char *name, size_t n)
{
    FILE *f = fopen(name, "w");
    assert_non_null(f);
    for (size_t i = 0; i < 2 * n; i++)
        fprintf(f, "%zu\t%zx\n", 1000000000000 + i, i % n * 2654435761U % (1U << 31));
    fclose(f);
}

/* A store of 8 MiB holds 7 states of this policy. */
#define LARGE "sliding-slices 1/h slices 65536"

/* The store doubles several times, and each key keeps its state: the second request is denied. */
static void expect_growth(const char *policy, const char *size, size_t keys)
{
    write_pairs("log", keys);
    if (run("--policy", policy, "--memory", size, "log", NULL) != 0 || *errors)
        fail_msg("%s, %s: %s", policy, size, errors);
    const char *denied = strstr(output, "\n  denied ");
    assert_non_null(denied);
    assert_int_equal(strtoull(denied + strlen("\n  denied "), NULL, 10), keys);
}

static void check_growing(void **unused)
{
    (void)unused;
    expect_growth("sliding-counter 1/h & gcra 1/d burst 1", "1g", 120000); /* in the table */
    expect_growth("sliding-log 1/h", "64m", 60000);                        /* large states */
    expect_growth("gcra 1/h burst 1", "64m", 1);                           /* no growth */
    expect_growth(LARGE, "8m", 7);
    expect_growth(LARGE, "16m", 8);
    fake.random = 917; /* the hashes are such that a store of twice the size has no space either */
    expect_growth("sliding-log 1/h", "64m", 60000);
}

/* If the machine has no memory for a larger store, a larger --memory would not help. */
static void check_growing_without_memory(void **unused)
{
    (void)unused;
    write_pairs("log", 8);
    int status = 1;
    size_t n = 0;
    for (; status == 1 && n < 1000; n++) {
        memory_fail(n, true);
        status = run("--policy", LARGE, "--memory", "32m", "log", NULL);
        (void)memory_stop();
        if (status == 1 && strstr(errors, "--memory"))
            fail_msg("allocation %zu: %s", n, errors);
    }
    assert_int_equal(status, 0);
}

/* A store of the largest size evicts keys, and says so. */
static void check_full_memory(void **unused)
{
    (void)unused;
    write_pairs("log", 100000);
    assert_int_equal(run("--policy", "gcra 1/h burst 1", "--memory", "1m", "log", NULL), 0);
    assert_non_null(strstr(errors, "the report shows too few denials: the memory of 1m was full"));
    write_pairs("log", 8);
    assert_int_equal(run("--policy", LARGE, "--memory", "8m", "log", NULL), 0);
    assert_string_equal(errors,
                        "weir replay: WARNING: the report shows too few denials: the memory of 8m "
                        "was full, and 3 keys were evicted before their quota was full; raise "
                        "--memory\n");
    write_pairs("log", 100000);
    assert_int_equal(run("--policy", "gcra 1/h burst 1", "--memory", "8m", "log", NULL), 0);
    assert_string_equal(errors, "");
    FILE *f = fopen("log", "w");
    assert_non_null(f);
    for (int i = 0; i < 100000; i++)
        fprintf(f, "%d\tk\n", i);
    fclose(f);
    assert_int_equal(run("--policy", "sliding-log 100000/h", "--memory", "1m", "log", NULL), 1);
    assert_non_null(strstr(errors, "does not fit into 1m; raise --memory"));
    assert_int_equal(run("--policy", "sliding-log 100000/h", "log", NULL), 0);
}

static void check_memory_option(void **unused)
{
    (void)unused;
    static const char *const bad[] = {"",      "x",   "1",   "1048575", "1023k",
                                      "1025g", "-1m", "1mb", "1 m"};
    write_log("log", 1);
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        assert_int_equal(run(POLICY, "--memory", bad[i], "log", NULL), 2);
        assert_non_null(strstr(errors, "--memory: expected a size from 1m to 1024g"));
    }
    assert_int_equal(run(POLICY, "--memory", "1024k", "log", NULL), 0);
    assert_int_equal(run(POLICY, "--memory", "1024g", "log", NULL), 0);
}

/* ---- failing allocations --------------------------------------------------------------------- */

/* Fails each allocation of a run once. */
static void fail_allocations(void)
{
    int status = 1;
    size_t n;
    assert_int_equal(run(POLICY, "--policy", "sliding-log 5/m", "log", NULL), 0);
    char *all = strdup(output);
    for (n = 0; status == 1 && n < 1000; n++) {
        memory_fail(n, true);
        status = run(POLICY, "--policy", "sliding-log 5/m", "log", NULL);
        (void)memory_stop();
        if (status == 1 && !strstr(errors, "out of memory") && !strstr(errors, "Cannot allocate"))
            fail_msg("allocation %zu: %s", n, errors);
    }
    assert_int_equal(status, 0);
    assert_string_equal(output, all);
    assert_true(n > 10);
    free(all);
}

static void check_failing_allocations(void **unused)
{
    (void)unused;
    write_log("log", 10);
    fail_allocations();
    FILE *f = fopen("log", "w"); /* an integer that jansson refuses, so that the line is copied */
    assert_non_null(f);
    fputs("{\"t_ns\":5,\"key\":\"a\",\"cost\":18446744073709551616}\n", f);
    fclose(f);
    fail_allocations();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(check_progress_bar, reset),
        cmocka_unit_test_setup(check_bar_widths, reset),
        cmocka_unit_test_setup(check_bar_rates, reset),
        cmocka_unit_test_setup(check_message_erases_bar, reset),
        cmocka_unit_test_setup(check_reads, reset),
        cmocka_unit_test_setup(check_writes, reset),
        cmocka_unit_test_setup(check_longest_line, reset),
        cmocka_unit_test_setup(check_failed_reads, reset),
        cmocka_unit_test_setup(check_shortened_file, reset),
        cmocka_unit_test_setup(check_growing, reset),
        cmocka_unit_test_setup(check_growing_without_memory, reset),
        cmocka_unit_test_setup(check_full_memory, reset),
        cmocka_unit_test_setup(check_memory_option, reset),
        cmocka_unit_test_setup(check_failing_allocations, reset),
    };
    return cmocka_run_group_tests(tests, make_dir, remove_dir);
}
