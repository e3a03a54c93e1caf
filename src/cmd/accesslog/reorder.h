/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_CMD_ACCESSLOG_REORDER_H
#define WEIR_CMD_ACCESSLOG_REORDER_H
/* A reorder buffer: it holds the requests of one log until the log is a given time past them, and
 * returns them by time. Servers write a line when a request ends, so logs are nearly sorted: a new
 * request costs one comparison if it is in order, and O(log n) in any other log.
 *
 * The log's time is the latest time of its requests. A request that is more than an hour ahead of
 * it or behind it leaves it unchanged, unless the 100th in a row is so: then the log's time becomes
 * the nearest of these. So one wrong line does not let others through early. The second request of
 * a log may also set it back from the first.
 *
 * This module does not know lines or files. For one thread. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <weir/weir.h>

#include "codec/logline.h"
#include "port/text.h"

#define ACCESSLOG_HELD_MAX       ((size_t)1000000)   /* requests that all files hold together */
#define ACCESSLOG_HELD_BYTES_MAX ((size_t)256 << 20) /* of their long keys */

enum { ACCESSLOG_HELD_INLINE = 36 }; /* fits nearly all addresses; the structure has 64 bytes */

/* A request that is held. */
typedef struct accesslog_held {
    int64_t t_ns;
    int64_t cost;
    uint64_t line;
    uint32_t key_len;
    char key[ACCESSLOG_HELD_INLINE]; /* private: the key, or a pointer to a longer one */
} accesslog_held;

_Static_assert(sizeof(accesslog_held) == 64, "a held request has one cache line");

/* All fields are private. */
typedef struct accesslog_reorder {
    int64_t delay_ns;
    int64_t latest_ns; /* the log's time */
    int64_t far_ns;    /* the nearest of the last `far` requests, which were far from it */
    unsigned far;
    bool begun, settled, ended; /* settled: the second request was seen */
    size_t len_max, bytes_max;
    accesslog_held *ring, *heap;
    size_t capacity, heap_capacity; /* 0 or a power of two */
    size_t first, len, heap_len;
    size_t bytes; /* of long keys */
} accesslog_reorder;

/* Makes *r empty. Allocates nothing.
 *  delay_ns   how far the log must be past a request before it is ready, 0..INT64_MAX.
 *  len_max    the most requests held, 1..ACCESSLOG_HELD_MAX. With more, the oldest is ready early.
 *  bytes_max  the same for the bytes of keys longer than ACCESSLOG_HELD_INLINE. */
void accesslog_reorder_init(accesslog_reorder *r, int64_t delay_ns, size_t len_max,
                            size_t bytes_max);
void accesslog_reorder_free(accesslog_reorder *r); /* accepts zeros */

/* Adds a request, and copies its key. Requests of the same time stay in the order of their
 * addition. No request may be ready, see accesslog_reorder_ready().
 *  line  its line number, above those of the requests before.
 * Returns WEIR_OK or WEIR_E_NOMEM; then nothing has changed. */
WEIR_NODISCARD weir_status accesslog_reorder_add(accesslog_reorder *r,
                                                 const weir_log_record *record, uint64_t line);

/* No request will be added any more: all are ready. */
void accesslog_reorder_end(accesslog_reorder *r);

/* How many requests are held. */
size_t accesslog_reorder_len(const accesslog_reorder *r);

/* Returns the earliest request if it is ready, and else NULL. A request is ready if the log's time
 * is at least delay_ns later, if the buffer is full, or after accesslog_reorder_end(). Valid until
 * the next call for *r. */
const accesslog_held *accesslog_reorder_ready(const accesslog_reorder *r);

/* Removes the earliest request. There must be one. */
void accesslog_reorder_remove(accesslog_reorder *r);

/* The key of a held request, with the lifetime of `held`. */
weir_slice accesslog_held_key(const accesslog_held *held);

#endif
