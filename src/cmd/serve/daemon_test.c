/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* What the daemon logs and reports: its start, reloads, steps of the clock, the state file, and its
 * metrics. The server and the clock are fakes (see meson.build). */

#define _GNU_SOURCE /* memfd_create */

#include "cmd/kit/commands.h"
#include "cmd/serve/daemon_kit_test.h"
#include "cmd/serve/parts.h"
#include "port/dial.h"
#include "service/service_internal.h"

#include <sys/stat.h>

#include <string.h>
#include <unistd.h>

/* ---- the start ------------------------------------------------------------------------------- */

static void check_metrics(void)
{
    static const struct {
        const char *name;
        int64_t value;
    } rows[] = {
        {"weir_start_time_seconds", 1763715600},
        {"weir_connections", 101},
        {"weir_connections_max", 99},
        {"weir_connections_accepted_total", 102},
        {"weir_connections_refused_total", 103},
        {"weir_connections_refused_per_address_total", 110},
        {"weir_connections_overloaded_total", 104},
        {"weir_connections_timed_out_total", 105},
        {"weir_connections_bad_proxy_header_total", 109},
        {"weir_network_received_bytes_total", 106},
        {"weir_network_sent_bytes_total", 107},
        {"weir_buffered_bytes", 108},
        {"weir_reloads_total", 0},
        {"weir_reloads_refused_total", 0},
        {"weir_store_file_lost", -1},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        assert_int_equal(metric(rows[i].name), rows[i].value);
    assert_int_equal(metric("weir_wrong_passwords_total{protocol=\"resp\"}"), 0);
    for (unsigned i = 0; i < 2; i++) {
        const protocol_loop *l = fake.server.contexts[i];
        assert_int_equal(l->i, i);
        assert_int_equal(l->loops, 2);
        assert_int_equal(l->resp.first_id, i + 1);
        assert_int_equal(l->config->connections, 99);
        assert_ptr_equal(l->failures, fake.loop->failures);
        assert_true(l->daemon == fake.loop->daemon && l->metrics && l->not_ready);
        assert_ptr_equal(l->streams, fake.loop->streams);
        assert_int_equal(l->http.started_ns, test_now_ns);
        weir_resp_server server;
        l->resp.server(l->resp.server_ctx, &server);
        assert_int_equal(server.uptime_s, 0);
        assert_int_equal(server.connections, 101);
        assert_int_equal(server.connections_max, 99);
        assert_int_equal(server.rejected, 103);
        assert_int_equal(server.rejected_address, 110);
    }
    assert_int_equal(fake.servers_closed, 0);
    logged(STARTED);
    fake.server.tick(fake.server.ctx);
    logged("");
    assert_false(sigbus_is_watched());
}

static void start(void **unused)
{
    (void)unused;
    assert_int_equal(run(NULL, CONFIG, check_metrics), 0);
    logged("");
    assert_int_equal(fake.servers_closed, 1);
    assert_string_equal(ready_addresses, "1.1.1.1:1,1.1.1.1:2 ");
    assert_int_equal(fake.server.listens_len, 2);
    assert_int_equal(fake.server.loops, 2);
    assert_int_equal(fake.server.limits.connections, 99);
    assert_int_equal(fake.server.limits.buffers, 33 << 20);
    assert_int_equal(fake.server.limits.idle_ns, 1000000000);
    assert_int_equal(fake.server.limits.request_ns, 2000000000);
    assert_int_equal(fake.server.limits.write_ns, INT64_C(3000000000));
    assert_int_equal(fake.server.limits.drain_ns, INT64_C(4000000000));
    assert_null(fake.server.begin);
    assert_int_equal(fake.server.beat_ns, 0);
    assert_non_null(fake.server.passed);
    assert_true(fake.server.limits.any_proxy); /* none is trusted */
    assert_int_equal(fake.server.limits.request, 1 << 21);
}

static void check_listens(void)
{
    static const char *const addresses[] = {"127.0.0.1:1", "127.0.0.1:2", "127.0.0.1:3"};
    for (size_t i = 0; i < 3; i++) {
        assert_string_equal(fake.server.listens[i].address, addresses[i]);
        assert_ptr_equal(fake.server.listens[i].protocol,
                         &protocol_of(i < 2 ? PROTOCOL_RESP : PROTOCOL_HTTP)->session);
    }
}

/* All that a configuration can change, and the largest number of threads. */
static void start_with_all(void **unused)
{
    (void)unused;
    fake.cores = 1000;
    fake.opened = check_listens;
    assert_int_equal(run(NULL,
                         "listen: {resp: ['127.0.0.1:1', '127.0.0.1:2'], http: '127.0.0.1:3'}\n"
                         "memory: {size: 8m}\ntop: {keys: 7, memory: 2m}\n",
                         NULL),
                     0);
    logged("info started version=" WEIR_VERSION
           " resp=1.1.1.1:1,1.1.1.1:2 http=/3 policies=0 memory_bytes=8388608 threads=256\n");
    assert_string_equal(ready_addresses, "1.1.1.1:1,1.1.1.1:2 /3");
    assert_int_equal(fake.server.loops, 256);
    assert_int_equal(fake.top.keys, 7);
    assert_int_equal(fake.top.memory_bytes, 2 << 20);
    fake.cores = 3;
    fake.opened = NULL;
    assert_int_equal(run(NULL, "memory: {size: 8m}\n", NULL), 0);
    assert_int_equal(fake.server.loops, 3);
    log_read = lseek(log_fd, 0, SEEK_END);
}

/* 99 connections, 2 loops with 2 listeners each. */
static void few_descriptors(void **unused)
{
    (void)unused;
    fake.descriptors = 99 + 2 * (2 + 16) + 64;
    assert_int_equal(run(NULL, CONFIG, NULL), 0);
    logged(STARTED);
    fake.descriptors--;
    assert_int_equal(run(NULL, CONFIG, NULL), 0);
    logged("warning few-descriptors connections=99 wanted=199 available=198 "
           "text=\"limits.connections does not fit the limit on open files; raise the hard limit "
           "(LimitNOFILE=, ulimit -Hn) or lower limits.connections\"\n" STARTED);
}

/* A variable of the service manager that is malformed. */
static void bad_variable(void **unused)
{
    (void)unused;
    assert_int_equal(setenv("NOTIFY_SOCKET", "here", 1), 0);
    assert_int_equal(run(NULL, CONFIG, NULL), 1);
    failed_to_start("NOTIFY_SOCKET='here': expected a path");
    assert_int_equal(unsetenv("NOTIFY_SOCKET"), 0);
}

/* Wrong passwords reach the log when the daemon ticks and when it stops. */
static void send_wrong_passwords(void)
{
    auth_failures *f = fake.loop->failures;
    int held = 0;
    logged(STARTED);
    for (int i = 0; i < 99; i++)
        held += auth_failures_add(f, PROTOCOL_HTTP, "unix", 1000000000);
    assert_int_equal(held, 13); /* an eighth of the connections, and one */
    logged("warning wrong-password protocol=http peer=unix times=1\n");
    fake.server.tick(fake.server.ctx);
    logged("warning wrong-password protocol=http peer=unix times=98\n");
    auth_failures_add(f, PROTOCOL_RESP, "unix", port_steady_ns());
    assert_int_equal(metric("weir_wrong_passwords_total{protocol=\"resp\"}"), 1);
    assert_int_equal(metric("weir_wrong_passwords_total{protocol=\"http\"}"), 99);
    logged("");
}

static void wrong_passwords(void **unused)
{
    (void)unused;
    assert_int_equal(run(NULL, CONFIG, send_wrong_passwords), 0);
    logged("warning wrong-password protocol=resp peer=unix times=1\n");
}

/* A network that connects to nothing, and whose timers never fire. */
static int timers;

static port_connection *connect_to_nothing(port_dialer *d, const port_endpoint *to,
                                           const port_connection_events *events, void *ctx)
{
    (void)d, (void)to, (void)events, (void)ctx;
    return NULL;
}

static port_timer *new_timer(port_dialer *d, void (*fn)(void *ctx, int64_t now_ns), void *ctx)
{
    (void)d, (void)fn, (void)ctx;
    timers++;
    return (port_timer *)&timers;
}

static void set_timer(port_timer *t, int64_t at_ns)
{
    (void)t, (void)at_ns;
}

static void free_timer(port_timer *t)
{
    timers -= t != NULL;
}

static int64_t steady_now(port_dialer *d)
{
    (void)d;
    return 1;
}

static const port_dialer_calls no_network = {.connect = connect_to_nothing,
                                             .new_timer = new_timer,
                                             .set_timer = set_timer,
                                             .free_timer = free_timer,
                                             .now = steady_now};

static void check_redis_metrics(void)
{
    static const char *const names[] = {"weir_redis_requests_total",
                                        "weir_redis_deny_cache_keys",
                                        "weir_redis_failures_total{reason=\"timeout\"}",
                                        "weir_redis_failures_total{reason=\"refused\"}",
                                        "weir_redis_by_error_total{on_error=\"open\"}",
                                        "weir_redis_by_error_total{on_error=\"local\"}",
                                        "weir_hybrid_requests_total",
                                        "weir_hybrid_keys"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        assert_int_equal(metric(names[i]), 0);
    assert_true(fake.server.now(fake.server.ctx) > 0);
    port_dialer dialer = {&no_network};
    const weir_service *others = fake.loop->service;
    const protocol_loop *l = fake.server.contexts[1];
    fake.server.begin(fake.server.contexts[1], &dialer);
    assert_non_null(l->service->engine[WEIR_ENGINE_REDIS]);
    assert_non_null(l->service->engine[WEIR_ENGINE_HYBRID]);
    assert_null(others->engine[WEIR_ENGINE_REDIS]);
    assert_true(timers > 0);
    fake.server.end(fake.server.contexts[1]);
    assert_null(l->service->engine[WEIR_ENGINE_REDIS]);
    assert_null(l->service->engine[WEIR_ENGINE_HYBRID]);
    assert_int_equal(timers, 0);
}

static void start_with_redis(void **unused)
{
    (void)unused;
    static const char *const rows[][2] = {
        {"engine: local\n", STARTED_WITH("local,redis")},
        {"engine: redis\n", STARTED_WITH("redis")},
        {"engine: hybrid\n", STARTED_WITH("hybrid")},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        char yaml[600];
        snprintf(yaml, sizeof yaml, CONFIG "redis: {url: 'redis://127.0.0.1:1'}\n%s", rows[i][0]);
        assert_int_equal(run(NULL, yaml, check_redis_metrics), 0);
        char log[300];
        snprintf(log, sizeof log,
                 "%swarning redis-down node=127.0.0.1:1 why=\"no memory for a connection\"\n",
                 rows[i][1]);
        logged(log);
        assert_non_null(fake.server.begin);
    }
}

static void failed_start(void **unused)
{
    (void)unused;
    fake.open_status = WEIR_E_IO;
    assert_int_equal(run(NULL, CONFIG, NULL), 1);
    logged("error not-started error=\"no port\"\n");
    fake.open_status = WEIR_OK;
    assert_int_equal(
        run(NULL, "redis: {url: 'rediss://127.0.0.1', tls: {ca: /nothing/there}}\n", NULL), 1);
    failed_to_start("/nothing/there");
    assert_int_equal(run(NULL, "memory: {file: /nothing/there}\n", NULL), 1);
    failed_to_start("\"/nothing/there: ");
}

/* ---- the clock ------------------------------------------------------------------------------- */

static void check_jump(void)
{
    assert_int_equal(fake.jump_above_ns, INT64_C(7200000000000));
}

static void clock_step(void **unused)
{
    (void)unused;
    assert_int_equal(run(NULL, CONFIG "clock: {step_above: 2h}\n", check_jump), 0);
}

/* ---- the state file -------------------------------------------------------------------------- */

#define FILE_CONFIG CONFIG_WITHOUT_MEMORY "memory: {size: 8m, file: state}\n"

#define NEW_FILE "info state file=state found=\"nothing, the file is new\"\n" STARTED

static void lose_file(void)
{
    logged(NEW_FILE);
    assert_true(sigbus_is_watched());
    assert_int_equal(metric("weir_store_file_lost"), 0);
    assert_int_equal(unlink("state"), 0);
    fake.server.tick(fake.server.ctx);
    logged("error state-file-lost file=state why=removed text=\"the state file was removed; weir "
           "keeps "
           "its state until it stops, and the next start begins with an empty file\"\n");
    assert_int_equal(metric("weir_store_file_lost"), 1);
}

static void state_file(void **unused)
{
    (void)unused;
    assert_int_equal(run(NULL, FILE_CONFIG, NULL), 0);
    logged(NEW_FILE);
    assert_int_equal(run(NULL, FILE_CONFIG, NULL), 0);
    logged("info state file=state found=\"closed cleanly\" written_seconds_ago=0\n" STARTED);
    assert_int_equal(unlink("state"), 0);
    assert_int_equal(run(NULL, FILE_CONFIG, lose_file), 0);
    logged("");
}

/* ---- reloads --------------------------------------------------------------------------------- */

static void write_config(const char *text)
{
    write_file("weir.yaml", text);
}

static void expect_reload(bool readable, const char *log, int64_t reloads, int64_t refused)
{
    assert_int_equal(fake.server.reload(fake.server.ctx, "SIGHUP"), readable);
    logged(log);
    assert_int_equal(metric("weir_reloads_total"), reloads);
    assert_int_equal(metric("weir_reloads_refused_total"), refused);
    assert_int_equal(load_errors(), refused);
}

#define REFUSED "error reload-refused why=SIGHUP text=\"the old configuration stays active\"\n"
#define UNREADABLE                                                                                 \
    "error config-error file=weir.yaml error=\"cannot be read: No such file or "                   \
    "directory\"\n" REFUSED

static void reload(void)
{
    logged(STARTED);
    assert_string_equal(fake.server.watch, "weir.yaml");
    write_config(CONFIG);
    expect_reload(true, "info reloaded why=SIGHUP policies=1\n", 1, 0);
    write_config(CONFIG "top: {keys: 7}\n");
    expect_reload(true,
                  "info reloaded why=SIGHUP policies=1 changed=top.keys\n"
                  "warning restart-needed key=top text=\"the new value takes effect when weir "
                  "is restarted\"\n",
                  2, 0);
    write_config("threads: x\n");
    expect_reload(true,
                  "error config-error file=weir.yaml line=1 column=10 path=threads "
                  "error=\"expected a number from 1 to 256, found 'x'\"\n" REFUSED,
                  2, 1);
    write_config("password_file: missing\n");
    assert_true(fake.server.reload(fake.server.ctx, "SIGHUP"));
    assert_int_equal(metric("weir_reloads_refused_total"), 2);
    log_read = lseek(log_fd, 0, SEEK_END);
    unlink("weir.yaml");
    expect_reload(false, UNREADABLE, 2, 3);
    expect_reload(false, UNREADABLE, 2, 4); /* each SIGHUP has its result in the log */
    assert_false(fake.server.reload(fake.server.ctx, "file changed")); /* each attempt has none */
    logged("");
    write_config(CONFIG);
    adjusts = false;
    expect_reload(true, REFUSED, 2, 6);
    adjusts = true;
    unlink("weir.yaml");
    expect_reload(false, UNREADABLE, 2, 7);
    static const char *const begun[] = {"", "# The limits of the", "---\n"};
    for (int i = 0; i < 3; i++) {
        write_config(begun[i]);
        expect_reload(true,
                      "error config-error file=weir.yaml error=\"empty; expected a configuration, "
                      "or {} for the defaults\"\n" REFUSED,
                      2, 8 + i);
    }
    write_config(CONFIG "redis: {url: 'redis://127.0.0.1'}\n");
    expect_reload(true,
                  "info reloaded why=SIGHUP policies=1 changed=redis.url,top.keys\n"
                  "warning restart-needed key=redis text=\"the new value takes effect when weir is "
                  "restarted\"\n",
                  3, 10);
    static const char *const rest[] = {
        "redis: {url: 'redis://127.0.0.1'}\nengine: redis\n",
        "redis: {url: 'redis://127.0.0.1'}\nenvoy: {engine: redis}\n",
        "redis: {url: 'redis://127.0.0.1'}\npolicies: {a: {limit: gcra 1/s, engine: hybrid}, b: "
        "gcra 1/s}\n"};
    for (int i = 0; i < 3; i++) {
        write_config(rest[i]);
        expect_reload(
            true,
            "error reload-refused why=SIGHUP text=\"the new policies need the engine redis or "
            "hybrid, but weir was started without redis; the old configuration stays active. "
            "Restart weir to use the new one\"\n",
            3, 11 + i);
    }
    unlink("weir.yaml");
}

static void reloads(void **unused)
{
    (void)unused;
    assert_int_equal(run("weir.yaml", CONFIG, reload), 0);
}

static void reload_without_file(void)
{
    logged(STARTED);
    expect_reload(true,
                  "warning reload-ignored why=SIGHUP text=\"weir was started without a "
                  "configuration file\"\n",
                  0, 0);
}

/* A reload says for each changed limit what its keys keep. The start has nothing to keep. */
static void reload_changes(void)
{
    static const char one[] = CONFIG_WITHOUT_POLICIES
        "memory: {size: 8m}\npolicies: {a: gcra 2/s, b: fixed-window 9/h, c: gcra 1/s}\n";
    static const char two[] = CONFIG_WITHOUT_POLICIES
        "memory: {size: 8m}\npolicies: {a: gcra 2/s, b: fixed-window 20/h, c: gcra 1/m}\n";
    logged(STARTED);
    write_config(one);
    expect_reload(true,
                  "info kept policy=a from=\"gcra 1/s burst 1\" to=\"gcra 2/s burst 1\"\n"
                  "info reloaded why=SIGHUP policies=3 changed=policies.a,policies.b,policies.c\n",
                  1, 0);
    write_config(two);
    expect_reload(true,
                  "info kept policy=b from=\"fixed-window 9/h\" to=\"fixed-window 20/h\"\n"
                  "info reset policy=c from=\"gcra 1/s burst 1\" to=\"gcra 1/m burst 1\"\n"
                  "info reloaded why=SIGHUP policies=3 changed=policies.b,policies.c\n",
                  2, 0);
}

static void reloaded_changes(void **unused)
{
    (void)unused;
    assert_int_equal(run("weir.yaml", CONFIG, reload_changes), 0);
}

/* With a Redis server from the start, the engines may change. */
static void reload_engines(void)
{
    logged(STARTED_WITH("local,redis"));
    write_config(CONFIG "redis: {url: 'redis://127.0.0.1:1'}\nengine: hybrid\n");
    expect_reload(true, "info reloaded why=SIGHUP policies=1 changed=engine\n", 1, 0);
    unlink("weir.yaml");
    expect_reload(false, UNREADABLE, 1, 1);
    write_config("threads: 0\n"); /* readable again: the error is logged */
    expect_reload(true,
                  "error config-error file=weir.yaml line=1 column=10 path=threads "
                  "error=\"expected a number from 1 to 256, found '0'\"\n" REFUSED,
                  1, 2);
    unlink("weir.yaml");
}

static void reloaded_engines(void **unused)
{
    (void)unused;
    assert_int_equal(
        run("weir.yaml", CONFIG "redis: {url: 'redis://127.0.0.1:1'}\n", reload_engines), 0);
}

#define LIMITS  CONFIG "envoy: {config: limits}\n"
#define ONE     "domain: d\ndescriptors: [{key: a, rate_limit: {unit: day, requests_per_unit: 5}}]"
#define INVALID "domain: d\ndescriptors: [{key: a}, {key: a}]\n"

/* The domains of the limits that are active, as the statistics know them. */
static size_t active_limits(void)
{
    size_t n;
    const weir_rls_config *c = weir_rls_loop_config(door_of(fake.loop)->loop);
    (void)weir_rls_config_rules(c, &n);
    return n;
}

/* All or nothing: a bad file in the directory keeps all of the old configuration. */
static void reload_limits(void)
{
    logged(STARTED);
    assert_string_equal(fake.watched_more[0], "");
    assert_int_equal(mkdir("limits", 0700), 0);
    write_file("limits/a.yaml", ONE);
    write_config(LIMITS);
    expect_reload(true, "info reloaded why=SIGHUP policies=1 limits=1 changed=envoy.config\n", 1,
                  0);
    assert_string_equal(fake.watched_more[0], "limits");
    assert_int_equal(active_limits(), 1);
    write_file("limits/a.yaml", INVALID);
    expect_reload(true,
                  "error config-error file=limits/a.yaml line=2 column=31 path=descriptors[1] "
                  "error=\"duplicate descriptor composite key 'd.a'\"\n" REFUSED,
                  1, 1);
    assert_int_equal(active_limits(), 1);
    unlink("limits/a.yaml");
    expect_reload(true,
                  "warning config-warning file=weir.yaml line=6 column=17 path=envoy.config "
                  "error=\"no file in limits: every request is allowed\"\n"
                  "info reloaded why=SIGHUP policies=1 limits=0\n",
                  2, 1);
    assert_int_equal(active_limits(), 0);
    rmdir("limits");
    expect_reload(false,
                  "error config-error file=weir.yaml line=6 column=17 path=envoy.config "
                  "error=\"cannot read limits: No such file or directory\"\n" REFUSED,
                  2, 2);
    write_config(CONFIG);
    expect_reload(true, "info reloaded why=SIGHUP policies=1 changed=envoy.config\n", 3, 2);
    assert_string_equal(fake.watched_more[0], "");
    unlink("weir.yaml");
}

static void reloaded_limits(void **unused)
{
    (void)unused;
    assert_int_equal(run("weir.yaml", CONFIG, reload_limits), 0);
}

static void no_file(void **unused)
{
    (void)unused;
    assert_int_equal(run(NULL, CONFIG, reload_without_file), 0);
    assert_null(fake.server.watch);
}

/* ---- readiness ------------------------------------------------------------------------------- */

static void expect_ready(const char *expected)
{
    weir_buffer out;
    weir_buffer_init(&out, 1024);
    assert_int_equal(fake.loop->not_ready(fake.loop, &out), expected[0] != '\0');
    weir_buffer_append_byte(&out, '\0');
    assert_string_equal(weir_buffer_data(&out), expected);
    weir_buffer_free(&out);
}

static void ready_now(void)
{
    expect_ready("");
    fake.full = true;
    expect_ready("\"too many connections are open (limits.connections)\"");
    fake.stopping = true;
    expect_ready("\"the daemon is stopping\",\"too many connections are open "
                 "(limits.connections)\"");
    fake.full = false;
    fake.handed_over = true; /* the address is served by another process */
    expect_ready("");
    fake.handed_over = fake.stopping = false;
}

#define NO_REDIS(WHAT)                                                                             \
    "\"a thread has no usable connection to Redis, so " WHAT " all requests (on_error: closed)\""

static void policy_not_ready(void)
{
    expect_ready(NO_REDIS("policy b denies"));
    fake.stopping = true;
    expect_ready("\"the daemon is stopping\"," NO_REDIS("policy b denies"));
    fake.stopping = false;
}

static void texts_not_ready(void)
{
    expect_ready(NO_REDIS("inline policies deny"));
}

/* No loop has connected to Redis. */
static void readiness(void **unused)
{
    (void)unused;
    static const struct {
        const char *on_error, *rest;
        void (*serve)(void);
    } rows[] = {
        {"closed", "policies: {a: gcra 1/s}\n", ready_now},
        {"open", "engine: redis\n", ready_now},
        {"closed", "policies: {a: gcra 1/s, b: {limit: gcra 1/s, engine: redis}}\n",
         policy_not_ready},
        {"open", "policies: {b: {limit: gcra 1/s, engine: redis, on_error: closed}}\n",
         policy_not_ready},
        {"closed", "engine: redis\npolicies: {b: gcra 1/s}\n", policy_not_ready},
        {"closed", "engine: redis\npolicies: {a: {limit: gcra 1/s, on_error: open}}\n",
         texts_not_ready},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        char yaml[300];
        snprintf(yaml, sizeof yaml, "redis: {url: 'redis://127.0.0.1:1', on_error: %s}\n%s",
                 rows[i].on_error, rows[i].rest);
        assert_int_equal(run(NULL, yaml, rows[i].serve), 0);
    }
}

/* ---- other events ---------------------------------------------------------------------------- */

static void set_limit(const char *limit)
{
    weir_limiter *l = weir_service_limiter(fake.loop->service);
    assert_int_equal(weir_limiter_set_limit(l, "p", limit, NULL), WEIR_OK);
}

static void events(void)
{
    weir_limiter *l = weir_service_limiter(fake.loop->service);
    logged(STARTED);
    fake.server.report(fake.server.ctx, "stopping", "a");
    fake.server.report(fake.server.ctx, "stopped", "b");
    fake.server.report(fake.server.ctx, "refused", "c");
    set_limit("gcra 1/s");
    assert_int_equal(weir_limiter_set_shadow(l, "p", 1, true), WEIR_OK);
    assert_int_equal(weir_limiter_set_shadow(l, "p", 1, false), WEIR_OK);
    assert_int_equal(weir_limiter_set_candidate(l, "p", 1, "gcra 2/s", NULL), WEIR_OK);
    assert_int_equal(weir_limiter_set_candidate(l, "p", 1, NULL, NULL), WEIR_OK);
    assert_int_equal(weir_limiter_drop_rule(l, "p", 1), WEIR_OK);
    logged("info stopping text=a\ninfo stopped text=b\nwarning refused text=c\n"
           "info policy-set policy=p limit=\"gcra 1/s\"\n"
           "info shadow-changed policy=p shadow=true\ninfo shadow-changed policy=p shadow=false\n"
           "info candidate-changed policy=p candidate=\"gcra 2/s\"\n"
           "info candidate-changed policy=p candidate=none\ninfo policy-deleted policy=p\n");
    for (int i = 0; i < 100; i++) /* a client that changes policies without end */
        set_limit("gcra 1/s");
    char lines[1024] = "";
    for (int i = 0; i < 14; i++)
        strcat(lines, "info policy-set policy=p limit=\"gcra 1/s\"\n");
    logged(lines);
    static const char more[] =
        "warning more-changes count=86 text=\"further changes of policies were not logged\"\n";
    fake.server.tick(fake.server.ctx);
    logged(more);
    fake.server.tick(fake.server.ctx);
    logged("");
    for (int i = 0; i < 20; i++)
        set_limit("gcra 1/s");
    fake.server.tick(fake.server.ctx);
    for (int i = 14; i < 20; i++)
        strcat(lines, "info policy-set policy=p limit=\"gcra 1/s\"\n");
    logged(lines);
    expect_ready("");
    fake.stopping = true;
    expect_ready("\"the daemon is stopping\"");
}

static void other_events(void **unused)
{
    (void)unused;
    assert_int_equal(run(NULL, CONFIG, events), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(start, reset),
        cmocka_unit_test_setup(start_with_all, reset),
        cmocka_unit_test_setup(start_with_redis, reset),
        cmocka_unit_test_setup(few_descriptors, reset),
        cmocka_unit_test_setup(bad_variable, reset),
        cmocka_unit_test_setup(wrong_passwords, reset),
        cmocka_unit_test_setup(readiness, reset),
        cmocka_unit_test_setup(failed_start, reset),
        cmocka_unit_test_setup(clock_step, reset),
        cmocka_unit_test_setup(state_file, reset),
        cmocka_unit_test_setup(reloads, reset),
        cmocka_unit_test_setup(reloaded_changes, reset),
        cmocka_unit_test_setup(reloaded_engines, reset),
        cmocka_unit_test_setup(reloaded_limits, reset),
        cmocka_unit_test_setup(no_file, reset),
        cmocka_unit_test_setup(other_events, reset),
    };
    weir_use_guests();
    return cmocka_run_group_tests(tests, open_log, close_log);
}
