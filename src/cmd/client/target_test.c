/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* What the options of a command line and a URL say together. connection_test.c has the forms of
 * addresses. */

#include "cmd/client/target.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static client_target target;
static char error[CLIENT_ERROR_MAX];

static void read_good(const client_login *l)
{
    error[0] = '\0';
    assert_true(client_target_read(l, &target, error));
    assert_string_equal(error, "");
}

static void expect_where(const client_login *l, const char *name, const char *host, int port,
                         bool tls)
{
    read_good(l);
    assert_string_equal(target.name, name);
    assert_string_equal(target.url.host, host);
    assert_int_equal(target.url.port, port);
    assert_int_equal(target.url.tls, tls);
    assert_int_equal(target.is_path, strchr(host, '/') != NULL);
}

#define WHERE(name, host, port, tls, ...)                                                          \
    expect_where(&(client_login){__VA_ARGS__}, name, host, port, tls)

static void check_where(void **unused)
{
    (void)unused;
    WHERE("127.0.0.1:7000", "127.0.0.1", 7000, false, .server = "7000");
    WHERE("127.0.0.1:7000", "127.0.0.1", 7000, true, .server = ":7000", .tls = true);
    WHERE("h", "h", 6380, true, .server = "h", .tls = true);
    WHERE("[::1]:7", "::1", 7, true, .server = "[::1]:7", .tls = true);
    WHERE("h:6380", "h", 6380, true, .server = "rediss://h");
    WHERE("h:6380", "h", 6380, true, .server = "rediss://h", .tls = true);
    WHERE("h:65535", "h", 65535, true, .server = "rediss://me:p@h:65535/0");
    WHERE("h:1", "h", 1, false, .server = "redis://h:1", .visible = true);
    WHERE("[::1]:6380", "::1", 6380, true, .server = "rediss://[::1]");
    WHERE("/run/w.sock", "/run/w.sock", 0, false, .server = "unix:///run/w.sock");
    WHERE("./w", "./w", 0, false, .server = "./w");
}

static void expect_who(const client_login *l, const char *user, const char *password,
                       const char *from)
{
    read_good(l);
    assert_int_equal(target.user != NULL, user != NULL);
    assert_int_equal(target.password != NULL, password != NULL);
    if (user)
        assert_string_equal(target.user, user);
    if (password)
        assert_string_equal(target.password, password);
    assert_string_equal(target.password_from, from);
}

#define WHO(user, password, from, ...)                                                             \
    expect_who(&(client_login){__VA_ARGS__}, user, password, from)

static void check_who(void **unused)
{
    (void)unused;
    WHO(NULL, NULL, "WEIR_PASSWORD", .server = "h");
    WHO(NULL, "p", "WEIR_PASSWORD", .server = "h", .password = "p");
    WHO("u", "p", "WEIR_PASSWORD", .server = "h", .password = "p", .user = "u");
    WHO("u", "p", "file", .server = "h", .password = "p", .password_file = "file", .user = "u");
    WHO("u", "p", "WEIR_PASSWORD", .server = "redis://u@h", .password = "p", .visible = true);
    WHO("u", "p", "the server's URL", .server = "redis://u:p@h", .password = "x");
    WHO("u", "p", "the server's URL", .server = "redis://:p@h", .password = "x", .user = "u");
    WHO(NULL, "", "the server's URL", .server = "redis://:@h");
    WHO("u", "p", "file", .server = "redis://u@h", .password = "p", .password_file = "file");
}

static void check_usage_errors(void **unused)
{
    (void)unused;
    static const char either[] = ": expected --tls, too, or a server that begins with rediss://";
    static const char path[] = "--tls: expected HOST:PORT, found the path of a socket, which has "
                               "no TLS";
    static const char secret[] = "--server: the URL has a password, which other users of this "
                                 "machine can see; set WEIR_SERVER to the URL, or use --user and "
                                 "--password-file";
    static const char user[] = "a user requires a password: set WEIR_PASSWORD, or use "
                               "--password-file";
    static const struct {
        client_login login;
        const char *option, *error;
    } cases[] = {
        {{.server = "h", .ca = "f"}, "--ca", either},
        {{.server = "h", .cert = "f", .key = "f"}, "--cert", either},
        {{.server = "h", .key = "f"}, "--key", either},
        {{.server = "h", .server_name = "n"}, "--server-name", either},
        {{.server = "redis://h", .ca = "f"}, "--ca", either},
        {{.server = "/s", .ca = "f"}, "--ca", either},
        {{.server = "h", .tls = true, .cert = "f"},
         "",
         "expected both --cert and --key, found only --cert"},
        {{.server = "h", .tls = true, .key = "f"},
         "",
         "expected both --cert and --key, found only --key"},
        {{.server = "/s", .tls = true}, "", path},
        {{.server = "unix:///s", .tls = true}, "", path},
        {{.server = "redis://h", .tls = true},
         "",
         "--tls: the server begins with redis://, expected rediss://"},
        {{.server = "rediss://u:p@h", .visible = true}, "", secret},
        {{.server = "rediss://:@h", .visible = true}, "", secret},
        {{.server = "redis://h/1"}, "", "the server's URL has database 1, expected 0 or none"},
        {{.server = "unix:///s?db=2"}, "", "the server's URL has database 2, expected 0 or none"},
        {{.server = "redis://u:hunter2@h:0"},
         "",
         "the server: the port of the URL is not a number from 1 to 65535 (an IPv6 address "
         "needs brackets: redis://[::1]:6379)"},
        {{.server = "https://u:hunter2@h"},
         "",
         "the server begins with https://, expected redis://, rediss:// (TLS), unix://, or "
         "HOST:PORT"},
        {{.server = "UNIX:///s"},
         "",
         "the server begins with UNIX://, expected redis://, rediss:// (TLS), unix://, or "
         "HOST:PORT"},
        {{.server = "h", .user = "u"}, "", user},
        {{.server = "redis://u@h"}, "", user},
        {{.server = "redis://u:p@h", .user = "v"},
         "",
         "--user: the server's URL has a user, too; expected only one"},
        {{.server = "redis://:p@h", .password = "q", .password_file = "f"},
         "",
         "--password-file: the server's URL has a password, too; expected only one"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char expected[CLIENT_ERROR_MAX];
        snprintf(expected, sizeof expected, "%s%s", cases[i].option, cases[i].error);
        assert_false(client_target_read(&cases[i].login, &target, error));
        assert_string_equal(error, expected);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(check_where),
        cmocka_unit_test(check_who),
        cmocka_unit_test(check_usage_errors),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
