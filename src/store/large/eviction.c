/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* Eviction looks at blocks in the order of their addresses, through the allocator's bitmaps. So it
 * also finds blocks that a damaged index no longer leads to. */

#include "store/large/index.h"

#include "port/assert.h"
#include "store/state.h"

enum {
    SWEEP = 2,       /* blocks to look at for each new block */
    SWEEP_FULL = 64, /* the same if the memory is full */
    SAMPLE = 16,     /* blocks in the sample for an eviction */
    SAMPLE_AT = 4,   /* random places from which the sample is taken */
    SAMPLES = 8,     /* samples to draw until one has a key that has used little */
    EVICTIONS = 8,   /* evictions before a whole stretch is cleared */
    ANY_SIZE = 2,    /* how many of them, the first ones, ignore the size of the victim */
    LIST = 64,
    CLEAR_LISTS = 16,
    FAR_UNITS = 1024, /* a block of more units is worth a long search */
    PASSES = 16,      /* tries to clear a stretch, in case other threads take it */
};

/* Locks the stripe of a listed block. Returns NULL if that is not possible. */
static weir_stripe *lock_stripe_of(weir_large *l, weir_block_request *want, uint64_t hash)
{
    weir_stripe *s = weir_large_stripe_of(l, hash);
    if (s == want->stripe)
        return weir_stripe_idle(s) ? s : NULL;
    /* Does not wait: it holds a lock already, and two threads could wait for each other. */
    if (weir_index_try_lock(l, s))
        return s;
    want->busy = true;
    return NULL;
}

static void leave(const weir_block_request *want, weir_stripe *s)
{
    if (s != want->stripe)
        weir_robust_unlock(&s->lock);
}

static int64_t now_of(const weir_stripe *s)
{
    return (int64_t)port_word_load_relaxed(&s->now_ns);
}

static bool is_pending(const weir_stripe *s, uint64_t at)
{
    for (size_t i = 0; i < WEIR_STRIPE_PENDING; i++) {
        if (port_word_load_relaxed(&s->pending[i]) >> WEIR_PENDING_SHIFT == at)
            return true;
    }
    return false;
}

/* Frees a block that is in no index and not pending. */
static bool free_lost(weir_large *l, weir_stripe *s, const weir_block_seen *seen)
{
    weir_block_seen now;
    uint64_t next;
    if (is_pending(s, seen->at) || weir_allocator_list(&l->blocks, seen->at, &now, 1, &next) == 0 ||
        now.at != seen->at || now.hash != seen->hash || !weir_stripe_mark_removed(s, seen->at))
        return false;
    port_word_store_relaxed(&s->damaged, port_word_load_relaxed(&s->damaged) + 1);
    weir_stripe_free(s, &l->blocks, seen->at);
    return true;
}

/* Counts evicted keys; the lock of the stripe is held. */
static void count_evictions(weir_stripe *s, uint64_t n)
{
    port_word_store_relaxed(&s->evicted, port_word_load_relaxed(&s->evicted) + n);
}

/* Drops a listed block, if it still belongs to the same key. With `if_idle`, only if the key is
 * idle. */
static bool drop_seen(weir_large *l, weir_block_request *want, const weir_block_seen *seen,
                      bool if_idle)
{
    if (seen->at == want->keep_at)
        return false;
    weir_stripe *s = lock_stripe_of(l, want, seen->hash);
    if (!s)
        return false;
    bool gone;
    port_word *link = weir_index_find_block(l, seen->hash, seen->at);
    if (!link) {
        gone = free_lost(l, s, seen);
    } else {
        const weir_block *block = weir_block_at(&l->blocks, seen->at);
        bool live = (int64_t)port_word_load_relaxed(&block->mark) > now_of(s);
        gone = !live || !if_idle;
        if (gone) {
            count_evictions(s, live);
            weir_index_remove(l, s, link, seen->at);
        }
    }
    leave(want, s);
    return gone;
}

/* Whether the key seems to be idle, so that locking its stripe is worthwhile. A block that is in no
 * index is found later, when the memory is full. */
static bool looks_idle(weir_large *l, const weir_block_seen *seen)
{
    return seen->mark <= now_of(weir_large_stripe_of(l, seen->hash));
}

/* Drops the idle keys among the next `count` blocks. Returns where one of them was, or 0. */
static uint64_t sweep(weir_large *l, weir_block_request *want, size_t count)
{
    weir_block_seen seen[SWEEP_FULL];
    WEIR_ASSERT(count <= SWEEP_FULL);
    uint64_t next, freed = 0;
    size_t n =
        weir_allocator_list(&l->blocks, weir_allocator_sweep_at(&l->blocks), seen, count, &next);
    weir_allocator_sweep_to(&l->blocks, next);
    for (size_t i = 0; i < n; i++) {
        if (looks_idle(l, &seen[i]) && drop_seen(l, want, &seen[i], true))
            freed = seen[i].at;
    }
    return freed;
}

/* Keeps only the blocks of at least `units` units, unless there are none. */
static size_t keep_wide(weir_block_seen *seen, size_t n, uint64_t units)
{
    size_t wide = 0;
    for (size_t i = 0; i < n; i++) {
        if (seen[i].units >= units)
            seen[wide++] = seen[i];
    }
    return wide > 0 ? wide : n;
}

/* An idle key is evicted before any other. */
static uint64_t rank_of(weir_large *l, const weir_block_seen *seen)
{
    return looks_idle(l, seen) ? 0 : weir_rank(weir_mark_used(seen->mark), seen->mark);
}

static bool is_dear(weir_large *l, const weir_block_seen *seen)
{
    return !looks_idle(l, seen) && weir_mark_used(seen->mark) > WEIR_CHEAP;
}

static size_t draw(weir_large *l, weir_block_seen *ret)
{
    size_t n = 0;
    for (size_t i = 0; i < SAMPLE_AT; i++) {
        uint64_t next, from = weir_allocator_any(&l->blocks);
        n += weir_allocator_list(&l->blocks, from, ret + n, SAMPLE / SAMPLE_AT, &next);
    }
    return n;
}

static bool all_dear(weir_large *l, const weir_block_seen *seen, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (!is_dear(l, &seen[i]))
            return false;
    }
    return true;
}

/* Evicts one key: of a random sample, the one with the lowest rank, preferably in a block of at
 * least `units` units. Returns where its block was, or 0. */
static uint64_t evict(weir_large *l, weir_block_request *want, uint64_t units)
{
    weir_block_seen seen[SAMPLE];
    size_t n = 0;
    /* Draws again while every key in the sample has used much. If that holds for all wide blocks
     * that were drawn, returns 0: the caller clears adjacent blocks instead. */
    bool refuse = want->when_full == WEIR_REFUSE; /* then only idle keys are dropped */
    for (unsigned i = 0; i < (refuse ? 1 : SAMPLES) && all_dear(l, seen, n); i++)
        n = keep_wide(seen, draw(l, seen), units);
    if (units > 0 && !refuse && all_dear(l, seen, n))
        return 0;
    for (; n > 0; n--) {
        WEIR_ASSERT(n <= SAMPLE);
        size_t best = 0;
        for (size_t i = 1; i < n; i++) {
            if (rank_of(l, &seen[i]) < rank_of(l, &seen[best]))
                best = i;
        }
        if (drop_seen(l, want, &seen[best], refuse))
            return seen[best].at;
        if (refuse)
            return 0;
        seen[best] = seen[n - 1];
    }
    return 0;
}

/* Evicts all keys from a random place on, until there is a gap of `units` units. Returns the gap,
 * or 0. */
static uint64_t clear_place(weir_large *l, weir_block_request *want, uint64_t units)
{
    weir_allocator *b = &l->blocks;
    weir_block_seen seen[LIST];
    uint64_t from = weir_allocator_any(b), gap = 0, next, wraps = 0;
    if (b->units - from < units)
        from = 0;
    for (;;) {
        size_t n = weir_allocator_list(b, from, seen, LIST, &next);
        for (size_t i = 0; i < n; i++) {
            if (gap == 0)
                gap = from == 0 ? 1 : seen[i].at; /* a block may cover `from` */
            if (seen[i].at - gap >= units)
                return gap;
            if (!drop_seen(l, want, &seen[i], false))
                gap = seen[i].at + seen[i].units;
        }
        if (gap == 0 && from == 0)
            gap = 1;
        if (gap != 0 && next > gap && next - gap >= units)
            return gap;
        from = next;
        if (from >= b->units || (gap != 0 && b->units - gap < units)) {
            if (wraps++ > 0)
                return 0;
            from = gap = 0;
        }
    }
}

/* As clear_place(), but first looks for a stretch in which no key has used much, and evicts nothing
 * unless it finds one. */
static uint64_t clear_cheap_place(weir_large *l, weir_block_request *want, uint64_t units)
{
    weir_allocator *b = &l->blocks;
    weir_block_seen seen[LIST];
    uint64_t from = weir_allocator_any(b), gap = 0, end = 0, next;
    for (unsigned lists = 0; lists < CLEAR_LISTS && end == 0; lists++, from = next) {
        size_t n = weir_allocator_list(b, from, seen, LIST, &next);
        for (size_t i = 0; i < n && end == 0; i++) {
            if (gap == 0)
                gap = seen[i].at;
            if (is_dear(l, &seen[i]) || seen[i].at == want->keep_at)
                gap = seen[i].at + seen[i].units;
            else if (seen[i].at + seen[i].units - gap >= units)
                end = gap + units;
        }
        if (next >= b->units) {
            next = 0;
            gap = end == 0 ? 0 : gap;
        }
    }
    for (from = gap; end != 0 && from < end; from = next) {
        size_t n = weir_allocator_list(b, from, seen, LIST, &next);
        for (size_t i = 0; i < n && seen[i].at < end; i++) {
            if (!drop_seen(l, want, &seen[i], false))
                return 0;
        }
    }
    return end != 0 ? gap : 0;
}

/* Whether a gap of `units` units is possible at all, beside the block that must stay. */
static bool could_fit(weir_large *l, const weir_block_request *want, uint64_t units)
{
    weir_allocator *b = &l->blocks;
    if (want->keep_at == 0)
        return units < b->units;
    uint64_t words = weir_block_words(weir_block_at(b, want->keep_at));
    uint64_t end = want->keep_at + weir_block_units(words);
    return units < want->keep_at || units <= b->units - end;
}

/* Allocates a block in full memory: frees or evicts other blocks first. */
static uint64_t alloc_evicting(weir_large *l, weir_block_request *want, port_word *pending)
{
    weir_allocator *b = &l->blocks;
    uint64_t units = weir_block_units(want->words), from = sweep(l, want, SWEEP_FULL), at = 0;
    for (int i = 0; i < EVICTIONS && at == 0; i++) {
        if (from == 0)
            from = evict(l, want, i < ANY_SIZE ? 0 : units);
        if (from != 0) /* the gap may begin before that block */
            at = weir_allocator_alloc(b, want->words, want->level, want->hash,
                                      from > units ? from - units : 1, false, pending);
        from = 0;
    }
    for (int i = 0; i < PASSES && at == 0 && want->when_full != WEIR_REFUSE; i++) {
        from = i < PASSES / 2 ? clear_cheap_place(l, want, units) : clear_place(l, want, units);
        if (from != 0)
            at =
                weir_allocator_alloc(b, want->words, want->level, want->hash, from, false, pending);
    }
    return at;
}

/* Whether a long search for a small gap is not worthwhile. */
static bool nearly_full(const weir_allocator *b)
{
    return port_word_load_relaxed(&b->head->used) > b->units - b->units / 8;
}

weir_status weir_eviction_alloc(weir_large *l, weir_block_request *want, uint64_t *ret_at)
{
    weir_allocator *b = &l->blocks;
    WEIR_ASSERT(weir_index_is_locked(l, want->stripe));
    WEIR_ASSERT(want->stripe == weir_large_stripe_of(l, want->hash));
    uint64_t units = weir_block_units(want->words);
    if (!could_fit(l, want, units))
        return WEIR_E_NOMEM;
    port_word *pending = weir_stripe_take_pending(want->stripe);
    if (!pending)
        return WEIR_E_BUSY;
    sweep(l, want, SWEEP);
    uint64_t at = weir_allocator_alloc(b, want->words, want->level, want->hash, 0, false, pending);
    if (at == 0 && (units > FAR_UNITS || !nearly_full(b)))
        at = weir_allocator_alloc(b, want->words, want->level, want->hash, 0, true, pending);
    if (at == 0)
        at = alloc_evicting(l, want, pending);
    if (at == 0) {
        port_word *refused = &want->stripe->refused;
        weir_stripe_give_pending(want->stripe, pending);
        if (want->when_full != WEIR_REFUSE)
            return WEIR_E_NOMEM;
        port_word_store_relaxed(refused, port_word_load_relaxed(refused) + 1);
        return WEIR_E_FULL;
    }
    *ret_at = at;
    return WEIR_OK;
}
