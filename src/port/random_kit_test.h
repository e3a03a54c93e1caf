/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_PORT_RANDOM_KIT_TEST_H
#define WEIR_PORT_RANDOM_KIT_TEST_H
/* Random numbers for tests: the same seed gives the same numbers. */

#include "port/random.h"

/* Returns the next number. Any seed will do. */
static inline uint64_t next_random(uint64_t *seed)
{
    return port_random_next(seed);
}

#endif
