/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* A hash table with open addressing and linear probing, at most half full. A slot stores the hash,
 * so that a key's bytes are compared only if the hashes are equal. The hash (SipHash) has a random
 * key, because clients choose the keys in a log and could otherwise make them collide. Keys are
 * allocated one behind the other in large chunks. */

#include "accesslog/key_table.h"

#include "port/assert.h"
#include "port/atomic.h"
#include "port/port.h"
#include "store/siphash.h"

#include <string.h>

#define SLOTS_MIN      ((size_t)1 << 12)
#define CHUNK_BYTES    ((size_t)1 << 20)
#define CACHE_LINE     64
#define PREFETCH_BYTES (4 * CACHE_LINE) /* of a record */

typedef struct slot {
    uint64_t hash;
    accesslog_key *key; /* NULL: the slot is free */
} slot;

typedef struct chunk {
    struct chunk *next;
    size_t used, size; /* in bytes */
    uint64_t bytes[];
} chunk;

struct accesslog_key_table {
    size_t record_bytes;
    weir_secret secret;
    slot *slots;
    size_t slots_len; /* a power of two */
    size_t count;
    chunk *chunks;
    accesslog_key *first, **last_link;
};

accesslog_key_table *accesslog_key_table_open(size_t record_bytes)
{
    WEIR_ASSERT(record_bytes >= sizeof(accesslog_key));
    accesslog_key_table *k = port_zalloc(1, sizeof *k);
    if (!k)
        return NULL;
    k->record_bytes = record_bytes;
    k->last_link = &k->first;
    k->slots_len = SLOTS_MIN;
    k->slots = port_zalloc(k->slots_len, sizeof *k->slots);
    if (!k->slots || port_random(&k->secret, sizeof k->secret) != WEIR_OK) {
        accesslog_key_table_close(k);
        return NULL;
    }
    return k;
}

void accesslog_key_table_close(accesslog_key_table *k)
{
    if (!k)
        return;
    for (chunk *c = k->chunks, *next; c; c = next) {
        next = c->next;
        port_free(c);
    }
    port_free(k->slots);
    port_free(k);
}

/* Rounds up, so that what follows is aligned. */
static size_t aligned(size_t size)
{
    return (size + 7) / 8 * 8;
}

void *accesslog_key_table_alloc(accesslog_key_table *k, size_t bytes)
{
    size_t size = aligned(bytes);
    chunk *c = k->chunks;
    if (!c || c->size - c->used < size) {
        size_t room = size > CHUNK_BYTES ? size : CHUNK_BYTES;
        c = port_zalloc(1, sizeof *c + room);
        if (!c)
            return NULL;
        c->size = room;
        c->next = k->chunks;
        k->chunks = c;
    }
    void *ret = (char *)c->bytes + c->used;
    c->used += size;
    return ret;
}

const char *accesslog_key_text(const accesslog_key *key)
{
    return (const char *)key - aligned(key->len);
}

/* Loads the cache lines of a record at once, instead of one after the other as they are used. */
static void prefetch(const accesslog_key_table *k, const accesslog_key *key)
{
    for (size_t at = CACHE_LINE; at < PREFETCH_BYTES && at < k->record_bytes; at += CACHE_LINE)
        __builtin_prefetch((const char *)key + at, 1);
}

/* Returns the slot of the key, or the free slot where it belongs. */
static slot *find(const accesslog_key_table *k, uint64_t hash, const char *text, size_t len)
{
    for (size_t i = (size_t)hash;; i++) {
        slot *s = &k->slots[i & (k->slots_len - 1)];
        if (!s->key)
            return s;
        if (s->hash != hash)
            continue;
        prefetch(k, s->key);
        if (s->key->len == len && memcmp(accesslog_key_text(s->key), text, len) == 0)
            return s;
    }
}

static weir_status grow(accesslog_key_table *k)
{
    slot *old = k->slots;
    size_t old_len = k->slots_len;
    slot *wider = port_zalloc(old_len * 2, sizeof *wider);
    if (!wider)
        return WEIR_E_NOMEM;
    k->slots = wider;
    k->slots_len = old_len * 2;
    for (size_t i = 0; i < old_len; i++) {
        size_t at = (size_t)old[i].hash;
        while (old[i].key && wider[at & (k->slots_len - 1)].key)
            at++;
        if (old[i].key)
            wider[at & (k->slots_len - 1)] = old[i];
    }
    port_free(old);
    return WEIR_OK;
}

static accesslog_key *key_new(accesslog_key_table *k, const char *text, size_t len)
{
    WEIR_ASSERT(len <= UINT32_MAX);
    size_t before = aligned(len);
    char *at = accesslog_key_table_alloc(k, before + k->record_bytes);
    if (!at)
        return NULL;
    memcpy(at, text, len);
    accesslog_key *key = (accesslog_key *)(void *)(at + before);
    key->len = (uint32_t)len;
    *k->last_link = key;
    k->last_link = &key->next;
    key->number = (uint32_t)k->count++;
    return key;
}

accesslog_key *accesslog_key_table_at(accesslog_key_table *k, const char *text, size_t len)
{
    return accesslog_key_table_at_hash(k, weir_siphash(k->secret, text, len), text, len);
}

accesslog_key *accesslog_key_table_at_hash(accesslog_key_table *k, uint64_t hash, const char *text,
                                           size_t len)
{
    slot *s = find(k, hash, text, len);
    if (s->key)
        return s->key;
    if (k->count >= k->slots_len / 2) {
        if (grow(k) != WEIR_OK)
            return NULL;
        s = find(k, hash, text, len);
    }
    WEIR_ASSERT(!s->key && k->count < k->slots_len);
    *s = (slot){hash, key_new(k, text, len)}; /* if key_new() fails, the slot stays free */
    return s->key;
}

uint64_t accesslog_key_table_hash(const accesslog_key_table *k, const char *text, size_t len)
{
    uint64_t hash = weir_siphash(k->secret, text, len);
    port_prefetch(&k->slots[hash & (k->slots_len - 1)]);
    return hash;
}

accesslog_key *accesslog_key_table_prefetch(const accesslog_key_table *k, uint64_t hash)
{
    enum { BEFORE = 16 }; /* a short key */
    for (size_t i = (size_t)hash; k->slots[i & (k->slots_len - 1)].key; i++) {
        const slot *s = &k->slots[i & (k->slots_len - 1)];
        if (s->hash != hash)
            continue;
        for (size_t at = 0; at < PREFETCH_BYTES && at < BEFORE + k->record_bytes; at += CACHE_LINE)
            port_prefetch((const char *)s->key - BEFORE + at);
        return s->key;
    }
    return NULL;
}

uint64_t accesslog_key_table_count(const accesslog_key_table *k)
{
    return k->count;
}

accesslog_key *accesslog_key_table_first(const accesslog_key_table *k)
{
    return k->first;
}
