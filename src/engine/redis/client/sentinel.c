/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* Who the master is, by Sentinels: one of them is asked now and then, and as soon as the master is
 * lost; if it cannot be reached or does not know, the next one. What it says is believed once the
 * node itself says that it is a master. */

#include "engine/redis/client/client_inside.h"

#include <stdio.h>
#include <string.h>

#define ASK_NS  (1000 * WEIR_REDIS_MS) /* between two requests, while the master is up */
#define LOST_NS (100 * WEIR_REDIS_MS)  /* and while it is not */

static bool is_up(const weir_redis_client *c)
{
    return c->master != WEIR_REDIS_NO_NODE && c->node[c->master]->state == WEIR_REDIS_UP;
}

/* One that is not known to be lost; else the same. */
static void turn_to_another(weir_redis_client *c)
{
    for (uint16_t i = 0; i < c->seeds; i++) {
        uint16_t at = (uint16_t)((c->sentinel_at + i) % c->seeds);
        if (c->node[at]->state == WEIR_REDIS_PAUSED)
            continue;
        c->sentinel_at = at;
        return;
    }
}

void weir_redis_sentinel_tend(weir_redis_client *c, int64_t now_ns, int64_t *wake_ns)
{
    turn_to_another(c);
    weir_redis_node *n = c->node[c->sentinel_at];
    if (n->state != WEIR_REDIS_UP || c->sentinel_asking)
        return; /* whoever comes up, answers or is lost tends */
    if (c->sentinel_next_ns <= now_ns && weir_redis_node_ask(n, WEIR_REDIS_FOR_MASTER, 3, now_ns)) {
        weir_redis_node_word(n, "SENTINEL");
        weir_redis_node_word(n, "GET-MASTER-ADDR-BY-NAME");
        weir_redis_node_word(n, c->options->sentinel);
        c->sentinel_asking = true;
        c->master_host[0] = 0;
        c->master_port = 0;
    } else if (c->sentinel_next_ns < *wake_ns) {
        *wake_ns = c->sentinel_next_ns;
    }
}

static void take_up(weir_redis_client *c, weir_redis_node *n, int64_t now_ns)
{
    uint16_t before = c->master;
    if (n->at == before)
        return;
    n->database = c->database;
    c->master = n->at;
    weir_redis_say(c, "redis-master", n, c->options->sentinel);
    weir_redis_node_hurry(n, now_ns);
    if (before != WEIR_REDIS_NO_NODE)
        weir_redis_route_all(c, &c->node[before]->waiting, now_ns);
    weir_redis_route_all(c, &c->unmapped, now_ns);
}

static void take_port(weir_redis_client *c, const weir_resp_value *v)
{
    uint64_t port = 0;
    if (v->len <= 5)
        (void)weir_decimal_read(v->text, v->len, UINT32_MAX, &port);
    c->master_port = (uint32_t)port;
}

void weir_redis_sentinel_hear(weir_redis_node *n, const weir_resp_value *v, int64_t now_ns)
{
    weir_redis_client *c = n->client;
    const uint32_t *index = n->reader.index;
    if (v->depth == 0 && v->type == WEIR_RESP_ERROR_REPLY) {
        char why[WEIR_REDIS_WHY_MAX];
        weir_redis_node_fail(n, weir_redis_copy(why, sizeof why, v->text, v->len), now_ns);
        return;
    }
    if (v->depth == 1 && v->type == WEIR_RESP_BULK && index[1] == 0 &&
        weir_redis_host_ok(v->text, v->len))
        memcpy(memset(c->master_host, 0, sizeof c->master_host), v->text, v->len);
    else if (v->depth == 1 && v->type == WEIR_RESP_BULK && index[1] == 1)
        take_port(c, v);
    if (!v->last)
        return;
    c->sentinel_asking = false;
    bool good = c->master_host[0] && c->master_port >= 1 && c->master_port <= 65535;
    weir_redis_node *master =
        good ? weir_redis_node_of(c, c->master_host, (uint16_t)c->master_port) : NULL;
    if (!master || master->is_sentinel) {
        char why[WEIR_REDIS_WHY_MAX];
        (void)snprintf(why, sizeof why, "it does not know the master %s", c->options->sentinel);
        n->is_ignorant = true; /* a line to it is no news then, until it knows */
        weir_redis_node_fail(n, why, now_ns);
        return;
    }
    n->is_ignorant = false;
    weir_redis_node_say_up(n);
    take_up(c, master, now_ns);
    c->sentinel_next_ns = now_ns + (is_up(c) ? ASK_NS : LOST_NS);
    weir_redis_tend(c, now_ns);
}

void weir_redis_sentinel_lost(weir_redis_node *n)
{
    weir_redis_client *c = n->client;
    if (n->is_sentinel && n->at == c->sentinel_at)
        c->sentinel_asking = false;
    else if (n->at == c->master)
        c->sentinel_next_ns = 0;
}
