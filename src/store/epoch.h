/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_STORE_EPOCH_H
#define WEIR_STORE_EPOCH_H
/* What a store's memory remembers of the time, so that whoever opens it next goes on from there. It
 * must not know any clock. */

#include "port/atomic.h"

/* One moment, as three clocks told it. */
typedef struct weir_epoch {
    int64_t time_ns;  /* the store's */
    int64_t wall_ns;  /* the wall's */
    int64_t boot_ns;  /* since the machine was started ... */
    uint64_t boot_id; /* ... and which start that was; 0 if it is not known */
} weir_epoch;

/* As it lies in memory that may be a file, all zero at first. There are two places, each with its
 * number, the four words and a check: one is written while the other stays as it was, so that who
 * is killed in between spoils one at most. Processes that share the memory may spoil both by
 * writing at once; in a second they write again. */
enum { WEIR_EPOCH_WORDS = 6 };

typedef struct weir_epoch_slots {
    port_word slot[2][WEIR_EPOCH_WORDS];
} weir_epoch_slots;

/* Notes a moment. One thread of a process at a time. */
void weir_epoch_put(weir_epoch_slots *s, const weir_epoch *e);

/* The moment that was noted last. False if there is none that is whole and in range. */
bool weir_epoch_get(const weir_epoch_slots *s, weir_epoch *ret);

#endif
