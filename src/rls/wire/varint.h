/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_RLS_WIRE_VARINT_H
#define WEIR_RLS_WIRE_VARINT_H
/* The parts of protobuf that the encoders share. Private to src/rls/wire. */

#include <stddef.h>
#include <stdint.h>

/* The first byte of a field, by its number. Its wire type is varint, or bytes. */
#define NUMBER(number) ((uint8_t)((number) << 3))
#define BYTES(number)  ((uint8_t)((number) << 3 | 2))

static inline size_t varint_len(uint64_t v)
{
    size_t bits = 64 - (size_t)__builtin_clzll(v | 1);
    return (bits * 9 + 64) / 64; /* bits / 7, up, for 1 to 64 bits */
}

/* Of a message or a string that is sent even if it is empty. */
static inline size_t bytes_len(size_t len)
{
    return 1 + varint_len(len) + len;
}

/* These return the byte after what they write. */
static inline uint8_t *put_varint(uint8_t *at, uint64_t v)
{
    for (; v >= 0x80; v >>= 7)
        *at++ = (uint8_t)(v | 0x80);
    *at++ = (uint8_t)v;
    return at;
}

static inline uint8_t *put_len(uint8_t *at, uint8_t tag, size_t len)
{
    *at++ = tag;
    return put_varint(at, len);
}

#endif
