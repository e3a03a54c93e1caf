/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* A Sentinel's reply may be outdated. The node's own ROLE is checked by the handshake. */

#include "engine/redis/client/topology.h"

#include "engine/redis/client/wire.h"
#include "port/assert.h"

#include <stdio.h>
#include <string.h>

#define ASK_NS  (1000 * WEIR_REDIS_MS) /* between two requests while the master is up */
#define LOST_NS (100 * WEIR_REDIS_MS)  /* and while it is not */

static bool is_master_up(const weir_redis_topology *t)
{
    return t->master != WEIR_REDIS_NO_NODE && t->node[t->master]->state == WEIR_REDIS_UP;
}

/* Chooses the next Sentinel that is not in backoff. If all are, the current one stays. */
static void choose(weir_redis_topology *t)
{
    WEIR_ASSERT(t->seeds > 0 && t->sentinel.at < t->seeds);
    for (uint16_t i = 0; i < t->seeds; i++) {
        uint16_t at = (uint16_t)((t->sentinel.at + i) % t->seeds);
        if (t->node[at]->state == WEIR_REDIS_BACKOFF)
            continue;
        t->sentinel.at = at;
        return;
    }
}

void weir_redis_sentinel_poll(weir_redis_topology *t, int64_t now_ns, int64_t *wake_ns)
{
    weir_redis_sentinel *s = &t->sentinel;
    choose(t);
    weir_redis_node *n = t->node[s->at];
    if (n->state != WEIR_REDIS_UP || s->asked)
        return; /* the next change of its state calls this again */
    if (s->next_ns <= now_ns && weir_redis_node_request(n, WEIR_REDIS_EXPECTS_MASTER, 3, now_ns)) {
        weir_redis_node_word(n, "SENTINEL");
        weir_redis_node_word(n, "GET-MASTER-ADDR-BY-NAME");
        weir_redis_node_word(n, t->context->options->sentinel);
        s->asked = true;
        s->host[0] = 0;
        s->port = 0;
    } else if (s->next_ns < *wake_ns) {
        *wake_ns = s->next_ns;
    }
}

static void set_master(weir_redis_topology *t, weir_redis_node *n, int64_t now_ns)
{
    if (n->at == t->master)
        return;
    n->database = t->database;
    t->master = n->at;
    weir_redis_node_log(n, "redis-master", t->context->options->sentinel);
    weir_redis_node_end_backoff(n, now_ns);
}

static void read_address(weir_redis_sentinel *s, uint32_t index, const weir_resp_value *v)
{
    uint64_t port;
    if (index == 0 && weir_redis_host_is_valid(v->text, v->len))
        memcpy(memset(s->host, 0, sizeof s->host), v->text, v->len);
    if (index == 1 && weir_decimal_read(v->text, v->len, UINT16_MAX, &port))
        s->port = (uint16_t)port;
}

void weir_redis_sentinel_receive(weir_redis_topology *t, weir_redis_node *n,
                                 const weir_resp_value *v, int64_t now_ns)
{
    weir_redis_sentinel *s = &t->sentinel;
    char why[WEIR_REDIS_WHY_MAX];
    if (v->depth == 0 && v->type == WEIR_RESP_ERROR_REPLY) {
        weir_redis_node_fail(n, weir_redis_copy_text(why, sizeof why, v->text, v->len), now_ns);
        return;
    }
    if (v->depth == 1 && v->type == WEIR_RESP_BULK)
        read_address(s, n->stream.index[1], v);
    if (!v->last)
        return;
    s->asked = false;
    bool good = s->host[0] && s->port != 0;
    weir_redis_node *master = good ? weir_redis_topology_add(t, s->host, s->port) : NULL;
    if (!master || master->is_sentinel) {
        (void)snprintf(why, sizeof why, "the Sentinel does not know the master %s",
                       t->context->options->sentinel);
        n->lacks_master = true; /* its connections are not logged until it does */
        weir_redis_node_fail(n, why, now_ns);
        return;
    }
    n->lacks_master = false;
    weir_redis_node_log_up(n);
    set_master(t, master, now_ns);
    s->next_ns = now_ns + (is_master_up(t) ? ASK_NS : LOST_NS);
}

void weir_redis_sentinel_lost(weir_redis_topology *t, const weir_redis_node *n)
{
    if (n->at == t->sentinel.at)
        t->sentinel.asked = false;
    else if (n->at == t->master)
        t->sentinel.next_ns = 0;
}
