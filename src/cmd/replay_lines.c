/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* One buffer: a block is read behind what is left of the last one, which is first moved to the
 * front. What is left is less than a line, so that little is moved. It must not know what a line
 * means. */

#include "cmd/replay_lines.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define BLOCK    ((size_t)256 << 10) /* stays in the second-level cache until it is looked at */
#define BUF_SIZE (REPLAY_LINE_MAX + 1 + BLOCK)

/* Bytes from here to the end of a regular file, else -1. */
static int64_t size_of(int fd, const struct stat *st)
{
    if (!S_ISREG(st->st_mode))
        return -1;
    off_t at = lseek(fd, 0, SEEK_CUR); /* the standard input may be partly read */
    return at >= 0 && at <= st->st_size ? st->st_size - at : -1;
}

bool replay_lines_open(replay_lines *ret, const char *path)
{
    bool is_stdin = strcmp(path, "-") == 0;
    replay_lines in = {.name = is_stdin ? "<stdin>" : path, .fd = STDIN_FILENO};
    struct stat st;
    if (!is_stdin)
        in.fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
    if (in.fd < 0)
        return false;
    int error = fstat(in.fd, &st) != 0 ? errno : S_ISDIR(st.st_mode) ? EISDIR : 0;
    if (error == 0 && !(in.buf = malloc(BUF_SIZE)))
        error = ENOMEM;
    if (error != 0) {
        if (!is_stdin)
            close(in.fd);
        errno = error;
        return false;
    }
    in.size = size_of(in.fd, &st);
    *ret = in;
    return true;
}

static bool fill(replay_lines *in)
{
    size_t held = in->end - in->begin;
    if (in->begin > 0 && held > 0)
        memmove(in->buf, in->buf + in->begin, held);
    in->begin = 0;
    in->end = held;
    ssize_t n;
    do
        n = read(in->fd, in->buf + held, BLOCK);
    while (n < 0 && errno == EINTR);
    if (n < 0)
        return false;
    in->eof = n == 0;
    in->end += (size_t)n;
    in->bytes_read += n;
    return true;
}

static replay_line_kind take(replay_lines *in, size_t len, size_t lf, const char **ret,
                             size_t *ret_len)
{
    bool too_long = in->skipping || len > REPLAY_LINE_MAX;
    const char *line = in->buf + in->begin;
    in->begin += len + lf;
    in->number++;
    in->skipping = false;
    if (too_long)
        return REPLAY_LINE_TOO_LONG;
    *ret = line;
    *ret_len = len;
    return REPLAY_LINE;
}

replay_line_kind replay_lines_next(replay_lines *in, const char **ret, size_t *ret_len)
{
    for (;;) {
        size_t held = in->end - in->begin;
        const char *at = in->buf + in->begin, *lf = memchr(at, '\n', held);
        if (lf)
            return take(in, (size_t)(lf - at), 1, ret, ret_len);
        if (in->eof)
            return held > 0 || in->skipping ? take(in, held, 0, ret, ret_len) : REPLAY_LINES_END;
        if (held > REPLAY_LINE_MAX || in->skipping) { /* nobody will look at it */
            in->skipping = true;
            in->begin = in->end;
        }
        if (!fill(in))
            return REPLAY_LINES_FAILED;
    }
}

void replay_lines_close(replay_lines *in)
{
    if (in->buf && in->fd != STDIN_FILENO)
        close(in->fd);
    free(in->buf);
    in->buf = NULL;
}
