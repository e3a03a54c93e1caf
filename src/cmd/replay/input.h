/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_CMD_REPLAY_INPUT_H
#define WEIR_CMD_REPLAY_INPUT_H
/* A file or the standard input as bytes; what is packed with gzip or zstd, as its first bytes tell,
 * is unpacked on the way, in a thread of its own. It must not know lines. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cmd/replay/unpack.h"

#define REPLAY_INPUT_ERROR_MAX 256

/* `name`, `size`, `bytes_read` and `error` may be read by anybody; the others are private. */
typedef struct replay_input {
    const char *name;   /* what messages call it */
    int64_t size;       /* bytes there are to read; -1 if that is not known: a pipe, a terminal */
    int64_t bytes_read; /* of the file so far, not of what was in it */
    char error[REPLAY_INPUT_ERROR_MAX]; /* why a read failed */
    int fd;
    bool begun;
    replay_unpack *unpack; /* NULL: what is read is what there is */
} replay_input;

/* Opens `path`, kept by reference; "-" is the standard input.
 * Returns false with errno set, also for a directory; then there is nothing to close. */
bool replay_input_open(replay_input *ret, const char *path);

/* Writes 1..room bytes to `buf`; room is at least WEIR_PACKING_MAGIC_MAX.
 * Returns how many; 0 at the end; -1 if it failed, and `error` says why. */
ptrdiff_t replay_input_read(replay_input *in, char *buf, size_t room);

/* Accepts a zeroed or closed one. */
void replay_input_close(replay_input *in);

#endif
