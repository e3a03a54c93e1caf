/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_CMD_REPLAY_INPUT_H
#define WEIR_CMD_REPLAY_INPUT_H
/* Reads a log line by line from a file or from standard input, in large blocks. Logs compressed
 * with gzip or zstd are recognised by their first bytes and decompressed on the fly. This module
 * does not know what a line means. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cmd/replay/decompress_thread.h"

#define REPLAY_LINE_MAX        ((size_t)1 << 20) /* bytes of the longest line, without its LF */
#define REPLAY_INPUT_ERROR_MAX 256

/* Callers may read the fields above "Private". */
typedef struct replay_input {
    const char *name; /* for messages: the path, or "<stdin>" */
    int64_t size; /* bytes of the file from its current offset; 0 or -1 if it is no regular file */
    int64_t bytes_read;                 /* bytes read from the file so far, before decompression */
    uint64_t number;                    /* number of the last line returned, from 1 */
    bool empty;                         /* no byte has been read so far */
    char error[REPLAY_INPUT_ERROR_MAX]; /* why a read failed */
    /* Private: */
    int fd;
    bool begun, eof;
    bool skipping;                    /* inside a line that is too long */
    replay_decompress_thread *thread; /* NULL if the file is not compressed */
    char *buf;
    size_t begin, end; /* the bytes of `buf` that were read and not yet returned */
} replay_input;

typedef enum replay_input_status {
    REPLAY_INPUT_LINE,
    REPLAY_INPUT_LINE_TOO_LONG, /* a line over REPLAY_LINE_MAX was skipped, and counted */
    REPLAY_INPUT_END,
    REPLAY_INPUT_FAILED /* `error` says why; a partial last line is not returned */
} replay_input_status;

/* Opens `path`, which must outlive `ret`. "-" is standard input.
 * Returns false and sets errno on failure, also for a directory. Then there is nothing to close. */
bool replay_input_open(replay_input *ret, const char *path);

/* Reads the next line.
 *  ret, ret_len  the line without its LF, valid until the next call; written only on
 *                REPLAY_INPUT_LINE. */
replay_input_status replay_input_next(replay_input *in, const char **ret, size_t *ret_len);

/* Accepts a zeroed input. */
void replay_input_close(replay_input *in);

#endif
