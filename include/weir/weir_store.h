/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_WEIR_STORE_H
#define WEIR_WEIR_STORE_H
/* A store: rate limits for many keys in one process, or in several processes that share a file or
 * memory.
 *
 *     weir_store *s;
 *     weir_store_open(&s, NULL);
 *     uint64_t id = weir_store_policy_id(s, &p);
 *     if (weir_store_check(s, &p, id, "alice", 5, now_ns, 1, &d) == WEIR_OK && d.allowed) ...
 *
 * A store holds the state of every key that has used some of its quota. A key whose whole quota is
 * available again is idle: its state can be dropped, because it equals the state of a new key.
 *
 * Threads: all functions but open and close may be called from any thread at any time. Each
 * decision is atomic. A store belongs to the process that opened it. A child made by fork() must
 * neither use nor close it, but may open a store of its own.
 *
 * Keys: of each key the store keeps 64 bits, never the text: a keyed hash of 58 bits, and 6 bits of
 * the policy's id, the class of the policy. With n keys in use whose policies have the same class,
 * the chance that any two of them share a state is about n*n / 2^59: 1 in 576,000 for a million
 * keys. In memory of the caller, the hash has 55 bits, and the chance is about n*n / 2^56.
 *
 * Time: the store remembers the latest now_ns that it was given, to within 1 ms, and treats an
 * earlier now_ns as that time. If now_ns is earlier by less than 1 ms, it may be used as it is: as
 * in weir_check(), the answer is then stricter, never looser.
 *
 * Memory: the store never uses more memory than its budget, which has three parts.
 * - The hash table holds small states: those of a fixed size of up to 5 words. They are the states
 *   of GCRA, token and leaky buckets, queues, fixed windows, sliding counters, sliding logs of up
 *   to 2 requests, up to 6 slices, up to 2 concurrent units, blocks, and short combinations of
 *   these as layers. The common ones have 8 bytes, and a key takes about 18 with its hash. Lookups
 *   take no lock. A denial that is not counted and begins no block, or a peek, writes no shared
 *   memory, except for the store's time, at most once a millisecond.
 * - The memory for large states, of `large_bytes`, holds all others: those that are larger or grow.
 * - The memory for reservations is one sixteenth of what is not for large states, at most 4.5 MiB,
 *   or one sixty-fourth if that is at least 5.4 MiB.
 * A partition has a range of the hash table, a part of the memory for large states, or both.
 * The system provides pages as they are used. A store in memory of 16 MiB or more begins with small
 * pages of 4 KiB, so a new small state makes at most one of them resident. Once the table has one
 * key for every four of its small pages, a thread moves the table to huge pages, and all of it
 * becomes resident. Of the memory for large states, the thread moves what is in use. A smaller
 * store uses huge pages from the beginning.
 *
 * Eviction: the memory of idle keys is reused. If there is none, a key that still has less than its
 * full quota is evicted; `evicted` counts such keys. The victim is the key that has used the
 * smallest share of its own limit, in the new key's two buckets of the table or in a sample of the
 * large states. So in a flood of new keys with one request each, these keys evict each other. Keys
 * that have used up their limit stay, as long as they take a small part of the memory. With
 * WEIR_REFUSE, the new key is refused instead.
 *
 * Files: the memory may be a mapped file. Then the process may be killed at any time, and the file
 * has every decision that the store returned. Opening takes the same time for any number of keys.
 * `sync` controls what a power failure may lose. The file is locked while it is open. A child made
 * by fork() keeps the lock until it ends or calls exec(). Several processes may have the file open
 * if all set `shared`. A second lock, on the empty file FILE.lock, prevents another process from
 * creating a new file at the path if FILE was moved or deleted while in use.
 *
 * Shared memory: the caller can also provide the memory, such as a mapping that fork() inherits.
 * Each process then opens the store for itself, and all share its states. Any of them may be killed
 * at any time: the charges that it made are kept, and the other processes release its locks. Such
 * a store starts no threads. */

#include <weir/weir.h>

#ifdef __cplusplus
extern "C" {
#endif
#if defined(__GNUC__) && !defined(__wasm__)
#pragma GCC visibility push(default)
#endif

#define WEIR_KEY_MAX 65536 /* length of a key: 1..WEIR_KEY_MAX bytes */

typedef struct weir_store weir_store;

/* ---- opening --------------------------------------------------------------------------------- */

/* When changes are written to the disk. A killed process loses nothing in any mode. The modes
 * differ in what a power failure may lose. */
typedef enum weir_sync {
    WEIR_SYNC_NEVER,  /* all that the kernel has not yet written, by default up to 30 s */
    WEIR_SYNC_SECOND, /* about the last second */
    WEIR_SYNC_ALWAYS  /* nothing: each call returns after its change is on the disk */
} weir_sync;

typedef enum weir_when_full {
    WEIR_EVICT, /* evict the key that has used the smallest share of its limit */
    WEIR_REFUSE /* return WEIR_E_FULL for new keys */
} weir_when_full;

typedef struct weir_store_error {
    char text[256]; /* one line: what is wrong and what to do */
} weir_store_error;

/* A partition: a part of the store's memory for some policies alone. Keys of a partition are never
 * evicted or refused because of keys outside it, and never take memory from those: its size is
 * fixed. If table_bytes or large_bytes is 0, the policy's states of that kind, small or large, are
 * in the memory that all other policies share; see Memory above. */
typedef struct weir_store_partition {
    /* 1..WEIR_PARTITION_NAME_MAX printable ASCII characters, without space, quote, backslash. */
    const char *name;
    /* For small states, in the hash table. 0, or at least 64 KiB; for a file, at least 5 MiB; in
     * memory of the caller, at least 576 KiB. */
    size_t table_bytes;
    size_t large_bytes; /* for large states: 0, or at least 64 KiB */
} weir_store_partition;

#define WEIR_PARTITIONS_MAX     15
#define WEIR_PARTITION_NAME_MAX 64

/* How a store's file or memory was found when it was opened. */
typedef enum weir_found {
    WEIR_FOUND_NOTHING,    /* no state: a store in memory, or a file that is new or was reset */
    WEIR_FOUND_CLOSED,     /* the file was closed cleanly: nothing is lost */
    WEIR_FOUND_KILLED,     /* the last process ended without closing it: nothing is lost */
    WEIR_FOUND_POWER_LOSS, /* the machine stopped: what `sync` allows may be lost */
    WEIR_FOUND_OPEN        /* other processes have it open; or `memory` has a store */
} weir_found;

/* Where a store's file is now. */
typedef enum weir_file {
    WEIR_FILE_IN_PLACE, /* at its path; also returned for a store in memory */
    WEIR_FILE_REMOVED,  /* deleted: its states are lost when this store is closed */
    WEIR_FILE_MOVED,    /* renamed, and there is no file at the path */
    WEIR_FILE_REPLACED, /* another file is at the path */
    WEIR_FILE_SHORTENED /* truncated: access to the missing part raises SIGBUS */
} weir_file;

typedef struct weir_store_opened {
    weir_found found;
    int64_t written_ns; /* about when the file was last written, in ns since the epoch; 0: never */
} weir_store_opened;

typedef struct weir_store_options {
    /* Memory for all states. 0: 256 MiB. The minimum is 1 MiB; for a file it is 8 MiB, and 6 MiB
     * more than large_bytes. */
    size_t memory_bytes;
    /* The key of the hash, 16 bytes. NULL: a random one, or the one in the file. Set it in tests,
     * or to import the states of another file. */
    const uint8_t *secret;
    /* The part of memory_bytes for large states. 0: a quarter. It is at least 64 KiB, and at least
     * 64 KiB less than memory_bytes. */
    size_t large_bytes;
    /* Memory for the store, which other processes may share. NULL: the store allocates its own.
     * Otherwise memory_bytes bytes that begin on a page, at least 1 MiB. Up to 7 % of them are for
     * a header, slots for 512 to 2048 openings, and the texts of policies. Of the rest, large_bytes
     * are for large states, and at least 576 KiB must remain for the hash table.
     * - At the first opening the memory must be all zero, and weir_store_open() must return before
     *   another process calls it. Later calls may overlap.
     * - If the memory has a store, it is opened with its states. The sizes and partitions must be
     *   those of the first opening. The contents are trusted: other processes must not damage them.
     * - The thread that opens the store must also close it, and must live until then: when it ends,
     *   the other processes treat this opening as dead, and release its locks.
     * - Closing leaves the memory as it is. Close the store before the memory is unmapped.
     * - Excludes `file`, `reset`, `read_only` and `prefault`. `shared`, `sync` and `trust_others`
     *   have no effect. */
    void *memory;
    const char *file;         /* path of the state file, created if absent. NULL: in memory */
    weir_sync sync;           /* default: WEIR_SYNC_NEVER */
    weir_when_full when_full; /* default: WEIR_EVICT */
    /* Other processes may open the file too, if all of them set `shared`. */
    bool shared;
    /* Replaces the file with an empty one. Opening fails with WEIR_E_BUSY if the file is in use. */
    bool reset;
    /* Maps the file privately and never writes it: changes stay in this process. The file must
     * exist and must not be in use. */
    bool read_only;
    /* An existing file keeps its sizes and partitions, whatever memory_bytes, large_bytes and
     * `partitions` are. weir_store_stats_get() returns the real sizes. For processes that open a
     * shared file and leave its size to another one. */
    bool keep_size;
    /* Accepts a file that another user owns or that is group- or world-writable. Otherwise such a
     * file is refused. */
    bool trust_others;
    /* A thread begins at once to make all memory resident in huge pages, in steps. Otherwise it
     * does so later; see Memory above. Not for a file. Linux 5.14 or newer. */
    bool prefault;
    /* 0..WEIR_PARTITIONS_MAX partitions with different names. All together have at most 90 % of
     * large_bytes, and at most 90 % of the rest of memory_bytes. See weir_store_partition_id(). */
    const weir_store_partition *partitions;
    size_t partitions_len;
    const weir_zones *zones;       /* to parse the policies stored in the file. NULL: UTC only */
    weir_store_error *ret_error;   /* may be NULL; written if opening fails */
    weir_store_opened *ret_opened; /* may be NULL; written once the store is open */
} weir_store_options;

typedef struct weir_store_stats {
    uint64_t keys;         /* in the store now, including idle keys that were not dropped yet */
    uint64_t memory_bytes; /* used by the states of these keys */
    uint64_t evicted;      /* keys evicted, with less than their full quota, to free memory */
    /* The upper bound of memory_bytes: the option memory_bytes. With the option `memory`, it is
     * less by the header, the slots of openings and the texts of policies. */
    uint64_t memory_max;
    uint64_t large_keys;   /* the part of `keys` with large states */
    uint64_t large_bytes;  /* the part of memory_bytes for large states */
    uint64_t large_max;    /* the limit of large_bytes */
    uint64_t refused;      /* new keys refused under WEIR_REFUSE because the memory was full */
    uint64_t damaged;      /* damaged entries of a file that were dropped, or locks, released */
    uint64_t reserved;     /* open reservations */
    uint64_t syncs_failed; /* failed syncs: some changes may not be on the disk */
} weir_store_stats;

/* Creates a store in memory, or opens or creates the one in `file` or `memory`. With options NULL,
 * all options have their defaults. If the file has other sizes or partitions than the options, a
 * new file replaces it, and the states are copied, unless keep_size is set. The states of a
 * partition go to the partition of the same name, if there is one. *ret is written on WEIR_OK only.
 * Returns WEIR_OK; WEIR_E_NOMEM, also for `memory` on a system other than Linux; or
 * - WEIR_E_RANGE for a bad memory_bytes, large_bytes or partition, for options that exclude each
 *   other, for a secret other than the file's, or if `memory` has a store of other sizes or
 *   partitions;
 * - WEIR_E_IO for a system error, for a file on a system other than Linux, or if another user owns
 *   the file or may write it;
 * - WEIR_E_BUSY if another process uses the file, or a moved or deleted file that was at this path,
 *   if the size cannot change because the file is in use, or if `memory` has no slot for another
 *   opening;
 * - WEIR_E_SYNTAX if the file or the header of `memory` is damaged, has another version, or is not
 *   one of weir. */
WEIR_NODISCARD weir_status weir_store_open(weir_store **ret, const weir_store_options *options);

/* Writes all changes to the disk, for any `sync`, marks the file as cleanly closed, and frees the
 * store. A process that exits without closing loses only that mark. Accepts NULL. No other call on
 * the store may be running. */
void weir_store_close(weir_store *s);

/* Returns the id that a policy's states are stored under. Policies with equal canonical texts have
 * equal ids. To store several sets of states of one policy, use ids of your own, and keep the bits
 * WEIR_POLICY_CLASS: an eviction needs them to tell how much of its limit a key has used. */
#define WEIR_POLICY_CLASS (UINT64_C(63) << 58)
uint64_t weir_store_policy_id(const weir_store *s, const weir_policy *p);

/* Returns the id to pass in place of policy_id to all functions below, so that the states are kept
 * in the partition `name`. It is the same at each opening. If the store has no such partition,
 * returns policy_id itself. With 15 partitions, 1 in 1,000,000 of the ids that this function did
 * not return select one of them by chance; their keys then take memory there. */
uint64_t weir_store_partition_id(const weir_store *s, uint64_t policy_id, const char *name);

/* ---- one key --------------------------------------------------------------------------------- */

/* Decides on a request for one key, and charges it if it is allowed; see weir_check().
 *  policy_id  weir_store_policy_id(s, p).
 *  key        key_len bytes of any value, 1..WEIR_KEY_MAX.
 *  ret        valid only if WEIR_OK is returned.
 * Returns WEIR_OK; WEIR_E_RANGE for a bad key, time or cost; WEIR_E_NOMEM if a large state does not
 * fit even after eviction; WEIR_E_FULL under WEIR_REFUSE if the key is new and the memory is full.
 * Nothing is charged unless the status is WEIR_OK. */
WEIR_NODISCARD weir_status weir_store_check(weir_store *s, const weir_policy *p, uint64_t policy_id,
                                            const void *key, size_t key_len, int64_t now_ns,
                                            int64_t cost, weir_decision *ret);

/* Returns what weir_store_check() would decide, and charges nothing; see weir_peek(). */
WEIR_NODISCARD weir_status weir_store_peek(weir_store *s, const weir_policy *p, uint64_t policy_id,
                                           const void *key, size_t key_len, int64_t now_ns,
                                           int64_t cost, weir_decision *ret);

/* Like weir_store_check() and weir_store_peek(), for a request that keeps units for others; see
 * weir_check_keep(). */
WEIR_NODISCARD weir_status weir_store_check_keep(weir_store *s, const weir_policy *p,
                                                 uint64_t policy_id, const void *key,
                                                 size_t key_len, int64_t now_ns, int64_t cost,
                                                 int64_t keep, weir_decision *ret);
WEIR_NODISCARD weir_status weir_store_peek_keep(weir_store *s, const weir_policy *p,
                                                uint64_t policy_id, const void *key, size_t key_len,
                                                int64_t now_ns, int64_t cost, int64_t keep,
                                                weir_decision *ret);

/* Gives back `cost` units; see weir_refund(). Also returns WEIR_E_UNSUPPORTED. */
WEIR_NODISCARD weir_status weir_store_refund(weir_store *s, const weir_policy *p,
                                             uint64_t policy_id, const void *key, size_t key_len,
                                             int64_t now_ns, int64_t cost, weir_decision *ret);

/* Charges `cost` units that were used already, whether they fit or not; see weir_charge().
 *  ret_over  written only on WEIR_OK. */
WEIR_NODISCARD weir_status weir_store_charge(weir_store *s, const weir_policy *p,
                                             uint64_t policy_id, const void *key, size_t key_len,
                                             int64_t now_ns, int64_t cost, weir_decision *ret,
                                             int64_t *ret_over);

/* Resets a key: it has its full quota again. Returns WEIR_OK, also for an unknown key; WEIR_E_RANGE
 * for a bad key. */
WEIR_NODISCARD weir_status weir_store_reset(weir_store *s, uint64_t policy_id, const void *key,
                                            size_t key_len);

/* ---- all keys of a policy -------------------------------------------------------------------- */

#define WEIR_RESETS_MAX 192 /* policies of a store that can have been reset as a whole */

/* Resets all keys of a policy in constant time: begins a new generation of its states, which are
 * stored under another id from now on, see weir_store_current_id(). A decision that begins after
 * the call has returned, in any thread or process, finds all keys with their full quota. No later
 * charge is lost. The states of the former generation are never used again, and are idle once their
 * quota would be full; until then they count as keys of the store. The file keeps the generation,
 * even if the process is killed.
 * A reservation that was made before belongs to the former generation: committing or cancelling it
 * neither charges nor returns units in the new one.
 *  policy  a number that stands for the policy: its id or, for several ids that are to be reset
 *          together, any other number. Of two random numbers, the chance that they share their
 *          generations is 2^-40.
 * Returns WEIR_OK; WEIR_E_FULL if WEIR_RESETS_MAX others have been reset since the store was
 * created, or this one 16,777,215 times. */
WEIR_NODISCARD weir_status weir_store_reset_policy(weir_store *s, uint64_t policy);

/* Returns the id to pass in place of policy_id to the functions of this header, so that
 * weir_store_reset_policy(s, policy) resets its keys. It changes at each reset, so call this for
 * each decision: until the first reset of any policy it is only a load. The partition and the class
 * of the id stay.
 *  policy  as in weir_store_reset_policy(). */
uint64_t weir_store_current_id(const weir_store *s, uint64_t policy_id, uint64_t policy);

/* ---- prepared keys --------------------------------------------------------------------------- */

/* A key that was hashed in advance. If its state is in the processor's cache, this saves a quarter
 * of the time of weir_store_check(), and almost half for a denial. It is worthwhile if a caller
 * decides on the same key often, such as on each request of a connection. A caller that knows the
 * key some time before it decides, such as a proxy that still parses the request, can also prefetch
 * the key's state: with many keys, most of the time of a decision is spent waiting for memory. */
typedef struct weir_key {
    /* Both are private to the store. */
    uint64_t hash;
    const void *partition;
} weir_key;

/* Hashes a key in advance. *ret is valid with this store and policy_id until the store is closed,
 * and stands for the same state as the key itself. Returns WEIR_OK; WEIR_E_RANGE for a bad key,
 * with *ret unchanged. */
WEIR_NODISCARD weir_status weir_store_key(const weir_store *s, uint64_t policy_id, const void *key,
                                          size_t key_len, weir_key *ret);

/* Prefetches the state of a key into the processor's cache. Returns without waiting, and changes no
 * decision. It has no effect on large states, which are not in the hash table. */
void weir_store_prefetch(const weir_store *s, weir_key key);

/* Does the same as weir_store_check() for a prepared key, and returns the same.
 *  p  the policy of the policy_id that the key was prepared with. */
WEIR_NODISCARD weir_status weir_store_check_key(weir_store *s, const weir_policy *p, weir_key key,
                                                int64_t now_ns, int64_t cost, weir_decision *ret);

/* ---- several keys ---------------------------------------------------------------------------- */

/* One request of a batch: the arguments of weir_store_check_keep(), and its result. */
typedef struct weir_store_request {
    const weir_policy *policy;
    uint64_t policy_id;
    const void *key;
    size_t key_len;
    int64_t cost;
    weir_status status;     /* output */
    weir_decision decision; /* output, written if the status is WEIR_OK */
    int64_t keep;           /* input; 0: as weir_store_check(). See weir_check_keep() */
} weir_store_request;

/* Decides n requests in order. The results equal those of n calls of weir_store_check_keep() at
 * now_ns, but a batch is faster: it prefetches the states of many keys at once. A batch may contain
 * a key several times. */
void weir_store_check_batch(weir_store *s, weir_store_request *requests, size_t n, int64_t now_ns);

#define WEIR_TAKE_MANY_MAX 16

/* Decides n requests as one. If all are allowed, all are charged. If one is denied, none is
 * charged, and no denial is counted even if a policy has count-denied. But a policy with a block
 * begins it, if it would deny its request even without the others. Other calls see all of the
 * charges or none. If a key is in several requests, their sum must be allowed: each is decided with
 * those before it, and a sum above the limit is denied with `never`. The units that a request keeps
 * must remain after it and the requests before it. If the process is killed before the call has
 * returned, the file may have some of the charges.
 *  n             1..WEIR_TAKE_MANY_MAX.
 *  requests      the statuses are always written. The decisions are written on WEIR_OK: those of
 *                the charged requests, or after a denial those that each request would get alone.
 *  ret_blocking  n if all are allowed. Otherwise the index of the denied request with the longest
 *                wait; among equal waits, the one with the latest reset. Written on WEIR_OK only.
 * Returns WEIR_OK; WEIR_E_RANGE for a bad n, with nothing written; otherwise the first status of a
 * request that is not WEIR_OK, see weir_store_check(), with nothing charged. */
WEIR_NODISCARD weir_status weir_store_take_many(weir_store *s, weir_store_request *requests,
                                                size_t n, int64_t now_ns, size_t *ret_blocking);

/* ---- reservations: when the cost is known only afterwards ------------------------------------ */

/* Reserves `cost` units before the real cost is known, such as the bytes of an upload or the tokens
 * of an answer. Later, weir_store_commit() charges the real cost, or weir_store_cancel() returns
 * all units. Otherwise the reservation expires at now_ns + ttl_ns, and the store returns its units
 * itself, before any later decision on the key. Open reservations are kept in the file. Only units
 * that still count are returned: if the window of the charge has ended, there is nothing to return.
 * A concurrent layer holds the units until the reservation ends.
 *  ttl_ns  1..WEIR_SPAN_NS_MAX. With a concurrent layer 1..its lease, or 0 for its lease.
 *  ret     as in weir_store_check(). A denied request reserves nothing.
 *  ret_id  a random id, never 0. Written if the request is allowed.
 * Also returns WEIR_E_UNSUPPORTED for policies that do not support refunds, see weir_refund();
 * WEIR_E_FULL if too many reservations are open. The limit is one for each 72 bytes of the memory
 * for them, at most 65536; from 5.4 MiB on it is one for each 84 bytes, at most 2^24. */
WEIR_NODISCARD weir_status weir_store_reserve(weir_store *s, const weir_policy *p,
                                              uint64_t policy_id, const void *key, size_t key_len,
                                              int64_t now_ns, int64_t cost, int64_t ttl_ns,
                                              weir_decision *ret, uint64_t *ret_id);

/* Commits a reservation at its real cost. If that is less than the reserved cost, the rest is
 * returned. If it is more, the difference is charged as by weir_store_charge(), whether it fits or
 * not. A concurrent layer gives all units of the reservation back, whatever the real cost.
 * If the reservation has expired, the whole real cost is charged in this way, once. The store
 * forgets an expired reservation when it needs the memory for a new one. While n are open, it knows
 * at least the latest max - n that expired, where max is the limit of open reservations above.
 *  actual    the real cost, 0..WEIR_COST_MAX.
 *  ret       the key's quota afterwards, as from a peek.
 *  ret_over  the units that could not be counted; see weir_charge().
 * Returns WEIR_OK; WEIR_E_ABSENT if no reservation has this id, or if it was committed, cancelled
 * or forgotten; WEIR_E_RANGE. */
WEIR_NODISCARD weir_status weir_store_commit(weir_store *s, uint64_t id, int64_t now_ns,
                                             int64_t actual, weir_decision *ret, int64_t *ret_over);

/* Renews a reservation: it then expires ttl_ns after now_ns or, if later, after the latest time in
 * the state of the key. A concurrent layer holds the units until then. Units that a refund has
 * already given back are not held again.
 *  ttl_ns    as for weir_store_reserve().
 *  ret       the key's quota afterwards, as from a peek.
 * Returns WEIR_OK; WEIR_E_ABSENT if no open reservation has this id; WEIR_E_RANGE; WEIR_E_NOMEM,
 * with nothing renewed, if the leases need more memory. */
WEIR_NODISCARD weir_status weir_store_renew(weir_store *s, uint64_t id, int64_t now_ns,
                                            int64_t ttl_ns, weir_decision *ret);

/* Cancels a reservation: returns all of its units, if it has not expired. Equals
 * weir_store_commit() with an actual cost of 0. */
WEIR_NODISCARD weir_status weir_store_cancel(weir_store *s, uint64_t id, int64_t now_ns,
                                             weir_decision *ret);

/* ---- statistics, the file, time, other arithmetic -------------------------------------------- */

/* Returns the statistics as of about now. It may wait for a lock, but not for a disk. */
weir_store_stats weir_store_stats_get(weir_store *s);

/* The statistics of a partition. */
typedef struct weir_partition_stats {
    const char *name;      /* valid until the store is closed */
    uint64_t keys;         /* in the partition now, including idle keys that were not dropped yet */
    uint64_t memory_bytes; /* used by the states of these keys */
    uint64_t memory_max;   /* the size of the partition */
    uint64_t evicted;      /* its keys evicted, with less than their full quota */
    uint64_t refused;      /* its new keys refused under WEIR_REFUSE */
} weir_partition_stats;

/* Returns the number of partitions, 0..WEIR_PARTITIONS_MAX, and writes the statistics of up to
 * `max` of them, sorted by name. weir_store_stats_get() includes them in its sums. */
size_t weir_store_partitions(weir_store *s, weir_partition_stats *ret, size_t max);

/* Reports whether the store's file is still at its path. Call it about once a second while the
 * store is open. It also creates FILE.lock again if that was removed. It makes a few system calls.
 * Only one thread at a time may call it; other threads may decide meanwhile. */
weir_file weir_store_watch(weir_store *s);

/* A clock for now_ns. It starts at the time of the wall clock, runs at the rate of CLOCK_BOOTTIME,
 * and is slewed towards the wall clock by at most 500 ppm. A step of the wall clock therefore
 * neither locks keys out nor gives them extra quota, with one exception: if the wall clock is ahead
 * by more than an hour, for example because the machine booted with its clock in 1970, this clock
 * steps forward to it, and keys regain the quota of the skipped time. With a file, the clock
 * continues from the time in the file.
 * Returns 0..WEIR_NOW_NS_MAX. */
int64_t weir_store_now(weir_store *s);

/* A callback for arithmetic other than weir_check() on a state of `p`'s format. `state` is a copy
 * of the key's state, all zero for an idle key. The changed copy is stored if the callback returns
 * WEIR_OK. The callback runs again on a new copy if another thread changed the key meanwhile. So it
 * must change nothing but *state and *ctx, and each run must replace what earlier runs wrote to
 * *ctx. It may run under a lock, so it must be short and must not call a store. */
typedef weir_status (*weir_store_fn)(void *ctx, uint64_t *state, int64_t now_ns);

/* Runs fn on the state of a key. Returns the status of fn; WEIR_E_RANGE for a bad key or time;
 * WEIR_E_NOMEM, see weir_store_check(); WEIR_E_UNSUPPORTED if the policy's states grow. */
WEIR_NODISCARD weir_status weir_store_apply(weir_store *s, const weir_policy *p, uint64_t policy_id,
                                            const void *key, size_t key_len, int64_t now_ns,
                                            weir_store_fn fn, void *ctx);

#if defined(__GNUC__) && !defined(__wasm__)
#pragma GCC visibility pop
#endif
#ifdef __cplusplus
}
#endif

#endif
