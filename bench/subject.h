/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef BENCH_SUBJECT_H
#define BENCH_SUBJECT_H
/* The subject of the benchmark: a store with one policy, through its public API. */

#include "keys.h"

#include <weir/weir_store.h>

typedef struct subject {
    weir_policy policy;
    uint64_t policy_id;
    weir_store *store;
} subject;

/* The minimum size of the large states of a store. */
#define LARGE_BYTES_MIN ((size_t)64 << 10)

/* large_bytes is part of memory_bytes. */
void subject_open(subject *s, const char *text, size_t memory_bytes, size_t large_bytes);
void subject_close(subject *s);

/* Take `cost` for each of n keys, with one call a key, or in batches of KEY_BATCH keys, of which n
 * is a multiple. Return how many were allowed. */
uint64_t subject_single(const subject *s, const request_key *keys, size_t n, int64_t now_ns,
                        int64_t cost);
uint64_t subject_batch(const subject *s, const request_key *keys, size_t n, int64_t now_ns,
                       int64_t cost);

/* Prepares n keys. */
void subject_prepare(const subject *s, const request_key *keys, size_t n, weir_key *ret);

/* Take `cost` for each of n prepared keys, with one call a key. subject_prefetched() prefetches a
 * key SUBJECT_AHEAD calls before it decides. Return how many were allowed. */
enum { SUBJECT_AHEAD = 8 };
uint64_t subject_prepared(const subject *s, const weir_key *keys, size_t n, int64_t now_ns,
                          int64_t cost);
uint64_t subject_prefetched(const subject *s, const weir_key *keys, size_t n, int64_t now_ns,
                            int64_t cost);

/* Takes `cost` for each of the keys numbered 0 to keys - 1, in batches. Returns how many were
 * allowed. */
uint64_t subject_sweep(const subject *s, uint64_t keys, int64_t now_ns, int64_t cost);

#endif
