/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* The longest of many millions of calls into a new store that fills. A shared machine takes the
 * processor away now and then, and what is measured then is not the store: the figure is the
 * smallest of several rounds' longest calls, and beside it stands a loop that only reads the clock,
 * for as long as the calls took. The processor time of the longest call is told too: on a machine
 * that is never quiet it is the one that says something. */

#include "kit.h"
#include "parts.h"
#include "subject.h"

enum { ROUNDS = 5, SOME = 1024, CALLS = 8000 * SOME, FEW = 16 };

/* The clock of processor time is dear: it is read once in FEW calls, which are microseconds. */

typedef struct longest {
    double wall, own; /* seconds */
} longest;

static double larger(double a, double b)
{
    return a > b ? a : b;
}

static double smaller(double a, double b)
{
    return a < b ? a : b;
}

/* Returns the processor time that it is. */
static double note_own(longest *l, double since)
{
    double own = kit_own_seconds();
    l->own = larger(l->own, own - since);
    return own;
}

static longest longest_call(void)
{
    subject s;
    longest l = {0};
    subject_open(&s, "gcra 1/h", (size_t)512 << 20, LARGE_BYTES_MIN);
    for (uint64_t n = 0; n < CALLS; n += SOME) {
        request_key keys[SOME];
        keys_write(keys, n, SOME);
        double own = kit_own_seconds();
        for (int i = 0; i < SOME; i++) {
            double began = kit_seconds();
            uint64_t allowed = subject_single(&s, &keys[i], 1, NOW_NS, 1);
            l.wall = larger(l.wall, kit_seconds() - began);
            if (allowed != 1)
                die("a new key was denied");
            if (i % FEW == FEW - 1)
                own = note_own(&l, own);
        }
    }
    subject_close(&s);
    return l;
}

static longest longest_nothing(double seconds)
{
    longest l = {0};
    double end = kit_seconds() + seconds, own = kit_own_seconds(), ended;
    do {
        for (int i = 0; i < FEW; i++) {
            double began = kit_seconds();
            ended = kit_seconds();
            l.wall = larger(l.wall, ended - began);
        }
        own = note_own(&l, own);
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
    printf("the smallest of %d rounds, each with its longest of %d calls, in ms:\n", ROUNDS, CALLS);
    for (int round = 0; round < ROUNDS; round++) {
        double began = kit_seconds();
        longest a = longest_call(), b = longest_nothing(kit_seconds() - began);
        printf("  %8.3f (processor %.3f), of reading the clock %8.3f (processor %.3f)\n",
               a.wall * 1e3, a.own * 1e3, b.wall * 1e3, b.own * 1e3);
        fflush(stdout);
        call = (longest){smaller(call.wall, a.wall), smaller(call.own, a.own)};
        nothing = (longest){smaller(nothing.wall, b.wall), smaller(nothing.own, b.own)};
    }
    add_row(r, "lib.longest_call_ms", call.wall, nothing.wall);
    add_row(r, "lib.longest_call_ms.processor", call.own, nothing.own);
}
