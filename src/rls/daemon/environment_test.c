/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* The variables of envoyproxy/ratelimit: what they set, what is refused, what is explained, and
 * whether docs/envoy.md has the same table.
 *
 *   environment_test DIRECTORY    the root of the repository */

#include "cmd/kit/commands.h"
#include "rls/daemon/guest.h"

#include "cmd/kit/input.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "port/memory_kit_test.h"

static const char *root;

#define ENV(...) ((char *const[]){__VA_ARGS__, NULL})

/* ---- what is set ----------------------------------------------------------------------------- */

static weir_config *apply(char *const *env)
{
    char why[CONFIG_ENVIRONMENT_ERROR_MAX] = "";
    weir_config *c = config_default();
    assert_non_null(c);
    if (!environment_apply(c, env, why))
        fail_msg("refused: %s", why);
    assert_string_equal(why, "");
    return c;
}

static void expect_listens(char *const *env, const char *expected)
{
    char text[512] = "";
    weir_config *c = apply(env);
    for (size_t i = 0, len = 0; i < c->listens_len; i++)
        len += (size_t)snprintf(text + len, sizeof text - len, "%s%s %s%s", i > 0 ? ", " : "",
                                config_protocol(c->listens[i].protocol)->name,
                                c->listens[i].address, c->listens[i].is_public ? " public" : "");
    assert_string_equal(text, expected);
    assert_true(c->insecure);
    assert_int_equal(c->http_hosts.len, 1);
    assert_string_equal(c->http_hosts.at[0], "*");
    config_free(c);
}

static void check_addresses(void **unused)
{
    (void)unused;
    expect_listens(ENV("PATH=/bin"), "grpc 0.0.0.0:8081 public, http 0.0.0.0:8080 public, "
                                     "http 0.0.0.0:6070 public");
    expect_listens(ENV("GRPC_PORT=1", "PORT=2", "DEBUG_PORT=3", "GRPC_HOST=127.0.0.1",
                       "HOST=localhost", "DEBUG_HOST=::1"),
                   "grpc 127.0.0.1:1, http 127.0.0.1:2, http [::1]:3");
    expect_listens(ENV("GRPC_UDS=/run/x.sock", "GRPC_PORT=1", "DEBUG_PORT=8080"),
                   "grpc /run/x.sock, http 0.0.0.0:8080 public");
    expect_listens(ENV("GRPC_PORT=", "HOST=", "PORT=9", "PORT=10"),
                   "grpc 0.0.0.0:8081 public, http 0.0.0.0:9 public, http 0.0.0.0:6070 public");
    expect_listens(ENV("USE_PROMETHEUS=true", "PORT=9", "DEBUG_PORT=9"),
                   "grpc 0.0.0.0:8081 public, http 0.0.0.0:9 public, http 0.0.0.0:9090 public");
    expect_listens(ENV("PORT=1", "DEBUG_PORT=1"),
                   "grpc 0.0.0.0:8081 public, http 0.0.0.0:1 public");
    expect_listens(ENV("PORT=0", "DEBUG_PORT=0"),
                   "grpc 0.0.0.0:8081 public, http 0.0.0.0:0 public, "
                   "http 0.0.0.0:0 public");
    expect_listens(ENV("PORT=1", "DEBUG_PORT=1", "DEBUG_HOST=127.0.0.1"),
                   "grpc 0.0.0.0:8081 public, http 0.0.0.0:1 public, http 127.0.0.1:1");
    expect_listens(ENV("USE_PROMETHEUS=true", "PROMETHEUS_ADDR=[::1]:19", "DEBUG_PORT=8080"),
                   "grpc 0.0.0.0:8081 public, http 0.0.0.0:8080 public, http [::1]:19");
    expect_listens(ENV("USE_PROMETHEUS=true", "DISABLE_STATS=true", "DEBUG_PORT=8080"),
                   "grpc 0.0.0.0:8081 public, http 0.0.0.0:8080 public");
}

static void check_directories(void **unused)
{
    (void)unused;
    weir_config *c = apply(ENV("HOME=/root"));
    assert_string_equal(envoy_settings_of(c)->directory, "/srv/runtime_data/current/config");
    config_free(c);
    c = apply(ENV("RUNTIME_ROOT=/data", "RUNTIME_SUBDIRECTORY=ratelimit"));
    assert_string_equal(envoy_settings_of(c)->directory, "/data/ratelimit/config");
    config_free(c);
    c = apply(ENV("RUNTIME_ROOT=/data", "RUNTIME_SUBDIRECTORY=r/s", "RUNTIME_APPDIRECTORY=app"));
    assert_string_equal(envoy_settings_of(c)->directory, "/data/r/s/app");
    config_free(c);
}

static void check_options(void **unused)
{
    (void)unused;
    weir_config *c = apply(ENV("A=b"));
    const weir_rls_options *o = &envoy_settings_of(c)->options;
    assert_true(o->near_limit_ratio > 0.799 && o->near_limit_ratio < 0.801);
    assert_false(o->headers || o->shadow_mode || o->quota_mode || o->stop_when_over);
    assert_int_equal(o->peeks, WEIR_RLS_PEEKS_ALLOW); /* as the reference */
    assert_false(envoy_settings_of(c)->merge_domains || c->log_json);
    assert_int_equal(c->log_level, WEIR_LOG_INFO);
    assert_null(envoy_settings_of(c)->statsd);
    assert_int_equal(c->grpc_max_age_ns, INT64_C(86400000000000));
    config_free(c);
    c = apply(ENV("NEAR_LIMIT_RATIO=0"));
    assert_true(envoy_settings_of(c)->options.near_limit_ratio > 0 &&
                envoy_settings_of(c)->options.near_limit_ratio < 1e-10);
    config_free(c);
    c = apply(ENV("NEAR_LIMIT_RATIO=0.5", "LIMIT_RESPONSE_HEADERS_ENABLED=T",
                  "LIMIT_LIMIT_HEADER=L", "LIMIT_REMAINING_HEADER=R", "LIMIT_RESET_HEADER=X",
                  "SHADOW_MODE=true", "QUOTA_MODE=1", "SANITIZE_DESCRIPTOR_METRIC_DOTS=1",
                  "RESPONSE_DYNAMIC_METADATA=1", "MERGE_DOMAIN_CONFIG=TRUE",
                  "STOP_CACHE_KEY_INCREMENT_WHEN_OVERLIMIT=t", "LOG_LEVEL=WARN", "LOG_FORMAT=json",
                  "GRPC_MAX_CONNECTION_AGE=1h30m", "GRPC_MAX_CONNECTION_AGE_GRACE=0"));
    o = &envoy_settings_of(c)->options;
    assert_true(o->near_limit_ratio > 0.499 && o->near_limit_ratio < 0.501);
    assert_true(o->headers && o->shadow_mode && o->quota_mode && o->stop_when_over &&
                o->dots_replaced && o->metadata);
    assert_true(envoy_settings_of(c)->merge_domains && c->log_json);
    assert_string_equal(o->limit_header, "L");
    assert_string_equal(o->remaining_header, "R");
    assert_string_equal(o->reset_header, "X");
    assert_int_equal(c->log_level, WEIR_LOG_WARNING);
    assert_int_equal(c->grpc_max_age_ns, INT64_C(5400000000000));
    assert_int_equal(c->grpc_max_age_grace_ns, 0);
    config_free(c);
}

/* As Go reads them. */
static void check_durations(void **unused)
{
    (void)unused;
    static const struct {
        const char *text;
        int64_t ns; /* -1: refused */
    } rows[] = {{"GRPC_MAX_CONNECTION_AGE=1.5h", INT64_C(5400000000000)},
                {"GRPC_MAX_CONNECTION_AGE=24h0m0s", INT64_C(86400000000000)},
                {"GRPC_MAX_CONNECTION_AGE=1m.5s20ms", INT64_C(60520000000)},
                {"GRPC_MAX_CONNECTION_AGE=1.0000000019s", INT64_C(1000000001)},
                {"GRPC_MAX_CONNECTION_AGE=3us7ns", 3007},
                {"GRPC_MAX_CONNECTION_AGE=0", 0},
                {"GRPC_MAX_CONNECTION_AGE=0h0s", 0},
                {"GRPC_MAX_CONNECTION_AGE=10", -1},
                {"GRPC_MAX_CONNECTION_AGE=.s", -1},
                {"GRPC_MAX_CONNECTION_AGE=1d", -1},
                {"GRPC_MAX_CONNECTION_AGE=1h 1m", -1},
                {"GRPC_MAX_CONNECTION_AGE=-1s", -1},
                {"GRPC_MAX_CONNECTION_AGE=99999999999h", -1},
                {"GRPC_MAX_CONNECTION_AGE=1000000h1000000h1000000h1000000h", -1}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        char why[CONFIG_ENVIRONMENT_ERROR_MAX];
        weir_config *c = config_default();
        bool valid = environment_apply(c, ENV((char *)rows[i].text), why);
        assert_int_equal(valid ? c->grpc_max_age_ns : -1, rows[i].ns);
        config_free(c);
    }
}

static void check_log(void **unused)
{
    (void)unused;
    static const struct {
        char *variable;
        weir_log_level level;
    } rows[] = {{"LOG_LEVEL=trace", WEIR_LOG_DEBUG}, {"LOG_LEVEL=Debug", WEIR_LOG_DEBUG},
                {"LOG_LEVEL=INFO", WEIR_LOG_INFO},   {"LOG_LEVEL=warning", WEIR_LOG_WARNING},
                {"LOG_LEVEL=error", WEIR_LOG_ERROR}, {"LOG_LEVEL=fatal", WEIR_LOG_ERROR},
                {"LOG_LEVEL=panic", WEIR_LOG_ERROR}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        weir_config *c = apply(ENV(rows[i].variable, "LOG_FORMAT=TEXT"));
        assert_int_equal(c->log_level, rows[i].level);
        assert_false(c->log_json);
        config_free(c);
    }
}

static void check_tls(void **unused)
{
    (void)unused;
    weir_config *c = apply(ENV("GRPC_SERVER_USE_TLS=true", "GRPC_SERVER_TLS_CERT=c.pem",
                               "GRPC_SERVER_TLS_KEY=k.pem", "GRPC_CLIENT_TLS_CACERT=ca.pem"));
    const config_tls *tls = config_listen_tls(c, &c->listens[0]);
    assert_string_equal(tls->cert, "c.pem");
    assert_string_equal(tls->key, "k.pem");
    assert_string_equal(tls->client_ca, "ca.pem");
    assert_null(config_listen_tls(c, &c->listens[1])); /* HTTP */
    config_free(c);
    c = apply(ENV("GRPC_SERVER_TLS_CERT=c.pem", "GRPC_SERVER_TLS_KEY=k.pem"));
    assert_null(config_listen_tls(c, &c->listens[0]));
    config_free(c);
    for (int ca = 0; ca < 2; ca++) {
        c = apply(ENV("GRPC_SERVER_USE_TLS=1", "GRPC_SERVER_TLS_CERT=c", "GRPC_SERVER_TLS_KEY=k",
                      ca ? "GRPC_CLIENT_TLS_CACERT=a" : "A=b"));
        tls = config_listen_tls(c, &c->listens[0]);
        assert_string_equal(tls->key, "k");
        assert_string_equal(tls->client_ca ? tls->client_ca : "", ca ? "a" : "");
        config_free(c);
    }
}

static void expect_statsd(char *const *env, const char *expected)
{
    weir_config *c = apply(env);
    assert_string_equal(envoy_settings_of(c)->statsd ? envoy_settings_of(c)->statsd : "off",
                        expected);
    config_free(c);
}

static void check_statsd(void **unused)
{
    (void)unused;
    expect_statsd(ENV("STATSD_PORT=1"), "off");
    expect_statsd(ENV("USE_STATSD=true"), "tcp://localhost:8125");
    expect_statsd(ENV("STATSD_HOST=10.0.0.1", "STATSD_PORT=9"), "tcp://10.0.0.1:9");
    expect_statsd(ENV("STATSD_HOST=10.0.0.1", "USE_STATSD=false"), "off");
    expect_statsd(ENV("USE_STATSD=true", "DISABLE_STATS=true"), "off");
    expect_statsd(ENV("USE_STATSD=true", "STATSD_PROTOCOL=udp"), "udp://localhost:8125");
    expect_statsd(ENV("USE_STATSD=false", "USE_DOG_STATSD=true", "STATSD_HOST=a"),
                  "dogstatsd://a:8125");
    expect_statsd(ENV("USE_DOG_STATSD=true", "DISABLE_STATS=true"), "off");
    expect_statsd(ENV("STATSD_HOST=a", "USE_STATSDS=true"), "tcp://a:8125");
    expect_statsd(ENV("STATSD_HOST=a", "USE_STATSD="), "tcp://a:8125");
    expect_statsd(ENV("STATSD_HOSTS=a"), "off");
    weir_config *with_tags = apply(ENV("USE_STATSD=1", "EXTRA_TAGS=zone:a.b:c,build:1,"));
    const statsd_tags *tags = &envoy_settings_of(with_tags)->statsd_tags;
    assert_int_equal(tags->len, 2);
    assert_string_equal(tags->tag[0].key, "build");
    assert_string_equal(tags->tag[0].value, "1");
    assert_string_equal(tags->tag[1].key, "zone");
    assert_string_equal(tags->tag[1].value, "a_b_c");
    config_free(with_tags);
    static const struct {
        char *variable;
        int64_t ns;
    } rows[] = {{"A=b", INT64_C(10000000000)},
                {"STATS_FLUSH_INTERVAL=3s", INT64_C(3000000000)},
                {"STATS_FLUSH_INTERVAL=1ns", 1},
                {"STATS_FLUSH_INTERVAL=0", INT64_C(10000000000)}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        weir_config *c = apply(ENV(rows[i].variable));
        assert_int_equal(envoy_settings_of(c)->statsd_flush_ns, rows[i].ns);
        config_free(c);
    }
}

/* ---- what is refused ------------------------------------------------------------------------- */

static void check_refused(void **unused)
{
    (void)unused;
    static const struct {
        const char *variable, *why;
    } rows[] = {
        {"PORT=x", "PORT: expected a port number, found 'x'"},
        {"GRPC_PORT=65536", "GRPC_PORT: expected a port number, found '65536'"},
        {"HOST=example.com", "HOST: expected an IP address or localhost, found 'example.com'"},
        {"GRPC_UDS=x.sock", "GRPC_UDS: expected an absolute path of at most 107 bytes"},
        {"SHADOW_MODE=yes", "SHADOW_MODE: expected true or false, found 'yes'"},
        {"NEAR_LIMIT_RATIO=1.1",
         "NEAR_LIMIT_RATIO: expected a number from 0 to 1, such as 0.8, found '1.1'"},
        {"NEAR_LIMIT_RATIO=nan",
         "NEAR_LIMIT_RATIO: expected a number from 0 to 1, such as 0.8, found 'nan'"},
        {"GRPC_MAX_CONNECTION_AGE=1x",
         "GRPC_MAX_CONNECTION_AGE: expected a duration, such as 24h or 1m30s, found '1x'"},
        {"LIMIT_LIMIT_HEADER=a b",
         "LIMIT_LIMIT_HEADER: expected the name of a header, found 'a b'"},
        {"LOG_LEVEL=loud", "LOG_LEVEL: expected debug, info, warn or error, found 'loud'"},
        {"LOG_FORMAT=xml", "LOG_FORMAT: expected text or json, found 'xml'"},
        {"PROMETHEUS_ADDR=[::1:9", "PROMETHEUS_ADDR: expected an IP address or localhost, found "
                                   "'[::1'"},
        {"DEBUG_HOST=x", "DEBUG_HOST: expected an IP address or localhost, found 'x'"},
        {"GRPC_HOST=x", "GRPC_HOST: expected an IP address or localhost, found 'x'"},
        {"EXTRA_TAGS=a:b,c", "EXTRA_TAGS: expected a key and a value at 'c'"},
        {"EXTRA_TAGS=a:b,a:c,d:e", "EXTRA_TAGS: the key is given twice at 'a:c'"},
        {"STATSD_PROTOCOL=sctp", "STATSD_PROTOCOL: expected tcp or udp, found 'sctp'"},
        {"GRPC_SERVER_USE_TLS=true",
         "GRPC_SERVER_USE_TLS requires GRPC_SERVER_TLS_CERT and GRPC_SERVER_TLS_KEY"},
        {"CONFIG_TYPE=GRPC_XDS_SOTW",
         "CONFIG_TYPE: expected FILE, found 'GRPC_XDS_SOTW'; weir reads its limits from files"},
        {"PROMETHEUS_ADDR=9090", "PROMETHEUS_ADDR: expected HOST:PORT or :PORT, found '9090'"},
        {"PROMETHEUS_ADDR=:x", "PROMETHEUS_ADDR: expected HOST:PORT or :PORT, found ':x'"},
        {"PROMETHEUS_PATH=/prom", "PROMETHEUS_PATH: expected /metrics, found '/prom'"},
        {"GRPC_CLIENT_TLS_SAN=a",
         "GRPC_CLIENT_TLS_SAN is not supported: weir does not check the names in client "
         "certificates; use a CA that signs only these clients, or unset the variable to accept "
         "every client with a certificate of the CA"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        char why[CONFIG_ENVIRONMENT_ERROR_MAX];
        weir_config *c = config_default();
        assert_false(environment_apply(
            c, ENV((char *)rows[i].variable, "USE_PROMETHEUS=1", "USE_STATSD=1"), why));
        assert_string_equal(why, rows[i].why);
        config_free(c);
    }
}

/* Half of what TLS needs is refused as well, and so is a path of a socket that is too long. */
static void check_halves(void **unused)
{
    (void)unused;
    static const char *const halves[] = {"GRPC_SERVER_TLS_CERT=c", "GRPC_SERVER_TLS_KEY=k"};
    for (size_t i = 0; i < 2; i++) {
        char why[CONFIG_ENVIRONMENT_ERROR_MAX];
        weir_config *c = config_default();
        assert_false(environment_apply(c, ENV("GRPC_SERVER_USE_TLS=1", (char *)halves[i]), why));
        assert_string_equal(
            why, "GRPC_SERVER_USE_TLS requires GRPC_SERVER_TLS_CERT and GRPC_SERVER_TLS_KEY");
        config_free(c);
    }
    for (size_t len = 107; len < 109; len++) {
        char why[CONFIG_ENVIRONMENT_ERROR_MAX], path[128] = "GRPC_UDS=/";
        memset(path + 10, 'x', len - 1);
        path[9 + len] = '\0';
        weir_config *c = config_default();
        assert_int_equal(environment_apply(c, ENV(path), why), len == 107);
        assert_string_equal(len == 107 ? c->listens[0].address : path + 9, path + 9);
        config_free(c);
    }
}

/* The values need blocks of their own in the arena. */
static bool apply_without_memory(uint64_t n, bool later)
{
    static char top[1 << 17] = "RUNTIME_ROOT=/", host[1 << 17] = "STATSD_HOST=h";
    memset(top + strlen(top), 'x', sizeof top - 1 - strlen(top));
    memset(host + strlen(host), 'x', sizeof host - 1 - strlen(host));
    char why[CONFIG_ENVIRONMENT_ERROR_MAX] = "out of memory";
    weir_config *c = config_default();
    memory_fail(n, later);
    bool applied = environment_apply(c, ENV("USE_STATSD=1", top, host), why);
    bool failed = memory_stop();
    assert_int_equal(applied, !failed);
    assert_string_equal(why, "out of memory");
    config_free(c);
    return failed;
}

static void check_memory(void **unused)
{
    (void)unused;
    fail_each_allocation(apply_without_memory);
}

/* ---- what is explained ----------------------------------------------------------------------- */

static void note(void *ctx, bool warning, const char *names, const char *why)
{
    char *text = ctx;
    size_t len = strlen(text);
    snprintf(text + len, 1000 - len, "%s%s: %s\n", warning ? "warning: " : "", names, why);
}

static void check_explained(void **unused)
{
    (void)unused;
    char text[1000] = "";
    environment_explain(ENV("PORT=1", "REDIS_URL=x", "MEMCACHE_SRV=", "BACKEND_TYPE=redis",
                            "REDIS_TYPE=y", "TRACING_ENABLED=false", "EXTRA_TAGS=a:b", "REDIS=z",
                            "REDIS_=z", "REDIS_X=", "XREDIS_X=1", "OTEL_EXPORTER_OTLP_ENDPOINT=h",
                            "DOG_STATSD_MOGRIFIERS_A_PATTERN=x", "USE_DOG_STATSD_MOGRIFIERS=A",
                            "GRPC_SERVER_TLS_CRT=c", "LIMIT_RESET_HEADER=x", "RUNTIME_X",
                            "STATSD_SERVICE_HOST=10.0.0.1", "STATSD_PORT_8125_UDP=x",
                            "LIMIT_X=a_PORT", "UNLIMIT_X=1"),
                        note, text);
    assert_string_equal(
        text,
        "warning: EXTRA_TAGS: tags are sent only to statsd, which is off; set USE_STATSD=true\n"
        "warning: GRPC_SERVER_TLS_CRT: weir does not know this variable; is it misspelt?\n"
        "warning: LIMIT_X: weir does not know this variable; is it misspelt?\n"
        "REDIS_URL,REDIS_TYPE,REDIS_X,BACKEND_TYPE: the counts are in weir's memory. "
        "To share them through Redis, write redis: {url: URL} and engine: "
        "redis in a configuration file\n"
        "MEMCACHE_SRV: weir needs no Memcached\n"
        "OTEL_EXPORTER_OTLP_ENDPOINT: to send traces, write telemetry: {endpoint: URL} in a "
        "configuration file\n"
        "warning: USE_DOG_STATSD_MOGRIFIERS,DOG_STATSD_MOGRIFIERS_A_PATTERN: weir sends the "
        "names of statistics unchanged\n");
    text[0] = '\0';
    environment_explain(ENV("EXTRA_TAGS=a:b", "USE_STATSD=1"), note, text);
    assert_string_equal(text, "");
}

/* ---- docs/envoy.md --------------------------------------------------------------------------- */

/* Finds the line of the table that names a variable, and returns its end, or fails. */
static const char *find_line(const char *table, const char *name, const char **ret_end)
{
    char quoted[80];
    snprintf(quoted, sizeof quoted, "`%s`", name);
    for (const char *line = table; *line == '|'; line = *ret_end + 1) {
        *ret_end = line + strcspn(line, "\n");
        const char *cell = strchr(line + 1, '|'), *at = strstr(line, quoted);
        if (at && at < cell)
            return cell;
    }
    fail_msg("docs/envoy.md has no line for %s", name);
    return NULL;
}

/* The table of docs/envoy.md has each variable, with its key. */
static void check_documented(void **unused)
{
    (void)unused;
    char path[512], *text = NULL;
    size_t len;
    snprintf(path, sizeof path, "%s/docs/envoy.md", root);
    assert_null(input_read(path, 1 << 20, &text, &len));
    const char *table = strstr(text, "\n| variable |");
    assert_non_null(table);
    size_t named = 0;
    for (size_t i = 0; i < environment_rows_len; i++) {
        const environment_row *row = &environment_rows[i];
        const char *end = NULL, *cell = find_line(table + 1, row->name, &end);
        char expected[80];
        snprintf(expected, sizeof expected, row->key ? "| `%s` |" : "| -", row->key);
        if (strncmp(cell, expected, strlen(expected)) != 0)
            fail_msg("%s: expected '%s', found '%.*s'", row->name, expected, (int)(end - cell),
                     cell);
    }
    for (const char *line = strstr(table, "\n| --- "), *end; line[1] == '|'; line = end) {
        end = line + 1 + strcspn(line + 1, "\n");
        const char *cell = strchr(line + 2, '|');
        for (const char *at = line; (at = strchr(at + 1, '`')) && at < cell; named++)
            at = strchr(at + 1, '`');
    }
    assert_int_equal(named, environment_rows_len);
    free(text);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(check_addresses), cmocka_unit_test(check_directories),
        cmocka_unit_test(check_options),   cmocka_unit_test(check_tls),
        cmocka_unit_test(check_statsd),    cmocka_unit_test(check_refused),
        cmocka_unit_test(check_explained), cmocka_unit_test(check_documented),
        cmocka_unit_test(check_durations), cmocka_unit_test(check_log),
        cmocka_unit_test(check_halves),    cmocka_unit_test(check_memory),
    };
    weir_use_guests();
    root = argc == 2 ? argv[1] : ".";
    return cmocka_run_group_tests_name("environment", tests, NULL, NULL);
}
