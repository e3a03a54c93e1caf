/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_STORE_KEY_HASH_H
#define WEIR_STORE_KEY_HASH_H
/* The hash that keys are held by: 64 bits, under a secret, so that nobody who does not know it can
 * find two keys that share a bucket, and as fast as a hash without one where the processor knows
 * AES. It is the same number on every processor.
 *
 * Blocks of 16 bytes of the key go through four rounds of AES each, every block under round keys of
 * its own, and their sum through four more. For any two different keys of up to 64 bytes the sums
 * are equal with a chance of at most 2^-110 over the secrets: no difference of two inputs goes
 * through four rounds with independent keys to a given one with more than that. A longer key
 * is read by SipHash-1-3 first, twice, to 128 bits.
 * Sources: Minematsu and Tsunoo, "Provably Secure MACs from Differentially-Uniform Permutations"
 * (FSE 2006); Keliher and Sui, "Exact Maximum Expected Differential and Linear Probability for
 * Two-Round AES" (2005), for the bound; FIPS 197. */

#include <weir/weir_store.h>

#include "store/siphash.h"

enum {
    WEIR_HASH_LANES = 4,  /* blocks that are read at once */
    WEIR_HASH_ROUNDS = 4, /* of each, and of their sum */
};

typedef struct weir_hash_block {
    uint64_t word[2]; /* the first 8 bytes as a little-endian number, then the others */
} weir_hash_block;

/* What follows from a secret. */
typedef struct weir_hash_keys {
    weir_hash_block lane[WEIR_HASH_LANES][1 + WEIR_HASH_ROUNDS];
    weir_hash_block sum[WEIR_HASH_ROUNDS];
    weir_secret first, second; /* for long keys */
    uint8_t box[256];          /* SubBytes, where it has to be done in C */
    bool hard;                 /* the processor knows AES */
} weir_hash_keys;

void weir_hash_init(weir_hash_keys *ret, weir_secret secret);

uint64_t weir_hash_soft(const weir_hash_keys *keys, uint64_t policy_id, const void *key,
                        size_t len);
uint64_t weir_hash_hard(const weir_hash_keys *keys, uint64_t policy_id, const void *key,
                        size_t len); /* only if keys->hard */

/* The hash of a key under a policy.
 *  len  1 or more. */
static inline uint64_t weir_hash(const weir_hash_keys *keys, uint64_t policy_id, const void *key,
                                 size_t len)
{
    return keys->hard ? weir_hash_hard(keys, policy_id, key, len)
                      : weir_hash_soft(keys, policy_id, key, len);
}

/* The hashes of the requests' keys; 0 for a key that is not 1..WEIR_KEY_MAX bytes. */
void weir_hash_requests(const weir_hash_keys *keys, const weir_store_request *requests, size_t n,
                        uint64_t *ret_hashes);

#endif
