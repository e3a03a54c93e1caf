/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* Compares the algorithms with gcra: decisions a second with a million keys. Each policy has its
 * own store, all equally full, and the stores alternate in every round. A ratio of 0.5 means that a
 * decision takes twice as long as with gcra. */

#include "kit.h"
#include "parts.h"
#include "subject.h"

#include <string.h>

enum { ROUNDS = 5, KEYS = 1000000, GCRA = 0 };

/* Time advances by this much for each pass. All takes of the benchmark fit into a window of an
 * hour. */
#define STEP_NS INT64_C(10000000000)

static const struct algo {
    const char *name, *text;
    int fills;          /* how often every key is charged before the first round */
    size_t large_bytes; /* 0: the minimum */
} algos[] = {
    {"gcra", "gcra 1000/h burst 1000", 1, 0},
    {"token-bucket", "token-bucket 1000 refill 1000/h", 1, 0},
    {"leaky-bucket", "leaky-bucket 1000/h capacity 1000", 1, 0},
    {"gcra-ticks", "gcra 3/s burst 1000", 1, 0}, /* its interval is not a whole number of ns */
    {"fixed-window", "fixed-window 1000/h", 1, 0},
    {"sliding-counter", "sliding-counter 1000/h", 1, 0},
    {"sliding-slices", "sliding-slices 1000/h slices 12", 1, (size_t)512 << 20},
    {"sliding-log-5", "sliding-log 5/10s", 1,
     (size_t)512 << 20}, /* a pass charges a key about twice */
    {"sliding-log-100", "sliding-log 100/h", 45,
     (size_t)2 << 30}, /* half full at first, nearly full at the end */
    {"two-layers", "gcra 1000/h burst 1000 & fixed-window 10000/d", 1, 0},
    {"block", "gcra 1000/h burst 1000 & block 10m", 1, 0},
    {"concurrent", "concurrent 100 lease 1m", 7,
     (size_t)512 << 20}, /* a key holds leases of six passes; those of the oldest end */
};
enum { ALGOS = sizeof algos / sizeof algos[0] };

typedef struct figures {
    double speed[ROUNDS], gcra[ROUNDS], ratio[ROUNDS];
} figures;

typedef struct algo_bench {
    subject subjects[ALGOS];
    request_key *keys;
    int64_t now_ns;
} algo_bench;

typedef uint64_t (*loop_fn)(const subject *s, const request_key *keys, size_t n, int64_t now_ns,
                            int64_t cost);

/* The size of a table with two slots for each key, or four for layered policies, rounded up to a
 * power of two. A slot holds a tag and a state. */
static size_t table_bytes(const weir_policy *p)
{
    size_t slot = (weir_state_words(p, 0) + 1) * sizeof(uint64_t), len = 1 << 20;
    while (len < (p->layers > 1 ? 4 : 2) * slot * KEYS)
        len *= 2;
    return len;
}

static void open_all(algo_bench *b)
{
    for (int i = 0; i < ALGOS; i++) {
        const struct algo *a = &algos[i];
        weir_policy p;
        if (weir_policy_parse(&p, a->text, strlen(a->text), NULL, NULL) != WEIR_OK)
            die("a policy is invalid");
        size_t large = a->large_bytes ? a->large_bytes : LARGE_BYTES_MIN;
        subject_open(&b->subjects[i], a->text, table_bytes(&p) + large, large);
        for (int n = 0; n < a->fills; n++)
            subject_sweep(&b->subjects[i], KEYS, b->now_ns + (n - a->fills) * STEP_NS, 1);
    }
}

static double measure(const algo_bench *b, int i, loop_fn loop)
{
    double began = kit_cpu_seconds();
    uint64_t allowed = loop(&b->subjects[i], b->keys, PASS, b->now_ns, 1);
    double took = kit_cpu_seconds() - began;
    if (allowed < PASS / 100 * 98)
        die("a policy denied a request that it should allow");
    return PASS / took / 1e6;
}

static void round_of(algo_bench *b, int round, loop_fn loop, figures *all)
{
    double gcra = 0;
    b->now_ns += STEP_NS;
    for (int i = GCRA; i < ALGOS; i++) {
        double speed = measure(b, i, loop);
        if (i == GCRA)
            gcra = speed;
        all[i].speed[round] = speed;
        all[i].gcra[round] = gcra;
        all[i].ratio[round] = speed / gcra;
    }
}

static void add_rows(report *r, const char *kind, figures *all)
{
    for (int i = GCRA + 1; i < ALGOS; i++) {
        char name[64];
        snprintf(name, sizeof name, "lib.algo.%s.%svs_gcra", algos[i].name, kind);
        report_add(r, &(report_row){.name = name,
                                    .value = kit_median(all[i].speed, ROUNDS),
                                    .unit = "M/s",
                                    .baseline_name = "gcra",
                                    .baseline = kit_median(all[i].gcra, ROUNDS),
                                    .ratio = kit_median(all[i].ratio, ROUNDS)});
    }
}

void algos_run(report *r)
{
    static figures batch[ALGOS], single[ALGOS];
    algo_bench b = {.keys = kit_map(PASS * sizeof *b.keys), .now_ns = NOW_NS};
    open_all(&b);
    for (int round = 0; round < ROUNDS; round++) {
        keys_draw(b.keys, KEYS, PASS, (uint64_t)round + 1);
        round_of(&b, round, subject_batch, batch);
        round_of(&b, round, subject_single, single);
    }
    add_rows(r, "", batch);
    add_rows(r, "single.", single);
    for (int i = 0; i < ALGOS; i++) {
        weir_store_stats stats = weir_store_stats_get(b.subjects[i].store);
        if (stats.evicted > 0)
            printf("%s: the store has evicted %llu live keys\n", algos[i].name,
                   (unsigned long long)stats.evicted);
        subject_close(&b.subjects[i]);
    }
    kit_unmap(b.keys, PASS * sizeof *b.keys);
}
