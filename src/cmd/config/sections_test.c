/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* What valid sections store, and the longest values: envoy, grpc, headers, denied,
 * routes, spoe, trusted_proxies and tls. errors_test.txt has the errors. */

#include "cmd/config/keys.h"
#include "cmd/config/kit_test.h"
#include "cmd/kit/commands.h"
#include "codec/answer/fields.h"
#include "codec/spop/daemon/guest.h"
#include "codec/spop/session.h"
#include "rls/daemon/guest.h"
#include "tests/kit/kit.h"

#include <sys/stat.h>
#include <unistd.h>

/* ---- the longest values ---------------------------------------------------------------------- */

#define POLICY(name) name ": gcra 1/s, "
#define SEVENTEEN                                                                                  \
    "policies: {" POLICY("p0") POLICY("p1") POLICY("p2") POLICY("p3") POLICY("p4") POLICY("p5")    \
        POLICY("p6") POLICY("p7") POLICY("p8") POLICY("p9") POLICY("p10") POLICY("p11")            \
            POLICY("p12") POLICY("p13") POLICY("p14") POLICY("p15") POLICY("p16") "}\n"

/* `most` repetitions are valid, and one more is an error with PART. */
static void check_longest_values(void **unused)
{
    (void)unused;
    static const struct {
        const char *head, *each, *tail;
        size_t most;
        const char *part;
    } rows[] = {
        {"headers: ietf\ndenied: {type: a/", "b", "}", 126, "in at most 128 bytes of ASCII"},
        {"envoy: {headers: {limit: ", "a", "}}", CONFIG_NAME_MAX, "of at most 64 bytes"},
        {"envoy: {near_limit_ratio: 0.", "5", "}", 38, "expected a number above 0"},
        {"routes: [{path: /", "a", "}]", CONFIG_ROUTE_PATH_MAX - 1, "at most 1024 bytes"},
        {"routes: [{method: ", "A", "}]", WEIR_ROUTE_METHOD_MAX, "a method in upper case"},
        {"routes: [{host: ", "a", "}]", WEIR_ROUTE_HOST_MAX, "a host name without a port"},
        {"routes: [{name: ", "a", "}]", WEIR_RULE_NAME_MAX, "a name of 1 to 64 letters"},
        {"routes: [{method: [", "A, ", "]}]", WEIR_ROUTE_LIST_MAX,
         "routes[0].method: 65 entries, expected at most 64"},
        {"routes: [{host: [", "a%zu, ", "]}]", WEIR_ROUTE_LIST_MAX,
         "routes[0].host: 65 entries, expected at most 64"},
        {SEVENTEEN "routes: [{policies: [", "p%zu, ", "]}]", WEIR_ROUTE_POLICIES_MAX,
         "routes[0].policies: 17 entries, expected at most 16"},
        {"routes: [", "{path: /%zu}, ", "]", WEIR_ROUTES_MAX,
         "expected a list of at most 1024 routes"},
        {API "spoe: {messages: {", "a", ": api}}", WEIR_SPOP_NAME_MAX,
         "expected a name of 1 to 128 bytes, found 129"},
        {API "spoe: {messages: {", "a%zu: api, ", "}}", WEIR_SPOP_MESSAGES_MAX,
         "expected a map of at most 1024 messages"},
        {"redis: {url: redis://h, prefix: ", "p", "}", WEIR_REDIS_PREFIX_MAX,
         "redis.prefix: expected at most "},
        {"redis: {urls: [", "redis://h%zu, ", "]}", WEIR_REDIS_URLS_MAX, "URLs, expected 1 to "},
        {"trusted_proxies: [", "10.0.0.1, ", "]", WEIR_TRUSTED_PROXIES_MAX,
         "trusted_proxies: 1025 entries, expected at most 1024"},
    };
    for (size_t i = 0; i < CONFIG_LENGTH(rows); i++) {
        char *most = repeated(rows[i].head, rows[i].each, rows[i].most, rows[i].tail);
        char *more = repeated(rows[i].head, rows[i].each, rows[i].most + 1, rows[i].tail);
        config_free(valid(most));
        invalid(more, rows[i].part);
        free(most);
        free(more);
    }
}

/* ---- envoy and grpc -------------------------------------------------------------------------- */

static void check_ratios(void **unused)
{
    (void)unused;
    static const struct {
        const char *text;
        double ratio;
    } rows[] = {{"1", 1}, {"1.0", 1}, {"1.", 1}, {"0.75", 0.75}, {".25", 0.25}, {"000.5", 0.5}};
    for (size_t i = 0; i < CONFIG_LENGTH(rows); i++) {
        char yaml[100];
        snprintf(yaml, sizeof yaml, "envoy: {near_limit_ratio: %s}", rows[i].text);
        weir_config *c = valid(yaml);
        assert_true(envoy_settings_of(c)->options.near_limit_ratio == rows[i].ratio);
        config_free(c);
    }
}

static void check_envoy(void **unused)
{
    (void)unused;
    weir_config *c = valid("envoy: {config: x, statsd: 'udp://h:1', statsd_flush: 1s, "
                           "headers: {enabled: true, flavour: [ietf, github], limit: A, "
                           "remaining: B, reset: C}, shadow_mode: true, peek_at_limit: allow}\n"
                           "grpc: {max_connection_age: 365d, max_connection_age_grace: off}");
    assert_string_equal(envoy_settings_of(c)->directory, "x");
    assert_string_equal(envoy_settings_of(c)->statsd, "udp://h:1");
    assert_int_equal(envoy_settings_of(c)->statsd_flush_ns, CONFIG_S_NS);
    const weir_rls_options *o = &envoy_settings_of(c)->options;
    assert_true(o->headers && o->shadow_mode && !o->quota_mode && !o->stop_when_over);
    assert_int_equal(o->flavours, WEIR_HEADERS_IETF | WEIR_HEADERS_GITHUB);
    assert_int_equal(o->peeks, WEIR_RLS_PEEKS_ALLOW);
    assert_string_equal(o->limit_header, "A");
    assert_string_equal(o->remaining_header, "B");
    assert_string_equal(o->reset_header, "C");
    assert_int_equal(c->grpc_max_age_ns, 365 * 86400 * CONFIG_S_NS);
    assert_int_equal(c->grpc_max_age_grace_ns, 0);
    config_free(c);
    c = valid(
        "envoy: {statsd: off, statsd_flush: 1d, headers: {flavour: none, retry_spread: 10%}}");
    assert_int_equal(envoy_settings_of(c)->options.retry_spread, 10);
    assert_null(envoy_settings_of(c)->statsd);
    assert_null(envoy_settings_of(c)->directory);
    assert_int_equal(envoy_settings_of(c)->statsd_flush_ns, 86400 * CONFIG_S_NS);
    assert_int_equal(envoy_settings_of(c)->options.flavours, WEIR_HEADERS_NONE);
    assert_false(envoy_settings_of(c)->options.headers);
    config_free(c);
    c = valid("");
    assert_int_equal(envoy_settings_of(c)->statsd_flush_ns, 10 * CONFIG_S_NS);
    assert_int_equal(c->grpc_max_age_ns, 86400 * CONFIG_S_NS);
    assert_int_equal(c->grpc_max_age_grace_ns, 3600 * CONFIG_S_NS);
    assert_non_null(envoy_settings_of(c)->rls);
    config_free(c);
}

/* Limits and policies have the default engine, unless their section has another. */
static void check_engines(void **unused)
{
    (void)unused;
    static const struct {
        const char *rest;
        weir_engine_kind envoy, policy;
    } rows[] = {
        {"", WEIR_ENGINE_LOCAL, WEIR_ENGINE_LOCAL},
        {"engine: redis\n", WEIR_ENGINE_REDIS, WEIR_ENGINE_REDIS},
        {"engine: redis\nenvoy: {shadow_mode: true}\n", WEIR_ENGINE_REDIS, WEIR_ENGINE_REDIS},
        {"engine: redis\nenvoy: {engine: local}\n", WEIR_ENGINE_LOCAL, WEIR_ENGINE_REDIS},
        {"envoy: {engine: hybrid, on_error: closed}\n", WEIR_ENGINE_HYBRID, WEIR_ENGINE_LOCAL},
    };
    for (size_t i = 0; i < CONFIG_LENGTH(rows); i++) {
        char yaml[300];
        snprintf(yaml, sizeof yaml, "redis: {url: redis://h}\n" API "%s", rows[i].rest);
        weir_config *c = valid(yaml);
        assert_int_equal(envoy_settings_of(c)->options.engine, rows[i].envoy);
        assert_int_equal(c->rules[0].engine, rows[i].policy);
        config_free(c);
    }
}

/* ---- headers and denied ---------------------------------------------------------------------- */

static void check_answers(void **unused)
{
    (void)unused;
    weir_config *c = valid(
        "headers: [ietf, openai]\nretry_spread: 100%\n"
        "denied: {status: 400, type: text/html; charset=utf-8, body: 'in {retry_after} s'}\n"
        "listen: {http: [{address: 1, headers: none, retry_spread: 0%, denied: {status: "
        "599}}, 2]}\n"
        "policies: {a: {limit: gcra 1/s, headers: x-ratelimit, retry_spread: 10%, unit: tokens, "
        "denied: {body: x}}}");
    assert_int_equal(c->answer.retry_spread, 101);
    assert_int_equal(c->listens[0].answer.retry_spread, 1);
    assert_int_equal(c->listens[1].answer.retry_spread, 0);
    assert_int_equal(c->rules[0].answer.retry_spread, 11);
    assert_int_equal(c->answer.headers, WEIR_HEADERS_IETF | WEIR_HEADERS_OPENAI);
    assert_int_equal(c->answer.denied_status, 400);
    assert_string_equal(c->answer.denied_type, "text/html; charset=utf-8");
    assert_string_equal(c->answer.denied_body, "in {retry_after} s");
    assert_int_equal(c->listens[0].answer.headers, WEIR_HEADERS_NONE);
    assert_int_equal(c->listens[0].answer.denied_status, 599);
    assert_int_equal(c->listens[1].answer.headers, 0);
    assert_int_equal(c->listens[1].answer.denied_status, 0);
    assert_int_equal(c->rules[0].answer.headers, WEIR_HEADERS_X_RATELIMIT);
    assert_int_equal(c->rules[0].answer.unit, WEIR_UNIT_TOKENS);
    assert_string_equal(c->rules[0].answer.denied_body, "x");
    assert_null(c->rules[0].answer.denied_type);
    config_free(c);
    c = valid("denied: {body_file: x}"); /* files are not read here */
    assert_string_equal(c->answer.denied_body, "file");
    config_free(c);
}

/* Reads `text` as a body_file. Returns its errors. */
static const char *read_body(const char *text, char **ret_body)
{
    weir_config *c = NULL;
    write_file("body", text);
    weir_status st = parse("denied: {body_file: body}", "t.yaml", true, &c);
    *ret_body = st == WEIR_OK ? strdup(c->answer.denied_body) : NULL;
    config_free(c);
    errors[strcspn(errors, "\n")] = '\0';
    return errors;
}

#define BODY_ERROR "t.yaml:1:21: error: denied.body_file: "

static void check_body_files(void **unused)
{
    (void)unused;
    char *body, *most = repeated("", "a", WEIR_DENIAL_BODY_MAX, "");
    char *more = repeated("", "a", WEIR_DENIAL_BODY_MAX + 1, "");
    assert_string_equal(read_body("{policy}\n\n{limit}\n", &body), "");
    assert_string_equal(body, "{policy}\n\n{limit}\n");
    free(body);
    assert_string_equal(read_body(most, &body), "");
    assert_string_equal(body, most);
    free(body);
    assert_string_equal(read_body(more, &body), BODY_ERROR "cannot read body: larger than 16 KiB");
    assert_string_equal(read_body("{polcy}", &body),
                        BODY_ERROR "body:1:1: unknown placeholder {polcy}, did you mean {policy}?");
    assert_string_equal(read_body("{limit}\n\n a{polcy}", &body),
                        BODY_ERROR "body:3:3: unknown placeholder {polcy}, did you mean {policy}?");
    unlink("body");
    weir_config *c = NULL;
    assert_int_equal(parse("denied: {body_file: body}", "t.yaml", true, &c), WEIR_E_SYNTAX);
    assert_non_null(strstr(errors, BODY_ERROR "cannot read body: No such file"));
    free(most);
    free(more);
}

/* ---- many rules ------------------------------------------------------------------------------ */

/* Policies and limits of envoy.config are at most WEIR_RULES_MAX rules. */
static void check_rules_max(void **unused)
{
    (void)unused;
    static const struct {
        size_t policies, descriptors;
        const char *error;
    } rows[] = {
        {WEIR_RULES_MAX - 2, 2, NULL},
        {WEIR_RULES_MAX - 1, 2,
         ":1:1: error: 8191 policies and 2 limits of envoy.config, expected at most 8192 of both"},
    };
    assert_int_equal(mkdir("limits", 0700), 0);
    for (size_t i = 0; i < CONFIG_LENGTH(rows); i++) {
        weir_config *c = NULL;
        write_many("limits/a.yaml", "domain: d\ndescriptors:\n",
                   "  - {key: k%zu, rate_limit: {unit: day, requests_per_unit: 5}}\n",
                   rows[i].descriptors);
        char *yaml = repeated("envoy: {config: limits}\npolicies:\n", "  p%zu: gcra 1/s\n",
                              rows[i].policies, "");
        weir_status st = parse(yaml, "t.yaml", true, &c);
        free(yaml);
        assert_int_equal(st, rows[i].error ? WEIR_E_SYNTAX : WEIR_OK);
        if (rows[i].error ? !strstr(errors, rows[i].error) : errors[0] != '\0')
            fail_msg("row %zu: %s", i, errors);
        config_free(c);
    }
    (void)unlink("limits/a.yaml");
    (void)rmdir("limits");
}

static void check_bytes_max(void **unused)
{
    (void)unused;
    char *yaml = malloc(CONFIG_FILE_MAX + 1);
    weir_config *c = NULL;
    char text[100] = "";
    FILE *out = fmemopen(text, sizeof text, "w");
    assert_true(yaml && out);
    memset(yaml, '#', CONFIG_FILE_MAX + 1);
    memcpy(yaml, "{}\n", 3);
    const config_sink sink = config_print_to(out);
    assert_int_equal(config_parse(yaml, CONFIG_FILE_MAX, "t.yaml", false, NULL, &sink, &c),
                     WEIR_OK);
    config_free(c);
    assert_int_equal(config_parse(yaml, CONFIG_FILE_MAX + 1, "t.yaml", false, NULL, &sink, &c),
                     WEIR_E_SYNTAX);
    fclose(out);
    assert_string_equal(text, "t.yaml: error: larger than 16 MiB\n");
    free(yaml);
}

/* ---- routes and spoe ------------------------------------------------------------------------- */

static void check_routes(void **unused)
{
    (void)unused;
    weir_config *c = valid(
        API
        "routes:\n"
        "  - {name: a, host: [h, '*.h', '[::1]'], method: GET, path: /v1, policy: api, cost: 7, "
        "keep: 20%}\n"
        "  - {path: /v1, method: GET}\n"
        "  - {method: [PUT, POST], policies: [api], cost: 1, keep: 30}\n"
        "  - {path: /*/x%7B%2F}\n"
        "  - {}\n"
        "http: {encoded_slash: keep}\n");
    assert_int_equal(c->encoded_slash, WEIR_SLASH_KEEP);
    assert_int_equal(c->routes_len, 5);
    const weir_route_spec *r = c->routes;
    assert_string_equal(r[0].name, "a");
    assert_int_equal(r[0].hosts_len, 3);
    assert_string_equal(r[0].hosts[2], "[::1]");
    assert_int_equal(r[0].methods_len, 1);
    assert_string_equal(r[0].methods[0], "GET");
    assert_string_equal(r[0].path, "/v1");
    assert_int_equal(r[0].policies_len, 1);
    assert_string_equal(r[0].policies[0], "api");
    assert_int_equal(r[0].cost, 7);
    assert_int_equal(r[0].keep, WEIR_KEEP_PERCENT(20));
    assert_int_equal(r[2].keep, 30);
    assert_int_equal(r[4].keep, 0);
    assert_int_equal(r[2].hosts_len, 0);
    assert_int_equal(r[2].methods_len, 2);
    assert_string_equal(r[2].methods[1], "POST");
    assert_int_equal(r[2].policies_len, 1);
    assert_int_equal(r[4].cost, 1);
    assert_true(!r[4].name && !r[4].path && r[4].policies_len == 0);
    config_free(c);
    config_free(valid("routes:"));
}

static void check_templates(void **unused)
{
    (void)unused;
    weir_config *c = valid("policies: {a: {limit: gcra 1/s, key: "
                           "'$client/$method/$host/$path/$route/$policy/$header.cookie/"
                           "$header.Authorization'}}");
    assert_string_equal(c->rules[0].key, "$client/$method/$host/$path/$route/$policy/"
                                         "$header.cookie/$header.Authorization");
    config_free(c);
}

static void check_spoe(void **unused)
{
    (void)unused;
    weir_config *c = valid(
        API
        "spoe: {variables: [limit, remaining], messages: {a: api, "
        "b: {policy: api, key: $src, cost: 2147483647}, c: {policy: $p, cost: $c, keep: 20%}}}");
    const spoe_settings *spoe = config_options(c, &spoe_guest);
    assert_int_equal(spoe->variables, weir_spop_variable("allowed", 7) |
                                          weir_spop_variable("limit", 5) |
                                          weir_spop_variable("remaining", 9));
    assert_int_equal(spoe->len, 3);
    assert_non_null(spoe->messages);
    const weir_spop_spec *s = spoe->specs;
    assert_string_equal(s[0].name, "a");
    assert_string_equal(s[0].policy, "api");
    assert_true(!s[0].key && !s[0].cost);
    assert_string_equal(s[1].policy, "api");
    assert_string_equal(s[1].key, "$src");
    assert_string_equal(s[1].cost, "2147483647");
    assert_string_equal(s[2].policy, "$p");
    assert_string_equal(s[2].cost, "$c");
    assert_int_equal(s[1].keep, 0);
    assert_int_equal(s[2].keep, WEIR_KEEP_PERCENT(20));
    config_free(c);
    c = valid("spoe:\n  messages:\n");
    spoe = config_options(c, &spoe_guest);
    assert_int_equal(spoe->len, 0);
    assert_int_equal(spoe->variables, 0);
    config_free(c);
}

/* ---- proxies and tls ------------------------------------------------------------------------- */

static void check_networks(void **unused)
{
    (void)unused;
    weir_config *c = valid("trusted_proxies: [10.0.0.7, 10.0.0.0/8, '::1', 'fd00::/8']");
    static const struct {
        bool v6;
        unsigned bits;
        uint8_t first;
    } rows[] = {{false, 32, 10}, {false, 8, 10}, {true, 128, 0}, {true, 8, 0xFD}};
    assert_int_equal(c->trusted_proxies.len, 4);
    for (size_t i = 0; i < 4; i++) {
        assert_int_equal(c->trusted_proxies.at[i].address.v6, rows[i].v6);
        assert_int_equal(c->trusted_proxies.at[i].bits, rows[i].bits);
        assert_int_equal(c->trusted_proxies.at[i].address.bytes[0], rows[i].first);
    }
    config_free(c);
}

static void check_tls(void **unused)
{
    (void)unused;
    weir_config *c =
        valid("tls: {cert: c, key: k, client_ca: a}\n"
              "listen: {resp: [1, {address: 2, tls: off}, {address: 3, tls: {cert: d, key: l}}], "
              "grpc: /run/g, unix: /run/u}\n");
    static const char *const certs[] = {"c", NULL, "d", NULL, NULL};
    assert_int_equal(c->listens_len, 5);
    for (size_t i = 0; i < 5; i++) {
        const config_tls *tls = config_listen_tls(c, &c->listens[i]);
        assert_string_equal(tls ? tls->cert : "none", certs[i] ? certs[i] : "none");
    }
    assert_string_equal(c->listens[0].tls.cert ? "own" : "default", "default");
    assert_string_equal(config_listen_tls(c, &c->listens[0])->client_ca, "a");
    assert_string_equal(config_listen_tls(c, &c->listens[2])->key, "l");
    assert_null(config_listen_tls(c, &c->listens[2])->client_ca);
    config_free(c);
    c = valid("tls: off\nlisten: {resp: 1}");
    assert_null(config_listen_tls(c, &c->listens[0]));
    config_free(c);
}

/* ---- limits ---------------------------------------------------------------------------------- */

/* Only a daemon that other machines can reach waits for load balancers, unless the file says so. */
static void check_grace(void **unused)
{
    (void)unused;
    static const struct {
        const char *yaml;
        int64_t grace_ns;
    } rows[] = {
        {"listen: {http: 0.0.0.0:8080}\ninsecure: true\n", 5000000000},
        {"listen: {resp: 6380, http: 0.0.0.0:8080}\ninsecure: true\n", 5000000000},
        {"listen: {http: 127.0.0.1:8080, unix: /run/weir.sock}\n", 0},
        {"listen: {http: 8080}\nlimits: {grace: 2s}\n", 2000000000},
        {"listen: {http: 8080}\nlimits: {grace: 5s}\n", 5000000000},
        {"listen: {http: 0.0.0.0:8080}\ninsecure: true\nlimits: {grace: off}\n", 0},
        {"listen: {http: 0.0.0.0:8080}\ninsecure: true\nlimits: {grace: 1m}\n", 60000000000},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        weir_config *c = valid(rows[i].yaml);
        assert_int_equal(config_grace_ns(c), rows[i].grace_ns);
        config_free(c);
    }
}

static int drop_errors(void **unused)
{
    free(errors);
    return remove_dir(unused);
}

/* ---- limits ---------------------------------------------------------------------------------- */

static void expect_limits(const char *yaml, int per_address, uint64_t buffers, const char *warning)
{
    weir_config *c = NULL;
    assert_int_equal(parse(yaml, "t.yaml", false, &c), WEIR_OK);
    assert_int_equal(c->per_address, per_address);
    assert_int_equal(c->buffers_bytes, buffers);
    if (warning[0] ? !strstr(errors, warning) : errors[0] != '\0')
        fail_msg("expected '%s', found: %s", warning, errors);
    config_free(c);
}

/* The defaults of limits fit the others; limits of the file that do not fit are a warning. */
static void check_limits_that_fit(void **unused)
{
    (void)unused;
    static const uint64_t kib = 1 << 10, mib = 1 << 20;
#define TLS       "tls: {cert: c, key: k}\n"
#define NO_LIMITS "listen.grpc: every request is allowed"
    expect_limits("", 1000, 256 * mib, "");
    expect_limits("limits: {connections: 159}", 16, 256 * mib, "");
    expect_limits("limits: {connections: 160}", 16, 256 * mib, "");
    expect_limits("limits: {connections: 100000}", 10000, 256 * mib, "");
    expect_limits("limits: {connections: 100000}\n" TLS, 10000, 1600000 * kib, "");
    expect_limits("listen: {grpc: 8081}", 1000, 320000 * kib, NO_LIMITS);
    expect_limits("listen: {grpc: 8081}\n" TLS, 1000, 480000 * kib, NO_LIMITS);
    expect_limits("listen: {grpc: 8081}\nlimits: {connections: 5000, per_address: off}", 0,
                  256 * mib, NO_LIMITS);
    expect_limits("limits: {connections: 50, per_address: 50}", 50, 256 * mib,
                  "limits.per_address: this has no effect, because limits.connections is 50");
    expect_limits("listen: {resp: 0.0.0.0:1}\ninsecure: true\nlimits: {connections: 50, "
                  "per_address: 49}",
                  49, 256 * mib, "");
    expect_limits("listen: {grpc: 8081}\nlimits: {connections: 1024, buffers: 31m}", 102, 31 * mib,
                  "limits.buffers: 1024 idle connections need 32m, so some would be closed");
    expect_limits("listen: {grpc: 8081}\nlimits: {connections: 1024, buffers: 32m}", 102, 32 * mib,
                  NO_LIMITS);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(check_limits_that_fit), cmocka_unit_test(check_longest_values),
        cmocka_unit_test(check_ratios),          cmocka_unit_test(check_envoy),
        cmocka_unit_test(check_engines),         cmocka_unit_test(check_answers),
        cmocka_unit_test(check_body_files),      cmocka_unit_test(check_rules_max),
        cmocka_unit_test(check_bytes_max),       cmocka_unit_test(check_routes),
        cmocka_unit_test(check_templates),       cmocka_unit_test(check_spoe),
        cmocka_unit_test(check_networks),        cmocka_unit_test(check_tls),
        cmocka_unit_test(check_grace),
    };
    weir_use_guests();
    return cmocka_run_group_tests_name("config-sections", tests, make_dir, drop_errors);
}
