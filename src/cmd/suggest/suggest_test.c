/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* Tests of `weir suggest` that a script cannot make: failing allocations, the order of the requests
 * in memory, and a curve of any points. The allocator is a fake (see meson.build). */

#define _GNU_SOURCE /* memfd_create */

#include "accesslog/messages.h"
#include "cmd/kit/commands.h"
#include "cmd/suggest/suggest.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

#include "port/memory_kit_test.h"

#define ALL ((size_t)-1)

/* ---- files ----------------------------------------------------------------------------------- */

static char log_path[64];
static int log_fd, out_fd, err_fd; /* what the command reads and prints */
static char printed[65536];

static int memory_file(const char *name)
{
    int fd = memfd_create(name, 0);
    assert_true(fd >= 0);
    return fd;
}

/* Sets the log: tsv. */
static void set_log(const char *text)
{
    assert_int_equal(ftruncate(log_fd, 0), 0);
    assert_int_equal(pwrite(log_fd, text, strlen(text), 0), strlen(text));
}

static const char *printed_on(int fd)
{
    ssize_t n = pread(fd, printed, sizeof printed - 1, 0);
    assert_true(n >= 0);
    printed[n] = 0;
    return printed;
}

/* Runs `weir suggest` with at most `allocations`. Returns its exit status. */
static int run(const char *algorithm, size_t allocations)
{
    char *argv[] = {"suggest",     "--format",        "tsv",    "--target", "1 key denied",
                    "--algorithm", (char *)algorithm, log_path, NULL};
    int saved[] = {dup(STDOUT_FILENO), dup(STDERR_FILENO)};
    assert_int_equal(ftruncate(out_fd, 0), 0);
    assert_int_equal(ftruncate(err_fd, 0), 0);
    fflush(NULL);
    lseek(out_fd, 0, SEEK_SET);
    lseek(err_fd, 0, SEEK_SET);
    dup2(out_fd, STDOUT_FILENO);
    dup2(err_fd, STDERR_FILENO);
    if (allocations != ALL)
        memory_fail(allocations, true);
    int status = weir_cmd_suggest((int)(sizeof argv / sizeof argv[0]) - 1, argv);
    (void)memory_stop();
    fflush(NULL);
    dup2(saved[0], STDOUT_FILENO);
    dup2(saved[1], STDERR_FILENO);
    close(saved[0]);
    close(saved[1]);
    return status;
}

/* ---- failing allocations --------------------------------------------------------------------- */

/* Fails each allocation of a run once. */
static void fail_allocations(const char *algorithm)
{
    size_t n = 0;
    int status;
    while ((status = run(algorithm, n)) != 0) {
        assert_int_equal(status, ACCESSLOG_FAILED);
        if (!strstr(printed_on(err_fd), "memory\n"))
            fail_msg("allocation %zu: %s", n, printed);
        assert_string_equal(printed_on(out_fd), "");
        assert_true(++n < 200);
    }
    assert_true(n > 5);
    assert_non_null(strstr(printed_on(out_fd), "\nweir replay --policy '"));
}

static void check_failing_allocations(void **unused)
{
    (void)unused;
    char text[8192];
    size_t len = 0;
    for (int i = 0; i < 300; i++) /* a sliding log has to grow for key 1 */
        len +=
            (size_t)snprintf(text + len, sizeof text - len, "%d000000\t%d\n", 1000 + i, i % 7 == 0);
    set_log(text);
    fail_allocations("gcra");
    fail_allocations("sliding-log");
}

/* ---- the trace ------------------------------------------------------------------------------- */

/* Requests are sorted by key in order of appearance, and stay in order within a key. */
static void check_trace(void **unused)
{
    (void)unused;
    static const struct {
        uint32_t key, cost;
    } expected[] = {{0, 1}, {0, 3}, {0, 6}, {0, 7},
                    {1, 2}, {1, 5}, {2, 4}, {2, SUGGEST_COST_ABOVE}};
    set_log("10\tb\t1\n10\ta\t2\n10\tb\t3\n20\tc\t4\n20\ta\t5\n20\tb\t6\n20\tb\t7\n30\tc\t214748364"
            "8\n");
    char *paths[] = {log_path};
    accesslog_options o = {.paths = paths, .paths_len = 1, .format = "tsv", .no_progress = true};
    accesslog *log = NULL;
    suggest_trace t = {0};
    assert_int_equal(accesslog_open(&log, &o), 0);
    assert_int_equal(suggest_trace_read(&t, log, (size_t)1 << 20, 50 * SUGGEST_PERCENT), 0);
    assert_int_equal(t.len, sizeof expected / sizeof expected[0]);
    assert_int_equal(t.keys, 3);
    for (uint32_t k = 0, i = 0; k < t.keys; k++) {
        assert_int_equal(t.begin[k], i);
        for (; i < t.begin[k + 1]; i++) {
            assert_int_equal(expected[i].key, k);
            assert_int_equal(t.request[i].cost, expected[i].cost);
        }
    }
    assert_int_equal(t.begin[t.keys], t.len);
    assert_int_equal(t.split_ns, 20);
    assert_int_equal(t.over_cost, 1);
    assert_true(t.mixed_costs);
    suggest_trace_free(&t);
    accesslog_close(log);
}

/* ---- the curve ------------------------------------------------------------------------------- */

/* Draws points into the grid only, whatever they are and however narrow the terminal is. */
static void check_plot(void **unused)
{
    (void)unused;
    static const plot_point point[] = {
        {0, INT64_MAX}, {1, 0}, {3, 7}, {INT32_MAX, 1}, {INT64_MAX, 5}};
    static const int cols[] = {1, 20, 80, 1000};
    for (size_t from = 0; from < 5; from++) {
        for (size_t i = 0; i < 8; i++) {
            plot p = {.point = point + from,
                      .len = 5 - from,
                      .marked = 0,
                      .x_name = "x",
                      .y_name = "y",
                      .cols = cols[i / 2],
                      .utf8 = i % 2};
            weir_buffer out;
            weir_buffer_init(&out, 1 << 16);
            plot_draw(&out, &p);
            weir_buffer_append_byte(&out, 0);
            assert_false(out.failed);
            const char *text = (const char *)weir_buffer_data(&out);
            const char *mark = strchr(text, 'O');
            assert_non_null(mark);
            assert_null(strchr(mark + 1, 'O'));
            size_t lines = 0;
            for (const char *at = text; (at = strchr(at, '\n')); at++)
                lines++;
            assert_int_equal(lines, 13);
            weir_buffer_free(&out);
        }
    }
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(check_failing_allocations),
        cmocka_unit_test(check_trace),
        cmocka_unit_test(check_plot),
    };
    log_fd = memory_file("log");
    out_fd = memory_file("out");
    err_fd = memory_file("err");
    snprintf(log_path, sizeof log_path, "/proc/self/fd/%d", log_fd);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
