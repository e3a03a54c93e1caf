/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* Reads a log in blocks into one buffer and splits it at LF. Before each read, the partial line at
 * the end of the buffer moves to its front. Uncompressed bytes are read straight into this buffer,
 * without a copy or a thread; compressed ones come from a decompression thread. */

#include "cmd/accesslog/input.h"

#include "port/assert.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define BLOCK    ((size_t)256 << 10) /* small enough to stay in the L2 cache until it is parsed */
#define BUF_SIZE (ACCESSLOG_LINE_MAX + 1 + BLOCK)

/* ---- bytes ----------------------------------------------------------------------------------- */

static ptrdiff_t read_plain(accesslog_input *in, char *buf, size_t size)
{
    ssize_t n;
    do
        n = read(in->fd, buf, size);
    while (n < 0 && errno == EINTR);
    if (n < 0)
        snprintf(in->error, sizeof in->error, "%s", strerror(errno));
    else
        in->bytes_read += n;
    return n;
}

static ptrdiff_t read_decompressed(accesslog_input *in, char *buf, size_t size)
{
    return accesslog_decompress_read(in->thread, buf, size, &in->bytes_read, in->error,
                                     sizeof in->error);
}

/* Reads only as many bytes as are needed to recognise the compression, so that it does not wait for
 * a slow pipe longer than necessary. Starts the decompression thread if one is needed. */
static ptrdiff_t read_first(accesslog_input *in, char *buf, size_t size)
{
    size_t len = 0;
    weir_compression compression = WEIR_COMPRESSION_UNDECIDED;
    WEIR_ASSERT(size >= ACCESSLOG_DECOMPRESS_HEAD_MAX);
    while (compression == WEIR_COMPRESSION_UNDECIDED) {
        ptrdiff_t n = read_plain(in, buf + len, ACCESSLOG_DECOMPRESS_HEAD_MAX - len);
        if (n < 0)
            return n;
        if (n == 0)
            break;
        len += (size_t)n;
        compression = weir_compression_of((const uint8_t *)buf, len);
    }
    if (compression != WEIR_COMPRESSION_GZIP && compression != WEIR_COMPRESSION_ZSTD)
        return (ptrdiff_t)len;
    in->thread = accesslog_decompress_start(in->fd, buf, len);
    if (in->thread)
        return read_decompressed(in, buf, size);
    snprintf(in->error, sizeof in->error, "cannot start a thread to decompress the file: %s",
             strerror(errno));
    return -1;
}

/* Reads 1..size bytes. Returns how many, 0 at the end, -1 on failure with in->error set. */
static ptrdiff_t read_bytes(accesslog_input *in, char *buf, size_t size)
{
    if (in->thread)
        return read_decompressed(in, buf, size);
    if (in->begun)
        return read_plain(in, buf, size);
    in->begun = true;
    return read_first(in, buf, size);
}

/* ---- lines ----------------------------------------------------------------------------------- */

static bool fill(accesslog_input *in)
{
    size_t held = in->end - in->begin;
    memmove(in->buf, in->buf + in->begin, held);
    in->begin = 0;
    in->end = held;
    ptrdiff_t n = read_bytes(in, in->buf + held, BLOCK);
    if (n < 0)
        return false;
    in->eof = n == 0;
    in->end += (size_t)n;
    in->empty = in->empty && n == 0;
    return true;
}

/* Takes a line of `len` bytes out of the buffer; lf is 1 if an LF ends it, else 0. */
static accesslog_input_status take(accesslog_input *in, size_t len, size_t lf, const char **ret,
                                   size_t *ret_len)
{
    bool too_long = in->skipping || len > ACCESSLOG_LINE_MAX;
    const char *line = in->buf + in->begin;
    in->begin += len + lf;
    in->number++;
    in->skipping = false;
    if (too_long)
        return ACCESSLOG_INPUT_LINE_TOO_LONG;
    *ret = line;
    *ret_len = len;
    return ACCESSLOG_INPUT_LINE;
}

accesslog_input_status accesslog_input_next(accesslog_input *in, const char **ret, size_t *ret_len)
{
    for (;;) {
        size_t held = in->end - in->begin;
        const char *at = in->buf + in->begin, *lf = memchr(at, '\n', held);
        if (lf)
            return take(in, (size_t)(lf - at), 1, ret, ret_len);
        if (in->eof)
            return held > 0 || in->skipping ? take(in, held, 0, ret, ret_len) : ACCESSLOG_INPUT_END;
        if (held > ACCESSLOG_LINE_MAX ||
            in->skipping) { /* drop the bytes of a line that is too long */
            in->skipping = true;
            in->begin = in->end;
        }
        if (!fill(in))
            return ACCESSLOG_INPUT_FAILED;
    }
}

/* ---- opening and closing --------------------------------------------------------------------- */

/* The bytes of a regular file from its current offset to its end. For a device, 0, and for a pipe,
 * which has no offset, -1. */
static int64_t size_of(int fd, const struct stat *st)
{
    off_t at = lseek(fd, 0, SEEK_CUR); /* standard input may have been read in part */
    return at >= 0 && at <= st->st_size ? st->st_size - at : -1;
}

/* Returns 0 or an errno value. */
static int open_file(accesslog_input *in, const char *path)
{
    struct stat st;
    bool is_stdin = in->fd == STDIN_FILENO;
    if (!is_stdin)
        in->fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
    if (in->fd < 0)
        return errno;
    int error = fstat(in->fd, &st) != 0 ? errno : S_ISDIR(st.st_mode) ? EISDIR : 0;
    if (error == 0)
        in->size = size_of(in->fd, &st);
    else if (!is_stdin)
        close(in->fd);
    return error;
}

bool accesslog_input_open(accesslog_input *ret, const char *path)
{
    bool is_stdin = strcmp(path, "-") == 0;
    accesslog_input in = {.name = is_stdin ? "<stdin>" : path,
                          .fd = is_stdin ? STDIN_FILENO : -1,
                          .empty = true,
                          .buf = malloc(BUF_SIZE)};
    int error = in.buf ? open_file(&in, path) : ENOMEM;
    if (error != 0) {
        free(in.buf);
        errno = error;
        return false;
    }
    *ret = in;
    return true;
}

void accesslog_input_close(accesslog_input *in)
{
    accesslog_decompress_stop(in->thread);
    if (in->fd != STDIN_FILENO)
        close(in->fd);
    free(in->buf);
}
