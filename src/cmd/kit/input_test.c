/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* Which files are read, and how large they may be. */

#include "cmd/kit/input.h"
#include "tests/kit/kit.h"

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cmocka.h>

static void write_letters(const char *name, size_t len)
{
    FILE *f = fopen(name, "w");
    assert_non_null(f);
    for (size_t i = 0; i < len; i++)
        putc((int)('a' + i % 26), f);
    fclose(f);
}

/* Expects `len` bytes, as write_letters() wrote them. */
static void expect_bytes(const char *path, size_t max, size_t len)
{
    char *bytes;
    size_t n = SIZE_MAX;
    assert_null(input_read(path, max, &bytes, &n));
    assert_int_equal(n, len);
    for (size_t i = 0; i < len; i++)
        assert_int_equal(bytes[i], 'a' + i % 26);
    assert_int_equal(bytes[len], '\0');
    free(bytes);
}

static void expect_error(const char *path, size_t max, const char *error)
{
    char *bytes = NULL;
    size_t n = 7;
    const char *found = input_read(path, max, &bytes, &n);
    assert_non_null(found);
    assert_string_equal(found, error);
    assert_true(bytes == NULL && n == 7); /* not written */
}

static void check_sizes(void **unused)
{
    (void)unused;
    static const size_t sizes[] = {0, 1, 4094, 4095, 4096, 8191, 8192, 100000};
    static const struct {
        size_t max;
        const char *error;
    } rows[] = {{16 << 10, "larger than 16 KiB"},
                {64 << 10, "larger than 64 KiB"},
                {16 << 20, "larger than 16 MiB"}};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        write_letters("file", sizes[i]);
        expect_bytes("file", 1 << 20, sizes[i]);
    }
    for (size_t i = 0; i < 2; i++) {
        write_letters("file", rows[i].max);
        expect_bytes("file", rows[i].max, rows[i].max);
        write_letters("file", rows[i].max + 1);
        expect_error("file", rows[i].max, rows[i].error);
    }
    assert_int_equal(truncate("file", (16 << 20) + 1), 0);
    expect_error("file", 16 << 20, rows[2].error);
}

static void check_kinds(void **unused)
{
    (void)unused;
    struct sockaddr_un address = {.sun_family = AF_UNIX, .sun_path = "socket"};
    int fd = socket(AF_UNIX, SOCK_STREAM, 0);
    assert_int_equal(bind(fd, (struct sockaddr *)&address, sizeof address), 0);
    assert_int_equal(mkfifo("fifo", 0600), 0);
    expect_error("none", 99, strerror(ENOENT));
    expect_error(".", 99, "found a directory, expected a regular file");
    expect_error("/dev/null", 99, "found a device, expected a regular file");
    expect_error("fifo", 99, "found a named pipe, expected a regular file");
    expect_error("socket", 99, "found a socket, expected a regular file");
    close(fd);
}

/* A pipe of a shell, and the standard input. Reading blocks: the file is not O_NONBLOCK. */
static void check_pipes(void **unused)
{
    (void)unused;
    int pipes[2], saved = dup(STDIN_FILENO), opened;
    char path[40];
    assert_int_equal(pipe(pipes), 0);
    assert_int_equal(write(pipes[1], "abc", 3), 3);
    snprintf(path, sizeof path, "/dev/fd/%d", pipes[0]);
    assert_null(input_open(path, &opened));
    assert_int_equal(fcntl(opened, F_GETFL) & O_NONBLOCK, 0);
    assert_int_equal(fcntl(opened, F_GETFD), FD_CLOEXEC);
    close(opened);
    close(pipes[1]);
    expect_bytes(path, 99, 3);
    close(pipes[0]);
    write_letters("file", 10);
    int fd = open("file", O_RDONLY);
    dup2(fd, STDIN_FILENO);
    close(fd);
    expect_bytes("-", 99, 10);
    assert_true(fcntl(STDIN_FILENO, F_GETFD) >= 0); /* still open */
    dup2(saved, STDIN_FILENO);
    close(saved);
}

static void check_reading_fails(void **unused)
{
    (void)unused;
    int saved = dup(STDIN_FILENO), fd = open(".", O_RDONLY);
    dup2(fd, STDIN_FILENO);
    close(fd);
    expect_error("-", 99, strerror(EISDIR));
    dup2(saved, STDIN_FILENO);
    close(saved);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(check_sizes), cmocka_unit_test(check_kinds),
                                       cmocka_unit_test(check_pipes),
                                       cmocka_unit_test(check_reading_fails)};
    return cmocka_run_group_tests(tests, make_dir, remove_dir);
}
