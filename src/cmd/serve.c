/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* `weir serve`: the daemon in the foreground, on a store of its own. */

#include "cmd/cmd.h"
#include "codec/resp_commands.h"
#include "net/server.h"
#include "service/zones.h"

#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PORT_DEFAULT = 6380, CONNECTIONS_DEFAULT = 10000 };

typedef struct settings {
    int port;
    int connections_max;
} settings;

static const char usage[] =
    "weir serve [--port N] [--connections N]\n"
    "\n"
    "Answers Redis clients (RESP2) on 127.0.0.1. State is kept in memory.\n"
    "\n"
    "  --port N         0 to 65535, 6380 if not given; 0 takes any free port\n"
    "  --connections N  1 to 1000000, 10000 if not given; more are told so and closed\n"
    "\n"
    "Commands:\n"
    "  WEIR.CHECK 'policy text' key [COST n]\n"
    "      [allowed 0|1, limit, remaining, retry_after_ms, reset_after_ms, delay_ms]\n"
    "  CL.THROTTLE key max_burst count period [quantity]     as redis-cell\n"
    "  PING [text]\n"
    "\n"
    "Examples:\n"
    "  weir serve --port 7000\n"
    "  redis-cli -p 7000 WEIR.CHECK 'gcra 100/s burst 20' alice\n"
    "  redis-cli -p 7000 WEIR.CHECK 'fixed-window 1000/day tz Europe/Berlin' alice COST 5\n";

/* Digits alone, low..high. Says what is wrong. */
static bool read_number(const char *option, const char *text, long low, long high, int *ret)
{
    char *end;
    errno = 0;
    long n = strtol(text, &end, 10);
    if (text[0] < '0' || text[0] > '9' || errno != 0 || *end != '\0' || n < low || n > high) {
        fprintf(stderr, "weir serve: %s %s: expected a number from %ld to %ld\n", option, text, low,
                high);
        return false;
    }
    *ret = (int)n;
    return true;
}

/* 0 to go on, else the exit status + 1. */
static int read_options(int argc, char **argv, settings *ret)
{
    static const struct option options[] = {{"port", required_argument, NULL, 'p'},
                                            {"connections", required_argument, NULL, 'c'},
                                            {"help", no_argument, NULL, 'h'},
                                            {0}};
    int o;
    while ((o = getopt_long(argc, argv, "h", options, NULL)) != -1) {
        bool good = false; /* at anything else getopt has said why */
        if (o == 'h') {
            fputs(usage, stdout);
            return 1;
        }
        if (o == 'p')
            good = read_number("--port", optarg, 0, 65535, &ret->port);
        else if (o == 'c')
            good = read_number("--connections", optarg, 1, 1000000, &ret->connections_max);
        if (!good)
            return 3;
    }
    if (optind < argc) {
        fprintf(stderr, "weir serve: unexpected '%s'; see weir serve --help\n", argv[optind]);
        return 3;
    }
    return 0;
}

static void say_hello(const char *address)
{
    const char *port = strrchr(address, ':') + 1;
    printf("weir " WEIR_VERSION " listening on %s; try\n"
           "  redis-cli -p %s WEIR.CHECK 'gcra 100/s burst 20' alice\n"
           "  redis-cli -p %s CL.THROTTLE alice 15 30 60\n",
           address, port, port);
    fflush(stdout);
}

/* ---- RESP, as the server knows it ------------------------------------------------------------ */

static void open_session(void *session, void *ctx)
{
    weir_resp_session_init(session, ctx);
}

static weir_step run_session(void *session, weir_buffer *in, weir_buffer *out, size_t out_pause,
                             int64_t now_ns)
{
    static const weir_next next[] = {[WEIR_SESSION_READ] = WEIR_NEXT_READ,
                                     [WEIR_SESSION_AGAIN] = WEIR_NEXT_AGAIN,
                                     [WEIR_SESSION_WAIT] = WEIR_NEXT_WAIT,
                                     [WEIR_SESSION_CLOSE] = WEIR_NEXT_CLOSE};
    weir_session_step step = weir_resp_session_run(session, in, out, out_pause, now_ns);
    return (weir_step){next[step.next], step.until_ns};
}

static const weir_protocol resp = {
    .name = "resp",
    .session_size = sizeof(weir_resp_session),
    .open = open_session,
    .run = run_session,
    .refusal = "-ERR max number of clients reached\r\n",
    .overload = "-OOM no memory left for buffers\r\n",
    .timeout = "-ERR the request did not end in time\r\n",
};

static weir_status open_server(weir_server **ret, const settings *set, void *resp_options,
                               char *error, size_t size)
{
    char address[32];
    snprintf(address, sizeof address, "127.0.0.1:%d", set->port);
    weir_listen listen = {address, &resp};
    weir_server_options options = {
        .listens = &listen,
        .listens_len = 1,
        .loops = 1,
        .contexts = &resp_options,
        .limits = {.connections = set->connections_max,
                   .buffers = (size_t)256 << 20,
                   .request = 2 << 20,
                   .request_ns = 60000000000,
                   .write_ns = 60000000000},
        .drain_ns = 2000000000,
    };
    return weir_server_open(ret, &options, error, size);
}

static int serve(const settings *set)
{
    weir_store *store = NULL;
    weir_hub *hub = NULL;
    weir_service *service = NULL;
    weir_server *server = NULL;
    char error[256] = "";
    weir_zone_book *zones = weir_zone_book_open(WEIR_ZONEINFO_DIR);
    weir_status st = zones ? weir_store_open(&store, NULL) : WEIR_E_NOMEM;
    weir_zones find = {0};
    if (st == WEIR_OK) {
        find = weir_zone_book_zones(zones);
        st = weir_hub_open(&hub, store, &find);
    }
    if (st == WEIR_OK)
        st = weir_service_open(&service, hub);
    weir_resp_options resp_options = {
        .service = service, .version = WEIR_VERSION, .first_id = 1, .id_step = 1};
    if (st == WEIR_OK)
        st = open_server(&server, set, &resp_options, error, sizeof error);
    if (st == WEIR_OK) {
        say_hello(weir_server_address(server, 0));
        weir_server_run(server);
    } else {
        fprintf(stderr, "weir serve: %s\n", error[0] ? error : weir_status_str(st));
    }
    weir_server_close(server);
    weir_service_close(service);
    weir_hub_close(hub);
    weir_store_close(store);
    weir_zone_book_close(zones);
    return st == WEIR_OK ? 0 : 1;
}

int weir_cmd_serve(int argc, char **argv)
{
    settings set = {PORT_DEFAULT, CONNECTIONS_DEFAULT};
    int done = read_options(argc, argv, &set);
    return done ? done - 1 : serve(&set);
}
