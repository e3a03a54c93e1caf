/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_CODEC_RESP_REPLY_READER_H
#define WEIR_CODEC_RESP_REPLY_READER_H
/* RESP, client side: bytes -> one reply, in RESP2 and RESP3; for `weir take` and the other commands
 * that ask a daemon. Strict: whatever the protocol does not allow, or weir never sends, is an
 * error. It must not know any command, any socket or the time, and allocates nothing. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Room for the longest replies of a daemon: WEIR.TOP of 1000 keys, WEIR.POLICY LIST of 1024
 * policies. */
#define WEIR_RESP_NODES_MAX     16384   /* values in a reply, including arrays and maps */
#define WEIR_RESP_REPLY_LEN_MAX 5242880 /* bytes of a reply */

typedef enum weir_resp_type {
    WEIR_RESP_SIMPLE,       /* text */
    WEIR_RESP_REPLY_FAILED, /* an error reply; text */
    WEIR_RESP_INTEGER,
    WEIR_RESP_BULK, /* text: any bytes */
    WEIR_RESP_NULL, /* "_", "$-1", "*-1" */
    WEIR_RESP_BOOL,
    WEIR_RESP_ARRAY,
    WEIR_RESP_MAP
} weir_resp_type;

/* A value. Those that an array or a map holds follow it at once, each with all that it holds. */
typedef struct weir_resp_node {
    weir_resp_type type;
    const char *text; /* `len` bytes in the input, not terminated */
    size_t len;       /* of a map or an array: how many values it holds; a pair counts 2 */
    int64_t integer;  /* a boolean too: 0 or 1 */
} weir_resp_node;

typedef struct weir_resp_reply {
    weir_resp_node node[WEIR_RESP_NODES_MAX];
    size_t nodes;
    size_t used; /* bytes of the input that it was */
} weir_resp_reply;

typedef enum weir_resp_reading {
    WEIR_RESP_READ,
    WEIR_RESP_READ_MORE, /* it may become a reply when more bytes are there */
    WEIR_RESP_READ_ERROR /* it will never be one */
} weir_resp_reading;

/* Reads the one reply at the front of the input.
 *  ret  good after WEIR_RESP_READ alone; it points into `bytes`.
 * The answer for all of a reply does not depend on what was asked about its beginnings, and no
 * beginning of a good reply is an error. An input of WEIR_RESP_REPLY_LEN_MAX bytes always has an
 * answer other than WEIR_RESP_READ_MORE. Threads: pure. Source: the RESP3 specification, 1.0. */
weir_resp_reading weir_resp_reply_read(const uint8_t *bytes, size_t len, weir_resp_reply *ret);

/* The value behind a node of a reply that was read, and behind all that the node holds. Behind the
 * last value it points one past the reply. */
const weir_resp_node *weir_resp_node_next(const weir_resp_node *node);

/* The value of the first member `name` of a map; NULL if the node is no map, or has no such member.
 * Maps within it are not searched. */
const weir_resp_node *weir_resp_node_member(const weir_resp_node *map, const char *name);

#endif
