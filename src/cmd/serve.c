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

static void say_hello(int port)
{
    printf("weir " WEIR_VERSION " listening on 127.0.0.1:%d; try\n"
           "  redis-cli -p %d WEIR.CHECK 'gcra 100/s burst 20' alice\n"
           "  redis-cli -p %d CL.THROTTLE alice 15 30 60\n",
           port, port, port);
    fflush(stdout);
}

/* ---- RESP, as the server knows it ------------------------------------------------------------ */

static void open_session(void *session, void *ctx)
{
    weir_resp_session_init(session, ctx);
}

static bool run_session(void *session, weir_buffer *in, weir_buffer *out, size_t out_pause,
                        int64_t now_ns)
{
    return weir_resp_session_run(session, in, out, out_pause, now_ns);
}

static bool session_closing(const void *session)
{
    const weir_resp_session *s = session;
    return s->closing;
}

static weir_protocol resp_of(weir_service *service)
{
    return (weir_protocol){.ctx = service,
                           .session_size = sizeof(weir_resp_session),
                           .open = open_session,
                           .run = run_session,
                           .closing = session_closing,
                           .refusal = "-ERR max number of clients reached\r\n"};
}

static int serve(const settings *set)
{
    weir_store *store = NULL;
    weir_service *service = NULL;
    weir_server *server = NULL;
    char error[256] = "";
    weir_zone_book *zones = weir_zone_book_open(WEIR_ZONEINFO_DIR);
    weir_status st = zones ? weir_store_open(&store, NULL) : WEIR_E_NOMEM;
    if (st == WEIR_OK) {
        weir_zones find = weir_zone_book_zones(zones);
        st = weir_service_open(&service, store, &find);
    }
    if (st == WEIR_OK) {
        weir_server_options options = {resp_of(service), set->port, set->connections_max};
        st = weir_server_open(&server, &options, error, sizeof error);
    }
    if (st == WEIR_OK) {
        say_hello(weir_server_port(server));
        weir_server_run(server);
    } else {
        fprintf(stderr, "weir serve: %s\n", error[0] ? error : weir_status_str(st));
    }
    weir_server_close(server);
    weir_service_close(service);
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
