/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* Opening does not block, whatever is there; reading does. It is a file of its own because the
 * configuration and the commands share it. */

#include "cmd/input.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#define PIPE_FILE_SYSTEM 0x50495045 /* PIPEFS_MAGIC of <linux/magic.h>: pipes without a name */

/* NULL if it can be read as a whole. */
static const char *kind_of(int fd)
{
    struct stat s;
    struct statfs where;
    if (fstat(fd, &s) != 0)
        return strerror(errno);
    if (S_ISREG(s.st_mode))
        return NULL;
    if (S_ISDIR(s.st_mode))
        return "it is a directory, expected a regular file";
    if (!S_ISFIFO(s.st_mode))
        return "it is a device, expected a regular file";
    if (fstatfs(fd, &where) == 0 && where.f_type == PIPE_FILE_SYSTEM)
        return NULL;
    return "it is a named pipe, expected a regular file";
}

const char *input_open(const char *path, int *ret_fd)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
    if (fd < 0)
        return errno == ENXIO ? "it is a socket, expected a regular file" : strerror(errno);
    const char *why = kind_of(fd);
    if (!why && fcntl(fd, F_SETFL, 0) != 0)
        why = strerror(errno);
    if (why)
        close(fd);
    else
        *ret_fd = fd;
    return why;
}
