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

/* Adds a pattern: a whole key; a prefix and '*', with no other '*'; an address ("2001:db8::1"), in
 * any spelling; or a network ("10.0.0.0/8", "10.*").
 *  plain    an address or a network is also added as a whole key or a prefix.
 *  ret_why  on WEIR_E_SYNTAX: a message, in a buffer of `size` bytes; NULL with size 0: none.
 * Returns WEIR_OK; WEIR_E_SYNTAX, also if the set has the same pattern with another value;
 * WEIR_E_NOMEM. */
WEIR_NODISCARD weir_status weir_key_patterns_add(weir_key_patterns *p, const char *pattern,
                                                 bool plain, uint32_t value, char *ret_why,
                                                 size_t size);

/* Whether weir_key_patterns_add() reads a pattern as an address or a network. Pure.
 *  ret, ret_bits  the network; all bits for a single address. Written only on success. */
bool weir_key_pattern_net(const char *pattern, weir_address *ret, unsigned *ret_bits);

/* Finds the value of the pattern that matches best. Returns false if none matches. Any thread.
 *  key      in canonical form if it is an address.
 *  address  the key as an address, or the address in the key that patterns match; NULL: none. */
bool weir_key_patterns_find(const weir_key_patterns *p, const char *key, size_t len,
                            const weir_address *address, uint32_t *ret);

/* Whether all keys that a pattern matches are matched by a pattern of the set.
 *  pattern  one that weir_key_patterns_add() accepts; `plain` is as there.
 *  strict   it is in the set itself: only one that matches more keys counts. */
bool weir_key_patterns_cover(const weir_key_patterns *p, const char *pattern, bool plain,
                             bool strict);

#endif
