/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* Plain bytes are read right into the caller's buffer: no copy, no thread. */

#include "cmd/replay/input.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Bytes from here to the end of a regular file, else -1. */
static int64_t size_of(int fd, const struct stat *st)
{
    if (!S_ISREG(st->st_mode))
        return -1;
    off_t at = lseek(fd, 0, SEEK_CUR); /* the standard input may be partly read */
    return at >= 0 && at <= st->st_size ? st->st_size - at : -1;
}

bool replay_input_open(replay_input *ret, const char *path)
{
    bool is_stdin = strcmp(path, "-") == 0;
    replay_input in = {.name = is_stdin ? "<stdin>" : path, .fd = STDIN_FILENO};
    struct stat st;
    if (!is_stdin)
        in.fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
    if (in.fd < 0)
        return false;
    int error = fstat(in.fd, &st) != 0 ? errno : S_ISDIR(st.st_mode) ? EISDIR : 0;
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

static ptrdiff_t read_plain(replay_input *in, char *buf, size_t room)
{
    ssize_t n;
    do
        n = read(in->fd, buf, room);
    while (n < 0 && errno == EINTR);
    if (n < 0)
        snprintf(in->error, sizeof in->error, "%s", strerror(errno));
    else
        in->bytes_read += n;
    return n;
}

/* The first bytes, until it is known what they are of: nothing waits for more than that takes. */
static ptrdiff_t begin(replay_input *in, char *buf, size_t room)
{
    size_t len = 0, most = room < REPLAY_UNPACK_HEAD_MAX ? room : REPLAY_UNPACK_HEAD_MAX;
    weir_packing packing = WEIR_PACKING_OPEN;
    while (packing == WEIR_PACKING_OPEN) {
        ptrdiff_t n = read_plain(in, buf + len, most - len);
        if (n < 0)
            return n;
        if (n == 0)
            break;
        len += (size_t)n;
        packing = weir_packing_of((const uint8_t *)buf, len);
    }
    if (packing != WEIR_PACKING_GZIP && packing != WEIR_PACKING_ZSTD)
        return (ptrdiff_t)len;
    in->unpack = replay_unpack_start(in->fd, buf, len);
    if (in->unpack)
        return replay_input_read(in, buf, room);
    snprintf(in->error, sizeof in->error, "no memory or no thread to unpack it");
    return -1;
}

ptrdiff_t replay_input_read(replay_input *in, char *buf, size_t room)
{
    if (in->unpack)
        return replay_unpack_read(in->unpack, buf, room, &in->bytes_read, in->error,
                                  sizeof in->error);
    if (in->begun)
        return read_plain(in, buf, room);
    in->begun = true;
    return begin(in, buf, room);
}

void replay_input_close(replay_input *in)
{
    replay_unpack_stop(in->unpack);
    if (in->name && in->fd != STDIN_FILENO)
        close(in->fd);
    *in = (replay_input){0};
}
