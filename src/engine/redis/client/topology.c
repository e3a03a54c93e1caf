/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* Servers name other servers, and may name any. The table of nodes is therefore limited to
 * WEIR_REDIS_NODES_MAX. */

#include "engine/redis/client/topology.h"

#include "port/assert.h"
#include "port/port.h"

#include <stdio.h>
#include <string.h>

/* ---- the table of nodes ---------------------------------------------------------------------- */

static uint32_t hash_of(const char *host, uint16_t port)
{
    uint32_t h = 2166136261u ^ port; /* FNV-1a, 32 bits */
    for (; *host; host++)
        h = (h ^ (uint8_t)*host) * 16777619u;
    return h;
}

static bool is_removable(const weir_redis_topology *t, const weir_redis_node *n)
{
    return !n->is_seed && !n->in_map && n->at != t->master && n->state == WEIR_REDIS_IDLE &&
           weir_redis_list_is_empty(&n->waiting);
}

/* WEIR_REDIS_NODES_MAX: the table is full. */
static size_t free_entry(weir_redis_topology *t)
{
    for (size_t i = 0; i < WEIR_REDIS_NODES_MAX; i++) {
        if (!t->node[i])
            return i;
    }
    size_t found = WEIR_REDIS_NODES_MAX;
    for (size_t i = 0; i < WEIR_REDIS_NODES_MAX; i++) {
        if (!is_removable(t, t->node[i]))
            continue;
        weir_redis_node_free(t->node[i]);
        t->node[i] = NULL;
        found = i;
    }
    return found;
}

weir_redis_node *weir_redis_topology_add(weir_redis_topology *t, const char *host, uint16_t port)
{
    uint32_t hash = hash_of(host, port);
    for (size_t i = 0; i < t->nodes_end; i++) {
        weir_redis_node *n = t->node[i];
        if (n && t->hash[i] == hash && n->port == port && strcmp(n->host, host) == 0)
            return n;
    }
    size_t at = free_entry(t);
    weir_redis_node *n =
        at < WEIR_REDIS_NODES_MAX ? weir_redis_node_new(t->context, host, port) : NULL;
    if (!n)
        return NULL;
    n->at = (uint16_t)at;
    t->node[at] = n;
    t->hash[at] = hash;
    if (at >= t->nodes_end)
        t->nodes_end = at + 1;
    return n;
}

/* ---- the node of a key ----------------------------------------------------------------------- */

/* Whether Redis keys are named as for the module. The names for the module and for functions
 * differ, but have the same hash tag unless the key is unusual. For an unusual key, the first node
 * that is up determines the name. */
static bool is_by_module(const weir_redis_topology *t)
{
    for (size_t i = 0; i < t->nodes_end; i++) {
        const weir_redis_node *n = t->node[i];
        if (n && n->state == WEIR_REDIS_UP && n->by != WEIR_REDIS_BY_ANY)
            return n->by == WEIR_REDIS_BY_MODULE;
    }
    return true;
}

/* The slot of a key whose hash tag is not the text within weir's own braces. */
static uint32_t slot_of_name(const weir_redis_topology *t, const weir_engine_request *q)
{
    const char *prefix = t->context->prefix;
    bool for_module = is_by_module(t);
    uint64_t token = weir_redis_resets_token(t->context->counts->resets, q);
    char small[512];
    size_t len = weir_redis_key(prefix, q, for_module, token, small, sizeof small);
    if (len <= sizeof small)
        return weir_redis_slot(small, len);
    char *large = port_zalloc(1, len);
    if (!large)
        return 0; /* MOVED will name the right node */
    (void)weir_redis_key(prefix, q, for_module, token, large, len);
    uint32_t slot = weir_redis_slot(large, len);
    port_free(large);
    return slot;
}

uint32_t weir_redis_topology_slot(const weir_redis_topology *t, const weir_engine_request *q)
{
    if (t->prefix_has_tag || q->key.len == 0 || q->key.at[0] == '}')
        return slot_of_name(t, q);
    const char *end = memchr(q->key.at, '}', q->key.len);
    size_t len = end ? (size_t)(end - q->key.at) : q->key.len;
    return weir_redis_slot_of_tag(q->key.at, len);
}

weir_redis_node *weir_redis_topology_node(const weir_redis_topology *t, uint32_t slot)
{
    WEIR_ASSERT(slot < WEIR_REDIS_SLOTS);
    uint16_t at = t->mode == WEIR_REDIS_CLUSTER ? t->of_slot[slot] : t->master;
    return at == WEIR_REDIS_NO_NODE ? NULL : t->node[at];
}

bool weir_redis_topology_serves(const weir_redis_topology *t, const weir_redis_node *n)
{
    return t->mode == WEIR_REDIS_SINGLE || n->in_map;
}

bool weir_redis_topology_wants(const weir_redis_topology *t, const weir_redis_node *n)
{
    if (n->is_sentinel)
        return n->at == t->sentinel.at;
    if (t->mode == WEIR_REDIS_SINGLE)
        return n->at == t->master;
    return n->in_map || (n->is_seed && !t->cluster.is_alive);
}

/* ---- making and freeing ---------------------------------------------------------------------- */

/* The options take precedence over the first URL. */
static void set_login(weir_redis_context *x, const weir_redis_url *u)
{
    const weir_redis_options *o = x->options;
    const char *user = o->password ? o->user : u->user;
    const char *password = o->password ? o->password : u->password;
    x->has_password = o->password || u->has_password;
    (void)snprintf(x->user, sizeof x->user, "%s", user ? user : "");
    (void)snprintf(x->password, sizeof x->password, "%s", password);
}

static uint16_t port_of(const weir_redis_url *u, bool is_sentinel)
{
    if (u->host[0] == '/')
        return 0;
    if (u->port != 0)
        return u->port;
    return is_sentinel ? WEIR_SENTINEL_PORT : WEIR_REDIS_PORT_DEFAULT;
}

weir_status weir_redis_topology_init(weir_redis_topology *ret, weir_redis_context *context)
{
    const weir_redis_options *o = context->options;
    bool is_sentinel = o->sentinel != NULL;
    ret->context = context;
    ret->mode = is_sentinel ? WEIR_REDIS_SINGLE : WEIR_REDIS_UNKNOWN;
    ret->master = WEIR_REDIS_NO_NODE;
    ret->prefix_has_tag = strchr(context->prefix, '{') != NULL;
    for (size_t i = 0; i < o->urls_len; i++) {
        weir_redis_url u;
        weir_status st = weir_redis_url_read(o->urls[i], &u, NULL);
        if (st != WEIR_OK)
            return st;
        if (i == 0) {
            context->uses_tls = u.tls;
            ret->database = u.database;
            set_login(context, &u);
        }
        size_t before = ret->nodes_end;
        weir_redis_node *n = weir_redis_topology_add(ret, u.host, port_of(&u, is_sentinel));
        if (!n)
            return WEIR_E_NOMEM;
        if (ret->nodes_end == before)
            continue; /* a duplicate */
        n->is_seed = true;
        n->is_sentinel = is_sentinel;
        n->database = u.database;
        ret->seeds++;
    }
    return WEIR_OK;
}

void weir_redis_topology_free(weir_redis_topology *t)
{
    for (size_t i = 0; i < t->nodes_end; i++) {
        if (t->node[i])
            weir_redis_node_free(t->node[i]);
    }
    port_free(t->cluster.draft);
}
