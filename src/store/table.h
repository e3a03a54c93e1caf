/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_STORE_TABLE_H
#define WEIR_STORE_TABLE_H
/* The table: small states of fixed size, in memory that is taken once and never grows. A key is a
 * 64-bit hash, which the caller has keyed with a secret. It must not know a key's text, nor what a
 * policy means beyond the size of its state.
 *
 * A key has two buckets, both given by its hash. It lies in the first if there was room, else in
 * the second. Where both are full of states that are not fresh, those closest to fresh make room
 * for it. All functions but open and close may be called from any thread at once. */

#include "store/state.h"

typedef struct weir_table weir_table;

enum { WEIR_TABLE_WORDS_MAX = 12 }; /* of a state that may lie here */

/* How many words a state of `p` takes in the table, or 0 if its states do not belong there. A log
 * that is short enough lies here at the level from which on it does not grow. */
size_t weir_table_words(const weir_policy *p);

/* `bytes` at least WEIR_TABLE_BYTES_MIN. Returns WEIR_OK or WEIR_E_NOMEM. */
#define WEIR_TABLE_BYTES_MIN 4096
weir_status weir_table_open(weir_table **ret, size_t bytes);
void weir_table_close(weir_table *t); /* accepts NULL */

/* Runs fn on the state of `hash` at level WEIR_LEVEL_MAX, and keeps what it leaves.
 *  words   weir_table_words(p), not 0.
 *  now_ns  0..WEIR_NOW_NS_MAX; an earlier one than weir_table_now() is read as that.
 * Returns what fn does. */
weir_status weir_table_run(weir_table *t, const weir_policy *p, size_t words, uint64_t hash,
                           int64_t now_ns, weir_state_fn fn, void *ctx);

/* Makes a key fresh, whatever its policy. */
void weir_table_reset(weir_table *t, uint64_t hash);

/* Sets out to read what weir_table_run() will ask for first. */
void weir_table_prefetch(const weir_table *t, uint64_t hash);

/* The later of now_ns and the time that the table has seen. */
int64_t weir_table_now(weir_table *t, int64_t now_ns);

typedef struct weir_table_stats {
    uint64_t keys;
    uint64_t bytes; /* taken by them */
    uint64_t evicted;
} weir_table_stats;

weir_table_stats weir_table_stats_get(weir_table *t);

#endif
