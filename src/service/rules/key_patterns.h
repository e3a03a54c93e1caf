/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_SERVICE_RULES_KEY_PATTERNS_H
#define WEIR_SERVICE_RULES_KEY_PATTERNS_H
/* A set of patterns for keys, each with a number, and the search for the one that fits a key best:
 * a whole key before a prefix, a longer prefix before a shorter; for addresses, after those, the
 * smallest network. A search costs one hash for each length that occurs among the patterns. */

#include "service/rules/address.h"

#include <weir/weir.h>

typedef struct weir_key_patterns weir_key_patterns;

/* An empty set with room for `n` patterns. NULL if there is no memory. */
weir_key_patterns *weir_key_patterns_new(size_t n);
void weir_key_patterns_free(weir_key_patterns *p); /* accepts NULL */

/* Adds a pattern: "key", "prefix*" (no other '*' may be in it), and with `addresses` also
 * "10.0.0.0/8" and "2001:db8::1", which fit whatever spelling of an address lies in them. The first
 * of two equal ones stays. At most `n` times.
 *  ret_why  written on WEIR_E_SYNTAX: what is wrong with it, for a reader; `size` bytes of room.
 * Returns WEIR_OK; WEIR_E_SYNTAX; WEIR_E_NOMEM. */
WEIR_NODISCARD weir_status weir_key_patterns_add(weir_key_patterns *p, const char *pattern,
                                                 bool addresses, uint32_t value, char *ret_why,
                                                 size_t size);

/* The number of the pattern that fits best; false if none fits.
 *  address  the key as an address, NULL if it is none. Any thread. */
bool weir_key_patterns_find(const weir_key_patterns *p, const char *key, size_t len,
                            const weir_address *address, uint32_t *ret);

#endif
