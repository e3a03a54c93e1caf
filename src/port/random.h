/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_PORT_RANDOM_H
#define WEIR_PORT_RANDOM_H
/* Reproducible random numbers: the same seed gives the same numbers on every machine. They are not
 * secret; see port_random() for those that are. */

#include <stdint.h>

/* Returns the next number, uniform over all 64-bit values. Any seed will do.
 * Source: splitmix64; Steele, Lea, Flood, "Fast splittable pseudorandom number generators",
 * 2014. */
static inline uint64_t port_random_next(uint64_t *seed)
{
    uint64_t z = *seed += 0x9e3779b97f4a7c15;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
    z = (z ^ z >> 27) * 0x94d049bb133111eb;
    return z ^ z >> 31;
}

#endif
