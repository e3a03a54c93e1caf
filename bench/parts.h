/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef BENCH_PARTS_H
#define BENCH_PARTS_H
/* The parts of the benchmark; each prints what it finds, and adds its rows. */

#include "kit.h"

/* Requests of a pass: of a loop in a round. */
enum { PASS = 1 << 21 };

/* It stands still while keys are counted, and where it goes on it goes on from here. */
#define NOW_NS INT64_C(1767225600000000000)

void speed_run(report *r);   /* single calls and batches beside the bare loop, two threads */
void algos_run(report *r);   /* the other algorithms beside gcra */
void memory_run(report *r);  /* bytes a key */
void longest_run(report *r); /* the longest call */
void state_run(report *r);   /* opening a file */
void attack_run(report *r);  /* a flood of keys */

/* Nothing but single calls, hot and a million keys, in a few seconds: how fast weir is at this
 * moment, for those who measure something else at the next. Only run if it is named. */
void pace_run(report *r);

#endif
