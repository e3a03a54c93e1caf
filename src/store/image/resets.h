/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_STORE_RESETS_H
#define WEIR_STORE_RESETS_H
/* The generations of policies: how often all keys of a policy were reset at once. They lie in the
 * header of an image. A policy without an entry has generation 0. Entries are added and raised, and
 * never removed, because the states of a generation must not be found again.
 *
 * An entry is one word: a hash of the policy in the high 40 bits, its generation in the low 24. So
 * the table needs no lock that a killed process could leave locked, and no memory order: a thread
 * that has learned of a reset sees it. */

#include "port/atomic.h"

#include <weir/weir_store.h>

enum { WEIR_RESETS_SLOTS = 256, WEIR_GENERATION_BITS = 24 };
#define WEIR_GENERATION_MAX (((uint64_t)1 << WEIR_GENERATION_BITS) - 1)

typedef struct weir_resets {
    port_word begun; /* 0: all slots are empty. Not 0 before the first entry is written */
    port_word slot[WEIR_RESETS_SLOTS]; /* a hash table with linear probing; 0: empty */
} weir_resets;

/* The generation of a policy: 0 if it was never reset. Any thread of any process. */
uint64_t weir_resets_generation(const weir_resets *r, uint64_t policy);

/* Raises the generation of a policy by one. Returns WEIR_OK; WEIR_E_FULL for one more policy than
 * `most`, or after WEIR_GENERATION_MAX resets. Any thread of any process.
 *  most  1..WEIR_RESETS_MAX entries. */
weir_status weir_resets_raise(weir_resets *r, uint64_t policy, size_t most);

/* Adds an entry of another table, unless this table has a later generation of its policy. Returns
 * WEIR_OK; WEIR_E_FULL; WEIR_E_RANGE if it is no entry. Any thread of any process. */
weir_status weir_resets_merge(weir_resets *r, uint64_t entry);

/* Writes the entries; `ret` may be NULL. Returns how many. Any thread of any process. */
size_t weir_resets_entries(const weir_resets *r, uint64_t ret[WEIR_RESETS_SLOTS]);

#endif
