/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* Valid `engine`, `redis` and `hybrid` sections, and `weir serve --redis`. */

#include "cmd/kit/commands.h"
#include "rls/daemon/guest.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static const int64_t ms_ns = 1000000;

static weir_config *read_valid(const char *yaml)
{
    const config_sink sink = config_print_to(stderr);
    weir_config *c = NULL;
    assert_int_equal(config_parse(yaml, strlen(yaml), "t.yaml", false, NULL, &sink, &c), WEIR_OK);
    return c;
}

static void check_defaults(void **unused)
{
    (void)unused;
    weir_config *c = read_valid("redis:\nhybrid:\npolicies: {a: gcra 1/s}\n");
    assert_int_equal(c->engine, WEIR_ENGINE_LOCAL);
    assert_false(c->has_redis);
    assert_int_equal(c->rules[0].engine, WEIR_ENGINE_LOCAL);
    config_free(c);

    c = read_valid("redis: {url: redis://127.0.0.1:6379}\npolicies: {a: gcra 1/s}\n");
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
    weir_config *c = read_valid(
        "policies:\n" /* before what it needs */
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

static void check_short_forms(void **unused)
{
    (void)unused;
    weir_config *c =
        read_valid("engine: redis\nredis: {url: \"unix:///run/r.sock?db=3\", sentinel: m, "
                   "deny_cache: off, on_error: closed, by: script}\n");
    assert_string_equal(c->redis.sentinel, "m");
    assert_int_equal(c->redis.deny_cache_bytes, SIZE_MAX);
    assert_int_equal(c->redis.on_error, WEIR_REDIS_CLOSED);
    config_free(c);
    c = read_valid("redis: {urls: \"redis://u:p%40@[::1]:7000\", deny_cache: 0}\n");
    assert_int_equal(c->redis.urls_len, 1);
    assert_int_equal(c->redis.deny_cache_bytes, SIZE_MAX);
    config_free(c);
}

/* errors_test.txt has one more of each. */
static void check_largest(void **unused)
{
    (void)unused;
    char yaml[2000];
    size_t len = (size_t)snprintf(yaml, sizeof yaml, "redis: {prefix: %064d, urls: [", 0);
    for (int i = 0; i < WEIR_REDIS_URLS_MAX; i++)
        len += (size_t)snprintf(yaml + len, sizeof yaml - len, "redis://h:%d, ", 7000 + i);
    snprintf(yaml + len, sizeof yaml - len, "]}\n");
    weir_config *c = read_valid(yaml);
    assert_int_equal(c->redis.urls_len, WEIR_REDIS_URLS_MAX);
    assert_string_equal(c->redis.urls[WEIR_REDIS_URLS_MAX - 1], "redis://h:7063");
    assert_int_equal(strlen(c->redis.prefix), WEIR_REDIS_PREFIX_MAX);
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

    c = read_valid("redis: {url: redis://h, by: script}\n"
                   "policies: {a: {limit: gcra 1/s, candidate: gcra 2/s}, b: {limit: gcra 1/s, "
                   "engine: hybrid}}\n");
    assert_true(config_use_redis(c, "unix:///s", &error));
    assert_string_equal(c->redis.urls[0], "unix:///s");
    assert_int_equal(c->redis.by, WEIR_REDIS_BY_SCRIPT);
    assert_int_equal(c->rules[0].engine, WEIR_ENGINE_REDIS);
    assert_string_equal(c->rules[0].name, "a");
    assert_null(c->rules[0].candidate); /* it needs the local engine */
    assert_int_equal(c->rules[1].engine, WEIR_ENGINE_HYBRID);
    config_free(c);

    c = read_valid("engine: hybrid\nredis: {url: redis://h}\n");
    envoy_settings_of(c)->options.engine = WEIR_ENGINE_HYBRID;
    assert_true(config_use_redis(c, "redis://h:1", &error));
    assert_int_equal(c->engine, WEIR_ENGINE_HYBRID);
    assert_int_equal(envoy_settings_of(c)->options.engine, WEIR_ENGINE_HYBRID);
    config_free(c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(check_defaults),     cmocka_unit_test(check_all_keys),
        cmocka_unit_test(check_short_forms),  cmocka_unit_test(check_largest),
        cmocka_unit_test(check_command_line),
    };
    weir_use_guests();
    return cmocka_run_group_tests_name("config-redis", tests, NULL, NULL);
}
