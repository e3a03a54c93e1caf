/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_NET_PROXY_PROTOCOL_H
#define WEIR_NET_PROXY_PROTOCOL_H
/* The PROXY protocol, versions 1 and 2: a header with which a proxy begins a connection, to report
 * the address of its client. This file must not know connections.
 * Source: "The PROXY protocol", Willy Tarreau, revision of 2020. */

#include "net/server.h"

/* The longest header that is accepted, in bytes. Version 1 has at most 107. */
#define WEIR_PROXY_HEADER_MAX 4096

typedef struct weir_proxy_header {
    size_t len;       /* bytes of the header */
    bool has_address; /* false: the address of the connection counts (LOCAL, UNKNOWN, no TCP) */
    weir_peer_address client;
} weir_proxy_header;

typedef enum weir_proxy_result {
    WEIR_PROXY_MORE, /* the bytes so far are the beginning of a header */
    WEIR_PROXY_DONE,
    WEIR_PROXY_MALFORMED
} weir_proxy_result;

/* Reads the header at the front of what a connection received. The result is the same for every
 * split of the bytes: a malformed header is never DONE first. Pure.
 *  ret      written on DONE.
 *  ret_why  written on MALFORMED: what is wrong; static. */
weir_proxy_result weir_proxy_header_read(const uint8_t *bytes, size_t len, weir_proxy_header *ret,
                                         const char **ret_why);

#endif
