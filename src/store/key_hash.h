/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_STORE_KEY_HASH_H
#define WEIR_STORE_KEY_HASH_H
/* The hash of a key has 64 bits. The high 58 are a hash that is keyed with the store's secret. The
 * low 6 are the class of the policy, copied from the high 6 bits of its id. An attacker who does
 * not know the secret cannot find keys that share a bucket. With the processor's AES instruction it
 * is as fast as an unkeyed hash. All processors compute the same value.
 *
 * Each block of 16 bytes of the key goes through four rounds of AES with round keys of its own. The
 * sum of the blocks goes through four more rounds. For any two different keys of up to 64 bytes,
 * the probability over all secrets that their sums are equal is at most 2^-110. That is the largest
 * probability with which four rounds with independent keys turn one given difference into another.
 * A longer key is first reduced to 128 bits by two SipHash-1-3.
 * Sources: Minematsu and Tsunoo, "Provably Secure MACs from Differentially-Uniform Permutations"
 * (FSE 2006); Keliher and Sui, "Exact Maximum Expected Differential and Linear Probability for
 * Two-Round AES" (2005), for the bound; FIPS 197. */

#include <weir/weir_store.h>

#include "store/siphash.h"

enum {
    WEIR_HASH_LANES = 4,  /* blocks of a key */
    WEIR_HASH_ROUNDS = 4, /* for each block, and for their sum */
};

typedef struct weir_hash_block {
    uint64_t word[2]; /* the first 8 bytes as a little-endian number, then the other 8 */
} weir_hash_block;

/* The round keys, derived from a secret. */
typedef struct weir_hash_keys {
    weir_hash_block lane[WEIR_HASH_LANES][1 + WEIR_HASH_ROUNDS];
    weir_hash_block sum[WEIR_HASH_ROUNDS];
    weir_secret first, second; /* for keys longer than 64 bytes */
    uint8_t box[256];          /* the S-box of the version in plain C */
    bool has_aes;              /* use the AES instruction, and do not fold: the common case */
    bool folded, folded_aes;   /* fold, of the version with the AES instruction */
} weir_hash_keys;

void weir_hash_init(weir_hash_keys *ret, weir_secret secret);

/* A folded hash has 61 bits: bits 48 to 50 repeat bits 32 to 34. So a small table, which keeps the
 * low 48 bits, needs its buckets to tell only 13 bits more: see weir_table_each(). In a large
 * table, bits 48 to 50 also choose the first bucket. Bits 32 to 34 choose neither that nor the
 * distance to the other one, so the table fills as well as with whole hashes. From now on all
 * hashes are folded. */
void weir_hash_fold(weir_hash_keys *keys);

enum { WEIR_FOLDED_BITS = 3, WEIR_FOLDED_FROM = 32, WEIR_FOLDED_AT = 48 };
#define WEIR_FOLDED_MASK (((uint64_t)1 << (WEIR_FOLDED_AT + WEIR_FOLDED_BITS)) - 1)

static inline uint64_t weir_fold(uint64_t hash)
{
    const uint64_t bits = WEIR_FOLDED_MASK >> WEIR_FOLDED_AT << WEIR_FOLDED_AT;
    return (hash & ~bits) | (hash << (WEIR_FOLDED_AT - WEIR_FOLDED_FROM) & bits);
}

uint64_t weir_hash_plain(const weir_hash_keys *keys, uint64_t policy_id, const void *key,
                         size_t len);
uint64_t weir_hash_aes(const weir_hash_keys *keys, uint64_t policy_id, const void *key,
                       size_t len); /* only if port_has_aes() */

static inline bool weir_good_key(const void *key, size_t len)
{
    return key && len >= 1 && len <= WEIR_KEY_MAX;
}

/* Hashes a key if has_aes is false. */
uint64_t weir_hash_other(const weir_hash_keys *keys, uint64_t policy_id, const void *key,
                         size_t len);

/* Hashes a key under a policy.
 *  len  1 or more. */
static inline uint64_t weir_hash(const weir_hash_keys *keys, uint64_t policy_id, const void *key,
                                 size_t len)
{
    return keys->has_aes ? weir_hash_aes(keys, policy_id, key, len)
                         : weir_hash_other(keys, policy_id, key, len);
}

/* Hashes the keys of requests. The hash is 0 for a key that is not 1..WEIR_KEY_MAX bytes. */
void weir_hash_requests(const weir_hash_keys *keys, const weir_store_request *requests, size_t n,
                        uint64_t *ret_hashes);

#endif
