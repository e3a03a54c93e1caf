/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* Compares decisions a second with the bare loop on a table of the same size, and two threads with
 * one. In every round each loop runs twice on the same requests: once to warm the caches, once to
 * be measured. Ratios are taken within a round, and the median ratio is reported. One thread is
 * measured by its CPU time, which other programs do not affect. Two threads, and the one thread
 * that they are compared with, are measured by the wall clock. `scaling` is the speed of two
 * threads divided by that of one. The bare loop has no locks, so its scaling is the machine's. */

#include "bare.h"
#include "kit.h"
#include "parts.h"
#include "subject.h"

#include <pthread.h>

enum { ROUNDS = 9, THREADS = 2, PACE_ROUNDS = 5 };

typedef struct bench_case {
    const char *name, *text;
    uint64_t keys;
    size_t slots; /* of the bare table; the store has the same size in bytes */
    bool denied;
    bool threads;
} bench_case;

static const bench_case cases[] = {
    {"hot", "gcra 1000000000/s burst 1000000000", 1, (size_t)1 << 21, false, true},
    {"hot_denied", "gcra 1/h", 1, (size_t)1 << 21, true, true},
    {"1M", "gcra 1000/s burst 1000", 1000000, (size_t)1 << 21, false, true},
    {"10M", "gcra 1000/s burst 1000", 10000000, (size_t)1 << 24, false, false},
    {"100M", "gcra 1000/s burst 1000", 100000000, (size_t)1 << 27, false, false},
};

typedef struct bench {
    const bench_case *what;
    subject subject;
    bare bare;
    request_key *keys[THREADS]; /* PASS keys for each thread */
    weir_key *prepared;         /* those of the first thread */
} bench;

/* Volatile, so that the compiler cannot treat it as a constant. */
static volatile int64_t now_ns = NOW_NS;

/* ---- the loops ------------------------------------------------------------------------------- */

/* A loop over PASS requests. Returns how many were allowed. */
typedef uint64_t (*loop_fn)(const bench *b, const request_key *keys);

static uint64_t bare_singles(const bench *b, const request_key *keys)
{
    uint64_t allowed = 0;
    for (size_t i = 0; i < PASS; i++) {
        bare_answer a;
        bare_single(&b->bare, &keys[i], now_ns, &a);
        allowed += a.allowed;
    }
    return allowed;
}

static uint64_t bare_batches(const bench *b, const request_key *keys)
{
    uint64_t allowed = 0;
    for (size_t at = 0; at < PASS; at += KEY_BATCH) {
        bare_answer a[KEY_BATCH];
        bare_batch(&b->bare, &keys[at], now_ns, a);
        for (size_t i = 0; i < KEY_BATCH; i++)
            allowed += a[i].allowed;
    }
    return allowed;
}

static uint64_t singles(const bench *b, const request_key *keys)
{
    return subject_single(&b->subject, keys, PASS, now_ns, 1);
}

static uint64_t batches(const bench *b, const request_key *keys)
{
    return subject_batch(&b->subject, keys, PASS, now_ns, 1);
}

static uint64_t prepared_singles(const bench *b, const request_key *keys)
{
    (void)keys;
    return subject_prepared(&b->subject, b->prepared, PASS, now_ns, 1);
}

static uint64_t prefetched_singles(const bench *b, const request_key *keys)
{
    (void)keys;
    return subject_prefetched(&b->subject, b->prepared, PASS, now_ns, 1);
}

typedef struct lane { /* a thread and its requests */
    const bench *bench;
    loop_fn loop;
    const request_key *keys;
    pthread_barrier_t *start; /* before the measured pass */
    uint64_t allowed;
    double began, ended, cpu; /* seconds */
    pthread_t thread;
} lane;

static void *lane_main(void *arg)
{
    lane *l = arg;
    l->allowed = l->loop(l->bench, l->keys);
    pthread_barrier_wait(l->start);
    double cpu = kit_cpu_seconds();
    l->began = kit_seconds();
    l->allowed += l->loop(l->bench, l->keys);
    l->ended = kit_seconds();
    l->cpu = kit_cpu_seconds() - cpu;
    return NULL;
}

typedef struct speed {
    double wall, cpu; /* millions of decisions a second: of time, and of CPU time */
} speed;

/* Measures `threads` threads together. */
static speed measure(const bench *b, loop_fn loop, unsigned threads)
{
    lane lanes[THREADS] = {0};
    pthread_barrier_t start;
    pthread_barrier_init(&start, NULL, threads);
    for (unsigned i = 0; i < threads; i++) {
        lanes[i] = (lane){.bench = b, .loop = loop, .keys = b->keys[i], .start = &start};
        if (pthread_create(&lanes[i].thread, NULL, lane_main, &lanes[i]) != 0)
            die("no thread");
    }
    for (unsigned i = 0; i < threads; i++)
        pthread_join(lanes[i].thread, NULL);
    pthread_barrier_destroy(&start);
    double began = lanes[0].began, ended = lanes[0].ended, cpu = 0;
    for (unsigned i = 0; i < threads; i++) {
        if (lanes[i].allowed != (b->what->denied ? 0 : 2 * PASS))
            die("a loop made a wrong decision");
        began = lanes[i].began < began ? lanes[i].began : began;
        ended = lanes[i].ended > ended ? lanes[i].ended : ended;
        cpu += lanes[i].cpu;
    }
    double millions = threads * (double)PASS / 1e6;
    return (speed){.wall = millions / (ended - began), .cpu = millions / cpu};
}

/* ---- figures --------------------------------------------------------------------------------- */

typedef struct figures {
    double value[ROUNDS], baseline[ROUNDS], ratio[ROUNDS];
} figures;

static void note(figures *f, int round, double value, double baseline)
{
    f->value[round] = value;
    f->baseline[round] = baseline;
    f->ratio[round] = value / baseline;
}

static void add_row(report *r, const bench_case *what, const char *kind, const char *than,
                    const char *unit, const char *baseline, figures *f)
{
    char name[64];
    snprintf(name, sizeof name, "lib.%s.%s.%s", kind, what->name, than);
    report_add(r, &(report_row){.name = name,
                                .value = kit_median(f->value, ROUNDS),
                                .unit = unit,
                                .baseline_name = baseline,
                                .baseline = kit_median(f->baseline, ROUNDS),
                                .ratio = kit_median(f->ratio, ROUNDS)});
}

static void measure_threads(const bench *b, int round, figures *threads, figures *scaling)
{
    double bare_one = measure(b, bare_singles, 1).wall, one = measure(b, singles, 1).wall;
    double bare_two = measure(b, bare_singles, THREADS).wall;
    double two = measure(b, singles, THREADS).wall;
    note(threads, round, two, one);
    note(scaling, round, two / one, bare_two / bare_one);
}

static void measure_all(const bench *b, report *r)
{
    static figures batch, single, prepared, prefetched, threads, scaling;
    for (int round = 0; round < ROUNDS; round++) {
        for (unsigned i = 0; i < THREADS; i++)
            keys_draw(b->keys[i], b->what->keys, PASS, (uint64_t)round * THREADS + i + 1);
        subject_prepare(&b->subject, b->keys[0], PASS, b->prepared);
        note(&batch, round, measure(b, batches, 1).cpu, measure(b, bare_batches, 1).cpu);
        double bare_pace = measure(b, bare_singles, 1).cpu;
        note(&single, round, measure(b, singles, 1).cpu, bare_pace);
        note(&prepared, round, measure(b, prepared_singles, 1).cpu, bare_pace);
        note(&prefetched, round, measure(b, prefetched_singles, 1).cpu, bare_pace);
        if (b->what->threads)
            measure_threads(b, round, &threads, &scaling);
    }
    add_row(r, b->what, "batch", "vs_bare", "M/s", "bare loop", &batch);
    add_row(r, b->what, "single", "vs_bare", "M/s", "bare loop", &single);
    add_row(r, b->what, "prepared", "vs_bare", "M/s", "bare loop", &prepared);
    add_row(r, b->what, "prefetched", "vs_bare", "M/s", "bare loop", &prefetched);
    if (b->what->threads) {
        add_row(r, b->what, "threads2", "vs_one", "M/s", "one thread", &threads);
        add_row(r, b->what, "scaling", "vs_bare", "x", "bare loop", &scaling);
    }
}

/* ---- setting up ------------------------------------------------------------------------------ */

static void fill_bare(const bare *b, uint64_t keys)
{
    for (uint64_t n = 0; n < keys; n++) {
        request_key k;
        bare_answer a;
        keys_write(&k, n, 1);
        bare_single(b, &k, now_ns, &a);
    }
}

/* Warns if a table is mostly in small pages: both sides then walk the page table for every key,
 * which changes the ratio. */
static void warn_of_small_pages(const char *name, const char *whose, size_t large, size_t table)
{
    if (large < table / 2)
        printf("%s: only %zu MiB of the %s (%zu MiB) are in huge pages\n", name, large >> 20, whose,
               table >> 20);
}

static void run_case(const bench_case *what, request_key *const *keys, report *r)
{
    const size_t table = what->slots * sizeof(bare_slot);
    bench b = {
        .what = what, .keys = {keys[0], keys[1]}, .prepared = kit_map(PASS * sizeof *b.prepared)};
    subject_open(&b.subject, what->text, table + LARGE_BYTES_MIN, LARGE_BYTES_MIN);
    const weir_layer *l = &b.subject.policy.layer[0]; /* all cases have intervals of whole ns */
    bare_open(&b.bare, what->slots, l->limit, (int64_t)(l->den / l->num));
    size_t before = kit_in_huge_pages();
    fill_bare(&b.bare, what->keys);
    size_t between = kit_in_huge_pages();
    subject_sweep(&b.subject, what->keys, now_ns, 1);
    if (what->keys > 1) {
        warn_of_small_pages(what->name, "bare table", between - before, table);
        warn_of_small_pages(what->name, "store", kit_in_huge_pages() - between, table);
    }
    measure_all(&b, r);
    weir_store_stats stats = weir_store_stats_get(b.subject.store);
    if (stats.evicted > 0)
        printf("%s: the store has evicted %llu live keys\n", what->name,
               (unsigned long long)stats.evicted);
    kit_unmap(b.prepared, PASS * sizeof *b.prepared);
    bare_close(&b.bare);
    subject_close(&b.subject);
}

void speed_run(report *r)
{
    request_key *keys[THREADS];
    for (unsigned i = 0; i < THREADS; i++)
        keys[i] = kit_map(PASS * sizeof *keys[i]);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        run_case(&cases[i], keys, r);
    for (unsigned i = 0; i < THREADS; i++)
        kit_unmap(keys[i], PASS * sizeof *keys[i]);
}

void pace_run(report *r)
{
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const bench_case *what = &cases[i];
        if (what->keys > 1000000 || what->denied)
            continue;
        bench b = {.what = what, .keys = {kit_map(PASS * sizeof(request_key))}};
        double paces[PACE_ROUNDS];
        char name[64];
        subject_open(&b.subject, what->text, what->slots * sizeof(bare_slot) + LARGE_BYTES_MIN,
                     LARGE_BYTES_MIN);
        subject_sweep(&b.subject, what->keys, now_ns, 1);
        for (int round = 0; round < PACE_ROUNDS; round++) {
            keys_draw(b.keys[0], what->keys, PASS, (uint64_t)round + 1);
            paces[round] = measure(&b, singles, 1).cpu;
        }
        double pace = kit_median(paces, PACE_ROUNDS);
        snprintf(name, sizeof name, "pace.%s", what->name);
        report_add(r, &(report_row){name, pace, "M/s", "itself", pace, 1});
        subject_close(&b.subject);
        kit_unmap(b.keys[0], PASS * sizeof(request_key));
    }
}
