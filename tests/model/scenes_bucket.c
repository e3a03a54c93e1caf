/* SPDX-License-Identifier: BSD-2-Clause */
/* A bucket of the table: its seqlock, its lock, its undo log, and the repair after a death. */

#include "scenes.h"

#include "store/table/bucket.h"

/* The first and the last bucket use the same undo record. */
enum { BUCKETS = WEIR_UNDO_RECORDS + 1, LAST = BUCKETS - 1 };

/* What the threads share. */
static struct shared {
    weir_bucket bucket[BUCKETS];
    weir_undo_record undo[WEIR_UNDO_RECORDS];
    port_counter damaged;
    uint64_t seen[MODEL_THREADS][2]; /* results of each thread */
    bool done[MODEL_THREADS];
} * shared;

static weir_bucket_array arrays[MODEL_THREADS + 1];

static weir_bucket_array array_of(const weir_processes *p)
{
    return (weir_bucket_array){.processes = p,
                               .lock = p->self << WEIR_LOCK_OWNER_AT | WEIR_LOCKED,
                               .buckets = shared->bucket,
                               .buckets_len = BUCKETS,
                               .undo = shared->undo,
                               .damaged = &shared->damaged};
}

static void put(const weir_bucket_array *a, weir_bucket *b, const weir_bucket_entry *e)
{
    weir_line old, line;
    weir_bucket_lock(a, b, &old);
    line = old;
    weir_line_add(&line, e);
    weir_bucket_commit(a, b, &old, &line);
}

static void prepare(void)
{
    shared = model_alloc(sizeof *shared);
    for (unsigned t = 0; t < MODEL_THREADS; t++)
        arrays[t] = array_of(&processes[t]);
    arrays[MODEL_THREADS] = array_of(&last_process);
}

/* An entry with two words, which are equal. */
static void prepare_pair(void)
{
    prepare();
    const weir_bucket_entry e = {.tag = 7, .form = WEIR_FORM_TWO, .fresh_at_ns = 100};
    put(&arrays[0], &shared->bucket[0], &e);
    put(&arrays[0], &shared->bucket[LAST], &e);
}

/* A process was killed after it had changed one of the two words. */
static void prepare_torn(void)
{
    prepare_pair();
    const weir_processes dead = {DEAD_ID, process_is_alive, NULL};
    const weir_bucket_array a = array_of(&dead);
    weir_bucket *b = &shared->bucket[0];
    weir_undo_record *r = &shared->undo[0];
    weir_line old;
    weir_bucket_lock(&a, b, &old);
    port_word_store_relaxed(&r->owner, DEAD_ID);
    port_word_store_relaxed(&r->header, old.word[0]);
    for (unsigned i = 1; i < WEIR_LINE_WORDS; i++)
        port_word_store_relaxed(&r->word[i - 1], old.word[i]);
    port_word_store_relaxed(&b->word[0],
                            weir_header_lock(&a, old.word[0]) | (uint64_t)1 << WEIR_UNDO_AT);
    port_word_store_relaxed(&b->word[2], 1);
}

/* Adds 1 to both words of the entry, and advances its time. */
static void add_one_in(weir_bucket *b)
{
    const weir_bucket_array *a = &arrays[model_self()];
    weir_line old, line;
    weir_bucket_lock(a, b, &old);
    line = old;
    weir_bucket_entry e = weir_line_get(&line, 0);
    MODEL_CHECK(e.words[0] == e.words[1] && e.fresh_at_ns == 100 + (int64_t)e.words[0]);
    e.words[0]++;
    e.words[1]++;
    e.fresh_at_ns++;
    weir_line_put(&line, 0, &e);
    weir_bucket_commit(a, b, &old, &line);
    shared->done[model_self()] = true;
}

static void add_one(void)
{
    add_one_in(&shared->bucket[0]);
}

static void add_one_in_last(void)
{
    add_one_in(&shared->bucket[LAST]);
}

/* The same, but then locks the bucket and is killed before it changes anything else. */
static void add_one_and_die(void)
{
    weir_line line;
    add_one();
    weir_bucket_lock(&arrays[model_self()], &shared->bucket[0], &line);
    model_die();
}

static weir_bucket_entry entry_in(const weir_bucket_array *a, weir_bucket *b)
{
    weir_line l;
    weir_bucket_copy(a, b, &l);
    unsigned i = weir_line_find(&l, 7, false);
    MODEL_CHECK(i < WEIR_LINE_ENTRIES);
    weir_bucket_entry e = weir_line_get(&l, i);
    MODEL_CHECK(e.words[0] == e.words[1] && e.fresh_at_ns == 100 + (int64_t)e.words[0]);
    return e;
}

static weir_bucket_entry entry_now(const weir_bucket_array *a)
{
    return entry_in(a, &shared->bucket[0]);
}

static void read_twice(void)
{
    const weir_bucket_array *a = &arrays[model_self()];
    uint64_t first = entry_now(a).words[0];
    MODEL_CHECK(entry_now(a).words[0] >= first);
}

static void read_once(void)
{
    entry_now(&arrays[model_self()]);
}

static void sum_is(uint64_t low, uint64_t high)
{
    uint64_t sum = entry_now(&arrays[MODEL_THREADS]).words[0];
    MODEL_CHECK(sum >= low && sum <= high);
    for (unsigned i = 0; i < WEIR_UNDO_RECORDS; i++)
        MODEL_CHECK(port_word_load_relaxed(&shared->undo[i].owner) == 0);
    MODEL_CHECK(port_load_relaxed(&shared->damaged) == 0);
}

/* Each thread that ended has added 1. A killed thread may have. */
static void check_sum(void)
{
    uint64_t done = 0, dead = 0;
    for (unsigned t = 0; t < MODEL_THREADS; t++) {
        done += shared->done[t];
        dead += model_is_dead(t);
    }
    weir_bucket_repair_all(&arrays[MODEL_THREADS]);
    sum_is(done, done + dead);
}

/* Each bucket was changed by one thread. */
static void check_two_buckets(void)
{
    const weir_bucket_array *a = &arrays[MODEL_THREADS];
    weir_bucket_repair_all(a);
    for (unsigned t = 0; t < 2; t++) {
        uint64_t n = entry_in(a, &shared->bucket[t == 0 ? 0 : LAST]).words[0];
        MODEL_CHECK(shared->done[t] ? n == 1 : n <= 1);
    }
    MODEL_CHECK(port_load_relaxed(&shared->damaged) == 0);
}

const model_scene model_bucket_read = {
    "bucket: a writer and a reader", prepare_pair, {add_one, read_twice}, check_sum, 0};
const model_scene model_bucket_write = {
    "bucket: two writers", prepare_pair, {add_one, add_one}, check_sum, 0};
const model_scene model_bucket_write_read = {
    "bucket: two writers and a reader", prepare_pair, {add_one, add_one, read_once}, check_sum, 0};
const model_scene model_bucket_death = {
    "bucket: a writer is killed", prepare_pair, {add_one, add_one}, check_sum, 1};
const model_scene model_bucket_death_read = {
    "bucket: a writer is killed, and a reader", prepare_pair, {add_one, read_twice}, check_sum, 1};
const model_scene model_bucket_death_reads = {"bucket: a writer is killed, and two readers",
                                              prepare_pair,
                                              {add_one, read_once, read_once},
                                              check_sum,
                                              1};
const model_scene model_bucket_deaths = {
    "bucket: a writer and its repair are killed", prepare_pair, {add_one, add_one}, check_sum, 3};
const model_scene model_bucket_lock_death = {
    "bucket: the owner of a lock is killed, and two readers",
    prepare_pair,
    {add_one_and_die, read_once, read_once},
    check_sum,
    0};
const model_scene model_bucket_torn = {"bucket: two readers repair it",
                                       prepare_torn,
                                       {read_once, read_once},
                                       check_sum,
                                       MODEL_DIED_BEFORE};
const model_scene model_bucket_torn_write = {"bucket: two writers repair it",
                                             prepare_torn,
                                             {add_one, add_one},
                                             check_sum,
                                             MODEL_DIED_BEFORE};
const model_scene model_bucket_undo = {"bucket: two writers share an undo record",
                                       prepare_pair,
                                       {add_one, add_one_in_last},
                                       check_two_buckets,
                                       2};
