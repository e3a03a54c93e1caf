/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* Measures the longest of millions of calls into a new store that fills up. On a shared machine a
 * call is sometimes preempted, which is not the store's time. So the figure is the minimum over
 * several rounds of the longest call in a round. The baseline is a loop of the same duration that
 * only reads the clock. The CPU time of the longest call is reported, too; on a machine that is
 * never quiet it is the meaningful figure. */

#include "kit.h"
#include "parts.h"
#include "subject.h"

enum { ROUNDS = 5, SOME = 1024, CALLS = 8000 * SOME, FEW = 16 };

/* Reading the CPU clock is expensive, so it is read once in FEW calls, which take microseconds. */

typedef struct longest {
    double wall, cpu; /* seconds */
} longest;

static double larger(double a, double b)
{
    return a > b ? a : b;
}

static double smaller(double a, double b)
{
    return a < b ? a : b;
}

/* Records the CPU time since `since`. Returns the current CPU time. */
static double note_cpu(longest *l, double since)
{
    double cpu = kit_cpu_seconds();
    l->cpu = larger(l->cpu, cpu - since);
    return cpu;
}

static longest longest_call(void)
{
    subject s;
    longest l = {0};
    subject_open(&s, "gcra 1/h", (size_t)512 << 20, LARGE_BYTES_MIN);
    for (uint64_t n = 0; n < CALLS; n += SOME) {
        request_key keys[SOME];
        keys_write(keys, n, SOME);
        double cpu = kit_cpu_seconds();
        for (int i = 0; i < SOME; i++) {
            double began = kit_seconds();
            uint64_t allowed = subject_single(&s, &keys[i], 1, NOW_NS, 1);
            l.wall = larger(l.wall, kit_seconds() - began);
            if (allowed != 1)
                die("a new key was denied");
            if (i % FEW == FEW - 1)
                cpu = note_cpu(&l, cpu);
        }
    }
    subject_close(&s);
    return l;
}

static longest longest_nothing(double seconds)
{
    longest l = {0};
    double end = kit_seconds() + seconds, cpu = kit_cpu_seconds(), ended;
    do {
        for (int i = 0; i < FEW; i++) {
            double began = kit_seconds();
            ended = kit_seconds();
            l.wall = larger(l.wall, ended - began);
        }
        cpu = note_cpu(&l, cpu);
    } while (ended < end);
    return l;
}

static void add_row(report *r, const char *name, double call, double nothing)
{
    report_add(r, &(report_row){.name = name,
                                .value = call * 1e3,
                                .unit = "ms",
                                .baseline_name = "reading the clock",
                                .baseline = nothing * 1e3,
                                .ratio = call / nothing});
}

void longest_run(report *r)
{
    longest call = {1e9, 1e9}, nothing = {1e9, 1e9};
    printf("the longest of %d calls in each of %d rounds, in ms; the result is the minimum:\n",
           CALLS, ROUNDS);
    for (int round = 0; round < ROUNDS; round++) {
        double began = kit_seconds();
        longest a = longest_call(), b = longest_nothing(kit_seconds() - began);
        printf("  %8.3f (CPU time %.3f); reading the clock %8.3f (CPU time %.3f)\n", a.wall * 1e3,
               a.cpu * 1e3, b.wall * 1e3, b.cpu * 1e3);
        fflush(stdout);
        call = (longest){smaller(call.wall, a.wall), smaller(call.cpu, a.cpu)};
        nothing = (longest){smaller(nothing.wall, b.wall), smaller(nothing.cpu, b.cpu)};
    }
    add_row(r, "lib.longest_call_ms", call.wall, nothing.wall);
    add_row(r, "lib.longest_call_ms.processor", call.cpu, nothing.cpu);
}
