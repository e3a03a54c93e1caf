/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* Who has to go when there is no room. All looking around is done by place, through the bitmaps:
 * so it also finds the blocks that no index leads to, which damage has left behind. */

#include "store/large/eviction.h"

enum {
    SWEEP = 2,       /* blocks looked at with every new one */
    SWEEP_FULL = 64, /* the same where there is no room at first sight */
    SAMPLE = 16,     /* blocks looked at to find the one closest to fresh ... */
    SAMPLE_AT = 4,   /* ... in so many places */
    EVICTIONS = 8,   /* before all in one place goes, ... */
    ANY_SIZE = 2,    /* ... of them without regard to size */
    LIST = 64,
    FAR_UNITS = 1024, /* of a block that is worth a long search */
    PASSES = 3,       /* of clearing a place, while others take it */
};

/* The stripe of a block that was seen, locked; NULL if it cannot be had. */
static weir_stripe *enter_of(weir_large *l, const weir_block_request *want, uint64_t hash)
{
    weir_stripe *s = weir_large_stripe_of(l, hash);
    if (s == want->stripe)
        return weir_stripe_idle(s) ? s : NULL;
    /* Waiting for it while holding ours could be waiting for each other. */
    return weir_index_try_lock(l, s) ? s : NULL;
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

static bool is_noted(const weir_stripe *s, uint64_t at)
{
    for (size_t i = 0; i < WEIR_STRIPE_NOTES; i++) {
        if (port_word_load_relaxed(&s->note[i]) >> WEIR_NOTE_SHIFT == at)
            return true;
    }
    return false;
}

/* Frees a block that no index leads to, and that nobody is about to put into one. */
static bool free_lost(weir_large *l, weir_stripe *s, const weir_block_seen *seen)
{
    weir_block_seen now;
    uint64_t next;
    if (is_noted(s, seen->at) || weir_allocator_list(&l->blocks, seen->at, &now, 1, &next) == 0 ||
        now.at != seen->at || now.hash != seen->hash || !weir_stripe_gone(s, seen->at))
        return false;
    port_word_store_relaxed(&s->damaged, port_word_load_relaxed(&s->damaged) + 1);
    weir_stripe_free(s, &l->blocks, seen->at);
    return true;
}

/* Drops a block that was seen, if it is still that of the same key; `fresh`: only if it is. */
static bool drop_seen(weir_large *l, const weir_block_request *want, const weir_block_seen *seen,
                      bool fresh)
{
    if (seen->at == want->keep_at)
        return false;
    weir_stripe *s = enter_of(l, want, seen->hash);
    if (!s)
        return false;
    bool gone = false;
    port_word *link = weir_index_find_block(l, seen->hash, seen->at);
    if (!link) {
        gone = free_lost(l, s, seen);
    } else {
        const weir_block *block = weir_block_at(&l->blocks, seen->at);
        bool live = (int64_t)port_word_load_relaxed(&block->fresh_at_ns) > now_of(s);
        gone = !live || !fresh;
        if (gone) {
            port_word_store_relaxed(&s->evicted, port_word_load_relaxed(&s->evicted) + live);
            weir_index_remove(l, s, link, seen->at);
        }
    }
    leave(want, s);
    return gone;
}

/* Whether it is worth while to lock its stripe: it looks fresh. A lost one is found in any case
 * once there is no room. */
static bool looks_fresh(weir_large *l, const weir_block_seen *seen)
{
    return seen->fresh_at_ns <= now_of(weir_large_stripe_of(l, seen->hash));
}

/* Drops what is fresh of the next `count` blocks. Returns where one of them was, or 0. */
static uint64_t sweep(weir_large *l, const weir_block_request *want, size_t count)
{
    weir_block_seen seen[SWEEP_FULL];
    uint64_t next, freed = 0;
    size_t n =
        weir_allocator_list(&l->blocks, weir_allocator_sweep_at(&l->blocks), seen, count, &next);
    weir_allocator_sweep_to(&l->blocks, next);
    for (size_t i = 0; i < n; i++) {
        if (looks_fresh(l, &seen[i]) && drop_seen(l, want, &seen[i], true))
            freed = seen[i].at;
    }
    return freed;
}

/* Leaves those of at least so many units, if there are any. */
static size_t keep_wide(weir_block_seen *seen, size_t n, uint64_t units)
{
    size_t wide = 0;
    for (size_t i = 0; i < n; i++) {
        if (seen[i].units >= units)
            seen[wide++] = seen[i];
    }
    return wide > 0 ? wide : n;
}

/* Drops one block: of a sample what is closest to fresh, of so many units if there is one. Returns
 * where it was, or 0. */
static uint64_t evict(weir_large *l, const weir_block_request *want, uint64_t units)
{
    weir_block_seen seen[SAMPLE];
    size_t n = 0;
    for (size_t i = 0; i < SAMPLE_AT; i++) {
        uint64_t next, from = weir_allocator_any(&l->blocks);
        n += weir_allocator_list(&l->blocks, from, seen + n, SAMPLE / SAMPLE_AT, &next);
    }
    for (n = keep_wide(seen, n, units); n > 0; n--) {
        size_t best = 0;
        for (size_t i = 1; i < n; i++) {
            if (seen[i].fresh_at_ns < seen[best].fresh_at_ns)
                best = i;
        }
        bool refuse = want->when_full == WEIR_REFUSE;
        if (drop_seen(l, want, &seen[best], refuse))
            return seen[best].at;
        if (refuse)
            return 0;
        seen[best] = seen[n - 1];
    }
    return 0;
}

/* Drops all from some place on until there is a gap of so many units, which is returned; or 0. */
static uint64_t clear_place(weir_large *l, const weir_block_request *want, uint64_t units)
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
                gap = from == 0 ? 1 : seen[i].at; /* what covers `from` may be a block */
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

/* Whether a gap of so many units is possible at all beside the block that must stay. */
static bool could_fit(weir_large *l, const weir_block_request *want, uint64_t units)
{
    weir_allocator *b = &l->blocks;
    if (want->keep_at == 0)
        return units < b->units;
    uint64_t words = weir_block_words(weir_block_at(b, want->keep_at));
    uint64_t end = want->keep_at + weir_block_units(words);
    return units < want->keep_at || units <= b->units - end;
}

/* What is left to do where the memory is full: somebody has to go. */
static uint64_t make_room(weir_large *l, const weir_block_request *want, port_word *note)
{
    weir_allocator *b = &l->blocks;
    uint64_t units = weir_block_units(want->words), from = sweep(l, want, SWEEP_FULL), at = 0;
    for (int i = 0; i < EVICTIONS && at == 0; i++) {
        if (from == 0)
            from = evict(l, want, i < ANY_SIZE ? 0 : units);
        if (from != 0) /* the gap may have begun before it */
            at = weir_allocator_alloc(b, want->words, want->level, want->hash,
                                      from > units ? from - units : 1, false, note);
        from = 0;
    }
    for (int i = 0; i < PASSES && at == 0 && want->when_full != WEIR_REFUSE; i++) {
        from = clear_place(l, want, units);
        if (from != 0)
            at = weir_allocator_alloc(b, want->words, want->level, want->hash, from, false, note);
    }
    return at;
}

/* Then a gap that is far away is not worth the search, if it is for a small block. */
static bool nearly_full(const weir_allocator *b)
{
    return port_word_load_relaxed(&b->head->used) > b->units - b->units / 8;
}

weir_status weir_eviction_alloc(weir_large *l, const weir_block_request *want, uint64_t *ret_at)
{
    weir_allocator *b = &l->blocks;
    uint64_t units = weir_block_units(want->words);
    if (!could_fit(l, want, units))
        return WEIR_E_NOMEM;
    port_word *note = weir_stripe_note(want->stripe);
    if (!note)
        return WEIR_E_BUSY;
    sweep(l, want, SWEEP);
    uint64_t at = weir_allocator_alloc(b, want->words, want->level, want->hash, 0, false, note);
    if (at == 0 && (units > FAR_UNITS || !nearly_full(b)))
        at = weir_allocator_alloc(b, want->words, want->level, want->hash, 0, true, note);
    if (at == 0)
        at = make_room(l, want, note);
    if (at == 0) {
        port_word *refused = &want->stripe->refused;
        weir_stripe_forget(want->stripe, note);
        if (want->when_full != WEIR_REFUSE)
            return WEIR_E_NOMEM;
        port_word_store_relaxed(refused, port_word_load_relaxed(refused) + 1);
        return WEIR_E_FULL;
    }
    *ret_at = at;
    return WEIR_OK;
}
