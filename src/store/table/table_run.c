/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* How threads decide on a key at the same time. table_word.c has the fast path for one-word states,
 * table_take_many.c has transactions on several keys.
 *
 * A decision is optimistic. It copies the state, works on the copy, and ends in one of three ways.
 * If the state is unchanged, there is nothing to write: the copy was consistent, and the decision
 * is as of that moment. If the state has changed, the bucket is locked by a compare-and-swap of the
 * header that was read, which proves that nothing changed meanwhile. If that fails, the decision is
 * made again; after WEIR_TRIES tries, with both buckets locked.
 *
 * Inserting: only a thread that has locked the key's first bucket may insert the key, into either
 * bucket. So while the header of the first bucket is unchanged, an absent key stays absent. No key
 * lies in both buckets, with one exception: a writer that was killed while it displaced an entry
 * leaves the old entry in the alternate bucket. Lookups search the first bucket first.
 *
 * Time: `seen_ns` never goes back. It is at most WEIR_SEEN_STEP_NS behind any time at which a
 * decision was made. A decision runs at the later of its own time and seen_ns, which it loads after
 * the headers of its buckets (acquire). An entry is dropped as idle only if it is idle at seen_ns.
 * So no decision on a dropped key runs at a time at which the key was not yet idle. Proof: if the
 * decision found the key gone, its header came from the thread that dropped the key or from a later
 * one. That thread loaded seen_ns before it stored the header. Ordered relaxed loads of one word
 * never see it go back. */

#include "store/table/cuckoo.h"

#include "port/assert.h"
#include "port/port.h"
#include "store/table/pack.h"

_Static_assert(sizeof(weir_table_head) + 2 * sizeof(weir_bucket) <= WEIR_TABLE_BYTES_MIN,
               "the smallest part must hold two buckets");
_Static_assert(sizeof(weir_table_counts) == sizeof(weir_bucket), "see WEIR_TABLE_RANGE_MIN");
_Static_assert(sizeof(weir_table_head) % WEIR_LINE_BYTES == 0, "the buckets begin on a line");
_Static_assert(WEIR_TABLE_BYTES_FOLDED - sizeof(weir_table_head) -
                       sizeof(weir_table_counts) * WEIR_COUNTS_LEN >=
                   (sizeof(weir_bucket) << (16 - WEIR_FOLDED_BITS)),
               "13 bits of a folded hash must follow from its first bucket");
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

/* ---- one key --------------------------------------------------------------------------------- */

/* The arguments of a call. */
typedef struct call {
    weir_table *table;
    const weir_policy *policy;
    int64_t now_ns; /* as passed by the caller */
    weir_state_fn fn;
    void *ctx;
    const weir_take_call *take; /* what fn does, if weir_take_fast() may do it; else NULL */
    weir_bucket_pair at;
    bool here; /* insert an absent key, even if it may be elsewhere */
} call;

/* A key's entry in a copy of a bucket, and its new state. */
typedef struct found {
    unsigned i;              /* WEIR_LINE_ENTRIES: the key is absent */
    weir_bucket_entry entry; /* the key's; with the new state, once decided */
    int64_t seen_ns;
} found;

static bool same_words(const uint64_t *a, const uint64_t *b, size_t words)
{
    uint64_t differ = 0;
    for (size_t i = 0; i < words; i++)
        differ |= a[i] ^ b[i];
    return differ == 0;
}

/* Decides without the callback, on the words of the entry. Returns false, with nothing changed, if
 * that is not possible. */
static bool decide_fast(const call *c, const weir_bucket_entry *old, int64_t now_ns, found *f,
                        bool *ret_changed)
{
    uint64_t words[2] = {0}, before[2];
    unsigned used = 0;
    bool pair = weir_pack_layers(c->policy) == 2;
    if (old &&
        !(pair ? weir_pair_decode(c->policy, old, words)
               : old->form == WEIR_FORM_TIME && (words[0] = (uint64_t)old->fresh_at_ns, true)))
        return false;
    before[0] = words[0];
    before[1] = words[1];
    if (!weir_take_fast(c->take, words, now_ns, &used))
        return false;
    *ret_changed = ((words[0] ^ before[0]) | (words[1] ^ before[1])) != 0;
    if (!*ret_changed)
        return true;
    weir_bucket_entry new = {.tag = c->at.tag, .alternate = old && old->alternate};
    if (!pair) {
        new.form = WEIR_FORM_TIME;
        new.fresh_at_ns = (int64_t)words[0];
    } else if (!weir_pair_encode(c->policy, words, used, &new)) {
        return false;
    }
    f->entry = new;
    return true;
}

/* Runs the callback on the state of the core. An entry that does not belong to the policy is
 * treated as absent. Returns whether the state has changed. */
__attribute__((noinline)) static bool decide_slowly(const call *c, bool present, int64_t now_ns,
                                                    found *f, weir_status *ret_st)
{
    uint64_t old[WEIR_ENTRY_WORDS] = {0}, new[WEIR_ENTRY_WORDS] = {0};
    weir_usage usage = WEIR_USAGE_UNKNOWN;
    size_t words = weir_table_words(c->policy);
    bool alternate = present && f->entry.alternate;
    if (present)
        weir_unpack(c->policy, &f->entry, old);
    for (size_t i = 0; i < words; i++)
        new[i] = old[i];
    *ret_st = c->fn(c->ctx, c->policy, new, WEIR_LEVEL_MAX, now_ns, &usage);
    if (*ret_st != WEIR_OK || same_words(new, old, words))
        return false;
    f->entry = (weir_bucket_entry){.tag = c->at.tag, .alternate = alternate};
    weir_pack(c->policy, new, now_ns, usage, &f->entry);
    return true;
}

/* Decides on the state of the key that was found. Returns true if the new state must be written;
 * *ret_st is the result once that is done. Returns false if there is nothing to write; *ret_st is
 * the result. */
static bool decide(const call *c, found *f, weir_status *ret_st)
{
    bool present = f->i < WEIR_LINE_ENTRIES, changed;
    f->seen_ns = weir_table_see(c->table, c->now_ns);
    int64_t now_ns = weir_later(c->now_ns, f->seen_ns);
    if (!present && !c->here && weir_table_keeps(c->table, now_ns)) {
        *ret_st = WEIR_E_ELSEWHERE;
        return false;
    }
    if (!c->take || !decide_fast(c, present ? &f->entry : NULL, now_ns, f, &changed))
        changed = decide_slowly(c, present, now_ns, f, ret_st);
    else
        *ret_st = WEIR_OK;
    /* The state of an idle key is not stored. */
    return changed && (present || weir_pack_time(&f->entry) > f->seen_ns);
}

/* Finds the key without locks. Returns the key's bucket, or the first one if the key is absent, and
 * copies it to *ret. Returns NULL if the bucket has changed meanwhile. */
static weir_bucket *find(const call *c, weir_line *ret, found *f)
{
    weir_table *t = c->table;
    weir_line alternate;
    weir_bucket_copy(&t->array, c->at.first, ret);
    f->i = weir_line_lookup(ret, c->at.tag, false, &f->entry);
    if (f->i < WEIR_LINE_ENTRIES || !(ret->word[0] & WEIR_OVERFLOWED))
        return c->at.first;
    weir_bucket_copy(&t->array, c->at.alternate, &alternate);
    f->i = weir_line_lookup(&alternate, c->at.tag, true, &f->entry);
    if (f->i < WEIR_LINE_ENTRIES) {
        *ret = alternate;
        return c->at.alternate;
    }
    /* The key is absent from both at the same time: the first bucket was unchanged while the
     * alternate one was read. */
    return weir_bucket_same(c->at.first, ret->word[0]) ? c->at.first : NULL;
}

/* Writes the new state of a key that is in `b`, in the same form. Returns false if `b` has
 * changed. */
static bool try_update(const call *c, weir_bucket *b, const weir_line *old, const found *f)
{
    if (!weir_bucket_try_lock(&c->table->array, b, old->word[0]))
        return false;
    weir_bucket_set(&c->table->array, b, old, f->i, &f->entry);
    return true;
}

/* Inserts an absent key. Returns false if its first bucket has changed, and otherwise as
 * weir_cuckoo_insert_alone(). */
static bool try_insert(const call *c, uint64_t header, found *f, weir_status *ret_st)
{
    weir_locked_bucket of[WEIR_LOCK_SET_ONE_KEY];
    weir_lock_set h = {0, WEIR_LOCK_SET_ONE_KEY, of};
    return weir_lock_set_try(c->table, &h, c->at.first, header) &&
           weir_cuckoo_insert_alone(c->table, &h, &c->at, &f->entry, f->seen_ns, ret_st);
}

/* Decides with both buckets locked. For a call that failed WEIR_TRIES times, or whose state changes
 * its form. */
static weir_status run_locked(const call *c)
{
    weir_locked_bucket of[WEIR_LOCK_SET_ONE_KEY];
    weir_lock_set h = {0, WEIR_LOCK_SET_ONE_KEY, of};
    weir_status st;
    found f;
    weir_lock_set_pair(c->table, &h, &c->at);
    weir_locked_bucket *l = weir_lock_set_find_key(&h, &c->at, &f.i);
    if (f.i < WEIR_LINE_ENTRIES)
        f.entry = weir_line_get(&l->line, f.i);
    if (!decide(c, &f, &st)) {
        weir_lock_set_release(&h);
        return st;
    }
    weir_status written = weir_cuckoo_write(c->table, &h, &c->at, l, f.i, &f.entry, f.seen_ns);
    weir_lock_set_commit(&h);
    return written == WEIR_OK ? st : written;
}

static weir_status run(const call *c)
{
    for (int i = 0; i < WEIR_TRIES; i++) {
        weir_line line;
        found f;
        weir_status st;
        weir_bucket *b = find(c, &line, &f);
        if (!b)
            continue;
        if (!decide(c, &f, &st))
            return st;
        bool is_there = f.i < WEIR_LINE_ENTRIES;
        if (is_there && weir_line_form(&line, f.i) != f.entry.form)
            break;
        if (is_there ? try_update(c, b, &line, &f) : try_insert(c, line.word[0], &f, &st))
            return st;
    }
    return run_locked(c);
}

weir_status weir_table_run(weir_table *t, const weir_policy *p, uint64_t hash, int64_t now_ns,
                           weir_state_fn fn, void *ctx)
{
    WEIR_ASSERT(weir_table_words(p) > 0);
    const call c = {t, p, now_ns, fn, ctx, NULL, weir_bucket_pair_of(t, hash), false};
    return run(&c);
}

/* Decides all requests on a state, as a callback. */
static weir_status take_state(void *ctx, const weir_policy *p, uint64_t *state, unsigned level,
                              int64_t now_ns, weir_usage *ret_usage)
{
    (void)ret_usage;
    const weir_take_call *a = ctx;
    if (!a->row)
        return weir_check(p, state, level, now_ns, a->cost, a->ret);
    weir_status st = WEIR_OK;
    for (size_t i = 0; i < a->n && st == WEIR_OK; i++)
        st = weir_check(p, state, level, now_ns, a->row[i].cost, &a->row[i].decision);
    return st;
}

weir_status weir_table_take(weir_table *t, weir_take_call *a, uint64_t hash, int64_t now_ns)
{
    const call c = {t, a->policy, now_ns, take_state, a, a, weir_bucket_pair_of(t, hash), false};
    return run(&c);
}

weir_status weir_table_take_locked(weir_table *t, weir_take_call *a, uint64_t hash, int64_t now_ns)
{
    const call c = {t, a->policy, now_ns, take_state, a, a, weir_bucket_pair_of(t, hash), true};
    return run_locked(&c);
}

/* Drops a key from its two buckets, which are in the set. It is in both if a writer was killed
 * while it displaced the key. */
static void drop_key(const weir_lock_set *h, const weir_bucket_pair *at)
{
    for (int alternate = 0; alternate <= 1; alternate++) {
        weir_locked_bucket *l = weir_lock_set_find(h, alternate ? at->alternate : at->first);
        unsigned i = weir_line_find(&l->line, at->tag, alternate);
        if (i < WEIR_LINE_ENTRIES)
            weir_line_drop(&l->line, 1u << i);
    }
}

const port_word *weir_table_kept_until(const weir_table *t)
{
    return &t->head->kept_until_ns;
}

void weir_table_keep_until(weir_table *t, int64_t until_ns)
{
    port_word *until = &t->head->kept_until_ns;
    uint64_t before = port_word_load_relaxed(until);
    while (before < (uint64_t)until_ns &&
           !port_word_cas_relaxed(until, &before, (uint64_t)until_ns))
        continue;
}

size_t weir_table_move_begin(weir_table *t, uint64_t from, uint64_t to)
{
    enum { TRIES = 1 << 14 };
    weir_table_note(t, to);
    for (size_t i = 0; i < TRIES; i++) {
        size_t slot = i % WEIR_TABLE_MOVES;
        uint64_t owner = 0;
        if (port_word_cas_acquire(&t->head->moves[slot].owner, &owner, t->array.processes->self)) {
            /* Relaxed: the stores of the commit that follows are releases. */
            port_word_store_relaxed(&t->head->moves[slot].from, from);
            port_word_store_relaxed(&t->head->moves[slot].to, to);
            return slot;
        }
        if (slot == WEIR_TABLE_MOVES - 1)
            port_pause();
    }
    return WEIR_TABLE_MOVES;
}

void weir_table_move_end(weir_table *t, size_t slot)
{
    WEIR_ASSERT(slot < WEIR_TABLE_MOVES);
    /* A process that is killed as it takes the slot next leaves no key of this move in it. The
     * releases keep the stores of the move before them. */
    port_word_store_release(&t->head->moves[slot].from, 0);
    port_word_store_release(&t->head->moves[slot].to, 0);
    port_word_store_release(&t->head->moves[slot].owner, 0);
}

bool weir_table_move_take_over(weir_table *t, size_t slot, uint64_t *ret_from, uint64_t *ret_to)
{
    const weir_processes *p = t->array.processes;
    port_word *owner = &t->head->moves[slot].owner;
    uint64_t dead = port_word_load_relaxed(owner);
    if (dead == 0 || weir_process_is_alive(p, dead) ||
        !port_word_cas_acquire(owner, &dead, p->self))
        return false;
    *ret_from = port_word_load_relaxed(&t->head->moves[slot].from);
    *ret_to = port_word_load_relaxed(&t->head->moves[slot].to);
    bool begun = *ret_from != 0 && *ret_to != 0;
    if (!begun)
        weir_table_move_end(t, slot);
    return begun;
}

bool weir_table_has(weir_table *t, uint64_t hash)
{
    weir_bucket_pair at = weir_bucket_pair_of(t, hash);
    weir_locked_bucket of[WEIR_LOCK_SET_ONE_KEY];
    weir_lock_set h = {0, WEIR_LOCK_SET_ONE_KEY, of};
    unsigned i;
    weir_lock_set_pair(t, &h, &at);
    weir_lock_set_find_key(&h, &at, &i);
    weir_lock_set_release(&h);
    return i < WEIR_LINE_ENTRIES;
}

void weir_table_reset(weir_table *t, uint64_t hash)
{
    weir_bucket_pair at = weir_bucket_pair_of(t, hash);
    weir_locked_bucket of[WEIR_LOCK_SET_ONE_KEY];
    weir_lock_set h = {0, WEIR_LOCK_SET_ONE_KEY, of};
    weir_lock_set_pair(t, &h, &at);
    drop_key(&h, &at);
    weir_lock_set_commit(&h);
}

/* ---- all keys: iteration, copying, statistics ------------------------------------------------ */

bool weir_table_each(weir_table *t, weir_key_state_fn fn, void *ctx)
{
    for (uint64_t b = 0; b < t->buckets_len; b++) {
        weir_line l;
        weir_bucket_copy(&t->array, &t->buckets[b], &l);
        for (unsigned live = weir_line_live(&l); live != 0; live &= live - 1) {
            unsigned i = (unsigned)__builtin_ctz(live);
            weir_bucket_entry e = weir_line_get(&l, i);
            weir_key_state stored = {.hash = weir_entry_hash(t, &t->buckets[b], &e),
                                     .fresh_at_ns = e.fresh_at_ns,
                                     .form = e.form,
                                     .words_len = weir_form_words(e.form),
                                     .words = e.words};
            if (!fn(ctx, &stored))
                return false;
        }
    }
    return true;
}

int64_t weir_table_idle_at(const weir_key_state *stored)
{
    return stored->form == WEIR_FORM_TIME ? weir_word_time((uint64_t)stored->fresh_at_ns)
                                          : stored->fresh_at_ns;
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
        weir_pack_time(&e) > seen_ns ? weir_cuckoo_insert(t, &h, &at, &e, seen_ns) : WEIR_OK;
    if (st == WEIR_OK)
        weir_lock_set_commit(&h);
    else
        weir_lock_set_release(&h);
    return st;
}

/* The sum is below 0 if writers were killed after they had counted. */
static uint64_t at_least_0(int64_t sum)
{
    return sum > 0 ? (uint64_t)sum : 0;
}

weir_table_stats weir_table_stats_get(weir_table *t)
{
    int64_t keys = 0, units = 0;
    weir_table_stats stats = {0};
    if (t->counts == t->head->counts) /* counted for all ranges together */
        stats.damaged = port_load_relaxed(&t->head->damaged);
    for (size_t i = 0; i < WEIR_COUNTS_LEN; i++) {
        uint64_t held = port_load_relaxed(&t->counts[i].held);
        keys += (int32_t)held;
        units += (int32_t)((held - (uint64_t)(int32_t)held) >> 32);
        stats.evicted += port_load_relaxed(&t->counts[i].evicted);
        stats.refused += port_load_relaxed(&t->counts[i].refused);
    }
    stats.keys = at_least_0(keys);
    stats.bytes = 2 * at_least_0(units);
    return stats;
}

/* ---- open and close -------------------------------------------------------------------------- */

/* A time out of range, which only a damaged file can have, would make every decision fail. Resets
 * it to 0. */
static void repair_time(weir_table_head *h)
{
    uint64_t seen_ns = port_word_load_relaxed(&h->seen_ns);
    if (seen_ns > (uint64_t)WEIR_NOW_NS_MAX && port_word_cas_relaxed(&h->seen_ns, &seen_ns, 0))
        port_add_relaxed(&h->damaged, 1);
}

/* Gives the n ranges at the end of the buckets to tables of their own. Behind the last range are
 * the counters of all, so that every word between the first bucket and the last is a bucket. */
static weir_status split(weir_table *ret[], const size_t size[], size_t n)
{
    weir_table *all = ret[0];
    weir_bucket *end = all->buckets + all->buckets_len;
    weir_table_counts *counts = (weir_table_counts *)end;
    for (size_t i = n; i > 0; i--) {
        weir_table *t = ret[i] = port_zalloc(1, sizeof *t);
        if (!t)
            return WEIR_E_NOMEM;
        *t = *all;
        t->buckets_len = size[i - 1] / sizeof(weir_bucket) - WEIR_COUNTS_LEN;
        t->buckets = end -= t->buckets_len;
        t->counts = counts + WEIR_COUNTS_LEN * (i - 1);
        all->buckets_len -= t->buckets_len;
    }
    return WEIR_OK;
}

weir_status weir_table_open(weir_table **ret, void *part, size_t bytes,
                            const weir_processes *processes, bool refuse)
{
    return weir_table_open_split(ret, part, bytes, processes, refuse, NULL, 0);
}

/* Whether the ranges leave enough. */
static bool is_possible(size_t bytes, const size_t size[], size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (size[i] < WEIR_TABLE_RANGE_MIN || size[i] % sizeof(weir_bucket) != 0 || size[i] > bytes)
            return false;
        bytes -= size[i];
    }
    return bytes >= WEIR_TABLE_BYTES_MIN && n <= WEIR_TABLE_RANGES_MAX;
}

weir_status weir_table_open_split(weir_table *ret[], void *part, size_t bytes,
                                  const weir_processes *processes, bool refuse, const size_t size[],
                                  size_t n)
{
    if (!is_possible(bytes, size, n))
        return WEIR_E_RANGE;
    WEIR_ASSERT((uintptr_t)part % WEIR_LINE_BYTES == 0);
    WEIR_ASSERT(processes->self >= 1 && processes->self < (uint64_t)1 << WEIR_PROCESS_ID_BITS);
    weir_table *t = port_zalloc(1, sizeof *t);
    if (!t)
        return WEIR_E_NOMEM;
    t->head = part;
    t->refuse = refuse;
    t->array = (weir_bucket_array){
        .processes = processes,
        .lock = processes->self << WEIR_LOCK_OWNER_AT | WEIR_LOCKED,
        .buckets = (weir_bucket *)((char *)part + sizeof(weir_table_head)),
        .buckets_len =
            (bytes - sizeof(weir_table_head)) / sizeof(weir_bucket) - n * WEIR_COUNTS_LEN,
        .undo = t->head->undo,
        .damaged = &t->head->damaged,
        .opening = true,
    };
    t->buckets = t->array.buckets;
    t->buckets_len = t->array.buckets_len;
    t->counts = t->head->counts;
    repair_time(t->head);
    weir_bucket_repair_all(&t->array);
    t->array.opening = false;
    if (port_word_load_relaxed(&t->head->watcher) == processes->self)
        weir_robust_unlock(&t->head->watcher);
    weir_table *tables[1 + WEIR_TABLE_RANGES_MAX] = {t};
    weir_status st = split(tables, size, n);
    for (size_t i = 0; i <= n; i++) {
        if (st == WEIR_OK)
            ret[i] = tables[i];
        else
            weir_table_close(tables[i]);
    }
    return st;
}

void weir_table_repair_locks(weir_table *t)
{
    t->array.opening = true;
    weir_bucket_repair_locks(&t->array);
    t->array.opening = false;
}

void weir_table_fold(weir_table *t)
{
    t->folded = true;
}

void weir_table_set_order(weir_table *t, uint64_t order)
{
    t->order = order;
}

void weir_table_close(weir_table *t)
{
    port_free(t);
}
