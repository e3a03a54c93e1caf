/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_ENGINE_REDIS_REPLY_H
#define WEIR_ENGINE_REDIS_REPLY_H
/* RESP2 replies of servers, value by value as they come: nothing is kept of what was read, so a
 * map of a large Cluster needs no more room than its longest name. Arrays of integers, which is
 * what decisions come as, are read at once if they are there. Strict: whatever the protocol does
 * not allow is an error. It must not know what a reply is about. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define WEIR_REDIS_DEPTH_MAX  8           /* arrays within each other */
#define WEIR_REDIS_VALUES_MAX (1u << 20)  /* of a reply, arrays included */
#define WEIR_REDIS_VALUE_MAX  (16u << 10) /* bytes of a text */

typedef enum weir_redis_type {
    WEIR_REDIS_SIMPLE,
    WEIR_REDIS_FAILED, /* an error reply */
    WEIR_REDIS_INTEGER,
    WEIR_REDIS_BULK,
    WEIR_REDIS_NULL,
    WEIR_REDIS_ARRAY
} weir_redis_type;

typedef struct weir_redis_value {
    weir_redis_type type;
    int64_t integer;
    const char *text; /* `len` bytes in the input, not terminated */
    size_t len;       /* of an array: how many values it holds */
    unsigned depth;   /* 0: the reply itself; its values 1, ... */
    bool last;        /* the reply ends with it */
} weir_redis_value;

/* One for each line; all zero before its first byte. */
typedef struct weir_redis_reader {
    unsigned depth;                           /* arrays that are open */
    uint32_t left[WEIR_REDIS_DEPTH_MAX];      /* values that each still lacks */
    uint32_t index[WEIR_REDIS_DEPTH_MAX + 1]; /* of the value read last, at each depth but 0, in the
                                                 array that holds it */
    uint32_t values;                          /* read of this reply */
} weir_redis_reader;

typedef enum weir_redis_reading {
    WEIR_REDIS_READ,
    WEIR_REDIS_READ_MORE, /* it may become a value when more bytes are there */
    WEIR_REDIS_READ_ERROR /* it will never be one */
} weir_redis_reading;

/* Reads the value at the front of the input.
 *  ret, ret_used  the value, and its bytes, to be dropped; written on WEIR_REDIS_READ only, as is
 *                 the reader.
 * No input of WEIR_REDIS_VALUE_MAX + 32 bytes is WEIR_REDIS_READ_MORE. */
weir_redis_reading weir_redis_read(weir_redis_reader *r, const uint8_t *bytes, size_t len,
                                   weir_redis_value *ret, size_t *ret_used);

/* Reads a whole reply that is an array of n integers.
 *  ret  n of them; written also if it is none.
 * Returns its bytes; 0 if it is something else, or not all there: then weir_redis_read() knows. */
size_t weir_redis_read_integers(const uint8_t *bytes, size_t len, int64_t *ret, size_t n);

#endif
