/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* The thread writes the decompressed bytes to a pipe, so the reader reads them as it reads any
 * file, and the capacity of the pipe limits how far ahead the thread works. The reader stops the
 * thread by closing the pipe: a poll() for input and a write() both notice that. */

#define _GNU_SOURCE /* pipe2, F_SETPIPE_SZ */

#include "cmd/accesslog/decompress_thread.h"

#include "port/atomic.h"
#include "port/port.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { BLOCK = 64 << 10, PIPE_BYTES = 1 << 20 };

struct accesslog_decompress_thread {
    int fd;      /* the compressed file */
    int pipe[2]; /* [0] belongs to the reader, [1] to the thread */
    port_thread *thread;
    weir_decompressor *decompressor;
    port_word bytes_read; /* written by the thread, read by the reader at any time */
    bool failed;          /* written by the thread before it ends, like `error` */
    char error[WEIR_DECOMPRESS_ERROR_MAX + 64];
    size_t in_len;
    uint8_t in[ACCESSLOG_DECOMPRESS_HEAD_MAX], out[BLOCK];
};

/* ---- the thread ------------------------------------------------------------------------------ */

static void fail(accesslog_decompress_thread *t, const weir_decompress_error *error)
{
    t->failed = true;
    snprintf(t->error, sizeof t->error, "byte %" PRIu64 ": %s", error->offset, error->text);
}

/* Writes `len` bytes of `out` to the pipe. Returns false if the reader has closed it. */
static bool write_out(accesslog_decompress_thread *t, size_t len)
{
    for (size_t done = 0; done < len;) {
        ssize_t n = write(t->pipe[1], t->out + done, len - done);
        if (n < 0 && errno != EINTR)
            return false;
        done += n > 0 ? (size_t)n : 0;
    }
    return true;
}

/* Reads compressed bytes into `in`. Returns false at the end, after an error, or if the reader has
 * closed the pipe. */
static bool read_in(accesslog_decompress_thread *t)
{
    struct pollfd p[] = {{.fd = t->fd, .events = POLLIN}, {.fd = t->pipe[1]}};
    weir_decompress_error error;
    ssize_t n = -1;
    do {
        if (poll(p, 2, -1) > 0 && p[1].revents != 0)
            return false;
        n = read(t->fd, t->in, sizeof t->in);
    } while (n < 0 && errno == EINTR);
    if (n < 0) {
        t->failed = true;
        snprintf(t->error, sizeof t->error, "%s", strerror(errno));
    } else if (n == 0 && weir_decompress_end(t->decompressor, &error) != WEIR_OK) {
        fail(t, &error);
    }
    t->in_len = n > 0 ? (size_t)n : 0;
    port_word_store_relaxed(&t->bytes_read, port_word_load_relaxed(&t->bytes_read) + t->in_len);
    return n > 0;
}

/* Decompresses all of `in`. Returns false after an error, or if the reader has closed the pipe. */
static bool decompress(accesslog_decompress_thread *t)
{
    size_t done = 0, made;
    do {
        size_t used;
        weir_decompress_error error;
        weir_status st = weir_decompress_run(t->decompressor, t->in + done, t->in_len - done, &used,
                                             t->out, sizeof t->out, &made, &error);
        done += used;
        if (!write_out(t, made))
            return false;
        if (st != WEIR_OK) {
            fail(t, &error);
            return false;
        }
    } while (made == sizeof t->out);
    return true;
}

static void run(void *arg)
{
    accesslog_decompress_thread *t = arg;
    while (decompress(t) && read_in(t))
        ;
    close(t->pipe[1]); /* the reader then reads the end of the file */
}

/* ---- the reader ------------------------------------------------------------------------------ */

accesslog_decompress_thread *accesslog_decompress_start(int fd, const char *bytes, size_t len)
{
    int error = ENOMEM;
    accesslog_decompress_thread *t = port_zalloc(1, sizeof *t);
    if (!t)
        goto fail;
    t->fd = fd;
    t->in_len = len;
    port_word_store_relaxed(&t->bytes_read, len);
    memcpy(t->in, bytes, len);
    if (weir_decompress_open(&t->decompressor) != WEIR_OK)
        goto free;
    if (pipe2(t->pipe, O_CLOEXEC) != 0) {
        error = errno;
        goto close;
    }
    (void)fcntl(t->pipe[1], F_SETPIPE_SZ, PIPE_BYTES); /* a smaller pipe only costs time */
    t->thread = port_thread_start(run, t);
    if (t->thread)
        return t;
    error = EAGAIN;
    (void)close(t->pipe[0]);
    (void)close(t->pipe[1]);
close:
    weir_decompress_close(t->decompressor);
free:
    port_free(t);
fail:
    errno = error;
    return NULL;
}

ptrdiff_t accesslog_decompress_read(accesslog_decompress_thread *t, char *buf, size_t max,
                                    int64_t *ret_bytes_read, char *ret_error, size_t size)
{
    ssize_t n;
    do
        n = read(t->pipe[0], buf, max);
    while (n < 0 && errno == EINTR);
    *ret_bytes_read = (int64_t)port_word_load_relaxed(&t->bytes_read);
    if (n > 0)
        return n;
    port_thread_join(t->thread);
    t->thread = NULL;
    if (t->failed)
        snprintf(ret_error, size, "%s", t->error);
    return t->failed ? -1 : 0;
}

void accesslog_decompress_stop(accesslog_decompress_thread *t)
{
    if (!t)
        return;
    close(t->pipe[0]);
    port_thread_join(t->thread);
    weir_decompress_close(t->decompressor);
    port_free(t);
}
