/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_CODEC_RESP_REPLY_READER_H
#define WEIR_CODEC_RESP_REPLY_READER_H
/* Parses RESP replies, the client's side of the protocol. There are two interfaces:
 *
 *   weir_resp_reply_read()   a whole reply in RESP2 or RESP3 as a flat tree, for the commands of
 *                            the program that query a daemon
 *   weir_resp_stream_read()  a RESP2 reply value by value, for the Redis client. It keeps no value,
 *                            so the slot map of a large Cluster takes no memory.
 *
 * Both are strict: bytes that violate the protocol are an error, and so are types that the server
 * never sends. The parser allocates nothing, and knows no command, socket or clock. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef enum weir_resp_type {
    WEIR_RESP_SIMPLE,      /* a simple string; text */
    WEIR_RESP_ERROR_REPLY, /* text */
    WEIR_RESP_INTEGER,
    WEIR_RESP_BULK, /* a bulk string; text may hold any bytes */
    WEIR_RESP_NULL, /* "_", "$-1", "*-1" */
    WEIR_RESP_BOOL,
    WEIR_RESP_ARRAY,
    WEIR_RESP_MAP
} weir_resp_type;

typedef struct weir_resp_value {
    weir_resp_type type;
    const char *text; /* `len` bytes in the input, not terminated */
    size_t len;       /* of a map or an array: how many values it holds; a pair counts as 2 */
    int64_t integer;  /* also of a boolean: 0 or 1 */
    unsigned depth;   /* stream only: 0 for the reply itself, 1 for the values in it, ... */
    bool last;        /* stream only: the reply ends with this value */
} weir_resp_value;

typedef enum weir_resp_reading {
    WEIR_RESP_READ,
    WEIR_RESP_READ_MORE, /* incomplete: call again with more bytes */
    WEIR_RESP_READ_ERROR /* a protocol error, whatever bytes follow */
} weir_resp_reading;

/* ---- whole replies --------------------------------------------------------------------------- */

/* Enough for the longest replies of a daemon: WEIR.TOP with 1000 keys, WEIR.POLICY LIST with 1024
 * policies. */
#define WEIR_RESP_VALUES_MAX    16384   /* values in a reply, including arrays and maps */
#define WEIR_RESP_REPLY_LEN_MAX 5242880 /* bytes of a reply */

/* The values in depth-first order: the members of an array or a map follow it directly. */
typedef struct weir_resp_reply {
    weir_resp_value value[WEIR_RESP_VALUES_MAX];
    size_t values;
    size_t used; /* bytes of the input that the reply takes */
} weir_resp_reply;

/* Parses the reply at the front of the input.
 *  ret  valid after WEIR_RESP_READ only; points into `bytes`.
 * Returns WEIR_RESP_READ_MORE for every proper prefix of a valid reply, but never for an input of
 * WEIR_RESP_REPLY_LEN_MAX bytes. Threads: pure. Source: the RESP3 specification, 1.0. */
weir_resp_reading weir_resp_reply_read(const uint8_t *bytes, size_t len, weir_resp_reply *ret);

/* The value after `v` and all its members. After the last value of a reply: one past its end. */
const weir_resp_value *weir_resp_value_next(const weir_resp_value *v);

/* The value of the first member `name` of a map. NULL if `map` is not a map or has no such member.
 * Does not search nested maps. */
const weir_resp_value *weir_resp_value_member(const weir_resp_value *map, const char *name);

/* ---- value by value -------------------------------------------------------------------------- */

#define WEIR_RESP_STREAM_DEPTH_MAX  8           /* nested arrays */
#define WEIR_RESP_STREAM_VALUES_MAX (1u << 20)  /* values in a reply, including arrays */
#define WEIR_RESP_STREAM_TEXT_MAX   (16u << 10) /* bytes of a string or an error */

/* The position in a reply. One for each connection; all zero before its first byte. */
typedef struct weir_resp_stream {
    unsigned depth;                            /* arrays that are open */
    uint32_t left[WEIR_RESP_STREAM_DEPTH_MAX]; /* values that each open array still needs */
    /* The index in its array of the latest value, at each depth from 1 on. */
    uint32_t index[WEIR_RESP_STREAM_DEPTH_MAX + 1];
    uint32_t values; /* read so far of this reply */
} weir_resp_stream;

/* Parses the value at the front of the input. `*r`, `*ret` and `*ret_used` are written on
 * WEIR_RESP_READ only.
 *  ret_used  bytes of the value, to be dropped before the next call. Members of an array follow as
 *            values of their own.
 * Never returns WEIR_RESP_READ_MORE for an input of WEIR_RESP_STREAM_TEXT_MAX + 32 bytes. */
weir_resp_reading weir_resp_stream_read(weir_resp_stream *r, const uint8_t *bytes, size_t len,
                                        weir_resp_value *ret, size_t *ret_used);

/* Fast path: parses a whole reply that is an array of n integers, as decisions are.
 *  ret  n integers; may be overwritten on failure too.
 * Returns the bytes of the reply. 0 if the reply is anything else or incomplete: use
 * weir_resp_stream_read() then. */
size_t weir_resp_read_integers(const uint8_t *bytes, size_t len, int64_t *ret, size_t n);

#endif
