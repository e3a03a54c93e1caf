/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef BENCH_KIT_H
#define BENCH_KIT_H
/* What every part of the benchmark needs: memory in large pages, what the process holds of it, a
 * clock, medians, and the rows that come out. */

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/* Ends the program. */
_Noreturn void die(const char *what);

double kit_seconds(void);

/* Of processor time, this thread's: what does not count is the time others had the processor. */
double kit_own_seconds(void);

/* `len` zeroed bytes, in large pages if the system gives them. */
void *kit_map(size_t len);
void kit_unmap(void *p, size_t len);

/* Bytes of this process that are in memory, and those of them that are in large pages. */
size_t kit_resident(void);
size_t kit_in_large_pages(void);

/* The middle one of n figures, or the mean of the middle two; sorts them. */
double kit_median(double *figures, size_t n);

/* Rows go to a table on stdout and to a JSON list. */
typedef struct report {
    FILE *json; /* NULL: only the table */
    size_t rows;
} report;

typedef struct report_row {
    const char *name;
    double value;
    const char *unit;
    const char *baseline_name; /* what it is beside, for the table */
    double baseline, ratio;
} report_row;

void report_add(report *r, const report_row *row);

#endif
