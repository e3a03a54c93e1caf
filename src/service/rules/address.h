/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_SERVICE_RULES_ADDRESS_H
#define WEIR_SERVICE_RULES_ADDRESS_H
/* IP addresses as keys: read from text, cut to a network, printed in the one form (RFC 5952). An
 * IPv4-mapped IPv6 address is the IPv4 address. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct weir_address {
    uint8_t bytes[16]; /* network order; of IPv4 the first 4, the others 0 */
    bool v6;
} weir_address;

/* Dotted decimal without leading zeros, or IPv6 as in RFC 4291, without a zone and without
 * brackets. *ret is written only if true. Pure. */
bool weir_address_parse(weir_address *ret, const char *text, size_t len);

/* The bits of an address: 32 or 128. */
static inline unsigned weir_address_bits(const weir_address *a)
{
    return a->v6 ? 128 : 32;
}

/* Clears all bits but the first `bits`; returns whether any was set. */
bool weir_address_mask(weir_address *a, unsigned bits);

#define WEIR_ADDRESS_TEXT_MAX 48

/* Prints "10.0.0.0/8", or without the slash if `bits` are all there are. No terminator. Returns the
 * length, below WEIR_ADDRESS_TEXT_MAX. */
size_t weir_address_print(const weir_address *a, unsigned bits, char *buf);

#endif
