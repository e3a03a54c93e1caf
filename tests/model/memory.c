/* SPDX-License-Identifier: BSD-2-Clause */
#include "memory.h"

#include <stdalign.h>
#include <string.h>

enum {
    PLACES = 512,
    HISTORY = 64,
    STORES = 1 << 14,
    GAP = 1 << 16, /* between two stores of a history, for stores that are put between them */
    ARENA = 5 << 18,
    RECORDS = 1 << 10,
};

/* What a thread knows: the last store that it has seen of each word, and of plain memory the
 * accesses of each thread up to a time. */
typedef struct view {
    uint32_t at[PLACES];
    uint32_t clock[MODEL_THREADS];
} view;

typedef struct store {
    uint64_t value, serial;
    uint32_t at; /* its position in modification order */
    unsigned thread;
    bool is_swap;       /* nothing may come between it and the store before it */
    bool read_by_other; /* another thread has read it */
    view seen;          /* what a thread that acquires it sees */
} store;

typedef struct history {
    uint64_t *word;
    unsigned len;
    store *of[HISTORY];
} history;

/* A store of a thread that may be killed. */
typedef struct record {
    store *store; /* NULL: plain memory */
    unsigned place;
    uint64_t *word, old; /* of plain memory */
    unsigned fences;     /* fences before it */
    bool release;
    bool decides; /* a compare-and-swap: what follows depends on its result */
} record;

typedef struct thread {
    view now, acquired, released;
    unsigned fences, records;
    record record[RECORDS];
} thread;

typedef struct shadow {
    uint64_t execution; /* the rest is valid for this execution only */
    uint32_t store, load[MODEL_THREADS];
    unsigned writer;
} shadow;

static alignas(4096) unsigned char arena[ARENA], saved[ARENA];
static size_t arena_used;
static shadow shadows[ARENA / 8];

static thread threads[MODEL_THREADS];
static unsigned recorded;
static history places[PLACES];
static unsigned places_len;
static struct {
    uint64_t execution;
    unsigned place;
} place_of[ARENA / 8];
static store stores[STORES];
static unsigned stores_len;
static uint64_t execution;

/* ---- the arena ------------------------------------------------------------------------------- */

void *memory_alloc(size_t bytes)
{
    void *p = arena + arena_used;
    arena_used += (bytes + 63) / 64 * 64;
    if (arena_used > ARENA)
        model_fail("the arena is full", __FILE__, __LINE__);
    return p;
}

void memory_free_all(void)
{
    memset(arena, 0, sizeof arena);
    arena_used = 0;
}

bool memory_is_shared(const void *p)
{
    return (const unsigned char *)p >= arena && (const unsigned char *)p < arena + ARENA;
}

void memory_save(void)
{
    memcpy(saved, arena, arena_used);
}

void memory_restore(void)
{
    memcpy(arena, saved, arena_used);
}

static size_t index_of(const void *p)
{
    if (!memory_is_shared(p))
        model_fail("a shared word lies outside of model_alloc()", __FILE__, __LINE__);
    return (size_t)((const unsigned char *)p - arena) / 8;
}

/* ---- views ----------------------------------------------------------------------------------- */

static void join(view *to, const view *from)
{
    for (unsigned i = 0; i < places_len; i++)
        to->at[i] = to->at[i] > from->at[i] ? to->at[i] : from->at[i];
    for (unsigned i = 0; i < MODEL_THREADS; i++)
        to->clock[i] = to->clock[i] > from->clock[i] ? to->clock[i] : from->clock[i];
}

static void copy(view *to, const view *from)
{
    memcpy(to->at, from->at, places_len * sizeof *to->at);
    memcpy(to->clock, from->clock, sizeof to->clock);
}

static void see(view *v, unsigned place, uint32_t at)
{
    v->at[place] = v->at[place] > at ? v->at[place] : at;
}

/* ---- histories ------------------------------------------------------------------------------- */

static store *new_store(unsigned thread, uint64_t value)
{
    if (stores_len == STORES)
        model_fail("too many stores", __FILE__, __LINE__);
    store *s = &stores[stores_len++];
    s->value = value;
    s->serial = stores_len;
    s->thread = thread;
    s->is_swap = s->read_by_other = false;
    return s;
}

/* Adds a place to all views. */
static void add_place(uint64_t *word)
{
    unsigned place = places_len++;
    if (places_len > PLACES)
        model_fail("too many words", __FILE__, __LINE__);
    for (unsigned i = 0; i < stores_len; i++)
        stores[i].seen.at[place] = 0;
    for (unsigned t = 0; t < MODEL_THREADS; t++)
        threads[t].now.at[place] = threads[t].acquired.at[place] = threads[t].released.at[place] =
            0;
    places[place].word = word;
    places[place].len = 1;
    store *first = places[place].of[0] = new_store(MODEL_THREADS, *word);
    first->serial = 0; /* it was there from the beginning */
    first->at = 0;
    memset(&first->seen, 0, sizeof first->seen);
}

unsigned memory_place(const void *word)
{
    size_t i = index_of(word);
    if (place_of[i].execution != execution) {
        place_of[i].execution = execution;
        place_of[i].place = places_len;
        add_place((uint64_t *)(arena + i * 8));
    }
    return place_of[i].place;
}

uint64_t memory_serial(void)
{
    return stores_len;
}

void memory_begin(unsigned mortal)
{
    execution++;
    places_len = stores_len = 0;
    recorded = mortal;
    for (unsigned t = 0; t < MODEL_THREADS; t++) {
        memset(threads[t].now.clock, 0, sizeof threads[t].now.clock);
        memset(threads[t].acquired.clock, 0, sizeof threads[t].acquired.clock);
        memset(threads[t].released.clock, 0, sizeof threads[t].released.clock);
        threads[t].now.clock[t] = 1;
        threads[t].fences = threads[t].records = 0;
    }
}

/* The memory itself has the last store of each word. */
static void write_last(const history *h)
{
    *h->word = h->of[h->len - 1]->value;
}

/* ---- loads and stores ------------------------------------------------------------------------ */

/* Whether another store may be put right after store i. */
static bool is_open(const history *h, unsigned i)
{
    return i + 1 == h->len || !h->of[i + 1]->is_swap;
}

unsigned memory_options(unsigned thread, unsigned place, const memory_limits *m,
                        unsigned ret[MEMORY_OPTIONS])
{
    const history *h = &places[place];
    uint32_t at = threads[thread].now.at[place];
    unsigned n = 0;
    for (unsigned i = h->len; i-- > 0 && h->of[i]->at >= at;) {
        const store *s = h->of[i];
        if ((m->unseen && s->at <= at) || (m->last && i + 1 != h->len) ||
            (m->newer_than > 0 && s->serial <= m->newer_than) ||
            (m->is_cas && s->value == m->expected && !is_open(h, i)))
            continue;
        ret[n++] = i;
    }
    return n;
}

uint64_t memory_load(unsigned thread, unsigned place, unsigned option, bool acquire)
{
    store *s = places[place].of[option];
    s->read_by_other |= s->thread != thread;
    see(&threads[thread].now, place, s->at);
    see(&threads[thread].acquired, place, s->at);
    join(&threads[thread].acquired, &s->seen);
    if (acquire)
        join(&threads[thread].now, &s->seen);
    return s->value;
}

static void note(unsigned thread, record r)
{
    if (!(recorded >> thread & 1))
        return;
    if (threads[thread].records == RECORDS)
        model_fail("too many stores of a thread that may be killed", __FILE__, __LINE__);
    r.fences = threads[thread].fences;
    threads[thread].record[threads[thread].records++] = r;
}

/* Puts a store right after store i of its history. */
static void put(unsigned thread, unsigned place, unsigned i, store *s, bool release)
{
    history *h = &places[place];
    if (h->len == HISTORY)
        model_fail("too many stores to a word", __FILE__, __LINE__);
    s->at = i + 1 == h->len ? h->of[i]->at + GAP : (h->of[i]->at + h->of[i + 1]->at) / 2;
    memmove(&h->of[i + 2], &h->of[i + 1], (h->len - i - 1) * sizeof *h->of);
    h->of[i + 1] = s;
    h->len++;
    see(&threads[thread].now, place, s->at);
    see(&threads[thread].acquired, place, s->at);
    copy(&s->seen, release ? &threads[thread].now : &threads[thread].released);
    see(&s->seen, place, s->at);
    threads[thread].now.clock[thread]++;
    write_last(h);
}

void memory_store(unsigned thread, unsigned place, uint64_t x, bool release)
{
    const history *h = &places[place];
    unsigned after[HISTORY], n = 0;
    for (unsigned i = h->len; i-- > 0 && h->of[i]->at >= threads[thread].now.at[place];) {
        if (is_open(h, i))
            after[n++] = i;
    }
    unsigned i = after[memory_choose(n)];
    store *s = new_store(thread, x);
    put(thread, place, i, s, release);
    note(thread, (record){.store = s, .place = place, .release = release});
}

void memory_swap(unsigned thread, unsigned place, unsigned option, uint64_t x, model_order order,
                 bool is_cas)
{
    const store *before = places[place].of[option];
    store *s = new_store(thread, x);
    s->is_swap = true;
    put(thread, place, option, s, order == MODEL_RELEASE);
    join(&s->seen, &before->seen); /* it continues the release sequence */
    note(
        thread,
        (record){.store = s, .place = place, .release = order == MODEL_RELEASE, .decides = is_cas});
}

void memory_fence(unsigned thread)
{
    copy(&threads[thread].released, &threads[thread].now);
    threads[thread].now.clock[thread]++;
    threads[thread].fences++;
}

/* ---- plain memory ---------------------------------------------------------------------------- */

static void plain_word(unsigned thread, size_t i, bool is_store)
{
    shadow *s = &shadows[i];
    const uint32_t *clock = threads[thread].now.clock;
    if (s->execution != execution)
        *s = (shadow){.execution = execution};
    if (s->store > clock[s->writer])
        model_fail("data race", __FILE__, __LINE__);
    for (unsigned t = 0; is_store && t < MODEL_THREADS; t++) {
        if (s->load[t] > clock[t])
            model_fail("data race", __FILE__, __LINE__);
    }
    if (!is_store) {
        s->load[thread] = clock[thread];
        return;
    }
    uint64_t *word = (uint64_t *)(arena + i * 8);
    s->store = clock[thread];
    s->writer = thread;
    note(thread, (record){.word = word, .old = *word});
}

bool memory_was_plain(const void *word)
{
    const shadow *s = &shadows[index_of(word)];
    return s->execution == execution && s->store > 0;
}

void memory_plain(unsigned thread, const void *p, size_t n, bool is_store)
{
    if (n == 0)
        return;
    size_t last = index_of((const unsigned char *)p + n - 1);
    for (size_t i = index_of(p); i <= last; i++)
        plain_word(thread, i, is_store);
}

/* ---- death ----------------------------------------------------------------------------------- */

/* Whether store b cannot take effect unless store a has. a comes first in the program. */
static bool must_precede(const record *a, const record *b)
{
    return b->release || a->decides || b->fences > a->fences ||
           (a->store ? b->store && a->place == b->place : a->word == b->word);
}

/* Finds the stores that are missing if record i is. Returns false if all later ones are, since an
 * earlier death leaves the same, or if another thread has read a missing store. */
static bool can_miss(const thread *t, unsigned i, bool *ret_missing)
{
    for (unsigned j = 0; j < t->records; j++) {
        const record *r = &t->record[j];
        ret_missing[j] = j == i;
        for (unsigned k = i; k < j && !ret_missing[j]; k++)
            ret_missing[j] = ret_missing[k] && must_precede(&t->record[k], r);
        if (ret_missing[j] && r->store && r->store->read_by_other)
            return false;
    }
    return !ret_missing[t->records - 1];
}

static void undo(thread *t, const record *r)
{
    if (!r->store) {
        *r->word = r->old;
        return;
    }
    history *h = &places[r->place];
    unsigned i = 0;
    while (h->of[i] != r->store)
        i++;
    memmove(&h->of[i], &h->of[i + 1], (h->len - i - 1) * sizeof *h->of);
    h->len--;
    for (i = h->len; i-- > 0 && h->of[i]->at > t->now.at[r->place];) {
    }
    t->now.at[r->place] = h->of[i]->at;
    write_last(h);
}

void memory_kill(unsigned thread)
{
    struct thread *t = &threads[thread];
    unsigned candidate[RECORDS], n = 0;
    bool missing[RECORDS];
    for (unsigned i = 0; i < t->records; i++) {
        if (can_miss(t, i, missing))
            candidate[n++] = i;
    }
    unsigned choice = memory_choose(n + 1);
    if (choice == 0)
        return;
    can_miss(t, candidate[choice - 1], missing);
    for (unsigned i = t->records; i-- > 0;) {
        if (missing[i])
            undo(t, &t->record[i]);
    }
}

void memory_learn(unsigned thread, unsigned dead)
{
    join(&threads[thread].now, &threads[dead].now);
    join(&threads[thread].acquired, &threads[dead].now);
}
