/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* How few bytes a key may have before the store forgets a live one. Every key is charged until it
 * is denied, at a time that stands still; then each is asked for again, and one that is allowed has
 * been forgotten, whatever the store says. */

#include "kit.h"
#include "parts.h"
#include "subject.h"

enum { SLOT = 16, ASKED_MAX = 10000000 };

/* The sizes that are tried, of the whole of memory_bytes for each key. */
static const double sizes[] = {12, 13, 14, 15, 16, 16.5, 17, 17.5, 18, 18.5, 19, 20, 21, 22, 23, 24,
                               25, 26, 27, 28, 30, 32,   34, 36,   40, 48,   56, 64, 80, 96, 128};
enum { SIZES = sizeof sizes / sizeof sizes[0] };

/* Does a store of so many bytes a key hold all of them? Where it has evicted some by its own count,
 * there is no need to ask for them. */
static bool holds_all(const char *text, uint64_t keys, double bytes)
{
    subject s;
    size_t before = kit_resident();
    subject_open(&s, text, (size_t)(bytes * (double)keys), LARGE_BYTES_MIN);
    if (subject_sweep(&s, keys, NOW_NS, s.policy.layer[0].limit) != keys)
        die("a new key was denied");
    uint64_t evicted = weir_store_stats_get(s.store).evicted, forgotten = 0;
    double resident = (double)(kit_resident() - before) / (double)keys;
    if (evicted == 0)
        forgotten = subject_sweep(&s, keys < ASKED_MAX ? keys : ASKED_MAX, NOW_NS, 1);
    printf("  %9llu keys of %6.2f bytes (%6.2f resident), %s: %llu evicted\n",
           (unsigned long long)keys, bytes, resident, text, (unsigned long long)evicted);
    if (forgotten > 0)
        printf("  but %llu of them were forgotten\n", (unsigned long long)forgotten);
    fflush(stdout);
    subject_close(&s);
    return evicted == 0 && forgotten == 0;
}

static int place_of(double bytes)
{
    int i = 0;
    while (i < SIZES - 1 && sizes[i] < bytes)
        i++;
    return i;
}

/* The place of the smallest size that holds all keys, found by halves, `first` before all others;
 * SIZES if none does. */
static int smallest(const char *text, uint64_t keys, double first)
{
    int from = 0, to = SIZES; /* what is below `from` holds too few; `to` holds all */
    for (int i = place_of(first); from < to; i = (from + to) / 2) {
        if (holds_all(text, keys, sizes[i]))
            to = i;
        else
            from = i + 1;
    }
    return to;
}

/* For keys that take their time: upwards from the place that was found with fewer. What is less
 * than 20 bytes must hold with 20 too. */
static int smallest_of_many(const char *text, uint64_t keys, int found)
{
    while (found < SIZES && !holds_all(text, keys, sizes[found]))
        found++;
    if (found < place_of(20) && !holds_all(text, keys, 20))
        return SIZES;
    return found;
}

static void add_row(report *r, const char *name, int place)
{
    if (place == SIZES) {
        printf("%s: no size that was tried holds them all\n", name);
        return;
    }
    report_add(r, &(report_row){.name = name,
                                .value = sizes[place],
                                .unit = "bytes",
                                .baseline_name = "a bare slot",
                                .baseline = SLOT,
                                .ratio = sizes[place] / SLOT});
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
