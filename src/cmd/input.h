/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_CMD_INPUT_H
#define WEIR_CMD_INPUT_H
/* Files that a command or a configuration names, to be read once from the beginning to the end. It
 * must not know what is in them. */

/* Opens a regular file, or a pipe that a shell has opened for this process, such as <(...).
 * Anything else is refused, so that no command waits for a named pipe or for a terminal.
 *  ret_fd  written if the answer is NULL; for close().
 * Returns NULL, or why not in a few words. */
const char *input_open(const char *path, int *ret_fd);

#endif
