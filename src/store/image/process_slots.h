/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_STORE_PROCESS_SLOTS_H
#define WEIR_STORE_PROCESS_SLOTS_H
/* An array of slots in memory of the caller, one for each opening of the store. An opening holds
 * its slot until it is closed or its thread ends, so others can tell whether the owner of a lock is
 * alive. In a state file, the locks on bytes of the file have this purpose. */

#include "port/port.h"

typedef struct weir_process_slots {
    port_presence *slot;
    uint64_t len;
} weir_process_slots;

/* Initialises the slots of new memory. Returns false if the system cannot. */
bool weir_process_slots_init(weir_process_slots *s);

/* Counts an opening and takes a slot for it. The slot's number is the opening's id modulo `len`; a
 * slot that a live opening holds is skipped, and so is the id.
 *  openings  the count of openings, which gives each its id.
 *  ret_id    1..2^WEIR_PROCESS_ID_BITS - 1. Written if the result is true.
 * Returns false if all slots are held. Any process. */
bool weir_process_slots_take(weir_process_slots *s, port_word *openings, uint64_t *ret_id);

/* Releases the slot of an id. Only the thread that took it may do so. */
void weir_process_slots_release(weir_process_slots *s, uint64_t id);

/* Whether the opening of this id is alive. Any thread of any process. */
bool weir_process_slots_has(const weir_process_slots *s, uint64_t id);

#endif
