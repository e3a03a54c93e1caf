/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_STORE_TABLE_H
#define WEIR_STORE_TABLE_H
/* The hash table of small states: cuckoo hashing with buckets of one cache line, in memory of a
 * fixed size. A key is a 64-bit hash, keyed by the caller with a secret. The table knows no key's
 * text. Only word.h and pack.h read more of a policy than its layers and their formats.
 *
 * The hash of a key gives two buckets. The key lies in the first if there was space, otherwise in
 * the alternate bucket. If both are full of keys that are not idle, those that have used the
 * smallest share of their limit are evicted. All functions but open and close may be called from
 * any thread, and from any process that has the same memory open. */

#include <weir/weir_store.h>

#include "port/atomic.h"
#include "store/robust_lock.h"
#include "store/state.h"

typedef struct weir_table weir_table;

/* The size of a state of `p` in words; 0 if its states do not belong in the table, because they
 * grow or are too large. */
size_t weir_table_words(const weir_policy *p);

/* Opens a table in memory that begins on a page and must outlive it.
 *  part       all zero, or what a table of the same size has left there.
 *  processes  must outlive the table.
 *  refuse     refuse new keys instead of evicting others.
 * Returns WEIR_OK; WEIR_E_RANGE for less than WEIR_TABLE_BYTES_MIN bytes; WEIR_E_NOMEM. */
#define WEIR_TABLE_BYTES_MIN 49152
weir_status weir_table_open(weir_table **ret, void *part, size_t bytes,
                            const weir_processes *processes, bool refuse);

/* The same, but divides the buckets into ranges: n of these sizes, and before them one of all that
 * is left. Each is a table of its own, whose keys never displace or evict keys of another. They
 * share the time, the locks and the undo log.
 *  ret   n + 1 tables: the one of what is left, then those of the sizes. Close all of them.
 *  size  of the n ranges, in bytes: multiples of 64, at least WEIR_TABLE_RANGE_MIN each. 4 KiB of
 *        each are for the range's counters, which lie behind the last bucket of all ranges.
 *  n     0..WEIR_TABLE_RANGES_MAX.
 * Returns also WEIR_E_RANGE if fewer than WEIR_TABLE_BYTES_MIN bytes are left. */
#define WEIR_TABLE_RANGE_MIN  65536
#define WEIR_TABLE_RANGES_MAX 15
weir_status weir_table_open_split(weir_table *ret[], void *part, size_t bytes,
                                  const weir_processes *processes, bool refuse, const size_t size[],
                                  size_t n);

/* Repairs the buckets that are locked with the id of this opening or of a dead one. Reads the
 * whole table, with all ranges. No other thread may use the table. */
void weir_table_repair_locks(weir_table *t);

void weir_table_close(weir_table *t); /* accepts NULL; the memory stays as it is */

/* The smallest table or range for which weir_table_each() returns the whole hash of a key. */
#define WEIR_TABLE_BYTES_WHOLE ((size_t)5 << 20)

/* The same if all hashes are folded, see weir_hash_fold(). Call weir_table_fold() on such a table
 * once it is open. */
#define WEIR_TABLE_BYTES_FOLDED ((size_t)576 << 10)
void weir_table_fold(weir_table *t);

/* The place of this memory among several that one transaction locks, see weir_table_one: the same
 * in all processes, and different for different memory. Set it for each range. It is 0
 * otherwise. */
void weir_table_set_order(weir_table *t, uint64_t order);

/* Runs fn on the state of `hash` at level WEIR_LEVEL_MAX, and stores the new state.
 *  p       weir_table_words(p) is not 0.
 *  now_ns  0..WEIR_NOW_NS_MAX. The call is at the later of now_ns and the table's time.
 * Returns the status of fn; WEIR_E_FULL if the state does not fit, or WEIR_E_ELSEWHERE if the key
 * is absent and may be elsewhere: then nothing changed. */
weir_status weir_table_run(weir_table *t, const weir_policy *p, uint64_t hash, int64_t now_ns,
                           weir_state_fn fn, void *ctx);

/* The fast path: decides requests for one key, in order, as weir_check() does.
 *  requests  have the same policy, for which weir_pack_is_fast() is true. Key and policy_id are
 *            not read. The costs are in range. Status, WEIR_OK, WEIR_E_FULL or
 *            WEIR_E_ELSEWHERE, and decision are written. */
void weir_table_take_row(weir_table *t, weir_store_request *requests, size_t n, uint64_t hash,
                         int64_t now_ns);

/* The same for one request. Returns WEIR_OK, WEIR_E_FULL or WEIR_E_ELSEWHERE.
 * weir_table_take_here() inserts an absent key instead of returning WEIR_E_ELSEWHERE. For it and
 * for weir_table_take_word(), weir_pack_is_single() is true. */
weir_status weir_table_take_word(weir_table *t, const weir_policy *p, uint64_t hash, int64_t now_ns,
                                 int64_t cost, weir_decision *ret);

weir_status weir_table_take_one(weir_table *t, const weir_policy *p, uint64_t hash, int64_t now_ns,
                                int64_t cost, weir_decision *ret);

weir_status weir_table_take_here(weir_table *t, const weir_policy *p, uint64_t hash, int64_t now_ns,
                                 int64_t cost, weir_decision *ret);

/* One request of a transaction. */
typedef struct weir_table_one {
    const weir_policy *policy;
    uint64_t hash;
    weir_state_fn fn;
    void *ctx;
    weir_status status; /* output: the status of fn, or WEIR_E_FULL if the new state does not fit */
    /* A range of the same memory, or of other memory with another order; NULL: the table of the
     * call. */
    weir_table *table;
} weir_table_one;

/* A transaction on several keys, of any ranges and any memory. Locks all keys and runs the
 * callbacks in order, each on its key's state, at the later of now_ns and the time of its memory.
 * Then `keep` decides whether to commit all new states or none. A key whose new state is all zero
 * is dropped, after the other changes are written. `finish` runs before the locks are
 * released.
 *  n        0..WEIR_TABLE_MANY_MAX. Requests for the same hash see each other's changes.
 *  written  whether the new states were committed.
 * Returns WEIR_OK; WEIR_E_FULL, which is also the status of one request, with nothing committed. */
#define WEIR_TABLE_MANY_MAX 16
weir_status weir_table_run_many(weir_table *t, weir_table_one *ones, size_t n, int64_t now_ns,
                                bool (*keep)(void *ctx, const weir_table_one *ones),
                                void (*finish)(void *ctx, bool written), void *ctx);

/* Until this time, calls on one key return WEIR_E_ELSEWHERE if it is absent; transactions do not.
 * It is shared by all ranges of the memory, and never goes back. */
const port_word *weir_table_kept_until(const weir_table *t);
void weir_table_keep_until(weir_table *t, int64_t until_ns);

/* Whether that time is later than now_ns. */
static inline bool weir_kept_until(const port_word *until_ns, int64_t now_ns)
{
    return (int64_t)port_word_load_relaxed(until_ns) > now_ns;
}

/* The journal of moves of a state from one hash to another. The caller has locked all that it will
 * change. weir_table_move_begin() takes a slot; returns WEIR_TABLE_MOVES if all stay taken, because
 * processes were killed. weir_table_move_end() frees it once the new state is stored and the old
 * one removed. weir_table_move_take_over() takes the slot of a process that was killed in between:
 * if *ret_to has a state, *ret_from must be reset before weir_table_move_end(). */
enum { WEIR_TABLE_MOVES = 2 };
size_t weir_table_move_begin(weir_table *t, uint64_t from, uint64_t to);
void weir_table_move_end(weir_table *t, size_t slot);
bool weir_table_move_take_over(weir_table *t, size_t slot, uint64_t *ret_from, uint64_t *ret_to);

/* Whether the table has a state of a hash, idle or not. */
bool weir_table_has(weir_table *t, uint64_t hash);

/* Resets a key, whatever its policy. */
void weir_table_reset(weir_table *t, uint64_t hash);

/* Prefetches a key's first bucket. Then, once that has arrived, prefetches its alternate bucket if
 * the key is not in the first. */
void weir_table_prefetch(const weir_table *t, uint64_t hash);
void weir_table_prefetch_alternate(const weir_table *t, uint64_t hash);

/* The later of now_ns and the table's time. */
int64_t weir_table_now(weir_table *t, int64_t now_ns);

/* Calls fn for every entry. Returns false if fn stopped the iteration. */
bool weir_table_each(weir_table *t, weir_key_state_fn fn, void *ctx);

/* The time from which on the key of a state is idle; of a large state too. A mark is up to 511 ns
 * later than the exact time. For a TIME entry, see weir_word_time(). */
int64_t weir_table_idle_at(const weir_key_state *stored);

/* Adds an entry that weir_table_each() returned, on this table or another. Returns WEIR_OK;
 * WEIR_E_RANGE for an invalid entry; WEIR_E_FULL. */
weir_status weir_table_put(weir_table *t, const weir_key_state *stored);

/* ---- a copy of memory that is in use (watch.c) ----------------------------------------------- */

/* weir_table_each() misses a key that moves from a bucket that it has not read to one that it has.
 * From weir_table_watch() to weir_table_unwatch(), the hash of each key that moves is noted, by the
 * threads of all processes. If others watch, weir_table_watch() waits until they end, or are dead.
 * Call both once for all ranges of the memory, with all n of them.
 *
 * A copy of all keys is complete if weir_table_each() has read all ranges, and then
 * weir_table_get() each hash that was noted. */
void weir_table_watch(weir_table *const t[], size_t n);
void weir_table_unwatch(weir_table *const t[], size_t n);

/* Notes a hash, if it is watched. To be called before the change, under the locks of the key, or
 * under another lock that the watcher takes once before it reads anything. */
void weir_table_note(weir_table *t, uint64_t hash);

/* How many hashes were noted; a hint. Call weir_table_noted() before WEIR_TABLE_NOTES of them are
 * there: further ones are lost. */
#ifndef WEIR_TABLE_NOTES /* tests/model has less memory */
#define WEIR_TABLE_NOTES 1530
#endif
uint64_t weir_table_notes(const weir_table *t);

/* Takes the hashes that were noted, of all ranges. Returns false if some were lost since the last
 * call. */
bool weir_table_noted(weir_table *t, void (*fn)(void *ctx, uint64_t hash), void *ctx);

/* Calls fn for the entry of a hash, if there is one. */
void weir_table_get(weir_table *t, uint64_t hash, weir_key_state_fn fn, void *ctx);

typedef struct weir_table_stats {
    uint64_t keys;
    uint64_t bytes; /* that their entries use */
    uint64_t evicted;
    uint64_t refused;
    uint64_t damaged; /* entries of all ranges dropped as damaged; 0 in all tables but the first */
} weir_table_stats;

weir_table_stats weir_table_stats_get(weir_table *t);

#endif
