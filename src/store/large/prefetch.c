/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* Prefetching for a batch: the cache misses of many keys overlap. Each pass over the keys loads
 * what the pass before it has prefetched. No lock is held, so every load is only a hint: a block
 * may be freed, and its memory may belong to another key. */

#include "store/large/index.h"

#include "core/check.h"
#include "port/assert.h"

enum {
    LINE = 64,
    WHOLE_MAX = 4 * LINE, /* bytes of a block that is prefetched without looking into it */
};

static inline void prefetch_bytes(const void *p, size_t bytes)
{
    const unsigned char *first = p;
    for (size_t i = 0; i < bytes; i += LINE)
        port_prefetch(first + i);
    port_prefetch(first + bytes - 1);
}

/* Prefetches a block, or its beginning, and its bits. Returns `at`, or 0 if that is no unit. */
static inline uint64_t prefetch_block(const weir_large *l, uint64_t at, size_t bytes)
{
    const weir_allocator *b = &l->blocks;
    if (at == 0 || at >= b->units || b->units - at < sizeof(weir_block) / WEIR_UNIT + 1)
        return 0;
    port_prefetch(&b->begins[at / 64]);
    port_prefetch(&b->taken[at / 64]);
    prefetch_bytes(weir_block_at(b, at), bytes);
    return at;
}

static const port_word *bucket_of(const weir_large_hint *key)
{
    return &key->large->bucket[weir_index_bucket(key->large, key->hash)];
}

static void prefetch_stripe(const weir_large *l, uint64_t hash)
{
    const weir_stripe *s = &l->stripe[weir_index_bucket(l, hash) & (l->stripes - 1)];
    port_prefetch(&s->lock);
    prefetch_bytes(s->journal, 6 * sizeof s->journal[0]);
}

/* Prefetches the words of a long state. */
static void prefetch_state(const weir_policy *p, const weir_block *block)
{
    uint64_t shape = port_peek(&block->shape);
    size_t index[WEIR_STATE_LOADS];
    size_t n = weir_state_loads(p, port_peek(block->state), shape >> 16 & 0xff, index);
    for (size_t i = 0; i < n; i++)
        port_prefetch(&block->state[index[i]]);
}

/* How much of a block of the policy is prefetched at first. */
static size_t bytes_of(const weir_policy *p)
{
    size_t bytes = sizeof(weir_block) + weir_state_words(p, 0) * sizeof(uint64_t);
    return bytes > WHOLE_MAX ? LINE : bytes;
}

void weir_large_prefetch(const weir_large_hint *keys, size_t n)
{
    uint64_t at[WEIR_LARGE_HINTS_MAX];
    size_t bytes[WEIR_LARGE_HINTS_MAX];
    WEIR_ASSERT(n <= WEIR_LARGE_HINTS_MAX);
    for (size_t i = 0; i < n; i++) {
        port_prefetch(bucket_of(&keys[i]));
        prefetch_stripe(keys[i].large, keys[i].hash);
    }
    for (size_t i = 0; i < n; i++) {
        bool same = i > 0 && keys[i].policy == keys[i - 1].policy;
        bytes[i] = same ? bytes[i - 1] : bytes_of(keys[i].policy);
        at[i] =
            prefetch_block(keys[i].large, port_word_load_relaxed(bucket_of(&keys[i])), bytes[i]);
    }
    for (size_t i = 0; i < n; i++) { /* the second block of a chain, if it is not the first */
        const weir_block *block = weir_block_at(&keys[i].large->blocks, at[i]);
        if (at[i] != 0 && port_peek(&block->hash) != keys[i].hash)
            at[i] = prefetch_block(keys[i].large, port_peek(&block->next), bytes[i]);
    }
    for (size_t i = 0; i < n; i++) {
        if (at[i] != 0)
            prefetch_state(keys[i].policy, weir_block_at(&keys[i].large->blocks, at[i]));
    }
}
