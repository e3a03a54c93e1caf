/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_TESTS_CHECK_H
#define WEIR_TESTS_CHECK_H
/* An assertion for tests that are plain programs. */

#include <stdio.h>
#include <stdlib.h>

#define CHECK(x)                                                                                   \
    do {                                                                                           \
        if (!(x)) {                                                                                \
            fprintf(stderr, "line %d: not true: %s\n", __LINE__, #x);                              \
            abort();                                                                               \
        }                                                                                          \
    } while (0)

#endif
