/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* The engines of a configuration: what a good one comes to, and what a wrong one is told, to the
 * caret and without a password. */

#include "cmd/config/config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static const int64_t ms_ns = 1000000;

/* What is said of it, for free(). */
static char *parse(const char *yaml, weir_status expected, weir_config **ret)
{
    char *told = NULL;
    size_t len = 0;
    FILE *out = open_memstream(&told, &len);
    assert_non_null(out);
    const config_sink sink = config_print_to(out);
    weir_config *c = NULL;
    weir_status st = config_parse(yaml, strlen(yaml), "t.yaml", false, NULL, &sink, &c);
    fclose(out);
    if (st != expected)
        print_error("%s%s", yaml, told);
    assert_int_equal(st, expected);
    *ret = c;
    return told;
}

static weir_config *good(const char *yaml)
{
    weir_config *c = NULL;
    char *told = parse(yaml, WEIR_OK, &c);
    assert_string_equal(told, "");
    free(told);
    return c;
}

static void refused(const char *yaml, const char *expected)
{
    weir_config *c = NULL;
    char *told = parse(yaml, WEIR_E_SYNTAX, &c);
    assert_null(c);
    assert_string_equal(told, expected);
    free(told);
}

/* ---- what is good ---------------------------------------------------------------------------- */

static void check_defaults(void **unused)
{
    (void)unused;
    weir_config *c = good("redis:\nhybrid:\npolicies: {a: gcra 1/s}\n");
    assert_int_equal(c->engine, WEIR_ENGINE_LOCAL);
    assert_false(c->has_redis);
    assert_int_equal(c->rules[0].engine, WEIR_ENGINE_LOCAL);
    config_free(c);

    c = good("redis: {url: redis://127.0.0.1:6379}\npolicies: {a: gcra 1/s}\n");
    assert_true(c->has_redis);
    assert_int_equal(c->engine, WEIR_ENGINE_LOCAL);
    assert_int_equal(c->rules[0].engine, WEIR_ENGINE_LOCAL);
    const weir_redis_options *o = &c->redis;
    assert_int_equal(o->urls_len, 1);
    assert_string_equal(o->urls[0], "redis://127.0.0.1:6379");
    assert_true(!o->user && !o->password && !o->sentinel && !o->prefix && !o->tls_ca);
    assert_int_equal(o->by, WEIR_REDIS_BY_ANY);
    assert_int_equal(o->deadline_ns, 50 * ms_ns);
    assert_int_equal(o->in_flight, 16384);
    assert_int_equal(o->on_error, WEIR_REDIS_OPEN);
    assert_int_equal(o->deny_cache_bytes, 1 << 20);
    assert_int_equal(c->hybrid.interval_ns, 100 * ms_ns);
    assert_int_equal(c->hybrid.count, 1000);
    assert_int_equal(c->hybrid.idle_ns, 1000 * ms_ns);
    assert_int_equal(c->hybrid.memory_bytes, 4 << 20);
    config_free(c);
}

static void check_all_keys(void **unused)
{
    (void)unused;
    weir_config *c =
        good("policies:\n" /* before what it needs */
             "  a: gcra 1/s\n"
             "  b: {limit: gcra 2/s, engine: local}\n"
             "  c: {limit: gcra 3/s, engine: redis, on_error: closed}\n"
             "  d: {limit: gcra 3/s, on_error: local}\n"
             "engine: hybrid\n"
             "redis:\n"
             "  urls: [\"rediss://one:26379\", rediss://two]\n"
             "  user: weir\n"
             "  password: \"s e c\"\n"
             "  sentinel: {name: mymaster, user: s, password_file: somewhere}\n"
             "  prefix: \"\"\n"
             "  by: functions\n"
             "  deadline: 1ms\n"
             "  in_flight: 1048576\n"
             "  on_error: local\n"
             "  deny_cache: 64k\n"
             "  tls: {ca: ca.pem, cert: /etc/c.pem, key: k.pem, name: redis, insecure: true}\n"
             "hybrid: {interval: 60s, count: 1, idle: 1h, memory: 1g}\n");
    const weir_redis_options *o = &c->redis;
    assert_int_equal(c->engine, WEIR_ENGINE_HYBRID);
    assert_int_equal(c->rules[0].engine, WEIR_ENGINE_HYBRID);
    assert_int_equal(c->rules[0].on_error, WEIR_ON_ERROR_DEFAULT);
    assert_int_equal(c->rules[1].engine, WEIR_ENGINE_LOCAL);
    assert_int_equal(c->rules[2].engine, WEIR_ENGINE_REDIS);
    assert_int_equal(c->rules[2].on_error, WEIR_ON_ERROR_CLOSED);
    assert_int_equal(c->rules[3].engine, WEIR_ENGINE_HYBRID);
    assert_int_equal(c->rules[3].on_error, WEIR_ON_ERROR_LOCAL);
    assert_int_equal(o->urls_len, 2);
    assert_string_equal(o->urls[1], "rediss://two");
    assert_string_equal(o->user, "weir");
    assert_string_equal(o->password, "s e c");
    assert_string_equal(o->sentinel, "mymaster");
    assert_string_equal(o->sentinel_user, "s");
    assert_string_equal(o->sentinel_password, "password");
    assert_string_equal(o->prefix, "");
    assert_int_equal(o->by, WEIR_REDIS_BY_FUNCTIONS);
    assert_int_equal(o->deadline_ns, ms_ns);
    assert_int_equal(o->in_flight, 1 << 20);
    assert_int_equal(o->on_error, WEIR_REDIS_LOCAL);
    assert_int_equal(o->deny_cache_bytes, 64 << 10);
    assert_string_equal(o->tls_ca, "ca.pem");
    assert_string_equal(o->tls_cert, "/etc/c.pem");
    assert_string_equal(o->tls_key, "k.pem");
    assert_string_equal(o->tls_name, "redis");
    assert_true(o->tls_insecure);
    assert_int_equal(c->hybrid.interval_ns, 60000 * ms_ns);
    assert_int_equal(c->hybrid.count, 1);
    assert_int_equal(c->hybrid.idle_ns, 3600000 * ms_ns);
    assert_int_equal(c->hybrid.memory_bytes, 1 << 30);
    config_free(c);
}

static void check_variants(void **unused)
{
    (void)unused;
    weir_config *c = good("engine: redis\nredis: {url: \"unix:///run/r.sock?db=3\", sentinel: m, "
                          "deny_cache: off, on_error: closed, by: script}\n");
    assert_string_equal(c->redis.sentinel, "m");
    assert_int_equal(c->redis.deny_cache_bytes, SIZE_MAX);
    assert_int_equal(c->redis.on_error, WEIR_REDIS_CLOSED);
    config_free(c);
    c = good("redis: {urls: \"redis://u:p%40@[::1]:7000\", deny_cache: 0}\n");
    assert_int_equal(c->redis.urls_len, 1);
    assert_int_equal(c->redis.deny_cache_bytes, SIZE_MAX);
    config_free(c);
}

static void check_command_line(void **unused)
{
    (void)unused;
    weir_redis_error error = {""};
    weir_config *c = config_default();
    assert_false(config_use_redis(c, "http://h", &error));
    assert_true(strlen(error.text) > 0);
    assert_false(c->has_redis);
    assert_true(config_use_redis(c, "redis://h:1", &error));
    assert_int_equal(c->engine, WEIR_ENGINE_REDIS);
    assert_int_equal(c->redis.deadline_ns, 50 * ms_ns);
    config_free(c);

    c = good("redis: {url: redis://h, by: script}\n"
             "policies: {a: gcra 1/s, b: {limit: gcra 1/s, engine: hybrid}}\n");
    assert_true(config_use_redis(c, "unix:///s", &error));
    assert_string_equal(c->redis.urls[0], "unix:///s");
    assert_int_equal(c->redis.by, WEIR_REDIS_BY_SCRIPT);
    assert_int_equal(c->rules[0].engine, WEIR_ENGINE_REDIS);
    assert_string_equal(c->rules[0].name, "a");
    assert_int_equal(c->rules[1].engine, WEIR_ENGINE_HYBRID);
    config_free(c);
}

/* ---- what is wrong --------------------------------------------------------------------------- */

static void check_no_server(void **unused)
{
    (void)unused;
    refused("engine: redis\n",
            "t.yaml:1:9: error: engine: the engine redis needs a server, expected also redis: "
            "{url: redis://127.0.0.1:6379}\n"
            "  engine: redis\n"
            "          ^\n");
    refused("redis:\npolicies:\n  a: {limit: gcra 1/s, engine: hybrid}\n",
            "t.yaml:3:32: error: policies.a.engine: the engine hybrid needs a server, expected "
            "also redis: {url: redis://127.0.0.1:6379}\n"
            "    a: {limit: gcra 1/s, engine: hybrid}\n"
            "                                 ^\n");
    refused("hybrid: {count: 3}\n",
            "t.yaml:1:1: error: hybrid: the engine hybrid settles with a server, expected also "
            "redis: {url: redis://127.0.0.1:6379}\n"
            "  hybrid: {count: 3}\n"
            "  ^\n");
    refused("redis: {by: any}\n",
            "t.yaml:1:1: error: redis: the key url is missing, expected a URL, such as "
            "redis://127.0.0.1:6379, rediss://HOST:6379 (TLS) or unix:///run/redis/redis.sock\n"
            "  redis: {by: any}\n"
            "  ^\n");
}

static void check_values(void **unused)
{
    (void)unused;
    refused("engine: valkey\n", "t.yaml:1:9: error: engine: expected local, redis or hybrid, found "
                                "'valkey'\n"
                                "  engine: valkey\n"
                                "          ^\n");
    refused("redis:\n"
            "  url: redis://h\n"
            "  by: lua\n"
            "  deadline: 0\n"
            "  in_flight: 0\n"
            "  on_error: deny\n"
            "  deny_cache: 1\n"
            "  urll: x\n"
            "hybrid: {interval: 61s, idle: off}\n",
            "t.yaml:3:7: error: redis.by: expected any, module, functions or script, found 'lua'\n"
            "    by: lua\n"
            "        ^\n"
            "t.yaml:4:13: error: redis.deadline: expected a duration from 1ms to 60s, as 50ms or "
            "2s, found '0'\n"
            "    deadline: 0\n"
            "              ^\n"
            "t.yaml:5:14: error: redis.in_flight: expected a number from 1 to 1048576, found '0'\n"
            "    in_flight: 0\n"
            "               ^\n"
            "t.yaml:6:13: error: redis.on_error: expected open, closed or local, found 'deny'\n"
            "    on_error: deny\n"
            "              ^\n"
            "t.yaml:7:15: error: redis.deny_cache: expected a size from 64k to 1g, as 64m (k, m, "
            "g), found '1'\n"
            "    deny_cache: 1\n"
            "                ^\n"
            "t.yaml:8:3: error: redis: unknown key 'urll', did you mean 'url'?\n"
            "    urll: x\n"
            "    ^\n"
            "t.yaml:9:20: error: hybrid.interval: expected a duration from 1ms to 60s, as 50ms or "
            "2s, found '61s'\n"
            "  hybrid: {interval: 61s, idle: off}\n"
            "                     ^\n"
            "t.yaml:9:31: error: hybrid.idle: expected a duration from 1ms to 3600s, as 50ms or "
            "2s, found 'off'\n"
            "  hybrid: {interval: 61s, idle: off}\n"
            "                                ^\n");
    refused("policies:\n"
            "  a: {limit: gcra 1/s, on_error: closed}\n",
            "t.yaml:2:24: error: policies.a: on_error is for an engine that asks a server, "
            "expected engine: redis or hybrid beside it\n"
            "    a: {limit: gcra 1/s, on_error: closed}\n"
            "                         ^\n");
    /* And only that: what follows from it is not the reader's mistake. */
    refused("engine: reids\n"
            "redis: {url: redis://h}\n"
            "policies: {a: {limit: gcra 1/s, on_error: closed}}\n",
            "t.yaml:1:9: error: engine: expected local, redis or hybrid, found 'reids'\n"
            "  engine: reids\n"
            "          ^\n");
}

static void check_together(void **unused)
{
    (void)unused;
    refused("redis: {url: redis://h, urls: [redis://h]}\n",
            "t.yaml:1:25: error: redis.urls: expected one of url and urls\n"
            "  redis: {url: redis://h, urls: [redis://h]}\n"
            "                          ^\n");
    refused("redis: {url: redis://h, user: weir}\n",
            "t.yaml:1:31: error: redis: a user without a password\n"
            "  redis: {url: redis://h, user: weir}\n"
            "                                ^\n");
    refused("redis: {url: redis://h, sentinel: {user: weir}}\n",
            "t.yaml:1:35: error: redis.sentinel: expected the name that the Sentinels have for "
            "the master, such as {name: mymaster}\n"
            "  redis: {url: redis://h, sentinel: {user: weir}}\n"
            "                                    ^\n");
    refused("redis: {url: rediss://h, tls: {cert: c.pem}}\n",
            "t.yaml:1:38: error: redis.tls: expected cert and key together, the certificate and "
            "its private key\n"
            "  redis: {url: rediss://h, tls: {cert: c.pem}}\n"
            "                                       ^\n");
    refused("redis: {url: redis://h, tls: {ca: c.pem}}\n",
            "t.yaml:1:1: error: redis: there are options for TLS, and no URL with rediss://\n"
            "  redis: {url: redis://h, tls: {ca: c.pem}}\n"
            "  ^\n");
    refused("redis: {url: redis://h, password: hunter2, password_file: x}\n",
            "t.yaml:1:44: error: redis.password_file: there is a password already, expected one "
            "of password and password_file\n"
            "  redis: {url: redis://h, password: **************************\n"
            "                                             ^\n");
}

static void check_urls(void **unused)
{
    (void)unused;
    refused("redis:\n"
            "  urls:\n"
            "    - redis://good:6379\n"
            "    - redis://h:70000\n"
            "    - http://h\n"
            "    - [x]\n",
            "t.yaml:4:7: error: redis.urls[1]: the port of a URL is not 1 to 65535 (an IPv6 "
            "address needs brackets: redis://[::1]:6379)\n"
            "      - redis://h:70000\n"
            "        ^\n"
            "t.yaml:5:7: error: redis.urls[2]: a URL begins with redis://, rediss:// (TLS) or "
            "unix:// and a path: write redis://127.0.0.1:6379\n"
            "      - http://h\n"
            "        ^\n"
            "t.yaml:6:7: error: redis.urls[3]: expected a URL, such as redis://127.0.0.1:6379, "
            "rediss://HOST:6379 (TLS) or unix:///run/redis/redis.sock, found a list\n"
            "      - [x]\n"
            "        ^\n");
    refused("redis: redis://h\n", "t.yaml:1:8: error: redis: expected a map, found a text\n"
                                  "  redis: redis://h\n"
                                  "         ^\n");
}

/* ---- passwords ------------------------------------------------------------------------------- */

static void check_hidden(void **unused)
{
    (void)unused;
    refused("redis: {url: \"redis://weir:hunter2@h:x\"}\n",
            "t.yaml:1:14: error: redis.url: the port of a URL is not 1 to 65535 (an IPv6 address "
            "needs brackets: redis://[::1]:6379)\n"
            "  redis: {url: \"redis://************@h:x\"}\n"
            "               ^\n");
    refused("redis: {urll: redis://:hun@ter2@h}\n",
            "t.yaml:1:9: error: redis: unknown key 'urll', did you mean 'url'?\n"
            "  redis: {urll: redis://*********@h}\n"
            "          ^\n");
}

/* However it is spelt and whatever is wrong with the rest, no password is shown. */
static void check_no_password(void **unused)
{
    (void)unused;
    static const char *const texts[] = {
        "redis: {url: redis://weir:hunter2@h:x}\n",
        "redis: {url: redis://weir:hunter2@h, by: x}\n",
        "redis: {redis://weir:hunter2@h: 1}\n",
        "redis: {redis://weir:hunter2@h}\n",
        "redis: redis://weir:hunter2@h\n",
        "redis://weir:hunter2@h\n",
        "redis: [redis://weir:hunter2@h]\n",
        "redis:\n  urls:\n  - redis://weir:hunter2@h\n  - redis://weir:hunter2\n",
        "redis:\n  url: redis://:hunter2\n",
        "redis:\n  url: redis://weir:hunter2 @h:x\n",
        "redis:\n  url: |\n    redis://weir:hunter2@h\n",
        "redis:\n  url: \"redis:\\/\\/weir:hunter2@h:x\"\n",
        "redis:\n  url: 'redis://weir:hunter2@h\n",
        "redis: {url: redis://weir:hunter2@h, url: x}\n",
        "redis: {url: &a redis://weir:hunter2@h}\n",
        "redis: {url: redis://h, password: [hunter2]}\n",
        "redis: {url: redis://h, sentinel: {name: m, password: {hunter2: x}}}\n",
        "redis: {url: redis://weir:hunter2@h}\n\001",
        "redis: {url: redis://h, password: hunter2, by: x\n",
        "policies: {redis: {url: redis://weir:hunter2@h}}\n",
    };
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        weir_config *c = NULL;
        char *told = parse(texts[i], WEIR_E_SYNTAX, &c);
        if (strstr(told, "hunter2"))
            print_error("%s", told);
        assert_null(strstr(told, "hunter2"));
        free(told);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(check_defaults),  cmocka_unit_test(check_all_keys),
        cmocka_unit_test(check_variants),  cmocka_unit_test(check_command_line),
        cmocka_unit_test(check_no_server), cmocka_unit_test(check_values),
        cmocka_unit_test(check_together),  cmocka_unit_test(check_urls),
        cmocka_unit_test(check_hidden),    cmocka_unit_test(check_no_password),
    };
    return cmocka_run_group_tests_name("config-redis", tests, NULL, NULL);
}
