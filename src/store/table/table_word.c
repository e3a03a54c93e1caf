/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* The fast path of the table: states in one word, in buckets that hold no other states. It reads no
 * more of a bucket than the tags and that word. It leaves all other cases to table_run.c. */

#include "store/table/cuckoo.h"

#include "core/check.h"
#include "core/gcra.h"
#include "port/cpu.h"
#include "store/table/pack.h"

/* The result of a search in a bucket: the index of an entry, or one of these. */
enum {
    ABSENT = WEIR_LINE_ENTRIES,
    OTHER /* table_run.c must decide */
};

enum { BACK_OFF = 16 }; /* pauses after the first try, about 300 ns; then twice as many each time */

static inline bool is_live(uint64_t header, unsigned i)
{
    return header >> (WEIR_CODE_AT(i) + 3) & 1;
}

/* Finds the entry of a tag. */
static inline unsigned look(const weir_bucket *b, uint64_t header, uint64_t tag, bool alternate)
{
    uint64_t w6 = port_word_load_acquire(&b->word[6]);
    uint64_t w7 = port_word_load_acquire(&b->word[7]);
    unsigned hits = port_match4(w6, w7, (uint32_t)tag);
    if (__builtin_expect((header & WEIR_MIXED) != 0, 0))
        return OTHER;
    for (; hits != 0; hits &= hits - 1) {
        unsigned i = (unsigned)__builtin_ctz(hits);
        uint64_t high = port_word_load_acquire(&b->word[5]) >> (16 * i);
        if ((uint16_t)high != (uint16_t)(tag >> 32) || !is_live(header, i))
            continue;
        return ((header & WEIR_ALTERNATE(i)) != 0) == alternate ? i : OTHER;
    }
    return ABSENT;
}

/* A key's state, and where it was found. */
typedef struct spot {
    weir_bucket *bucket; /* NULL: the key is absent */
    uint64_t header;     /* of that bucket; of the first bucket if the key is absent */
    unsigned i;
    uint64_t word;
} spot;

typedef enum outcome { KNOWN, CHANGED, UNKNOWN } outcome;

static inline outcome read_at(spot *s, weir_bucket *b, uint64_t header, unsigned i)
{
    s->bucket = b;
    s->header = header;
    s->i = i;
    s->word = port_word_load_acquire(&b->word[1 + i]);
    return weir_bucket_same(b, header) ? KNOWN : CHANGED;
}

__attribute__((noinline)) static outcome find_alternate(const weir_table *t, uint64_t hash,
                                                        uint64_t header1, spot *s)
{
    weir_bucket_pair at = weir_bucket_pair_of(t, hash);
    uint64_t header = weir_bucket_read(&t->array, at.alternate);
    unsigned i = look(at.alternate, header, at.tag, true);
    if (i < ABSENT)
        return read_at(s, at.alternate, header, i);
    if (i == OTHER)
        return UNKNOWN;
    /* The key is absent from both at the same time: both were unchanged between the loads. */
    *s = (spot){.header = header1};
    bool same = weir_bucket_same(at.alternate, header) && weir_bucket_same(at.first, header1);
    return same ? KNOWN : CHANGED;
}

static inline outcome find(const weir_table *t, uint64_t hash, spot *s)
{
    weir_bucket *first = weir_first_bucket(t, hash);
    uint64_t header = weir_bucket_read(&t->array, first);
    unsigned i = look(first, header, hash & WEIR_TAG_MASK, false);
    if (__builtin_expect(i < ABSENT, 1))
        return read_at(s, first, header, i);
    if (i == OTHER)
        return UNKNOWN;
    if (header & WEIR_OVERFLOWED)
        return find_alternate(t, hash, header, s);
    *s = (spot){.header = header};
    return weir_bucket_same(first, header) ? KNOWN : CHANGED;
}

/* Writes the word of a key that was found. Returns false if its bucket has changed. */
static inline bool try_update(const weir_table *t, weir_bucket *b, uint64_t header, unsigned i,
                              uint64_t word)
{
    if (!weir_bucket_try_lock(&t->array, b, header))
        return false;
    port_word_store_release(&b->word[1 + i], word);
    weir_bucket_publish(b, header);
    return true;
}

/* ---- inserting an absent key ----------------------------------------------------------------- */

/* A locked bucket with TIME entries only, and its header before. */
typedef struct times {
    weir_bucket *bucket;
    uint64_t header;
} times;

static uint64_t word_at(const times *b, unsigned i)
{
    return port_word_load_relaxed(&b->bucket->word[1 + i]);
}

/* The index of a free or idle entry; ABSENT if there is none. */
static unsigned slot_in(const times *b, int64_t seen_ns)
{
    for (unsigned i = 0; i < WEIR_LINE_ENTRIES; i++) {
        if (!is_live(b->header, i))
            return i;
    }
    for (unsigned i = 0; i < WEIR_LINE_ENTRIES; i++) {
        if (weir_word_time(word_at(b, i)) <= seen_ns)
            return i;
    }
    return ABSENT;
}

/* Overwrites entry i, and unlocks the bucket. */
static void write_entry(weir_table *t, const times *b, unsigned i, uint64_t tag, uint64_t word,
                        bool alternate)
{
    weir_bucket *at = b->bucket;
    WEIR_ASSERT(weir_is_locked(at) && i < WEIR_LINE_ENTRIES && !(b->header & WEIR_MIXED));
    WEIR_ASSERT(tag <= WEIR_TAG_MASK);
    uint64_t code = (uint64_t)(WEIR_LIVE | WEIR_FORM_TIME) << WEIR_CODE_AT(i);
    uint64_t others = b->header & ~((uint64_t)15 << WEIR_CODE_AT(i)) & ~WEIR_ALTERNATE(i);
    if (is_live(b->header, i)) { /* drop the old entry before its words change, with release */
        uint64_t dead = (uint64_t)WEIR_FORM_TIME << WEIR_CODE_AT(i);
        port_word_store_relaxed(&at->word[0], weir_header_lock(&t->array, others | dead));
    } else {
        port_add_relaxed(&weir_counts_of(t, at)->held, weir_held_by(WEIR_FORM_TIME));
    }
    unsigned high = 16 * i, low = i % 2 * 32;
    port_word *lows = &at->word[6 + i / 2];
    uint64_t w5 = port_word_load_relaxed(&at->word[5]), w = port_word_load_relaxed(lows);
    w5 = (w5 & ~((uint64_t)UINT16_MAX << high)) | tag >> 32 << high;
    w = (w & ~((uint64_t)UINT32_MAX << low)) | (tag & UINT32_MAX) << low;
    port_word_store_release(&at->word[1 + i], word);
    port_word_store_release(&at->word[5], w5);
    port_word_store_release(lows, w);
    weir_bucket_publish(at, others | code | (alternate ? WEIR_ALTERNATE(i) : 0));
}

static uint64_t rank_at(const times *b, unsigned i, int64_t seen_ns)
{
    uint64_t tag = port_word_load_relaxed(&b->bucket->word[6 + i / 2]) >> (i % 2 * 32);
    return weir_word_rank(tag, word_at(b, i), seen_ns);
}

/* Evicts the entry with the lowest rank from two full buckets, and inserts a key in its place.
 * Returns false, with nothing changed, if that entry has used much. */
static bool evict_and_insert(weir_table *t, const times *first, const times *alternate,
                             uint64_t tag, uint64_t word, int64_t seen_ns)
{
    const times *b = first;
    unsigned best = 0;
    uint64_t lowest = UINT64_MAX;
    for (unsigned i = 0; i < 2 * WEIR_LINE_ENTRIES; i++) {
        const times *at = i < WEIR_LINE_ENTRIES ? first : alternate;
        WEIR_ASSERT(is_live(at->header, i % WEIR_LINE_ENTRIES));
        uint64_t rank = rank_at(at, i % WEIR_LINE_ENTRIES, seen_ns);
        if (rank < lowest) {
            lowest = rank;
            b = at;
            best = i % WEIR_LINE_ENTRIES;
        }
    }
    if (weir_rank_used(lowest) > WEIR_CHEAP)
        return false;
    (void)weir_cuckoo_skips_search(t,
                                   first->bucket); /* counts this insertion as a skipped search */
    weir_count_evictions(t, b->bucket, 1);
    write_entry(t, b, best, tag, word, b == alternate);
    if (b == alternate)
        weir_bucket_publish(first->bucket, first->header | WEIR_OVERFLOWED);
    else
        weir_bucket_unlock(alternate->bucket, alternate->header);
    return true;
}

/* Inserts a key if its buckets have TIME entries only and no other entry has to be displaced.
 * Otherwise, or if a bucket is locked, returns false with nothing changed. */
static bool insert_directly(weir_table *t, const weir_bucket_pair *at, uint64_t header,
                            uint64_t word, int64_t seen_ns)
{
    times first = {at->first, header};
    if (header & WEIR_MIXED || !weir_bucket_try_lock(&t->array, at->first, header))
        return false;
    if (weir_table_keeps(t, seen_ns)) {
        weir_bucket_unlock(at->first, header);
        return false;
    }
    unsigned i = slot_in(&first, seen_ns);
    if (i < ABSENT) {
        write_entry(t, &first, i, at->tag, word, false);
        return true;
    }
    times alternate = {at->alternate, port_word_load_relaxed(&at->alternate->word[0])};
    if (alternate.header & (WEIR_MIXED | WEIR_LOCKED) ||
        !weir_bucket_try_lock(&t->array, at->alternate, alternate.header)) {
        weir_bucket_unlock(at->first, header);
        return false;
    }
    /* A killed writer may have left the key there. */
    bool left = look(at->alternate, alternate.header, at->tag, true) != ABSENT;
    i = slot_in(&alternate, seen_ns);
    if (!left && i < ABSENT) {
        write_entry(t, &alternate, i, at->tag, word, true);
        weir_bucket_publish(at->first, header | WEIR_OVERFLOWED);
        return true;
    }
    bool in_vain = port_load_relaxed(&weir_counts_of(t, at->first)->skip) > 0;
    if (!left && !t->refuse && in_vain &&
        evict_and_insert(t, &first, &alternate, at->tag, word, seen_ns))
        return true;
    weir_bucket_unlock(at->alternate, alternate.header);
    weir_bucket_unlock(at->first, header);
    return false;
}

__attribute__((noinline)) static bool try_insert(weir_table *t, uint64_t hash, const spot *s,
                                                 uint64_t word, int64_t seen_ns,
                                                 weir_status *ret_st)
{
    weir_bucket_pair at = weir_bucket_pair_of(t, hash);
    if (insert_directly(t, &at, s->header, word, seen_ns))
        return true;
    weir_locked_bucket of[WEIR_LOCK_SET_ONE_KEY];
    weir_lock_set h = {0, WEIR_LOCK_SET_ONE_KEY, of};
    weir_bucket_entry e = {.tag = at.tag, .fresh_at_ns = (int64_t)word, .form = WEIR_FORM_TIME};
    return weir_lock_set_try(t, &h, at.first, s->header) &&
           weir_cuckoo_insert_alone(t, &h, &at, &e, seen_ns, ret_st);
}

/* ---- deciding -------------------------------------------------------------------------------- */

static inline bool begins_block(const weir_take_call *a, int64_t cost, const weir_decision *d)
{
    return a->blocks && !d->allowed && cost > 0;
}

/* Decides all requests on *word. Returns false, with *word undefined, if that is left to
 * weir_table_take(). */
__attribute__((always_inline)) static inline bool take(const weir_take_call *a, uint64_t *word,
                                                       int64_t now_ns)
{
    const weir_layer *l = a->policy->layer;
    if (!a->row && __builtin_expect(l->format == WEIR_STATE_TAT_NS, 1)) {
        weir_gcra_check(l, word, now_ns, a->cost, a->ret);
        a->ret->layer = 0;
        return !begins_block(a, a->cost, a->ret);
    }
    if (!a->row)
        return weir_word_take(l, word, now_ns, a->cost, a->ret) &&
               !begins_block(a, a->cost, a->ret);
    for (size_t i = 0; i < a->n; i++) {
        weir_store_request *r = &a->row[i];
        if (!weir_word_take(l, word, now_ns, r->cost, &r->decision) ||
            begins_block(a, r->cost, &r->decision))
            return false;
    }
    return true;
}

bool weir_take_fast(const weir_take_call *a, uint64_t *words, int64_t now_ns, unsigned *used)
{
    if (weir_pack_layers(a->policy) == 1)
        return take(a, words, now_ns);
    if (!a->row)
        return weir_pair_take(a->policy, words, now_ns, a->cost, a->ret, used) &&
               !begins_block(a, a->cost, a->ret);
    for (size_t i = 0; i < a->n; i++) {
        weir_store_request *r = &a->row[i];
        if (!weir_pair_take(a->policy, words, now_ns, r->cost, &r->decision, used) ||
            begins_block(a, r->cost, &r->decision))
            return false;
    }
    return true;
}

static weir_status take_carefully(weir_table *t, weir_take_call *a, uint64_t hash, int64_t now_ns)
{
    for (int i = 0; i < WEIR_TRIES && weir_pack_layers(a->policy) == 1; i++) {
        spot s;
        outcome o = find(t, hash, &s);
        if (o == CHANGED) {
            port_back_off((unsigned)BACK_OFF << i);
            continue;
        }
        if (o == UNKNOWN)
            break;
        int64_t seen_ns = weir_table_see(t, now_ns);
        uint64_t word = s.bucket ? s.word : 0, old = word;
        if (!s.bucket && weir_table_keeps(t, weir_later(now_ns, seen_ns)))
            return WEIR_E_ELSEWHERE;
        if (!take(a, &word, weir_later(now_ns, seen_ns)))
            break;
        if (word == old || (!s.bucket && weir_word_time(word) <= seen_ns))
            return WEIR_OK;
        weir_status st = WEIR_OK;
        if (s.bucket ? try_update(t, s.bucket, s.header, s.i, word)
                     : try_insert(t, hash, &s, word, seen_ns, &st))
            return st;
        port_back_off((unsigned)BACK_OFF << i);
    }
    return weir_table_take(t, a, hash, now_ns);
}

/* Takes from a key that lies in its first bucket. Returns false, with nothing charged, if the key
 * is not there or another thread changes the bucket. */
__attribute__((always_inline)) static inline bool
take_in_first(weir_table *t, const weir_take_call *a, uint64_t hash, int64_t now_ns)
{
    weir_bucket *b = weir_first_bucket(t, hash);
    uint64_t header = port_word_load_acquire(&b->word[0]);
    unsigned hits = port_match4(port_word_load_acquire(&b->word[6]),
                                port_word_load_acquire(&b->word[7]), (uint32_t)hash);
    if (hits == 0 || header & (WEIR_MIXED | WEIR_LOCKED))
        return false;
    unsigned i = (unsigned)__builtin_ctz(hits);
    uint64_t high = port_word_load_acquire(&b->word[5]) >> (16 * i);
    uint64_t word = port_word_load_acquire(&b->word[1 + i]), old = word;
    bool is_ours = (uint16_t)high == (uint16_t)(hash >> 32) && is_live(header, i) &&
                   !(header & WEIR_ALTERNATE(i));
    if (!is_ours || !take(a, &word, weir_later(now_ns, weir_table_see(t, now_ns))))
        return false;
    /* Either proves that the bucket did not change while it was read: until then, any word may have
     * been decided on. */
    return word == old ? weir_bucket_same(b, header) : try_update(t, b, header, i, word);
}

void weir_table_take_row(weir_table *t, weir_store_request *requests, size_t n, uint64_t hash,
                         int64_t now_ns)
{
    WEIR_ASSERT(n >= 1 && weir_pack_is_fast(requests->policy));
    const weir_policy *p = requests->policy;
    uint32_t layers = weir_pack_layers(p);
    weir_take_call a = {.policy = p, .row = requests, .n = n, .blocks = layers < p->layers};
    weir_status st = WEIR_OK;
    if (layers > 1 || !take_in_first(t, &a, hash, now_ns))
        st = take_carefully(t, &a, hash, now_ns);
    for (size_t i = 0; i < n; i++)
        requests[i].status = st;
}

__attribute__((noinline)) static weir_status take_one_carefully(weir_table *t, const weir_policy *p,
                                                                uint64_t hash, int64_t now_ns,
                                                                int64_t cost, weir_decision *ret)
{
    weir_decision d; /* a copy: the key may not fit, and then the caller's is not written */
    weir_take_call a = {.policy = p, .cost = cost, .ret = &d};
    weir_status st = take_carefully(t, &a, hash, now_ns);
    if (st == WEIR_OK)
        *ret = d;
    return st;
}

__attribute__((noinline)) static weir_status take_layers(weir_table *t, const weir_policy *p,
                                                         uint64_t hash, int64_t now_ns,
                                                         int64_t cost, weir_decision *ret)
{
    weir_decision d; /* a copy, as above */
    uint32_t layers = weir_pack_layers(p);
    weir_take_call a = {.policy = p, .cost = cost, .ret = &d, .blocks = layers < p->layers};
    weir_status st = WEIR_OK;
    if (layers > 1 || !take_in_first(t, &a, hash, now_ns))
        st = take_carefully(t, &a, hash, now_ns);
    if (st == WEIR_OK)
        *ret = d;
    return st;
}

weir_status weir_table_take_word(weir_table *t, const weir_policy *p, uint64_t hash, int64_t now_ns,
                                 int64_t cost, weir_decision *ret)
{
    const weir_take_call a = {.policy = p, .cost = cost, .ret = ret};
    if (__builtin_expect(take_in_first(t, &a, hash, now_ns), 1))
        return WEIR_OK;
    return take_one_carefully(t, p, hash, now_ns, cost, ret);
}

weir_status weir_table_take_one(weir_table *t, const weir_policy *p, uint64_t hash, int64_t now_ns,
                                int64_t cost, weir_decision *ret)
{
    return p->layers > 1 ? take_layers(t, p, hash, now_ns, cost, ret)
                         : weir_table_take_word(t, p, hash, now_ns, cost, ret);
}

__attribute__((noinline)) static weir_status take_here(weir_table *t, const weir_policy *p,
                                                       uint64_t hash, int64_t now_ns, int64_t cost,
                                                       weir_decision *ret)
{
    weir_status st = take_one_carefully(t, p, hash, now_ns, cost, ret);
    if (st != WEIR_E_ELSEWHERE)
        return st;
    weir_decision d;
    weir_take_call a = {.policy = p, .cost = cost, .ret = &d};
    st = weir_table_take_locked(t, &a, hash, now_ns);
    if (st == WEIR_OK)
        *ret = d;
    return st;
}

weir_status weir_table_take_here(weir_table *t, const weir_policy *p, uint64_t hash, int64_t now_ns,
                                 int64_t cost, weir_decision *ret)
{
    const weir_take_call a = {.policy = p, .cost = cost, .ret = ret};
    if (__builtin_expect(take_in_first(t, &a, hash, now_ns), 1))
        return WEIR_OK;
    return take_here(t, p, hash, now_ns, cost, ret);
}

/* ---- prefetching ----------------------------------------------------------------------------- */

void weir_table_prefetch(const weir_table *t, uint64_t hash)
{
    port_prefetch(weir_first_bucket(t, hash));
}

void weir_table_prefetch_alternate(const weir_table *t, uint64_t hash)
{
    const weir_bucket *first = weir_first_bucket(t, hash);
    uint64_t header = port_word_load_relaxed(&first->word[0]);
    if (__builtin_expect((header & WEIR_OVERFLOWED) == 0, 1))
        return;
    if (look(first, header, hash & WEIR_TAG_MASK, false) >= ABSENT)
        port_prefetch(weir_bucket_pair_of(t, hash).alternate);
}
