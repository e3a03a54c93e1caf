/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* Reads a log in blocks into one buffer and splits it at LF. Before each read, the partial line at
 * the end of the buffer moves to its front. Uncompressed bytes are read straight into this buffer.
 * A compressed log is the standard input of gzip or zstd, and its lines come from a pipe. The two
 * processes share the offset of the file, which tells the progress. */

#define _GNU_SOURCE /* F_SETPIPE_SZ, pipe2, POLLRDHUP, tee */

#include "accesslog/reader.h"

#include "port/assert.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#ifdef __linux__
#include <sys/prctl.h>
#endif
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define BLOCK    ((size_t)256 << 10) /* small enough to stay in the L2 cache until it is parsed */
#define BUF_SIZE (ACCESSLOG_LINE_MAX + 1 + BLOCK)

enum { MAGIC = 4, AGAIN_MS = 10, PIPE_BYTES = 1 << 20 };

/* ---- compressed logs ------------------------------------------------------------------------- */

/* The magic numbers of gzip (RFC 1952), of a Zstandard frame, and of a skippable frame (RFC
 * 8878). */
typedef struct magic {
    const char *program; /* that decompresses it */
    size_t len;
    uint8_t bytes[MAGIC], first_mask;
} magic;

static const magic magics[] = {{"gzip", 2, {0x1F, 0x8B}, 0xFF},
                               {"zstd", 4, {0x28, 0xB5, 0x2F, 0xFD}, 0xFF},
                               {"zstd", 4, {0x50, 0x2A, 0x4D, 0x18}, 0xF0}};

/* Finds the magic number at the start of n > 0 bytes. If n is too small to tell, returns one that
 * the bytes may be the beginning of. NULL: none. */
static const magic *find_magic(const uint8_t *bytes, size_t n)
{
    for (size_t i = 0; i < sizeof magics / sizeof magics[0]; i++) {
        const magic *m = &magics[i];
        size_t len = n < m->len ? n : m->len;
        if ((bytes[0] & m->first_mask) == m->bytes[0] &&
            memcmp(bytes + 1, m->bytes + 1, len - 1) == 0)
            return m;
    }
    return NULL;
}

/* Reads the first bytes of a pipe or a socket and leaves them there. Waits for the first one.
 * Returns how many; -1 if that is not possible, as with a terminal. */
static ssize_t peek(int fd, uint8_t bytes[MAGIC])
{
    int copy[2];
    ssize_t n = recv(fd, bytes, MAGIC, MSG_PEEK);
    if (n >= 0 || pipe2(copy, O_CLOEXEC) != 0)
        return n;
    n = tee(fd, copy[1], MAGIC, 0);
    if (n > 0)
        n = read(copy[0], bytes, (size_t)n);
    close(copy[0]);
    close(copy[1]);
    return n;
}

/* Peeks until the bytes decide the magic number, or the input has ended. poll() returns at once
 * while bytes are unread, so this polls only for the end, and peeks again every AGAIN_MS. */
static ssize_t peek_enough(int fd, uint8_t bytes[MAGIC])
{
    for (;;) {
        struct pollfd end = {.fd = fd, .events = POLLRDHUP};
        ssize_t n = peek(fd, bytes);
        const magic *m = n > 0 ? find_magic(bytes, (size_t)n) : NULL;
        if (!m || (size_t)n >= m->len)
            return n;
        if (poll(&end, 1, AGAIN_MS) > 0)
            return peek(fd, bytes);
    }
}

/* Returns the program for the magic number of the file. NULL: it is not compressed. */
static const char *decompressor_of(int fd)
{
    uint8_t bytes[MAGIC];
    ssize_t n = pread(fd, bytes, MAGIC, lseek(fd, 0, SEEK_CUR));
    if (n < 0)
        n = peek_enough(fd, bytes);
    const magic *m = n > 0 ? find_magic(bytes, (size_t)n) : NULL;
    return m && (size_t)n >= m->len ? m->program : NULL;
}

/* In the child: executes the decompressor with the file as its standard input. Restores SIGPIPE,
 * which weir may ignore, so that the decompressor ends when nobody reads its output. On Linux the
 * kernel also kills it when weir ends; otherwise it could wait for input for ever.
 *  parent  the process id of weir.
 *  failed  receives an errno value, and is closed by exec(). */
static _Noreturn void become(const accesslog_input *in, int out, pid_t parent, int failed)
{
    char name[16];
    snprintf(name, sizeof name, "%s", in->program);
    char *argv[] = {name, "-dc", NULL};
    signal(SIGPIPE, SIG_DFL);
#ifdef __linux__
    if (prctl(PR_SET_PDEATHSIG, SIGKILL) == 0 && getppid() != parent)
        _exit(127); /* weir has already ended */
#endif
    if (dup2(in->file, STDIN_FILENO) >= 0 && dup2(out, STDOUT_FILENO) >= 0)
        execvp(name, argv);
    int error = errno;
    (void)!write(failed, &error, sizeof error);
    _exit(127);
}

/* Starts the program. Returns 0 or an errno value. */
static int spawn(accesslog_input *in, int out)
{
    int failed[2], error = 0;
    pid_t parent = getpid();
    if (pipe2(failed, O_CLOEXEC) != 0)
        return errno;
    pid_t child = fork();
    if (child == 0)
        become(in, out, parent, failed[1]);
    if (child < 0)
        error = errno;
    close(failed[1]);
    while (child > 0 && read(failed[0], &error, sizeof error) < 0 && errno == EINTR)
        continue;
    close(failed[0]);
    if (child > 0 && error != 0)
        (void)waitpid(child, NULL, 0);
    else if (child > 0)
        in->child = child;
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
        error = spawn(in, out[1]);
        in->fd = out[0];
        close(out[1]);
    }
    snprintf(in->error, sizeof in->error, "cannot run %s: %s%s%s", in->program, strerror(error),
             error == ENOENT ? "; install the package " : "", error == ENOENT ? in->program : "");
    return error == 0;
}

/* Waits for the program after its last byte. Returns 0, or -1 if it failed. It has printed
 * why, unless a signal ended it. */
static ptrdiff_t end(accesslog_input *in)
{
    int status = 0;
    WEIR_ASSERT(in->child > 0);
    while (waitpid(in->child, &status, 0) < 0 && errno == EINTR)
        ;
    in->child = 0;
    if (WIFSIGNALED(status))
        snprintf(in->error, sizeof in->error,
                 "%s was ended by signal %d (%s) after line %" PRIu64 ": the rest of the log is "
                 "missing",
                 in->program, WTERMSIG(status), strsignal(WTERMSIG(status)), in->number);
    else
        snprintf(in->error, sizeof in->error,
                 "%s failed after line %" PRIu64 ": the file is damaged or truncated, or other "
                 "bytes follow the compressed ones",
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
