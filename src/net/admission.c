/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* A hash table with linear probing, at most half full. An entry without connections is removed at
 * once, so the memory follows the number of clients. */

#include "net/clients.h"

#include "port/assert.h"

#include <string.h>

enum { SIZE_FIRST = 64, RESERVED_MAX = 32 };

typedef struct net_client_count {
    net_client client;
    uint32_t count; /* 0: a free entry */
} entry;

net_client net_client_of(const weir_peer_address *a)
{
    static const uint8_t loopback[16] = {[15] = 1};
    net_client c = {0};
    if (a->v6 ? memcmp(a->bytes, loopback, 16) == 0 : a->bytes[0] == 127)
        return c;
    memcpy(&c.address, a->bytes, a->v6 ? 8 : 4);
    c.family = a->v6 ? 6 : 4;
    return c;
}

int net_admission_reserved(int connections)
{
    int reserved = connections / 32;
    return reserved < RESERVED_MAX ? reserved : RESERVED_MAX;
}

/* ---- the table ------------------------------------------------------------------------------- */

static uint64_t mix(uint64_t x)
{
    x = (x ^ x >> 32) * UINT64_C(0xD6E8FEB86659FD93);
    x = (x ^ x >> 32) * UINT64_C(0xD6E8FEB86659FD93);
    return x ^ x >> 32;
}

static size_t home_of(const net_admission *a, const net_client *c)
{
    uint64_t hash = mix(mix(c->address ^ a->secret[0]) ^ a->secret[1] ^ c->family);
    return (size_t)hash & (a->size - 1);
}

/* The entry of a client, or the free one in which it belongs. */
static entry *find(const net_admission *a, const net_client *c)
{
    size_t i = home_of(a, c);
    while (a->at[i].count > 0 &&
           (a->at[i].client.address != c->address || a->at[i].client.family != c->family))
        i = (i + 1) & (a->size - 1);
    return &a->at[i];
}

static bool grow(net_admission *a)
{
    if (2 * (a->used + 1) <= a->size)
        return true;
    net_admission larger = *a;
    larger.size = a->size > 0 ? 2 * a->size : SIZE_FIRST;
    larger.at = port_zalloc(larger.size, sizeof *larger.at);
    if (!larger.at)
        return false;
    for (size_t i = 0; i < a->size; i++) {
        if (a->at[i].count > 0)
            *find(&larger, &a->at[i].client) = a->at[i];
    }
    port_free(a->at);
    a->at = larger.at; /* not the lock, which others read */
    a->size = larger.size;
    return true;
}

/* Frees an entry, and moves back those that it had displaced. */
static void remove_entry(net_admission *a, entry *e)
{
    size_t hole = (size_t)(e - a->at), mask = a->size - 1;
    for (size_t i = (hole + 1) & mask; a->at[i].count > 0; i = (i + 1) & mask) {
        size_t home = home_of(a, &a->at[i].client);
        if (((i - home) & mask) >= ((i - hole) & mask)) {
            a->at[hole] = a->at[i];
            hole = i;
        }
    }
    a->at[hole] = (entry){0};
    a->used--;
}

/* ---- counting -------------------------------------------------------------------------------- */

weir_status net_admission_enter(net_admission *a, const net_client *client, int max)
{
    weir_status st = WEIR_E_NOMEM;
    port_mutex_lock(a->lock);
    if (grow(a)) {
        entry *e = find(a, client);
        st = e->count >= (uint32_t)max ? WEIR_E_BUSY : WEIR_OK;
        if (st == WEIR_OK && e->count == 0)
            a->used++;
        if (st == WEIR_OK)
            *e = (entry){*client, e->count + 1};
    }
    port_mutex_unlock(a->lock);
    return st;
}

void net_admission_leave(net_admission *a, const net_client *client)
{
    port_mutex_lock(a->lock);
    entry *e = find(a, client);
    WEIR_ASSERT(e->count > 0);
    if (e->count == 1)
        remove_entry(a, e);
    else
        e->count--;
    port_mutex_unlock(a->lock);
}

weir_status net_admission_open(net_admission *a)
{
    *a = (net_admission){.lock = port_mutex_new()};
    if (!a->lock)
        return WEIR_E_NOMEM;
    return port_random(a->secret, sizeof a->secret);
}

void net_admission_close(net_admission *a)
{
    port_mutex_free(a->lock);
    port_free(a->at);
}
