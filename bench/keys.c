/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* Computes a key from its number, so that a list of a hundred million keys is not needed. */

#include "keys.h"

/* Source: splitmix64. */
static uint64_t mix(uint64_t x)
{
    x += 0x9e3779b97f4a7c15;
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9;
    x = (x ^ x >> 27) * 0x94d049bb133111eb;
    return x ^ x >> 31;
}

/* All keys differ, since mix() is a bijection and the text contains all bits of its result. */
static void write_key(request_key *k, uint64_t number)
{
    uint64_t bits = mix(number);
    k->len = KEY_MIN + bits % (KEY_MAX - KEY_MIN + 1);
    for (unsigned i = 0; i < KEY_MAX; i++)
        k->text[i] = "0123456789abcdef"[bits >> (i % 16 * 4) & 15];
}

void keys_write(request_key *ret, uint64_t first, size_t n)
{
    for (size_t i = 0; i < n; i++)
        write_key(&ret[i], first + i);
}

void keys_draw(request_key *ret, uint64_t keys, size_t n, uint64_t seed)
{
    for (size_t i = 0; i < n; i++)
        write_key(&ret[i], mix(seed * n + i) % keys);
}
