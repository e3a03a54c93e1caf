/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* Reads a file whole, and says why it cannot. It must not know what is in it. */

#include "cmd/config/file.h"

#include "cmd/input.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Reads up to max + 1 bytes, so that too large a file shows. */
static const char *read_all(int fd, size_t max, char **ret_buf, size_t *ret_len)
{
    size_t room = 4096, len = 0;
    char *buf = malloc(room);
    for (;;) {
        if (!buf)
            return "out of memory";
        ssize_t n = read(fd, buf + len, room - len - 1);
        if (n < 0 && errno == EINTR)
            continue;
        if (n == 0 || (n > 0 && len + (size_t)n > max)) {
            len += (size_t)n;
            break;
        }
        if (n < 0) {
            int reason = errno;
            free(buf);
            return strerror(reason);
        }
        len += (size_t)n;
        if (room - len > 1)
            continue;
        char *more = realloc(buf, room *= 2);
        if (!more)
            free(buf);
        buf = more;
    }
    if (len > max) {
        free(buf);
        return max >= 1 << 20 ? "larger than 16 MiB" : "too large";
    }
    buf[len] = '\0';
    *ret_buf = buf;
    *ret_len = len;
    return NULL;
}

const char *config_file_read(const char *path, size_t max, char **ret_buf, size_t *ret_len)
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
