/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_CMD_STATE_STATE_H
#define WEIR_CMD_STATE_STATE_H
/* `weir state` from within: a state file that is looked at, carried off, and carried in. */

#include "store/image/file_header.h"
#include "store/iterate.h"

#define STATE_FINGERPRINT_MAX 17 /* bytes, with the terminator */

/* A state file that is there. */
typedef struct state_file {
    const char *path;
    weir_file_header head; /* as it was before it was opened */
    weir_store *store;
    weir_store_opened opened;
} state_file;

/* Reads the head of a state file. False if it is none, or cannot be read, after it was said;
 * ret_absent says whether there is no such file, and then nothing is said; it may be NULL. */
bool state_read_head(const char *path, weir_file_header *ret, bool *ret_absent);

/* What a store was asked for that has such a head. */
uint64_t state_memory_bytes(const weir_file_header *head);

/* Opens the store in a file; a new one gets the sizes and the secret of `head`, an old one has
 * them.
 *  how  file, zones and sizes are filled in.
 * Returns as weir_store_open(), after it said what is wrong, but for WEIR_E_BUSY. */
weir_status state_open(const char *path, const weir_file_header *head, weir_store_options how,
                       state_file *ret, weir_store_error *ret_error);

/* What tells one secret from another, and nothing more. */
void state_fingerprint(const uint8_t secret[16], char ret[STATE_FINGERPRINT_MAX]);

/* Prints what is inside. */
void state_print(const state_file *f);

/* Prints what only the head says, of a file that somebody else has open. */
void state_print_head(const char *path, const weir_file_header *head);

/* Writes all of it to standard output, one object a line. */
int state_export(const state_file *f, bool with_secret);

/* Files what state_export() wrote.
 *  from  a path, or "-" for standard input. */
int state_import(const char *path, const char *from, const weir_zones *zones);

#endif
