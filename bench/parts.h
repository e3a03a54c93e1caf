/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef BENCH_PARTS_H
#define BENCH_PARTS_H
/* The parts of the benchmark. Each prints its results and adds rows to the report. */

#include "kit.h"

/* Requests of one loop in one round. */
enum { PASS = 1 << 21 };

/* The time at which every part starts. */
#define NOW_NS INT64_C(1767225600000000000)

void speed_run(report *r);   /* single calls and batches compared with the bare loop; two threads */
void algos_run(report *r);   /* the other algorithms compared with gcra */
void memory_run(report *r);  /* bytes a key */
void longest_run(report *r); /* the longest call */
void state_run(report *r);   /* opening a file; backups */
void attack_run(report *r);  /* a flood of keys: its speed, and the limits meanwhile */
void flood_run(report *r);   /* what a flood forgives, for each pair of algorithms */
void reload_run(report *r);  /* the first requests after a limit changed */

/* The same with 20 million keys for each pair, which takes half an hour. Runs only if it is
 * named. */
void long_flood_run(report *r);

/* Measures only single calls, on a hot key and on a million keys, in a few seconds. bench/peers/run
 * uses it as the baseline for a peer that it measures right after. Runs only if it is named. */
void pace_run(report *r);

#endif
