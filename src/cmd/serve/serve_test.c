/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* The command line of `weir serve`: what the daemon is started with, what it prints when it is
 * ready, and what is refused. The daemon is a fake (see meson.build). */

#define _GNU_SOURCE /* memfd_create */

#include "cmd/kit/commands.h"
#include "cmd/serve/daemon.h"
#include "tests/kit/kit.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

/* ---- the fake daemon ------------------------------------------------------------------------- */

static struct {
    bool started;
    char seen[1024];         /* what it was started with */
    const char *resp, *http; /* its addresses */
    bool terminal;           /* standard output is one */
    int per_address;
    uint64_t buffers_bytes;
} fake;

int __wrap_daemon_run(const daemon_options *options);
int __wrap_isatty(int fd);

int __wrap_isatty(int fd)
{
    return fd == STDOUT_FILENO && fake.terminal;
}

static void describe(const daemon_options *o, char *ret, size_t size)
{
    const weir_config *c = o->config;
    size_t len = (size_t)snprintf(
        ret, size, "%s %s%s%s threads %u connections %d engine %d", o->path ? o->path : "no file",
        log_is_json(o->log) ? "json" : "text", o->reset_state ? " reset" : "",
        o->take_over ? " take-over" : "", c->threads, c->connections, (int)c->engine);
    for (size_t i = 0; i < c->listens_len; i++)
        len += (size_t)snprintf(ret + len, size - len, " %s %s%s",
                                config_protocol(c->listens[i].protocol)->name,
                                c->listens[i].address, c->listens[i].is_public ? " public" : "");
}

int __wrap_daemon_run(const daemon_options *options)
{
    char addresses[PROTOCOLS_MAX][DAEMON_ADDRESSES_MAX] = {""};
    fake.started = true;
    assert_string_equal(options->argv[1], "serve");
    fake.per_address = options->config->per_address;
    fake.buffers_bytes = options->config->buffers_bytes;
    assert_true(options->zones && options->log->fd == 2 &&
                port_load_relaxed(&options->log->least) == WEIR_LOG_INFO);
    describe(options, fake.seen, sizeof fake.seen);
    snprintf(addresses[PROTOCOL_RESP], sizeof addresses[0], "%s", fake.resp);
    snprintf(addresses[PROTOCOL_HTTP], sizeof addresses[0], "%s", fake.http);
    options->ready(options->ctx, addresses);
    return 5;
}

/* ---- running it ------------------------------------------------------------------------------ */

static char output[8192], errors[8192];

static void capture(int saved, int to, int fd, char *ret, size_t size)
{
    dup2(saved, to);
    close(saved);
    ssize_t n = pread(fd, ret, size - 1, 0);
    ret[n > 0 ? n : 0] = '\0';
    close(fd);
}

/* Runs `weir serve WORD...`, a line of words. Returns the exit status. */
static int run(const char *line)
{
    char words[256], *argv[16] = {"serve"}, *rest = words;
    int argc = 1, out = memfd_create("out", 0), err = memfd_create("err", 0);
    snprintf(words, sizeof words, "%s", line);
    for (char *word; (word = strsep(&rest, " "));) {
        if (*word)
            argv[argc++] = word;
    }
    fake.started = false;
    fake.seen[0] = '\0';
    fflush(stdout);
    int saved_out = dup(1), saved_err = dup(2);
    dup2(out, 1);
    dup2(err, 2);
    int status = weir_cmd_serve(argc, argv);
    fflush(stdout);
    capture(saved_out, 1, out, output, sizeof output);
    capture(saved_err, 2, err, errors, sizeof errors);
    return status;
}

/* ---- tests ----------------------------------------------------------------------------------- */

#define DEFAULTS " threads 0 connections 10000 engine 0"

#define FOUR(TENS)                                                                                 \
    " http 127.0.0.1:" TENS "1 http 127.0.0.1:" TENS "2 http 127.0.0.1:" TENS                      \
    "3 http 127.0.0.1:" TENS "4"
#define MANY FOUR("1") FOUR("2") FOUR("3") FOUR("4")

static void starts(void **unused)
{
    (void)unused;
    static const char *const rows[][2] = {
        {"", "no file text" DEFAULTS " resp 127.0.0.1:6380 http 127.0.0.1:8080"},
        {"--port 7", "no file text" DEFAULTS " resp 127.0.0.1:7"},
        {"--http 0", "no file text" DEFAULTS " http 127.0.0.1:0"},
        {"--http 65535 --port 1", "no file text" DEFAULTS " resp 127.0.0.1:1 http 127.0.0.1:65535"},
        {"--threads 256 --connections 1",
         "no file text threads 256 connections 1 engine 0 resp 127.0.0.1:6380 http "
         "127.0.0.1:8080"},
        {"--log-format json --redis redis://h",
         "no file json threads 0 connections 10000 engine 1 resp 127.0.0.1:6380 http "
         "127.0.0.1:8080"},
        {"--log-format text a.yaml", "a.yaml text threads 3 connections 77 engine 0 resp "
                                     "0.0.0.0:1 public http 127.0.0.1:2 resp /a/b"},
        {"a.yaml --port 9 --reset-state", "a.yaml text reset threads 3 connections 77 engine 0 "
                                          "http 127.0.0.1:2 resp /a/b resp 127.0.0.1:9"},
        {"--take-over h.yaml",
         "h.yaml text take-over" DEFAULTS " resp 127.0.0.1:6380 http 127.0.0.1:8080"},
        {"a.yaml --http 9 --connections 5 --threads 4",
         "a.yaml text threads 4 connections 5 engine 0 resp 0.0.0.0:1 public resp /a/b http "
         "127.0.0.1:9"},
        {"public.yaml --port 9", "public.yaml text" DEFAULTS " http 127.0.0.1:8 resp 127.0.0.1:9"},
        /* as many addresses as a file may have, and one */
        {"many.yaml --port 9", "many.yaml text" DEFAULTS MANY " resp 127.0.0.1:9"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        assert_int_equal(run(rows[i][0]), 5);
        assert_string_equal(fake.seen, rows[i][1]);
        assert_string_equal(errors, "");
    }
}

#define READY                                                                                      \
    "weir is ready; try\n"                                                                         \
    "  redis-cli -p 7 WEIR.CHECK 'gcra 100/s burst 20' alice\n"                                    \
    "  redis-cli -p 7 CL.THROTTLE alice 15 30 60\n"

static void prints_examples(void **unused)
{
    (void)unused;
    fake.http = "";
    run("");
    assert_string_equal(output, READY);
    fake.http = "127.0.0.1:8";
    run("");
    assert_string_equal(
        output, READY "  curl 'http://127.0.0.1:8/v1/check?limit=gcra+100/s+burst+20&key=alice'\n"
                      "or open http://127.0.0.1:8/playground, /guide or /dashboard in a browser\n");
    run("policies.yaml"); /* not on a terminal */
    assert_string_equal(output, "");
    fake.terminal = true;
    run("a.yaml"); /* without a policy */
    assert_string_equal(output, "");
    run("password.yaml");
    assert_string_equal(output, "");
    run("policies.yaml");
    assert_string_equal(
        output, "weir is ready; try\n"
                "  redis-cli -p 7 WEIR.TAKE first alice\n"
                "  curl -i 'http://127.0.0.1:8/v1/take?policy=first&key=alice'\n"
                "or open http://127.0.0.1:8/playground, /guide or /dashboard in a browser\n");
    fake.resp = "/a/b,127.0.0.1:7";
    fake.http = "/c";
    run("policies.yaml");
    assert_string_equal(output, "weir is ready; try\n"
                                "  redis-cli -s /a/b WEIR.TAKE first alice\n"
                                "  curl --unix-socket /c 'http://localhost/v1/take?policy=first&"
                                "key=alice'\n");
    fake.resp = "127.0.0.1:7";
    fake.http = "";
    fake.terminal = false;
}

static void refuses(void **unused)
{
    (void)unused;
    static const struct {
        const char *line;
        int status;
        const char *errors;
    } rows[] = {
        {"--port 65536", 2, "weir serve: --port 65536: expected a number from 0 to 65535\n"},
        {"--http x", 2, "weir serve: --http x: expected a number from 0 to 65535\n"},
        {"--threads 0", 2, "weir serve: --threads 0: expected a number from 1 to 256\n"},
        {"--threads 257", 2, "weir serve: --threads 257: expected a number from 1 to 256\n"},
        {"--connections 0", 2,
         "weir serve: --connections 0: expected a number from 1 to 1000000\n"},
        {"--log-format xml", 2, "weir serve: --log-format xml: expected text or json\n"},
        {"--port", 2, "weir serve: --port needs a value\n"},
        {"a.yaml b.yaml", 2, "weir serve: unexpected 'b.yaml'; see weir serve --help\n"},
        {"--take-over", 2,
         "weir serve: --take-over: no socket, expected hand_over in the configuration\n"},
        {"--take-over --reset-state h.yaml", 2,
         "weir serve: --take-over: cannot be combined with --reset-state\n"},
        {"--reset-state", 2,
         "weir serve: --reset-state: no state file, expected memory.file in the configuration\n"},
        {"--redis x", 1, "weir serve: --redis: "},
        {"bad.yaml", 1,
         "bad.yaml:1:10: error: threads: expected a number from 1 to 256, found '0'\n"
         "  threads: 0\n           ^\n"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        assert_int_equal(run(rows[i].line), rows[i].status);
        size_t len = strlen(rows[i].errors);
        if (rows[i].errors[len - 1] == '\n')
            assert_string_equal(errors, rows[i].errors);
        else
            assert_memory_equal(errors, rows[i].errors, len);
        assert_string_equal(output, "");
        assert_false(fake.started);
    }
    assert_int_equal(run("--log-format json bad.yaml"), 1);
    assert_non_null(strstr(errors, "\"level\":\"error\",\"event\":\"config-error\",\"file\":"
                                   "\"bad.yaml\",\"line\":1,\"column\":10,\"path\":\"threads\","));
}

#define NO_GRPC                                                                                    \
    "warning no-grpc-address text=\"no address serves gRPC: listen in the configuration file "     \
    "replaces all addresses of the variables\"\n"
#define PUBLIC(ADDRESS)                                                                            \
    "warning public-address address=" ADDRESS " text=\"every client that reaches the address can " \
    "use it, and there is no password\"\n"

/* Removes the times and the events of variables, which environment_test.c checks. */
static void keep_warnings(char *log)
{
    char *to = log;
    for (char *rest = log, *line; (line = strsep(&rest, "\n")) && *line;) {
        const char *event = strchr(line, ' ') + 1;
        if (!strstr(event, " variables-not-"))
            to += sprintf(to, "%s\n", event);
    }
    *to = '\0';
}

static void warns_of_addresses(void **unused)
{
    (void)unused;
    static const char *const rows[][2] = {
        {"--envoy local.yaml", ""},
        {"--envoy public.yaml", NO_GRPC PUBLIC("0.0.0.0:1")},
        {"--envoy grpc.yaml", PUBLIC("0.0.0.0:3")},
        {"--envoy secret.yaml", NO_GRPC},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        assert_int_equal(run(rows[i][0]), 5);
        keep_warnings(errors);
        assert_string_equal(errors, rows[i][1]);
        assert_string_equal(output, "");
    }
}

static void prints_help(void **unused)
{
    (void)unused;
    assert_int_equal(run("--help --port x"), 0);
    assert_memory_equal(output, "Usage: weir serve [OPTION]... [FILE]\n", 37);
    const char *port = strstr(output, "\n  --port N "), *http = strstr(output, "\n  --http N ");
    const char *threads = strstr(output, "\n  --threads N ");
    assert_true(port && http > port && threads > http);
    assert_string_equal(errors, "");
    assert_false(fake.started);
}

#define LIMITS "envoy: {config: limits}\n"

static int make_files(void **unused)
{
    if (make_dir(unused) != 0)
        return -1;
    write_file("policies.yaml", "policies: {first: gcra 1/s, second: gcra 2/s}\n");
    write_file("password.yaml", "policies: {first: gcra 1/s}\npassword: \"secret\"\n");
    write_file("h.yaml", "hand_over: /door\nmemory: {file: state}\n");
    write_file("a.yaml", "threads: 3\nlimits: {connections: 77}\ninsecure: true\n"
                         "memory: {size: 8m, file: state}\n"
                         "listen: {resp: '0.0.0.0:1', http: '127.0.0.1:2', unix: /a/b}\n");
    write_file("bad.yaml", "threads: 0\n");
    write_file("public.yaml", LIMITS "insecure: true\nlisten: {resp: '0.0.0.0:1', http: 8}\n");
    write_file(
        "many.yaml",
        "listen: {http: [11, 12, 13, 14, 21, 22, 23, 24, 31, 32, 33, 34, 41, 42, 43, 44]}\n");
    mkdir("limits", 0700);
    write_file("limits/a.yaml",
               "domain: d\n"
               "descriptors: [{key: a, rate_limit: {unit: day, requests_per_unit: 5}}]\n");
    write_file("local.yaml", LIMITS "listen: {grpc: 1}\n");
    write_file("secret.yaml", LIMITS "password: x\nlisten: {resp: '0.0.0.0:1', http: 8}\n");
    write_file("grpc.yaml",
               LIMITS "insecure: true\nlisten: {http: 1, grpc: ['127.0.0.1:2', '0.0.0.0:3']}\n");
    fake.resp = "127.0.0.1:7";
    fake.http = "";
    return 0;
}

/* The limits that follow from the number of connections follow --connections, unless the file has
 * them: also if their values are the usual ones for the number in the file. */
static void limits_that_follow(void **unused)
{
    (void)unused;
    static const struct {
        const char *limits;
        int per_address;
        uint64_t mib;
    } rows[] = {{"{}", 5000, 1563},
                {"{per_address: 1000}", 1000, 1563},
                {"{per_address: off, buffers: 256m}", 0, 256},
                {"{connections: 20000, per_address: 2000, buffers: 625m}", 2000, 625}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        char text[256];
        snprintf(text, sizeof text, "listen: {grpc: 1}\n" LIMITS "limits: %s\n", rows[i].limits);
        write_file("follow.yaml", text);
        assert_int_equal(run("--connections 50000 follow.yaml"), 5);
        assert_int_equal(fake.per_address, rows[i].per_address);
        assert_int_equal((fake.buffers_bytes + (1 << 20) - 1) >> 20, rows[i].mib);
    }
    unlink("follow.yaml");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(starts),
        cmocka_unit_test(limits_that_follow),
        cmocka_unit_test(prints_examples),
        cmocka_unit_test(refuses),
        cmocka_unit_test(warns_of_addresses),
        cmocka_unit_test(prints_help),
    };
    weir_use_guests();
    return cmocka_run_group_tests(tests, make_files, remove_dir);
}
