/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* Which nodes there are and who has which slot. The map is asked for at the beginning, after MOVED,
 * and for as long as a node of it cannot be reached; not too often. A server may say what it likes:
 * there are at most so many nodes, and no more slots than there are. */

#include "engine/redis/client/client_inside.h"

#include "port/port.h"

#include <stdio.h>
#include <string.h>

#define REFRESH_NS  (100 * WEIR_REDIS_MS)  /* between two requests for the map, at least */
#define LOST_NS     (1000 * WEIR_REDIS_MS) /* the same, while a node of it is not up */
#define PATIENCE_NS (500 * WEIR_REDIS_MS)  /* for an answer; then another is asked */
#define SAY_NS      (5000 * WEIR_REDIS_MS) /* that slots have moved is said so often */

bool weir_redis_host_ok(const char *host, size_t len)
{
    for (size_t i = 0; i < len; i++) {
        if (host[i] <= ' ' || host[i] > '~')
            return false;
    }
    return len > 0 && len < WEIR_REDIS_HOST_MAX && host[0] != '/';
}

/* ---- nodes ----------------------------------------------------------------------------------- */

static uint32_t hash_of(const char *host, uint16_t port)
{
    uint32_t h = 2166136261u ^ port;
    for (; *host; host++)
        h = (h ^ (uint8_t)*host) * 16777619u;
    return h | 1; /* 0 is none */
}

static bool is_idle(const weir_redis_node *n)
{
    return !n->is_seed && !n->in_map && n->at != n->client->master && n->state == WEIR_REDIS_IDLE &&
           n->waiting.wait_next == &n->waiting;
}

/* A place for another node; those that are of no use any more make room. */
static size_t free_place(weir_redis_client *c)
{
    for (size_t i = 0; i < WEIR_REDIS_NODES_MAX; i++) {
        if (!c->node[i])
            return i;
    }
    size_t found = WEIR_REDIS_NODES_MAX;
    for (size_t i = 0; i < WEIR_REDIS_NODES_MAX; i++) {
        if (!is_idle(c->node[i]))
            continue;
        weir_redis_node_free(c->node[i]);
        c->node[i] = NULL;
        c->hash[i] = 0;
        found = i;
    }
    return found;
}

weir_redis_node *weir_redis_node_of(weir_redis_client *c, const char *host, uint16_t port)
{
    uint32_t hash = hash_of(host, port);
    for (size_t i = 0; i < c->nodes_end; i++) {
        weir_redis_node *n = c->node[i];
        if (c->hash[i] == hash && n->port == port && strcmp(n->host, host) == 0)
            return n;
    }
    size_t at = free_place(c);
    weir_redis_node *n = at < WEIR_REDIS_NODES_MAX ? weir_redis_node_new(c, host, port) : NULL;
    if (!n)
        return NULL;
    n->at = (uint16_t)at;
    c->node[at] = n;
    c->hash[at] = hash;
    if (at >= c->nodes_end)
        c->nodes_end = at + 1;
    return n;
}

weir_redis_node *weir_redis_node_for(const weir_redis_client *c, uint32_t slot)
{
    uint16_t at = c->mode == WEIR_REDIS_CLUSTER ? c->of_slot[slot] : c->master;
    return at == WEIR_REDIS_NO_NODE ? NULL : c->node[at];
}

/* ---- the slot of a key ----------------------------------------------------------------------- */

/* By what most is decided; a tag is the same by all. */
static bool by_module(const weir_redis_client *c)
{
    for (size_t i = 0; i < c->nodes_end; i++) {
        const weir_redis_node *n = c->node[i];
        if (n && n->state == WEIR_REDIS_UP && n->by != WEIR_REDIS_BY_ANY)
            return n->by == WEIR_REDIS_BY_MODULE;
    }
    return true;
}

/* Of a key whose tag is not what stands in weir's own braces. */
static uint32_t slot_by_name(const weir_redis_client *c, const weir_engine_request *q)
{
    bool for_module = by_module(c);
    char little[512];
    size_t len = weir_redis_key(c->prefix, q, for_module, little, sizeof little);
    if (len <= sizeof little)
        return weir_redis_slot(little, len);
    char *large = port_zalloc(1, len);
    if (!large)
        return 0; /* MOVED tells */
    (void)weir_redis_key(c->prefix, q, for_module, large, len);
    uint32_t slot = weir_redis_slot(large, len);
    port_free(large);
    return slot;
}

uint32_t weir_redis_slot_of(const weir_redis_client *c, const weir_engine_request *q)
{
    if (!c->prefix_is_plain || q->key.len == 0 || q->key.at[0] == '}')
        return slot_by_name(c, q);
    const char *end = memchr(q->key.at, '}', q->key.len);
    size_t len = end ? (size_t)(end - q->key.at) : q->key.len;
    return weir_redis_slot_of_tag(q->key.at, len);
}

/* ---- what a map says ------------------------------------------------------------------------- */

static void fill(weir_redis_node *n, weir_redis_draft *d, int64_t port)
{
    bool good = d->start >= 0 && d->start <= d->end && d->end < WEIR_REDIS_SLOTS && port >= 1 &&
                port <= 65535;
    if (good)
        d->filled += (uint32_t)(d->end - d->start) + 1;
    if (!good || d->filled > WEIR_REDIS_SLOTS) {
        d->is_bad = true;
        return;
    }
    weir_redis_node *master = weir_redis_node_of(n->client, d->host, (uint16_t)port);
    if (!master || master->is_sentinel)
        return; /* as if nobody had them */
    for (int64_t slot = d->start; slot <= d->end; slot++)
        d->of_slot[slot] = master->at;
    master->in_map = true; /* so that it stays */
}

/* No host, or "?", is the host of who says it. */
static void take_host(weir_redis_node *n, weir_redis_draft *d, const weir_resp_value *v)
{
    bool is_text = v->type == WEIR_RESP_BULK;
    bool is_same = v->type == WEIR_RESP_NULL || (is_text && v->len == 0) ||
                   (is_text && v->len == 1 && v->text[0] == '?');
    if (is_same)
        memcpy(d->host, n->host, sizeof d->host);
    else if (is_text && weir_redis_host_ok(v->text, v->len))
        memcpy(memset(d->host, 0, sizeof d->host), v->text, v->len);
    else
        d->is_bad = true;
}

/* [[first slot, last slot, [host, port, ...], replicas...], ...]. */
static void draw(weir_redis_node *n, weir_redis_draft *d, const weir_resp_value *v)
{
    const uint32_t *index = n->reader.index;
    bool is_integer = v->type == WEIR_RESP_INTEGER, is_array = v->type == WEIR_RESP_ARRAY;
    if (v->depth == 1) {
        d->is_bad |= !is_array || v->len < 3;
        d->start = d->end = -1;
    } else if (v->depth == 2 && index[2] < 2) {
        d->is_bad |= !is_integer;
        *(index[2] == 0 ? &d->start : &d->end) = v->integer;
    } else if (v->depth == 2 && index[2] == 2) {
        d->is_bad |= !is_array || v->len < 2;
    } else if (v->depth == 3 && index[2] == 2 && index[3] == 0) {
        take_host(n, d, v);
    } else if (v->depth == 3 && index[2] == 2 && index[3] == 1) {
        fill(n, d, is_integer ? v->integer : 0);
    }
}

/* ---- taking it up ---------------------------------------------------------------------------- */

/* Says so if other nodes are in it, and now and then if slots have moved. */
static void say_map(weir_redis_client *c, const weir_redis_node *from, size_t masters, bool others,
                    int64_t now_ns)
{
    if (!others && (!c->map_is_another || now_ns - c->said_slots_ns < SAY_NS))
        return;
    char text[64];
    (void)snprintf(text, sizeof text, "%zu masters, %u slots", masters,
                   (unsigned)(WEIR_REDIS_SLOTS - c->uncovered));
    c->said_slots_ns = now_ns;
    c->map_is_another = false;
    weir_redis_say(c, "redis-slots", from, text);
}

static void take_up(weir_redis_client *c, const weir_redis_node *from, const weir_redis_draft *d,
                    int64_t now_ns)
{
    bool in[WEIR_REDIS_NODES_MAX] = {false}, others = c->mode != WEIR_REDIS_CLUSTER;
    size_t masters = 0;
    c->uncovered = 0;
    for (size_t i = 0; i < WEIR_REDIS_SLOTS; i++) {
        uint16_t at = d->of_slot[i];
        c->map_is_another |= c->of_slot[i] != at;
        c->of_slot[i] = at;
        if (at == WEIR_REDIS_NO_NODE)
            c->uncovered++;
        else
            in[at] = true;
    }
    c->mode = WEIR_REDIS_CLUSTER;
    for (size_t i = 0; i < c->nodes_end; i++) {
        weir_redis_node *n = c->node[i];
        if (!n)
            continue;
        masters += in[i];
        others |= in[i] != n->was_in_map;
        n->in_map = n->was_in_map = in[i];
        if (in[i] && n->is_replica && n->state == WEIR_REDIS_UP)
            weir_redis_node_leave(n, now_ns); /* it says what it is when it is connected to */
        if (!in[i])
            weir_redis_route_all(c, &n->waiting, now_ns);
    }
    say_map(c, from, masters, others, now_ns);
    weir_redis_route_all(c, &c->unmapped, now_ns);
}

/* It has no map: then it is the only one. */
static void not_a_cluster(weir_redis_node *n, int64_t now_ns)
{
    weir_redis_client *c = n->client;
    if (c->mode != WEIR_REDIS_UNKNOWN)
        return;
    if (n->at != 0) { /* which one it is must not depend on who answers first */
        weir_redis_node_fail(n, "it is not of a Cluster: then only the first URL is used", now_ns);
        return;
    }
    c->mode = WEIR_REDIS_SINGLE;
    c->master = 0;
    if (c->seeds > 1)
        weir_redis_say(c, "redis-alone", n, "it is not of a Cluster: the other URLs are not used");
    if (n->is_replica)
        weir_redis_node_fail(n, WEIR_REDIS_IS_REPLICA, now_ns);
    weir_redis_route_all(c, &c->unmapped, now_ns);
}

void weir_redis_slots_hear(weir_redis_node *n, const weir_resp_value *v, int64_t now_ns)
{
    weir_redis_client *c = n->client;
    weir_redis_draft *d = c->draft;
    if (v->depth == 0 && v->type == WEIR_RESP_ERROR_REPLY)
        weir_redis_copy(d->problem, sizeof d->problem, v->text, v->len);
    else if (v->depth == 0)
        d->is_bad |= v->type != WEIR_RESP_ARRAY;
    else if (!d->is_bad)
        draw(n, d, v);
    if (!v->last)
        return;
    c->refreshing = NULL;
    c->draft = NULL;
    bool is_error = d->problem[0] != 0;
    bool is_final = strncmp(d->problem, "ERR", 3) == 0 || strncmp(d->problem, "NOPERM", 6) == 0;
    if (d->is_bad) {
        c->refresh_wanted = true;
        weir_redis_node_fail(n, "its map of the Cluster makes no sense", now_ns);
    } else if (!is_error) {
        take_up(c, n, d, now_ns);
    } else if (is_final) {
        not_a_cluster(n, now_ns);
    }
    port_free(d);
    weir_redis_tend(c, now_ns);
}

void weir_redis_slots_lost(weir_redis_node *n)
{
    weir_redis_client *c = n->client;
    c->refresh_wanted |= n->in_map;
    if (c->refreshing != n)
        return;
    c->refreshing = NULL;
    c->refresh_wanted = true;
    port_free(c->draft);
    c->draft = NULL;
}

void weir_redis_become_cluster(weir_redis_client *c)
{
    if (c->mode == WEIR_REDIS_CLUSTER)
        return;
    c->mode = WEIR_REDIS_CLUSTER;
    for (size_t i = 0; i < WEIR_REDIS_SLOTS; i++)
        c->of_slot[i] = c->master;
    if (c->master != WEIR_REDIS_NO_NODE)
        c->node[c->master]->in_map = true;
}

/* ---- tending --------------------------------------------------------------------------------- */

static bool any_is_up(const weir_redis_client *c, bool in_map)
{
    for (size_t i = 0; i < c->nodes_end; i++) {
        const weir_redis_node *n = c->node[i];
        if (n && n->state == WEIR_REDIS_UP && !n->is_sentinel && (n->in_map || !in_map))
            return true;
    }
    return false;
}

bool weir_redis_is_wanted(const weir_redis_node *n)
{
    const weir_redis_client *c = n->client;
    if (n->is_sentinel)
        return n->at == c->sentinel_at;
    if (c->mode == WEIR_REDIS_SINGLE)
        return n->at == c->master;
    return n->in_map || (n->is_seed && !c->map_is_alive);
}

/* Who is asked for the map; in turn. */
static weir_redis_node *next_to_ask(weir_redis_client *c)
{
    for (size_t i = 0; i < c->nodes_end; i++) {
        c->refresh_at = (uint16_t)((c->refresh_at + 1u) % c->nodes_end);
        weir_redis_node *n = c->node[c->refresh_at];
        if (n && n->state == WEIR_REDIS_UP && !n->is_sentinel)
            return n;
    }
    return NULL;
}

static void ask_for_map(weir_redis_client *c, int64_t now_ns)
{
    weir_redis_node *n = next_to_ask(c);
    if (!n)
        return;
    weir_redis_draft *d = port_zalloc(1, sizeof *d);
    if (!d || !weir_redis_node_ask(n, WEIR_REDIS_FOR_SLOTS, 2, now_ns)) {
        port_free(d);
        return;
    }
    weir_redis_node_word(n, "CLUSTER");
    weir_redis_node_word(n, "SLOTS");
    memset(d->of_slot, 0xff, sizeof d->of_slot);
    c->draft = d;
    c->refreshing = n;
    c->refresh_ticket = n->ring.tail - 1;
    c->refresh_wanted = false;
    c->refreshed_ns = now_ns;
}

static bool is_whole(const weir_redis_client *c)
{
    for (size_t i = 0; i < c->nodes_end; i++) {
        if (c->node[i] && c->node[i]->in_map && c->node[i]->state != WEIR_REDIS_UP)
            return false;
    }
    return c->uncovered == 0;
}

static void no_later(int64_t *wake_ns, int64_t at_ns)
{
    if (at_ns < *wake_ns)
        *wake_ns = at_ns;
}

static void tend_map(weir_redis_client *c, int64_t now_ns, int64_t *wake_ns)
{
    c->map_is_alive = c->mode == WEIR_REDIS_CLUSTER && any_is_up(c, true);
    if (c->refreshing && now_ns - c->refreshed_ns >= PATIENCE_NS) {
        weir_redis_ring_at(&c->refreshing->ring, c->refresh_ticket)->kind = WEIR_REDIS_FOR_NOBODY;
        weir_redis_slots_lost(c->refreshing);
    }
    if (c->refreshing) {
        no_later(wake_ns, c->refreshed_ns + PATIENCE_NS);
        return;
    }
    bool never = c->refreshed_ns == 0;
    int64_t due_ns = INT64_MAX;
    if (c->mode == WEIR_REDIS_UNKNOWN || (c->mode == WEIR_REDIS_CLUSTER && c->refresh_wanted))
        due_ns = never ? now_ns : c->refreshed_ns + REFRESH_NS;
    else if (c->mode == WEIR_REDIS_CLUSTER && !is_whole(c))
        due_ns = c->refreshed_ns + LOST_NS;
    bool is_due = due_ns <= now_ns, is_up = is_due && any_is_up(c, false);
    if (is_up)
        ask_for_map(c, now_ns);
    if (c->refreshing)
        due_ns = c->refreshed_ns + PATIENCE_NS;
    else if (is_due) /* there was no memory; or nobody is up, and whoever comes up tends */
        due_ns = is_up ? now_ns + REFRESH_NS : INT64_MAX;
    no_later(wake_ns, due_ns);
}

void weir_redis_tend(weir_redis_client *c, int64_t now_ns)
{
    if (c->closing)
        return;
    int64_t wake_ns = INT64_MAX;
    if (c->options->sentinel)
        weir_redis_sentinel_tend(c, now_ns, &wake_ns);
    if (!c->options->sentinel || c->mode == WEIR_REDIS_CLUSTER)
        tend_map(c, now_ns, &wake_ns);
    for (size_t i = 0; i < c->nodes_end; i++) {
        weir_redis_node *n = c->node[i];
        if (n && n->state == WEIR_REDIS_IDLE && weir_redis_is_wanted(n))
            weir_redis_node_dial(n, now_ns);
    }
    if (c->paused.wait_next != &c->paused) {
        if (c->resume_ns <= now_ns)
            weir_redis_route_all(c, &c->paused, now_ns);
        else
            no_later(&wake_ns, c->resume_ns);
    }
    c->dialer->calls->set_timer(c->tending, wake_ns);
}
