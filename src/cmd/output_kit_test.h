/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_CMD_OUTPUT_KIT_TEST_H
#define WEIR_CMD_OUTPUT_KIT_TEST_H
/* Runs a command in a child process, because it may leave static data, signal handlers and a
 * locale. The clocks are fakes (see meson.build). */

#include "store/iterate.h"

#include <dirent.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

int64_t __wrap_port_now_ns(void);
port_clocks __wrap_port_clocks_now(void);
port_clocks __real_port_clocks_now(void);
int64_t __wrap_weir_store_now(weir_store *s);
int64_t __real_weir_store_now(weir_store *s);
weir_clock_view __wrap_weir_store_clock(const weir_store *s);

int64_t __wrap_port_now_ns(void)
{
    return INT64_C(1763715600123456789); /* 2025-11-21 09:00 */
}

port_clocks __wrap_port_clocks_now(void)
{
    port_clocks at = __real_port_clocks_now();
    at.wall_ns = __wrap_port_now_ns();
    return at;
}

/* Rounded down to 1000 seconds, so that it does not matter how long the test takes. */
int64_t __wrap_weir_store_now(weir_store *s)
{
    return __real_weir_store_now(s) / 1000000000000 * 1000000000000;
}

weir_clock_view __wrap_weir_store_clock(const weir_store *s)
{
    return (weir_clock_view){.offset_ns =
                                 __wrap_port_now_ns() - __wrap_weir_store_now((weir_store *)s)};
}

/* Returns the output of a command, errors and all, and its exit status unless 0; for free(). */
static inline char *output_of(int (*command)(int argc, char **argv), int argc, char **argv)
{
    int status = -1, both = memfd_create("output", MFD_CLOEXEC);
    assert_int_equal(fcntl(both, F_SETFL, O_APPEND), 0);
    fflush(NULL);
    pid_t child = fork();
    if (child == 0) {
        dup2(both, STDOUT_FILENO);
        dup2(both, STDERR_FILENO);
        exit(command(argc, argv));
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    if (status != 0)
        dprintf(both, "exit status %d\n", WIFEXITED(status) ? WEXITSTATUS(status) : -1);
    off_t len = lseek(both, 0, SEEK_END);
    char *text = calloc(1, (size_t)len + 1);
    assert_non_null(text);
    assert_int_equal(pread(both, text, (size_t)len, 0), len);
    close(both);
    return text;
}

static inline void write_file(const char *name, const char *text, size_t len)
{
    FILE *f = fopen(name, "w");
    assert_non_null(f);
    assert_int_equal(fwrite(text, 1, len, f), len);
    fclose(f);
}

static char dir[] = "/tmp/weir-outputs-XXXXXX";

static inline int make_dir(void **unused)
{
    (void)unused;
    setenv("COLUMNS", "80", 1);
    setenv("LC_ALL", "C.UTF-8", 1);
    return mkdtemp(dir) && chdir(dir) == 0 && mkdir("limits", 0700) == 0 ? 0 : -1;
}

static inline int remove_dir(void **unused)
{
    (void)unused;
    DIR *d = opendir(".");
    for (struct dirent *e; d && (e = readdir(d));)
        (void)unlink(e->d_name);
    closedir(d);
    (void)unlink("limits/a.yaml");
    (void)rmdir("limits");
    return chdir("/") == 0 && rmdir(dir) == 0 ? 0 : -1;
}

#endif
