/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_SERVICE_RULES_KEY_PATTERNS_H
#define WEIR_SERVICE_RULES_KEY_PATTERNS_H
/* A set of key patterns, each with a value, and the search for the pattern that matches a key best:
 * the whole key first, then the longest prefix, then the smallest network. A search hashes once for
 * each length of prefix or network that occurs in the set. */

#include "service/rules/address.h"

#include <weir/weir.h>

typedef struct weir_key_patterns weir_key_patterns;

/* Makes an empty set for up to n patterns. Returns NULL if memory is exhausted. */
weir_key_patterns *weir_key_patterns_new(size_t n);
void weir_key_patterns_free(weir_key_patterns *p); /* accepts NULL */

/* Adds a pattern: a whole key, or a prefix and '*'. No other '*' is allowed. With `addresses`, a
 * pattern may also be a network ("10.0.0.0/8") or an address ("2001:db8::1"), which matches in any
 * spelling. If the pattern is in the set already, its value stays.
 *  ret_why  on WEIR_E_SYNTAX: a message, in a buffer of `size` bytes; NULL with size 0: none.
 * Returns WEIR_OK; WEIR_E_SYNTAX; WEIR_E_NOMEM. */
WEIR_NODISCARD weir_status weir_key_patterns_add(weir_key_patterns *p, const char *pattern,
                                                 bool addresses, uint32_t value, char *ret_why,
                                                 size_t size);

/* Finds the value of the pattern that matches best. Returns false if none matches. Any thread.
 *  address  the key as an address; NULL if it is not one. */
bool weir_key_patterns_find(const weir_key_patterns *p, const char *key, size_t len,
                            const weir_address *address, uint32_t *ret);

#endif
