/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* A hash table with open addressing and linear probing, at most half full. A slot stores the hash,
 * so that a key's bytes are compared only if the hashes are equal. The hash (SipHash) has a random
 * key, because clients choose the keys in a log and could otherwise make them collide. Keys are
 * allocated one behind the other in large chunks. */

#include "cmd/replay/key_table.h"

#include "port/atomic.h"
#include "port/port.h"
#include "store/siphash.h"

#include <string.h>

#define SLOTS_MIN   ((size_t)1 << 12)
#define CHUNK_BYTES ((size_t)1 << 20)
#define CACHE_LINE  64

typedef struct slot {
    uint64_t hash;
    replay_key *key; /* NULL: the slot is free */
} slot;

typedef struct chunk {
    struct chunk *next;
    size_t used, size; /* in bytes */
    uint64_t bytes[];
} chunk;

struct replay_key_table {
    size_t policies;
    weir_secret secret;
    slot *slots;
    size_t slots_len; /* a power of two */
    size_t count;
    chunk *chunks;
    replay_key *first, **last_link;
};

replay_key_table *replay_key_table_open(size_t policies)
{
    replay_key_table *k = port_zalloc(1, sizeof *k);
    if (!k)
        return NULL;
    k->policies = policies;
    k->last_link = &k->first;
    k->slots_len = SLOTS_MIN;
    k->slots = port_zalloc(k->slots_len, sizeof *k->slots);
    if (!k->slots || port_random(&k->secret, sizeof k->secret) != WEIR_OK) {
        replay_key_table_close(k);
        return NULL;
    }
    return k;
}

void replay_key_table_close(replay_key_table *k)
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

/* Allocates zeroed bytes, aligned for a replay_key. */
static void *chunk_bytes(replay_key_table *k, size_t size)
{
    size = aligned(size);
    chunk *c = k->chunks;
    if (!c || c->size - c->used < size) {
        size_t bytes = size > CHUNK_BYTES ? size : CHUNK_BYTES;
        c = port_zalloc(1, sizeof *c + bytes);
        if (!c)
            return NULL;
        c->size = bytes;
        c->next = k->chunks;
        k->chunks = c;
    }
    void *ret = (char *)c->bytes + c->used;
    c->used += size;
    return ret;
}

const char *replay_key_text(const replay_key *key)
{
    return (const char *)key - aligned(key->len);
}

/* Loads the cache lines of a key at once, instead of one after the other as they are used. */
static void prefetch(const replay_key *key)
{
    for (size_t at = CACHE_LINE; at < 4 * CACHE_LINE; at += CACHE_LINE)
        __builtin_prefetch((const char *)key + at, 1);
}

/* Returns the slot of the key, or the free slot where it belongs. */
static slot *find(const replay_key_table *k, uint64_t hash, const char *text, size_t len)
{
    for (size_t i = (size_t)hash;; i++) {
        slot *s = &k->slots[i & (k->slots_len - 1)];
        if (!s->key)
            return s;
        if (s->hash != hash)
            continue;
        prefetch(s->key);
        if (s->key->len == len && memcmp(replay_key_text(s->key), text, len) == 0)
            return s;
    }
}

static weir_status grow(replay_key_table *k)
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

static replay_key *key_new(replay_key_table *k, const char *text, size_t len)
{
    size_t before = aligned(len);
    char *at = chunk_bytes(k, before + sizeof(replay_key) + k->policies * sizeof(replay_tally));
    if (!at)
        return NULL;
    memcpy(at, text, len);
    replay_key *key = (replay_key *)(void *)(at + before);
    key->len = (uint32_t)len;
    *k->last_link = key;
    k->last_link = &key->next;
    key->number = (uint32_t)k->count++;
    return key;
}

replay_key *replay_key_table_at(replay_key_table *k, const char *text, size_t len)
{
    return replay_key_table_at_hash(k, weir_siphash(k->secret, text, len), text, len);
}

replay_key *replay_key_table_at_hash(replay_key_table *k, uint64_t hash, const char *text,
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
    *s = (slot){hash, key_new(k, text, len)}; /* if key_new() fails, the slot stays free */
    return s->key;
}

uint64_t replay_key_table_hash(const replay_key_table *k, const char *text, size_t len)
{
    uint64_t hash = weir_siphash(k->secret, text, len);
    port_prefetch(&k->slots[hash & (k->slots_len - 1)]);
    return hash;
}

const replay_key *replay_key_table_prefetch(const replay_key_table *k, uint64_t hash)
{
    enum { LINE = 64, LINES = 4, BEFORE = 16 }; /* a key with one policy, and a short text before */
    for (size_t i = (size_t)hash; k->slots[i & (k->slots_len - 1)].key; i++) {
        const slot *s = &k->slots[i & (k->slots_len - 1)];
        if (s->hash != hash)
            continue;
        for (size_t line = 0; line < LINES; line++)
            port_prefetch((const char *)s->key - BEFORE + line * LINE);
        return s->key;
    }
    return NULL;
}

replay_denials *replay_key_table_denials(replay_key_table *k)
{
    return chunk_bytes(k, sizeof(replay_denials));
}

uint64_t replay_key_table_count(const replay_key_table *k)
{
    return k->count;
}

replay_key *replay_key_table_first(const replay_key_table *k)
{
    return k->first;
}
