/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* Valid configurations: defaults, the range of every key, files, and failing allocations. */

#include "cmd/config/keys.h"
#include "cmd/kit/commands.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "port/memory_kit_test.h"

static const int64_t s_ns = 1000000000;

typedef struct reported {
    size_t times, warnings;
    char last[300]; /* the last error or warning; only errors are counted */
} reported;

static void count(void *ctx, const config_problem *problem)
{
    reported *t = ctx;
    t->times += !problem->warning;
    t->warnings += problem->warning;
    snprintf(t->last, sizeof t->last, "%s: %s", problem->path, problem->text);
}

static weir_status parse(const char *yaml, reported *t, weir_config **ret)
{
    const config_sink sink = {count, t};
    return config_parse(yaml, strlen(yaml), "t.yaml", false, NULL, &sink, ret);
}

static weir_config *valid(const char *yaml)
{
    reported t = {0};
    weir_config *c = NULL;
    if (parse(yaml, &t, &c) != WEIR_OK)
        fail_msg("%s\nis invalid: %s", yaml, t.last);
    assert_int_equal(t.times, 0);
    return c;
}

static void invalid(const char *yaml)
{
    reported t = {0};
    weir_config *c = NULL;
    if (parse(yaml, &t, &c) != WEIR_E_SYNTAX || t.times != 1)
        fail_msg("%s\nhas %zu errors, expected 1; the last is: %s", yaml, t.times, t.last);
}

/* Returns BEFORE, `n` times 'x' and AFTER, in a static buffer. */
static const char *repeat(const char *before, size_t n, const char *after)
{
    static char text[4096];
    size_t len = strlen(before);
    memcpy(text, before, len);
    memset(text + len, 'x', n);
    strcpy(text + len + n, after);
    return text;
}

/* ---- the defaults ---------------------------------------------------------------------------- */

static void assert_defaults(const weir_config *c)
{
    assert_int_equal(c->listens_len, 2);
    assert_int_equal(c->listens[0].protocol, PROTOCOL_RESP);
    assert_string_equal(c->listens[0].address, "127.0.0.1:6380");
    assert_int_equal(c->listens[1].protocol, PROTOCOL_HTTP);
    assert_string_equal(c->listens[1].address, "127.0.0.1:8080");
    assert_false(c->listens[0].is_public || c->listens[1].is_public);
    assert_null(c->password);
    assert_false(c->insecure);
    assert_int_equal(c->threads, 0);
    assert_int_equal(c->memory_bytes, 256 << 20);
    assert_int_equal(c->memory_large_bytes, 64 << 20);
    assert_null(c->state_file);
    assert_int_equal(c->sync, WEIR_SYNC_SECOND);
    assert_int_equal(c->when_full, WEIR_EVICT);
    assert_false(c->shared);
    assert_int_equal(c->clock_step_above_ns, 3600 * s_ns);
    assert_int_equal(c->connections, 10000);
    assert_int_equal(c->buffers_bytes, 256 << 20);
    assert_int_equal(c->idle_ns, 0);
    assert_int_equal(c->request_ns, 10 * s_ns);
    assert_int_equal(c->write_ns, 30 * s_ns);
    assert_int_equal(c->drain_ns, 5 * s_ns);
    assert_int_equal(c->http_key.from, CONFIG_KEY_UNSET);
    assert_int_equal(c->top_keys, 100);
    assert_int_equal(c->top_memory_bytes, 16 << 20);
    assert_false(c->top_metrics);
    assert_int_equal(c->rules_len, 0);
}

static void check_defaults(void **unused)
{
    (void)unused;
    static const char *const nothing[] = {
        "{}",
        "---\n{}\n",
        "limits:\nmemory:\nhttp:\ntop:\npolicies:\n",
        "\xEF\xBB\xBF{} # from another system\r\n",
        "policies: {}\n",
    };
    static const char *const empty[] = {
        "", "\n", "# nothing\n", "---\n", " ", "# \n---\n# \n...\n", "\xEF\xBB\xBF# \r\n",
    };
    weir_config *c = config_default();
    assert_defaults(c);
    config_free(c);
    for (size_t i = 0; i < sizeof nothing / sizeof nothing[0]; i++) {
        assert_defaults(c = valid(nothing[i]));
        config_free(c);
    }
    config_free(NULL);
    for (size_t i = 0; i < sizeof empty / sizeof empty[0]; i++)
        invalid(empty[i]);
}

/* ---- listen ---------------------------------------------------------------------------------- */

static void check_address(const char *yaml, const char *address, bool is_public)
{
    char text[200];
    snprintf(text, sizeof text, "insecure: true\nlisten: {resp: %s}\n", yaml);
    weir_config *c = valid(text);
    assert_int_equal(c->listens_len, 1);
    assert_string_equal(c->listens[0].address, address);
    assert_int_equal(c->listens[0].is_public, is_public);
    config_free(c);
}

static void check_addresses(void **unused)
{
    (void)unused;
    check_address("6380", "127.0.0.1:6380", false);
    check_address("\":6380\"", "127.0.0.1:6380", false);
    check_address("0", "127.0.0.1:0", false);
    check_address("65535", "127.0.0.1:65535", false);
    check_address("127.255.0.9:1", "127.255.0.9:1", false);
    check_address("128.0.0.1:1", "128.0.0.1:1", true);
    check_address("0.0.0.0:6380", "0.0.0.0:6380", true);
    check_address("10.1.2.3:6380", "10.1.2.3:6380", true);
    check_address("\"[::]:6380\"", "[::]:6380", true);
    check_address("\"[0:0::1]:6380\"", "[::1]:6380", false);
    check_address("\"[::ffff:127.0.0.1]:1\"", "[::ffff:127.0.0.1]:1", false);
    check_address("\"[2001:DB8::1]:1\"", "[2001:db8::1]:1", true);
    invalid("listen: {resp: 65536}");
    invalid("listen: {resp: 127.0.0.1:65536}");
    invalid("listen: {resp: 127.0.0.1}");
    invalid("listen: {resp: \"127.0.0.1:\"}");
    invalid("listen: {resp: \":\"}");
    invalid("listen: {resp: \"[]:1\"}");
    invalid("listen: {resp: \"[127.0.0.1]:1\"}");
    invalid("listen: {resp: \"127.0.0.256:1\"}");
    invalid("listen: {resp: \"-1\"}");
    invalid("listen: {resp: 0.0.0.0:6380}");
    invalid(repeat("listen: {resp: ", 100, ":1}"));
    invalid("listen: {resp: \"127.0.0.1:000001\"}");
    invalid("insecure: false\nlisten: {resp: 0.0.0.0:6380}");
    config_free(valid("password: x\nlisten: {resp: 0.0.0.0:6380}"));
    config_free(valid("password_file: x\nlisten: {resp: 0.0.0.0:6380}"));
}

static void check_listens(void **unused)
{
    (void)unused;
    weir_config *c = valid("listen: {http: 1}");
    assert_int_equal(c->listens_len, 1); /* without the defaults */
    assert_int_equal(c->listens[0].protocol, PROTOCOL_HTTP);
    config_free(c);
    c = valid("listen:\n  unix: /run/weir.sock\n  resp: [1, 0, 0]\n  http: off\n");
    assert_int_equal(c->listens_len, 4);
    assert_string_equal(c->listens[0].address, "127.0.0.1:1");
    assert_string_equal(c->listens[3].address, "/run/weir.sock");
    assert_int_equal(c->listens[3].protocol, PROTOCOL_RESP);
    assert_false(c->listens[3].is_public);
    config_free(c);
    c = valid("listen: {resp: 1, http: {address: 0.0.0.0:2, proxy_protocol: true}}\n"
              "trusted_proxies: [10.0.0.0/8, '::1']\npassword: x\n");
    assert_false(c->listens[0].proxy_protocol);
    assert_true(c->listens[1].proxy_protocol);
    assert_int_equal(c->trusted_proxies.len, 2);
    assert_int_equal(c->trusted_proxies.at[0].bits, 8);
    assert_string_equal(config_client_header(c), "X-Forwarded-For");
    assert_int_equal(config_client_kind(c), WEIR_CLIENT_LIST);
    config_free(c);
    c = valid("trusted_proxies: '::1'\nhttp: {client_header: forwarded}\n");
    assert_string_equal(config_client_header(c), "forwarded");
    assert_int_equal(config_client_kind(c), WEIR_CLIENT_FORWARDED);
    config_free(c);
    c = valid("http: {client_header: X-Real-IP}");
    assert_null(config_client_header(c)); /* no proxy is trusted, so that no header is stored */
    config_free(c);
    config_free(valid("listen: {resp: [1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16]}"));
    invalid("listen: {resp: [1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17]}");
    invalid("listen: {resp: []}");
    invalid("listen: {resp: [off]}");
    char yaml[300] = "listen: {unix: /";
    size_t len = strlen(yaml);
    memset(yaml + len, 'x', 106);
    strcpy(yaml + len + 106, "}");
    config_free(valid(yaml));
    strcpy(yaml + len + 106, "x}");
    invalid(yaml);
}

/* ---- numbers --------------------------------------------------------------------------------- */

typedef struct bound {
    const char *format; /* the key, with %s where the value stands */
    const char *value;
    bool is_valid;
    size_t offset, size; /* of what is written */
    int64_t expected;
} bound;

#define FIELD(member) offsetof(weir_config, member), sizeof((weir_config *)0)->member

static const bound bounds[] = {
    {"threads: %s", "0", false, 0, 0, 0},
    {"threads: %s", "1", true, FIELD(threads), 1},
    {"threads: %s", "256", true, FIELD(threads), 256},
    {"threads: %s", "257", false, 0, 0, 0},
    {"threads: %s", "1.5", false, 0, 0, 0},
    {"threads: %s", "0x1", false, 0, 0, 0},
    {"threads: %s", "99999999999999999999999", false, 0, 0, 0},
    {"threads: %s", "4294967297", false, 0, 0, 0},
    {"limits: {connections: %s}", "0", false, 0, 0, 0},
    {"limits: {connections: %s}", "1", true, FIELD(connections), 1},
    {"limits: {connections: %s}", "1000000", true, FIELD(connections), 1000000},
    {"limits: {connections: %s}", "1000001", false, 0, 0, 0},
    {"limits: {buffers: %s}", "1048575", false, 0, 0, 0},
    {"limits: {buffers: %s}", "1048576", true, FIELD(buffers_bytes), 1 << 20},
    {"limits: {buffers: %s}", "1023k", false, 0, 0, 0},
    {"limits: {buffers: %s}", "1024k", true, FIELD(buffers_bytes), 1 << 20},
    {"limits: {buffers: %s}", "1024g", true, FIELD(buffers_bytes), (int64_t)1 << 40},
    {"limits: {buffers: %s}", "1025g", false, 0, 0, 0},
    {"limits: {buffers: %s}", "17179869185g", false, 0, 0, 0},
    {"limits: {buffers: %s}", "64M", false, 0, 0, 0},
    {"limits: {buffers: %s}", "m", false, 0, 0, 0},
    {"memory: {size: %s}", "0", false, 0, 0, 0},
    {"memory: {size: %s}", "1m", true, FIELD(memory_bytes), 1 << 20},
    {"memory: {size: %s}", "8m", true, FIELD(memory_large_bytes), 2 << 20},
    {"memory: {size: %s}", "1024g", true, FIELD(memory_bytes), (int64_t)1 << 40},
    {"memory: {size: %s}", "1025g", false, 0, 0, 0},
    {"memory: {size: 8m, large: %s}", "0", false, 0, 0, 0},
    {"memory: {size: 8m, large: %s}", "65535", false, 0, 0, 0},
    {"memory: {size: 8m, large: %s}", "64k", true, FIELD(memory_large_bytes), 64 << 10},
    {"memory: {size: 8m, large: %s}", "8323072", true, FIELD(memory_large_bytes), 8323072},
    {"memory: {size: 8m, large: %s}", "8323073", false, 0, 0, 0},
    {"{hand_over: s, memory: {size: 1m, large: %s}}", "356351", true, FIELD(memory_large_bytes),
     356351},
    {"{hand_over: s, memory: {size: 1m, large: %s}}", "356352", false, 0, 0, 0},
    {"{hand_over: s, memory: {file: s, size: 8m, large: %s}}", "2m", true,
     FIELD(memory_large_bytes), 2 << 20},
    {"memory: {large: %s}", "255m", true, FIELD(memory_large_bytes), 255 << 20},
    {"memory: {large: %s}", "256m", false, 0, 0, 0},
    {"memory: {file: /s, sync: %s}", "never", true, FIELD(sync), WEIR_SYNC_NEVER},
    {"memory: {file: /s, sync: %s}", "1s", true, FIELD(sync), WEIR_SYNC_SECOND},
    {"memory: {file: /s, sync: %s}", "always", true, FIELD(sync), WEIR_SYNC_ALWAYS},
    {"memory: {file: /s, sync: %s}", "2s", false, 0, 0, 0},
    {"memory: {file: /s, sync: %s}", "Never", false, 0, 0, 0},
    {"memory: {sync: %s}", "never", false, 0, 0, 0},
    {"memory: {file: /s, shared: %s}", "true", true, FIELD(shared), 1},
    {"memory: {file: /s, shared: %s}", "false", true, FIELD(shared), 0},
    {"memory: {shared: %s}", "true", false, 0, 0, 0},
    {"memory: {file: /s, trust_others: %s}", "true", true, FIELD(trust_others), 1},
    {"memory: {file: /s, trust_others: %s}", "no", false, 0, 0, 0},
    {"memory: {trust_others: %s}", "true", false, 0, 0, 0},
    {"memory: {when_full: %s}", "evict", true, FIELD(when_full), WEIR_EVICT},
    {"memory: {when_full: %s}", "refuse", true, FIELD(when_full), WEIR_REFUSE},
    {"memory: {when_full: %s}", "drop", false, 0, 0, 0},
    {"memory: {prefault: %s}", "true", true, FIELD(prefault), 1},
    {"memory: {file: /s, prefault: %s}", "true", false, 0, 0, 0},
    {"memory: {file: /s, prefault: %s}", "false", true, FIELD(prefault), 0},
    {"top: %s", "off", true, FIELD(top_keys), 0},
    {"top: %s", "0", true, FIELD(top_keys), 0},
    {"top: %s", "{}", true, FIELD(top_keys), 100},
    {"top: %s", "100", false, 0, 0, 0},
    {"top: %s", "[off]", false, 0, 0, 0},
    {"top: {keys: %s}", "0", true, FIELD(top_keys), 0},
    {"top: {keys: %s}", "1000", true, FIELD(top_keys), 1000},
    {"top: {keys: %s}", "1001", false, 0, 0, 0},
    {"top: {keys: 5, memory: %s}", "1m", true, FIELD(top_memory_bytes), 1 << 20},
    {"top: {memory: %s}", "1g", true, FIELD(top_memory_bytes), 1 << 30},
    {"top: {memory: %s}", "1025m", false, 0, 0, 0},
    {"top: {metrics: %s}", "true", true, FIELD(top_metrics), 1},
    {"limits: {idle: %s}", "off", true, FIELD(idle_ns), 0},
    {"limits: {idle: %s}", "0", true, FIELD(idle_ns), 0},
    {"limits: {idle: %s}", "0s", true, FIELD(idle_ns), 0},
    {"limits: {idle: %s}", "999us", false, 0, 0, 0},
    {"limits: {idle: %s}", "1ms", true, FIELD(idle_ns), 1000000},
    {"limits: {idle: %s}", "30d", true, FIELD(idle_ns), (int64_t)30 * 86400 * 1000000000},
    {"limits: {idle: %s}", "30d1ns", false, 0, 0, 0},
    {"limits: {request: %s}", "1m30s", true, FIELD(request_ns), 90000000000},
    {"limits: {request: %s}", "10", false, 0, 0, 0},
    {"limits: {request: %s}", "s", false, 0, 0, 0},
    {"limits: {request: %s}", "1day", false, 0, 0, 0},
    {"limits: {request: %s}", "1s from-first", false, 0, 0, 0},
    {"limits: {write: %s}", "1h", true, FIELD(write_ns), 3600000000000},
    {"limits: {write: %s}", "-1s", false, 0, 0, 0},
    {"clock: {step_above: %s}", "off", true, FIELD(clock_step_above_ns), INT64_MAX},
    {"clock: {step_above: %s}", "59s", false, 0, 0, 0},
    {"limits: {drain: %s}", "off", true, FIELD(drain_ns), 0},
    {"insecure: %s", "true", true, FIELD(insecure), 1},
    {"insecure: %s", "false", true, FIELD(insecure), 0},
    {"insecure: %s", "True", false, 0, 0, 0},
    {"http: {key: {header: a, hops: %s}}", "0", false, 0, 0, 0},
    {"http: {key: {header: a, hops: %s}}", "1", true, FIELD(http_key.hops), 1},
    {"http: {key: {header: a, hops: %s}}", "16", true, FIELD(http_key.hops), 16},
    {"http: {key: {header: a, hops: %s}}", "17", false, 0, 0, 0},
};

static void check_bounds(void **unused)
{
    (void)unused;
    for (size_t i = 0; i < sizeof bounds / sizeof bounds[0]; i++) {
        const bound *b = &bounds[i];
        char yaml[200];
        const char *mark = strstr(b->format, "%s");
        snprintf(yaml, sizeof yaml, "%.*s%s%s\n", (int)(mark - b->format), b->format, b->value,
                 mark + 2);
        if (!b->is_valid) {
            invalid(yaml);
            continue;
        }
        weir_config *c = valid(yaml);
        int64_t got = 0; /* little-endian, as every machine that runs this */
        memcpy(&got, (const char *)c + b->offset, b->size);
        if (got != b->expected)
            fail_msg("%s: got %lld", yaml, (long long)got);
        config_free(c);
    }
}

/* ---- the state file -------------------------------------------------------------------------- */

static void check_state_file(void **unused)
{
    (void)unused;
    static const struct {
        const char *name, *file, *expected;
    } cases[] = {
        {"t.yaml", "/var/lib/weir/state", "/var/lib/weir/state"},
        {"t.yaml", "state", "state"},
        {"/etc/weir/weir.yaml", "state", "/etc/weir/state"},
        {"/etc/weir/weir.yaml", "../state", "/etc/weir/../state"},
        {"/etc/weir/weir.yaml", "/state", "/state"},
        {"/weir.yaml", "\"my state\"", "/my state"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char yaml[200];
        weir_config *c = NULL;
        const config_sink sink = config_print_to(stderr);
        int len = snprintf(yaml, sizeof yaml, "memory: {file: %s, size: 8m}\n", cases[i].file);
        assert_int_equal(config_parse(yaml, (size_t)len, cases[i].name, true, NULL, &sink, &c),
                         WEIR_OK);
        assert_string_equal(c->state_file, cases[i].expected);
        assert_int_equal(c->sync, WEIR_SYNC_SECOND);
        assert_int_equal(c->memory_large_bytes, 2 << 20);
        config_free(c);
    }
    invalid("memory: {file: }");
    invalid("memory: {file: \"\"}");
    invalid("memory: {file: [a]}");
}

/* ---- names and passwords --------------------------------------------------------------------- */

static void check_names(void **unused)
{
    (void)unused;
    weir_config *c = valid("http: {key: {header: X-Forwarded-For, hops: 2}}");
    assert_int_equal(c->http_key.from, CONFIG_KEY_HEADER);
    assert_string_equal(c->http_key.name, "X-Forwarded-For");
    assert_int_equal(c->http_key.hops, 2);
    config_free(c);
    c = valid("http: {key: {query: \"the user\"}}");
    assert_int_equal(c->http_key.from, CONFIG_KEY_QUERY);
    assert_string_equal(c->http_key.name, "the user");
    config_free(c);
    config_free(valid(repeat("http: {key: {header: ", 64, "}}")));
    config_free(valid(repeat("http: {key: {query: ", 64, "}}")));
    invalid(repeat("http: {key: {header: ", 65, "}}"));
    invalid(repeat("http: {key: {query: ", 65, "}}"));
    invalid("http: {key: {query: cost}}");
    invalid("http: {key: {header: authorization}}");
    invalid("http: {key: {header: User-Agent}}");
    invalid("http: {key: {header: Sec-Fetch-Site}}");
    invalid("http: {key: {header: Accept-Language}}");
    config_free(valid("http: {key: {header: X-Api-Key}}"));
    invalid("http: {key: {header: \"\"}}");
    c = valid("http: {hosts: [weir.example, \"*\", my_host], origins: http://localhost:3000}");
    assert_int_equal(c->http_hosts.len, 3);
    assert_string_equal(c->http_hosts.at[2], "my_host");
    assert_int_equal(c->http_origins.len, 1);
    assert_string_equal(c->http_origins.at[0], "http://localhost:3000");
    config_free(c);
    c = valid("http: {hosts: [], origins: [\"https://a.b\", \"https://[::1]:8443\", app://x]}");
    assert_int_equal(c->http_hosts.len, 0);
    assert_int_equal(c->http_origins.len, 3);
    config_free(c);
    config_free(valid(repeat("http: {hosts: ", 253, "}")));
    invalid(repeat("http: {hosts: ", 254, "}"));
    static const char *const hosts[] = {"http://weir", "weir:80", "\"*.weir\"",
                                        "a b",         "{}",      "[[a]]"};
    static const char *const origins[] = {"app.example",
                                          "https://",
                                          "https://app/",
                                          "https://app.example/x",
                                          "https://App.example",
                                          "https://app.example:443",
                                          "http://app:80",
                                          "https://u@app",
                                          "\"*\"",
                                          "null",
                                          "\"https://*.a\"",
                                          "\"https://a:\""};
    char text[128];
    for (size_t i = 0; i < sizeof hosts / sizeof hosts[0]; i++) {
        snprintf(text, sizeof text, "http: {hosts: [%s]}", hosts[i]);
        invalid(text);
    }
    for (size_t i = 0; i < sizeof origins / sizeof origins[0]; i++) {
        snprintf(text, sizeof text, "http: {origins: [%s]}", origins[i]);
        invalid(text);
    }
    config_free(valid(repeat("policies: {", 64, ": gcra 1/s}")));
    invalid(repeat("policies: {", 65, ": gcra 1/s}"));
}

static void check_variable(const char *yaml, const char *path)
{
    reported t = {0};
    weir_config *c = NULL;
    char expected[160];
    snprintf(expected, sizeof expected,
             "%s: the password begins with '$'; variables are written as in ${NAME}, in capitals",
             path);
    assert_int_equal(parse(yaml, &t, &c), WEIR_OK);
    assert_int_equal(t.warnings, 1);
    assert_string_equal(t.last, expected);
    config_free(c);
}

static void check_variables(void **unused)
{
    (void)unused;
    check_variable("password: '${WEIR_PASSWORD}'", "password");
    check_variable("engine: redis\nredis: {url: 'redis://a', password: $X}", "redis.password");
    check_variable("engine: redis\nredis: {url: 'redis://a', sentinel: {name: a, password: '$X'}}",
                   "redis.sentinel.password");
    config_free(valid("password: a$X"));
}

static void check_passwords(void **unused)
{
    (void)unused;
    weir_config *c = valid("password: \"a \\u00fc'b\"");
    assert_string_equal(c->password, "a \xC3\xBC'b");
    config_free(c);
    c = valid("password: 12345");
    assert_string_equal(c->password, "12345");
    config_free(c);
    config_free(valid(repeat("password: ", 1, "")));
    config_free(valid(repeat("password: ", 512, "")));
    invalid(repeat("password: ", 513, ""));
    invalid("password: \"\"");
    invalid("password:");
    invalid("password: |\n  x\n");
    invalid("password: \"x\\ty\"");
    invalid("password: \"x \"");
    invalid("password: x\npassword_file: y");
    invalid("password_file: ''");
}

/* ---- policies -------------------------------------------------------------------------------- */

static void check_policies(void **unused)
{
    (void)unused;
    weir_config *c = valid("policies:\n"
                           "  login: sliding-log 5/m\n"
                           "  api:\n"
                           "    limit: \"token-bucket 500 refill 100/s\"\n"
                           "    overrides: {big: gcra 9/s, \"trial-*\": gcra 1/s burst 5}\n"
                           "    allow: [\"10.0.0.0/8\"]\n"
                           "    deny: [x, \"y*\"]\n"
                           "    shadow: true\n"
                           "    candidate: gcra  7/s burst 3\n"
                           "    ip: {v4: 24}\n"
                           "  raw: {limit: gcra 1/s, ip: false, deny: []}\n");
    assert_int_equal(c->rules_len, 3);
    const weir_rule_spec *r = c->rules;
    assert_string_equal(r[0].name, "login");
    assert_string_equal(r[0].limit, "sliding-log 5/m");
    assert_int_equal(r[0].overrides_len + r[0].allow_len + r[0].deny_len, 0);
    assert_false(r[0].shadow || r[0].plain_keys);
    assert_int_equal(r[0].v4_bits, 32);
    assert_int_equal(r[0].v6_bits, 64);
    assert_string_equal(r[1].name, "api");
    assert_string_equal(r[1].limit, "token-bucket 500 refill 100/s");
    assert_int_equal(r[1].overrides_len, 2);
    assert_string_equal(r[1].overrides[1].pattern, "trial-*");
    assert_string_equal(r[1].overrides[1].limit, "gcra 1/s burst 5");
    assert_int_equal(r[1].allow_len, 1);
    assert_string_equal(r[1].allow[0], "10.0.0.0/8");
    assert_int_equal(r[1].deny_len, 2);
    assert_string_equal(r[1].deny[1], "y*");
    assert_true(r[1].shadow && !r[1].plain_keys);
    assert_string_equal(r[1].candidate, "gcra  7/s burst 3");
    char text[WEIR_POLICY_TEXT_MAX];
    weir_policy_print(r[1].candidate_policy, text, sizeof text);
    assert_string_equal(text, "gcra 7/s burst 3");
    assert_null(r[0].candidate);
    assert_int_equal(r[1].v4_bits, 24);
    assert_int_equal(r[1].v6_bits, 64);
    assert_true(r[2].plain_keys);
    config_free(c);
    config_free(valid("policies: {a: {limit: gcra 1/s, ip: {v4: 0, v6: 0}}}"));
    config_free(valid("policies: {a: {limit: gcra 1/s, ip: {v4: 32, v6: 128}}}"));
    config_free(valid("policies: {a: {limit: gcra 1/s, ip: true, overrides: , allow: }}"));
    invalid("policies: {a: {limit: gcra 1/s, ip: {v4: 33}}}");
    invalid("policies: {a: {limit: gcra 1/s, ip: {v6: 129}}}");
}

/* Returns HEAD and `n` lines of FORMAT, with the number of the line in place of '#'. */
static char *many_lines(const char *head, const char *format, size_t n)
{
    char *text = NULL;
    size_t len = 0;
    FILE *out = open_memstream(&text, &len);
    assert_non_null(out);
    fputs(head, out);
    for (size_t i = 0; i < n; i++) {
        const char *mark = strchr(format, '#');
        fprintf(out, "%.*s%zu%s\n", (int)(mark - format), format, i, mark + 1);
    }
    fclose(out);
    return text;
}

static const char api[] = "policies:\n  api:\n    limit: gcra 1/s\n    overrides:\n";

static void check_many(void **unused)
{
    (void)unused;
    char *hosts = many_lines("http:\n  hosts:\n", "  - host#", CONFIG_NAMES_MAX + 1);
    invalid(hosts);
    free(hosts);
    hosts = many_lines("http:\n  hosts:\n", "  - host#", CONFIG_NAMES_MAX);
    config_free(valid(hosts));
    free(hosts);
    char *yaml = many_lines(api, "      customer-#: \"token-bucket 5000 refill 1000/s\"", 20000);
    weir_config *c = valid(yaml);
    assert_int_equal(c->rules[0].overrides_len, 20000);
    assert_string_equal(c->rules[0].overrides[19999].pattern, "customer-19999");
    config_free(c);
    free(yaml);
    yaml = many_lines(api, "      c#: gcra 1/s", WEIR_RULE_PATTERNS_MAX);
    config_free(valid(yaml));
    free(yaml);
    yaml = many_lines(api, "      c#: gcra 1/s", WEIR_RULE_PATTERNS_MAX + 1);
    invalid(yaml);
    free(yaml);
    yaml = many_lines("policies:\n", "  p#: gcra 1/s", WEIR_RULES_MAX);
    config_free(valid(yaml));
    free(yaml);
    yaml = many_lines("policies:\n", "  p#: gcra 1/s", WEIR_RULES_MAX + 1);
    invalid(yaml);
    free(yaml);
}

/* Of many errors, the first in the file are reported, and the others are counted. */
static void check_many_errors(void **unused)
{
    (void)unused;
    static const size_t counts[] = {50, 51, 999, 1000, 1001, 20000};
    for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++) {
        reported t = {0};
        weir_config *c = NULL;
        char *yaml = many_lines(api, "      c#: gcra 1/q", counts[i]), expected[100];
        assert_int_equal(parse(yaml, &t, &c), WEIR_E_SYNTAX);
        if (counts[i] == 50) {
            assert_int_equal(t.times, 50);
            assert_non_null(strstr(t.last, "policies.api.overrides.c49: unknown unit"));
        } else {
            snprintf(expected, sizeof expected, ": and %zu more", counts[i] - 50);
            assert_int_equal(t.times, 51);
            assert_string_equal(t.last, expected);
        }
        free(yaml);
    }
}

/* ---- text ------------------------------------------------------------------------------------ */

/* Values and comments may have every character of UTF-8 except control characters, byte order
 * marks, line and paragraph separators, and noncharacters at the end of the first plane. */
static void check_text(void **unused)
{
    (void)unused;
    static const char *const good[] = {"\xC2\xA0",     "\xC3\x84",     "\xC3\xBC",
                                       "\xC4\x80",     "\xDF\xBF",     "\xE2\x80\xA7",
                                       "\xE2\x80\xAA", "\xE2\x82\xAC", "\xE4\xB8\xAD",
                                       "\xEF\xBB\xBE", "\xEF\xBF\xBD", "\xF0\x9F\x98\x80"};
    static const char *const bad[] = {
        "\x01",         "\x1F",         "\x7F",         "\xC2\x80",     "\xC2\x84",     "\xC2\x9F",
        "\xE2\x80\xA8", "\xE2\x80\xA9", "\xEF\xBB\xBF", "\xEF\xBF\xBE", "\xEF\xBF\xBF", "\xC3"};
    char yaml[100];
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
        snprintf(yaml, sizeof yaml, "# %s\npassword: a%sb # %s\n", good[i], good[i], good[i]);
        weir_config *c = valid(yaml);
        snprintf(yaml, sizeof yaml, "a%sb", good[i]);
        assert_string_equal(c->password, yaml);
        config_free(c);
    }
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        snprintf(yaml, sizeof yaml, "# %s\n", bad[i]);
        invalid(yaml);
    }
}

/* ---- files ----------------------------------------------------------------------------------- */

static weir_status load(const char *path, reported *t, weir_config **ret)
{
    const config_sink sink = {count, t};
    *t = (reported){0};
    return config_load(path, true, NULL, &sink, ret);
}

static void write_file(const char *path, const char *text, size_t len)
{
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(text, 1, len, f), len);
    fclose(f);
}

static void check_files(void **unused)
{
    (void)unused;
    char dir[] = "/tmp/weir-config-XXXXXX";
    reported t;
    weir_config *c = NULL;
    assert_non_null(mkdtemp(dir));
    assert_int_equal(chdir(dir), 0);
    assert_int_equal(load("missing.yaml", &t, &c), WEIR_E_IO);
    assert_string_equal(t.last, ": cannot be read: No such file or directory");
    assert_int_equal(load(dir, &t, &c), WEIR_E_IO);
    assert_string_equal(t.last, ": cannot be read: found a directory, expected a regular file");
    assert_int_equal(t.times, 1);

    write_file("secret", "hunter2\r\nmore\n", 14);
    write_file("c.yaml", "password_file: secret\n", 22);
    char path[100];
    snprintf(path, sizeof path, "%s/c.yaml", dir);
    assert_int_equal(chdir("/"), 0); /* the path begins where the file lies */
    assert_int_equal(load(path, &t, &c), WEIR_OK);
    assert_string_equal(c->password, "hunter2");
    config_free(c);
    c = NULL;
    assert_int_equal(chdir(dir), 0);
    assert_int_equal(load("c.yaml", &t, &c), WEIR_OK);
    config_free(c);
    c = NULL;
    write_file("secret", "\nhunter2", 8);
    assert_int_equal(load("c.yaml", &t, &c), WEIR_E_SYNTAX);
    assert_string_equal(t.last, "password_file: the password has 0 bytes, expected 1 to 512");
    enum { SECRET_MAX = 64 << 10 };
    static char secret[SECRET_MAX + 2] = "hunter2\n";
    memset(secret + 8, 'x', sizeof secret - 8);
    write_file("secret", secret, SECRET_MAX);
    assert_int_equal(load("c.yaml", &t, &c), WEIR_OK);
    assert_string_equal(c->password, "hunter2");
    config_free(c);
    c = NULL;
    write_file("secret", secret, SECRET_MAX + 1);
    assert_int_equal(load("c.yaml", &t, &c), WEIR_E_SYNTAX);
    assert_string_equal(t.last, "password_file: cannot read secret: larger than 64 KiB");
    unlink("secret");
    assert_int_equal(load("c.yaml", &t, &c), WEIR_E_SYNTAX);
    assert_string_equal(t.last, "password_file: cannot read secret: No such file or directory");

    char *large = malloc(CONFIG_FILE_MAX + 1);
    assert_non_null(large);
    memset(large, '\n', CONFIG_FILE_MAX + 1);
    memcpy(large, "{}", 2);
    write_file("c.yaml", large, CONFIG_FILE_MAX);
    assert_int_equal(load("c.yaml", &t, &c), WEIR_OK);
    config_free(c);
    c = NULL;
    write_file("c.yaml", large, CONFIG_FILE_MAX + 1);
    assert_int_equal(load("c.yaml", &t, &c), WEIR_E_IO);
    assert_string_equal(t.last, ": cannot be read: larger than 16 MiB");
    free(large);
    unlink("c.yaml");
    assert_int_equal(chdir("/"), 0);
    rmdir(dir);
    assert_null(c);
}

/* ---- failing allocations --------------------------------------------------------------------- */

/* The n-th allocation and all later ones fail, for each n. The only error is "out of memory". */
static void check_failing_allocations(void **unused)
{
    (void)unused;
    static const char *const files[] = {
        "policies: {a: {limit: gcra 1/s, overrides: {b: gcra 2/s, c: gcra 1/s}, allow: [x], key: "
        "$path}, d: gcra 1/s}\nmemory: {size: 8m, file: s}\nredis: {urls: [rediss://a:b@c, "
        "rediss://d], sentinel: "
        "{name: m, user: u, password_file: p}, tls: {ca: c}}\nspoe: {messages: {m: d}}\n"
        "routes: [{path: /, policy: d}]\n",
        "password: x\nthreads: 0\npolicies: {a: gcra 1/q, b: {allow: [1.2.3.4/99]}}\n"
        "redis: {url: redis://a:b@c:x, password_file: p}\n",
    };
    for (size_t i = 0; i < sizeof files / sizeof files[0]; i++) {
        weir_status st = WEIR_E_NOMEM;
        for (size_t n = 0; st == WEIR_E_NOMEM; n++) {
            reported t = {0};
            weir_config *c = NULL;
            memory_fail(n, true);
            st = parse(files[i], &t, &c);
            (void)memory_stop();
            if (st == WEIR_E_NOMEM)
                assert_string_equal(t.last, ": out of memory");
            config_free(c);
            assert_in_range(n, 0, 1000);
        }
        assert_int_equal(st, i == 0 ? WEIR_OK : WEIR_E_SYNTAX);
    }
}

/* `weir serve --redis` reports it, too. */
static void check_failing_url(void **unused)
{
    (void)unused;
    weir_redis_error error = {""};
    weir_config *c = config_default();
    while (weir_arena_alloc(c->arena, 1, 1)) { /* fills the arena, which cannot grow */
        memory_fail(0, true);
    }
    assert_false(config_use_redis(c, "redis://h:1", &error));
    (void)memory_stop();
    assert_string_equal(error.text, "out of memory");
    assert_false(c->has_redis);
    config_free(c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(check_defaults),    cmocka_unit_test(check_addresses),
        cmocka_unit_test(check_listens),     cmocka_unit_test(check_bounds),
        cmocka_unit_test(check_state_file),  cmocka_unit_test(check_names),
        cmocka_unit_test(check_passwords),   cmocka_unit_test(check_variables),
        cmocka_unit_test(check_policies),    cmocka_unit_test(check_many),
        cmocka_unit_test(check_many_errors), cmocka_unit_test(check_text),
        cmocka_unit_test(check_files),       cmocka_unit_test(check_failing_allocations),
        cmocka_unit_test(check_failing_url),
    };
    weir_use_guests();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
