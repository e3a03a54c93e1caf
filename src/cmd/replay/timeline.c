/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* Each width is a multiple of the one before it, so that a bucket lies in exactly one wider bucket.
 * A series is adapted to a new width when it is used again. */

#include "cmd/replay/timeline.h"

#include "port/assert.h"
#include "port/atomic.h"
#include "port/port.h"

#include <string.h>

struct replay_dense {
    struct replay_dense *next;
    uint64_t count[REPLAY_BUCKETS_MAX];
};

#define LOST (REPLAY_SPARSE_MAX + 1)

#define MS   INT64_C(1000000)
#define S    (1000 * MS)
#define MIN  (60 * S)
#define HOUR (60 * MIN)
#define DAY  (24 * HOUR)

/* 96 buckets of the last width are longer than the range of times. */
static const int64_t widths_ns[] = {MS,       5 * MS,   10 * MS,  50 * MS,  100 * MS,  500 * MS,
                                    S,        5 * S,    15 * S,   30 * S,   MIN,       5 * MIN,
                                    15 * MIN, 30 * MIN, HOUR,     3 * HOUR, 6 * HOUR,  12 * HOUR,
                                    DAY,      4 * DAY,  16 * DAY, 64 * DAY, 256 * DAY, 1024 * DAY};

/* The bucket of a time: the difference of two multiples of the width. */
static size_t bucket_of(const replay_timeline *t, int64_t now_ns, unsigned level)
{
    return (size_t)(now_ns / widths_ns[level] - t->first_ns / widths_ns[level]);
}

void replay_timeline_close(replay_timeline *t)
{
    for (struct replay_dense *d = t->all, *next; d; d = next) {
        next = d->next;
        port_free(d);
    }
    t->all = NULL;
}

void replay_timeline_next(replay_timeline *t, int64_t now_ns)
{
    if (t->len == 0)
        t->first_ns = now_ns;
    while (bucket_of(t, now_ns, t->level) >= REPLAY_BUCKETS_MAX)
        t->level++;
    WEIR_ASSERT(t->level < sizeof widths_ns / sizeof *widths_ns);
    t->len = bucket_of(t, now_ns, t->level) + 1;
    t->end_ns = (now_ns / widths_ns[t->level] + 1) * widths_ns[t->level];
}

int64_t replay_timeline_width_ns(const replay_timeline *t)
{
    return t->len > 0 ? widths_ns[t->level] : 0;
}

int64_t replay_timeline_start_ns(const replay_timeline *t)
{
    return t->len > 0 ? t->first_ns - t->first_ns % widths_ns[t->level] : 0;
}

/* ---- a series -------------------------------------------------------------------------------- */

/* Returns the bucket at `level` that contains the bucket `at` of a lower level. */
static size_t widened(const replay_timeline *t, size_t at, unsigned from, unsigned level)
{
    WEIR_ASSERT(from <= level); /* widths only grow */
    int64_t number = t->first_ns / widths_ns[from] + (int64_t)at;
    return (size_t)(number / (widths_ns[level] / widths_ns[from]) - t->first_ns / widths_ns[level]);
}

static void sparse_add(replay_series *s, size_t bucket, unsigned count)
{
    if (s->used > 0 && s->sparse[s->used - 1].bucket == bucket &&
        s->sparse[s->used - 1].count + count <= UINT8_MAX) {
        s->sparse[s->used - 1].count = (uint8_t)(s->sparse[s->used - 1].count + count);
        return;
    }
    WEIR_ASSERT(s->used < REPLAY_SPARSE_MAX);
    s->sparse[s->used].bucket = (uint8_t)bucket;
    s->sparse[s->used++].count = (uint8_t)count;
}

/* Adapts the entries to the width of now. Entries that come into one bucket are joined. */
static void widen(replay_series *s, const replay_timeline *t)
{
    const replay_series old = *s;
    s->level = (uint8_t)t->level;
    if (old.dense) {
        for (size_t i = 0; i < REPLAY_BUCKETS_MAX; i++) {
            uint64_t count = s->dense->count[i];
            s->dense->count[i] = 0;
            if (count > 0) /* `to` is at most i, so its old count was read before */
                s->dense->count[widened(t, i, old.level, t->level)] += count;
        }
    } else if (old.used < LOST) {
        s->used = 0;
        for (size_t i = 0; i < old.used; i++)
            sparse_add(s, widened(t, old.sparse[i].bucket, old.level, t->level),
                       old.sparse[i].count);
    }
}

bool replay_series_open(replay_series *s, replay_timeline *t)
{
    struct replay_dense *d = port_zalloc(1, sizeof *d);
    if (!d)
        return false;
    t->dense++;
    d->next = t->all;
    t->all = d;
    for (size_t i = 0; i < s->used; i++)
        d->count[s->sparse[i].bucket] += s->sparse[i].count;
    s->dense = d;
    return true;
}

void replay_series_add(replay_series *s, replay_timeline *t)
{
    WEIR_ASSERT(t->len > 0 && t->len <= REPLAY_BUCKETS_MAX);
    size_t bucket = t->len - 1;
    if (s->level != t->level)
        widen(s, t);
    if (s->dense) {
        s->dense->count[bucket]++;
        return;
    }
    if (s->used == LOST)
        return;
    bool same = s->used > 0 && s->sparse[s->used - 1].bucket == bucket &&
                s->sparse[s->used - 1].count < UINT8_MAX;
    if (same || s->used < REPLAY_SPARSE_MAX)
        sparse_add(s, bucket, 1);
    else if (t->dense < REPLAY_DENSE_MAX && replay_series_open(s, t))
        s->dense->count[bucket]++;
    else
        s->used = LOST;
}

void replay_series_prefetch(const replay_series *s, const replay_timeline *t)
{
    if (s->dense && t->len > 0)
        port_prefetch(&s->dense->count[t->len - 1]);
}

bool replay_series_read(const replay_series *s, const replay_timeline *t, uint64_t *ret)
{
    memset(ret, 0, REPLAY_BUCKETS_MAX * sizeof *ret);
    if (s->dense) {
        for (size_t i = 0; i < REPLAY_BUCKETS_MAX; i++) {
            if (s->dense->count[i] > 0)
                ret[widened(t, i, s->level, t->level)] += s->dense->count[i];
        }
        return true;
    }
    for (size_t i = 0; s->used < LOST && i < s->used; i++)
        ret[widened(t, s->sparse[i].bucket, s->level, t->level)] += s->sparse[i].count;
    return s->used < LOST;
}
