/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_CMD_REPLAY_UNPACK_H
#define WEIR_CMD_REPLAY_UNPACK_H
/* Reads and unpacks in a second thread, some blocks ahead: to unpack a log takes about as long as
 * to read its lines. It must not know lines. */

#include <stddef.h>
#include <stdint.h>

#include "codec/unpack.h"

typedef struct replay_unpack replay_unpack;

#define REPLAY_UNPACK_HEAD_MAX 65536

/* Unpacks `len` bytes, at most REPLAY_UNPACK_HEAD_MAX, which are copied, and then what can be read
 * from `fd`.
 * Returns NULL if there is no memory or no thread for it. */
replay_unpack *replay_unpack_start(int fd, const char *bytes, size_t len);

/* Writes 1..room unpacked bytes to `buf`.
 *  ret_bytes_read  how many packed bytes were read for what was handed out so far; written always.
 *  ret_error       `size` bytes; written if the answer is -1.
 * Returns how many; 0 at the end; -1 if what comes next cannot be read or unpacked. */
ptrdiff_t replay_unpack_read(replay_unpack *u, char *buf, size_t room, int64_t *ret_bytes_read,
                             char *ret_error, size_t size);

/* Ends the thread, also while it waits for input. `fd` stays open. Accepts NULL. */
void replay_unpack_stop(replay_unpack *u);

#endif
