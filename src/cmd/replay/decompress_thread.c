/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* A ring buffer of blocks between a producer and a consumer. The thread fills blocks, and the reader
 * returns each one when it has consumed it. Blocks change owner under the lock; their owner uses
 * them without it. The thread polls the file and a pipe; closing the pipe wakes it and stops it. */

#define _GNU_SOURCE /* pipe2 */

#include "cmd/replay/decompress_thread.h"

#include "port/port.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define BLOCK  ((size_t)256 << 10) /* as much as replay_input reads at once */
#define BLOCKS 4

typedef struct block {
    size_t len;
    int64_t bytes_read; /* compressed bytes read when the block was full */
    uint8_t bytes[BLOCK];
} block;

struct replay_decompress_thread {
    int fd, stop_pipe[2];
    port_thread *thread;
    /* Used by the thread only, once it runs: */
    weir_decompressor *decompressor;
    uint8_t in[REPLAY_DECOMPRESS_HEAD_MAX];
    size_t in_begin, in_end;
    int64_t bytes_read;
    /* Used by the reader only: */
    size_t taken; /* bytes of the current block that were copied out */
    /* Shared, under the lock: */
    port_mutex *lock;
    port_cond *changed;
    uint64_t filled, emptied; /* counts of blocks; block n is ring[n % BLOCKS] */
    bool ended, failed, stop; /* ended: no more blocks will be filled */
    char error[WEIR_DECOMPRESS_ERROR_MAX + 64];
    block ring[BLOCKS];
};

/* ---- the thread ------------------------------------------------------------------------------ */

static void end(replay_decompress_thread *t, const char *error)
{
    port_mutex_lock(t->lock);
    t->ended = true;
    t->failed = error != NULL;
    snprintf(t->error, sizeof t->error, "%s", error ? error : "");
    port_cond_wake(t->changed);
    port_mutex_unlock(t->lock);
}

static void end_failed(replay_decompress_thread *t, const weir_decompress_error *error)
{
    char text[sizeof t->error];
    snprintf(text, sizeof text, "byte %" PRIu64 ": %s", error->offset, error->text);
    end(t, text);
}

/* Waits for a free block. Returns NULL if the thread should stop. */
static block *wait_for_block(replay_decompress_thread *t)
{
    port_mutex_lock(t->lock);
    while (t->filled - t->emptied == BLOCKS && !t->stop)
        port_cond_wait(t->changed, t->lock);
    block *b = t->stop ? NULL : &t->ring[t->filled % BLOCKS];
    port_mutex_unlock(t->lock);
    return b;
}

static void publish(replay_decompress_thread *t, block *b)
{
    if (b->len == 0)
        return;
    b->bytes_read = t->bytes_read;
    port_mutex_lock(t->lock);
    t->filled++;
    port_cond_wake(t->changed);
    port_mutex_unlock(t->lock);
}

/* Reads compressed bytes. Returns false at the end, or after an error that it recorded. */
static bool read_input(replay_decompress_thread *t)
{
    struct pollfd p[] = {{.fd = t->fd, .events = POLLIN}, {.fd = t->stop_pipe[0]}};
    ssize_t n = -1;
    do {
        if (poll(p, 2, -1) > 0 && p[1].revents != 0)
            return false;
        n = read(t->fd, t->in, sizeof t->in);
    } while (n < 0 && errno == EINTR);
    if (n < 0) {
        end(t, strerror(errno));
        return false;
    }
    t->in_begin = 0;
    t->in_end = (size_t)n;
    t->bytes_read += n;
    weir_decompress_error error;
    if (n > 0)
        return true;
    if (weir_decompress_end(t->decompressor, &error) == WEIR_OK)
        end(t, NULL);
    else
        end_failed(t, &error);
    return false;
}

/* Decompresses input into one block and passes it to the reader. Returns false on an error, which
 * it recorded.
 *  ret_hungry  whether all input was consumed. */
static bool fill(replay_decompress_thread *t, block *b, bool *ret_hungry)
{
    size_t used;
    weir_decompress_error error;
    weir_status st =
        weir_decompress_run(t->decompressor, t->in + t->in_begin, t->in_end - t->in_begin, &used,
                            b->bytes, sizeof b->bytes, &b->len, &error);
    t->in_begin += used;
    *ret_hungry = b->len < sizeof b->bytes;
    publish(t, b);
    if (st != WEIR_OK)
        end_failed(t, &error);
    return st == WEIR_OK;
}

static void run(void *arg)
{
    replay_decompress_thread *t = arg;
    bool hungry = false;
    block *b;
    while ((!hungry || read_input(t)) && (b = wait_for_block(t)) && fill(t, b, &hungry))
        ;
}

/* ---- the reader ------------------------------------------------------------------------------ */

replay_decompress_thread *replay_decompress_start(int fd, const char *bytes, size_t len)
{
    replay_decompress_thread *t = port_zalloc(1, sizeof *t);
    if (!t)
        return NULL;
    t->fd = fd;
    t->stop_pipe[0] = t->stop_pipe[1] = -1;
    t->lock = port_mutex_new();
    t->changed = port_cond_new();
    if (!t->lock || !t->changed || pipe2(t->stop_pipe, O_CLOEXEC) != 0 ||
        weir_decompress_open(&t->decompressor) != WEIR_OK)
        goto fail;
    t->in_end = len;
    t->bytes_read = (int64_t)len;
    memcpy(t->in, bytes, len);
    t->thread = port_thread_start(run, t);
    if (t->thread)
        return t;
fail:
    replay_decompress_stop(t);
    return NULL;
}

/* Waits for a filled block. Returns NULL at the end. */
static const block *wait_for_bytes(replay_decompress_thread *t)
{
    port_mutex_lock(t->lock);
    while (t->filled == t->emptied && !t->ended)
        port_cond_wait(t->changed, t->lock);
    const block *b = t->filled > t->emptied ? &t->ring[t->emptied % BLOCKS] : NULL;
    port_mutex_unlock(t->lock);
    return b;
}

static void release_block(replay_decompress_thread *t)
{
    t->taken = 0;
    port_mutex_lock(t->lock);
    t->emptied++;
    port_cond_wake(t->changed);
    port_mutex_unlock(t->lock);
}

ptrdiff_t replay_decompress_read(replay_decompress_thread *t, char *buf, size_t max,
                                 int64_t *ret_bytes_read, char *ret_error, size_t size)
{
    const block *b = wait_for_bytes(t);
    if (!b) { /* the thread has finished and will not write `error` again */
        if (t->failed)
            snprintf(ret_error, size, "%s", t->error);
        return t->failed ? -1 : 0;
    }
    size_t left = b->len - t->taken, n = left < max ? left : max;
    memcpy(buf, b->bytes + t->taken, n);
    *ret_bytes_read = b->bytes_read;
    t->taken += n;
    if (n == left)
        release_block(t);
    return (ptrdiff_t)n;
}

void replay_decompress_stop(replay_decompress_thread *t)
{
    if (!t)
        return;
    if (t->thread) {
        port_mutex_lock(t->lock);
        t->stop = true;
        port_cond_wake(t->changed);
        port_mutex_unlock(t->lock);
    }
    if (t->stop_pipe[1] >= 0)
        close(t->stop_pipe[1]);
    port_thread_join(t->thread);
    if (t->stop_pipe[0] >= 0)
        close(t->stop_pipe[0]);
    weir_decompress_close(t->decompressor);
    port_cond_free(t->changed);
    port_mutex_free(t->lock);
    port_free(t);
}
