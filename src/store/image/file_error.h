/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_STORE_FILE_ERROR_H
#define WEIR_STORE_FILE_ERROR_H
/* Error messages about state files. Each is one line "PATH: what is wrong" in *options->ret_error,
 * unless that is NULL. */

#include <weir/weir_store.h>

#include "port/file.h"

/* Formats a message.
 *  suffix  of the file's name: ".new" or ".lock"; "" is the state file itself. */
__attribute__((format(printf, 3, 4))) void
weir_file_message(const weir_store_options *options, const char *suffix, const char *format, ...);

/* Formats a message; its value is the status `st`. */
#define weir_file_error(st, ...) (weir_file_message(__VA_ARGS__), (st))

/* A system call failed. Returns WEIR_E_IO. */
weir_status weir_file_error_system(const weir_store_options *options, const char *suffix,
                                   port_file_error error);

/* Other processes have a lock on byte `at` of the file: the message names them.
 *  subject  the beginning of the message: "the state file is in use by".
 *  what     the end of the message.
 * Returns WEIR_E_BUSY. */
weir_status weir_file_error_in_use(const weir_store_options *options, int fd, uint64_t at,
                                   const char *subject, const char *what);

/* Refuses a file that another user owns or may write, unless the options trust other users. Returns
 * WEIR_OK; WEIR_E_IO, with a message. */
weir_status weir_file_check_rights(const weir_store_options *options, const char *suffix, int fd);

#endif
