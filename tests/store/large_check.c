/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* The walker of the large states. */

#include "store/large/index.h"
#include "tests/store/check.h"

#include <inttypes.h>

static bool bit_at(const port_word *bits, uint64_t at)
{
    return port_word_load_relaxed(&bits[at / 64]) >> at % 64 & 1;
}

static const char *check_stripes(const weir_large *l)
{
    for (size_t i = 0; i < l->stripes; i++) {
        const weir_stripe *s = &l->stripe[i];
        if (port_word_load_relaxed(&s->lock) != 0)
            return weir_wrong("stripe %zu: locked", i);
        if (port_word_load_relaxed(&s->journal_len) != 0)
            return weir_wrong("stripe %zu: its transaction is open", i);
        if (port_word_load_relaxed(&s->now_ns) > (uint64_t)WEIR_NOW_NS_MAX)
            return weir_wrong("stripe %zu: its time is out of range", i);
        for (size_t p = 0; p < WEIR_STRIPE_PENDING; p++) {
            if (port_word_load_relaxed(&s->pending[p]) != 0)
                return weir_wrong("stripe %zu: pending word %zu is in use", i, p);
        }
        if (port_word_load_relaxed(&s->pending_used) != 0)
            return weir_wrong("stripe %zu: a pending word is taken", i);
    }
    return NULL;
}

/* Checks that the chain of a hash contains a block once, and no other block with the hash. */
static const char *check_chain(const weir_large *l, uint64_t want_at, uint64_t hash)
{
    size_t bucket = weir_index_bucket(l, hash);
    uint64_t at = port_word_load_relaxed(&l->bucket[bucket]), steps = 0, found = 0;
    while (at != 0) {
        if (!weir_block_sound(&l->blocks, at) || steps++ > l->blocks.units)
            return weir_wrong("bucket %zu: its chain is broken", bucket);
        const weir_block *block = weir_block_at(&l->blocks, at);
        found += at == want_at;
        if (at != want_at && port_word_load_relaxed(&block->hash) == hash)
            return weir_wrong("block %" PRIu64 ": block %" PRIu64 " has the same hash", want_at,
                              at);
        at = port_word_load_relaxed(&block->next);
    }
    return found == 1 ? NULL : weir_wrong("block %" PRIu64 ": not in the index", want_at);
}

/* Checks the block at *at, and advances *at to its end. */
static const char *check_block(const weir_large *l, uint64_t *at)
{
    const weir_allocator *b = &l->blocks;
    if (!bit_at(b->begins, *at))
        return weir_wrong("unit %" PRIu64 ": taken, and in no block", *at);
    if (!weir_block_sound(b, *at))
        return weir_wrong("block %" PRIu64 ": invalid", *at);
    const weir_block *block = weir_block_at(b, *at);
    if (weir_block_level(block) > WEIR_LEVEL_MAX)
        return weir_wrong("block %" PRIu64 ": invalid level", *at);
    uint64_t units = weir_block_units(weir_block_words(block));
    for (uint64_t i = *at; i < *at + units; i++) {
        if (!bit_at(b->taken, i))
            return weir_wrong("unit %" PRIu64 ": free, but in block %" PRIu64, i, *at);
        if (i > *at && bit_at(b->begins, i))
            return weir_wrong("block %" PRIu64 ": begins in block %" PRIu64, i, *at);
    }
    const char *wrong = check_chain(l, *at, port_word_load_relaxed(&block->hash));
    *at += units;
    return wrong;
}

/* The number of blocks that the index leads to; more than `most` if a chain has a loop. */
static uint64_t chained(const weir_large *l, uint64_t most)
{
    uint64_t n = 0;
    for (size_t i = 0; i < l->buckets; i++) {
        uint64_t at = port_word_load_relaxed(&l->bucket[i]);
        for (; at != 0 && at < l->blocks.units && n <= most; n++)
            at = port_word_load_relaxed(&weir_block_at(&l->blocks, at)->next);
    }
    return n;
}

static const char *check_sums(const weir_large *l, uint64_t units, uint64_t blocks)
{
    const weir_allocator_head *h = l->blocks.head;
    uint64_t used = port_word_load_relaxed(&h->used), count = port_word_load_relaxed(&h->count);
    if (used != units)
        return weir_wrong("%" PRIu64 " units taken, counted %" PRIu64, units, used);
    if (count != blocks)
        return weir_wrong("%" PRIu64 " blocks, counted %" PRIu64, blocks, count);
    uint64_t links = chained(l, blocks);
    return links == blocks ? NULL
                           : weir_wrong("the index leads to %" PRIu64 " blocks, expected %" PRIu64,
                                        links, blocks);
}

const char *weir_large_check(weir_large *l)
{
    const weir_allocator *b = &l->blocks;
    uint64_t units = 0, blocks = 0;
    const char *wrong = check_stripes(l);
    if (!wrong &&
        (port_word_load_relaxed(&b->head->lock) != 0 || port_word_load_relaxed(&b->head->op) != 0))
        wrong = weir_wrong("the allocator: locked, or in a change");
    if (!wrong && bit_at(b->taken, 0))
        wrong = weir_wrong("unit 0: taken");
    for (uint64_t at = 1; at < b->units && !wrong;) {
        uint64_t from = at;
        if (!bit_at(b->taken, at) && bit_at(b->begins, at))
            wrong = weir_wrong("block %" PRIu64 ": free", at);
        else if (!bit_at(b->taken, at))
            at++;
        else if (!(wrong = check_block(l, &at))) {
            units += at - from;
            blocks++;
        }
    }
    return wrong ? wrong : check_sums(l, units, blocks);
}
