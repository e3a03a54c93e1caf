/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef BENCH_KIT_H
#define BENCH_KIT_H
/* Tools for all parts of the benchmark: memory in huge pages, clocks, medians, and the report. */

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/* Prints an error and ends the program. */
_Noreturn void die(const char *what);

/* The monotonic clock, in seconds. */
double kit_seconds(void);

/* The CPU time of this thread, in seconds. Other programs on the machine do not affect it. */
double kit_cpu_seconds(void);

/* Allocates `len` zeroed bytes, in huge pages if the system provides them. */
void *kit_map(size_t len);
void kit_unmap(void *p, size_t len);

/* Resident bytes of this process, and those of them in huge pages. */
size_t kit_resident(void);
size_t kit_in_huge_pages(void);

/* The median of n figures. Sorts them. */
double kit_median(double *figures, size_t n);

/* A report: rows of a table on standard output, and of a JSON list. */
typedef struct report {
    FILE *json; /* NULL for no JSON */
    size_t rows;
} report;

typedef struct report_row {
    const char *name;
    double value;
    const char *unit;
    const char *baseline_name; /* what the value is compared with, for the table */
    double baseline, ratio;
} report_row;

void report_add(report *r, const report_row *row);

#endif
