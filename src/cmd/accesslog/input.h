/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_CMD_ACCESSLOG_INPUT_H
#define WEIR_CMD_ACCESSLOG_INPUT_H
/* Reads a log line by line from a file or from standard input, in large blocks. Logs compressed
 * with gzip or zstd are recognised by their first bytes and decompressed on the fly. This module
 * does not know what a line means. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cmd/accesslog/decompress_thread.h"

#define ACCESSLOG_LINE_MAX        ((size_t)1 << 20) /* bytes of the longest line, without its LF */
#define ACCESSLOG_INPUT_ERROR_MAX 256

/* Callers may read the fields above "Private". */
typedef struct accesslog_input {
    const char *name; /* for messages: the path, or "<stdin>" */
    int64_t size; /* bytes of the file from its current offset; 0 or -1 if it is no regular file */
    int64_t bytes_read; /* bytes read from the file so far, before decompression */
    uint64_t number;    /* number of the last line returned, from 1 */
    bool empty;         /* no byte has been read so far */
    char error[ACCESSLOG_INPUT_ERROR_MAX]; /* why a read failed */
    /* Private: */
    int fd;
    bool begun, eof;
    bool skipping;                       /* inside a line that is too long */
    accesslog_decompress_thread *thread; /* NULL if the file is not compressed */
    char *buf;
    size_t begin, end; /* the bytes of `buf` that were read and not yet returned */
} accesslog_input;

typedef enum accesslog_input_status {
    ACCESSLOG_INPUT_LINE,
    ACCESSLOG_INPUT_LINE_TOO_LONG, /* a line over ACCESSLOG_LINE_MAX was skipped, and counted */
    ACCESSLOG_INPUT_END,
    ACCESSLOG_INPUT_FAILED /* `error` says why; a partial last line is not returned */
} accesslog_input_status;

/* Opens `path`, which must outlive `ret`. "-" is standard input.
 * Returns false and sets errno on failure, also for a directory. Then there is nothing to close. */
bool accesslog_input_open(accesslog_input *ret, const char *path);

/* Reads the next line.
 *  ret, ret_len  the line without its LF, valid until the next call; written only on
 *                ACCESSLOG_INPUT_LINE. */
accesslog_input_status accesslog_input_next(accesslog_input *in, const char **ret, size_t *ret_len);

/* Accepts a zeroed input. */
void accesslog_input_close(accesslog_input *in);

#endif
