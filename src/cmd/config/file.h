/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_CMD_CONFIG_FILE_H
#define WEIR_CMD_CONFIG_FILE_H
/* Files read whole. */

#include <stddef.h>

/* Reads a file or a pipe to its end; "-" is the standard input.
 *  max      bytes, 1 or more.
 *  ret_buf  for free(); *ret_len bytes and a terminator. Both are written on success only.
 * Returns NULL, or why it could not be read: static, or good until the next call of strerror(). */
const char *config_file_read(const char *path, size_t max, char **ret_buf, size_t *ret_len);

#endif
