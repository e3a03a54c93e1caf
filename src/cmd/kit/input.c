/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* Opens with O_NONBLOCK, so that opening never hangs, and then reads with blocking calls. */

#include "cmd/kit/input.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#define PIPE_FILE_SYSTEM 0x50495045 /* PIPEFS_MAGIC of <linux/magic.h>: unnamed pipes */

/* Returns why a file of this kind is refused; NULL if it is accepted. */
static const char *refuse_kind(int fd)
{
    struct stat s;
    struct statfs where;
    if (fstat(fd, &s) != 0)
        return strerror(errno);
    if (S_ISREG(s.st_mode))
        return NULL;
    if (S_ISDIR(s.st_mode))
        return "found a directory, expected a regular file";
    if (!S_ISFIFO(s.st_mode))
        return "found a device, expected a regular file";
    if (fstatfs(fd, &where) == 0 && where.f_type == PIPE_FILE_SYSTEM)
        return NULL;
    return "found a named pipe, expected a regular file";
}

const char *input_open(const char *path, int *ret_fd)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
    if (fd < 0)
        return errno == ENXIO ? "found a socket, expected a regular file" : strerror(errno);
    const char *why = refuse_kind(fd);
    if (!why && fcntl(fd, F_SETFL, 0) != 0)
        why = strerror(errno);
    if (why)
        close(fd);
    else
        *ret_fd = fd;
    return why;
}

/* The bytes may hold a password. */
static void discard(char *buf, size_t len)
{
    explicit_bzero(buf, len);
    free(buf);
}

/* Moves the bytes to a buffer of twice the size, and clears and frees the old one, also on failure.
 * realloc() would leave a copy in freed memory. Returns NULL if there is no memory. */
static char *grow(char *buf, size_t len, size_t *size)
{
    char *more = malloc(2 * *size);
    if (more)
        memcpy(more, buf, len);
    discard(buf, len);
    *size *= 2;
    return more;
}

/* Reads up to max + 1 bytes, so that a file that is too large is noticed. */
static const char *read_all(int fd, size_t max, char **ret_buf, size_t *ret_len)
{
    size_t size = 4096, len = 0;
    char *buf = malloc(size);
    for (ssize_t n = 1; buf && n != 0 && len <= max;) {
        n = read(fd, buf + len, size - len - 1);
        if (n < 0 && errno != EINTR) {
            int reason = errno;
            discard(buf, len);
            return strerror(reason);
        }
        len += n > 0 ? (size_t)n : 0;
        if (size - len == 1)
            buf = grow(buf, len, &size);
    }
    if (!buf)
        return "out of memory";
    if (len > max) {
        discard(buf, len);
        return max >= 1 << 20    ? "larger than 16 MiB"
               : max >= 64 << 10 ? "larger than 64 KiB"
                                 : "larger than 16 KiB";
    }
    buf[len] = '\0';
    *ret_buf = buf;
    *ret_len = len;
    return NULL;
}

const char *input_read(const char *path, size_t max, char **ret_buf, size_t *ret_len)
{
    bool is_stdin = strcmp(path, "-") == 0;
    int fd = STDIN_FILENO;
    const char *why = is_stdin ? NULL : input_open(path, &fd);
    if (why)
        return why;
    why = read_all(fd, max, ret_buf, ret_len);
    if (!is_stdin)
        close(fd);
    return why;
}
