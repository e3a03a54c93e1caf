/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* Decisions on large states. A decision that writes few words saves them in the stripe's journal
 * and changes them in place. A decision that may write many words, or makes the state grow, works
 * on a copy in a new block, which then replaces the old block in the index. All arithmetic on
 * states is in src/core. */

#include "store/large/index.h"

#include "core/check.h"
#include "port/assert.h"
#include "port/port.h"

enum {
    STRIPES_MIN = 4,
    STRIPES_MAX = 64,
    STRIPE_BYTES = 1 << 18, /* bytes of memory for each stripe */
    BUCKET_BYTES = 256,     /* bytes of memory for each bucket */
    IN_PLACE_MAX = WEIR_JOURNAL_MAX - WEIR_JOURNAL_SPARE - 1,
    SCRATCH = 64, /* states of up to this many words are created on the stack */
};

#define MAGIC 0x3172616c72696577 /* identifies the layout; its last digit is the version */

typedef struct part_head {
    port_word magic;
    port_word bytes;
    weir_allocator_head blocks;
} part_head;

/* ---- open and close -------------------------------------------------------------------------- */

static size_t round_up(size_t n, size_t to)
{
    return (n + to - 1) / to * to;
}

static size_t power_within(size_t n, size_t low, size_t high)
{
    size_t power = low;
    while (power < high && power * 2 <= n)
        power *= 2;
    return power;
}

/* Computes the layout, which follows from the size of the memory alone. */
static void lay_out(weir_large *l, unsigned char *part, size_t bytes)
{
    weir_allocator *b = &l->blocks;
    l->stripes = power_within(bytes / STRIPE_BYTES, STRIPES_MIN, STRIPES_MAX);
    l->buckets = power_within(bytes / BUCKET_BYTES, STRIPES_MAX, SIZE_MAX / 2);
    size_t at = round_up(sizeof(part_head), alignof(weir_stripe));
    b->head = &((part_head *)part)->blocks;
    l->stripe = (weir_stripe *)(part + at);
    at += l->stripes * sizeof(weir_stripe);
    size_t bitmap = round_up(bytes / WEIR_UNIT / 8, 64);
    b->taken = (port_word *)(part + at);
    b->begins = (port_word *)(part + at + bitmap);
    at += 2 * bitmap;
    l->bucket = (port_word *)(part + at);
    b->words = (port_word *)part;
    b->words_len = bytes / 8;
    b->words_undo = at / 8;
    at += l->buckets * sizeof(port_word);
    b->base = part + at;
    WEIR_ASSERT(at < bytes && l->buckets % l->stripes == 0);
    b->units = (bytes - at) / WEIR_UNIT;
}

weir_status weir_large_open(weir_large **ret, void *part, size_t bytes, bool is_new,
                            const weir_processes *processes)
{
    part_head *head = part;
    if (bytes < WEIR_LARGE_BYTES_MIN)
        return WEIR_E_RANGE;
    uint64_t magic = port_word_load_acquire(&head->magic);
    uint64_t known = port_word_load_relaxed(&head->bytes);
    /* The process that created the memory may have been killed before it came here. Then all that
     * it did not write is zero. Several processes may be here at once; they write the same. */
    if (is_new || (magic == 0 && (known == 0 || known == bytes))) {
        port_word_store_relaxed(&head->bytes, bytes);
        port_word_store_release(&head->magic, MAGIC);
    } else if (magic != MAGIC || known != bytes) {
        return WEIR_E_SYNTAX;
    }
    weir_large *l = port_zalloc(1, sizeof *l);
    if (!l)
        return WEIR_E_NOMEM;
    lay_out(l, part, bytes);
    l->blocks.processes = processes;
    weir_allocator_repair(&l->blocks);
    for (size_t i = 0; i < l->stripes; i++) {
        if (port_word_load_relaxed(&l->stripe[i].lock) == processes->self) {
            weir_index_repair(l, &l->stripe[i]);
            weir_robust_unlock(&l->stripe[i].lock);
        }
    }
    *ret = l;
    return WEIR_OK;
}

void weir_large_close(weir_large *l)
{
    port_free(l);
}

/* ---- stripes --------------------------------------------------------------------------------- */

size_t weir_large_stripe(const weir_large *l, uint64_t hash)
{
    return weir_index_bucket(l, hash) & (l->stripes - 1);
}

void weir_large_lock(weir_large *l, size_t stripe)
{
    weir_index_lock(l, &l->stripe[stripe]);
}

void weir_large_unlock(weir_large *l, size_t stripe)
{
    WEIR_ASSERT(weir_index_is_locked(l, &l->stripe[stripe]) &&
                weir_stripe_idle(&l->stripe[stripe]));
    weir_robust_unlock(&l->stripe[stripe].lock);
}

void weir_large_commit(weir_large *l, size_t stripe)
{
    WEIR_ASSERT(weir_index_is_locked(l, &l->stripe[stripe]));
    weir_stripe_commit(&l->stripe[stripe], &l->blocks);
}

void weir_large_roll_back(weir_large *l, size_t stripe)
{
    WEIR_ASSERT(weir_index_is_locked(l, &l->stripe[stripe]));
    weir_stripe_roll_back(&l->stripe[stripe], &l->blocks);
}

/* The later of now_ns and the stripe's time, which it advances. */
static int64_t stripe_now(weir_stripe *s, int64_t now_ns)
{
    int64_t seen_ns = (int64_t)port_word_load_relaxed(&s->now_ns);
    if (seen_ns >= now_ns && seen_ns <= WEIR_NOW_NS_MAX)
        return seen_ns;
    if (now_ns <= WEIR_NOW_NS_MAX)
        port_word_store_relaxed(&s->now_ns, (uint64_t)now_ns);
    return now_ns;
}

/* ---- deciding -------------------------------------------------------------------------------- */

/* A decision in progress. */
typedef struct job {
    weir_large *l;
    weir_stripe *s; /* locked */
    const weir_large_call *call;
    int64_t now_ns;
    uint64_t at;          /* the key's block; 0: the key is absent */
    uint64_t journal_len; /* length of the stripe's journal before this decision */
    int64_t mark;         /* of the new state */
    bool busy;            /* the state may fit once other stripes are not locked */
} job;

static weir_status run_fn(job *j, uint64_t *state, unsigned level)
{
    const weir_large_call *c = j->call;
    weir_usage usage = WEIR_USAGE_UNKNOWN;
    weir_status st = c->fn(c->ctx, c->policy, state, level, j->now_ns, &usage);
    if (st == WEIR_OK)
        j->mark = weir_mark_of(c->policy, state, level, j->now_ns, usage);
    return st;
}

static weir_status new_block(job *j, size_t words, unsigned level, uint64_t *ret_at)
{
    weir_block_request want = {j->call->hash, words, level, j->at, j->s, j->call->when_full, false};
    weir_status st = weir_eviction_alloc(j->l, &want, ret_at);
    j->busy = st == WEIR_E_NOMEM && want.busy;
    return st;
}

static weir_block *block_of(const job *j, uint64_t at)
{
    return weir_block_at(&j->l->blocks, at);
}

static void copy_words(uint64_t *to, const uint64_t *from, size_t words)
{
    for (size_t i = 0; i < words; i++)
        to[i] = from[i];
}

/* Replaces the key's block by the block `at` with the new state. Frees `at` if that fails. */
static weir_status swap_in(job *j, uint64_t at, weir_status st)
{
    WEIR_ASSERT(at != 0 && at != j->at);
    port_word_store_relaxed(&block_of(j, at)->mark, (uint64_t)j->mark);
    if (st == WEIR_OK)
        st = weir_index_insert(j->l, j->s, j->call->hash, at, j->at);
    if (st != WEIR_OK)
        weir_stripe_free(j->s, &j->l->blocks, at);
    return st;
}

/* Decides on a copy of the state, at the next level if `grown`. Repeats at higher levels until the
 * state fits. */
static weir_status decide_on_copy(job *j, bool grown)
{
    const weir_policy *p = j->call->policy;
    uint64_t at = 0, from = j->at;
    WEIR_ASSERT(from != 0);
    unsigned level = weir_block_level(block_of(j, from));
    weir_status st;
    do {
        uint64_t *old = block_of(j, from)->state;
        size_t words = weir_state_words(p, level + grown);
        uint64_t wider;
        st = level + grown > WEIR_LEVEL_MAX ? WEIR_E_RANGE
                                            : new_block(j, words, level + grown, &wider);
        if (st == WEIR_OK && grown)
            weir_state_grow(p, old, level, block_of(j, wider)->state);
        else if (st == WEIR_OK)
            copy_words(block_of(j, wider)->state, old, words);
        if (at != 0)
            weir_stripe_free(j->s, &j->l->blocks, at);
        if (st != WEIR_OK)
            return st;
        from = at = wider;
        level += grown;
        grown = true;
        st = run_fn(j, block_of(j, at)->state, level);
    } while (st == WEIR_E_ROOM);
    return swap_in(j, at, st);
}

/* Saves the words that the decision may write in the journal. Returns false if they are too
 * many. */
static bool journal_writes(job *j, unsigned level)
{
    const weir_large_call *c = j->call;
    weir_block *block = block_of(j, j->at);
    size_t index[IN_PLACE_MAX], n;
    if (c->any_words) {
        size_t words = weir_state_words(c->policy, level);
        for (n = 0; n < words && n < IN_PLACE_MAX; n++)
            index[n] = n;
        n = words <= IN_PLACE_MAX ? words : IN_PLACE_MAX + 1;
    } else {
        n = weir_state_writes(c->policy, block->state, level, j->now_ns, c->refund, index,
                              IN_PLACE_MAX);
    }
    return n <= IN_PLACE_MAX && weir_stripe_journal_block(j->s, &j->l->blocks, block, index, n);
}

static weir_status decide_on_block(job *j)
{
    weir_block *block = block_of(j, j->at);
    unsigned level = weir_block_level(block);
    if (!journal_writes(j, level))
        return decide_on_copy(j, false);
    weir_status st = run_fn(j, block->state, level);
    if (st == WEIR_OK) {
        port_word_store_relaxed(&block->mark, (uint64_t)j->mark);
        return st;
    }
    weir_stripe_undo(j->s, &j->l->blocks, j->journal_len);
    return st == WEIR_E_ROOM ? decide_on_copy(j, true) : st;
}

/* Decides for an absent key, at the first level at which its state fits. The new state is stored
 * only if the key is not idle, so that a denial or a peek evicts nothing. */
static weir_status decide_for_absent(job *j)
{
    weir_status st = WEIR_E_ROOM;
    for (unsigned level = 0; st == WEIR_E_ROOM && level <= WEIR_LEVEL_MAX; level++) {
        uint64_t small[SCRATCH] = {0}, *state = small, at;
        size_t words = weir_state_words(j->call->policy, level);
        if (words > SCRATCH)
            state = port_zalloc(words, sizeof *state);
        if (!state)
            return WEIR_E_NOMEM;
        st = run_fn(j, state, level);
        if (st == WEIR_OK && j->mark > j->now_ns) {
            st = new_block(j, words, level, &at);
            if (st == WEIR_OK) {
                copy_words(block_of(j, at)->state, state, words);
                st = swap_in(j, at, st);
            }
        }
        if (state != small)
            port_free(state);
    }
    return st;
}

/* Whether the key's block cannot be used, and is to be dropped. Counts damage. */
static bool must_drop(job *j)
{
    const weir_policy *p = j->call->policy;
    weir_block *block = block_of(j, j->at);
    unsigned level = weir_block_level(block);
    if (level > WEIR_LEVEL_MAX || weir_block_words(block) != weir_state_words(p, level))
        return true; /* two keys with the same hash */
    if (!weir_state_sound(p, block->state, level)) {
        weir_index_count_damage(j->s);
        return true;
    }
    /* The key is idle. A state that has grown is dropped, because that frees memory. */
    return level > 0 && (int64_t)port_word_load_relaxed(&block->mark) <= j->now_ns;
}

/* weir_large_try(); *ret_busy tells whether it may succeed once other stripes are not locked. */
static weir_status try_call(weir_large *l, const weir_large_call *call, bool *ret_busy)
{
    weir_stripe *s = weir_large_stripe_of(l, call->hash);
    WEIR_ASSERT(weir_index_is_locked(l, s));
    job j = {.l = l, .s = s, .call = call, .now_ns = stripe_now(s, call->now_ns)};
    j.journal_len = port_word_load_relaxed(&s->journal_len);
    port_word *link = weir_index_find(l, call->hash, &j.at);
    weir_status st = WEIR_OK;
    if (j.at != 0 && must_drop(&j)) {
        st = weir_index_detach(l, s, link, j.at);
        j.at = 0;
    }
    const port_word *until_ns = call->kept_until_ns;
    if (j.at == 0 && until_ns && (int64_t)port_word_load_relaxed(until_ns) > j.now_ns)
        st = WEIR_E_ELSEWHERE;
    if (st == WEIR_OK)
        st = j.at != 0 ? decide_on_block(&j) : decide_for_absent(&j);
    *ret_busy = j.busy;
    return st;
}

weir_status weir_large_try(weir_large *l, const weir_large_call *call)
{
    bool busy;
    return try_call(l, call, &busy);
}

weir_status weir_large_run(weir_large *l, const weir_large_call *call)
{
    weir_stripe *s = weir_large_stripe_of(l, call->hash);
    for (;;) {
        bool busy;
        weir_index_lock(l, s);
        weir_status st = try_call(l, call, &busy);
        weir_stripe_commit(s, &l->blocks);
        weir_robust_unlock(&s->lock);
        if (!busy)
            return st;
        port_yield(); /* without the lock: their owners may need this stripe */
    }
}

const uint64_t *weir_large_look(weir_large *l, const weir_policy *p, uint64_t hash,
                                unsigned *ret_level)
{
    uint64_t at;
    WEIR_ASSERT(weir_index_is_locked(l, weir_large_stripe_of(l, hash)));
    weir_index_find(l, hash, &at);
    const weir_block *block = at != 0 ? weir_block_at(&l->blocks, at) : NULL;
    if (!block || weir_block_level(block) > WEIR_LEVEL_MAX ||
        weir_block_words(block) != weir_state_words(p, weir_block_level(block)))
        return NULL;
    *ret_level = weir_block_level(block);
    return block->state;
}

bool weir_large_has(weir_large *l, uint64_t hash)
{
    uint64_t at;
    weir_index_find(l, hash, &at);
    return at != 0;
}

void weir_large_drop(weir_large *l, uint64_t hash)
{
    weir_stripe *s = weir_large_stripe_of(l, hash);
    uint64_t at;
    WEIR_ASSERT(weir_index_is_locked(l, s) && weir_stripe_idle(s));
    port_word *link = weir_index_find(l, hash, &at);
    if (at != 0)
        weir_index_remove(l, s, link, at);
}

void weir_large_reset(weir_large *l, uint64_t hash)
{
    size_t stripe = weir_large_stripe(l, hash);
    weir_large_lock(l, stripe);
    weir_large_drop(l, hash);
    weir_large_unlock(l, stripe);
}

/* ---- iteration, copying, statistics ---------------------------------------------------------- */

static bool each_in_bucket(weir_large *l, size_t i, weir_key_state_fn fn, void *ctx)
{
    weir_stripe *s = &l->stripe[i & (l->stripes - 1)];
    weir_index_lock(l, s);
    bool on = weir_index_each(l, i, fn, ctx);
    weir_robust_unlock(&s->lock);
    return on;
}

void weir_large_each(weir_large *l, weir_key_state_fn fn, void *ctx)
{
    bool on = true;
    for (size_t i = 0; i < l->buckets && on; i++)
        on = each_in_bucket(l, i, fn, ctx);
}

void weir_large_get(weir_large *l, uint64_t hash, weir_key_state_fn fn, void *ctx)
{
    (void)each_in_bucket(l, weir_index_bucket(l, hash), fn, ctx);
}

static weir_status put_locked(weir_large *l, weir_stripe *s, const weir_key_state *stored)
{
    uint64_t old, at;
    weir_index_find(l, stored->hash, &old);
    weir_block_request want = {stored->hash, stored->words_len, stored->level, old, s, WEIR_REFUSE,
                               false};
    weir_status st = weir_eviction_alloc(l, &want, &at);
    if (st != WEIR_OK)
        return st;
    weir_block *block = weir_block_at(&l->blocks, at);
    copy_words(block->state, stored->words, stored->words_len);
    port_word_store_relaxed(&block->mark, (uint64_t)stored->fresh_at_ns);
    return weir_index_insert(l, s, stored->hash, at, old);
}

weir_status weir_large_put(weir_large *l, const weir_key_state *stored)
{
    if (stored->form != WEIR_LARGE_FORM || stored->level > WEIR_LEVEL_MAX || stored->words_len == 0)
        return WEIR_E_RANGE;
    weir_stripe *s = weir_large_stripe_of(l, stored->hash);
    weir_index_lock(l, s);
    weir_status st = WEIR_OK;
    if (stored->fresh_at_ns > stripe_now(s, 0))
        st = put_locked(l, s, stored);
    if (st == WEIR_OK)
        weir_stripe_commit(s, &l->blocks);
    else
        weir_stripe_roll_back(s, &l->blocks);
    weir_robust_unlock(&s->lock);
    return st;
}

weir_large_stats weir_large_stats_get(weir_large *l)
{
    const weir_allocator_head *h = l->blocks.head;
    weir_large_stats stats = {.keys = port_word_load_relaxed(&h->count),
                              .bytes = port_word_load_relaxed(&h->used) * WEIR_UNIT};
    for (size_t i = 0; i < l->stripes; i++) {
        stats.evicted += port_word_load_relaxed(&l->stripe[i].evicted);
        stats.refused += port_word_load_relaxed(&l->stripe[i].refused);
        stats.damaged += port_word_load_relaxed(&l->stripe[i].damaged);
    }
    return stats;
}
