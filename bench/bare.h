/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef BENCH_BARE_H
#define BENCH_BARE_H
/* What the machine can do: the least that a server could get by with in one thread. GCRA on an
 * open-addressing table of 16-byte slots with linear probing, keys hashed by XXH3. It keeps nothing
 * of what a store promises: no threads, no secret, no budget, no expiry, one policy; the table must
 * not become full. But it answers all that a 429 has to say. */

#include "keys.h"

#include <stdbool.h>

typedef struct bare_slot {
    uint64_t tag; /* the key's hash, 0: empty */
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

/* Each takes one unit for a key. A batch is of KEY_BATCH, and fetches all slots before it needs the
 * first. */
void bare_single(const bare *b, const request_key *k, int64_t now_ns, bare_answer *ret);
void bare_batch(const bare *b, const request_key *k, int64_t now_ns, bare_answer *ret);

#endif
