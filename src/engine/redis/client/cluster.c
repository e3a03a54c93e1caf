/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* A map is read into a draft, and used once it is complete and valid. */

#include "engine/redis/client/topology.h"

#include "engine/redis/client/wire.h"

#include "port/assert.h"
#include "port/port.h"

#include <stdio.h>
#include <string.h>

#define REFRESH_NS (100 * WEIR_REDIS_MS)  /* the least time between two requests for the map */
#define LOST_NS    (1000 * WEIR_REDIS_MS) /* the same while a node of the map is not up */
#define REPLY_NS   (500 * WEIR_REDIS_MS)  /* after this time another node is asked */
#define LOG_NS     (5000 * WEIR_REDIS_MS) /* the least time between two logs of migrated slots */

typedef struct weir_redis_draft {
    uint16_t of_slot[WEIR_REDIS_SLOTS];
    uint32_t filled; /* slots; more than there are: the map is invalid */
    int64_t start, end;
    char host[WEIR_REDIS_HOST_MAX];
    bool is_bad;
} weir_redis_draft;

/* ---- reading a map --------------------------------------------------------------------------- */

static void add_range(weir_redis_topology *t, weir_redis_draft *d, int64_t port)
{
    bool good = d->start >= 0 && d->start <= d->end && d->end < WEIR_REDIS_SLOTS && port >= 1 &&
                port <= 65535;
    if (good)
        d->filled += (uint32_t)(d->end - d->start) + 1;
    if (!good || d->filled > WEIR_REDIS_SLOTS) {
        d->is_bad = true;
        return;
    }
    weir_redis_node *master = weir_redis_topology_add(t, d->host, (uint16_t)port);
    if (!master || master->is_sentinel)
        return; /* the slots stay without a node */
    for (int64_t slot = d->start; slot <= d->end; slot++)
        d->of_slot[slot] = master->at;
    master->in_map = true; /* so that it is not removed from the table */
}

/* An absent host, or "?", is the host of the server that replied. */
static void read_host(const weir_redis_node *n, weir_redis_draft *d, const weir_resp_value *v)
{
    bool is_text = v->type == WEIR_RESP_BULK;
    bool is_same = v->type == WEIR_RESP_NULL || (is_text && v->len == 0) ||
                   (is_text && v->len == 1 && v->text[0] == '?');
    if (is_same)
        memcpy(d->host, n->host, sizeof d->host);
    else if (is_text && weir_redis_host_is_valid(v->text, v->len))
        memcpy(memset(d->host, 0, sizeof d->host), v->text, v->len);
    else
        d->is_bad = true;
}

/* [[first slot, last slot, [host, port, ...], replicas...], ...]. */
static void read_value(weir_redis_topology *t, const weir_redis_node *n, const weir_resp_value *v)
{
    weir_redis_draft *d = t->cluster.draft;
    const uint32_t *index = n->stream.index;
    bool is_integer = v->type == WEIR_RESP_INTEGER, is_array = v->type == WEIR_RESP_ARRAY;
    if (v->depth == 1) {
        d->is_bad |= !is_array || v->len < 3;
    } else if (v->depth == 2 && index[2] < 2) {
        d->is_bad |= !is_integer;
        *(index[2] == 0 ? &d->start : &d->end) = v->integer;
    } else if (v->depth == 2 && index[2] == 2) {
        d->is_bad |= !is_array || v->len < 2;
    } else if (v->depth == 3 && index[2] == 2 && index[3] == 0) {
        read_host(n, d, v);
    } else if (v->depth == 3 && index[2] == 2 && index[3] == 1) {
        add_range(t, d, is_integer ? v->integer : 0);
    }
}

/* ---- using a map ----------------------------------------------------------------------------- */

/* Logs a map with other nodes at once, and one with migrated slots at most every LOG_NS. */
static void log_map(weir_redis_topology *t, const weir_redis_node *from, size_t masters,
                    bool other_nodes, int64_t now_ns)
{
    weir_redis_cluster *c = &t->cluster;
    if (!other_nodes && (!c->has_changed || now_ns - c->logged_ns < LOG_NS))
        return;
    char text[64];
    (void)snprintf(text, sizeof text, "%zu masters, %u slots", masters,
                   (unsigned)(WEIR_REDIS_SLOTS - c->uncovered));
    c->logged_ns = now_ns;
    c->has_changed = false;
    weir_redis_node_log(from, "redis-slots", text);
}

static void use_map(weir_redis_topology *t, const weir_redis_node *from, const weir_redis_draft *d,
                    int64_t now_ns)
{
    bool in[WEIR_REDIS_NODES_MAX] = {false}, other_nodes = t->mode != WEIR_REDIS_CLUSTER;
    size_t masters = 0;
    t->cluster.uncovered = 0;
    for (size_t i = 0; i < WEIR_REDIS_SLOTS; i++) {
        uint16_t at = d->of_slot[i];
        t->cluster.has_changed |= t->of_slot[i] != at;
        t->of_slot[i] = at;
        if (at == WEIR_REDIS_NO_NODE)
            t->cluster.uncovered++;
        else
            in[at] = true;
    }
    t->mode = WEIR_REDIS_CLUSTER;
    for (size_t i = 0; i < t->nodes_end; i++) {
        weir_redis_node *n = t->node[i];
        if (!n)
            continue;
        masters += in[i];
        other_nodes |= in[i] != n->was_in_map;
        n->in_map = n->was_in_map = in[i];
        if (in[i] && n->is_replica && n->state == WEIR_REDIS_UP)
            weir_redis_node_disconnect(n, now_ns); /* the next handshake reads its role again */
    }
    log_map(t, from, masters, other_nodes, now_ns);
}

/* A seed whose map leads to no node that is up, though each was tried: its name may lead to another
 * Cluster by now. */
static void leave_dead_cluster(weir_redis_topology *t, weir_redis_node *seed, int64_t now_ns)
{
    for (size_t i = 0; i < t->nodes_end; i++) {
        const weir_redis_node *n = t->node[i];
        if (n && n->in_map && (n->state == WEIR_REDIS_UP || n->failures == 0))
            return;
    }
    seed->is_doubted = true;
    t->cluster.refresh_wanted = true;
    weir_redis_node_retire(seed, "no node of the Cluster is up", now_ns);
}

/* The node has no map: it is a single server. */
static void use_single(weir_redis_topology *t, weir_redis_node *n, int64_t now_ns)
{
    if (t->mode != WEIR_REDIS_UNKNOWN)
        return;
    if (n->at != 0) { /* the server must not depend on which one replies first */
        weir_redis_node_fail(n, "the server is not in Cluster mode, so only the first URL is used",
                             now_ns);
        return;
    }
    t->mode = WEIR_REDIS_SINGLE;
    t->master = 0;
    if (t->seeds > 1)
        weir_redis_node_log(n, "redis-alone",
                            "the server is not in Cluster mode: the other URLs are not used");
    if (n->is_replica)
        weir_redis_node_fail(n, WEIR_REDIS_IS_REPLICA, now_ns);
}

/* Whether an error means that the server is not in Cluster mode, or does not say so. */
static bool has_no_map(weir_slice error)
{
    return weir_redis_error_begins(error, "ERR") || weir_redis_error_begins(error, "NOPERM");
}

void weir_redis_cluster_receive(weir_redis_topology *t, weir_redis_node *n,
                                const weir_resp_value *v, int64_t now_ns)
{
    weir_redis_cluster *c = &t->cluster;
    weir_redis_draft *d = c->draft;
    bool is_error = v->depth == 0 && v->type == WEIR_RESP_ERROR_REPLY;
    if (v->depth == 0)
        d->is_bad |= v->type != WEIR_RESP_ARRAY && !is_error;
    else if (!d->is_bad)
        read_value(t, n, v);
    if (!v->last)
        return;
    if (d->is_bad) { /* weir_redis_cluster_lost() discards the draft */
        weir_redis_node_fail(n, "the server's reply to CLUSTER SLOTS is not valid", now_ns);
        return;
    }
    c->refreshing = NULL;
    c->draft = NULL;
    if (!is_error)
        use_map(t, n, d, now_ns);
    else if (has_no_map((weir_slice){v->text, v->len}))
        use_single(t, n, now_ns);
    if (!is_error && n->is_seed && !n->in_map)
        leave_dead_cluster(t, n, now_ns);
    port_free(d);
}

void weir_redis_cluster_lost(weir_redis_topology *t, const weir_redis_node *n)
{
    weir_redis_cluster *c = &t->cluster;
    c->refresh_wanted |= n->in_map;
    if (c->refreshing != n)
        return;
    c->refreshing = NULL;
    c->refresh_wanted = true;
    port_free(c->draft);
    c->draft = NULL;
}

void weir_redis_cluster_moved(weir_redis_topology *t, uint32_t slot, weir_redis_node *n)
{
    WEIR_ASSERT(slot < WEIR_REDIS_SLOTS && t->node[n->at] == n);
    if (t->mode != WEIR_REDIS_CLUSTER) {
        WEIR_ASSERT(t->master != WEIR_REDIS_NO_NODE); /* the MOVED came from a master */
        t->mode = WEIR_REDIS_CLUSTER;
        for (size_t i = 0; i < WEIR_REDIS_SLOTS; i++)
            t->of_slot[i] = t->master;
        t->node[t->master]->in_map = true;
    }
    n->in_map = true;
    t->cluster.has_changed |= t->of_slot[slot] != n->at;
    t->of_slot[slot] = n->at;
}

/* ---- requesting the map ---------------------------------------------------------------------- */

static bool is_any_up(const weir_redis_topology *t, bool in_map)
{
    for (size_t i = 0; i < t->nodes_end; i++) {
        const weir_redis_node *n = t->node[i];
        if (n && n->state == WEIR_REDIS_UP && !n->is_sentinel && (n->in_map || !in_map))
            return true;
    }
    return false;
}

/* Nodes are asked in turn. */
static weir_redis_node *next_to_query(weir_redis_topology *t)
{
    uint16_t *at = &t->cluster.refresh_at;
    for (size_t i = 0; i < t->nodes_end; i++) {
        *at = (uint16_t)((*at + 1u) % t->nodes_end);
        weir_redis_node *n = t->node[*at];
        if (n && n->state == WEIR_REDIS_UP && !n->is_sentinel)
            return n;
    }
    return NULL;
}

static void request_map(weir_redis_topology *t, int64_t now_ns)
{
    weir_redis_cluster *c = &t->cluster;
    weir_redis_node *n = next_to_query(t);
    WEIR_ASSERT(n); /* is_any_up() */
    weir_redis_draft *d = port_zalloc(1, sizeof *d);
    if (!d || !weir_redis_node_request(n, WEIR_REDIS_EXPECTS_SLOTS, 2, now_ns)) {
        port_free(d);
        return;
    }
    weir_redis_node_word(n, "CLUSTER");
    weir_redis_node_word(n, "SLOTS");
    memset(d->of_slot, 0xff, sizeof d->of_slot);
    c->draft = d;
    c->refreshing = n;
    c->refresh_number = n->pipeline.tail - 1;
    c->refresh_wanted = false;
    c->refreshed_ns = now_ns;
}

/* Whether all slots are served by nodes that are up. */
static bool is_whole(const weir_redis_topology *t)
{
    for (size_t i = 0; i < t->nodes_end; i++) {
        if (t->node[i] && t->node[i]->in_map && t->node[i]->state != WEIR_REDIS_UP)
            return false;
    }
    return t->cluster.uncovered == 0;
}

static int64_t due_ns_of(const weir_redis_topology *t)
{
    const weir_redis_cluster *c = &t->cluster;
    bool is_cluster = t->mode == WEIR_REDIS_CLUSTER;
    if (t->mode == WEIR_REDIS_UNKNOWN || (is_cluster && c->refresh_wanted))
        return c->refreshed_ns + REFRESH_NS;
    return is_cluster && !is_whole(t) ? c->refreshed_ns + LOST_NS : INT64_MAX;
}

void weir_redis_cluster_poll(weir_redis_topology *t, int64_t now_ns, int64_t *wake_ns)
{
    weir_redis_cluster *c = &t->cluster;
    c->is_alive = t->mode == WEIR_REDIS_CLUSTER && is_any_up(t, true);
    if (c->refreshing && now_ns - c->refreshed_ns >= REPLY_NS) {
        weir_redis_pipeline_at(&c->refreshing->pipeline, c->refresh_number)->expects =
            WEIR_REDIS_EXPECTS_IGNORED;
        weir_redis_cluster_lost(t, c->refreshing);
    }
    int64_t due_ns = c->refreshing ? INT64_MAX : due_ns_of(t);
    bool is_due = due_ns <= now_ns, can_ask = is_due && is_any_up(t, false);
    if (can_ask)
        request_map(t, now_ns);
    if (c->refreshing)
        due_ns = c->refreshed_ns + REPLY_NS;
    else if (can_ask) /* there was no memory */
        due_ns = now_ns + REFRESH_NS;
    else if (is_due) /* the next node that comes up calls this again */
        due_ns = INT64_MAX;
    if (due_ns < *wake_ns)
        *wake_ns = due_ns;
}
