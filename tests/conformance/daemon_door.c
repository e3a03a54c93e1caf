/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* The daemon's door: RESP bytes through the codec, the service and the store, and the reply's bytes
 * back, with the vector's time passed in. It answers in whole milliseconds and has no layer. */

#include "vectors.h"

#include "codec/resp_commands.h"
#include "service/zones.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct daemon_ctx {
    weir_zones zones;
    weir_store *store;
    weir_hub *hub;
    weir_service *service;
    weir_resp_options options;
    weir_resp_session session;
    weir_buffer in, out;
    const char *policy;
} daemon_ctx;

/* A store of its own for each case, since a store's time never goes back. */
static bool begin(void *ctx, const char *policy)
{
    daemon_ctx *d = ctx;
    d->policy = policy;
    if (weir_store_open(&d->store, NULL) != WEIR_OK ||
        weir_hub_open(&d->hub, d->store, &d->zones) != WEIR_OK ||
        weir_service_open(&d->service, d->hub) != WEIR_OK)
        return false;
    weir_buffer_init(&d->in, 1 << 16);
    weir_buffer_init(&d->out, 1 << 16);
    d->options = (weir_resp_options){.service = d->service, .version = ""};
    weir_resp_session_init(&d->session, &d->options);
    return true;
}

static void end(void *ctx)
{
    daemon_ctx *d = ctx;
    weir_buffer_free(&d->in);
    weir_buffer_free(&d->out);
    weir_service_close(d->service);
    weir_hub_close(d->hub);
    weir_store_close(d->store);
    d->service = NULL;
    d->hub = NULL;
    d->store = NULL;
}

static weir_status read_reply(const char *reply, weir_decision *ret)
{
    int64_t v[6];
    int used = 0;
    if (sscanf(reply,
               "*6\r\n:%" SCNd64 "\r\n:%" SCNd64 "\r\n:%" SCNd64 "\r\n:%" SCNd64 "\r\n:%" SCNd64
               "\r\n:%" SCNd64 "\r\n%n",
               &v[0], &v[1], &v[2], &v[3], &v[4], &v[5], &used) != 6 ||
        reply[used] != '\0') {
        fprintf(stderr, "    replied: %s\n", reply);
        return WEIR_E_SYNTAX;
    }
    *ret = (weir_decision){.allowed = v[0] == 1,
                           .limit = v[1],
                           .remaining = v[2],
                           .never = v[3] == -1,
                           .retry_after_ns = v[3] == -1 ? INT64_MAX : v[3] * 1000000,
                           .reset_after_ns = v[4] * 1000000,
                           .delay_ns = v[5] * 1000000};
    return WEIR_OK;
}

static weir_status ask(void *ctx, const step *s, weir_decision *ret)
{
    daemon_ctx *d = ctx;
    char cost[24], head[64];
    int cost_len = snprintf(cost, sizeof cost, "%" PRId64, s->cost);
    int len = snprintf(head, sizeof head, "*5\r\n$10\r\nWEIR.CHECK\r\n$%zu\r\n", strlen(d->policy));
    weir_buffer_append(&d->in, head, (size_t)len);
    weir_buffer_append(&d->in, d->policy, strlen(d->policy));
    len =
        snprintf(head, sizeof head, "\r\n$3\r\nkey\r\n$4\r\nCOST\r\n$%d\r\n%s\r\n", cost_len, cost);
    weir_buffer_append(&d->in, head, (size_t)len);
    weir_resp_session_run(&d->session, &d->in, &d->out, 1 << 15, s->t_ns);
    weir_buffer_append(&d->out, "", 1);
    weir_status st = read_reply((const char *)weir_buffer_data(&d->out), ret);
    weir_buffer_clear(&d->out);
    return st;
}

static int64_t up_to_ms(int64_t ns)
{
    return (ns / 1000000 + (ns % 1000000 > 0)) * 1000000;
}

static void round_figures(weir_decision *d)
{
    if (!d->never)
        d->retry_after_ns = up_to_ms(d->retry_after_ns);
    d->reset_after_ns = up_to_ms(d->reset_after_ns);
    d->delay_ns = up_to_ms(d->delay_ns);
    d->layer = 0;
}

int main(int argc, char **argv)
{
    weir_zone_book *book = weir_zone_book_open(WEIR_ZONEINFO_DIR);
    daemon_ctx ctx = {.zones = weir_zone_book_zones(book)};
    door d = {.name = "daemon",
              .begin = begin,
              .ask = ask,
              .round = round_figures,
              .end = end,
              .ctx = &ctx};
    int status = vectors_run(&d, argc - 1, argv + 1);
    weir_zone_book_close(book);
    return status;
}
