/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* A bucket of the hash table: operations on a private copy, the lock, the undo log, and the repair
 * after a crash. Under the lock, words are stored with release, for readers that take no lock. */

#include "store/table/bucket.h"

#include "port/port.h"
#include "store/table/word.h"

/* Tries until a lock with our id counts as damage. A thread holds a lock for a few dozen
 * instructions, and some page faults, which may wait for the disk. Each try lets it run, so that a
 * stopped machine does not matter. The first tries yield. The others sleep, together for two
 * seconds, also on a busy processor. Fuzz targets have one thread. */
#define YIELDS_OWN (1u << 12)
#ifdef FUZZING_BUILD_MODE_UNSAFE_FOR_PRODUCTION
#define WAIT_OWN YIELDS_OWN
#else
#define WAIT_OWN (YIELDS_OWN + (1u << 11))
#endif

enum {
    SPINS = 64,    /* tries before the thread yields */
    BACK_OFF = 16, /* pauses between two tries, about 300 ns */
    YIELDS = 64,   /* yields between two checks that the lock's owner is alive */
    TAG_UNITS = 3,
};

/* By form: words in the bucket, and units beside those of the tag. */
static const uint8_t form_cells[] = {0, 1, 1, 1, 2, 3, 4, 6};
static const uint8_t form_extra[] = {0, 0, 2, 3, 0, 0, 0, 0};

unsigned weir_form_words(weir_form form)
{
    return form_extra[form] ? 1 : form_cells[form] ? form_cells[form] - 1u : 0;
}

static const uint8_t form_units[] = {0, 7, 9, 10, 11, 15, 19, 27};

unsigned weir_form_units(weir_form form)
{
    WEIR_ASSERT(form == WEIR_FORM_NONE ||
                form_units[form] == 4u * form_cells[form] + TAG_UNITS + form_extra[form]);
    return form_units[form];
}

/* ---- a private copy of a bucket -------------------------------------------------------------- */

static unsigned code_of(const weir_line *l, unsigned i)
{
    return (unsigned)(l->word[0] >> WEIR_CODE_AT(i)) & 15;
}

/* Where an entry lies: its first word, and the distance of its units from the back. */
typedef struct spot {
    unsigned word, unit;
} spot;

static spot spot_of(const weir_line *l, unsigned i)
{
    spot s = {1, 0};
    for (unsigned j = 0; j < i; j++) {
        weir_form form = weir_line_form(l, j);
        s.word += form_cells[form];
        s.unit += weir_form_units(form) - 4u * form_cells[form];
    }
    return s;
}

/* The number of entries, live or free. */
static unsigned entries(const weir_line *l)
{
    unsigned n = 0;
    while (n < WEIR_LINE_ENTRIES && weir_line_form(l, n) != WEIR_FORM_NONE)
        n++;
    return n;
}

static inline unsigned units_used(const weir_line *l)
{
    return (unsigned)form_units[weir_line_form(l, 0)] + form_units[weir_line_form(l, 1)] +
           form_units[weir_line_form(l, 2)] + form_units[weir_line_form(l, 3)];
}

static bool is_mixed(const weir_line *l)
{
    return (l->word[0] & WEIR_MIXED) != 0;
}

/* Whether the header of a bucket that is not mixed is valid. It checks all four codes at once: each
 * is 0, TIME or live TIME, and all after a 0 are 0. */
static bool times_sound(uint64_t header)
{
    uint64_t codes = (header & WEIR_CODES) >> WEIR_CODE_AT(0), times = codes & 0x1111;
    uint64_t lives = codes >> 3 & 0x1111;
    return (codes & 0x6666) == 0 && ((times >> 4 | lives) & ~times) == 0;
}

bool weir_line_sound(const weir_line *l)
{
    if (!is_mixed(l))
        return times_sound(l->word[0]);
    /* Of all four codes at once: a live entry has a form, and all entries after the last are 0. */
    uint64_t codes = (l->word[0] & WEIR_CODES) >> WEIR_CODE_AT(0);
    uint64_t forms = (codes | codes >> 1 | codes >> 2) & 0x1111, lives = codes >> 3 & 0x1111;
    return ((forms >> 4 | lives) & ~forms) == 0 && units_used(l) <= WEIR_LINE_UNITS;
}

/* Reads `n` units, 0..3. The last of them is `at` units from the back. */
static uint64_t units_get(const weir_line *l, unsigned at, unsigned n)
{
    unsigned low = 512 - 16 * (at + n), shift = low % 64;
    uint64_t x = l->word[low / 64] >> shift;
    if (shift + 16 * n > 64)
        x |= l->word[low / 64 + 1] << (64 - shift);
    return x & (((uint64_t)1 << (16 * n)) - 1);
}

static void units_set(weir_line *l, unsigned at, unsigned n, uint64_t x)
{
    WEIR_ASSERT(at + n <= WEIR_LINE_UNITS && n < 4 && x >> (16 * n) == 0);
    unsigned low = 512 - 16 * (at + n), shift = low % 64;
    uint64_t mask = ((uint64_t)1 << (16 * n)) - 1;
    uint64_t *word = &l->word[low / 64];
    word[0] = (word[0] & ~(mask << shift)) | x << shift;
    if (shift + 16 * n > 64)
        word[1] = (word[1] & ~(mask >> (64 - shift))) | x >> (64 - shift);
}

static uint64_t tag_get(const weir_line *l, unsigned i)
{
    if (is_mixed(l))
        return units_get(l, spot_of(l, i).unit, TAG_UNITS);
    uint64_t high = (uint16_t)(l->word[5] >> (16 * i));
    return high << 32 | (uint32_t)(l->word[6 + i / 2] >> (i % 2 * 32));
}

static void tag_set(weir_line *l, unsigned i, uint64_t tag)
{
    if (is_mixed(l)) {
        units_set(l, spot_of(l, i).unit, TAG_UNITS, tag);
        return;
    }
    uint64_t *low = &l->word[6 + i / 2], mask = UINT32_MAX;
    l->word[5] = (l->word[5] & ~((uint64_t)UINT16_MAX << (16 * i))) | tag >> 32 << (16 * i);
    *low = (*low & ~(mask << (i % 2 * 32))) | (tag & mask) << (i % 2 * 32);
}

unsigned weir_line_live(const weir_line *l)
{
    unsigned live = 0;
    for (unsigned i = 0; i < WEIR_LINE_ENTRIES; i++)
        live |= (code_of(l, i) >> 3) << i;
    return live;
}

/* Reads the time and words of entry i, which lies at `s`. */
static inline void read_at(const weir_line *l, spot s, weir_form form, weir_bucket_entry *ret)
{
    ret->fresh_at_ns = (int64_t)l->word[s.word];
    if (form_extra[form])
        ret->words[0] = units_get(l, s.unit + TAG_UNITS, form_extra[form]);
    for (unsigned w = 1; w < form_cells[form]; w++)
        ret->words[w - 1] = l->word[s.word + w];
}

weir_bucket_entry weir_line_get(const weir_line *l, unsigned i)
{
    WEIR_ASSERT(i < WEIR_LINE_ENTRIES);
    weir_bucket_entry e = {.tag = tag_get(l, i),
                           .form = weir_line_form(l, i),
                           .alternate = (l->word[0] & WEIR_ALTERNATE(i)) != 0};
    read_at(l, spot_of(l, i), e.form, &e);
    return e;
}

/* weir_line_find() in the mixed layout. Also returns where the entry lies. */
static inline unsigned find_mixed(const weir_line *l, uint64_t tag, bool alternate, spot *ret)
{
    spot s = {1, 0};
    for (unsigned i = 0; i < WEIR_LINE_ENTRIES; i++) {
        unsigned code = code_of(l, i), form = code & 7;
        bool is_alternate = (l->word[0] & WEIR_ALTERNATE(i)) != 0;
        if (code & WEIR_LIVE && is_alternate == alternate &&
            units_get(l, s.unit, TAG_UNITS) == tag) {
            *ret = s;
            return i;
        }
        s.word += form_cells[form];
        s.unit += form_units[form] - 4u * form_cells[form];
    }
    return WEIR_LINE_ENTRIES;
}

unsigned weir_line_lookup(const weir_line *l, uint64_t tag, bool alternate, weir_bucket_entry *ret)
{
    spot s;
    unsigned i;
    if (!is_mixed(l)) {
        i = weir_line_find(l, tag, alternate);
        if (i < WEIR_LINE_ENTRIES)
            *ret = weir_line_get(l, i);
        return i;
    }
    i = find_mixed(l, tag, alternate, &s);
    if (i < WEIR_LINE_ENTRIES) {
        *ret =
            (weir_bucket_entry){.tag = tag, .form = weir_line_form(l, i), .alternate = alternate};
        read_at(l, s, ret->form, ret);
    }
    return i;
}

unsigned weir_line_find(const weir_line *l, uint64_t tag, bool alternate)
{
    spot unused;
    if (is_mixed(l))
        return find_mixed(l, tag, alternate, &unused);
    for (unsigned i = 0; i < WEIR_LINE_ENTRIES; i++) {
        bool is_alternate = (l->word[0] & WEIR_ALTERNATE(i)) != 0;
        if (code_of(l, i) & WEIR_LIVE && is_alternate == alternate && tag_get(l, i) == tag)
            return i;
    }
    return WEIR_LINE_ENTRIES;
}

void weir_line_put(weir_line *l, unsigned i, const weir_bucket_entry *e)
{
    WEIR_ASSERT(i < WEIR_LINE_ENTRIES && e->form != WEIR_FORM_NONE && e->tag >> 48 == 0);
    spot s = spot_of(l, i);
    unsigned extra = form_extra[e->form];
    WEIR_ASSERT(s.word + form_cells[e->form] <= WEIR_LINE_WORDS);
    uint64_t code = (uint64_t)(WEIR_LIVE | e->form) << WEIR_CODE_AT(i);
    l->word[0] = (l->word[0] & ~((uint64_t)15 << WEIR_CODE_AT(i)) & ~WEIR_ALTERNATE(i)) | code |
                 (e->alternate ? WEIR_ALTERNATE(i) : 0);
    l->word[s.word] = (uint64_t)e->fresh_at_ns;
    tag_set(l, i, e->tag);
    if (extra)
        units_set(l, s.unit + TAG_UNITS, extra, e->words[0]);
    for (unsigned w = 1; w < form_cells[e->form]; w++)
        l->word[s.word + w] = e->words[w - 1];
}

/* Overwrites a live entry with one of the same key and form. */
static void overwrite(weir_line *l, unsigned i, const weir_bucket_entry *e)
{
    spot s = spot_of(l, i);
    l->word[s.word] = (uint64_t)e->fresh_at_ns;
    if (form_extra[e->form])
        units_set(l, s.unit + TAG_UNITS, form_extra[e->form], e->words[0]);
    for (unsigned w = 1; w < form_cells[e->form]; w++)
        l->word[s.word + w] = e->words[w - 1];
}

static unsigned units_live(const weir_line *l)
{
    unsigned units = 0;
    for (unsigned i = 0; i < WEIR_LINE_ENTRIES; i++)
        units += code_of(l, i) & WEIR_LIVE ? weir_form_units(weir_line_form(l, i)) : 0;
    return units;
}

bool weir_line_fits(const weir_line *l, weir_form form)
{
    return units_live(l) + weir_form_units(form) <= WEIR_LINE_UNITS;
}

/* Compacts the live entries, in the mixed layout or not. */
static void gather(weir_line *l, bool mixed)
{
    weir_line from = *l;
    unsigned to = 0;
    l->word[0] &= ~(WEIR_CODES | WEIR_MIXED | WEIR_ALTERNATES);
    l->word[0] |= mixed ? WEIR_MIXED : 0;
    for (unsigned i = 0; i < WEIR_LINE_ENTRIES; i++) {
        if (code_of(&from, i) & WEIR_LIVE) {
            weir_bucket_entry e = weir_line_get(&from, i);
            weir_line_put(l, to++, &e);
        }
    }
}

static bool has_other_forms(const weir_line *l)
{
    for (unsigned i = 0; i < WEIR_LINE_ENTRIES; i++) {
        if (code_of(l, i) & WEIR_LIVE && weir_line_form(l, i) != WEIR_FORM_TIME)
            return true;
    }
    return false;
}

/* Where an entry can be added without moving others; WEIR_LINE_ENTRIES if there is no such
 * place. */
static unsigned place_for(const weir_line *l, weir_form form)
{
    unsigned n = entries(l);
    for (unsigned i = 0; i < n; i++) {
        if (code_of(l, i) == form) /* a free entry of the same form */
            return i;
    }
    bool fits = units_used(l) + weir_form_units(form) <= WEIR_LINE_UNITS;
    return fits && n < WEIR_LINE_ENTRIES ? n : WEIR_LINE_ENTRIES;
}

void weir_line_add(weir_line *l, const weir_bucket_entry *e)
{
    WEIR_ASSERT(weir_line_fits(l, e->form));
    WEIR_ASSERT(weir_line_find(l, e->tag, e->alternate) == WEIR_LINE_ENTRIES);
    bool mixed = e->form != WEIR_FORM_TIME || has_other_forms(l);
    if (mixed != is_mixed(l))
        gather(l, mixed);
    unsigned at = place_for(l, e->form);
    if (at == WEIR_LINE_ENTRIES) {
        gather(l, mixed);
        at = entries(l);
    }
    weir_line_put(l, at, e);
    WEIR_ASSERT(weir_line_sound(l));
}

void weir_line_drop(weir_line *l, unsigned set)
{
    for (unsigned i = WEIR_LINE_ENTRIES; i-- > 0;) {
        uint64_t live = (uint64_t)WEIR_LIVE << WEIR_CODE_AT(i);
        if (set >> i & 1)
            l->word[0] &= ~live & ~WEIR_ALTERNATE(i);
        bool is_last = i + 1 == WEIR_LINE_ENTRIES || code_of(l, i + 1) == 0;
        if (is_last && !(l->word[0] & live))
            l->word[0] &= ~((uint64_t)15 << WEIR_CODE_AT(i));
    }
}

static int64_t fresh_at(const weir_line *l, unsigned i)
{
    uint64_t first = l->word[spot_of(l, i).word];
    return weir_line_form(l, i) == WEIR_FORM_TIME ? weir_word_time(first) : (int64_t)first;
}

unsigned weir_line_idle(const weir_line *l, int64_t now_ns)
{
    unsigned idle = 0;
    for (unsigned i = 0; i < WEIR_LINE_ENTRIES; i++) {
        if (code_of(l, i) & WEIR_LIVE && fresh_at(l, i) <= now_ns)
            idle |= 1u << i;
    }
    return idle;
}

unsigned weir_line_victims(const weir_line *l, weir_form form,
                           const uint64_t rank[WEIR_LINE_ENTRIES], uint64_t *ret_rank)
{
    unsigned drop = 0, live = weir_line_live(l), units = units_live(l);
    *ret_rank = 0;
    while (units + weir_form_units(form) > WEIR_LINE_UNITS) {
        unsigned best = WEIR_LINE_ENTRIES;
        for (unsigned i = 0; i < WEIR_LINE_ENTRIES; i++) {
            if ((live & ~drop) >> i & 1 && (best == WEIR_LINE_ENTRIES || rank[i] < rank[best]))
                best = i;
        }
        WEIR_ASSERT(best < WEIR_LINE_ENTRIES);
        drop |= 1u << best;
        units -= weir_form_units(weir_line_form(l, best));
        *ret_rank = rank[best];
    }
    return drop;
}

/* ---- repair ---------------------------------------------------------------------------------- */

static uint64_t owner_of(uint64_t header)
{
    return header >> WEIR_LOCK_OWNER_AT & (((uint64_t)1 << WEIR_PROCESS_ID_BITS) - 1);
}

static bool owner_died(const weir_bucket_array *a, uint64_t owner)
{
    return (a->opening && owner == a->processes->self) ||
           !weir_process_is_alive(a->processes, owner);
}

static unsigned undo_of(uint64_t header)
{
    return (unsigned)(header >> WEIR_UNDO_AT) & 255;
}

/* A header with a version that no reader can have seen. The low bits of the version follow those in
 * the locked header, and its high bits are the current time. */
static uint64_t unseen_header(uint64_t contents, uint64_t locked)
{
    uint64_t version = (uint64_t)port_steady_ns() << 13 | ((locked >> WEIR_REMEMBERED_AT) + 2);
    return (version << WEIR_VERSION_AT & ~WEIR_VERSION_ODD) | (contents & WEIR_CONTENTS);
}

static void empty(const weir_bucket_array *a, weir_bucket *b, uint64_t locked)
{
    weir_line l = {.word = {locked}};
    port_add_relaxed(a->damaged, (uint64_t)__builtin_popcount(weir_line_live(&l)));
    port_word_store_release(&b->word[0], unseen_header(WEIR_OVERFLOWED, locked));
}

/* Restores the old contents from an undo record, if the record belongs to this lock. */
static void restore(const weir_bucket_array *a, weir_bucket *b, uint64_t locked,
                    const weir_undo_record *r)
{
    uint64_t before = port_word_load_relaxed(&r->header);
    bool is_it = port_word_load_relaxed(&r->bucket) == (uint64_t)(b - a->buckets) &&
                 before >> WEIR_VERSION_AT << WEIR_REMEMBERED_AT ==
                     locked >> WEIR_REMEMBERED_AT << WEIR_REMEMBERED_AT;
    if (!is_it) {
        empty(a, b, locked);
        return;
    }
    for (unsigned i = 1; i < WEIR_LINE_WORDS; i++)
        port_word_store_release(&b->word[i], port_word_load_relaxed(&r->word[i - 1]));
    port_word_store_release(&b->word[0], unseen_header(before, locked));
}

/* Repairs a bucket whose lock owner died. Several threads may try at once; one of them succeeds. */
static void repair(const weir_bucket_array *a, weir_bucket *b, uint64_t locked)
{
    uint64_t owner_id = owner_of(locked);
    unsigned undo = undo_of(locked);
    if (undo == 0) {
        weir_line l = {.word = {locked}};
        uint64_t ours = locked ^ (owner_id ^ a->processes->self) << WEIR_LOCK_OWNER_AT;
        if (!port_word_cas_acquire(&b->word[0], &locked, ours))
            return;
        if (weir_line_sound(&l))
            port_word_store_release(&b->word[0], unseen_header(locked, locked));
        else
            empty(a, b, locked);
        return;
    }
    /* The record belongs to the dead owner, or to a process that was killed during this repair. */
    weir_undo_record *r = &a->undo[undo - 1];
    uint64_t owner = port_word_load_relaxed(&r->owner);
    bool is_dead = owner == owner_id || (owner != 0 && owner_died(a, owner));
    if (is_dead && port_word_cas_acquire(&r->owner, &owner, a->processes->self)) {
        bool is_there = port_word_load_relaxed(&b->word[0]) == locked;
        if (is_there)
            restore(a, b, locked, r);
        /* The record may have been reused. Release: a thread that finds the record free sees the
         * repaired bucket. */
        port_word_store_release(&r->owner, is_there ? 0 : owner);
    } else if (port_word_load_acquire(&r->owner) == 0 &&
               port_word_load_relaxed(&b->word[0]) == locked) {
        /* Nobody has repaired the bucket: with acquire, its header is not older than the record.
         * Header and record are from different moments, so a power failure damaged the file. */
        if (port_word_cas_acquire(&b->word[0], &locked, weir_header_lock(a, locked)))
            empty(a, b, locked);
    }
}

/* Gives a lock with our id, which no thread holds, to a process that does not exist, so that one
 * thread repairs the bucket. A record cannot belong to the lock: it would have been repaired at the
 * opening. So a bucket whose lock refers to one has unknown contents, and becomes empty. */
static void disown(const weir_bucket_array *a, weir_bucket *b, uint64_t locked)
{
    weir_line l = {.word = {locked}};
    uint64_t remembered = locked >> WEIR_REMEMBERED_AT << WEIR_REMEMBERED_AT;
    bool is_known = undo_of(locked) == 0;
    uint64_t contents = is_known ? locked & WEIR_CONTENTS : WEIR_OVERFLOWED;
    if (port_word_cas_acquire(&b->word[0], &locked, remembered | contents | WEIR_LOCKED))
        port_add_relaxed(a->damaged,
                         1 + (is_known ? 0 : (uint64_t)__builtin_popcount(weir_line_live(&l))));
}

uint64_t weir_bucket_wait(const weir_bucket_array *a, weir_bucket *b)
{
    uint64_t before = 0;
    unsigned own = 0; /* tries since the header, with our id, is `before` */
    for (unsigned spins = 0;; spins++) {
        uint64_t header = port_word_load_acquire(&b->word[0]);
        if (!(header & WEIR_LOCKED))
            return header;
        own = header == before && owner_of(header) == a->processes->self ? own + 1 : 0;
        before = header;
        if (own == WAIT_OWN) {
            disown(a, b, header);
        } else if (spins < SPINS) {
            port_pause();
            port_back_off(BACK_OFF);
        } else if (own >= YIELDS_OWN) {
            port_nap();
        } else if (spins % YIELDS != 0 || !owner_died(a, owner_of(header))) {
            port_yield(); /* the lock's owner may be waiting for this processor */
        } else {
            repair(a, b, header);
        }
    }
}

/* Frees a record whose process died. */
static void reclaim(const weir_bucket_array *a, unsigned i)
{
    weir_undo_record *r = &a->undo[i];
    uint64_t owner = port_word_load_acquire(&r->owner);
    if (owner == 0 || !owner_died(a, owner))
        return;
    uint64_t at = port_word_load_relaxed(&r->bucket);
    weir_bucket *b = &a->buckets[at < a->buckets_len ? at : 0];
    uint64_t header = port_word_load_acquire(&b->word[0]);
    if (header & WEIR_LOCKED && undo_of(header) == i + 1 && owner_died(a, owner_of(header)))
        repair(a, b, header);
    else
        (void)port_word_cas_acquire(&r->owner, &owner, 0);
}

void weir_bucket_repair_all(const weir_bucket_array *a)
{
    for (unsigned i = 0; i < WEIR_UNDO_RECORDS; i++)
        reclaim(a, i);
}

void weir_bucket_repair_locks(const weir_bucket_array *a)
{
    for (uint64_t i = 0; i < a->buckets_len; i++) {
        uint64_t header = port_word_load_acquire(&a->buckets[i].word[0]);
        if (header & WEIR_LOCKED && owner_died(a, owner_of(header)))
            repair(a, &a->buckets[i], header);
    }
}

/* ---- reading and writing --------------------------------------------------------------------- */

void weir_bucket_copy(const weir_bucket_array *a, weir_bucket *b, weir_line *ret)
{
    for (;;) {
        ret->word[0] = weir_bucket_read(a, b);
#pragma GCC unroll 7
        for (unsigned i = 1; i < WEIR_LINE_WORDS; i++)
            ret->word[i] = port_word_load_acquire(&b->word[i]);
        if (!weir_bucket_same(b, ret->word[0]))
            continue;
        if (__builtin_expect(weir_line_sound(ret), 1))
            return;
        /* No writer stores such a header: the file or the memory is damaged. */
        if (weir_bucket_try_lock(a, b, ret->word[0]))
            empty(a, b, weir_header_lock(a, ret->word[0]));
    }
}

void weir_bucket_lock(const weir_bucket_array *a, weir_bucket *b, weir_line *ret)
{
    do
        weir_bucket_copy(a, b, ret);
    while (!weir_bucket_try_lock(a, b, ret->word[0]));
}

/* The entries of `old` that are unchanged in `line`. Sets *ret_moved if an entry of both has
 * changed or moved. */
static unsigned unchanged(const weir_line *old, const weir_line *line, bool *ret_moved)
{
    unsigned same = 0, live = weir_line_live(old);
    for (unsigned i = 0; i < WEIR_LINE_ENTRIES; i++) {
        if (!(live >> i & 1))
            continue;
        weir_bucket_entry before = weir_line_get(old, i);
        unsigned at = weir_line_find(line, before.tag, before.alternate);
        if (at == WEIR_LINE_ENTRIES)
            continue;
        weir_bucket_entry now = weir_line_get(line, at);
        spot was = spot_of(old, i), is = spot_of(line, at);
        bool alike = is_mixed(old) == is_mixed(line) && at == i && was.word == is.word &&
                     was.unit == is.unit && now.form == before.form &&
                     now.fresh_at_ns == before.fresh_at_ns;
        for (unsigned w = 0; alike && w < weir_form_words(now.form); w++)
            alike = now.words[w] == before.words[w];
        if (alike)
            same |= 1u << i;
        else
            *ret_moved = true;
    }
    return same;
}

/* Takes a free undo record. Waits if there is none: records are in use for a few dozen
 * instructions. */
static unsigned claim_undo(const weir_bucket_array *a)
{
    /* The address differs between threads: each begins with a record that is in its cache. */
    static _Thread_local char mine;
    size_t n = ((uintptr_t)&mine >> 12) % WEIR_UNDO_RECORDS;
    for (unsigned tries = 0;; tries++, n = (n + 1) % WEIR_UNDO_RECORDS) {
        uint64_t owner = port_word_load_relaxed(&a->undo[n].owner);
        if (owner == 0 && port_word_cas_acquire(&a->undo[n].owner, &owner, a->processes->self))
            return (unsigned)n;
        if (tries > WEIR_UNDO_RECORDS) {
            port_yield();
            reclaim(a, (unsigned)n);
        }
    }
}

/* Saves the old contents of a locked bucket in an undo record, and refers to it in the header.
 * Returns the number of the record, which is not 0. */
static unsigned save_undo(const weir_bucket_array *a, weir_bucket *b, const weir_line *old)
{
    unsigned undo = claim_undo(a) + 1;
    weir_undo_record *r = &a->undo[undo - 1];
    port_word_store_relaxed(&r->bucket, (uint64_t)(b - a->buckets));
#pragma GCC unroll 7
    for (unsigned i = 1; i < WEIR_LINE_WORDS; i++)
        port_word_store_relaxed(&r->word[i - 1], old->word[i]);
    port_word_store_relaxed(&r->header, old->word[0]);
    /* Release: a thread that reads the record's number here also reads the record. */
    port_word_store_release(&b->word[0],
                            weir_header_lock(a, old->word[0]) | (uint64_t)undo << WEIR_UNDO_AT);
    return undo;
}

/* Pairs with claim_undo(): the next owner overwrites the record. */
static void release_undo(const weir_bucket_array *a, unsigned undo)
{
    port_word_store_release(&a->undo[undo - 1].owner, 0);
}

static void write_words(weir_bucket *b, const weir_line *old, const weir_line *line)
{
#pragma GCC unroll 7
    for (unsigned i = 1; i < WEIR_LINE_WORDS; i++) {
        if (line->word[i] != old->word[i])
            port_word_store_release(&b->word[i], line->word[i]);
    }
}

/* weir_bucket_commit() of a line whose header is unchanged: entries are overwritten in place. */
static void commit_in_place(const weir_bucket_array *a, weir_bucket *b, const weir_line *old,
                            const weir_line *line)
{
    unsigned differ = 0, undo = 0;
#pragma GCC unroll 7
    for (unsigned i = 1; i < WEIR_LINE_WORDS; i++)
        differ += old->word[i] != line->word[i];
    if (differ > 1)
        undo = save_undo(a, b, old);
    write_words(b, old, line);
    weir_bucket_publish(b, old->word[0]);
    if (undo)
        release_undo(a, undo);
}

void weir_bucket_set(const weir_bucket_array *a, weir_bucket *b, const weir_line *old, unsigned i,
                     const weir_bucket_entry *e)
{
    weir_line line;
    WEIR_ASSERT(weir_is_locked(b) && code_of(old, i) == (WEIR_LIVE | e->form));
    if (e->form != WEIR_FORM_ONE) {
        line = *old;
        overwrite(&line, i, e);
        commit_in_place(a, b, old, &line);
        return;
    }
    unsigned undo = save_undo(a, b, old), word = spot_of(old, i).word;
    port_word_store_release(&b->word[word], (uint64_t)e->fresh_at_ns);
    port_word_store_release(&b->word[word + 1], e->words[0]);
    weir_bucket_publish(b, old->word[0]);
    release_undo(a, undo);
}

void weir_bucket_commit(const weir_bucket_array *a, weir_bucket *b, const weir_line *old,
                        const weir_line *line)
{
    WEIR_ASSERT(weir_is_locked(b) &&
                owner_of(port_word_load_relaxed(&b->word[0])) == a->processes->self);
    WEIR_ASSERT(weir_line_sound(old) && weir_line_sound(line));
    if (((old->word[0] ^ line->word[0]) & WEIR_CONTENTS) == 0) {
        commit_in_place(a, b, old, line);
        return;
    }
    bool moved = false;
    unsigned undo = 0, live = weir_line_live(old), same = unchanged(old, line, &moved);
    if (moved) {
        undo = save_undo(a, b, old);
    } else if (same != live) {
        /* Drop them before their words change, even if they moved to their alternate bucket. */
        uint64_t locked = weir_header_lock(a, old->word[0]);
        weir_line fewer = {.word = {locked | (line->word[0] & WEIR_OVERFLOWED)}};
        weir_line_drop(&fewer, live & ~same);
        port_word_store_release(&b->word[0], fewer.word[0]);
    }
    write_words(b, old, line);
    uint64_t version = old->word[0] & ~(WEIR_CONTENTS | WEIR_LOCKED | WEIR_VERSION_ODD);
    port_word_store_release(&b->word[0],
                            (version + WEIR_VERSION_ONE) | (line->word[0] & WEIR_CONTENTS));
    if (undo)
        release_undo(a, undo);
}
