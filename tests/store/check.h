/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_STORE_CHECK_H
#define WEIR_STORE_CHECK_H
/* Walkers: consistency checks for tests. Each walks all of one part of a store, and reports a state
 * that no sequence of calls can leave. They are in no library and in no program.
 *
 * A walker takes no locks and repairs nothing. Meanwhile, no other thread or process may use the
 * part. Locks of dead processes must have been taken over before.
 * Returns NULL, or what is wrong and where; the text is valid until the thread's next call. */

#include "store/large/large.h"
#include "store/reserve.h"
#include "store/table/table.h"

struct weir_policy_registry;

/* Every bucket: unlocked, a valid header, no tag twice, only tags that a hash of the bucket has,
 * and no alternate entry that lookups would miss. The undo log is empty, and the counters are the
 * sums over the buckets.
 *  killed  writers were killed before: a key may be in both of its buckets, or in one that lookups
 *          miss, and the counters may differ. */
const char *weir_table_check(const weir_table *t, bool killed);

/* The same for the two buckets of a key only, without the counters. */
const char *weir_table_check_key(const weir_table *t, uint64_t hash, bool killed);

/* The bitmaps: each taken unit belongs to one valid block, and the counters are the sums over the
 * blocks. The index leads to each block once, from its own bucket, and to no hash twice. No stripe
 * is locked or has an open transaction. */
const char *weir_large_check(weir_large *l);

/* The heap: each open record is in it once, is valid, and does not expire before its parent. Every
 * other record is free or was never used. The next expiry is that of the first record. */
const char *weir_reserve_check(weir_reserve *r);

/* Every entry: its id is found, and its text, if it has one, is valid and overlaps no other. */
const char *weir_policy_registry_check(const struct weir_policy_registry *r);

/* Runs all walkers. With `killed`, it first takes over the locks of dead processes. */
const char *weir_store_check_all(weir_store *s, bool killed);

/* Formats the text that a walker returns, in memory of the thread. */
__attribute__((format(printf, 1, 2))) const char *weir_wrong(const char *format, ...);

/* Prints the text of a walker and aborts. WEIR_CHECK works with and without a test framework. */
void weir_check_failed(const char *wrong, const char *file, int line);
#define WEIR_CHECK(walk)                                                                           \
    do {                                                                                           \
        const char *wrong_text = (walk);                                                           \
        if (wrong_text)                                                                            \
            weir_check_failed(wrong_text, __FILE__, __LINE__);                                     \
    } while (0)

#endif
