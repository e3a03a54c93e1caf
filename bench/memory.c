/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* Finds the smallest store, in bytes a key, that holds all keys. Every key is charged its whole
 * limit at one point in time and then requested again. A key that is then allowed was evicted,
 * whatever the store's own count says. */

#include "kit.h"
#include "parts.h"
#include "subject.h"

enum { SLOT = 16, ASKED_MAX = 10000000 };

/* The sizes to try: memory_bytes divided by the number of keys. */
static const double sizes[] = {12, 13, 14, 15, 16, 16.5, 17, 17.5, 18, 18.5, 19, 20, 21, 22, 23, 24,
                               25, 26, 27, 28, 30, 32,   34, 36,   40, 48,   56, 64, 80, 96, 128};
enum { SIZES = sizeof sizes / sizeof sizes[0] };

/* Whether a store with this many bytes a key holds all keys. If the store counts evictions, the
 * keys are not requested again. */
static bool holds_all(const char *text, uint64_t keys, double bytes)
{
    subject s;
    size_t before = kit_resident();
    subject_open(&s, text, (size_t)(bytes * (double)keys), LARGE_BYTES_MIN);
    if (subject_sweep(&s, keys, NOW_NS, s.policy.layer[0].limit) != keys)
        die("a new key was denied");
    uint64_t evicted = weir_store_stats_get(s.store).evicted, missing = 0;
    double resident = (double)(kit_resident() - before) / (double)keys;
    if (evicted == 0)
        missing = subject_sweep(&s, keys < ASKED_MAX ? keys : ASKED_MAX, NOW_NS, 1);
    printf("  %9llu keys of %6.2f bytes (%6.2f resident), %s: %llu evicted\n",
           (unsigned long long)keys, bytes, resident, text, (unsigned long long)evicted);
    if (missing > 0)
        printf("  but %llu of them were missing\n", (unsigned long long)missing);
    fflush(stdout);
    subject_close(&s);
    return evicted == 0 && missing == 0;
}

static int index_of(double bytes)
{
    int i = 0;
    while (i < SIZES - 1 && sizes[i] < bytes)
        i++;
    return i;
}

/* Finds the smallest size that holds all keys by binary search, which begins with `first`. Returns
 * its index in `sizes`, or SIZES if no size is enough. */
static int smallest(const char *text, uint64_t keys, double first)
{
    int from = 0, to = SIZES; /* sizes below `from` are too small; `to` is enough */
    for (int i = index_of(first); from < to; i = (from + to) / 2) {
        if (holds_all(text, keys, sizes[i]))
            to = i;
        else
            from = i + 1;
    }
    return to;
}

/* The same for so many keys that each try is slow: a linear search upwards from the result for
 * fewer keys. If the result is below 20 bytes, 20 bytes are tried, too. */
static int smallest_of_many(const char *text, uint64_t keys, int found)
{
    while (found < SIZES && !holds_all(text, keys, sizes[found]))
        found++;
    if (found < index_of(20) && !holds_all(text, keys, 20))
        return SIZES;
    return found;
}

static void add_row(report *r, const char *name, int i)
{
    if (i == SIZES) {
        printf("%s: no size holds all keys\n", name);
        return;
    }
    report_add(r, &(report_row){.name = name,
                                .value = sizes[i],
                                .unit = "bytes",
                                .baseline_name = "a bare slot",
                                .baseline = SLOT,
                                .ratio = sizes[i] / SLOT});
}

void memory_run(report *r)
{
    const char *narrow = "gcra 1/h", *ticks = "gcra 3/s burst 1000",
               *counter = "sliding-counter 100/m";
    int found = smallest(narrow, 10000000, 20);
    add_row(r, "lib.bytes_per_key.10M", found);
    add_row(r, "lib.bytes_per_key.100M", smallest_of_many(narrow, 100000000, found));
    add_row(r, "lib.bytes_per_key.ticks.10M", smallest(ticks, 10000000, 30));
    add_row(r, "lib.bytes_per_key.counter.10M", smallest(counter, 10000000, 30));
}
