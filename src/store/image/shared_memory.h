/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_STORE_SHARED_MEMORY_H
#define WEIR_STORE_SHARED_MEMORY_H
/* A store in memory of the caller: the header and the process slots in front of the parts, and the
 * check that an existing store has the sizes that the options ask for. The header is that of a
 * state file, with another format number. The process slots follow it. The table is last. */

#include <weir/weir_store.h>

#include "store/image/file_header.h"
#include "store/image/process_slots.h"

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
