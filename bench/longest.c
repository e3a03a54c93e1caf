/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* The longest of many millions of calls into a new store that fills. A shared machine takes the
 * processor away now and then, and what is measured then is not the store: the figure is the
 * smallest of several rounds' longest calls, and beside it stands a loop that only reads the clock,
 * for as long as the calls took. */

#include "kit.h"
#include "parts.h"
#include "subject.h"

enum { ROUNDS = 5, SOME = 1024, CALLS = 10000 * SOME };

static double longest_call(void)
{
    subject s;
    double longest = 0;
    subject_open(&s, "gcra 1/h", (size_t)512 << 20, LARGE_BYTES_MIN);
    for (uint64_t n = 0; n < CALLS; n += SOME) {
        request_key keys[SOME];
        keys_write(keys, n, SOME);
        for (int i = 0; i < SOME; i++) {
            double began = kit_seconds();
            uint64_t allowed = subject_single(&s, &keys[i], 1, NOW_NS, 1);
            double took = kit_seconds() - began;
            longest = took > longest ? took : longest;
            if (allowed != 1)
                die("a new key was denied");
        }
    }
    subject_close(&s);
    return longest;
}

static double longest_nothing(double seconds)
{
    double longest = 0, end = kit_seconds() + seconds, began, ended;
    do {
        began = kit_seconds();
        ended = kit_seconds();
        longest = ended - began > longest ? ended - began : longest;
    } while (ended < end);
    return longest;
}

void longest_run(report *r)
{
    double call = 1e9, nothing = 1e9;
    for (int round = 0; round < ROUNDS; round++) {
        double began = kit_seconds(), a = longest_call();
        double b = longest_nothing(kit_seconds() - began);
        printf("  round %d: longest of %d calls %.3f ms, of reading the clock %.3f ms\n", round + 1,
               CALLS, a * 1e3, b * 1e3);
        call = a < call ? a : call;
        nothing = b < nothing ? b : nothing;
    }
    report_add(r, &(report_row){.name = "lib.longest_call_ms",
                                .value = call * 1e3,
                                .unit = "ms",
                                .baseline_name = "reading the clock",
                                .baseline = nothing * 1e3,
                                .ratio = call / nothing});
}
