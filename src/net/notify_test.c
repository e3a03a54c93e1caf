/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* Notifications, which sockets of the test's own receive, by path and by abstract name. */

#include "net/notify.h"
#include "tests/kit/kit.h"

#include <stddef.h>
#include <stdint.h>

/* Sets the variables of a process that systemd starts; NULL: not set. */
static void set(const char *socket_name, const char *usec, const char *pid)
{
    const char *const rows[][2] = {
        {"NOTIFY_SOCKET", socket_name}, {"WATCHDOG_USEC", usec}, {"WATCHDOG_PID", pid}};
    for (size_t i = 0; i < 3; i++) {
        if (rows[i][1])
            assert_int_equal(setenv(rows[i][0], rows[i][1], 1), 0);
        else
            assert_int_equal(unsetenv(rows[i][0]), 0);
    }
}

static void refused(const char *expected)
{
    net_notifier n;
    char error[256] = "";
    assert_int_equal(net_notifier_read(&n, error, sizeof error), WEIR_E_IO);
    assert_string_equal(error, expected);
}

/* Sends a text to a bound socket, and expects exactly this. */
static void check_delivery(const struct sockaddr_un *at, size_t path_len, const char *name)
{
    net_notifier n;
    char error[256] = "", got[100] = "";
    int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    socklen_t len = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + path_len);
    assert_int_equal(bind(fd, (const struct sockaddr *)at, len), 0);
    set(name, NULL, NULL);
    assert_int_equal(net_notifier_read(&n, error, sizeof error), WEIR_OK);
    assert_int_equal(n.to_len, len);
    assert_int_equal(n.watchdog_ns, 0);
    assert_true(net_notify(&n, "READY=1\nSTATUS=x"));
    assert_int_equal(recv(fd, got, sizeof got, MSG_DONTWAIT), 16);
    assert_string_equal(got, "READY=1\nSTATUS=x");
    close(fd);
    assert_false(net_notify(&n, "READY=1"));
}

static void sent_to_a_path(void **unused)
{
    (void)unused;
    struct sockaddr_un at = {.sun_family = AF_UNIX};
    snprintf(at.sun_path, sizeof at.sun_path, "%s/notify", test_dir);
    check_delivery(&at, strlen(at.sun_path), at.sun_path);
}

static void sent_to_an_abstract_name(void **unused)
{
    (void)unused;
    struct sockaddr_un at = {.sun_family = AF_UNIX};
    char name[100];
    snprintf(name, sizeof name, "@%s/notify", test_dir);
    memcpy(at.sun_path + 1, name + 1, strlen(name) - 1);
    check_delivery(&at, strlen(name), name);
}

static void names_of_sockets(void **unused)
{
    (void)unused;
    static const char *const bad[] = {"", "/", "@", "relative", "vsock:2:1", NULL};
    char name[109], expected[300], error[256] = "";
    net_notifier n;
    set(NULL, "1", NULL);
    assert_int_equal(net_notifier_read(&n, error, sizeof error), WEIR_OK);
    assert_int_equal(n.to_len, 0);
    assert_int_equal(n.watchdog_ns, 0);
    assert_true(net_notify(&n, "READY=1"));
    snprintf(name, sizeof name, "/%0107d", 1);
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        set(bad[i] ? bad[i] : name, NULL, NULL);
        snprintf(expected, sizeof expected,
                 "NOTIFY_SOCKET='%s': expected a path that begins with / or an abstract name that "
                 "begins with @, of at most 107 bytes",
                 bad[i] ? bad[i] : name);
        expected[255] = '\0';
        refused(expected);
    }
    snprintf(name, sizeof name, "/%0106d", 1);
    set(name, NULL, NULL);
    assert_int_equal(net_notifier_read(&n, error, sizeof error), WEIR_OK);
}

static int64_t watchdog_ns(const char *usec, const char *pid)
{
    net_notifier n;
    char error[256];
    set("@x", usec, pid);
    assert_int_equal(net_notifier_read(&n, error, sizeof error), WEIR_OK);
    return n.watchdog_ns;
}

static void watchdogs(void **unused)
{
    (void)unused;
    char pid[24];
    snprintf(pid, sizeof pid, "%d", getpid());
    assert_int_equal(watchdog_ns(NULL, NULL), 0);
    assert_int_equal(watchdog_ns(NULL, pid), 0);
    assert_int_equal(watchdog_ns("1", NULL), 1000);
    assert_int_equal(watchdog_ns("30000000", pid), INT64_C(30000000000));
    assert_int_equal(watchdog_ns("30000000", "1"), 0); /* for another process */
    snprintf(pid, sizeof pid, "%lld", (long long)(WEIR_NOW_NS_MAX / 1000));
    assert_int_equal(watchdog_ns(pid, NULL), WEIR_NOW_NS_MAX / 1000 * 1000);
    static const char *const bad[] = {"0", "", "1s", "-1", "9223372036854775808"};
    char expected[200];
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        set("@x", bad[i], NULL);
        snprintf(expected, sizeof expected,
                 "WATCHDOG_USEC='%s': expected a number of microseconds, 1 or more", bad[i]);
        refused(expected);
    }
    set("@x", "1", "me");
    refused("WATCHDOG_PID='me': expected the id of a process");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sent_to_a_path),
        cmocka_unit_test(sent_to_an_abstract_name),
        cmocka_unit_test(names_of_sockets),
        cmocka_unit_test(watchdogs),
    };
    return cmocka_run_group_tests(tests, make_dir, remove_dir);
}
