/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_CODEC_ANSWER_CLIENT_ADDRESS_H
#define WEIR_CODEC_ANSWER_CLIENT_ADDRESS_H
/* Who the client of a request is: the address of the connection, or, if that is a trusted proxy,
 * the address that the proxies report in a header (Forwarded, RFC 7239; X-Forwarded-For; or another
 * list of addresses). Of the reported addresses, the right-most that is not a trusted proxy counts,
 * because everything on its left may be forged. All functions are pure. */

#include "port/text.h"
#include "service/rules/address.h"

typedef struct weir_network {
    weir_address address;
    unsigned bits; /* 0..32 or 0..128 */
} weir_network;

#define WEIR_TRUSTED_PROXIES_MAX 1024

typedef struct weir_trusted_proxies {
    const weir_network *at;
    size_t len;
} weir_trusted_proxies;

/* Reads "10.0.0.0/8", "2001:db8::/32" or an address. Bits beyond the network must be zero. */
bool weir_network_parse(weir_network *ret, const char *text, size_t len);

bool weir_trusted_proxies_have(const weir_trusted_proxies *t, const weir_address *a);

typedef enum weir_client_header {
    WEIR_CLIENT_LIST,     /* X-Forwarded-For: addresses separated by commas, each with or without a
                             port, an IPv6 address with or without brackets; X-Real-IP is a list of
                             one */
    WEIR_CLIENT_FORWARDED /* Forwarded: for=192.0.2.7;proto=https, for="[2001:db8::7]:4711" */
} weir_client_header;

/* Finds the address of the client.
 *  peer    the address of the connection.
 *  header  the value of the header, its lines joined with ", "; absent: no header. It is read from
 *          the right. An element that is no address ("unknown", "_hidden", malformed) ends the
 *          search: the client is then the address on its right, or `peer` if there is none. */
weir_address weir_client_address(const weir_trusted_proxies *t, const weir_address *peer,
                                 weir_client_header kind, weir_slice header);

#endif
