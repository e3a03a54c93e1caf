/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* Decisions a second in process, through the public API with everything on, beside a bare loop that
 * keeps nothing of what a store promises: GCRA on an open-addressing table of 16-byte slots, a
 * cheap unkeyed hash, no threads, no budget, no expiry. Both read the same keys from the same
 * memory, and have tables of the same size in large pages.
 *
 *     lib [FILE]    prints a table; writes a JSON list to FILE
 *
 * Each figure is the median of rounds in which all the loops take turns. */

#define _GNU_SOURCE /* madvise */

#include <weir/weir_store.h>

#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

enum {
    ROUNDS = 7,
    TAKES = 1 << 20, /* decisions of a thread in a round */
    BATCH = 32,
    KEY_MIN = 16,
    KEY_MAX = 24,
    THREADS = 2,
};

static const int64_t now_ns = INT64_C(1767225600000000000); /* it stands still */

static void die(const char *what)
{
    fprintf(stderr, "lib: %s\n", what);
    exit(1);
}

static double seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

/* ---- keys ------------------------------------------------------------------------------------ */

typedef struct request_key {
    char text[KEY_MAX];
    size_t len;
} request_key;

/* Source: splitmix64. */
static uint64_t mix(uint64_t x)
{
    x += 0x9e3779b97f4a7c15;
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9;
    x = (x ^ x >> 27) * 0x94d049bb133111eb;
    return x ^ x >> 31;
}

static void make_key(request_key *k, uint64_t number)
{
    uint64_t bits = mix(number);
    k->len = KEY_MIN + bits % (KEY_MAX - KEY_MIN + 1);
    for (size_t i = 0; i < KEY_MAX; i++)
        k->text[i] = "0123456789abcdef"[bits >> (i % 16 * 4) & 15];
}

/* A thread's run of requests: `len` different ones, gone through until TAKES are made. */
typedef struct run_keys {
    request_key *keys;
    size_t len;
} run_keys;

static void draw(run_keys *r, uint64_t keys, uint64_t seed)
{
    r->len = keys == 1 ? 1024 : TAKES;
    for (size_t i = 0; i < r->len; i++)
        make_key(&r->keys[i], mix(seed * TAKES + i) % keys);
}

/* ---- the bare loop --------------------------------------------------------------------------- */

typedef struct slot {
    uint64_t tag;
    int64_t tat_ns;
} slot;

typedef struct bare {
    slot *slots;
    size_t len; /* a power of two */
    int64_t interval_ns, capacity_ns;
} bare;

static uint64_t read8(const char *p)
{
    uint64_t x;
    memcpy(&x, p, 8);
    return x;
}

static uint64_t cheap_hash(const request_key *k)
{
    uint64_t h = read8(k->text) * 0x9e3779b97f4a7c15 ^ read8(k->text + 8);
    h = (h ^ h >> 32) * 0xd6e8feb86659fd93 ^ read8(k->text + k->len - 8);
    h = (h ^ h >> 32) * 0xd6e8feb86659fd93;
    return h ^ h >> 32;
}

static slot *bare_find(const bare *b, uint64_t tag)
{
    size_t at = tag & (b->len - 1);
    while (b->slots[at].tag != tag && b->slots[at].tag != 0)
        at = (at + 1) & (b->len - 1);
    b->slots[at].tag = tag;
    return &b->slots[at];
}

static bool bare_check(const bare *b, const request_key *k)
{
    slot *s = bare_find(b, cheap_hash(k));
    int64_t tat_ns = (s->tat_ns > now_ns ? s->tat_ns : now_ns) + b->interval_ns;
    bool allowed = tat_ns - now_ns <= b->capacity_ns;
    if (allowed)
        s->tat_ns = tat_ns;
    return allowed;
}

static void *map(size_t bytes)
{
    void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED)
        die("no memory");
    (void)madvise(p, bytes, MADV_HUGEPAGE);
    return p;
}

/* ---- a case and its loops -------------------------------------------------------------------- */

typedef struct bench_case {
    const char *name, *text;
    uint64_t keys;
    size_t table_bytes; /* of the store's table and of the bare one */
    bool denied;
} bench_case;

static const bench_case cases[] = {
    {"hot", "gcra 1000000000/s burst 1000000000", 1, (size_t)32 << 20, false},
    {"hot_denied", "gcra 1/h", 1, (size_t)32 << 20, true},
    {"1M", "gcra 1000/s burst 1000", 1000000, (size_t)32 << 20, false},
    {"10M", "gcra 1000/s burst 1000", 10000000, (size_t)256 << 20, false},
};
enum { CASES = sizeof cases / sizeof cases[0] };

typedef struct thread_run {
    struct subject *subject;
    void (*loop)(struct thread_run *r);
    run_keys keys;
    bare bare; /* its own: the bare one takes no two threads */
    uint64_t allowed;
    pthread_barrier_t *start;
    pthread_t thread;
} thread_run;

typedef struct subject {
    const bench_case *bench;
    weir_policy policy;
    uint64_t policy_id;
    weir_store *store;
    thread_run runs[THREADS];
} subject;

static void loop_bare(thread_run *r)
{
    for (size_t n = 0; n < TAKES; n += r->keys.len) {
        for (size_t i = 0; i < r->keys.len; i++)
            r->allowed += bare_check(&r->bare, &r->keys.keys[i]);
    }
}

static void loop_single(thread_run *r)
{
    const subject *s = r->subject;
    for (size_t n = 0; n < TAKES; n += r->keys.len) {
        for (size_t i = 0; i < r->keys.len; i++) {
            const request_key *k = &r->keys.keys[i];
            weir_decision d;
            if (weir_store_check(s->store, &s->policy, s->policy_id, k->text, k->len, now_ns, 1,
                                 &d) != WEIR_OK)
                die("a check failed");
            r->allowed += d.allowed;
        }
    }
}

static void loop_batch(thread_run *r)
{
    const subject *s = r->subject;
    weir_store_request batch[BATCH] = {0};
    for (size_t i = 0; i < BATCH; i++)
        batch[i] = (weir_store_request){.policy = &s->policy, .policy_id = s->policy_id, .cost = 1};
    for (size_t n = 0; n < TAKES; n += r->keys.len) {
        for (size_t at = 0; at < r->keys.len; at += BATCH) {
            for (size_t i = 0; i < BATCH; i++) {
                batch[i].key = r->keys.keys[at + i].text;
                batch[i].key_len = r->keys.keys[at + i].len;
            }
            weir_store_check_batch(s->store, batch, BATCH, now_ns);
            for (size_t i = 0; i < BATCH; i++)
                r->allowed += batch[i].decision.allowed;
        }
    }
}

static void *thread_main(void *arg)
{
    thread_run *r = arg;
    pthread_barrier_wait(r->start);
    r->loop(r);
    return NULL;
}

/* Decisions a second of `threads` threads together. */
static double measure(subject *s, void (*loop)(thread_run *r), int threads)
{
    pthread_barrier_t start;
    pthread_barrier_init(&start, NULL, (unsigned)threads + 1);
    for (int i = 0; i < threads; i++) {
        thread_run *r = &s->runs[i];
        r->start = &start;
        r->loop = loop;
        r->allowed = 0;
        if (pthread_create(&r->thread, NULL, thread_main, r) != 0)
            die("no thread");
    }
    double begin = seconds();
    pthread_barrier_wait(&start);
    for (int i = 0; i < threads; i++)
        pthread_join(s->runs[i].thread, NULL);
    double took = seconds() - begin;
    pthread_barrier_destroy(&start);
    for (int i = 0; i < threads; i++) {
        if (s->bench->denied ? s->runs[i].allowed > 1 : s->runs[i].allowed != TAKES)
            die("a loop did not decide as it should");
    }
    return threads * (double)TAKES / took;
}

/* ---- figures --------------------------------------------------------------------------------- */

/* The bare loops come before what is compared with them. */
static const struct loop {
    const char *name; /* NULL: bare */
    void (*run)(thread_run *r);
    int threads, baseline;
} loops[] = {
    {NULL, loop_bare, 1, 0},
    {"single", loop_single, 1, 0},
    {"batch", loop_batch, 1, 0},
    {NULL, loop_bare, THREADS, 3},
    {"threads2", loop_single, THREADS, 3},
    {"threads2.batch", loop_batch, THREADS, 3},
};
enum { LOOPS = sizeof loops / sizeof loops[0] };

static int by_size(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(double *figures)
{
    qsort(figures, ROUNDS, sizeof *figures, by_size);
    return figures[ROUNDS / 2];
}

static void print_figures(const subject *s, double figures[LOOPS][ROUNDS], FILE *json, bool *first)
{
    double medians[LOOPS];
    for (int i = 0; i < LOOPS; i++)
        medians[i] = median(figures[i]);
    for (int i = 0; i < LOOPS; i++) {
        const struct loop *l = &loops[i];
        if (!l->name)
            continue;
        char name[64];
        double baseline = medians[l->baseline], ratio = medians[i] / baseline;
        snprintf(name, sizeof name, "lib.%s.%s", l->name, s->bench->name);
        printf("%-30s %8.2f M/s   bare loop %8.2f M/s   ratio %5.2f\n", name, medians[i] / 1e6,
               baseline / 1e6, ratio);
        if (json)
            fprintf(json,
                    "%s\n  {\"name\": \"%s\", \"value\": %.0f, \"unit\": \"decisions/s\", "
                    "\"baseline\": %.0f, \"ratio\": %.4f}",
                    *first ? "" : ",", name, medians[i], baseline, ratio);
        *first = false;
    }
    fflush(stdout);
}

/* ---- setting up ------------------------------------------------------------------------------ */

/* Every key is there before the first round. */
static void fill(subject *s)
{
    for (uint64_t n = 0; n < s->bench->keys; n++) {
        request_key k;
        weir_decision d;
        make_key(&k, n);
        for (int i = 0; i < THREADS; i++)
            bare_check(&s->runs[i].bare, &k);
        if (weir_store_check(s->store, &s->policy, s->policy_id, k.text, k.len, now_ns, 1, &d) !=
            WEIR_OK)
            die("a check failed");
    }
}

static void set_up(subject *s, const bench_case *bench)
{
    const weir_store_options options = {.memory_bytes = bench->table_bytes + 65536,
                                        .large_bytes = 65536};
    *s = (subject){.bench = bench};
    if (weir_policy_parse(&s->policy, bench->text, strlen(bench->text), NULL, NULL) != WEIR_OK ||
        weir_store_open(&s->store, &options) != WEIR_OK)
        die("no store");
    s->policy_id = weir_store_policy_id(s->store, &s->policy);
    for (int i = 0; i < THREADS; i++) {
        thread_run *r = &s->runs[i];
        r->subject = s;
        r->keys.keys = map(TAKES * sizeof *r->keys.keys);
        r->bare = (bare){.slots = map(bench->table_bytes),
                         .len = bench->table_bytes / sizeof(slot),
                         .interval_ns = (int64_t)s->policy.layer[0].den,
                         .capacity_ns = (int64_t)s->policy.layer[0].cap_lo};
    }
    fill(s);
}

static void tear_down(subject *s)
{
    weir_store_stats stats = weir_store_stats_get(s->store);
    if (stats.evicted > 0)
        printf("%-30s %" PRIu64 " keys were evicted\n", s->bench->name, stats.evicted);
    for (int i = 0; i < THREADS; i++) {
        munmap(s->runs[i].keys.keys, TAKES * sizeof *s->runs[i].keys.keys);
        munmap(s->runs[i].bare.slots, s->bench->table_bytes);
    }
    weir_store_close(s->store);
}

static void run_case(const bench_case *bench, FILE *json, bool *first)
{
    static double figures[LOOPS][ROUNDS];
    subject s;
    set_up(&s, bench);
    for (int round = 0; round < ROUNDS; round++) {
        for (int i = 0; i < THREADS; i++)
            draw(&s.runs[i].keys, bench->keys, (uint64_t)(round * THREADS + i + 1));
        for (int i = 0; i < LOOPS; i++)
            figures[i][round] = measure(&s, loops[i].run, loops[i].threads);
    }
    print_figures(&s, figures, json, first);
    tear_down(&s);
}

int main(int argc, char **argv)
{
    FILE *json = NULL;
    bool first = true;
    if (argc > 2)
        die("usage: lib [FILE]");
    if (argc == 2 && !(json = fopen(argv[1], "w")))
        die("the file cannot be written");
    if (json)
        fprintf(json, "[");
    for (int i = 0; i < CASES; i++)
        run_case(&cases[i], json, &first);
    if (json) {
        fprintf(json, "\n]\n");
        if (fclose(json) != 0)
            die("the file cannot be written");
    }
    return 0;
}
