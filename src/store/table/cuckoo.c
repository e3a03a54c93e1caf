/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* Cuckoo insertion. If both buckets of a key are full, one of their entries is displaced to its own
 * other bucket. If that bucket is full too, one of its entries is displaced first, and so on. Only
 * if no chain of displacements is found, the entry that has used the smallest share of its limit is
 * evicted. If both buckets would lose an entry that has used much, that one is displaced, and an
 * entry of its other bucket is evicted.
 *
 * Locks: a thread waits for locks only in the order of the buckets' addresses. A bucket to which an
 * entry would be displaced may come earlier in that order, so the thread tries its lock and does
 * not wait. */

#include "store/table/cuckoo.h"

/* ---- counting -------------------------------------------------------------------------------- */

static uint64_t held_by(const weir_line *l)
{
    uint64_t held = 0;
    unsigned live = weir_line_live(l);
    for (unsigned i = 0; i < WEIR_LINE_ENTRIES; i++) {
        if (live >> i & 1)
            held += weir_held_by(weir_line_form(l, i));
    }
    return held;
}

/* Relaxed: these sums publish nothing. Each change is made under the lock of its bucket. So the
 * sums do not fall below 0, unless a writer was killed before it wrote its bucket. */
static void count(const weir_locked_bucket *l)
{
    if ((l->old.word[0] ^ l->line.word[0]) & WEIR_CODES)
        port_add_relaxed(&weir_counts_of(l->table, l->bucket)->held,
                         held_by(&l->line) - held_by(&l->old));
}

/* ---- sets of locked buckets ------------------------------------------------------------------ */

weir_locked_bucket *weir_lock_set_find(const weir_lock_set *h, const weir_bucket *b)
{
    for (unsigned i = 0; i < h->len; i++) {
        if (h->of[i].bucket == b)
            return &h->of[i];
    }
    return NULL;
}

void weir_lock_set_wait(weir_table *t, weir_lock_set *h, weir_bucket *b)
{
    WEIR_ASSERT(h->len < h->max);
    const weir_locked_bucket *last = h->len > 0 ? &h->of[h->len - 1] : NULL;
    WEIR_ASSERT(!last || last->table->order < t->order ||
                (last->table->order == t->order && last->bucket < b)); /* prevents deadlocks */
    (void)last;
    weir_locked_bucket *l = &h->of[h->len++];
    l->table = t;
    l->bucket = b;
    l->advance = false;
    weir_bucket_lock(&t->array, b, &l->old);
    l->line = l->old;
}

/* Unlocks the bucket added last, which was not changed. */
static void unlock_last(weir_lock_set *h)
{
    WEIR_ASSERT(h->len > 0);
    const weir_locked_bucket *l = &h->of[--h->len];
    weir_bucket_unlock(l->bucket, l->old.word[0]);
}

weir_locked_bucket *weir_lock_set_try(weir_table *t, weir_lock_set *h, weir_bucket *b,
                                      uint64_t header)
{
    WEIR_ASSERT(h->len < h->max);
    if (header & WEIR_LOCKED || !weir_bucket_try_lock(&t->array, b, header))
        return NULL;
    weir_locked_bucket *l = &h->of[h->len++];
    l->table = t;
    l->bucket = b;
    l->advance = false;
    l->old.word[0] = header;
    for (unsigned i = 1; i < WEIR_LINE_WORDS; i++)
        l->old.word[i] = port_word_load_relaxed(&b->word[i]);
    l->line = l->old;
    if (__builtin_expect(!weir_line_sound(&l->old), 0)) {
        unlock_last(h); /* the next thread that waits for the lock repairs it */
        return NULL;
    }
    return l;
}

void weir_lock_set_pair(weir_table *t, weir_lock_set *h, const weir_bucket_pair *at)
{
    WEIR_ASSERT(h->len == 0);
    bool in_order = at->first < at->alternate;
    weir_lock_set_wait(t, h, in_order ? at->first : at->alternate);
    weir_lock_set_wait(t, h, in_order ? at->alternate : at->first);
}

weir_locked_bucket *weir_locked_find_key(weir_locked_bucket *first, weir_locked_bucket *alternate,
                                         uint64_t tag, unsigned *ret_i)
{
    WEIR_ASSERT(first && alternate);
    *ret_i = weir_line_find(&first->line, tag, false);
    if (*ret_i < WEIR_LINE_ENTRIES)
        return first;
    *ret_i = weir_line_find(&alternate->line, tag, true);
    if (*ret_i == WEIR_LINE_ENTRIES)
        return first;
    /* A writer that was killed after it inserted the key may not have come here. Without the mark,
     * lookups would not find what is charged now. */
    first->line.word[0] |= WEIR_OVERFLOWED;
    return alternate;
}

weir_locked_bucket *weir_lock_set_find_key(const weir_lock_set *h, const weir_bucket_pair *at,
                                           unsigned *ret_i)
{
    return weir_locked_find_key(weir_lock_set_find(h, at->first),
                                weir_lock_set_find(h, at->alternate), at->tag, ret_i);
}

void weir_lock_set_commit(weir_lock_set *h)
{
    while (h->len > 0) {
        const weir_locked_bucket *l = &h->of[--h->len];
        bool changed = ((l->old.word[0] ^ l->line.word[0]) & WEIR_CONTENTS) != 0;
        for (unsigned i = 1; i < WEIR_LINE_WORDS; i++)
            changed |= l->old.word[i] != l->line.word[i];
        if (changed) {
            count(l);
            weir_bucket_commit(&l->table->array, l->bucket, &l->old, &l->line);
        } else if (l->advance) {
            weir_bucket_publish(l->bucket, l->old.word[0]);
        } else {
            weir_bucket_unlock(l->bucket, l->old.word[0]);
        }
    }
}

void weir_lock_set_write_first(weir_locked_bucket *to, weir_locked_bucket *from)
{
    if (to > from)
        return;
    weir_locked_bucket swap = *to;
    *to = *from;
    *from = swap;
}

void weir_lock_set_release(weir_lock_set *h)
{
    while (h->len > 0)
        unlock_last(h);
}

/* ---- displacement and eviction --------------------------------------------------------------- */

static bool drop_idle(weir_locked_bucket *l, weir_form form, int64_t seen_ns)
{
    weir_line_drop(&l->line, weir_line_idle(&l->line, seen_ns));
    return weir_line_fits(&l->line, form);
}

/* Whether an entry of `form` would fit in a bucket without its idle entries. A guess, without a
 * lock or an order of the loads, to avoid most useless locks. It does not wait either: other
 * threads may wait for buckets that this one has locked. */
static bool may_fit(const weir_bucket *b, weir_form form, int64_t seen_ns)
{
    weir_line l = {.word = {port_word_load_relaxed(&b->word[0])}};
    for (unsigned i = 1; i < WEIR_LINE_WORDS; i++)
        l.word[i] = port_word_load_relaxed(&b->word[i]);
    if (l.word[0] & WEIR_LOCKED || !weir_bucket_same(b, l.word[0]) || !weir_line_sound(&l))
        return false;
    weir_line_drop(&l, weir_line_idle(&l, seen_ns));
    return weir_line_fits(&l, form);
}

/* Locks the other bucket of entry i of `from`. Returns NULL if that bucket is locked. If this set
 * has it, the bucket cannot be used either: the commit would write the buckets in the wrong
 * order. */
static weir_locked_bucket *lock_other(weir_table *t, weir_lock_set *h,
                                      const weir_locked_bucket *from, unsigned i)
{
    weir_bucket_entry e = weir_line_get(&from->line, i);
    weir_bucket *b = weir_other_bucket(t, from->bucket, &e);
    return h->len < h->max ? weir_lock_set_try(t, h, b, port_word_load_relaxed(&b->word[0])) : NULL;
}

/* Adds an entry. A writer that was killed while it displaced the key may have left the key in both
 * of its buckets. Then the one in the first bucket is valid: only that one was written since. */
static void add_entry(weir_locked_bucket *to, const weir_bucket_entry *e)
{
    unsigned other = weir_line_find(&to->line, e->tag, e->alternate);
    if (other < WEIR_LINE_ENTRIES && !e->alternate)
        return;
    if (other < WEIR_LINE_ENTRIES)
        weir_line_drop(&to->line, 1u << other);
    weir_line_add(&to->line, e);
}

/* Displaces entry i to its other bucket, in which it fits. */
static void displace_entry(weir_locked_bucket *from, weir_locked_bucket *to, unsigned i)
{
    WEIR_ASSERT(weir_line_live(&from->line) >> i & 1);
    weir_bucket_entry e = weir_line_get(&from->line, i);
    weir_note_entry(from->table, from->bucket, &e);
    weir_line_drop(&from->line, 1u << i);
    from->line.word[0] |= e.alternate ? 0 : WEIR_OVERFLOWED;
    e.alternate = !e.alternate;
    add_entry(to, &e);
}

/* The set of entries of which any one would leave enough space for an entry of `form`. */
static unsigned movable(const weir_line *l, weir_form form)
{
    unsigned set = weir_line_live(l);
    for (unsigned i = 0; i < WEIR_LINE_ENTRIES; i++) {
        weir_line without = *l;
        weir_line_drop(&without, 1u << i);
        if (!weir_line_fits(&without, form))
            set &= ~(1u << i);
    }
    return set;
}

/* Displaces an entry to its other bucket, so that one of `form` fits. If none of those buckets has
 * space, displaces an entry there first, up to `depth` displacements in a row. Returns whether it
 * succeeded. */
static bool displace_one(weir_table *t, weir_lock_set *h, weir_locked_bucket *l, weir_form form,
                         int64_t seen_ns, unsigned depth)
{
    WEIR_ASSERT(depth >= 1);
    unsigned set = movable(&l->line, form);
    for (unsigned i = 0; i < WEIR_LINE_ENTRIES; i++) {
        weir_bucket_entry e = weir_line_get(&l->line, i); /* harmless for a free entry */
        port_prefetch(weir_other_bucket(t, l->bucket, &e));
    }
    for (unsigned i = 0; i < WEIR_LINE_ENTRIES; i++) {
        if (!(set >> i & 1))
            continue;
        weir_bucket_entry e = weir_line_get(&l->line, i);
        if (!may_fit(weir_other_bucket(t, l->bucket, &e), e.form, seen_ns))
            continue;
        weir_locked_bucket *to = lock_other(t, h, l, i);
        if (to && drop_idle(to, e.form, seen_ns)) {
            displace_entry(l, to, i);
            return true;
        }
        if (to)
            unlock_last(h);
    }
    for (unsigned i = 0; i < WEIR_LINE_ENTRIES && depth > 1; i++) {
        weir_locked_bucket *to = set >> i & 1 ? lock_other(t, h, l, i) : NULL;
        if (!to)
            continue;
        weir_form moved = weir_line_form(&l->line, i);
        if (displace_one(t, h, to, moved, seen_ns, depth - 1)) {
            displace_entry(l, to, i);
            return true;
        }
        unlock_last(h);
    }
    return false;
}

/* The entries that an eviction would drop from a bucket, and the highest of their ranks. `ranks` is
 * set for live entries only. */
typedef struct victims {
    unsigned set;
    uint64_t rank, ranks[WEIR_LINE_ENTRIES];
} victims;

static victims victims_in(const weir_line *l, weir_form form, int64_t seen_ns)
{
    victims v;
    unsigned live = weir_line_live(l);
    for (unsigned i = 0; i < WEIR_LINE_ENTRIES; i++) {
        if (live >> i & 1) {
            weir_bucket_entry e = weir_line_get(l, i);
            v.ranks[i] = weir_pack_rank(&e, seen_ns);
        }
    }
    v.set = weir_line_victims(l, form, v.ranks, &v.rank);
    return v;
}

static void evict_set(weir_table *t, weir_locked_bucket *l, unsigned set)
{
    weir_line_drop(&l->line, set);
    weir_count_evictions(t, l->bucket, (unsigned)__builtin_popcount(set));
}

/* Makes space for `form` in a bucket. Victims that rank below `below` are evicted. Each other
 * victim is displaced to its other bucket, where only entries that rank below it may be evicted.
 * `depth` limits the displacements in a row. Returns whether it succeeded. If not, some entries may
 * already have been displaced or evicted. */
static bool evict_below(weir_table *t, weir_lock_set *h, weir_locked_bucket *l, weir_form form,
                        int64_t seen_ns, uint64_t below, unsigned depth)
{
    victims v = victims_in(&l->line, form, seen_ns);
    for (unsigned i = 0; i < WEIR_LINE_ENTRIES; i++) {
        if (!(v.set >> i & 1) || v.ranks[i] < below)
            continue;
        weir_locked_bucket *to = depth > 0 ? lock_other(t, h, l, i) : NULL;
        weir_form moved = weir_line_form(&l->line, i);
        if (!to || (!drop_idle(to, moved, seen_ns) &&
                    !evict_below(t, h, to, moved, seen_ns, v.ranks[i], depth - 1)))
            return false;
        displace_entry(l, to, i);
        v.set &= ~(1u << i);
    }
    evict_set(t, l, v.set);
    return true;
}

/* Makes space for a new key in one of its two buckets. If both would lose an entry that has used
 * much, it looks further. If that fails, too, it evicts from the bucket with the lower rank. The
 * new key is never the victim, however little it has used: otherwise it would never be limited. */
static weir_locked_bucket *evict(weir_table *t, weir_lock_set *h, weir_locked_bucket *first,
                                 weir_locked_bucket *alternate, weir_form form, int64_t seen_ns)
{
    const uint64_t dear = weir_rank(WEIR_CHEAP + 1, 0);
    victims v1 = victims_in(&first->line, form, seen_ns);
    victims v2 = victims_in(&alternate->line, form, seen_ns);
    bool is_second = v2.rank < v1.rank;
    weir_locked_bucket *low = is_second ? alternate : first;
    weir_locked_bucket *high = is_second ? first : alternate;
    if ((is_second ? v2.rank : v1.rank) < dear) {
        evict_set(t, low, is_second ? v2.set : v1.set);
        return low;
    }
    if (evict_below(t, h, low, form, seen_ns, dear, WEIR_MOVES - 1))
        return low;
    if (evict_below(t, h, high, form, seen_ns, dear, WEIR_MOVES - 1))
        return high;
    evict_below(t, h, low, form, seen_ns, UINT64_MAX, 0);
    WEIR_ASSERT(weir_line_fits(&low->line, form));
    return low;
}

bool weir_cuckoo_skips_search(weir_table *t, const weir_bucket *first)
{
    weir_table_counts *c = weir_counts_of(t, first);
    uint64_t skip = port_load_relaxed(&c->skip);
    if (skip > 0)
        port_store_relaxed(&c->skip, skip - 1);
    return skip > 0;
}

/* Frees space in one of two buckets with as few displacements as possible. Returns NULL if it
 * fails. */
static weir_locked_bucket *search(weir_table *t, weir_lock_set *h, weir_locked_bucket *first,
                                  weir_locked_bucket *alternate, weir_form form, int64_t seen_ns)
{
    bool hopeless = weir_cuckoo_skips_search(t, first->bucket);
    for (unsigned moves = 1; moves <= (hopeless ? 1 : WEIR_MOVES); moves++) {
        if (displace_one(t, h, alternate, form, seen_ns, moves))
            return alternate;
        if (displace_one(t, h, first, form, seen_ns, moves))
            return first;
    }
    if (!hopeless)
        port_store_relaxed(&weir_counts_of(t, first->bucket)->skip, WEIR_SKIPS);
    return NULL;
}

/* Displaces several entries, each to its other bucket, for one of `form` that takes the space of
 * more than one. If only some of them fit elsewhere, those stay there. */
static bool displace_several(weir_table *t, weir_lock_set *h, weir_locked_bucket *l, weir_form form,
                             int64_t seen_ns)
{
    unsigned set = victims_in(&l->line, form, seen_ns).set;
    if (__builtin_popcount(set) < 2)
        return false;
    for (unsigned i = WEIR_LINE_ENTRIES; i-- > 0;) {
        weir_locked_bucket *to = set >> i & 1 ? lock_other(t, h, l, i) : NULL;
        if (!to)
            continue;
        weir_form moved = weir_line_form(&l->line, i);
        if (drop_idle(to, moved, seen_ns))
            displace_entry(l, to, i);
        else
            unlock_last(h);
    }
    return weir_line_fits(&l->line, form);
}

weir_status weir_cuckoo_insert(weir_table *t, weir_lock_set *h, const weir_bucket_pair *at,
                               weir_bucket_entry *e, int64_t seen_ns)
{
    weir_locked_bucket *first = weir_lock_set_find(h, at->first),
                       *alternate = weir_lock_set_find(h, at->alternate);
    weir_locked_bucket *l = NULL;
    WEIR_ASSERT(first && alternate);
    WEIR_ASSERT(weir_line_find(&first->line, at->tag, false) == WEIR_LINE_ENTRIES);
    if (drop_idle(first, e->form, seen_ns))
        l = first;
    else if (drop_idle(alternate, e->form, seen_ns))
        l = alternate;
    if (!l)
        l = search(t, h, first, alternate, e->form, seen_ns);
    if (!l && displace_several(t, h, alternate, e->form, seen_ns))
        l = alternate;
    if (!l && displace_several(t, h, first, e->form, seen_ns))
        l = first;
    if (!l && !t->refuse)
        l = evict(t, h, first, alternate, e->form, seen_ns);
    if (!l) {
        port_add_relaxed(&weir_counts_of(t, at->first)->refused, 1);
        return WEIR_E_FULL;
    }
    e->alternate = l == alternate;
    if (e->alternate) {
        first->line.word[0] |= WEIR_OVERFLOWED;
        first->advance = true;
    }
    add_entry(l, e);
    return WEIR_OK;
}

weir_status weir_cuckoo_write(weir_table *t, weir_lock_set *h, const weir_bucket_pair *at,
                              weir_locked_bucket *l, unsigned i, weir_bucket_entry *e,
                              int64_t seen_ns)
{
    if (i == WEIR_LINE_ENTRIES)
        return weir_cuckoo_insert(t, h, at, e, seen_ns);
    if (weir_line_form(&l->line, i) == e->form) {
        e->alternate = (l->line.word[0] & WEIR_ALTERNATE(i)) != 0;
        weir_line_put(&l->line, i, e);
        return WEIR_OK;
    }
    weir_bucket_entry was = weir_line_get(&l->line, i);
    weir_line_drop(&l->line, 1u << i);
    weir_status st = weir_cuckoo_insert(t, h, at, e, seen_ns);
    if (st != WEIR_OK)
        /* The old entry still fits: entries may have been dropped, none were added. */
        weir_line_add(&l->line, &was);
    if (st == WEIR_OK && e->alternate != was.alternate) {
        weir_note_entry(t, l->bucket, &was);
        weir_lock_set_write_first(weir_lock_set_find(h, e->alternate ? at->alternate : at->first),
                                  l);
    }
    return st;
}

bool weir_cuckoo_insert_alone(weir_table *t, weir_lock_set *h, const weir_bucket_pair *at,
                              weir_bucket_entry *e, int64_t seen_ns, weir_status *ret_st)
{
    weir_locked_bucket *first = &h->of[0];
    WEIR_ASSERT(h->len == 1 && first->bucket == at->first);
    if (weir_table_keeps(t, seen_ns)) {
        weir_lock_set_release(h);
        return false;
    }
    weir_line_drop(&first->line, weir_line_idle(&first->line, seen_ns));
    if (weir_line_fits(&first->line, e->form)) {
        weir_line_add(&first->line, e);
    } else {
        uint64_t header = port_word_load_relaxed(&at->alternate->word[0]);
        if (!weir_lock_set_try(t, h, at->alternate, header)) {
            weir_lock_set_release(h);
            return false;
        }
        *ret_st = weir_cuckoo_insert(t, h, at, e, seen_ns);
    }
    weir_lock_set_commit(h);
    return true;
}
