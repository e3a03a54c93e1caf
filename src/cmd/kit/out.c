/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* write() behind a buffer, and escaping for JSON. */

#include "cmd/kit/out.h"

#include "port/text.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>
#include <unistd.h>

void out_init(out_stream *ret, int fd)
{
    ret->fd = fd;
    ret->error = 0;
    ret->len = 0;
}

int out_flush(out_stream *out)
{
    size_t done = 0;
    while (done < out->len && out->error == 0) {
        ssize_t n = write(out->fd, out->buf + done, out->len - done);
        if (n >= 0)
            done += (size_t)n;
        else if (errno != EINTR)
            out->error = errno;
    }
    out->len = 0;
    return out->error;
}

void out_bytes(out_stream *out, const void *bytes, size_t len)
{
    const char *at = bytes;
    while (len > 0) {
        size_t part = len < sizeof out->buf / 2 ? len : sizeof out->buf / 2;
        memcpy(out_reserve(out, part), at, part);
        out->len += part;
        at += part;
        len -= part;
    }
}

void out_text(out_stream *out, const char *text)
{
    out_bytes(out, text, strlen(text));
}

static void put(void *ctx, const char *at, size_t len)
{
    out_bytes(ctx, at, len);
}

void out_json(out_stream *out, const char *text, size_t len)
{
    weir_text_escape(text, len, WEIR_JSON_FILE, put, out);
}
