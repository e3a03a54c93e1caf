/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_CMD_REPLAY_LINES_H
#define WEIR_CMD_REPLAY_LINES_H
/* A file or the standard input, line by line: read in large blocks, and each line handed out where
 * it lies. It must not know what a line means. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cmd/replay/input.h"

#define REPLAY_LINE_MAX ((size_t)1 << 20) /* bytes of the longest line, without its LF */

/* `input`, `number` and `empty` may be read by anybody; the others are private. */
typedef struct replay_lines {
    replay_input input;
    uint64_t number;    /* of the last line handed out, from 1 */
    bool empty;         /* there was not one byte so far */
    bool eof, skipping; /* skipping: inside a line that is too long */
    char *buf;
    size_t begin, end; /* what was read and not yet handed out */
} replay_lines;

typedef enum replay_line_kind {
    REPLAY_LINE,
    REPLAY_LINE_TOO_LONG, /* longer than REPLAY_LINE_MAX: it was left out, and counted */
    REPLAY_LINES_END,
    REPLAY_LINES_FAILED /* input.error says why; no line is handed out that may be cut off */
} replay_line_kind;

/* Opens `path`, kept by reference; "-" is the standard input.
 * Returns false with errno set, also for a directory; then there is nothing to close. */
bool replay_lines_open(replay_lines *ret, const char *path);

/* Hands out the next line.
 *  ret, ret_len  written on REPLAY_LINE only: the line without its LF, good until the next call. */
replay_line_kind replay_lines_next(replay_lines *in, const char **ret, size_t *ret_len);

/* Accepts a zeroed or closed one. */
void replay_lines_close(replay_lines *in);

#endif
