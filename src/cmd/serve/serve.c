/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* `weir serve`: reads the command line and the configuration, and runs the daemon. Options override
 * keys of the file, also after a reload. */

#define _GNU_SOURCE /* environ, program_invocation_name */

#include "cmd/config/keys.h"
#include "cmd/kit/commands.h"
#include "cmd/kit/options.h"
#include "cmd/serve/daemon.h"
#include "cmd/serve/protocols.h"
#include "port/assert.h"
#include "port/text.h"
#include "service/zone_cache.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { OPTION_PORT = 256 }; /* + protocol_kind: the option of a protocol */

typedef struct settings {
    const char *path;        /* NULL: no file */
    int port[PROTOCOLS_MAX]; /* -1: not given */
    int connections;         /* 0: not given */
    int threads;             /* 0: not given */
    const char *redis;       /* NULL: not given */
    bool json, has_format;   /* --log-format; otherwise `log.format` */
    bool reset_state;
    bool take_over;
    bool envoy;         /* read the variables of envoyproxy/ratelimit */
    const char *policy; /* for the examples with a file; NULL: none are printed */
} settings;

static const char usage_begin[] =
    "Usage: weir serve [OPTION]... [FILE]\n"
    "\n"
    "Serves Redis clients (RESP2 and RESP3), HTTP clients, gRPC clients such as Envoy, and\n"
    "HAProxy (SPOE), in the foreground, until SIGTERM or SIGINT. FILE is YAML; weir check FILE\n"
    "validates it. On SIGHUP, and when FILE changes, the daemon reads it again. Without FILE\n"
    "there are no named policies, RESP is on 127.0.0.1:6380 and HTTP on 127.0.0.1:8080. The log\n"
    "is written to standard error.\n"
    "\n";

static const char usage_end[] =
    "  --threads N      event loops, 1 to 256; default: as in FILE, or one for each core\n"
    "  --connections N  the maximum number of connections, 1 to 1000000; default: as in FILE,\n"
    "                   or 10000\n"
    "  --redis URL      use the engine redis instead of local, with the Redis or Valkey server\n"
    "                   of URL, such as redis://127.0.0.1:6379; daemons with the same server\n"
    "                   share their limits\n"
    "  --envoy          read the environment variables of envoyproxy/ratelimit, and serve its\n"
    "                   limits; keys of FILE win over variables\n"
    "  --reset-state    discard the contents of the state file, and start with an empty one\n"
    "  --take-over      replace the running daemon that listens at hand_over of FILE, on the\n"
    "                   same addresses; no connection is refused\n"
    "  --log-format F   text or json, one event on each line; default: as in FILE, or text\n"
    "  --help           print this text\n"
    "\n"
    "Exit status: 0 stopped by a signal or replaced, 1 failure, 2 usage error.\n"
    "\n"
    "Examples:\n"
    "  weir serve --port 7000\n"
    "  weir serve /etc/weir/weir.yaml --log-format json\n"
    "  RUNTIME_ROOT=/data RUNTIME_SUBDIRECTORY=ratelimit weir serve --envoy\n"
    "  redis-cli -p 7000 WEIR.CHECK 'gcra 100/s burst 20' alice\n"
    "  curl 'http://127.0.0.1:8080/v1/check?limit=gcra+100/s+burst+20&key=alice'\n";

/* ---- the command line ------------------------------------------------------------------------ */

/* Reads a decimal number of low..high. Prints an error if it is none. */
static bool read_number(const char *option, const char *text, long low, long high, int *ret)
{
    uint64_t n;
    if (!weir_decimal_read(text, strlen(text), (uint64_t)high, &n) || n < (uint64_t)low) {
        fprintf(stderr, "weir serve: %s %s: expected a number from %ld to %ld\n", option, text, low,
                high);
        return false;
    }
    *ret = (int)n;
    return true;
}

/* Reads a number in the range of a key of weir.yaml. */
static bool read_key(const char *option, const char *path, int *ret)
{
    const config_key *key = config_find_key(path);
    return read_number(option, optarg, (long)key->low, (long)key->high, ret);
}

static bool read_format(const char *text, bool *ret_json)
{
    *ret_json = strcmp(text, "json") == 0;
    if (*ret_json || strcmp(text, "text") == 0)
        return true;
    fprintf(stderr, "weir serve: --log-format %s: expected text or json\n", text);
    return false;
}

static bool read_port(protocol_kind kind, settings *ret)
{
    char option[32];
    snprintf(option, sizeof option, "--%s", protocol_of(kind)->option);
    return read_number(option, optarg, 0, 65535, &ret->port[kind]);
}

static bool read_option(int o, settings *ret)
{
    if (o >= OPTION_PORT)
        return read_port((protocol_kind)(o - OPTION_PORT), ret);
    switch (o) {
    case 't':
        return read_key("--threads", "threads", &ret->threads);
    case 'c':
        return read_key("--connections", "limits.connections", &ret->connections);
    case 'e':
        ret->redis = optarg;
        return true;
    case 'r':
        ret->reset_state = true;
        return true;
    case 'E':
        ret->envoy = true;
        return true;
    case 'T':
        ret->take_over = true;
        return true;
    case 'l':
        ret->has_format = true;
        return read_format(optarg, &ret->json);
    default: /* options_next() has printed the error */
        return false;
    }
}

static void print_usage(void)
{
    fputs(usage_begin, stdout);
    for (protocol_kind kind = 0; config_protocol(kind); kind++) {
        if (protocol_of(kind)->option)
            fputs(protocol_of(kind)->usage, stdout);
    }
    fputs(usage_end, stdout);
}

/* Returns 0 to go on; otherwise the exit status + 1. */
static int read_options(int argc, char **argv, settings *ret)
{
    static const struct option others[] = {{"threads", required_argument, NULL, 't'},
                                           {"connections", required_argument, NULL, 'c'},
                                           {"redis", required_argument, NULL, 'e'},
                                           {"reset-state", no_argument, NULL, 'r'},
                                           {"envoy", no_argument, NULL, 'E'},
                                           {"take-over", no_argument, NULL, 'T'},
                                           {"log-format", required_argument, NULL, 'l'},
                                           {"help", no_argument, NULL, 'h'},
                                           {0}};
    struct option options[PROTOCOLS_MAX + sizeof others / sizeof others[0]];
    size_t n = 0;
    for (protocol_kind kind = 0; config_protocol(kind); kind++) {
        if (protocol_of(kind)->option)
            options[n++] = (struct option){protocol_of(kind)->option, required_argument, NULL,
                                           OPTION_PORT + (int)kind};
    }
    memcpy(options + n, others, sizeof others);
    int o;
    optind = 0;
    while ((o = options_next("weir serve", argc, argv, options)) != -1) {
        if (o == 'h') {
            print_usage();
            return 1;
        }
        if (!read_option(o, ret))
            return 3;
    }
    if (optind < argc)
        ret->path = argv[optind++];
    if (optind < argc) {
        fprintf(stderr, "weir serve: unexpected '%s'; see weir serve --help\n", argv[optind]);
        return 3;
    }
    return 0;
}

/* ---- the configuration ----------------------------------------------------------------------- */

/* Replaces all TCP addresses of a protocol by 127.0.0.1:port. */
static void listen_on(weir_config *c, protocol_kind protocol, int port)
{
    size_t n = 0;
    for (size_t i = 0; i < c->listens_len; i++) {
        if (c->listens[i].protocol != protocol || c->listens[i].address[0] == '/')
            c->listens[n++] = c->listens[i];
    }
    WEIR_ASSERT(n < CONFIG_LISTENS_MAX);
    config_listen *l = &c->listens[n++];
    *l = (config_listen){.protocol = protocol};
    snprintf(l->address, sizeof l->address, "127.0.0.1:%d", port);
    c->listens_len = n;
}

/* Applies the command line to a configuration. With a port and without a file, that port is the
 * only address. */
static bool adjust(void *ctx, weir_config *c)
{
    const settings *set = ctx;
    bool any = false;
    for (protocol_kind kind = 0; config_protocol(kind); kind++)
        any |= set->port[kind] >= 0;
    if (!set->path && !set->envoy && any)
        c->listens_len = 0;
    for (protocol_kind kind = 0; config_protocol(kind); kind++) {
        if (set->port[kind] >= 0)
            listen_on(c, kind, set->port[kind]);
    }
    if (set->connections > 0)
        c->connections = set->connections;
    if (set->has_format)
        c->log_json = set->json;
    if (set->threads > 0)
        c->threads = (unsigned)set->threads;
    if (!c->has_per_address)
        c->per_address = config_default_per_address(c);
    if (!c->has_buffers)
        c->buffers_bytes = config_default_buffers(c);
    weir_redis_error error;
    if (!set->redis || config_use_redis(c, set->redis, &error))
        return true;
    fprintf(stderr, "weir serve: --redis: %s\n", error.text);
    return false;
}

/* Prints example commands for a user who has started weir by hand: without a configuration file, or
 * on a terminal. */
static void ready(void *ctx, char (*addresses)[DAEMON_ADDRESSES_MAX])
{
    const settings *set = ctx;
    if (set->envoy || (set->path && !set->policy))
        return;
    puts("weir is ready; try");
    for (protocol_kind kind = 0; config_protocol(kind); kind++) {
        addresses[kind][strcspn(addresses[kind], ",")] = '\0'; /* the first of several */
        if (addresses[kind][0])
            protocol_of(kind)->print_example(addresses[kind], set->policy);
    }
    fflush(stdout);
}

/* The policy of the examples. None if a client needs a password or TLS. */
static const char *example_policy(const weir_config *c)
{
    bool plain = isatty(STDOUT_FILENO) && c->users_len == 0 && c->rules_len > 0;
    for (size_t i = 0; i < c->listens_len; i++)
        plain = plain && !config_listen_tls(c, &c->listens[i]);
    return plain ? c->rules[0].name : NULL;
}

static void log_problem(void *ctx, const config_problem *problem)
{
    daemon_log_problem(ctx, problem);
}

/* Prints errors with a caret for a person, or as log events if the log is JSON. */
static weir_config *read_config(settings *set, const weir_zones *zones, log_target *log)
{
    weir_config *c = NULL;
    const config_sink sink = set->json ? (config_sink){log_problem, log} : config_print_to(stderr);
    if (set->envoy) {
        if (config_load_environment(set->path, environ, zones, &sink, &c) != WEIR_OK)
            return NULL;
    } else if (set->path) {
        if (config_load(set->path, true, zones, &sink, &c) != WEIR_OK)
            return NULL;
    } else {
        c = config_default();
        if (!c)
            fputs("weir serve: out of memory\n", stderr);
    }
    if (c && !adjust(set, c)) {
        config_free(c);
        return NULL;
    }
    return c;
}

/* ---- the variables of --envoy ---------------------------------------------------------------- */

static void log_variables(void *ctx, bool warning, const char *names, const char *why)
{
    log_event(ctx, warning ? WEIR_LOG_WARNING : WEIR_LOG_INFO,
              warning ? "variables-not-supported" : "variables-not-needed",
              LOG(log_text("variables", names), log_text("why", why)));
}

/* Logs which variables have no effect, and which addresses every client can use. */
static void log_environment(const weir_config *c, const log_target *log)
{
    for (size_t i = 0; config_guest_at(i); i++) {
        if (config_guest_at(i)->explain_environment)
            config_guest_at(i)->explain_environment(environ, log_variables, (void *)log);
    }
    size_t grpc = 0;
    for (size_t i = 0; i < c->listens_len; i++)
        grpc += c->listens[i].protocol == PROTOCOL_GRPC;
    if (grpc == 0)
        log_event(log, WEIR_LOG_WARNING, "no-grpc-address",
                  LOG(log_text("text", "no address serves gRPC: listen in the configuration file "
                                       "replaces all addresses of the variables")));
    for (size_t i = 0; i < c->listens_len && c->users_len == 0; i++) {
        const config_tls *tls = config_listen_tls(c, &c->listens[i]);
        if (c->listens[i].is_public && !(tls && tls->client_ca))
            log_event(log, WEIR_LOG_WARNING, "public-address",
                      LOG(log_text("address", c->listens[i].address),
                          log_text("text", "every client that reaches the address can use it, and "
                                           "there is no password")));
    }
}

/* Returns what is wrong with the options, given the configuration; NULL if nothing is. */
static const char *find_contradiction(const settings *set, const weir_config *c)
{
    if (set->reset_state && !c->state_file)
        return "--reset-state: no state file, expected memory.file in the configuration";
    if (set->take_over && set->reset_state)
        return "--take-over: cannot be combined with --reset-state";
    if (set->take_over && !c->hand_over)
        return "--take-over: no socket, expected hand_over in the configuration";
    return NULL;
}

/* The words of this command line, with NULL at the end. NULL if memory is exhausted. */
static char **command_line(int argc, char **argv)
{
    char **words = port_zalloc((size_t)argc + 2, sizeof *words);
    if (!words)
        return NULL;
    words[0] = program_invocation_name;
    for (int i = 0; i < argc; i++)
        words[i + 1] = argv[i];
    return words;
}

int weir_cmd_serve(int argc, char **argv)
{
    settings set = {0};
    const char *wrong = NULL;
    for (size_t i = 0; i < PROTOCOLS_MAX; i++)
        set.port[i] = -1;
    int done = read_options(argc, argv, &set);
    if (done)
        return done - 1;
    weir_zone_cache *cache = weir_zone_cache_open(WEIR_ZONEINFO_DIR);
    if (!cache) {
        fputs("weir serve: out of memory\n", stderr);
        return 1;
    }
    const weir_zones zones = weir_zone_cache_zones(cache);
    log_target log = {.fd = 2, .json = {set.json}, .least = {WEIR_LOG_INFO}};
    weir_config *config = read_config(&set, &zones, &log);
    int status = 1;
    if (config)
        log_configure(&log, config->log_level, config->log_json);
    if (config && set.path)
        set.policy = example_policy(config);
    if (config && set.envoy)
        log_environment(config, &log);
    if (config)
        wrong = find_contradiction(&set, config);
    if (wrong) {
        fprintf(stderr, "weir serve: %s\n", wrong);
        status = 2;
    } else if (config) {
        char **words = command_line(argc, argv);
        const daemon_options options = {.path = set.path,
                                        .env = set.envoy ? environ : NULL,
                                        .config = config,
                                        .zones = &zones,
                                        .log = &log,
                                        .reset_state = set.reset_state,
                                        .take_over = set.take_over,
                                        .argv = words,
                                        .ctx = &set,
                                        .adjust = adjust,
                                        .ready = ready};
        status = daemon_run(&options);
        port_free(words);
    }
    config_free(config);
    weir_zone_cache_close(cache);
    return status;
}
