/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* SipHash-1-3: one round a word, three at the end. */

#include "store/siphash.h"

static uint64_t rotl(uint64_t x, unsigned n)
{
    return x << n | x >> (64 - n);
}

static void sip_round(uint64_t v[4])
{
    v[0] += v[1];
    v[2] += v[3];
    v[1] = rotl(v[1], 13) ^ v[0];
    v[3] = rotl(v[3], 16) ^ v[2];
    v[0] = rotl(v[0], 32);
    v[2] += v[1];
    v[0] += v[3];
    v[1] = rotl(v[1], 17) ^ v[2];
    v[3] = rotl(v[3], 21) ^ v[0];
    v[2] = rotl(v[2], 32);
}

/* `len` (0..8) bytes as a little-endian number. */
static uint64_t read_le(const uint8_t *p, size_t len)
{
    uint64_t x = 0;
    for (size_t i = 0; i < len; i++)
        x |= (uint64_t)p[i] << (8 * i);
    return x;
}

uint64_t weir_siphash(weir_secret secret, const void *bytes, size_t len)
{
    const uint8_t *p = bytes;
    uint64_t v[4] = {secret.k0 ^ 0x736f6d6570736575, secret.k1 ^ 0x646f72616e646f6d,
                     secret.k0 ^ 0x6c7967656e657261, secret.k1 ^ 0x7465646279746573};
    size_t left = len;
    for (; left >= 8; left -= 8, p += 8) {
        uint64_t m = read_le(p, 8);
        v[3] ^= m;
        sip_round(v);
        v[0] ^= m;
    }
    uint64_t last = (uint64_t)len << 56 | read_le(p, left);
    v[3] ^= last;
    sip_round(v);
    v[0] ^= last;
    v[2] ^= 0xff;
    for (int i = 0; i < 3; i++)
        sip_round(v);
    return v[0] ^ v[1] ^ v[2] ^ v[3];
}
