/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_PORT_AES_H
#define WEIR_PORT_AES_H
/* Whether the processor has a round of AES as one instruction, and how it is said to the compiler:
 * a function that is marked PORT_AES_HARD may call the intrinsics, and may itself be called only
 * where port_aes_is_hard(). Where PORT_AES_HARD is not defined there are none. */

#include <stdbool.h>

#if defined(__x86_64__) && defined(__GNUC__)
#include <immintrin.h>
#define PORT_AES_HARD __attribute__((target("aes,sse4.1")))
#endif

/* Any thread. */
static inline bool port_aes_is_hard(void)
{
#ifdef PORT_AES_HARD
    return __builtin_cpu_supports("aes") && __builtin_cpu_supports("sse4.1");
#else
    return false;
#endif
}

#endif
