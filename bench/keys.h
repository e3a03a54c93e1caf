/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef BENCH_KEYS_H
#define BENCH_KEYS_H
/* The keys of the requests, the same for every loop: texts of 16 to 24 bytes, one behind the other
 * in memory, like the keys in the input of a server. */

#include <stddef.h>
#include <stdint.h>

enum { KEY_MIN = 16, KEY_MAX = 24, KEY_BATCH = 32 };

typedef struct request_key {
    char text[KEY_MAX];
    uint64_t len;
} request_key;

/* Writes the keys numbered first to first + n - 1. */
void keys_write(request_key *ret, uint64_t first, size_t n);

/* Writes n random keys of those numbered 0 to keys - 1. */
void keys_draw(request_key *ret, uint64_t keys, size_t n, uint64_t seed);

#endif
