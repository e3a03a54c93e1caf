/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_CMD_REPLAY_TIMELINE_H
#define WEIR_CMD_REPLAY_TIMELINE_H
/* Counts over time, of the whole log and of single keys. The log is divided into buckets of equal
 * width. The width is not known before the log ends, so it grows with the log: from a millisecond
 * in steps, such as from 5 to 15 minutes, and buckets are merged. Buckets begin at multiples of
 * their width since the Unix epoch. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define REPLAY_BUCKETS_MAX 96

/* How many series may be dense at a time. One takes 784 bytes, so all take 50 MiB. */
#define REPLAY_DENSE_MAX 65536

struct replay_dense;

/* The buckets. Callers may read `len`; the other fields are private. Zeroed: no
 * requests yet. */
typedef struct replay_timeline {
    size_t len;       /* of the buckets so far, 0..REPLAY_BUCKETS_MAX; the last is the current */
    int64_t first_ns; /* the first time of the log */
    int64_t end_ns;   /* the end of the current bucket */
    unsigned level;   /* of the width */
    size_t dense;     /* series that are dense */
    struct replay_dense *all;
} replay_timeline;

/* Frees the dense series. */
void replay_timeline_close(replay_timeline *t);

/* The slow path of replay_timeline_move(). */
void replay_timeline_next(replay_timeline *t, int64_t now_ns);

/* Makes the bucket of now_ns the current one.
 *  now_ns  0..WEIR_NOW_NS_MAX, not before that of the last call. */
static inline void replay_timeline_move(replay_timeline *t, int64_t now_ns)
{
    if (now_ns >= t->end_ns)
        replay_timeline_next(t, now_ns);
}

/* The width of all buckets, and the start of the first one, which is at or before the first
 * request. 0 if there are no requests. */
int64_t replay_timeline_width_ns(const replay_timeline *t);
int64_t replay_timeline_start_ns(const replay_timeline *t);

/* ---- a series -------------------------------------------------------------------------------- */

#define REPLAY_SPARSE_MAX 7

/* A count for each bucket. It is sparse while it has few entries, and then dense. All fields are
 * private. Zeroed: all counts are 0. */
typedef struct replay_series {
    struct replay_dense *dense; /* NULL: sparse */
    uint8_t level;              /* of the buckets that the entries are for */
    uint8_t used;               /* sparse entries; above REPLAY_SPARSE_MAX: the series is lost */
    struct {
        uint8_t bucket, count;
    } sparse[REPLAY_SPARSE_MAX];
} replay_series;

/* Makes a zeroed series dense at once, so that it cannot be lost. Returns false if there is no
 * memory. */
bool replay_series_open(replay_series *s, replay_timeline *t);

/* Adds 1 in the current bucket. If the series would have to become dense, and REPLAY_DENSE_MAX are
 * or there is no memory, its counts are lost. */
void replay_series_add(replay_series *s, replay_timeline *t);

/* Loads the count of the current bucket into the cache, for a replay_series_add() soon after. */
void replay_series_prefetch(const replay_series *s, const replay_timeline *t);

/* Writes the counts of the first t->len buckets to ret[REPLAY_BUCKETS_MAX], and 0 behind them.
 * Returns false, with all counts 0, if they are lost. */
bool replay_series_read(const replay_series *s, const replay_timeline *t, uint64_t *ret);

#endif
