/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* Chains of blocks. Nothing in the memory is trusted: a power loss may have left anything. */

#include "store/large/index.h"

#include "port/assert.h"

enum { CHAIN_MAX = 4096 }; /* blocks in a chain. A longer one is a damaged chain with a loop */

/* ---- locks ----------------------------------------------------------------------------------- */

/* Rolls back the transaction of the last owner, and frees its pending blocks. */
void weir_index_repair(weir_large *l, weir_stripe *s)
{
    weir_stripe_undo(s, &l->blocks, 0);
    for (size_t i = 0; i < WEIR_STRIPE_PENDING; i++) {
        uint64_t at = port_word_load_relaxed(&s->pending[i]) >> WEIR_PENDING_SHIFT;
        if (weir_block_sound(&l->blocks, at)) {
            uint64_t hash = port_word_load_relaxed(&weir_block_at(&l->blocks, at)->hash);
            if (weir_large_stripe_of(l, hash) == s && !weir_index_find_block(l, hash, at))
                weir_allocator_free(&l->blocks, &s->pending[i]);
        }
        port_word_store_relaxed(&s->pending[i], 0);
    }
    port_word_store_relaxed(&s->pending_used, 0);
}

bool weir_index_try_lock(weir_large *l, weir_stripe *s)
{
    weir_lock_result got = weir_robust_try_lock(&s->lock, l->blocks.processes);
    if (got != WEIR_LOCK_BUSY && (got == WEIR_LOCK_OWNER_DIED || !weir_stripe_idle(s)))
        weir_index_repair(l, s);
    return got != WEIR_LOCK_BUSY;
}

/* ---- chains ---------------------------------------------------------------------------------- */

void weir_index_count_damage(weir_stripe *s)
{
    port_word_store_relaxed(&s->damaged, port_word_load_relaxed(&s->damaged) + 1);
}

/* Whether the block `at` is valid and belongs in the chain of bucket `i`. */
static bool belongs(const weir_large *l, size_t i, uint64_t at)
{
    return weir_block_sound(&l->blocks, at) &&
           weir_index_bucket(l, port_word_load_relaxed(&weir_block_at(&l->blocks, at)->hash)) == i;
}

/* Follows the chain of `hash` to the block `want_at`, or, if that is 0, to the block of `hash`. */
__attribute__((always_inline)) static inline port_word *walk(weir_large *l, uint64_t hash,
                                                             uint64_t want_at, uint64_t *ret_at)
{
    WEIR_ASSERT(weir_index_is_locked(l, weir_large_stripe_of(l, hash)));
    size_t i = weir_index_bucket(l, hash);
    port_word *link = &l->bucket[i];
    uint64_t at;
    for (unsigned steps = 0; (at = port_word_load_relaxed(link)) != 0; steps++) {
        if (steps == CHAIN_MAX || !belongs(l, i, at)) {
            weir_index_count_damage(weir_large_stripe_of(l, hash));
            port_word_store_relaxed(link, 0);
            at = 0;
            break;
        }
        weir_block *block = weir_block_at(&l->blocks, at);
        if (want_at != 0 ? at == want_at : port_word_load_relaxed(&block->hash) == hash)
            break;
        link = &block->next;
    }
    *ret_at = at;
    return link;
}

port_word *weir_index_find(weir_large *l, uint64_t hash, uint64_t *ret_at)
{
    return walk(l, hash, 0, ret_at);
}

port_word *weir_index_find_block(weir_large *l, uint64_t hash, uint64_t at)
{
    uint64_t found;
    port_word *link = walk(l, hash, at, &found);
    return found != 0 ? link : NULL;
}

/* The single store that changes the index. Relaxed: the journal has the old link until the commit,
 * and a block is freed only after a fence. */
static void set_link(port_word *link, uint64_t at)
{
    port_word_store_relaxed(link, at);
}

static uint64_t next_of(const weir_large *l, uint64_t at)
{
    return port_word_load_relaxed(&weir_block_at(&l->blocks, at)->next);
}

void weir_index_remove(weir_large *l, weir_stripe *s, port_word *link, uint64_t at)
{
    WEIR_ASSERT(weir_stripe_idle(s) && port_word_load_relaxed(link) == at);
    if (!weir_stripe_mark_removed(s, at))
        return;
    set_link(link, next_of(l, at));
    weir_stripe_free(s, &l->blocks, at);
}

weir_status weir_index_detach(weir_large *l, weir_stripe *s, port_word *link, uint64_t at)
{
    WEIR_ASSERT(at != 0 && port_word_load_relaxed(link) == at);
    if (!weir_stripe_journal(s, &l->blocks, &link, 1, true) || !weir_stripe_mark_removed(s, at))
        return WEIR_E_BUSY;
    set_link(link, next_of(l, at));
    return WEIR_OK;
}

weir_status weir_index_insert(weir_large *l, weir_stripe *s, uint64_t hash, uint64_t at,
                              uint64_t old)
{
    WEIR_ASSERT(at != 0 && at != old);
    port_word *link = &l->bucket[weir_index_bucket(l, hash)];
    if (old != 0)
        link = weir_index_find_block(l, hash, old);
    if (!link || !weir_stripe_journal(s, &l->blocks, &link, 1, true) ||
        (old != 0 && !weir_stripe_mark_removed(s, old)))
        return WEIR_E_BUSY;
    port_word_store_relaxed(&weir_block_at(&l->blocks, at)->next,
                            old != 0 ? next_of(l, old) : port_word_load_relaxed(link));
    set_link(link, at);
    return WEIR_OK;
}

bool weir_index_each(weir_large *l, size_t i, weir_key_state_fn fn, void *ctx)
{
    WEIR_ASSERT(i < l->buckets);
    uint64_t at;
    port_word *link = &l->bucket[i];
    for (unsigned steps = 0; (at = port_word_load_relaxed(link)) != 0; steps++) {
        if (steps == CHAIN_MAX || !belongs(l, i, at))
            return true;
        weir_block *block = weir_block_at(&l->blocks, at);
        weir_key_state stored = {.hash = port_word_load_relaxed(&block->hash),
                                 .fresh_at_ns = (int64_t)port_word_load_relaxed(&block->mark),
                                 .form = WEIR_LARGE_FORM,
                                 .level = weir_block_level(block),
                                 .words_len = weir_block_words(block),
                                 .words = block->state};
        if (!fn(ctx, &stored))
            return false;
        link = &block->next;
    }
    return true;
}
