/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* Huge pages on Linux, and the layout of the table and the JSON. */

#define _GNU_SOURCE /* madvise, program_invocation_short_name */

#include "kit.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

void die(const char *what)
{
    fflush(stdout);
    fprintf(stderr, "%s: %s\n", program_invocation_short_name, what);
    exit(1);
}

static double read_clock(clockid_t clock)
{
    struct timespec t;
    clock_gettime(clock, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

double kit_seconds(void)
{
    return read_clock(CLOCK_MONOTONIC);
}

double kit_cpu_seconds(void)
{
    return read_clock(CLOCK_THREAD_CPUTIME_ID);
}

void *kit_map(size_t len)
{
    void *p = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED)
        die("out of memory");
    (void)madvise(p, len, MADV_HUGEPAGE);
    return p;
}

void kit_unmap(void *p, size_t len)
{
    munmap(p, len);
}

/* Reads a field of smaps_rollup. Returns bytes, or 0 on a system without the file. */
static size_t rollup(const char *name)
{
    char line[256];
    size_t kib = 0;
    FILE *f = fopen("/proc/self/smaps_rollup", "r");
    while (f && fgets(line, sizeof line, f)) {
        if (strncmp(line, name, strlen(name)) == 0)
            kib = (size_t)strtoull(line + strlen(name), NULL, 10);
    }
    if (f)
        fclose(f);
    return kib * 1024;
}

size_t kit_resident(void)
{
    return rollup("Rss:");
}

size_t kit_in_huge_pages(void)
{
    return rollup("AnonHugePages:");
}

static int by_size(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

double kit_median(double *figures, size_t n)
{
    qsort(figures, n, sizeof *figures, by_size);
    return (figures[(n - 1) / 2] + figures[n / 2]) / 2;
}

void report_add(report *r, const report_row *row)
{
    printf("%-40s %9.3f %-7s %-18s %9.3f   ratio %6.3f\n", row->name, row->value, row->unit,
           row->baseline_name, row->baseline, row->ratio);
    fflush(stdout);
    if (r->json)
        fprintf(r->json,
                "%s\n  {\"name\": \"%s\", \"value\": %.4f, \"unit\": \"%s\", \"baseline\": %.4f, "
                "\"ratio\": %.4f}",
                r->rows ? "," : "", row->name, row->value, row->unit, row->baseline, row->ratio);
    r->rows++;
}
