/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_SERVICE_RULES_ADDRESS_H
#define WEIR_SERVICE_RULES_ADDRESS_H
/* IP addresses as keys: parsed from text, masked to a network, and printed in canonical form
 * (RFC 5952). An IPv4-mapped IPv6 address is the same as the IPv4 address. It must not know what an
 * address is used for. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct weir_address {
    uint8_t bytes[16]; /* in network order; an IPv4 address has 4, followed by zeros */
    bool v6;
} weir_address;

/* Parses dotted decimal without leading zeros, or IPv6 (RFC 4291) without a zone or brackets. *ret
 * is written on success only. Pure. */
bool weir_address_parse(weir_address *ret, const char *text, size_t len);

/* The number of bits: 32 or 128. */
static inline unsigned weir_address_bits(const weir_address *a)
{
    return a->v6 ? 128 : 32;
}

/* Clears all bits after the first `bits`. Returns whether one of them was set. */
bool weir_address_mask(weir_address *a, unsigned bits);

#define WEIR_ADDRESS_TEXT_MAX 48

/* Prints "10.0.0.0/8", or "10.0.0.1" if `bits` is the number of all bits. Writes no NUL. Returns
 * the length, below WEIR_ADDRESS_TEXT_MAX. */
size_t weir_address_print(const weir_address *a, unsigned bits, char *buf);

#endif
