/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_MODULES_REDIS_SERIALISE_H
#define WEIR_MODULES_REDIS_SERIALISE_H
/* Serialises values for the RDB, replicas and the AOF. Every state comes with the name and the text
 * of its policy. Numbers are little-endian:
 *
 *   1 byte    the version: 1
 *   1 byte    0: a whole value; 1: changes to the value that the key has
 *   2 bytes   the number of items that follow
 *   item      1 byte: its type; 2 bytes: the index of its state
 *     0 set     1 byte: level; 1 byte: length of the name; 2 bytes: length of the text; 4 bytes:
 *               number of words; the name; the text; the words, 8 bytes each. The index after the
 *               last appends a state. A whole value consists of set items for index 0, 1, 2, ...
 *     1 patch   4 bytes: number of words; for each 4 bytes: its index, and 8 bytes: its value
 *     2 drop
 *
 * Input is never trusted. */

#include "port/buffer.h"
#include "value.h"

/* Bytes of the longest payload. A reader refuses longer ones. */
#define WEIR_SERIALISED_MAX ((size_t)64 << 20)

/* Bytes to which the states of a value may grow together. So a value always fits into one
 * payload. */
#define WEIR_VALUE_BYTES_MAX (WEIR_SERIALISED_MAX - (1 << 20))

/* Serialises a whole value, which is not 0. */
void weir_serialise_value(weir_buffer *out, weir_value v);

/* Serialises changes: first the head, then as many items. A patch may have a word twice. */
void weir_serialise_changes(weir_buffer *out, size_t items);
void weir_serialise_set(weir_buffer *out, size_t i, const weir_state_view *view);
void weir_serialise_patch(weir_buffer *out, size_t i, const uint64_t *state, const uint32_t *word,
                          size_t words);
void weir_serialise_drop(weir_buffer *out, size_t i);

/* Replaces *v by a whole value, or applies changes to it. *v is written on WEIR_OK only.
 * Returns WEIR_OK; WEIR_E_SYNTAX for a malformed payload; WEIR_E_ZONE for a time zone that this
 * machine does not have; WEIR_E_NOMEM. */
WEIR_NODISCARD weir_status weir_deserialise(const uint8_t *bytes, size_t len, weir_value *v);

#endif
