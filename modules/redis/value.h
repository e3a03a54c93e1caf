/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_MODULES_REDIS_VALUE_H
#define WEIR_MODULES_REDIS_VALUE_H
/* The value of a key: a state for each scope that the key was used under, in the order in which
 * they came. It must not know the server, nor how a state is decided on.
 *
 * A value is the one word that the server keeps for us, in one of three forms, told by its lowest
 * two bits:
 *   01  one small state: bits 2..13 are its slot, the others how far it is from the slot's base.
 *       Nothing is allocated.
 *   10  a pointer to one entry
 *   00  a pointer to a list of pointers to entries; never shorter than 2
 * States are never rounded: what does not fit the first form takes another. */

#include "interned.h"

typedef uintptr_t weir_value; /* 0: no value at all */

typedef struct weir_heap_state {
    weir_interned *scope; /* a reference */
    uint32_t level;
    uint32_t words;
    uint64_t state[];
} weir_heap_state;

#define WEIR_STATES_MAX      64         /* of a value */
#define WEIR_STATE_WORDS_MAX (2u << 20) /* of one state: 16 MiB, a log of 1,048,576 charges */

/* A state as it lies in a value. */
typedef struct weir_state_view {
    weir_interned *scope;
    unsigned level;
    size_t words;
    const uint64_t *state; /* in the value, or here: */
    uint64_t small[2];
} weir_state_view;

size_t weir_value_len(weir_value v);

/* State i, 0..len - 1. *ret must stay where it is for as long as ret->state is used. */
void weir_value_at(weir_value v, size_t i, weir_state_view *ret);

/* Which one is of the scope; weir_value_len() if none is. */
size_t weir_value_find(weir_value v, const weir_interned *s);

/* Puts `state` in the place of state i, or behind the last one if i is len, which must be less than
 * WEIR_STATES_MAX. */
weir_value weir_value_put(weir_value v, size_t i, weir_interned *scope, unsigned level,
                          const uint64_t *state, size_t words);

/* The same with an entry, which the value then owns. */
weir_value weir_value_put_heap_state(weir_value v, size_t i, weir_heap_state *e);

/* Takes state i away; 0 if it was the only one. */
weir_value weir_value_drop(weir_value v, size_t i);

/* State i, as an entry that may be written to; NULL if the state is stored inline. */
weir_heap_state *weir_value_heap_state(weir_value v, size_t i);

void weir_value_free(weir_value v); /* accepts 0. Any thread */
weir_value weir_value_copy(weir_value v);

/* Bytes that the words of a state can ever take, however far it grows. */
size_t weir_bytes_most(const weir_interned *s);

/* Bytes of memory behind it. */
size_t weir_value_bytes(weir_value v);

/* A new entry with all words 0. */
weir_heap_state *weir_heap_state_new(weir_interned *scope, unsigned level, size_t words);
void weir_heap_state_free(weir_heap_state *e); /* accepts NULL */

#endif
