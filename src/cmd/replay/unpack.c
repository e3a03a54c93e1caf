/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* A ring of blocks: the thread fills those in front of the reader, who gives each back when it is
 * empty. A block changes hands under the lock, and is looked at without it. A pipe that is closed
 * to stop the thread wakes it where it waits for input. */

#define _GNU_SOURCE /* pipe2 */

#include "cmd/replay/unpack.h"

#include "port/port.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define BLOCK  ((size_t)256 << 10) /* as replay_lines reads */
#define BLOCKS 4

typedef struct block {
    size_t len;
    int64_t bytes_read; /* packed ones, when it was full */
    uint8_t bytes[BLOCK];
} block;

struct replay_unpack {
    int fd, stop_pipe[2];
    port_thread *thread;
    /* Of the thread alone, once it runs. */
    weir_unpack *unpack;
    uint8_t packed[REPLAY_UNPACK_HEAD_MAX];
    size_t packed_begin, packed_end;
    int64_t bytes_read;
    /* Of the reader alone. */
    size_t taken; /* of the block that is read */
    /* Of both, under the lock. */
    port_mutex *lock;
    port_cond *changed;
    uint64_t filled, emptied; /* blocks so far; they lie in the ring by number % BLOCKS */
    bool ended, failed, stop; /* ended: no block will follow */
    char error[WEIR_UNPACK_TEXT_MAX + 64];
    block ring[BLOCKS];
};

/* ---- the thread ------------------------------------------------------------------------------ */

static void end(replay_unpack *u, const char *error)
{
    port_mutex_lock(u->lock);
    u->ended = true;
    u->failed = error != NULL;
    snprintf(u->error, sizeof u->error, "%s", error ? error : "");
    port_cond_wake(u->changed);
    port_mutex_unlock(u->lock);
}

static void end_unpack(replay_unpack *u, const weir_unpack_error *error)
{
    char text[sizeof u->error];
    snprintf(text, sizeof text, "byte %" PRIu64 ": %s", error->offset, error->text);
    end(u, text);
}

/* The next block to fill; NULL to stop. */
static block *wait_for_block(replay_unpack *u)
{
    port_mutex_lock(u->lock);
    while (u->filled - u->emptied == BLOCKS && !u->stop)
        port_cond_wait(u->changed, u->lock);
    block *b = u->stop ? NULL : &u->ring[u->filled % BLOCKS];
    port_mutex_unlock(u->lock);
    return b;
}

static void hand_over(replay_unpack *u, block *b)
{
    if (b->len == 0)
        return;
    b->bytes_read = u->bytes_read;
    port_mutex_lock(u->lock);
    u->filled++;
    port_cond_wake(u->changed);
    port_mutex_unlock(u->lock);
}

/* Reads packed bytes. Returns whether to go on; if not, all was said. */
static bool read_packed(replay_unpack *u)
{
    struct pollfd p[] = {{.fd = u->fd, .events = POLLIN}, {.fd = u->stop_pipe[0]}};
    ssize_t n = -1;
    do {
        if (poll(p, 2, -1) > 0 && p[1].revents != 0)
            return false;
        n = read(u->fd, u->packed, sizeof u->packed);
    } while (n < 0 && errno == EINTR);
    if (n < 0) {
        end(u, strerror(errno));
        return false;
    }
    u->packed_begin = 0;
    u->packed_end = (size_t)n;
    u->bytes_read += n;
    weir_unpack_error error;
    if (n > 0)
        return true;
    if (weir_unpack_end(u->unpack, &error) == WEIR_OK)
        end(u, NULL);
    else
        end_unpack(u, &error);
    return false;
}

/* Fills one block with what the packed bytes at hand hold. Returns whether to go on. */
static bool fill(replay_unpack *u, block *b, bool *ret_hungry)
{
    size_t used;
    weir_unpack_error error;
    weir_status st =
        weir_unpack_run(u->unpack, u->packed + u->packed_begin, u->packed_end - u->packed_begin,
                        &used, b->bytes, sizeof b->bytes, &b->len, &error);
    u->packed_begin += used;
    *ret_hungry = b->len < sizeof b->bytes;
    hand_over(u, b);
    if (st != WEIR_OK)
        end_unpack(u, &error);
    return st == WEIR_OK;
}

static void run(void *arg)
{
    replay_unpack *u = arg;
    bool hungry = false;
    block *b;
    while ((!hungry || read_packed(u)) && (b = wait_for_block(u)) && fill(u, b, &hungry))
        ;
}

/* ---- the reader ------------------------------------------------------------------------------ */

replay_unpack *replay_unpack_start(int fd, const char *bytes, size_t len)
{
    replay_unpack *u = port_zalloc(1, sizeof *u);
    if (!u)
        return NULL;
    u->fd = fd;
    u->stop_pipe[0] = u->stop_pipe[1] = -1;
    u->lock = port_mutex_new();
    u->changed = port_cond_new();
    if (!u->lock || !u->changed || pipe2(u->stop_pipe, O_CLOEXEC) != 0 ||
        weir_unpack_open(&u->unpack) != WEIR_OK)
        goto fail;
    u->packed_end = len;
    u->bytes_read = (int64_t)len;
    memcpy(u->packed, bytes, len);
    u->thread = port_thread_start(run, u);
    if (u->thread)
        return u;
fail:
    replay_unpack_stop(u);
    return NULL;
}

/* Waits for a block that is not empty; NULL at the end. */
static const block *wait_for_bytes(replay_unpack *u)
{
    port_mutex_lock(u->lock);
    while (u->filled == u->emptied && !u->ended)
        port_cond_wait(u->changed, u->lock);
    const block *b = u->filled > u->emptied ? &u->ring[u->emptied % BLOCKS] : NULL;
    port_mutex_unlock(u->lock);
    return b;
}

static void give_back(replay_unpack *u)
{
    u->taken = 0;
    port_mutex_lock(u->lock);
    u->emptied++;
    port_cond_wake(u->changed);
    port_mutex_unlock(u->lock);
}

ptrdiff_t replay_unpack_read(replay_unpack *u, char *buf, size_t room, int64_t *ret_bytes_read,
                             char *ret_error, size_t size)
{
    const block *b = wait_for_bytes(u);
    if (!b) { /* the thread has ended, or is about to: it writes nothing more */
        if (u->failed)
            snprintf(ret_error, size, "%s", u->error);
        return u->failed ? -1 : 0;
    }
    size_t left = b->len - u->taken, n = left < room ? left : room;
    memcpy(buf, b->bytes + u->taken, n);
    *ret_bytes_read = b->bytes_read;
    u->taken += n;
    if (n == left)
        give_back(u);
    return (ptrdiff_t)n;
}

void replay_unpack_stop(replay_unpack *u)
{
    if (!u)
        return;
    if (u->thread) {
        port_mutex_lock(u->lock);
        u->stop = true;
        port_cond_wake(u->changed);
        port_mutex_unlock(u->lock);
    }
    if (u->stop_pipe[1] >= 0)
        close(u->stop_pipe[1]);
    port_thread_join(u->thread);
    if (u->stop_pipe[0] >= 0)
        close(u->stop_pipe[0]);
    weir_unpack_close(u->unpack);
    port_cond_free(u->changed);
    port_mutex_free(u->lock);
    port_free(u);
}
