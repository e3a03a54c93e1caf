/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* `weir serve`: what the command line and the configuration file say, handed to the daemon. */

#include "cmd/cmd.h"
#include "cmd/daemon.h"
#include "cmd/options.h"
#include "port/text.h"
#include "service/zone_cache.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { OPTION_PORT = 256 }; /* + protocol_kind: the option of a protocol */

typedef struct settings {
    const char *path;    /* NULL: no file */
    int port[PROTOCOLS]; /* -1: as the file says */
    int connections;     /* 0: as the file says */
    int threads;
    const char *redis; /* NULL: as the file says */
    bool json;
    bool reset_state;
} settings;

static const char usage_begin[] =
    "Usage: weir serve [OPTION]... [FILE]\n"
    "\n"
    "Answers Redis clients (RESP2 and RESP3) and HTTP, in the foreground, until SIGTERM or\n"
    "SIGINT. FILE is YAML; weir check FILE says what it means. On SIGHUP, and when it\n"
    "changes, its policies are read anew. Without a file there are no named policies, RESP is\n"
    "on 127.0.0.1:6380 and HTTP on 127.0.0.1:8080. The log goes to standard error.\n"
    "\n";

static const char usage_end[] =
    "  --threads N      event loops, 1 to 256; if not given, as the file says, or one for each "
    "core\n"
    "  --connections N  1 to 1000000; if not given, as the file says, or 10000\n"
    "  --redis URL      this Redis or Valkey decides what is local otherwise, such as\n"
    "                   redis://127.0.0.1:6379; daemons with the same server share their limits\n"
    "  --reset-state    start with an empty state file, whatever is in it\n"
    "  --log-format F   text or json, one event a line\n"
    "  --help           this text\n"
    "\n"
    "Exit status: 0 ended by a signal, 1 something failed, 2 wrong usage.\n"
    "\n"
    "Examples:\n"
    "  weir serve --port 7000\n"
    "  weir serve /etc/weir/weir.yaml --log-format json\n"
    "  redis-cli -p 7000 WEIR.CHECK 'gcra 100/s burst 20' alice\n"
    "  curl 'http://127.0.0.1:8080/v1/check?limit=gcra+100/s+burst+20&key=alice'\n";

/* ---- the command line ------------------------------------------------------------------------ */

/* Digits alone, low..high. Says what is wrong. */
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
    snprintf(option, sizeof option, "--%s", protocols[kind].option);
    return read_number(option, optarg, 0, 65535, &ret->port[kind]);
}

static bool read_option(int o, settings *ret)
{
    if (o >= OPTION_PORT)
        return read_port((protocol_kind)(o - OPTION_PORT), ret);
    switch (o) {
    case 't':
        return read_number("--threads", optarg, 1, 256, &ret->threads);
    case 'c':
        return read_number("--connections", optarg, 1, 1000000, &ret->connections);
    case 'e':
        ret->redis = optarg;
        return true;
    case 'r':
        ret->reset_state = true;
        return true;
    case 'l':
        return read_format(optarg, &ret->json);
    default: /* it was said why */
        return false;
    }
}

static void print_usage(void)
{
    fputs(usage_begin, stdout);
    for (protocol_kind kind = 0; kind < PROTOCOLS; kind++)
        fputs(protocols[kind].usage, stdout);
    fputs(usage_end, stdout);
}

/* 0 to go on, else the exit status + 1. */
static int read_options(int argc, char **argv, settings *ret)
{
    static const struct option others[] = {{"threads", required_argument, NULL, 't'},
                                           {"connections", required_argument, NULL, 'c'},
                                           {"redis", required_argument, NULL, 'e'},
                                           {"reset-state", no_argument, NULL, 'r'},
                                           {"log-format", required_argument, NULL, 'l'},
                                           {"help", no_argument, NULL, 'h'},
                                           {0}};
    struct option options[PROTOCOLS + sizeof others / sizeof others[0]];
    for (int kind = 0; kind < PROTOCOLS; kind++)
        options[kind] =
            (struct option){protocols[kind].option, required_argument, NULL, OPTION_PORT + kind};
    memcpy(options + PROTOCOLS, others, sizeof others);
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

/* Puts 127.0.0.1:port in the place of all TCP listeners of a protocol. */
static void listen_on(weir_config *c, protocol_kind protocol, int port)
{
    size_t n = 0;
    for (size_t i = 0; i < c->listens_len; i++) {
        if (c->listens[i].protocol != protocol || c->listens[i].address[0] == '/')
            c->listens[n++] = c->listens[i];
    }
    if (n < CONFIG_LISTENS_MAX) {
        config_listen *l = &c->listens[n++];
        memset(l, 0, sizeof *l);
        l->protocol = protocol;
        snprintf(l->address, sizeof l->address, "127.0.0.1:%d", port);
    }
    c->listens_len = n;
}

/* With a port on the command line and no file, nothing else is listened on. */
static bool adjust(void *ctx, weir_config *c)
{
    const settings *set = ctx;
    bool any = false;
    for (protocol_kind kind = 0; kind < PROTOCOLS; kind++)
        any |= set->port[kind] >= 0;
    if (!set->path && any)
        c->listens_len = 0;
    for (protocol_kind kind = 0; kind < PROTOCOLS; kind++) {
        if (set->port[kind] >= 0)
            listen_on(c, kind, set->port[kind]);
    }
    if (set->connections > 0)
        c->connections = set->connections;
    if (set->threads > 0)
        c->threads = (unsigned)set->threads;
    weir_redis_error error;
    if (!set->redis || config_use_redis(c, set->redis, &error))
        return true;
    fprintf(stderr, "weir serve: --redis: %s\n", error.text);
    return false;
}

/* Prints example commands for a user who has started weir without a configuration file. */
static void ready(void *ctx, char (*addresses)[DAEMON_ADDRESSES_MAX])
{
    const settings *set = ctx;
    if (set->path)
        return;
    puts("weir is ready; try");
    for (protocol_kind kind = 0; kind < PROTOCOLS; kind++) {
        if (addresses[kind][0])
            protocols[kind].print_example(addresses[kind]);
    }
    fflush(stdout);
}

static void log_problem(void *ctx, const config_problem *problem)
{
    daemon_log_problem(ctx, problem);
}

/* What is wrong with the file is shown to a person with a caret, to a machine line by line. */
static weir_config *read_config(settings *set, const weir_zones *zones, log_target *log)
{
    weir_config *c = NULL;
    if (set->path) {
        const config_sink sink =
            set->json ? (config_sink){log_problem, log} : config_print_to(stderr);
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

int weir_cmd_serve(int argc, char **argv)
{
    settings set = {0};
    for (protocol_kind kind = 0; kind < PROTOCOLS; kind++)
        set.port[kind] = -1;
    int done = read_options(argc, argv, &set);
    if (done)
        return done - 1;
    weir_zone_cache *cache = weir_zone_cache_open(WEIR_ZONEINFO_DIR);
    if (!cache) {
        fputs("weir serve: out of memory\n", stderr);
        return 1;
    }
    const weir_zones zones = weir_zone_cache_zones(cache);
    log_target log = {.fd = 2, .json = set.json, .least = WEIR_LOG_INFO};
    weir_config *config = read_config(&set, &zones, &log);
    int status = 1;
    if (config && set.reset_state && !config->state_file) {
        fputs("weir serve: --reset-state: there is no state file, expected one at memory.file of "
              "the configuration\n",
              stderr);
        status = 2;
    } else if (config) {
        const daemon_options options = {.path = set.path,
                                        .config = config,
                                        .zones = &zones,
                                        .log = &log,
                                        .reset_state = set.reset_state,
                                        .ctx = &set,
                                        .adjust = adjust,
                                        .ready = ready};
        status = daemon_run(&options);
    }
    config_free(config);
    weir_zone_cache_close(cache);
    return status;
}
