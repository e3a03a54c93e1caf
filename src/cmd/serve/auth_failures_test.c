/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* Authentication failures: the log events, the limit on delayed replies, and the metrics. */

#define _GNU_SOURCE /* memmem */

#include "cmd/serve/parts.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <fcntl.h>

#include <cmocka.h>

static const int64_t ms_ns = 1000000, start_ns = 5000000000;

typedef struct fixture {
    int fd[2];
    log_target log;
    auth_failures *failures;
} fixture;

/* Expects one log event, without its time; "" expects none. */
static void logged(fixture *f, const char *expected)
{
    char buf[WEIR_LOG_LINE_MAX];
    ssize_t len = read(f->fd[0], buf, sizeof buf - 1);
    if (expected[0] == '\0') {
        assert_int_equal(len, -1);
        return;
    }
    assert_true(len > 24);
    buf[len] = '\0';
    assert_string_equal(buf + 24, expected);
}

enum { HELD_MAX = 4 };

static int setup(void **state)
{
    fixture *f = calloc(1, sizeof *f);
    assert_int_equal(pipe(f->fd), 0);
    assert_int_equal(fcntl(f->fd[0], F_SETFL, O_NONBLOCK), 0);
    f->log = (log_target){.fd = f->fd[1], .least = {WEIR_LOG_INFO}};
    assert_int_equal(auth_failures_open(&f->failures, &f->log, HELD_MAX), WEIR_OK);
    *state = f;
    return 0;
}

static int teardown(void **state)
{
    fixture *f = *state;
    auth_failures_close(f->failures);
    close(f->fd[0]);
    close(f->fd[1]);
    free(f);
    return 0;
}

static void logs_once_a_second(void **state)
{
    fixture *f = *state;
    auth_failures_tick(f->failures, start_ns);
    logged(f, "");
    auth_failures_add(f->failures, PROTOCOL_RESP, "192.0.2.1:5", start_ns);
    logged(f, " warning wrong-password protocol=resp peer=192.0.2.1:5 times=1\n");
    for (int i = 1; i < 1000; i++)
        auth_failures_add(f->failures, PROTOCOL_RESP, "192.0.2.2:6", start_ns + i * ms_ns);
    auth_failures_add(f->failures, PROTOCOL_HTTP, "[2001:db8::7]:9", start_ns + 999 * ms_ns);
    auth_failures_tick(f->failures, start_ns + 999 * ms_ns);
    logged(f, "");
    auth_failures_tick(f->failures, start_ns + 1000 * ms_ns);
    logged(f, " warning wrong-password protocol=http peer=[2001:db8::7]:9 times=1000\n");
    auth_failures_tick(f->failures, start_ns + 9000 * ms_ns);
    logged(f, "");
    auth_failures_add(f->failures, PROTOCOL_HTTP, "unix", start_ns + 9000 * ms_ns);
    logged(f, " warning wrong-password protocol=http peer=unix times=1\n");
}

/* A clock that has just begun delays no event. */
static void logs_the_first_at_once(void **state)
{
    fixture *f = *state;
    auth_failures_add(f->failures, PROTOCOL_RESP, "unix", 1);
    logged(f, " warning wrong-password protocol=resp peer=unix times=1\n");
}

static void metrics_count_by_protocol(void **state)
{
    fixture *f = *state;
    weir_buffer out;
    weir_buffer_init(&out, 4096);
    for (int i = 0; i < 3; i++)
        auth_failures_add(f->failures, PROTOCOL_HTTP, "unix", start_ns);
    const auth_denial d = {PROTOCOL_RESP, "unix", "web", "take"};
    auth_failures_add_denial(f->failures, &d, start_ns);
    auth_failures_add_denial(f->failures, &d, start_ns);
    auth_failures_put_metrics(f->failures, &out);
    weir_buffer_append(&out, "", 1);
    static const char expected[] =
        "# HELP weir_wrong_passwords_total Wrong passwords from clients.\n"
        "# TYPE weir_wrong_passwords_total counter\n"
        "weir_wrong_passwords_total{protocol=\"resp\"} 0\n"
        "weir_wrong_passwords_total{protocol=\"http\"} 3\n"; /* rows of new protocols follow */
    assert_memory_equal(weir_buffer_data(&out), expected, sizeof expected - 1);
    size_t lines = 0;
    for (const char *at = (const char *)weir_buffer_data(&out); (at = strchr(at, '\n')); at++)
        lines++;
    size_t kinds = 0;
    while (config_protocol((protocol_kind)kinds))
        kinds++;
    assert_int_equal(lines, 2 + PROTOCOLS_OWN + 2 + kinds); /* SPOP has no passwords */
    static const char denied[] =
        "# HELP weir_denied_rights_total Requests that users had no right to.\n"
        "# TYPE weir_denied_rights_total counter\n"
        "weir_denied_rights_total{protocol=\"resp\"} 2\n"
        "weir_denied_rights_total{protocol=\"http\"} 0\n";
    assert_non_null(
        memmem(weir_buffer_data(&out), weir_buffer_len(&out), denied, sizeof denied - 1));
    weir_buffer_free(&out);
}

static void logs_denied_rights(void **state)
{
    fixture *f = *state;
    const auth_denial first = {PROTOCOL_RESP, "192.0.2.1:5", "web", "reset"};
    const auth_denial second = {PROTOCOL_HTTP, "unix", "ops", "policies or keys"};
    auth_failures_add_denial(f->failures, &first, start_ns);
    logged(f,
           " warning right-denied protocol=resp peer=192.0.2.1:5 user=web right=reset times=1\n");
    auth_failures_add_denial(f->failures, &first, start_ns + 1);
    auth_failures_add_denial(f->failures, &second, start_ns + 999 * ms_ns);
    logged(f, "");
    auth_failures_add(f->failures, PROTOCOL_RESP, "unix",
                      start_ns + 999 * ms_ns); /* its own pause */
    logged(f, " warning wrong-password protocol=resp peer=unix times=1\n");
    auth_failures_tick(f->failures, start_ns + 1000 * ms_ns);
    logged(f, " warning right-denied protocol=http peer=unix user=ops right=\"policies or keys\" "
              "times=2\n");
    auth_failures_add_denial(f->failures, &first, start_ns + 1001 * ms_ns);
    auth_failures_close(f->failures);
    f->failures = NULL;
    logged(f,
           " warning right-denied protocol=resp peer=192.0.2.1:5 user=web right=reset times=1\n");
}

/* Delayed replies are limited per second, so password guessing cannot use up all connections. */
static void limits_delayed_replies(void **state)
{
    fixture *f = *state;
    for (int i = 0; i < 10; i++)
        assert_int_equal(auth_failures_add(f->failures, PROTOCOL_RESP, "unix", start_ns + i),
                         i < HELD_MAX);
    assert_false(auth_failures_add(f->failures, PROTOCOL_HTTP, "unix", start_ns + 999 * ms_ns));
    for (int i = 0; i < 10; i++)
        assert_int_equal(
            auth_failures_add(f->failures, PROTOCOL_HTTP, "unix", start_ns + 1000 * ms_ns + i),
            i < HELD_MAX);
}

static void logs_the_rest_on_close(void **state)
{
    fixture *f = *state;
    for (int i = 0; i < 30; i++)
        auth_failures_add(f->failures, PROTOCOL_RESP, "192.0.2.1:5", start_ns + i);
    logged(f, " warning wrong-password protocol=resp peer=192.0.2.1:5 times=1\n");
    auth_failures_close(f->failures);
    f->failures = NULL;
    logged(f, " warning wrong-password protocol=resp peer=192.0.2.1:5 times=29\n");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(logs_once_a_second, setup, teardown),
        cmocka_unit_test_setup_teardown(logs_the_first_at_once, setup, teardown),
        cmocka_unit_test_setup_teardown(metrics_count_by_protocol, setup, teardown),
        cmocka_unit_test_setup_teardown(logs_denied_rights, setup, teardown),
        cmocka_unit_test_setup_teardown(limits_delayed_replies, setup, teardown),
        cmocka_unit_test_setup_teardown(logs_the_rest_on_close, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
