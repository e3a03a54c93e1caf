/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* A bucket: operations on copies against a model, writers that are killed at each of their stores,
 * locks of dead owners, and threads. This file includes bucket.c, so that any store in it can be
 * the last. */

#include "port/random_kit_test.h"
#include "store/table/bucket.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

/* ---- a kill at a store ----------------------------------------------------------------------- */

static _Thread_local unsigned stores_left; /* 0: no limit */
static _Thread_local jmp_buf killed;

static void maybe_die(void)
{
    if (stores_left > 0 && --stores_left == 0)
        longjmp(killed, 1);
}

static inline void store_release_or_die(port_word *w, uint64_t x)
{
    maybe_die();
    port_word_store_release(w, x);
}

/* What another thread does before the next compare-and-swap. */
static _Thread_local void (*before_cas)(void);

static inline bool cas_acquire_or_die(port_word *w, uint64_t *from, uint64_t to)
{
    void (*first)(void) = before_cas;
    maybe_die();
    before_cas = NULL;
    if (first)
        first();
    return port_word_cas_acquire(w, from, to);
}

#define port_word_store_release store_release_or_die
#define port_word_cas_acquire   cas_acquire_or_die
#include "store/table/bucket.c"
#undef port_word_store_release
#undef port_word_cas_acquire

/* ---- a model of a bucket --------------------------------------------------------------------- */

typedef struct model {
    unsigned len;
    weir_bucket_entry of[WEIR_LINE_ENTRIES];
} model;

/* The sizes of the forms, independently of bucket.c. */
static const unsigned units_of[] = {0, 7, 9, 10, 11, 15, 19, 27};
static const unsigned words_of[] = {0, 0, 1, 1, 1, 2, 3, 5};

static weir_bucket_entry random_entry(uint64_t *seed)
{
    uint64_t x = next_random(seed);
    weir_bucket_entry e = {.tag = next_random(seed) >> 16,
                           .fresh_at_ns = (int64_t)(x >> 32 & 15),
                           .form = x & 1 ? WEIR_FORM_TIME : (weir_form)(1 + (x >> 1) % 7),
                           .alternate = x >> 8 & 1};
    if (x >> 9 & 1)
        e.tag = x & 2 ? 0 : ((uint64_t)1 << 48) - 1;
    for (unsigned w = 0; w < words_of[e.form]; w++)
        e.words[w] = next_random(seed);
    if (e.form == WEIR_FORM_SHORT)
        e.words[0] >>= 32;
    if (e.form == WEIR_FORM_LONG)
        e.words[0] >>= 16;
    return e;
}

static bool same_entry(const weir_bucket_entry *a, const weir_bucket_entry *b)
{
    bool same = a->tag == b->tag && a->fresh_at_ns == b->fresh_at_ns && a->form == b->form &&
                a->alternate == b->alternate;
    for (unsigned w = 0; w < WEIR_ENTRY_WORDS; w++)
        same = same && a->words[w] == b->words[w];
    return same;
}

static unsigned model_find(const model *m, uint64_t tag, bool alternate)
{
    unsigned i = 0;
    while (i < m->len && (m->of[i].tag != tag || m->of[i].alternate != alternate))
        i++;
    return i;
}

static unsigned model_units(const model *m)
{
    unsigned units = 0;
    for (unsigned i = 0; i < m->len; i++)
        units += units_of[m->of[i].form];
    return units;
}

static bool model_has_room(const model *m, weir_form form)
{
    return model_units(m) + units_of[form] <= 28;
}

static bool model_is_mixed(const model *m)
{
    bool mixed = false;
    for (unsigned i = 0; i < m->len; i++)
        mixed = mixed || m->of[i].form != WEIR_FORM_TIME;
    return mixed;
}

static void model_drop(model *m, unsigned i)
{
    m->of[i] = m->of[--m->len];
}

/* The line has the entries of the model and no others. */
static void assert_alike(const weir_line *l, const model *m)
{
    assert_true(weir_line_sound(l));
    assert_int_equal(__builtin_popcount(weir_line_live(l)), m->len);
    for (unsigned i = 0; i < m->len; i++) {
        unsigned at = weir_line_find(l, m->of[i].tag, m->of[i].alternate);
        assert_in_range(at, 0, WEIR_LINE_ENTRIES - 1);
        weir_bucket_entry e = weir_line_get(l, at);
        assert_true(same_entry(&e, &m->of[i]));
    }
}

static unsigned fresh_of(const model *m, const weir_line *l, int64_t now_ns)
{
    unsigned set = 0;
    for (unsigned i = 0; i < m->len; i++)
        set |= (unsigned)(m->of[i].fresh_at_ns <= now_ns)
               << weir_line_find(l, m->of[i].tag, m->of[i].alternate);
    return set;
}

/* Any rank that is not the order of the times. */
static uint64_t rank_of(const weir_bucket_entry *e)
{
    return (uint64_t)e->fresh_at_ns * 0x9e3779b97f4a7c15;
}

static unsigned victims_of(const weir_line *l, weir_form form, uint64_t *ret_rank)
{
    uint64_t rank[WEIR_LINE_ENTRIES];
    for (unsigned i = 0; i < WEIR_LINE_ENTRIES; i++) {
        weir_bucket_entry e = weir_line_get(l, i);
        rank[i] = weir_line_live(l) >> i & 1 ? rank_of(&e) : 0;
    }
    return weir_line_victims(l, form, rank, ret_rank);
}

/* Without the victims the entry fits. Without the last of them it does not. No remaining entry has
 * a lower rank than a victim. */
static void check_victims(const weir_line *l, const model *m, weir_form form)
{
    uint64_t said = 77, last = 0;
    unsigned set = victims_of(l, form, &said), left = 0, left_before_last = 0;
    assert_int_equal(set & ~weir_line_live(l), 0);
    for (unsigned i = 0; i < m->len; i++) {
        bool goes = set >> weir_line_find(l, m->of[i].tag, m->of[i].alternate) & 1;
        if (goes && rank_of(&m->of[i]) > last)
            last = rank_of(&m->of[i]);
    }
    for (unsigned i = 0; i < m->len; i++) {
        bool goes = set >> weir_line_find(l, m->of[i].tag, m->of[i].alternate) & 1;
        assert_true(goes || rank_of(&m->of[i]) >= last);
        left += goes ? 0 : units_of[m->of[i].form];
        left_before_last += rank_of(&m->of[i]) < last ? 0 : units_of[m->of[i].form];
    }
    assert_true(said == last);
    assert_true(left + units_of[form] <= 28);
    assert_true(set == 0 || left_before_last + units_of[form] > 28);
}

/* Makes one random change to both. */
static void change(weir_line *l, model *m, uint64_t *seed)
{
    uint64_t x = next_random(seed);
    weir_bucket_entry e = random_entry(seed);
    switch (x % 4) {
    case 0: {
        unsigned set = 0;
        for (unsigned i = m->len; i-- > 0;) {
            if (!(x >> (8 + i) & 1))
                continue;
            set |= 1u << weir_line_find(l, m->of[i].tag, m->of[i].alternate);
            model_drop(m, i);
        }
        weir_line_drop(l, set);
        return;
    }
    case 1: {
        if (m->len == 0)
            return;
        weir_bucket_entry *was = &m->of[(x >> 8) % m->len];
        unsigned at = weir_line_find(l, was->tag, was->alternate);
        e.tag = was->tag;
        e.alternate = was->alternate;
        e.form = was->form;
        if (x >> 16 & 1)
            e.fresh_at_ns = was->fresh_at_ns;
        for (unsigned w = 0; w < WEIR_ENTRY_WORDS; w++)
            e.words[w] = w < words_of[e.form] ? next_random(seed) : 0;
        e.words[0] &= e.form == WEIR_FORM_SHORT  ? UINT32_MAX
                      : e.form == WEIR_FORM_LONG ? UINT64_MAX >> 16
                                                 : UINT64_MAX;
        *was = e;
        weir_line_put(l, at, &e);
        return;
    }
    default:
        assert_int_equal(weir_line_fits(l, e.form), model_has_room(m, e.form));
        if (!model_has_room(m, e.form) || model_find(m, e.tag, e.alternate) < m->len)
            return;
        m->of[m->len++] = e;
        weir_line_add(l, &e);
        assert_int_equal((l->word[0] & WEIR_MIXED) != 0, model_is_mixed(m));
    }
}

/* ---- copies of a bucket ---------------------------------------------------------------------- */

static void forms(void **state)
{
    (void)state;
    for (unsigned form = WEIR_FORM_NONE; form <= WEIR_FORM_FIVE; form++) {
        assert_int_equal(weir_form_units((weir_form)form), units_of[form]);
        assert_int_equal(weir_form_words((weir_form)form), words_of[form]);
    }
}

static void lines_are_as_the_model(void **state)
{
    (void)state;
    enum { STEPS = 300000 };
    uint64_t seed = 3, version = WEIR_VERSION_ONE * 5 | WEIR_OVERFLOWED;
    weir_line l = {.word = {version}};
    model m = {0};
    unsigned full = 0;
    for (int i = 0; i < STEPS; i++) {
        change(&l, &m, &seed);
        assert_alike(&l, &m);
        assert_int_equal(l.word[0] & ~(WEIR_CODES | WEIR_ALTERNATES | WEIR_MIXED), version);
        uint64_t x = next_random(&seed);
        assert_int_equal(weir_line_find(&l, x >> 16, x & 1), WEIR_LINE_ENTRIES);
        assert_int_equal(weir_line_idle(&l, (int64_t)(x % 17) - 1),
                         fresh_of(&m, &l, (int64_t)(x % 17) - 1));
        check_victims(&l, &m, (weir_form)(1 + x % 7));
        full += m.len == WEIR_LINE_ENTRIES;
    }
    assert_true(full > STEPS / 100);
}

/* An entry takes the place of a dropped one of its form, and the others stay where they are. */
static void dropped_entries_are_reused(void **state)
{
    (void)state;
    for (unsigned form = WEIR_FORM_TIME; form <= WEIR_FORM_FIVE; form++) {
        unsigned len = 28 / units_of[form];
        for (unsigned dropped = 0; dropped < len; dropped++) {
            weir_line l = {.word = {0}};
            weir_bucket_entry e = {.form = (weir_form)form};
            for (e.tag = 0; e.tag < len; e.tag++)
                weir_line_add(&l, &e);
            weir_line_drop(&l, 1u << dropped);
            weir_line_add(&l, &e);
            for (unsigned i = 0; i < len; i++)
                assert_int_equal(weir_line_find(&l, i == dropped ? len : i, false), i);
        }
    }
}

/* A bucket is either reported as invalid, or safe for every function. */
static void any_bytes(void **state)
{
    (void)state;
    uint64_t seed = 4, sound = 0;
    for (int i = 0; i < 400000; i++) {
        weir_line l;
        for (unsigned w = 0; w < WEIR_LINE_WORDS; w++)
            l.word[w] = next_random(&seed);
        if (i % 2) { /* few entries, so that more buckets are valid */
            unsigned codes = 4 * (unsigned)(next_random(&seed) % 4);
            l.word[0] &= ~(WEIR_CODES & WEIR_CODES << codes);
        }
        if (!weir_line_sound(&l))
            continue;
        sound++;
        uint64_t last;
        weir_bucket_entry e = random_entry(&seed), got[WEIR_LINE_ENTRIES];
        unsigned live = weir_line_live(&l);
        for (unsigned n = 0; n < WEIR_LINE_ENTRIES; n++) {
            got[n] = weir_line_get(&l, n);
            if (live >> n & 1)
                assert_in_range(weir_line_find(&l, got[n].tag, got[n].alternate), 0, n);
        }
        weir_line_drop(&l, victims_of(&l, e.form, &last));
        assert_true(weir_line_fits(&l, e.form));
        weir_line_add(&l, &e);
        assert_true(weir_line_sound(&l));
        assert_in_range(weir_line_find(&l, e.tag, e.alternate), 0, WEIR_LINE_ENTRIES - 1);
        weir_line_drop(&l, 15);
        assert_int_equal(l.word[0] & WEIR_CODES, 0);
        assert_true(weir_line_sound(&l));
    }
    assert_true(sound > 10000);
}

/* All 2^17 layouts: a valid one fits, an invalid one does not. */
static void every_layout(void **state)
{
    (void)state;
    for (uint64_t n = 0; n < 1 << 17; n++) {
        weir_line l = {.word = {(n & 0xffff) << 6 | (n >> 16) << 22}};
        unsigned units = 0;
        bool good = true, ended = false;
        for (unsigned i = 0; i < WEIR_LINE_ENTRIES; i++) {
            unsigned code = (unsigned)(n >> (4 * i)) & 15, form = code & 7;
            good = good && (form != 0 ? !ended && (n >> 16 || form == WEIR_FORM_TIME) : code == 0);
            ended = ended || form == 0;
            units += units_of[form];
        }
        assert_int_equal(weir_line_sound(&l), good && units <= 28);
    }
}

/* ---- killed writers -------------------------------------------------------------------------- */

enum { BUCKETS = 3, HERE = 1, SELF = 9 };

/* Memory that survives its writers. Ids below SELF are dead. */
typedef struct ground {
    weir_bucket buckets[BUCKETS];
    weir_undo_record undo[WEIR_UNDO_RECORDS];
    port_counter damaged;
} ground;

static bool is_alive(const void *ctx, uint64_t id)
{
    (void)ctx;
    return id >= SELF;
}

static const weir_processes owners_of[] = {
    {0, is_alive, NULL}, {1, is_alive, NULL},    {2, is_alive, NULL},
    {3, is_alive, NULL}, {SELF, is_alive, NULL},
};

enum { FIRST = 1, SECOND, THIRD, LAST };

static weir_bucket_array keeper_of(ground *g, unsigned who)
{
    return (weir_bucket_array){.processes = &owners_of[who],
                               .lock = owners_of[who].self << WEIR_LOCK_OWNER_AT | WEIR_LOCKED,
                               .buckets = g->buckets,
                               .buckets_len = BUCKETS,
                               .undo = g->undo,
                               .damaged = &g->damaged};
}

static void fill(weir_bucket *b, const weir_line *l)
{
    for (unsigned i = 0; i < WEIR_LINE_WORDS; i++)
        port_word_store_release(&b->word[i], l->word[i]);
}

/* Runs `what` as process `who`, which dies at its n-th store. Returns whether `what` was
 * completed. */
static bool run_until(ground *g, unsigned who, unsigned n,
                      void (*what)(const weir_bucket_array *k, void *ctx), void *ctx)
{
    weir_bucket_array k = keeper_of(g, who);
    if (setjmp(killed) != 0)
        return false;
    stores_left = n;
    what(&k, ctx);
    stores_left = 0;
    return true;
}

typedef struct pair {
    weir_line old, line;
} pair;

static void write_pair(const weir_bucket_array *k, void *ctx)
{
    const pair *p = ctx;
    weir_line l;
    weir_bucket_lock(k, &k->buckets[HERE], &l);
    weir_bucket_commit(k, &k->buckets[HERE], &l, &p->line);
}

static void read_it(const weir_bucket_array *k, void *ctx)
{
    weir_bucket_copy(k, &k->buckets[HERE], ctx);
}

static void repair_all(const weir_bucket_array *k, void *ctx)
{
    (void)ctx;
    weir_bucket_repair_all(k);
}

/* The bucket is the old one or the new one, except for entries that the new one does not have. */
static void check_either(const weir_line *l, const model *old, const model *new)
{
    bool is_old = true, is_new = true;
    unsigned len = (unsigned)__builtin_popcount(weir_line_live(l));
    assert_true(weir_line_sound(l));
    for (unsigned i = 0; i < old->len; i++) {
        const weir_bucket_entry *e = &old->of[i];
        unsigned at = weir_line_find(l, e->tag, e->alternate);
        bool may_go = model_find(new, e->tag, e->alternate) == new->len;
        weir_bucket_entry got =
            at < WEIR_LINE_ENTRIES ? weir_line_get(l, at) : (weir_bucket_entry){0};
        is_old = is_old && (same_entry(&got, e) || (may_go && at == WEIR_LINE_ENTRIES));
        len -= at < WEIR_LINE_ENTRIES;
    }
    is_old = is_old && len == 0; /* only old entries */
    is_new = (unsigned)__builtin_popcount(weir_line_live(l)) == new->len;
    for (unsigned i = 0; i < new->len &&is_new; i++) {
        unsigned at = weir_line_find(l, new->of[i].tag, new->of[i].alternate);
        weir_bucket_entry got =
            at < WEIR_LINE_ENTRIES ? weir_line_get(l, at) : (weir_bucket_entry){0};
        is_new = same_entry(&got, &new->of[i]);
    }
    assert_true(is_old || is_new);
}

/* After the kill, a live process can read and write the bucket, and no record belongs to a dead
 * process. */
static void check_ground(ground *g, const pair *p, const model *old, const model *new,
                         bool is_opened)
{
    weir_bucket_array k = keeper_of(g, LAST);
    weir_line l;
    if (is_opened)
        weir_bucket_repair_all(&k);
    weir_bucket_copy(&k, &g->buckets[HERE], &l);
    check_either(&l, old, new);
    weir_bucket_repair_all(&k);
    for (unsigned i = 0; i < WEIR_UNDO_RECORDS; i++)
        assert_int_equal(port_word_load_relaxed(&g->undo[i].owner), 0);
    weir_bucket_copy(&k, &g->buckets[HERE], &l);
    check_either(&l, old, new);
    weir_line locked;
    weir_bucket_lock(&k, &g->buckets[HERE], &locked);
    weir_bucket_commit(&k, &g->buckets[HERE], &locked, &p->line);
    weir_bucket_copy(&k, &g->buckets[HERE], &l);
    assert_alike(&l, new);
    assert_int_equal(l.word[0] >> WEIR_VERSION_AT,
                     (locked.word[0] + WEIR_VERSION_ONE) >> WEIR_VERSION_AT);
    assert_int_equal(port_load_relaxed(&g->damaged), 0);
}

/* A bucket, and its new contents after a few changes. */
static pair random_pair(uint64_t *seed, model *old, model *new)
{
    pair p = {.old.word = {WEIR_VERSION_ONE * (next_random(seed) >> 40)}};
    *old = (model){0};
    for (uint64_t i = next_random(seed) % 12; i-- > 0;)
        change(&p.old, old, seed);
    p.line = p.old;
    *new = *old;
    for (uint64_t i = 1 + next_random(seed) % 3; i-- > 0;)
        change(&p.line, new, seed);
    if (next_random(seed) % 4 == 0)
        p.line.word[0] |= WEIR_OVERFLOWED;
    return p;
}

/* A writer dies at each of its stores; so does the process that repairs the bucket, and a third
 * one. */
static void writers_are_killed(void **state)
{
    (void)state;
    static ground g;
    uint64_t seed = 5;
    unsigned recorded = 0;
    for (int round = 0; round < 400; round++) {
        model old, new;
        pair p = random_pair(&seed, &old, &new);
        bool wrote = false, repaired;
        for (unsigned n = 1; !wrote; n++) {
            repaired = false;
            for (unsigned m = 1; !repaired; m++) {
                memset(&g, 0, sizeof g);
                fill(&g.buckets[HERE], &p.old);
                wrote = run_until(&g, FIRST, n, write_pair, &p);
                recorded +=
                    undo_of(port_word_load_relaxed(&g.buckets[HERE].word[0])) != 0 && !wrote;
                weir_line l;
                repaired = run_until(&g, SECOND, m, m % 2 ? read_it : repair_all, &l);
                if (!repaired && round % 4 == 0)
                    (void)run_until(&g, THIRD, 1 + m / 2, read_it, &l);
                check_ground(&g, &p, &old, &new, m / 2 % 2);
            }
        }
    }
    assert_true(recorded > 100);
}

/* ---- locks of dead owners -------------------------------------------------------------------- */

static uint64_t locked_by(uint64_t header, uint64_t id, uint64_t undo)
{
    return header >> WEIR_VERSION_AT << WEIR_REMEMBERED_AT | undo << WEIR_UNDO_AT |
           id << WEIR_LOCK_OWNER_AT | (header & WEIR_CONTENTS) | WEIR_LOCKED;
}

static weir_line line_of(unsigned entries)
{
    weir_line l = {.word = {WEIR_VERSION_ONE * 1234567}};
    for (unsigned i = 0; i < entries; i++)
        weir_line_add(
            &l, &(weir_bucket_entry){.tag = 100 + i, .fresh_at_ns = 7, .form = WEIR_FORM_TIME});
    return l;
}

/* A lock without a record is removed, and nothing is lost. The new version was never read
 * before. */
static void lock_without_record(void **state)
{
    (void)state;
    static ground g;
    weir_line l = line_of(3), got;
    uint64_t header = l.word[0] + 5 * WEIR_VERSION_ONE;
    l.word[0] = locked_by(header, FIRST, 0);
    memset(&g, 0, sizeof g);
    fill(&g.buckets[HERE], &l);
    weir_bucket_array k = keeper_of(&g, LAST);
    weir_bucket_copy(&k, &g.buckets[HERE], &got);
    assert_int_equal(weir_line_live(&got), 7);
    assert_int_equal(weir_line_find(&got, 102, false), 2);
    assert_int_equal(port_load_relaxed(&g.damaged), 0);
    assert_true(got.word[0] != header);
    assert_int_equal((got.word[0] >> WEIR_VERSION_AT) & 0x1fff,
                     ((header >> WEIR_VERSION_AT) + 2) & 0x1fff);
}

static ground shared;

static void repair_and_drop(void)
{
    weir_bucket_array k = keeper_of(&shared, LAST);
    weir_line l;
    weir_bucket_lock(&k, &shared.buckets[HERE], &l);
    weir_line fewer = l;
    weir_line_drop(&fewer, 2);
    weir_bucket_commit(&k, &shared.buckets[HERE], &l, &fewer);
}

/* The thread that repairs a bucket owns its lock meanwhile. If another thread is faster, its
 * changes stay. */
static void one_thread_repairs(void **state)
{
    (void)state;
    weir_line l = line_of(3), got;
    l.word[0] = locked_by(l.word[0], FIRST, 0);
    memset(&shared, 0, sizeof shared);
    fill(&shared.buckets[HERE], &l);
    assert_false(run_until(&shared, SECOND, 2, read_it, &got));
    uint64_t header = port_word_load_relaxed(&shared.buckets[HERE].word[0]);
    assert_true(header & WEIR_LOCKED);
    assert_int_equal(owner_of(header), SECOND);
    weir_bucket_array k = keeper_of(&shared, LAST);
    before_cas = repair_and_drop;
    weir_bucket_copy(&k, &shared.buckets[HERE], &got);
    assert_int_equal(weir_line_live(&got), 5);
    assert_int_equal(port_load_relaxed(&shared.damaged), 0);
}

/* A record that does not belong to the lock is from another moment, so the contents of the bucket
 * are unknown. */
static void record_of_another_moment(void **state)
{
    (void)state;
    static ground g;
    static const struct {
        uint64_t owner, bucket, versions; /* of the record */
    } cases[] = {{0, HERE, 0},           {FIRST, HERE, 1},
                 {FIRST, HERE + 1, 0},   {FIRST, BUCKETS, 0},
                 {FIRST, UINT64_MAX, 0}, {SECOND, HERE, 7},
                 {0, UINT64_MAX, 12345}, {SECOND, UINT64_MAX / 64, 0}};
    for (unsigned i = 0; i < 3 * sizeof cases / sizeof cases[0]; i++) {
        weir_line l = line_of(3), got;
        uint64_t header = l.word[0];
        unsigned c = i / 3;
        l.word[0] = locked_by(header, FIRST, 5);
        memset(&g, 0, sizeof g);
        fill(&g.buckets[HERE], &l);
        weir_undo_record *r = &g.undo[4];
        port_word_store_release(&r->owner, cases[c].owner);
        port_word_store_release(&r->bucket, cases[c].bucket);
        port_word_store_release(&r->header, header + cases[c].versions * WEIR_VERSION_ONE);
        weir_bucket_array k = keeper_of(&g, LAST);
        if (i % 3 == 1)
            weir_bucket_repair_all(&k);
        if (i % 3 == 2) {
            weir_bucket_repair_locks(&k);
            assert_false(weir_is_locked(&g.buckets[HERE]));
        }
        weir_bucket_copy(&k, &g.buckets[HERE], &got);
        assert_int_equal(weir_line_live(&got), 0);
        assert_true(got.word[0] & WEIR_OVERFLOWED); /* its old value is unknown */
        assert_int_equal(port_load_relaxed(&g.damaged), 3);
        assert_int_equal(port_word_load_relaxed(&r->owner), 0);
    }
}

/* An invalid bucket is emptied when it is read, locked or not. */
static void invalid_bucket(void **state)
{
    (void)state;
    static ground g;
    uint64_t seed = 6, unsound = 0;
    for (int i = 0; i < 3000; i++) {
        weir_line l, got;
        memset(&g, 0, sizeof g);
        for (unsigned w = 0; w < WEIR_LINE_WORDS; w++)
            l.word[w] = next_random(&seed);
        bool locked = l.word[0] & WEIR_LOCKED;
        if (locked) /* by a dead process, without a record and with a random one */
            l.word[0] = locked_by(l.word[0], FIRST, i % 3 == 0 ? 1 + l.word[1] % 255 : 0);
        for (unsigned n = 0; n < WEIR_UNDO_RECORDS; n++) {
            port_word_store_release(&g.undo[n].owner, next_random(&seed) % 4);
            port_word_store_release(&g.undo[n].bucket, next_random(&seed) % 4);
            port_word_store_release(&g.undo[n].header, l.word[0] >> 28 & ~(uint64_t)1);
        }
        bool sound = weir_line_sound(&l);
        fill(&g.buckets[HERE], &l);
        weir_bucket_array k = keeper_of(&g, LAST);
        if (locked && i % 3 && i % 2) {
            weir_bucket_repair_locks(&k);
            got.word[0] = port_word_load_relaxed(&g.buckets[HERE].word[0]);
            assert_true(weir_line_sound(&got));
        }
        weir_bucket_copy(&k, &g.buckets[HERE], &got);
        assert_true(weir_line_sound(&got));
        if (!sound && (!locked || i % 3)) {
            assert_int_equal(weir_line_live(&got), 0);
            assert_int_equal(port_load_relaxed(&g.damaged), __builtin_popcount(weir_line_live(&l)));
            unsound++;
        }
    }
    assert_true(unsound > 1000);
}

/* Dead writers may own all undo records: live ones still find a free record. */
static void all_records_left(void **state)
{
    (void)state;
    static ground g;
    memset(&g, 0, sizeof g);
    for (unsigned i = 0; i < WEIR_UNDO_RECORDS; i++)
        port_word_store_release(&g.undo[i].owner, 1 + i % 3);
    weir_line l = line_of(2);
    fill(&g.buckets[HERE], &l);
    weir_line_drop(&l, 1);
    weir_line_add(&l, &(weir_bucket_entry){.tag = 5, .fresh_at_ns = 9, .form = WEIR_FORM_LONG});
    pair p = {.line = l};
    assert_true(run_until(&g, LAST, 0, write_pair, &p));
    weir_bucket_array k = keeper_of(&g, LAST);
    weir_bucket_copy(&k, &g.buckets[HERE], &l);
    assert_int_equal(__builtin_popcount(weir_line_live(&l)), 2);
    assert_in_range(weir_line_find(&l, 5, false), 0, 3);
    assert_in_range(weir_line_find(&l, 101, false), 0, 3);
}

/* ---- threads --------------------------------------------------------------------------------- */

enum { WORKERS = 4, ROUNDS = 20000 };

typedef struct worker {
    pthread_barrier_t *start;
    ground *g;
    uint64_t seed;
    uint64_t added;
    int failures;
} worker;

/* An entry whose words all have the same value. The forms differ, so that entries are moved. */
static weir_bucket_entry entry_saying(uint64_t tag, uint64_t n)
{
    static const weir_form of[] = {WEIR_FORM_ONE, WEIR_FORM_LONG, WEIR_FORM_SHORT, WEIR_FORM_TIME};
    weir_bucket_entry e = {.tag = tag, .fresh_at_ns = (int64_t)n, .form = of[n % 4]};
    for (unsigned w = 0; w < words_of[e.form]; w++)
        e.words[w] = n;
    return e;
}

static int rubbish_in(const weir_line *l)
{
    int failures = 0;
    for (unsigned i = 0; i < WEIR_LINE_ENTRIES; i++) {
        if (!(weir_line_live(l) >> i & 1))
            continue;
        weir_bucket_entry e = weir_line_get(l, i);
        weir_bucket_entry want = entry_saying(e.tag, (uint64_t)e.fresh_at_ns);
        failures += !same_entry(&e, &want) || e.tag < 1 || e.tag > 2;
    }
    return failures;
}

static void *work(void *arg)
{
    worker *w = arg;
    weir_bucket_array k = keeper_of(w->g, LAST);
    weir_bucket *b = &w->g->buckets[HERE];
    pthread_barrier_wait(w->start);
    for (int i = 0; i < ROUNDS; i++) {
        weir_line l;
        if (i % 4 != 0) {
            weir_bucket_copy(&k, b, &l);
            w->failures += rubbish_in(&l);
            continue;
        }
        uint64_t tag = 1 + next_random(&w->seed) % 2;
        weir_bucket_lock(&k, b, &l);
        w->failures += rubbish_in(&l);
        weir_line line = l;
        unsigned at = weir_line_find(&line, tag, false);
        uint64_t n = at < WEIR_LINE_ENTRIES ? (uint64_t)weir_line_get(&line, at).fresh_at_ns : 0;
        weir_bucket_entry e = entry_saying(tag, n + 1);
        if (at < WEIR_LINE_ENTRIES)
            weir_line_drop(&line, 1u << at);
        w->failures += !weir_line_fits(&line, e.form);
        weir_line_add(&line, &e);
        weir_bucket_commit(&k, b, &l, &line);
        w->added++;
    }
    return NULL;
}

/* Readers see a bucket as one writer left it, and no change is lost. */
static void threads(void **state)
{
    (void)state;
    static ground g;
    memset(&g, 0, sizeof g);
    pthread_t threads[WORKERS];
    worker workers[WORKERS];
    pthread_barrier_t start;
    assert_int_equal(pthread_barrier_init(&start, NULL, WORKERS), 0);
    for (unsigned n = 0; n < WORKERS; n++) {
        workers[n] = (worker){.start = &start, .g = &g, .seed = n};
        assert_int_equal(pthread_create(&threads[n], NULL, work, &workers[n]), 0);
    }
    uint64_t added = 0, found = 0;
    for (unsigned n = 0; n < WORKERS; n++) {
        pthread_join(threads[n], NULL);
        assert_int_equal(workers[n].failures, 0);
        added += workers[n].added;
    }
    pthread_barrier_destroy(&start);
    weir_bucket_array k = keeper_of(&g, LAST);
    weir_line l;
    weir_bucket_copy(&k, &g.buckets[HERE], &l);
    for (uint64_t tag = 1; tag <= 2; tag++)
        found += (uint64_t)weir_line_get(&l, weir_line_find(&l, tag, false)).fresh_at_ns;
    assert_int_equal(found, added);
    for (unsigned i = 0; i < WEIR_UNDO_RECORDS; i++)
        assert_int_equal(port_word_load_relaxed(&g.undo[i].owner), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(forms),
        cmocka_unit_test(lines_are_as_the_model),
        cmocka_unit_test(dropped_entries_are_reused),
        cmocka_unit_test(any_bytes),
        cmocka_unit_test(every_layout),
        cmocka_unit_test(writers_are_killed),
        cmocka_unit_test(lock_without_record),
        cmocka_unit_test(one_thread_repairs),
        cmocka_unit_test(record_of_another_moment),
        cmocka_unit_test(invalid_bucket),
        cmocka_unit_test(all_records_left),
        cmocka_unit_test(threads),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
