/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_MODULES_REDIS_VALUE_H
#define WEIR_MODULES_REDIS_VALUE_H
/* The value of a key: one state for each policy that the key was used under, in the order of their
 * first use. Knows neither the server nor how a state is decided on.
 *
 * The server keeps one pointer for a key. It is a tagged pointer; its lowest two bits are the tag:
 *   01  one small state, stored inline: bits 2..13 are the number of its delta base, the others its
 *       distance from the base. Nothing is allocated.
 *   10  a pointer to one state on the heap
 *   00  a pointer to a list of pointers to states on the heap; two or more
 * The encoding is exact: a state that does not fit inline goes to the heap. */

#include "interned.h"
#include "port/buffer.h"

typedef uintptr_t weir_value; /* 0: no value */

typedef struct weir_heap_state {
    weir_interned *interned;        /* a reference */
    uint32_t epoch;                 /* WEIR_EPOCH_UNKNOWN in a list */
    uint32_t level : 8, words : 24; /* at most WEIR_STATE_WORDS_MAX */
    uint64_t state[];
} weir_heap_state;

#define WEIR_STATES_MAX      64         /* of a value */
#define WEIR_STATE_WORDS_MAX (2u << 20) /* of one state: 16 MiB, a log of 1,048,576 charges */

/* A state of a value, decoded. */
typedef struct weir_state_view {
    weir_interned *interned;
    unsigned level;
    size_t words;
    const uint64_t *state; /* points into the value, or to `small` */
    uint64_t small[2];
} weir_state_view;

size_t weir_value_len(weir_value v); /* states */

/* The epoch of a value with one state; WEIR_EPOCH_UNKNOWN for others and for 0. */
uint32_t weir_value_epoch(weir_value v);

/* Decodes state i, 0..len - 1. *ret must not move while ret->state is used. */
void weir_value_at(weir_value v, size_t i, weir_state_view *ret);

/* The index of the state under a policy; weir_value_len() if there is none. */
size_t weir_value_find(weir_value v, const weir_interned *s);

/* Replaces state i, or appends one if i is weir_value_len(), which must be below WEIR_STATES_MAX.
 * Returns the new value; the old one is no longer valid. Its epoch is `epoch` if that is its only
 * state, else WEIR_EPOCH_UNKNOWN. */
WEIR_NODISCARD weir_value weir_value_put(weir_value v, size_t i, weir_interned *interned,
                                         unsigned level, const uint64_t *state, size_t words,
                                         uint32_t epoch);

/* The same with a state on the heap, which the value then owns, and an unknown epoch. */
WEIR_NODISCARD weir_value weir_value_put_heap_state(weir_value v, size_t i, weir_heap_state *e);

/* Removes state i. Returns the new value, of an unknown epoch; 0 if that was the only state. */
WEIR_NODISCARD weir_value weir_value_drop(weir_value v, size_t i);

/* State i, writable in place. NULL if it is stored inline. A caller that changes it must set its
 * epoch to WEIR_EPOCH_UNKNOWN. */
weir_heap_state *weir_value_heap_state(weir_value v, size_t i);

void weir_value_free(weir_value v); /* accepts 0. Any thread */
weir_value weir_value_copy(weir_value v);

/* Bytes of the largest state that a policy can have. */
size_t weir_state_bytes_max(const weir_interned *s);

/* Bytes that the value, which is not 0, has allocated. */
size_t weir_value_bytes(weir_value v);

/* A new state with all words 0. */
weir_heap_state *weir_heap_state_new(weir_interned *interned, unsigned level, size_t words);
void weir_heap_state_free(weir_heap_state *e); /* accepts NULL */

/* ---- serialised values (serialise.c) --------------------------------------------------------- */

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
