/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_CMD_STATE_STATE_H
#define WEIR_CMD_STATE_STATE_H
/* The parts of `weir state`: printing, exporting and importing a state file. */

#include "store/image/file_header.h"
#include "store/iterate.h"

#define STATE_FINGERPRINT_MAX 17 /* bytes, with the terminator */

/* An open state file. */
typedef struct state_file {
    const char *path;
    weir_file_header head; /* the header of the file before it was opened */
    weir_store *store;
    weir_store_opened opened;
} state_file;

/* Reads and checks the header of a state file. Returns false, after printing an error, if the file
 * cannot be read or is not a state file.
 *  ret_absent  whether there is no such file; then nothing is printed. May be NULL. */
bool state_read_head(const char *path, bool read_only, weir_file_header *ret, bool *ret_absent);

/* The memory_bytes with which a store with this header was created. */
uint64_t state_memory_bytes(const weir_file_header *head);

/* Opens the store in a file. A new file gets the sizes, the partitions and the secret of `head`; an
 * existing file keeps its own.
 *  how        `file`, the sizes, the partitions and the secret are filled in here.
 *  ret_error  written unless WEIR_OK.
 * Returns as weir_store_open(). */
weir_status state_open(const char *path, const weir_file_header *head, weir_store_options how,
                       state_file *ret, weir_store_error *ret_error);

/* Writes a fingerprint of a secret. It distinguishes secrets, and reveals nothing else of them. */
void state_fingerprint(const uint8_t secret[16], char ret[STATE_FINGERPRINT_MAX]);

/* Prints what the file contains. */
void state_print(const state_file *f);

/* Prints the header alone, for a file that another process has open. */
void state_print_head(const char *path, const weir_file_header *head);

/* Writes the contents to standard output, one JSON object a line. Returns the exit status. */
int state_export(const state_file *f, bool with_secret);

/* Imports what state_export() wrote into the file `path`. Returns the exit status.
 *  from  a path, or "-" for standard input. */
int state_import(const char *path, const char *from, const weir_zones *zones);

#endif
