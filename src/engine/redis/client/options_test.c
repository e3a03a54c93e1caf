/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* Tables of good and bad URLs and options, with the error messages. */

#include "engine/redis/client/client.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static void good(const char *text, const char *host, int port, const char *user,
                 const char *password, unsigned database)
{
    weir_redis_url u;
    weir_redis_error e;
    assert_int_equal(weir_redis_url_read(text, &u, &e), WEIR_OK);
    assert_string_equal(u.host, host);
    assert_int_equal(u.port, port);
    assert_string_equal(u.user, user);
    assert_string_equal(u.password, password ? password : "");
    assert_int_equal(u.has_password, password != NULL);
    assert_int_equal(u.database, database);
    assert_int_equal(u.tls, strncmp(text, "rediss:", 7) == 0);
}

static void reads_urls(void **state)
{
    (void)state;
    good("redis://localhost", "localhost", 0, "", NULL, 0);
    good("redis://localhost/", "localhost", 0, "", NULL, 0);
    good("rediss://10.0.0.1:6380/15", "10.0.0.1", 6380, "", NULL, 15);
    good("redis://[::1]", "::1", 0, "", NULL, 0);
    good("redis://[fe80::1%25eth0]:7/2", "fe80::1%eth0", 7, "", NULL, 2);
    good("redis://me:secret@h:1", "h", 1, "me", "secret", 0);
    good("redis://:secret@h", "h", 0, "", "secret", 0);
    good("redis://me@h", "h", 0, "me", NULL, 0);
    good("redis://:@h", "h", 0, "", "", 0);
    good("redis://me:p@ss@h", "h", 0, "me", "p@ss", 0);
    good("redis://a%3Ab:%40%2f%25@h", "h", 0, "a:b", "@/%", 0);
    good("unix:///run/redis.sock", "/run/redis.sock", 0, "", NULL, 0);
    good("unix:///run/a%20b?db=3", "/run/a b", 0, "", NULL, 3);
    good("redis://h:65535/1000000", "h", 65535, "", NULL, 1000000);
    good("redis://h:00000000001/0000000002", "h", 1, "", NULL, 2);
    good("unix:///x?db=1000000", "/x", 0, "", NULL, 1000000);
}

/* "redis://" with a part of n bytes, which is the host, the user or the password. */
static weir_status with_part(const char *before, size_t n, const char *after)
{
    char text[1200];
    size_t len = strlen(before);
    memcpy(text, before, len);
    memset(text + len, 'a', n);
    strcpy(text + len + n, after);
    weir_redis_url u;
    return weir_redis_url_read(text, &u, NULL);
}

static void limits_the_parts_of_urls(void **state)
{
    (void)state;
    for (size_t more = 0; more < 2; more++) {
        weir_status st = more ? WEIR_E_SYNTAX : WEIR_OK;
        assert_int_equal(with_part("redis://", 255 + more, ":1"), st);
        assert_int_equal(with_part("unix:///", 254 + more, ""), st);
        assert_int_equal(with_part("redis://", 511 + more, ":x@h"), st);
        assert_int_equal(with_part("redis://x:", 511 + more, "@h"), st);
    }
}

static void refuses_bad_urls(void **state)
{
    (void)state;
    static const char *const bad[] = {
        "",
        "localhost",
        "localhost:6379",
        "http://h",
        "redis:/h",
        "redis://",
        "redis://:6379",
        "redis://h:0",
        "redis://h:65536",
        "redis://h:",
        "redis://h:12x",
        "redis://h/x",
        "redis://h/1/2",
        "redis://h?db=1",
        "redis://a:%4@h",
        "redis://a:%zz@h",
        "redis://a:%@h",
        "redis://a:b@",
        "redis://[::1",
        "redis://[]",
        "redis://[",
        "redis://[::1]x",
        "redis://::1",
        "redis://h /",
        "redis://a:%00@h",
        "redis://h%0a",
        "redis:///tmp/x",
        "unix://run",
        "unix://",
        "unix:///x?db=",
        "unix:///x?db=x",
        "unix:///x?x",
        "unix:///x?dbx1",
        "unix:///x#",
        "redis://%2ftmp",
        "redis://h/99999999999",
        "redis://h/1000001",
        "unix:///x?db=1000001",
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        weir_redis_url u;
        weir_redis_error e = {""};
        assert_int_equal(weir_redis_url_read(bad[i], &u, &e), WEIR_E_SYNTAX);
        assert_true(strlen(e.text) > 20 && !strchr(e.text, '\n'));
        assert_int_equal(weir_redis_url_read(bad[i], &u, NULL), WEIR_E_SYNTAX);
    }
    char longer[1200] = "redis://";
    memset(longer + 8, 'a', 1000);
    weir_redis_url u;
    weir_redis_error e;
    assert_int_equal(weir_redis_url_read(longer, &u, &e), WEIR_E_SYNTAX);
    strcpy(longer + 1000, ":x@h");
    assert_int_equal(weir_redis_url_read(longer, &u, &e), WEIR_E_SYNTAX);
}

static void never_quotes_a_password(void **state)
{
    (void)state;
    static const char *const bad[] = {"redis://me:hunter2@h:99999", "redis://me:hunter2@h/x",
                                      "redis://me:hunter2%@h", "http://me:hunter2@h",
                                      "redis://hunter2@h"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        weir_redis_options o = {.urls = &bad[i], .urls_len = 1};
        weir_redis_error e;
        assert_int_not_equal(weir_redis_options_check(&o, &e), WEIR_OK);
        assert_null(strstr(e.text, "hunter2"));
    }
}

#define REFUSED(expected, change)                                                                  \
    do {                                                                                           \
        weir_redis_options o = {.urls = &url, .urls_len = 1};                                      \
        change;                                                                                    \
        weir_redis_error e = {""};                                                                 \
        assert_int_not_equal(weir_redis_options_check(&o, &e), WEIR_OK);                           \
        if (!strstr(e.text, expected))                                                             \
            assert_string_equal(e.text, expected);                                                 \
    } while (0)

#define ACCEPTED(change)                                                                           \
    do {                                                                                           \
        weir_redis_options o = {.urls = &url, .urls_len = 1};                                      \
        change;                                                                                    \
        assert_int_equal(weir_redis_options_check(&o, NULL), WEIR_OK);                             \
    } while (0)

static void checks_options(void **state)
{
    (void)state;
    const char *url = "redis://h", *two[] = {"redis://a", "redis://b/1"},
               *mixed[] = {"redis://a", "rediss://b"};
    char longer[600];
    memset(longer, 'a', sizeof longer - 1);
    longer[sizeof longer - 1] = 0;
    weir_redis_options fine = {.urls = &url, .urls_len = 1};
    assert_int_equal(weir_redis_options_check(&fine, NULL), WEIR_OK);
    REFUSED("found 0", o.urls_len = 0);
    REFUSED("the URL has a user but no password: write redis://user:password@host",
            url = "redis://me@h");
    url = "redis://h";
    REFUSED("found 65", o.urls_len = 65);
    REFUSED("URL 2 has database 1", o.urls = two; o.urls_len = 2);
    REFUSED("all or none", o.urls = mixed; o.urls_len = 2);
    REFUSED("no URL begins with rediss://", o.tls_insecure = true);
    REFUSED("no URL begins with rediss://", o.tls_ca = "a");
    REFUSED("no URL begins with rediss://", o.tls_cert = "a");
    REFUSED("no URL begins with rediss://", o.tls_key = "a");
    REFUSED("no URL begins with rediss://", o.tls_name = "a");
    REFUSED("user is given without password", o.user = "me");
    REFUSED("sentinel user is given without sentinel password", o.sentinel = "m";
            o.sentinel_user = "me");
    REFUSED("sentinel user is given", o.sentinel = "m"; o.sentinel_user = o.user = "me";
            o.password = "x");
    REFUSED("without the master's name", o.sentinel_password = "x");
    REFUSED("the master's name for the Sentinels must have 1 to 255 bytes", o.sentinel = "");
    REFUSED("the master's name", o.sentinel = longer + sizeof longer - 1 - WEIR_REDIS_HOST_MAX);
    fine.sentinel = longer + sizeof longer - WEIR_REDIS_HOST_MAX;
    assert_int_equal(weir_redis_options_check(&fine, NULL), WEIR_OK);
    fine.sentinel = NULL;
    REFUSED("more than 511 bytes", o.password = longer);
    REFUSED("more than 511 bytes", o.password = longer + sizeof longer - 1 - 512);
    REFUSED("more than 511 bytes", o.password = "x"; o.user = longer);
    REFUSED("more than 511 bytes", o.sentinel = "m"; o.sentinel_password = longer);
    REFUSED("more than 511 bytes", o.sentinel = "m"; o.sentinel_password = "x";
            o.sentinel_user = longer);
    REFUSED("the prefix has more than 64", o.prefix = longer);
    REFUSED("the prefix has more than 64", o.prefix = longer + sizeof longer - 1 - 65);
    REFUSED("'by' must be", o.by = (weir_redis_by)4);
    REFUSED("'on_error' must be", o.on_error = (weir_redis_on_error)3);
    REFUSED("the deadline must be", o.deadline_ns = 999999);
    REFUSED("the deadline must be", o.deadline_ns = 60000000001);
    REFUSED("'in_flight' must be", o.in_flight = (1 << 20) + 1);
    ACCEPTED(o.password = longer + sizeof longer - 1 - 511);
    ACCEPTED(o.prefix = longer + sizeof longer - 1 - 64);
    ACCEPTED(o.by = WEIR_REDIS_BY_SCRIPT; o.on_error = WEIR_REDIS_LOCAL);
    ACCEPTED(o.deadline_ns = 1000000);
    ACCEPTED(o.deadline_ns = 60000000000);
    ACCEPTED(o.in_flight = 1 << 20);
    url = "rediss://h";
    REFUSED("must be given together", o.tls_cert = "a");
    REFUSED("must be given together", o.tls_key = "a");
    ACCEPTED(o.tls_cert = o.tls_key = "a");
    url = "nonsense";
    weir_redis_error e;
    weir_redis_options one = {.urls = &url, .urls_len = 1};
    assert_int_equal(weir_redis_options_check(&one, &e), WEIR_E_SYNTAX);
    assert_memory_equal(e.text, "the URL does not begin with redis://", 36);
    two[1] = url;
    one = (weir_redis_options){.urls = two, .urls_len = 2};
    assert_int_equal(weir_redis_options_check(&one, &e), WEIR_E_SYNTAX);
    assert_memory_equal(e.text, "URL 2: the URL does not begin", 29);
    two[1] = NULL;
    assert_int_equal(weir_redis_options_check(&one, &e), WEIR_E_RANGE);
    assert_string_equal(e.text, "URL 2 is NULL");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reads_urls),       cmocka_unit_test(limits_the_parts_of_urls),
        cmocka_unit_test(refuses_bad_urls), cmocka_unit_test(never_quotes_a_password),
        cmocka_unit_test(checks_options),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
