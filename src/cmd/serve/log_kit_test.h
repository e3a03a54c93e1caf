/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_CMD_SERVE_LOG_KIT_TEST_H
#define WEIR_CMD_SERVE_LOG_KIT_TEST_H
/* A log in memory at a fixed time, and what is expected of its lines. port_now_ns() is a fake (see
 * meson.build). */

#include "cmd/kit/log.h"
#include "port/port.h"
#include "tests/kit/kit.h"

#include <sys/mman.h>
#include <sys/types.h>

static const int64_t test_now_ns = INT64_C(1763715600123999999);
static int log_fd;
static off_t log_read; /* bytes of the log that were expected before */

int64_t __wrap_port_now_ns(void);

int64_t __wrap_port_now_ns(void)
{
    return test_now_ns;
}

/* Expects these new lines of the log, without their times, and without the warnings of keys that
 * have no effect: most daemons of these tests have no address for HTTP. */
static void logged(const char *expected)
{
    char buf[8192], text[8192] = "";
    ssize_t len = pread(log_fd, buf, sizeof buf - 1, log_read);
    assert_true(len >= 0);
    buf[len] = '\0';
    log_read += len;
    for (char *rest = buf, *one; (one = strsep(&rest, "\n")) && *one;) {
        assert_memory_equal(one, "2025-11-21T09:00:00.123Z ", 25);
        if (!strstr(one, "this has no effect"))
            strcat(strcat(text, one + 25), "\n");
    }
    assert_string_equal(text, expected);
}

static int open_log(void **unused)
{
    log_fd = memfd_create("log", 0);
    return make_dir(unused);
}

static int close_log(void **unused)
{
    close(log_fd);
    return remove_dir(unused);
}

#endif
