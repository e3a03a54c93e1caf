/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* Floods a store with one-off keys, several times as many as fit, while a thousand other keys (the
 * victims) keep requesting more than their limit. Reports how much slower the flood is than inserts
 * into free space, and how many requests of the victims were allowed compared with their limit.
 * Eviction should not help the victims: it evicts the keys that have used the smallest share of
 * their limit, and the victims have used all of theirs. */

#include "kit.h"
#include "parts.h"
#include "subject.h"

#include <stdlib.h>

enum {
    VICTIMS = 1024, /* VICTIMS and SOME are multiples of KEY_BATCH */
    SOME = 8192,
    FLOOD = 1500 * SOME, /* about three times what the store holds */
    ROUND = 64 * SOME,   /* keys of the flood in a second, between two rounds of the victims */
    BURST = 10,
};

#define MEMORY ((size_t)64 << 20)

static const char text[] = "gcra 10/m burst 10";

/* Inserts n keys from number `first`. Returns the CPU time in seconds. */
static double flood(const subject *s, uint64_t first, uint64_t n, int64_t now_ns)
{
    static request_key keys[SOME];
    double took = 0;
    for (uint64_t at = 0; at < n; at += SOME) {
        keys_write(keys, first + at, SOME);
        double began = kit_cpu_seconds();
        subject_batch(s, keys, SOME, now_ns, 1);
        took += kit_cpu_seconds() - began;
    }
    return took;
}

void attack_run(report *r)
{
    static request_key victims[VICTIMS];
    subject s;
    uint64_t admitted = 0, seconds = 0;
    int64_t now_ns = NOW_NS;
    subject_open(&s, text, MEMORY, LARGE_BYTES_MIN);
    keys_write(victims, 0, VICTIMS);
    uint64_t half = MEMORY / 32 / SOME * SOME; /* half of what fits */
    double calm = flood(&s, VICTIMS, half, now_ns) / (double)half, took = 0;
    for (uint64_t at = 0; at < FLOOD; at += ROUND, seconds++) {
        for (int i = 0; i < 2 * BURST; i++)
            admitted += subject_batch(&s, victims, VICTIMS, now_ns, 1);
        took += flood(&s, VICTIMS + half + at, ROUND, now_ns);
        now_ns += 1000000000;
    }
    double bound = VICTIMS * (double)(BURST + (seconds - 1) * 10 / 60);
    double each = took / (double)(seconds * ROUND);
    report_add(r, &(report_row){.name = "lib.flood.keys_per_s",
                                .value = 1e-6 / each,
                                .unit = "M/s",
                                .baseline_name = "free space",
                                .baseline = 1e-6 / calm,
                                .ratio = calm / each});
    report_add(r, &(report_row){.name = "lib.flood.victims_admitted",
                                .value = (double)admitted,
                                .unit = "units",
                                .baseline_name = "their limit",
                                .baseline = bound,
                                .ratio = (double)admitted / bound});
    printf("%-34s %llu live keys were evicted\n", "",
           (unsigned long long)weir_store_stats_get(s.store).evicted);
    subject_close(&s);
}
