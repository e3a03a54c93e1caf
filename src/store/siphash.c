/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* SipHash-1-3: one round per word and three at the end. */

#include "store/siphash.h"

static inline uint64_t rotl(uint64_t x, unsigned n)
{
    return x << n | x >> (64 - n);
}

/* Always inlined, so that the four words stay in registers. */
__attribute__((always_inline)) static inline void sip_round(uint64_t v[4])
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

/* Reads the last len % 8 bytes as a little-endian number. It loads 8 bytes at once if the input is
 * long enough: a loop would be mispredicted, because key lengths vary. */
static inline uint64_t read_rest(const uint8_t *bytes, size_t len)
{
    unsigned rest = len % 8;
    if (rest == 0)
        return 0;
    if (len >= 8)
        return weir_read8(bytes + len - 8) >> (64 - 8 * rest);
    uint64_t x = 0;
    for (unsigned i = 0; i < rest; i++)
        x |= (uint64_t)bytes[i] << (8 * i);
    return x;
}

uint64_t weir_siphash(weir_secret secret, const void *bytes, size_t len)
{
    const uint8_t *p = bytes;
    uint64_t v[4] = {secret.k0 ^ 0x736f6d6570736575, secret.k1 ^ 0x646f72616e646f6d,
                     secret.k0 ^ 0x6c7967656e657261, secret.k1 ^ 0x7465646279746573};
    for (size_t words = len / 8; words > 0; words--, p += 8) {
        uint64_t m = weir_read8(p);
        v[3] ^= m;
        sip_round(v);
        v[0] ^= m;
    }
    uint64_t last = (uint64_t)len << 56 | read_rest(bytes, len);
    v[3] ^= last;
    sip_round(v);
    v[0] ^= last;
    v[2] ^= 0xff;
    for (int i = 0; i < 3; i++)
        sip_round(v);
    return v[0] ^ v[1] ^ v[2] ^ v[3];
}
