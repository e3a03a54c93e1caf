/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* Which keys of two configurations differ, so that a reload reports that they need a restart; the
 * partitions that follow from `memory` of policies; the arena of a configuration, and helpers. */

#include "cmd/config/config.h"
#include "cmd/config/guests_kit_test.h"
#include "cmd/config/keys.h"
#include "cmd/kit/units.h"
#include "port/arena.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

/*  yaml  "": the defaults. */
static weir_config *valid(const char *yaml)
{
    yaml = yaml[0] ? yaml : "{}";
    const config_sink sink = config_print_to(stderr);
    weir_config *c = NULL;
    assert_int_equal(config_parse(yaml, strlen(yaml), "t.yaml", false, NULL, &sink, &c), WEIR_OK);
    return c;
}

typedef struct config_change {
    const char *before, *after, *keys; /* the keys that changed, each with a blank */
} config_change;

static const config_change changes[] = {
    {"", "", ""},
    {"threads: 1", "threads: 2", "threads "},
    {"insecure: true", "insecure: false", ""},
    {"listen: {resp: 1}", "listen: {resp: 2}", "listen "},
    {"listen: {resp: 1}", "listen: {http: 1}", "listen "},
    {"listen: {resp: 1}", "listen: {resp: 1, http: 2}", "listen "},
    {"listen: {resp: [1, 2]}", "listen: {resp: [1, 2]}", ""},
    {"tls: {cert: a, key: b}", "tls: {cert: c, key: d}", ""}, /* needs no restart */
    {"tls: {cert: a, key: b, client_ca: c}", "tls: {cert: a, key: b, client_ca: d}", ""},
    {"tls: {cert: a, key: b}", "tls: {cert: a, key: b, client_ca: d}", "tls "},
    {"tls: {cert: a, key: b}", "tls: off", "tls "},
    {"", "tls: {cert: a, key: b}", "tls "},
    {"listen: {resp: 1}", "listen: {resp: {address: 1, tls: off}}", "listen "},
    {"listen: {http: 1}", "listen: {http: {address: 1, proxy_protocol: true}}", "listen "},
    {"listen: {http: 1}", "listen: {http: {address: 1, proxy_protocol: false}}", ""},
    {"trusted_proxies: 10.0.0.1", "trusted_proxies: [10.0.0.2]", ""},
    {"http: {client_header: Forwarded}", "", ""},
    {"listen: {resp: {address: 1, tls: {cert: a, key: b}}}",
     "listen: {resp: {address: 1, tls: {cert: c, key: d}}}", ""},
    {"listen: {resp: {address: 1, tls: {cert: a, key: b, client_ca: c}}}",
     "listen: {resp: {address: 1, tls: {cert: c, key: d}}}", "listen "},
    {"password: a", "password: a", ""},
    {"password: a", "password: b", ""},
    {"password: a", "", ""},
    {"", "password: a", ""},
    {"", "users: {web: {password: a, may: take}}", ""},
    {"users: {web: {password: a}}\nlisten: {resp: {address: 1, user: web}}",
     "users: {web: {password: a}}\nlisten: {resp: 1}", "listen "},
    {"users: {web: {password: a}}\nlisten: {resp: {address: 1, user: web}}",
     "users: {web: {password: b}}\nlisten: {resp: {address: 1, user: web}}", ""},
    {"memory: {size: 1m}", "memory: {size: 2m}", "memory "},
    {"memory: {size: 8m, file: a}", "memory: {size: 8m, file: b}", "memory "},
    {"memory: {size: 8m, file: a, sync: never}", "memory: {size: 8m, file: a}", "memory "},
    {"clock: {step_above: off}", "clock: {step_above: 2h}", ""},
    {"limits: {drain: 1s}", "limits: {drain: 2s}", ""},
    {"limits: {grace: 1s}", "limits: {grace: 2s}", ""},
    {"http: {key: {header: a}}", "http: {key: {header: b, hops: 2}}", ""},
    {"http: {hosts: [a, b]}", "http: {hosts: [a, c]}", ""},
    {"http: {origins: 'http://a'}", "http: {origins: 'http://b'}", ""},
    {"top: off", "top: {keys: 0}", ""},
    {"top: off", "", "top "},
    {"redis: {url: 'redis://a'}", "redis: {urls: ['redis://a']}", ""},
    {"redis: {url: 'redis://a'}", "redis: {url: 'redis://b'}", "redis "},
    {"redis: {urls: ['redis://a', 'redis://b']}", "redis: {urls: ['redis://a', 'redis://b']}", ""},
    {"redis: {urls: ['redis://a', 'redis://b']}", "redis: {urls: ['redis://c', 'redis://b']}",
     "redis "},
    {"redis: {urls: ['redis://a', 'redis://b']}", "redis: {urls: ['redis://a']}", "redis "},
    {"redis: {url: 'redis://a', by: any}", "redis: {url: 'redis://a', by: module}", "redis "},
    {"redis: {url: 'redis://a', prefix: a}", "redis: {url: 'redis://a', prefix: b}", "redis "},
    {"redis: {url: 'rediss://a', tls: {ca: a}}", "redis: {url: 'rediss://a', tls: {ca: b}}",
     "redis "},
    {"redis: {url: 'redis://a'}", "redis: {url: 'redis://a'}\nhybrid: {count: 1}", "hybrid "},
    {"policies: {a: gcra 1/s}", "policies: {b: gcra 2/s}", ""}, /* needs no restart */
    {"policies: {a: {limit: gcra 1/s, memory: 10%}}",
     "policies: {a: {limit: gcra 2/s, memory: 10%}}", ""},
    {"policies: {a: gcra 1/s}", "policies: {a: {limit: gcra 1/s, memory: 10%}}",
     "policies.a.memory "},
    {"policies: {a: {limit: gcra 1/s, memory: 10%}}", "", "policies.a.memory "},
    {"policies: {a: {limit: gcra 1/s, memory: 10%}}",
     "policies: {a: {limit: gcra 1/s, memory: 9%}}", "policies.a.memory "},
    {"policies: {a: {limit: gcra 1/s, memory: 1m}}",
     "policies: {a: {limit: sliding-log 99/s, memory: 1m}}", "policies.a.memory "},
    {"policies: {a: {limit: gcra 1/s, memory: 1m}, b: {limit: gcra 1/s, memory: 2m}}",
     "policies: {b: {limit: gcra 1/s, memory: 2m}, a: {limit: gcra 1/s, memory: 1024k}}", ""},
    {"policies: {a: {limit: gcra 1/s, memory: 1m}, b: {limit: gcra 1/s, memory: 2m}}",
     "policies: {b: {limit: gcra 1/s, memory: 3m}, c: {limit: gcra 1/s, memory: 1m}}",
     "policies.a.memory policies.b.memory policies.c.memory "},
    {"redis: {url: 'redis://a'}\nengine: redis", "redis: {url: 'redis://a'}\nengine: hybrid", ""},
    {"headers: ietf", "headers: github", ""},
    {"retry_spread: 10%", "retry_spread: 11%", ""},
    {"policies: {a: {limit: gcra 1/s, retry_spread: 1%}}",
     "policies: {a: {limit: gcra 1/s, retry_spread: 2%}}", ""},
    {"listen: {http: {address: 1, retry_spread: 1%}}",
     "listen: {http: {address: 1, retry_spread: 2%}}", ""},
    {"denied: {status: 403}", "denied: {status: 404}", ""},
    {"denied: {body: x}", "denied: {body: y}", ""},
    {"listen: {http: {address: 1, headers: ietf}}", "listen: {http: {address: 1, headers: none}}",
     ""},
    {"listen: {http: {address: 1, denied: {body: x}}}",
     "listen: {http: {address: 1, denied: {body: y}}}", ""},
    {"listen: {http: [1, 2]}", "listen: {http: [1, 3]}", "listen "},
    {"limitador: {limits: a}", "limitador: {limits: b, headers: draft-03}", ""},
    {"limitador: {limits: a}", "", "limitador "},
    {"envoy: {config: a}", "envoy: {config: b, headers: {enabled: true}, quota_mode: true}", ""},
    {"envoy: {statsd: 'udp://a:1'}", "envoy: {statsd: 'udp://a:1'}", ""},
    {"envoy: {statsd: 'udp://a:1'}", "envoy: {statsd: 'udp://a:2'}", "envoy "},
    {"envoy: {statsd: 'udp://a:1'}", "envoy: {statsd: off}", "envoy "},
    {"envoy: {statsd_tags: {a: b, c: d}}", "envoy: {statsd_tags: {c: d, a: b}}", ""},
    {"envoy: {statsd_tags: {a: b}}", "envoy: {statsd_tags: {a: c}}", "envoy "},
    {"envoy: {statsd_flush: 1s}", "envoy: {statsd_flush: 2s}", "envoy "},
    {"grpc: {max_connection_age: 1h}", "grpc: {max_connection_age: 2h}", ""},
    {"grpc: {max_connection_age_grace: 1h}", "grpc: {}", ""},
    {"telemetry: {endpoint: 'http://a'}", "", "telemetry "},
    {"telemetry: {endpoint: 'http://a', resource: {a: b}}",
     "telemetry: {endpoint: 'http://a', resource: {a: b}, interval: 60s}", ""},
    {"telemetry: {endpoint: 'http://a', resource: {a: b}}",
     "telemetry: {endpoint: 'http://a', resource: {a: c}}", "telemetry "},
    {"telemetry: {endpoint: 'http://a', resource: {a: b}}", "telemetry: {endpoint: 'http://a'}",
     "telemetry "},
    {"log: {level: debug}", "log: {format: json}", ""},
    {"top: {metrics: true}", "top: {}", ""},
    {"top: {metrics: true}", "top: {memory: 2m}", "top "},
    {"hand_over: a", "hand_over: b", "hand_over "},
    {"policies: {a: gcra 1/s}\nspoe: {messages: {m: a}}", "", ""},
    {"routes: [{path: /a}]", "", ""},
    {"threads: 1\ntop: off", "limits: {connections: 1}", "threads top "},
};

static void note_change(void *ctx, const char *key)
{
    char *keys = ctx;
    strcat(keys, key);
    strcat(keys, " ");
}

/* The keys that differ in the files, in the order of the second one; then those that it lacks. */
static const config_change edited[] = {
    {"threads: 1", "threads: 1", ""},
    {"threads: 1", "threads: 2", "threads "},
    {"threads: 1", "{}", "threads "},
    {"{}", "threads: 1", "threads "},
    {"limits: {idle: 1s, drain: 1s}", "limits: {drain: 1s, idle: 2s}", "limits.idle "},
    {"limits: {idle: 1s, drain: 1s}", "limits: {drain: 1s, idle: 1s}", ""},
    {"limits: {idle: 1s}", "limits: {idle: 1000ms}", "limits.idle "},
    {"{}", "limits: {idle: 1s, drain: 1s}", "limits.idle limits.drain "},
    {"limits: {idle: 1s, drain: 1s}", "{}", "limits.idle limits.drain "},
    {"threads: 1\nlimits: {idle: 1s}\ntop: off", "limits: {drain: 1s}\nthreads: 1\ninsecure: true",
     "limits.drain limits.idle insecure top "},
    {"top: off", "top: {keys: 0}", "top "},
    {"policies: {a: gcra 1/s, b: gcra 1/s}", "policies: {n: gcra 1/s, a: gcra 1/s, b: gcra 2/s}",
     "policies.n policies.b "},
    {"policies: {a: {limit: gcra 1/s, deny: [x, y]}}",
     "policies: {a: {limit: gcra 1/s, deny: [x]}}", "policies.a "},
    {"policies: {a: {limit: gcra 1/s, deny: [x, y]}}",
     "policies: {a: {limit: gcra 1/s, deny: [x, z]}}", "policies.a "},
    {"policies: {a: {limit: gcra 1/s, deny: [x, y]}}",
     "policies: {a: {limit: gcra 1/s, deny: [x, y]}}", ""},
    {"policies: {a: {limit: gcra 1/s, deny: [x]}}", "policies: {a: {limit: gcra 1/s, allow: [x]}}",
     "policies.a "},
    {"listen: {http: [1, 2]}", "listen: {http: 1}", "listen.http "},
    {"denied: {body: x}", "denied: {body: \"x\"}", ""}, /* another way to write it */
};

static void check_edits(void **unused)
{
    (void)unused;
    for (size_t i = 0; i < sizeof edited / sizeof edited[0]; i++) {
        char keys[200] = "";
        weir_config *before = valid(edited[i].before), *after = valid(edited[i].after);
        config_each_edit(before, after, note_change, keys);
        if (strcmp(keys, edited[i].keys) != 0)
            fail_msg("edit %zu: %s: expected '%s', found '%s'", i, edited[i].after, edited[i].keys,
                     keys);
        config_free(before);
        config_free(after);
    }
    char keys[20] = "";
    weir_config *none = config_default(), *one = valid("threads: 1");
    config_each_edit(none, one, note_change, keys);
    config_each_edit(one, none, note_change, keys);
    assert_string_equal(keys, "");
    config_free(none);
    config_free(one);
}

/* A daemon keeps the addresses that it has. */
static void check_kept_listens(void **unused)
{
    (void)unused;
    weir_config *start = valid("listen: {http: [{address: 1, headers: ietf}, {address: 0, headers: "
                               "github}, {address: 0, headers: none}]}");
    weir_config *next =
        valid("listen: {resp: 9, http: [{address: 0, headers: openai}, {address: 0, "
              "headers: none}, 0.0.0.0:7, {address: 1, headers: github}]}\n"
              "insecure: true");
    weir_config *other = valid("listen: {http: [0, {address: 0, headers: ietf-07, tls: off}]}");
    config_keep_listens(next, start);
    assert_int_equal(next->listens_len, 3);
    assert_string_equal(next->listens[0].address, "127.0.0.1:1");
    assert_int_equal(next->listens[0].answer.headers, WEIR_HEADERS_GITHUB);
    assert_string_equal(next->listens[1].address, "127.0.0.1:0");
    assert_int_equal(next->listens[1].answer.headers, WEIR_HEADERS_OPENAI);
    assert_int_equal(next->listens[2].answer.headers, WEIR_HEADERS_NONE);
    config_keep_listens(other, start);
    assert_int_equal(other->listens_len, 3);
    assert_int_equal(other->listens[0].answer.headers, WEIR_HEADERS_IETF); /* as at the start */
    assert_int_equal(other->listens[1].answer.headers, WEIR_HEADERS_IETF_07);
    assert_int_equal(other->listens[1].tls_choice, CONFIG_TLS_DEFAULT);
    assert_int_equal(other->listens[2].answer.headers, 0);
    config_free(start);
    config_free(next);
    config_free(other);
}

static void check_changes(void **unused)
{
    (void)unused;
    for (size_t i = 0; i < sizeof changes / sizeof changes[0]; i++) {
        char keys[200] = "";
        if (names_absent_guest(changes[i].before, changes[i].after))
            continue;
        weir_config *before = valid(changes[i].before), *after = valid(changes[i].after);
        config_each_change(before, after, note_change, keys);
        if (strcmp(keys, changes[i].keys) != 0)
            fail_msg("change %zu: %s: expected '%s', found '%s'", i, changes[i].after,
                     changes[i].keys, keys);
        config_free(before);
        config_free(after);
    }
}

typedef struct config_memory {
    const char *yaml;
    weir_store_partition of[2]; /* with a name */
} config_memory;

#define KIB ((size_t)1024)

/* A share is one of the memory that holds the policy's states; a size is taken as it is. */
static const config_memory memories[] = {
    {"policies: {a: gcra 1/s}", {{0}}},
    {"policies: {a: {limit: gcra 1/s, memory: 10%}}", {{"a", 19660 * KIB, 0}}},
    {"policies: {a: {limit: sliding-log 99/s, memory: 90%}}", {{"a", 0, 58982 * KIB}}},
    {"policies: {a: {limit: sliding-log 2/s, memory: 1%}}", {{"a", 1966 * KIB, 0}}},
    {"memory: {size: 20m, large: 10m}\n"
     "policies: {a: {limit: gcra 1/s, memory: 50%}, b: {limit: sliding-log 99/s, memory: 20%}}",
     {{"a", 5120 * KIB, 0}, {"b", 0, 2048 * KIB}}},
    {"policies: {a: {limit: gcra 1/s, memory: 20m, overrides: {k: sliding-log 99/s}}}",
     {{"a", 20480 * KIB, 20480 * KIB}}},
    {"policies: {a: {limit: gcra 1/s, memory: 10%, overrides: {k: gcra 2/s}}}",
     {{"a", 19660 * KIB, 0}}},
    {"policies: {a: {limit: gcra 1/s, memory: 64k}, c: gcra 1/s, b: {limit: gcra 1/s, memory: 1m}}",
     {{"a", 64 * KIB, 0}, {"b", 1024 * KIB, 0}}},
    {"memory: {size: 60m, file: x}\npolicies: {a: {limit: gcra 1/s, memory: 5m}}",
     {{"a", 5120 * KIB, 0}}},
    {"hand_over: s\nmemory: {size: 2m}\npolicies: {a: {limit: gcra 1/s, memory: 576k}}",
     {{"a", 576 * KIB, 0}}},
    {"hand_over: s\nmemory: {size: 60m, file: x}\npolicies: {a: {limit: gcra 1/s, memory: 5m}}",
     {{"a", 5120 * KIB, 0}}},
};

static void check_memories(void **unused)
{
    (void)unused;
    for (size_t i = 0; i < sizeof memories / sizeof memories[0]; i++) {
        const config_memory *m = &memories[i];
        weir_config *c = valid(m->yaml);
        size_t len = !m->of[0].name ? 0 : !m->of[1].name ? 1 : 2;
        assert_int_equal(c->partitions_len, len);
        for (size_t k = 0; k < len; k++) {
            assert_string_equal(c->partitions[k].name, m->of[k].name);
            assert_int_equal(c->partitions[k].table_bytes, m->of[k].table_bytes);
            assert_int_equal(c->partitions[k].large_bytes, m->of[k].large_bytes);
        }
        config_free(c);
    }
}

/* With `weir serve --redis`, no policy has states here. */
static void check_redis_has_no_partitions(void **unused)
{
    (void)unused;
    weir_redis_error error;
    weir_config *c = valid("policies: {a: {limit: gcra 1/s, memory: 10%}}");
    assert_int_equal(c->partitions_len, 1);
    assert_true(config_use_redis(c, "redis://h", &error));
    assert_int_equal(c->partitions_len, 0);
    config_free(c);
}

/* Allocations do not overlap, are aligned and zeroed, and survive further blocks. */
static void check_arena(void **unused)
{
    (void)unused;
    enum { ALLOCATIONS = 2000 };
    static char *at[ALLOCATIONS];
    weir_arena a = {0};
    for (size_t i = 0; i < ALLOCATIONS; i++) {
        at[i] = weir_arena_alloc(&a, i + 1, i % 3 + 1);
        assert_int_equal((uintptr_t)at[i] % _Alignof(max_align_t), 0);
        for (size_t j = 0; j < (i + 1) * (i % 3 + 1); j++)
            assert_int_equal(at[i][j], 0);
        memset(at[i], (int)(i % 127) + 1, (i + 1) * (i % 3 + 1));
    }
    for (size_t i = 0; i < ALLOCATIONS; i++) {
        for (size_t j = 0; j < (i + 1) * (i % 3 + 1); j++)
            assert_int_equal(at[i][j], i % 127 + 1);
    }
    char *large = weir_arena_alloc(&a, 1 << 20, 1),
         *copy = weir_arena_copy(&a, "0123456789abcdef", 16);
    memset(large, 'x', 1 << 20);
    assert_string_equal(copy, "0123456789abcdef");
    assert_false(a.failed);
    assert_null(weir_arena_alloc(&a, SIZE_MAX / 2, 3));
    assert_true(a.failed);
    weir_arena_free(&a);
}

static void check_edit_distance(void **unused)
{
    (void)unused;
    char other[41], same[41], longer[42]; /* 40 bytes is the greatest length */
    assert_int_equal(weir_edit_distance("", ""), 0);
    assert_int_equal(weir_edit_distance("abc", ""), 3);
    assert_int_equal(weir_edit_distance("polices", "policies"), 1);
    assert_int_equal(weir_edit_distance("memroy", "memory"), 1);
    assert_int_equal(weir_edit_distance("kitten", "sitting"), 3);
    memset(same, 'x', 40);
    same[40] = '\0';
    memcpy(other, same, sizeof other);
    assert_int_equal(weir_edit_distance(other, same), 0);
    other[0] = other[20] = other[39] = '-';
    assert_int_equal(weir_edit_distance(other, same), 3);
    assert_int_equal(weir_edit_distance("", other), 40);
    memset(longer, 'x', 41);
    longer[41] = '\0';
    assert_true(weir_edit_distance(longer, "x") == SIZE_MAX);
}

static void check_size_text(void **unused)
{
    (void)unused;
    char text[24];
    assert_string_equal(size_text(0, text, sizeof text), "0");
    assert_string_equal(size_text(1023, text, sizeof text), "1023");
    assert_string_equal(size_text(1024, text, sizeof text), "1k");
    assert_string_equal(size_text((uint64_t)3 << 30, text, sizeof text), "3g");
    assert_string_equal(size_text((uint64_t)1 << 40, text, sizeof text), "1024g");
}

int main(void)
{
    weir_use_guests();
    const struct CMUnitTest tests[] = {cmocka_unit_test(check_changes),
                                       cmocka_unit_test(check_edits),
                                       cmocka_unit_test(check_kept_listens),
                                       cmocka_unit_test(check_memories),
                                       cmocka_unit_test(check_redis_has_no_partitions),
                                       cmocka_unit_test(check_arena),
                                       cmocka_unit_test(check_edit_distance),
                                       cmocka_unit_test(check_size_text)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
