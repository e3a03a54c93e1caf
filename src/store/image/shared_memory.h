/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_STORE_SHARED_MEMORY_H
#define WEIR_STORE_SHARED_MEMORY_H
/* A store in memory of the caller: the header and the process slots in front of the parts, and the
 * check that an existing store has the sizes that the options ask for. The header is that of a
 * state file, with another format number. The process slots follow it. The table is last. */

#include <weir/weir_store.h>

#include "port/port.h"
#include "store/image/file_header.h"

/* ---- process slots --------------------------------------------------------------------------- */

/* An array of slots, one for each opening of the store. An opening holds its slot until it is
 * closed or its thread ends, so others can tell whether the owner of a lock is alive. In a state
 * file, the locks on bytes of the file have this purpose. */
typedef struct weir_process_slots {
    port_presence *slot;
    uint64_t len;
} weir_process_slots;

/* Initialises the slots of new memory. Returns false if the system cannot. */
bool weir_process_slots_init(weir_process_slots *s);

/* Counts an opening and takes a slot for it. The slot's number is half of the opening's id,
 * modulo `len`; a slot that a live opening holds is skipped, and so is the id.
 *  openings  the count of openings, which gives each its id, weir_process_id().
 *  ret_id    written if the result is true.
 * Returns false if all slots are held. Any process. */
bool weir_process_slots_take(weir_process_slots *s, port_word *openings, uint64_t *ret_id);

/* Releases the slot of an id. Only the thread that took it may do so. */
void weir_process_slots_release(weir_process_slots *s, uint64_t id);

/* Whether the opening of this id is alive. Any thread of any process. */
bool weir_process_slots_has(const weir_process_slots *s, uint64_t id);

/* ---- the memory ------------------------------------------------------------------------------ */

/* The sizes of the process slots and of the policy registry in memory of this size, at least 1 MiB.
 * Both are multiples of 4 KiB. */
uint64_t weir_shared_memory_processes(size_t memory_bytes);
uint64_t weir_shared_memory_registry(size_t memory_bytes);

/* The bytes of the memory that are not for states or reservations. */
size_t weir_shared_memory_overhead(size_t memory_bytes);

/* The process slots of a header in memory. */
weir_process_slots weir_shared_memory_slots(weir_file_header *h);

/* Whether the memory has no store yet: it is all zero, or its first opening was interrupted. */
bool weir_shared_memory_is_new(const weir_file_header *h);

/* Writes a new header to the memory, and initialises the process slots. Other
 * openings see the store only after weir_shared_memory_publish().
 *  head  a header that was laid out.
 * Returns false if the system has no robust mutexes. */
bool weir_shared_memory_init(weir_file_header *h, weir_file_header *head, const uint8_t secret[16]);
void weir_shared_memory_publish(weir_file_header *h);

/* Checks that a header in memory is sound and has the wanted layout and partitions.
 *  wanted   a header that was laid out.
 *  options  for the message, and the secret.
 * Returns WEIR_OK; WEIR_E_SYNTAX; WEIR_E_RANGE. */
weir_status weir_shared_memory_check(const weir_file_header *h, const weir_file_header *wanted,
                                     const weir_store_options *options);

#endif
