/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_CMD_KIT_OUT_H
#define WEIR_CMD_KIT_OUT_H
/* A buffered writer to a file descriptor, faster than stdio for millions of short writes. It also
 * escapes JSON strings. */

#include "port/assert.h"

#include <stddef.h>

#define OUT_BYTES 65536

/* Callers may read `error`. The other fields are private. */
typedef struct out_stream {
    int fd;
    int error; /* errno of the first failed write, else 0; nothing is written after a failure */
    size_t len;
    char buf[OUT_BYTES];
} out_stream;

void out_init(out_stream *ret, int fd);
void out_bytes(out_stream *out, const void *bytes, size_t len);
void out_text(out_stream *out, const char *text);

/* Writes the contents of a JSON string, without the quotes, as WEIR_JSON_FILE does. */
void out_json(out_stream *out, const char *text, size_t len);

/* Writes out the buffer. Returns `error`. */
int out_flush(out_stream *out);

/* Returns space for `len` bytes, at most OUT_BYTES. Call out_commit() with the end of the bytes
 * that were written there. */
static inline char *out_reserve(out_stream *out, size_t len)
{
    WEIR_ASSERT(len <= OUT_BYTES);
    if (sizeof out->buf - out->len < len)
        out_flush(out);
    return out->buf + out->len;
}

static inline void out_commit(out_stream *out, const char *end)
{
    WEIR_ASSERT(end >= out->buf + out->len && end <= out->buf + OUT_BYTES);
    out->len = (size_t)(end - out->buf);
}

#endif
