/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* write() behind a buffer, and escaping for JSON. */

#include "cmd/out.h"

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

/* ---- JSON ------------------------------------------------------------------------------------ */

static bool plain(unsigned char c)
{
    return c >= 0x20 && c < 0x80 && c != '"' && c != '\\';
}

/* Writes the character at `at`, which is not plain(). Returns how many bytes of input it took. */
static size_t json_special(out_stream *out, const unsigned char *at, const unsigned char *end)
{
    static const char hex[] = "0123456789abcdef";
    if (*at == '"' || *at == '\\') {
        out_bytes(out, (const char[]){'\\', (char)*at}, 2);
        return 1;
    }
    if (*at < 0x20) {
        out_bytes(out, (const char[]){'\\', 'u', '0', '0', hex[*at >> 4], hex[*at & 15]}, 6);
        return 1;
    }
    bool valid;
    size_t len = weir_utf8_len((const char *)at, (size_t)(end - at), &valid);
    if (valid)
        out_bytes(out, at, len);
    else
        out_text(out, "\xEF\xBF\xBD"); /* U+FFFD */
    return len;
}

void out_json(out_stream *out, const char *text, size_t text_len)
{
    const unsigned char *at = (const unsigned char *)text, *end = at + text_len;
    while (at < end) {
        const unsigned char *run = at;
        while (at < end && plain(*at))
            at++;
        out_bytes(out, run, (size_t)(at - run));
        if (at < end)
            at += json_special(out, at, end);
    }
}
