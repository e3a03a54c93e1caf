/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* Compares how long it takes to open a state file with ten million keys and one with a hundred.
 * Opening reads no keys, so both should take the same time. The files are created in the working
 * directory. */

#include "kit.h"
#include "parts.h"
#include "subject.h"

#include <stdlib.h>
#include <unistd.h>

enum { ROUNDS = 9 };

static weir_store *open_at(const char *path, size_t memory_bytes)
{
    weir_store *s;
    const weir_store_options options = {
        .memory_bytes = memory_bytes, .file = path, .sync = WEIR_SYNC_NEVER};
    if (weir_store_open(&s, &options) != WEIR_OK)
        die("cannot open a state file in the working directory");
    return s;
}

/* The median time, in milliseconds, to open a file with this many keys. */
static double open_ms(uint64_t keys, size_t memory_bytes)
{
    char path[64];
    double took[ROUNDS];
    snprintf(path, sizeof path, "bench-state.%ld", (long)getpid());
    subject s = {.store = open_at(path, memory_bytes)};
    if (weir_policy_parse(&s.policy, "gcra 1/h", 8, NULL, NULL) != WEIR_OK)
        die("a policy is invalid");
    s.policy_id = weir_store_policy_id(s.store, &s.policy);
    if (subject_sweep(&s, keys, NOW_NS, 1) != keys)
        die("a new key was denied");
    weir_store_close(s.store);
    for (int i = 0; i < ROUNDS; i++) {
        double began = kit_seconds();
        s.store = open_at(path, memory_bytes);
        took[i] = (kit_seconds() - began) * 1e3;
        if (weir_store_stats_get(s.store).keys != keys)
            die("keys were lost");
        weir_store_close(s.store);
    }
    unlink(path);
    return kit_median(took, ROUNDS);
}

void state_run(report *r)
{
    double few = open_ms(100, (size_t)16 << 20), many = open_ms(10000000, (size_t)384 << 20);
    report_add(r, &(report_row){.name = "state.open_ms.10M",
                                .value = many,
                                .unit = "ms",
                                .baseline_name = "100 keys",
                                .baseline = few,
                                .ratio = many / few});
}
