/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_STORE_SIPHASH_H
#define WEIR_STORE_SIPHASH_H
/* SipHash-1-3, a keyed hash function: without the secret, nobody can find inputs that collide. It
 * hashes policy texts, ids, checksums and keys longer than 64 bytes. Shorter keys are hashed with
 * AES, see key_hash.h.
 * Source: Aumasson, Bernstein, SipHash: a fast short-input PRF, 2012. */

#include <stddef.h>
#include <stdint.h>
#include <string.h>

typedef struct weir_secret {
    uint64_t k0, k1;
} weir_secret;

/* Reads 8 bytes as a little-endian number. */
static inline uint64_t weir_read8(const uint8_t *p)
{
    uint64_t x;
    memcpy(&x, p, sizeof x);
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
    x = __builtin_bswap64(x);
#endif
    return x;
}

/* Pure. */
uint64_t weir_siphash(weir_secret secret, const void *bytes, size_t len);

#endif
