/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* Reads a log in blocks into one buffer and splits it at LF. Before each read, the partial line at
 * the end of the buffer moves to its front. Uncompressed bytes are read straight into this buffer.
 * A compressed log is the standard input of gzip or zstd, and its lines come from a pipe. The two
 * processes share the offset of the file, which tells the progress. */

#define _GNU_SOURCE /* environ, F_SETPIPE_SZ, pipe2, tee */

#include "accesslog/reader.h"

#include "port/assert.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define BLOCK    ((size_t)256 << 10) /* small enough to stay in the L2 cache until it is parsed */
#define BUF_SIZE (ACCESSLOG_LINE_MAX + 1 + BLOCK)

enum { MAGIC = 4, PIPE_BYTES = 1 << 20 };

/* ---- compressed logs ------------------------------------------------------------------------- */

/* Reads the first bytes of the file and leaves them there. Returns how many; -1 if that is not
 * possible, as with a terminal. Of a pipe or a socket it waits for the first byte only. */
static ssize_t peek(int fd, uint8_t bytes[MAGIC])
{
    int copy[2];
    ssize_t n = pread(fd, bytes, MAGIC, lseek(fd, 0, SEEK_CUR));
    if (n < 0)
        n = recv(fd, bytes, MAGIC, MSG_PEEK);
    if (n >= 0 || pipe2(copy, O_CLOEXEC) != 0)
        return n;
    n = tee(fd, copy[1], MAGIC, 0);
    if (n > 0)
        n = read(copy[0], bytes, (size_t)n);
    close(copy[0]);
    close(copy[1]);
    return n;
}

/* Returns the program that decompresses the file, which its magic number names: that of gzip (RFC
 * 1952), or of a frame of zstd or one that zstd skips (RFC 8878). NULL: it is not compressed. */
static char *decompressor_of(int fd)
{
    static char gzip[] = "gzip", zstd[] = "zstd";
    uint8_t b[MAGIC];
    ssize_t n = peek(fd, b);
    if (n >= 2 && b[0] == 0x1F && b[1] == 0x8B)
        return gzip;
    bool skipped = n == MAGIC && (b[0] & 0xF0) == 0x50 && memcmp(b + 1, "\x2A\x4D\x18", 3) == 0;
    return skipped || (n == MAGIC && memcmp(b, "\x28\xB5\x2F\xFD", MAGIC) == 0) ? zstd : NULL;
}

/* Starts the program with the file as its standard input. SIGPIPE, which the command may ignore,
 * ends it once the pipe is closed. Returns 0 or an errno value. */
static int spawn(accesslog_input *in, const int out[2])
{
    char *argv[] = {in->program, "-dc", NULL};
    posix_spawn_file_actions_t files;
    posix_spawnattr_t attributes;
    sigset_t signals;
    sigemptyset(&signals);
    sigaddset(&signals, SIGPIPE);
    posix_spawn_file_actions_init(&files);
    posix_spawnattr_init(&attributes);
    posix_spawnattr_setsigdefault(&attributes, &signals);
    posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGDEF);
    int error = posix_spawn_file_actions_adddup2(&files, in->file, STDIN_FILENO);
    if (error == 0)
        error = posix_spawn_file_actions_adddup2(&files, out[1], STDOUT_FILENO);
    if (error == 0)
        error = posix_spawnp(&in->child, in->program, &files, &attributes, argv, environ);
    posix_spawnattr_destroy(&attributes);
    posix_spawn_file_actions_destroy(&files);
    return error;
}

/* Starts the decompression of the file if it is needed. Returns false after writing in->error. */
static bool begin(accesslog_input *in)
{
    int out[2], error = 0;
    in->program = decompressor_of(in->file);
    if (!in->program)
        return true;
    if (pipe2(out, O_CLOEXEC) != 0) {
        error = errno;
    } else {
        (void)fcntl(out[1], F_SETPIPE_SZ, PIPE_BYTES); /* a smaller pipe only costs time */
        error = spawn(in, out);
        in->fd = out[0];
        close(out[1]);
    }
    snprintf(in->error, sizeof in->error, "cannot run %s: %s%s%s", in->program, strerror(error),
             error == ENOENT ? "; install the package " : "", error == ENOENT ? in->program : "");
    return error == 0;
}

/* Waits for the program after its last byte. Returns 0, or -1 if it failed. It has printed why. */
static ptrdiff_t end(accesslog_input *in)
{
    int status = 0;
    WEIR_ASSERT(in->child > 0);
    while (waitpid(in->child, &status, 0) < 0 && errno == EINTR)
        ;
    in->child = 0;
    snprintf(in->error, sizeof in->error,
             "%s failed after line %" PRIu64 ": the file is damaged or truncated, or other bytes "
             "follow the compressed ones",
             in->program, in->number);
    return status == 0 ? 0 : -1;
}

/* Reads 1..size bytes. Returns how many, 0 at the end, -1 on failure with in->error set. */
static ptrdiff_t read_bytes(accesslog_input *in, char *buf, size_t size)
{
    ssize_t n;
    if (!in->begun && !begin(in))
        return -1;
    in->begun = true;
    do
        n = read(in->fd, buf, size);
    while (n < 0 && errno == EINTR);
    if (n < 0)
        snprintf(in->error, sizeof in->error, "%s", strerror(errno));
    else if (in->program && in->size >= 0)
        in->bytes_read = lseek(in->file, 0, SEEK_CUR) - in->start;
    else
        in->bytes_read += n;
    return n == 0 && in->child > 0 ? end(in) : n;
}

/* ---- lines ----------------------------------------------------------------------------------- */

static bool fill(accesslog_input *in)
{
    size_t held = in->end - in->begin;
    WEIR_ASSERT(held + BLOCK <= BUF_SIZE);
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
    WEIR_ASSERT(len + lf <= in->end - in->begin);
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

/* Returns 0 or an errno value. */
static int open_file(accesslog_input *in, const char *path)
{
    struct stat st;
    bool is_stdin = strcmp(path, "-") == 0;
    in->name = is_stdin ? "<stdin>" : path;
    in->file = is_stdin ? STDIN_FILENO : open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
    if (in->file < 0)
        return errno;
    int error = fstat(in->file, &st) != 0 ? errno : S_ISDIR(st.st_mode) ? EISDIR : 0;
    in->fd = in->file;
    in->start = lseek(in->file, 0, SEEK_CUR); /* standard input may have been read in part */
    in->size = in->start >= 0 && in->start <= st.st_size ? st.st_size - in->start : -1;
    if (error != 0 && !is_stdin)
        close(in->file);
    return error;
}

bool accesslog_input_open(accesslog_input *ret, const char *path)
{
    accesslog_input in = {.empty = true, .buf = malloc(BUF_SIZE)};
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
    if (in->fd != in->file)
        close(in->fd);
    if (in->child > 0) {
        (void)kill(in->child, SIGKILL); /* it may wait for a pipe that nobody closes */
        (void)waitpid(in->child, NULL, 0);
    }
    if (in->file != STDIN_FILENO)
        close(in->file);
    free(in->buf);
}
