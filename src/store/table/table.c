/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* The table over its buckets: how several threads decide about a key at once, and what is told
 * about all of them. The hot path is in table_time.c, several keys at once in table_many.c.
 *
 * A decision copies the state, works on the copy, and ends in one of three ways. If the state is
 * left as it was, there is nothing to write: the copy was whole, and that is when it was decided.
 * If it was changed, the bucket is locked in place of the header that was read, so that nothing can
 * have come between. If somebody was faster, all is done again; after some such tries, under the
 * locks of both buckets.
 *
 * Who may put a key in: only a thread that holds its first bucket, whichever of the two it goes
 * into. So while the first bucket's header stays the same, a key that was absent stays absent, and
 * no key is ever in both, but for what a writer that was killed while it moved an entry left in the
 * second; the first is looked into first.
 *
 * Time. `seen_ns` never goes back and is at most WEIR_SEEN_STEP_NS behind any now that a decision
 * was made at. A decision runs at the later of its own now and seen_ns, which it loads after its
 * buckets' headers (acquire). Only what is fresh at seen_ns is dropped. So no decision about a key
 * that was dropped runs at a time at which the key was not yet fresh: if it found the key gone, its
 * header came from the thread that dropped it or from a later one, whose load of seen_ns happened
 * before; and loads of one word that are ordered so never see it go back, relaxed as they are. */

#include "store/table/cuckoo.h"

#include "port/port.h"

#include <assert.h>

_Static_assert(sizeof(weir_table_head) + 2 * sizeof(weir_bucket) <= WEIR_TABLE_BYTES_MIN,
               "the smallest part must hold two buckets");
_Static_assert(sizeof(weir_table_head) % WEIR_LINE_BYTES == 0, "the buckets begin on a line");
_Static_assert(WEIR_TABLE_BYTES_WHOLE - sizeof(weir_table_head) >= sizeof(weir_bucket) << 16,
               "16 bits of a hash must follow from its first bucket");

size_t weir_table_words(const weir_policy *p)
{
    return weir_pack_words(p);
}

int64_t weir_table_now(weir_table *t, int64_t now_ns)
{
    return weir_later(weir_table_see(t, now_ns), now_ns);
}

/* ---- deciding -------------------------------------------------------------------------------- */

/* What a call works on. */
typedef struct call {
    weir_table *table;
    const weir_policy *policy;
    int64_t now_ns; /* the caller's */
    weir_state_fn fn;
    void *ctx;
    weir_bucket_pair at;
} call;

/* A key's entry in a copy of a bucket, and what has become of its state. */
typedef struct found {
    unsigned i;              /* WEIR_LINE_ENTRIES: the key is absent */
    weir_bucket_entry entry; /* then of its new state */
    int64_t seen_ns;
} found;

static bool same_words(const uint64_t *a, const uint64_t *b, size_t words)
{
    uint64_t differ = 0;
    for (size_t i = 0; i < words; i++)
        differ |= a[i] ^ b[i];
    return differ == 0;
}

/* Runs the function on the state in `l`, a copy that is whole. False if there is nothing to write,
 * and *ret_st is the answer; true if so, and it will be once that is done. What is not an entry of
 * the policy's is as good as none. */
static bool decide(const call *c, const weir_line *l, found *f, weir_status *ret_st)
{
    uint64_t old[WEIR_ENTRY_WORDS] = {0}, new[WEIR_ENTRY_WORDS] = {0};
    size_t words = weir_table_words(c->policy);
    int64_t after_ns = WEIR_FRESH_UNKNOWN;
    bool present = f->i < WEIR_LINE_ENTRIES, alternate = false;
    if (present) {
        f->entry = weir_line_get(l, f->i);
        alternate = f->entry.alternate;
        weir_unpack(c->policy, &f->entry, old);
    }
    for (size_t i = 0; i < words; i++)
        new[i] = old[i];
    f->seen_ns = weir_table_see(c->table, c->now_ns);
    int64_t now_ns = weir_later(c->now_ns, f->seen_ns);
    *ret_st = c->fn(c->ctx, c->policy, new, WEIR_LEVEL_MAX, now_ns, &after_ns);
    if (*ret_st != WEIR_OK || same_words(new, old, words))
        return false;
    f->entry = (weir_bucket_entry){.tag = c->at.tag, .alternate = alternate};
    weir_pack(c->policy, new, now_ns, after_ns, &f->entry);
    return present || f->entry.fresh_at_ns > f->seen_ns; /* a fresh key need not be put in */
}

/* Finds the key without locks. Returns the bucket it was found in, or the first; *ret is a whole
 * copy of it. NULL if that has changed meanwhile. */
static weir_bucket *find(const call *c, weir_line *ret, found *f)
{
    weir_table *t = c->table;
    weir_line alternate;
    weir_bucket_copy(&t->array, c->at.first, ret);
    f->i = weir_line_find(ret, c->at.tag, false);
    if (f->i < WEIR_LINE_ENTRIES || !(ret->word[0] & WEIR_OVERFLOWED))
        return c->at.first;
    weir_bucket_copy(&t->array, c->at.alternate, &alternate);
    f->i = weir_line_find(&alternate, c->at.tag, true);
    if (f->i < WEIR_LINE_ENTRIES) {
        *ret = alternate;
        return c->at.alternate;
    }
    /* Absent from both at once: the second was read within the while that the first stayed the
     * same. */
    return weir_bucket_same(c->at.first, ret->word[0]) ? c->at.first : NULL;
}

/* Writes the new state of a key that was found in `b`. False if that has changed, or if the state
 * has another form than before. */
static bool try_update(const call *c, weir_bucket *b, const weir_line *old, const found *f)
{
    weir_line line = *old;
    if (weir_line_form(old, f->i) != f->entry.form ||
        !weir_bucket_try_lock(&c->table->array, b, old->word[0]))
        return false;
    weir_line_put(&line, f->i, &f->entry);
    weir_bucket_commit(&c->table->array, b, old, &line);
    return true;
}

/* Puts in a key that was absent. False if its first bucket has changed, or the second is needed and
 * locked. */
static bool try_insert(const call *c, uint64_t header, found *f, weir_status *ret_st)
{
    weir_locked_bucket of[WEIR_LOCK_SET_ONE_KEY];
    weir_lock_set h = {0, WEIR_LOCK_SET_ONE_KEY, of};
    return weir_lock_set_try(c->table, &h, c->at.first, header) &&
           weir_cuckoo_insert_alone(c->table, &h, &c->at, &f->entry, f->seen_ns, ret_st);
}

/* For a call that was too slow too often, or whose state needs another place. Whoever reads the
 * buckets waits for it. */
static weir_status run_locked(const call *c)
{
    weir_locked_bucket of[WEIR_LOCK_SET_ONE_KEY];
    weir_lock_set h = {0, WEIR_LOCK_SET_ONE_KEY, of};
    weir_status st;
    found f;
    weir_lock_set_pair(c->table, &h, &c->at);
    weir_locked_bucket *l = weir_lock_set_find_key(&h, &c->at, &f.i);
    if (!decide(c, &l->line, &f, &st)) {
        weir_lock_set_drop(&h);
        return st;
    }
    weir_status written = weir_cuckoo_write(c->table, &h, &c->at, l, f.i, &f.entry, f.seen_ns);
    weir_lock_set_commit(c->table, &h);
    return written == WEIR_OK ? st : written;
}

weir_status weir_table_run(weir_table *t, const weir_policy *p, uint64_t hash, int64_t now_ns,
                           weir_state_fn fn, void *ctx)
{
    call c = {t, p, now_ns, fn, ctx, weir_bucket_pair_of(t, hash)};
    for (int i = 0; i < WEIR_TRIES; i++) {
        weir_line line;
        found f;
        weir_status st;
        weir_bucket *b = find(&c, &line, &f);
        if (!b)
            continue;
        if (!decide(&c, &line, &f, &st))
            return st;
        bool is_there = f.i < WEIR_LINE_ENTRIES;
        if (is_there ? try_update(&c, b, &line, &f) : try_insert(&c, line.word[0], &f, &st))
            return st;
    }
    return run_locked(&c);
}

/* Drops a key from the buckets of its place, which the hold has: from both, if a writer that was
 * killed has left it in both. */
static void drop_key(const weir_lock_set *h, const weir_bucket_pair *at)
{
    for (int alternate = 0; alternate <= 1; alternate++) {
        weir_locked_bucket *l = weir_lock_set_find(h, alternate ? at->alternate : at->first);
        unsigned i = weir_line_find(&l->line, at->tag, alternate);
        if (i < WEIR_LINE_ENTRIES)
            weir_line_drop(&l->line, 1u << i);
    }
}

void weir_table_reset(weir_table *t, uint64_t hash)
{
    weir_bucket_pair at = weir_bucket_pair_of(t, hash);
    weir_locked_bucket of[WEIR_LOCK_SET_ONE_KEY];
    weir_lock_set h = {0, WEIR_LOCK_SET_ONE_KEY, of};
    weir_lock_set_pair(t, &h, &at);
    drop_key(&h, &at);
    weir_lock_set_commit(t, &h);
}

/* ---- all of it ------------------------------------------------------------------------------- */

/* The hash of an entry: its tag, and above it what its first bucket says. */
static uint64_t hash_of(const weir_table *t, uint64_t bucket, const weir_bucket_entry *e)
{
    uint64_t len = t->array.buckets_len, first = bucket;
    if (e->alternate)
        first += len - weir_distance_of(t, e->tag);
    first -= first >= len ? len : 0;
    /* The smallest hash whose first bucket it is: ceil(first * 2^64 / len). */
    __extension__ typedef unsigned __int128 wide;
    uint64_t low = (uint64_t)((((wide)first << 64) + len - 1) / len);
    uint64_t hash = (low & ~WEIR_TAG_MASK) | e->tag;
    return hash < low ? hash + WEIR_TAG_MASK + 1 : hash;
}

bool weir_table_each(weir_table *t, weir_key_state_fn fn, void *ctx)
{
    for (uint64_t b = 0; b < t->array.buckets_len; b++) {
        weir_line l;
        weir_bucket_copy(&t->array, &t->array.buckets[b], &l);
        unsigned live = weir_line_live(&l);
        for (unsigned i = 0; i < WEIR_LINE_ENTRIES; i++) {
            if (!(live >> i & 1))
                continue;
            weir_bucket_entry e = weir_line_get(&l, i);
            weir_key_state stored = {hash_of(t, b, &e),       e.fresh_at_ns, e.form, 0,
                                     weir_form_words(e.form), e.words};
            if (!fn(ctx, &stored))
                return false;
        }
    }
    return true;
}

static bool can_be(const weir_key_state *s)
{
    if (s->form < WEIR_FORM_TIME || s->form > WEIR_FORM_FIVE || s->level != 0 ||
        s->words_len != weir_form_words((weir_form)s->form))
        return false;
    return (s->form != WEIR_FORM_SHORT || s->words[0] >> 32 == 0) &&
           (s->form != WEIR_FORM_LONG || s->words[0] >> 48 == 0);
}

weir_status weir_table_put(weir_table *t, const weir_key_state *stored)
{
    if (!can_be(stored))
        return WEIR_E_RANGE;
    weir_bucket_pair at = weir_bucket_pair_of(t, stored->hash);
    weir_bucket_entry e = {.tag = at.tag, .fresh_at_ns = stored->fresh_at_ns, .form = stored->form};
    for (size_t i = 0; i < stored->words_len; i++)
        e.words[i] = stored->words[i];
    weir_locked_bucket of[WEIR_LOCK_SET_ONE_KEY];
    weir_lock_set h = {0, WEIR_LOCK_SET_ONE_KEY, of};
    weir_lock_set_pair(t, &h, &at);
    drop_key(&h, &at);
    int64_t seen_ns = (int64_t)port_word_load_relaxed(&t->head->seen_ns);
    weir_status st =
        e.fresh_at_ns > seen_ns ? weir_cuckoo_insert(t, &h, &at, &e, seen_ns) : WEIR_OK;
    if (st == WEIR_OK)
        weir_lock_set_commit(t, &h);
    else
        weir_lock_set_drop(&h);
    return st;
}

/* Never below 0, where writers were killed after they had counted. */
static uint64_t at_least_0(int64_t sum)
{
    return sum > 0 ? (uint64_t)sum : 0;
}

weir_table_stats weir_table_stats_get(weir_table *t)
{
    int64_t keys = 0, units = 0;
    weir_table_stats stats = {.damaged = port_load_relaxed(&t->head->damaged),
                              .bytes_max = t->array.buckets_len * WEIR_LINE_UNITS * 2};
    for (size_t i = 0; i < WEIR_COUNTS_LEN; i++) {
        uint64_t held = port_load_relaxed(&t->head->counts[i].held);
        keys += (int32_t)held;
        units += (int32_t)((held - (uint64_t)(int32_t)held) >> 32);
        stats.evicted += port_load_relaxed(&t->head->counts[i].evicted);
        stats.refused += port_load_relaxed(&t->head->counts[i].refused);
    }
    stats.keys = at_least_0(keys);
    stats.bytes = 2 * at_least_0(units);
    return stats;
}

/* ---- open and close -------------------------------------------------------------------------- */

/* A time that cannot be, which only a disk can have written, would end every decision: it is as
 * good as none. */
static void mend_time(weir_table_head *h)
{
    uint64_t seen_ns = port_word_load_relaxed(&h->seen_ns);
    if (seen_ns > (uint64_t)WEIR_NOW_NS_MAX && port_word_cas_relaxed(&h->seen_ns, &seen_ns, 0))
        port_add_relaxed(&h->damaged, 1);
}

weir_status weir_table_open(weir_table **ret, void *part, size_t bytes,
                            const weir_processes *processes, bool refuse)
{
    assert(bytes >= WEIR_TABLE_BYTES_MIN);
    weir_table *t = port_zalloc(1, sizeof *t);
    if (!t)
        return WEIR_E_NOMEM;
    t->head = part;
    t->refuse = refuse;
    t->array = (weir_bucket_array){
        .processes = processes,
        .lock = processes->self << WEIR_HOLDER_AT | WEIR_LOCKED,
        .buckets = (weir_bucket *)((char *)part + sizeof(weir_table_head)),
        .buckets_len = (bytes - sizeof(weir_table_head)) / sizeof(weir_bucket),
        .undo = t->head->undo,
        .damaged = &t->head->damaged,
    };
    mend_time(t->head);
    weir_bucket_repair_all(&t->array);
    *ret = t;
    return WEIR_OK;
}

void weir_table_close(weir_table *t)
{
    port_free(t);
}
