/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_MODULES_REDIS_SERIALISE_H
#define WEIR_MODULES_REDIS_SERIALISE_H
/* Values as bytes: what is written to an RDB, a replica and an AOF. Every state comes with the name
 * and the text of its policy. Numbers are little-endian:
 *
 *   1 byte    the version: 1
 *   1 byte    0: all of a value; 1: changes of the value that is there
 *   2 bytes   how many items follow
 *   item      1 byte: what it is; 2 bytes: the index of the state that it is about
 *     0 set     1 byte level; 1 byte length of the name; 2 bytes length of the text; 4 bytes how
 *               many words; the name; the text; the words of 8 bytes each. An index behind the last
 *               adds a state; all of a value has set items alone, for index 0, 1, 2 ...
 *     1 patch   4 bytes how many; for each 4 bytes which word and 8 bytes what it is now
 *     2 drop
 *
 * What is read is never trusted. */

#include "port/buffer.h"
#include "value.h"

/* Bytes of the longest there can be, and of what a reader looks at. */
#define WEIR_SERIALISED_MAX ((size_t)64 << 20)

/* What the states of a value may grow to together, so that it can always be told in one piece. */
#define WEIR_VALUE_BYTES_MAX (WEIR_SERIALISED_MAX - (1 << 20))

/* All of a value, which is not 0. */
void weir_serialise_value(weir_buffer *out, weir_value v);

/* Changes: their head, then so many items. A patch names words, of which some may come twice. */
void weir_serialise_changes(weir_buffer *out, size_t items);
void weir_serialise_set(weir_buffer *out, size_t i, const weir_state_view *view);
void weir_serialise_patch(weir_buffer *out, size_t i, const uint64_t *state, const uint32_t *word,
                          size_t words);
void weir_serialise_drop(weir_buffer *out, size_t i);

/* Makes *v what the bytes say: all of it, or the changes of what it was.
 * Returns WEIR_OK; WEIR_E_SYNTAX for bytes that are none; WEIR_E_ZONE for a time zone that this
 * machine does not have; WEIR_E_NOMEM. Then *v is as it was. */
WEIR_NODISCARD weir_status weir_deserialise(const uint8_t *bytes, size_t len, weir_value *v);

#endif
