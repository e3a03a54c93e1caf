/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_CODEC_ID_H
#define WEIR_CODEC_ID_H
/* The ids of reservations as texts: 16 hex digits, since JSON and many clients have no number of 64
 * bits. And what both protocols say of reservations. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { WEIR_ID_LEN = 16 };

/* Why there is none, of WEIR_E_FULL. */
#define WEIR_RESERVE_FULL                                                                          \
    "as many reservations are open as the store holds, or it is full and refuses new keys"

#define WEIR_ID_EXPECTED "16 hex digits, as the reservation was answered with"

static inline void weir_id_print(uint64_t id, char ret[WEIR_ID_LEN])
{
    for (int i = 0; i < WEIR_ID_LEN; i++)
        ret[i] = "0123456789abcdef"[id >> (60 - 4 * i) & 15];
}

static inline bool weir_id_read(const char *at, size_t len, uint64_t *ret)
{
    uint64_t id = 0;
    for (size_t i = 0; i < len; i++) {
        char c = at[i];
        int digit = c >= '0' && c <= '9'   ? c - '0'
                    : c >= 'a' && c <= 'f' ? c - 'a' + 10
                    : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                           : -1;
        if (digit < 0)
            return false;
        id = id << 4 | (uint64_t)digit;
    }
    if (len != WEIR_ID_LEN)
        return false;
    *ret = id;
    return true;
}

#endif
