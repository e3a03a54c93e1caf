/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_CMD_KIT_INPUT_H
#define WEIR_CMD_KIT_INPUT_H
/* Input files that a command or a configuration names. Only regular files and open pipes are
 * accepted, so that no command hangs on a named pipe or on a terminal. */

#include <stddef.h>

/* Opens a regular file, or a pipe that a shell has opened for this process, such as <(...).
 *  ret_fd  for close(); written on success only.
 * Returns NULL, or the reason why it cannot be read: static, or valid until the next strerror(). */
const char *input_open(const char *path, int *ret_fd);

/* Reads a file or a pipe to its end; "-" is the standard input.
 *  max      in bytes, 1 or more.
 *  ret_buf  for free(); *ret_len bytes and a terminator. Both are written on success only.
 * Returns as input_open(). */
const char *input_read(const char *path, size_t max, char **ret_buf, size_t *ret_len);

#endif
