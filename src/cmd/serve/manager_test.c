/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* What the daemon tells the service manager. The test is the manager; the clocks are fakes (see
 * meson.build). */

#define _GNU_SOURCE /* memfd_create */

#include "cmd/serve/log_kit_test.h"
#include "cmd/serve/parts.h"

#include <sys/socket.h>
#include <sys/un.h>

int64_t __wrap_port_steady_ns(void);

int64_t __wrap_port_steady_ns(void)
{
    return INT64_C(5000001999);
}

static int manager_fd;

/* Expects this message next; "": none. */
static void told(const char *expected)
{
    char got[1100] = "";
    ssize_t len = recv(manager_fd, got, sizeof got - 1, MSG_DONTWAIT);
    assert_int_equal(len, expected[0] ? (ssize_t)strlen(expected) : -1);
    assert_string_equal(got, expected);
}

static const log_target *log_to(void)
{
    static log_target log;
    log = (log_target){.fd = log_fd, .least = {WEIR_LOG_INFO}};
    return &log;
}

static void open_manager(manager *m, const char *usec)
{
    char error[256] = "";
    assert_int_equal(setenv("WATCHDOG_USEC", usec, 1), 0);
    assert_int_equal(manager_open(m, log_to(), error, sizeof error), WEIR_OK);
}

static int begin(void **unused)
{
    (void)unused;
    struct sockaddr_un at = {.sun_family = AF_UNIX};
    snprintf(at.sun_path, sizeof at.sun_path, "%s/manager", test_dir);
    unlink(at.sun_path);
    manager_fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    log_read = lseek(log_fd, 0, SEEK_END);
    return setenv("NOTIFY_SOCKET", at.sun_path, 1) == 0
               ? bind(manager_fd, (struct sockaddr *)&at, sizeof at)
               : -1;
}

static int end(void **unused)
{
    (void)unused;
    return close(manager_fd);
}

static void life_of_a_daemon(void **unused)
{
    (void)unused;
    manager m;
    open_manager(&m, "1000000");
    assert_int_equal(manager_beat_ns(&m), 250000000);
    told("");
    manager_add_address(&m, "resp", "127.0.0.1:6380");
    manager_ready(&m, 1, false);
    told("READY=1\nSTATUS=serving 1 policy on resp 127.0.0.1:6380");
    manager_add_address(&m, "http", "/run/weir");
    manager_beat(&m);
    told("WATCHDOG=1");
    manager_reloading(&m);
    told("RELOADING=1\nMONOTONIC_USEC=5000001\nSTATUS=reloading the configuration");
    manager_ready(&m, 0, true);
    told("READY=1\nSTATUS=configuration refused, see the log; serving 0 policies on resp "
         "127.0.0.1:6380, http /run/weir");
    manager_ready(&m, 2, false);
    told("READY=1\nSTATUS=serving 2 policies on resp 127.0.0.1:6380, http /run/weir");
    manager_stopping(&m, INT64_C(12000000000));
    told("STOPPING=1\nEXTEND_TIMEOUT_USEC=42000000\nSTATUS=closing the connections");
    manager_handed_over(&m, 4711);
    told("MAINPID=4711");
    manager_failed(&m, "why");
    told("STATUS=not started: why");
    logged("");
}

/* Addresses that do not fit are truncated. */
static void many_addresses(void **unused)
{
    (void)unused;
    manager m;
    char expected[1100] = "READY=1\nSTATUS=serving 0 policies on ";
    size_t before = strlen(expected);
    open_manager(&m, "1");
    assert_int_equal(manager_beat_ns(&m), 250);
    for (int i = 0; i < 24; i++) {
        manager_add_address(&m, "resp", "[2001:db8::1]:65535");
        strcat(strcat(expected, i > 0 ? ", " : ""), "resp [2001:db8::1]:65535");
    }
    expected[before + sizeof m.serving - 1] = '\0';
    manager_ready(&m, 0, false);
    told(expected);
}

/* A manager that does not receive is logged once. */
static void unheard(void **unused)
{
    (void)unused;
    manager m;
    open_manager(&m, "1000000");
    close(manager_fd);
    manager_beat(&m);
    logged("warning notify-failed text=\"the service manager does not receive notifications "
           "(NOTIFY_SOCKET)\"\n");
    manager_beat(&m);
    logged("");
    manager_fd = dup(log_fd);
}

static void variables(void **unused)
{
    (void)unused;
    manager m;
    char error[256] = "", pid[16];
    assert_int_equal(setenv("WATCHDOG_USEC", "x", 1), 0);
    assert_int_equal(manager_open(&m, log_to(), error, sizeof error), WEIR_E_IO);
    assert_string_equal(error, "WATCHDOG_USEC='x': expected a number of microseconds, 1 or more");
    assert_int_equal(unsetenv("WATCHDOG_USEC"), 0);
    snprintf(pid, sizeof pid, "%d", getpid());
    assert_int_equal(setenv("LISTEN_PID", pid, 1), 0);
    assert_int_equal(setenv("LISTEN_FDS", "25", 1), 0);
    assert_int_equal(manager_open(&m, log_to(), error, sizeof error), WEIR_E_IO);
    assert_string_equal(error, "LISTEN_FDS='25': expected a number of sockets from 0 to 24");
    assert_int_equal(unsetenv("LISTEN_FDS"), 0);
    assert_int_equal(manager_open(&m, log_to(), error, sizeof error), WEIR_OK);
    assert_int_equal(manager_beat_ns(&m), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(life_of_a_daemon, begin, end),
        cmocka_unit_test_setup_teardown(many_addresses, begin, end),
        cmocka_unit_test_setup_teardown(unheard, begin, end),
        cmocka_unit_test_setup_teardown(variables, begin, end),
    };
    return cmocka_run_group_tests(tests, open_log, close_log);
}
