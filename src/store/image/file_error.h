/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_STORE_FILE_ERROR_H
#define WEIR_STORE_FILE_ERROR_H
/* Why a state file is refused: the messages that more than one file of the image has. Each is one
 * line "PATH: what is wrong" in *options->ret_error, if the caller gave one. */

#include <weir/weir_store.h>

#include "port/file.h"

__attribute__((format(printf, 2, 3))) void weir_file_error(const weir_store_options *options,
                                                           const char *format, ...);

/* The same about a file beside the state file.
 *  suffix  of its name: ".new", ".lock"; "" is the state file itself. */
__attribute__((format(printf, 3, 4))) void weir_file_error_beside(const weir_store_options *options,
                                                                  const char *suffix,
                                                                  const char *format, ...);

/* Says that a call of the system failed. Returns WEIR_E_IO. */
weir_status weir_file_error_system(const weir_store_options *options, const char *suffix,
                                   port_file_error error);

/* Says which processes have a lock on the byte of the open file, and then `what`.
 *  subject  what the message begins with: "the state file is in use by".
 * Returns WEIR_E_BUSY. */
weir_status weir_file_error_in_use(const weir_store_options *options, int fd, uint64_t at,
                                   const char *subject, const char *what);

/* Refuses a file that other users own or may write, unless the options trust them.
 * Returns WEIR_OK; WEIR_E_IO, after it said why. */
weir_status weir_file_check_rights(const weir_store_options *options, const char *suffix, int fd);

#endif
