/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* What the daemon logs and reports: its start, reloads, steps of the clock, the state file, and its
 * metrics. The server, the clock and the state file's place are fakes (see meson.build). */

#define _GNU_SOURCE /* memfd_create */

#include "cmd/auth_failures.h"
#include "cmd/daemon_kit_test.h"

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
        weir_resp_server server;
        l->resp.server(l->resp.server_ctx, &server);
        assert_int_equal(server.uptime_s, 0);
        assert_int_equal(server.connections, 101);
        assert_int_equal(server.connections_max, 99);
    }
    assert_int_equal(fake.servers_closed, 0);
    fake.place = WEIR_FILE_MOVED; /* without a state file, this means nothing */
    logged(STARTED);
    fake.server.tick(fake.server.ctx);
    logged("");
    assert_string_equal(fake.watched, "no file");
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
    assert_int_equal(fake.server.drain_ns, INT64_C(4000000000));
    assert_null(fake.server.begin);
}

static void check_listens(void)
{
    static const char *const addresses[] = {"127.0.0.1:1", "127.0.0.1:2", "127.0.0.1:3"};
    for (size_t i = 0; i < 3; i++) {
        assert_string_equal(fake.server.listens[i].address, addresses[i]);
        assert_ptr_equal(fake.server.listens[i].protocol,
                         &protocols[i < 2 ? PROTOCOL_RESP : PROTOCOL_HTTP].session);
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

static void check_redis_metrics(void)
{
    static const char *const names[] = {"weir_redis_questions_total",
                                        "weir_redis_deny_cache_keys",
                                        "weir_redis_failures_total{reason=\"late\"}",
                                        "weir_redis_failures_total{reason=\"refused\"}",
                                        "weir_redis_by_error_total{on_error=\"open\"}",
                                        "weir_redis_by_error_total{on_error=\"local\"}",
                                        "weir_hybrid_questions_total",
                                        "weir_hybrid_keys"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        assert_int_equal(metric(names[i]), 0);
    assert_true(fake.server.now(fake.server.ctx) > 0);
    const protocol_loop *l = fake.server.contexts[1];
    port_dialer *dialer = (port_dialer *)&fake;
    fake.server.begin(fake.server.contexts[1], dialer);
    assert_non_null(fake.begun.engines);
    assert_int_equal(fake.begun.loop, 1);
    assert_ptr_equal(fake.begun.service, l->service);
    assert_ptr_equal(fake.begun.dialer, dialer);
    fake.server.end(fake.server.contexts[1]);
    assert_ptr_equal(fake.ended.engines, fake.begun.engines);
    assert_int_equal(fake.ended.loop, 1);
    assert_ptr_equal(fake.ended.service, l->service);
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
        logged(rows[i][1]);
        assert_non_null(fake.server.begin);
    }
}

/* Expects that the log says so, with this part of the reason. */
static void failed_to_start(const char *part)
{
    char buf[300] = "";
    ssize_t len = pread(log_fd, buf, sizeof buf - 1, log_read);
    assert_true(len > 0);
    assert_memory_equal(buf + 24, " error not-started error=\"", 26);
    assert_non_null(strstr(buf, part));
    log_read += len;
}

static void failed_start(void **unused)
{
    (void)unused;
    fake.open_status = WEIR_E_IO;
    assert_int_equal(run(NULL, CONFIG, NULL), 1);
    logged("error not-started error=\"no port\"\n");
    fake.open_status = WEIR_OK;
    fake.rules_status = WEIR_E_NOMEM;
    assert_int_equal(run(NULL, CONFIG, NULL), 1);
    logged("error not-started error=\"out of memory\"\n");
    fake.rules_status = WEIR_OK;
    assert_int_equal(
        run(NULL, "redis: {url: 'rediss://127.0.0.1', tls: {ca: /nothing/there}}\n", NULL), 1);
    failed_to_start("/nothing/there");
    assert_int_equal(run(NULL, "memory: {file: /nothing/there}\n", NULL), 1);
    failed_to_start("\"/nothing/there: ");
}

/* Each allocation of the start fails in turn. */
static void start_without_memory(void **unused)
{
    (void)unused;
    int status = 1;
    for (size_t n = 0; status != 0 && n < 1000; n++) {
        fake.blocks_left = n;
        fake.fills = true;
        fake.failed = false;
        status = run(NULL, CONFIG "redis: {url: 'redis://127.0.0.1:1'}\n", NULL);
        assert_int_equal(status, fake.failed);
        if (n > 0 && fake.failed)
            failed_to_start("out of memory\"\n");
        else if (n == 0)
            logged("");
    }
    assert_int_equal(status, 0);
}

/* ---- the clock ------------------------------------------------------------------------------- */

#define OFFSET(SECONDS)                                                                            \
    "warning clock-offset seconds=" SECONDS                                                        \
    " text=\"the wall clock differs from the state file's time; weir continues from the file's "   \
    "time and slews towards the wall clock\"\n"

static void clock_offset(void **unused)
{
    (void)unused;
    static const struct {
        int64_t offset_ns;
        const char *expected;
    } rows[] = {
        {1000000000, STARTED},
        {-1000000000, STARTED},
        {1000000001, OFFSET("1.000") STARTED},
        {-1000000001, OFFSET("-1.000") STARTED},
        {INT64_C(2500000000000), OFFSET("2500.000") STARTED},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        fake.clock.offset_ns = rows[i].offset_ns;
        assert_int_equal(run(NULL, CONFIG, NULL), 0);
        logged(rows[i].expected);
    }
}

static void step_clock(void)
{
    logged(STARTED);
    fake.server.tick(fake.server.ctx);
    logged("");
    fake.clock = (weir_clock_view){-INT64_C(5000500000000), 1, INT64_C(3250000000000)};
    fake.nows = 0;
    for (int i = 0; i < 2; i++) {
        fake.server.tick(fake.server.ctx);
        logged(
            i > 0 ? ""
                  : "warning clock-stepped by_seconds=3250.000 offset_seconds=-5000.500 text=\"the "
                    "wall clock stepped; limits are unaffected, and weir's clock slews towards "
                    "it\"\n");
        assert_int_equal(fake.nows, i + 1); /* reads the clock, which notices a step */
    }
}

static void clock_step(void **unused)
{
    (void)unused;
    assert_int_equal(run(NULL, CONFIG, step_clock), 0);
}

/* ---- the state file -------------------------------------------------------------------------- */

#define FILE_CONFIG CONFIG_WITHOUT_MEMORY "memory: {size: 8m, file: state}\n"

static void lose_file(void)
{
    static const struct {
        weir_file place;
        const char *level, *event, *why, *text;
    } rows[] = {
        {WEIR_FILE_MOVED, "error", "lost", "why=moved ", "the state file was moved; "},
        {WEIR_FILE_REPLACED, "error", "lost", "why=replaced ", "another file has replaced "},
        {WEIR_FILE_IN_PLACE, "info", "back", "", "the state file is at its path again"},
        {WEIR_FILE_REMOVED, "error", "lost", "why=removed ", "the state file was removed; "},
        {WEIR_FILE_SHORTENED, "error", "lost", "why=shortened ", "the state file was truncated; "},
    };
    assert_int_equal(metric("weir_store_file_lost"), 0);
    assert_string_equal(fake.watched, "state");
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        char expected[200], buf[1000] = "";
        log_read = lseek(log_fd, 0, SEEK_END);
        fake.place = rows[i].place;
        fake.server.tick(fake.server.ctx);
        snprintf(expected, sizeof expected, "Z %s state-file-%s file=state %stext=\"%s",
                 rows[i].level, rows[i].event, rows[i].why, rows[i].text);
        assert_true(pread(log_fd, buf, sizeof buf - 1, log_read) > 0);
        assert_non_null(strstr(buf, expected));
        assert_int_equal(metric("weir_store_file_lost"), rows[i].place != WEIR_FILE_IN_PLACE);
        log_read = lseek(log_fd, 0, SEEK_END);
        fake.server.tick(fake.server.ctx);
        logged("");
    }
}

static void state_file(void **unused)
{
    (void)unused;
    static const struct {
        weir_found found;
        int64_t ago_ns; /* 0: unknown */
        const char *expected;
    } rows[] = {
        {WEIR_FOUND_NOTHING, 0,
         "info state file=state found=\"nothing, the file is new\"\n" STARTED},
        {WEIR_FOUND_CLOSED, INT64_C(7999999999),
         "info state file=state found=\"closed cleanly\" written_seconds_ago=7\n" STARTED},
        {WEIR_FOUND_CLOSED, now_ns - 1,
         "info state file=state found=\"closed cleanly\" "
         "written_seconds_ago=1763715600\n" STARTED},
        {WEIR_FOUND_CLOSED, -5000000000,
         "info state file=state found=\"closed cleanly\" written_seconds_ago=0\n" STARTED},
        {WEIR_FOUND_OPEN, 2000000000,
         "info state file=state found=\"open in other processes\" written_seconds_ago=2\n" STARTED},
        {WEIR_FOUND_POWER_LOSS, 1000000000,
         "warning state file=state found=\"left by a machine that crashed; what is lost depends "
         "on memory.sync\" written_seconds_ago=1\n" STARTED},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        fake.found = rows[i].found;
        fake.written_ns = rows[i].ago_ns ? now_ns - rows[i].ago_ns : 0;
        assert_int_equal(run(NULL, FILE_CONFIG, NULL), 0);
        logged(rows[i].expected);
    }
    assert_int_equal(run(NULL, FILE_CONFIG, lose_file), 0);
}

/* ---- reloads --------------------------------------------------------------------------------- */

static void write_config(const char *text)
{
    FILE *f = fopen("weir.yaml", "w");
    assert_non_null(f);
    fputs(text, f);
    fclose(f);
}

static void expect_reload(bool readable, const char *log, int64_t reloads, int64_t refused)
{
    assert_int_equal(fake.server.reload(fake.server.ctx, "SIGHUP"), readable);
    logged(log);
    assert_int_equal(metric("weir_reloads_total"), reloads);
    assert_int_equal(metric("weir_reloads_refused_total"), refused);
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
                  "info reloaded why=SIGHUP policies=1\n"
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
    expect_reload(false, "", 2, 4);
    write_config(CONFIG);
    adjusts = false;
    expect_reload(true, REFUSED, 2, 5);
    adjusts = true;
    unlink("weir.yaml");
    expect_reload(false, UNREADABLE, 2, 6);
    write_config(CONFIG);
    fake.rules_status = WEIR_E_NOMEM;
    expect_reload(true, REFUSED, 2, 7);
    fake.rules_status = WEIR_OK;
    write_config(CONFIG "redis: {url: 'redis://127.0.0.1'}\n");
    expect_reload(true,
                  "info reloaded why=SIGHUP policies=1\n"
                  "warning restart-needed key=redis text=\"the new value takes effect when weir is "
                  "restarted\"\n",
                  3, 7);
    static const char *const rest[] = {
        "redis: {url: 'redis://127.0.0.1'}\nengine: redis\n",
        "redis: {url: 'redis://127.0.0.1'}\npolicies: {a: {limit: gcra 1/s, engine: hybrid}, b: "
        "gcra 1/s}\n"};
    for (int i = 0; i < 2; i++) {
        write_config(rest[i]);
        expect_reload(
            true,
            "error reload-refused why=SIGHUP text=\"the new policies need the engine redis or "
            "hybrid, but weir was started without redis; the old configuration stays active. "
            "Restart weir to use the new one\"\n",
            3, 8 + i);
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

/* With a Redis server from the start, the engines may change. */
static void reload_engines(void)
{
    logged(STARTED_WITH("local,redis"));
    write_config(CONFIG "redis: {url: 'redis://127.0.0.1:1'}\nengine: hybrid\n");
    expect_reload(true, "info reloaded why=SIGHUP policies=1\n", 1, 0);
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

static void write_limits(const char *text)
{
    FILE *f = fopen("limits/a.yaml", "w");
    assert_non_null(f);
    fputs(text, f);
    fclose(f);
}

#define LIMITS  CONFIG "envoy: {config: limits}\n"
#define ONE     "domain: d\ndescriptors: [{key: a, rate_limit: {unit: day, requests_per_unit: 5}}]"
#define INVALID "domain: d\ndescriptors: [{key: a}, {key: a}]\n"

/* The domains of the limits that are active, as the statistics know them. */
static size_t active_limits(void)
{
    size_t n;
    const weir_rls_config *c = weir_rls_loop_config(fake.loop->door.loop);
    (void)weir_rls_config_rules(c, &n);
    return n;
}

/* All or nothing: a bad file in the directory keeps all of the old configuration. */
static void reload_limits(void)
{
    logged(STARTED);
    assert_string_equal(fake.watched_more[0], "");
    assert_int_equal(mkdir("limits", 0700), 0);
    write_limits(ONE);
    write_config(LIMITS);
    expect_reload(true, "info reloaded why=SIGHUP policies=1 limits=1\n", 1, 0);
    assert_string_equal(fake.watched_more[0], "limits");
    assert_int_equal(active_limits(), 1);
    write_limits(INVALID);
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
    expect_reload(true, "info reloaded why=SIGHUP policies=1\n", 3, 2);
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

static void events(void)
{
    logged(STARTED);
    fake.server.report(fake.server.ctx, "stopping", "a");
    fake.server.report(fake.server.ctx, "stopped", "b");
    fake.server.report(fake.server.ctx, "refused", "c");
    const weir_rule_change changes[] = {
        {.kind = WEIR_RULE_LIMIT, .name = "p", .text = "gcra 1/s"},
        {.kind = WEIR_RULE_DROPPED, .name = "p"},
        {.kind = WEIR_RULE_SHADOW, .name = "p", .shadow = true},
        {.kind = WEIR_RULE_SHADOW, .name = "p"},
        {.kind = WEIR_RULE_CANDIDATE, .name = "p", .text = "gcra 2/s"},
        {.kind = WEIR_RULE_CANDIDATE, .name = "p"},
    };
    for (size_t i = 0; i < sizeof changes / sizeof changes[0]; i++)
        fake.changed(fake.changed_ctx, &changes[i]);
    logged("info stopping text=a\ninfo stopped text=b\nwarning refused text=c\n"
           "info policy-set policy=p limit=\"gcra 1/s\"\ninfo policy-deleted policy=p\n"
           "info shadow-changed policy=p shadow=true\ninfo shadow-changed policy=p shadow=false\n"
           "info candidate-changed policy=p candidate=\"gcra 2/s\"\n"
           "info candidate-changed policy=p candidate=none\n");
    expect_ready("");
    fake.stopping = true;
    expect_ready("\"the daemon is stopping\"");
}

static void other_events(void **unused)
{
    (void)unused;
    assert_int_equal(run(NULL, CONFIG, events), 0);
}

static int make_dir(void **unused)
{
    (void)unused;
    log_fd = memfd_create("log", 0);
    return mkdtemp(dir) && chdir(dir) == 0 ? 0 : -1;
}

static int remove_dir(void **unused)
{
    (void)unused;
    (void)unlink("state");
    (void)unlink("state.lock");
    (void)unlink("weir.yaml");
    close(log_fd);
    return chdir("/") == 0 && rmdir(dir) == 0 ? 0 : -1;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(start, reset),
        cmocka_unit_test_setup(start_with_all, reset),
        cmocka_unit_test_setup(start_with_redis, reset),
        cmocka_unit_test_setup(start_without_memory, reset),
        cmocka_unit_test_setup(wrong_passwords, reset),
        cmocka_unit_test_setup(readiness, reset),
        cmocka_unit_test_setup(failed_start, reset),
        cmocka_unit_test_setup(clock_offset, reset),
        cmocka_unit_test_setup(clock_step, reset),
        cmocka_unit_test_setup(state_file, reset),
        cmocka_unit_test_setup(reloads, reset),
        cmocka_unit_test_setup(reloaded_engines, reset),
        cmocka_unit_test_setup(reloaded_limits, reset),
        cmocka_unit_test_setup(no_file, reset),
        cmocka_unit_test_setup(other_events, reset),
    };
    return cmocka_run_group_tests(tests, make_dir, remove_dir);
}
