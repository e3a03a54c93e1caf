/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef BENCH_BARE_H
#define BENCH_BARE_H
/* The bare loop, the baseline of the benchmark: the minimal rate limiter for one thread. It runs
 * GCRA on an open-addressing table of 16-byte slots with linear probing and XXH3. It has one
 * policy, and no threads, no secret, no memory limit and no expiry; the table must not become full.
 * It computes all fields of a reply. */

#include "keys.h"

#include <stdbool.h>

typedef struct bare_slot {
    uint64_t tag; /* the hash of the key; 0 for an empty slot */
    int64_t tat_ns;
} bare_slot;

typedef struct bare {
    bare_slot *slots;
    size_t len; /* a power of two */
    int64_t limit, interval_ns, capacity_ns;
} bare;

typedef struct bare_answer {
    int64_t limit, remaining, retry_after_ns, reset_after_ns;
    bool allowed;
} bare_answer;

void bare_open(bare *b, size_t len, int64_t limit, int64_t interval_ns);
void bare_close(bare *b);

/* Take one unit for a key, or for each of KEY_BATCH keys. A batch prefetches all its slots before
 * it uses the first. */
void bare_single(const bare *b, const request_key *k, int64_t now_ns, bare_answer *ret);
void bare_batch(const bare *b, const request_key *k, int64_t now_ns, bare_answer *ret);

#endif
