/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_CMD_OUT_H
#define WEIR_CMD_OUT_H
/* A buffered writer to a file descriptor, for what is printed by the million. It must not know what
 * it writes. */

#include <stddef.h>

#define OUT_BYTES 65536

/* `error` may be read by anybody; the other fields are private. */
typedef struct out_stream {
    int fd;
    int error; /* errno of the first write that failed, else 0; after it nothing is written */
    size_t len;
    char buf[OUT_BYTES];
} out_stream;

void out_init(out_stream *ret, int fd);
void out_bytes(out_stream *out, const void *bytes, size_t len);
void out_text(out_stream *out, const char *text);

/* What stands between the quotes of a JSON string, always valid: '"', '\\' and control characters
 * are escaped, UTF-8 stays as it is, and each maximal subpart of what is not UTF-8 becomes U+FFFD
 * (as Unicode 15, section 3.9, recommends). */
void out_json(out_stream *out, const char *text, size_t len);

/* Writes what is held. Returns `error`. */
int out_flush(out_stream *out);

/* Room for `len` bytes, at most OUT_BYTES; out_commit() says where they end. */
static inline char *out_room(out_stream *out, size_t len)
{
    if (sizeof out->buf - out->len < len)
        out_flush(out);
    return out->buf + out->len;
}

static inline void out_commit(out_stream *out, const char *end)
{
    out->len = (size_t)(end - out->buf);
}

#endif
