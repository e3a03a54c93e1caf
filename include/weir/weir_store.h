/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_WEIR_STORE_H
#define WEIR_WEIR_STORE_H
/* Many keys: a store holds the state of every key that is not fresh, and decides atomically.
 *
 *     weir_store *s;
 *     weir_store_open(&s, NULL);
 *     uint64_t id = weir_store_policy_id(s, &p);
 *     if (weir_store_check(s, &p, id, "alice", 5, now_ns, 1, &d) == WEIR_OK && d.allowed) ...
 *
 * Keys are kept as a keyed 64-bit hash, never as text: with n live keys the chance that any two
 * share a state is about n*n / 2^65 (1 in 37 million for a million keys). All functions but open
 * and close may be called from any thread at once. A store belongs to the process that opened it:
 * a child made by fork() must neither use nor close it, but may open one of its own.
 *
 * Time never goes back in a store by as much as a millisecond: the store's time is the latest now
 * that it was given, or up to 1 ms before that, and an earlier now is read as the store's time.
 * Within that millisecond the guarantee of weir_check() applies: an earlier now makes the answer
 * stricter, never looser.
 *
 * Memory is a budget that never grows, in three parts. States of a fixed size of up to 5 words lie
 * in a table, which is mapped at once and takes real memory as it fills: those of gcra, buckets and
 * queues, fixed windows and sliding counters, a few of them in layers, sliding logs of up to 2
 * requests and up to 6 slices. It reads without locks: a denial or a peek writes no memory that
 * threads share, but for the store's time, at most once a millisecond. All other states, the large
 * ones and those that grow, have `large_bytes` together. One sixteenth of the remainder, at most
 * 4.5 MiB, is set aside for reservations. Entries that are fresh again are reused. If no slot is
 * free, keys are evicted: in the table, the key closest to fresh in the key's two buckets.
 * `evicted` counts them. With WEIR_REFUSE, new keys are refused instead.
 *
 * The memory may be a file. Then a process may end at any instruction: what it has answered is
 * there at the next opening. Opening takes the same time for any number of keys. `sync` says what a
 * power failure may lose. The file is locked while it is open, also by a child made by fork() until
 * it ends or calls exec(). Several processes may open it at once if all set `shared`. A second
 * lock, on the empty file FILE.lock, prevents another process from creating a new file at the path
 * if FILE was moved or deleted while in use. */

#include <weir/weir.h>

#ifdef __cplusplus
extern "C" {
#endif
#if defined(__GNUC__) && !defined(__wasm__)
#pragma GCC visibility push(default)
#endif

#define WEIR_KEY_MAX 65536 /* bytes of a key: 1..WEIR_KEY_MAX */

typedef struct weir_store weir_store;

/* ---- opening --------------------------------------------------------------------------------- */

/* When writes reach the disk. A killed process loses nothing in any mode; the modes differ in what
 * a power failure loses. */
typedef enum weir_sync {
    WEIR_SYNC_NEVER,  /* whatever the kernel has not flushed, by default up to about 30 s */
    WEIR_SYNC_SECOND, /* about the last second */
    WEIR_SYNC_ALWAYS  /* nothing that was answered: each call waits for the disk */
} weir_sync;

typedef enum weir_when_full {
    WEIR_EVICT, /* evict the key that is closest to fresh */
    WEIR_REFUSE /* WEIR_E_FULL for keys that are not there yet */
} weir_when_full;

typedef struct weir_store_error {
    char text[256]; /* one line: what is wrong and what helps */
} weir_store_error;

/* What became of a file's state since it was last in use. */
typedef enum weir_found {
    WEIR_FOUND_NOTHING,    /* in memory, or a file that is new or was reset */
    WEIR_FOUND_CLOSED,     /* closed as it should be: all is there */
    WEIR_FOUND_KILLED,     /* a process ended without closing it: all is there */
    WEIR_FOUND_POWER_LOSS, /* so did the machine: what `sync` allows may be missing */
    WEIR_FOUND_OPEN        /* others have it open now */
} weir_found;

/* Where the file of a store is now. */
typedef enum weir_file {
    WEIR_FILE_IN_PLACE, /* at the path it was opened at; also a store in memory */
    WEIR_FILE_REMOVED,  /* the file was deleted: its states are lost when this store closes */
    WEIR_FILE_MOVED,    /* nothing is at the path, but the file has another name */
    WEIR_FILE_REPLACED, /* another file is at the path */
    WEIR_FILE_SHORTENED /* truncated: access to the missing part raises SIGBUS */
} weir_file;

typedef struct weir_store_opened {
    weir_found found;
    int64_t written_ns; /* about when it was last written, in ns since the epoch; 0: never */
} weir_store_opened;

typedef struct weir_store_options {
    size_t memory_bytes;   /* 0: 256 MiB. What the keys' states may take, at least 1 MiB; in a file
                              8 MiB, and 6 MiB that are not for large states */
    const uint8_t *secret; /* 16 bytes for the hash; NULL: random, or the file's own. To be given in
                              tests, and to make a file that takes in the states of another */
    size_t large_bytes;    /* of memory_bytes, what is for large states: 64 KiB at least, and at
                              least 64 KiB less than all; 0: a quarter */
    const char *file;      /* where the state lives; made if it is not there. NULL: in memory */
    weir_sync sync;        /* of a file; if not given, WEIR_SYNC_NEVER */
    weir_when_full when_full; /* if not given, WEIR_EVICT */
    bool shared;       /* other processes may open the file too, if all of them set `shared` */
    bool reset;        /* start with an empty file, replacing what was there; fails with WEIR_E_BUSY
                          if the file is in use */
    bool read_only;    /* the file is mapped privately and never written: changes stay in this
                          process. It must exist and must not be in use */
    bool trust_others; /* accept a file that another user owns or that is group- or world-writable;
                          otherwise such a file is refused */
    const weir_zones *zones;     /* for the policies a file knows by their text; NULL: UTC alone */
    weir_store_error *ret_error; /* may be NULL; written if opening fails */
    weir_store_opened *ret_opened; /* may be NULL; written once the store is open */
} weir_store_options;

typedef struct weir_store_stats {
    uint64_t keys;         /* held now, fresh ones that were not yet dropped included */
    uint64_t memory_bytes; /* taken by them */
    uint64_t evicted;      /* live keys that were evicted because the memory was full */
    uint64_t memory_max;   /* what memory_bytes may come to: the options' memory_bytes */
    uint64_t large_keys;   /* of keys, those with large states ... */
    uint64_t large_bytes;  /* ... and of memory_bytes */
    uint64_t large_max;    /* what large_bytes may come to */
    uint64_t refused;      /* small states of new keys that found no room, under WEIR_REFUSE */
    uint64_t damaged;      /* entries of a file that were not whole, and were thrown away */
    uint64_t reserved;     /* reservations that are open */
    uint64_t syncs_failed; /* since the opening: what was to be on the disk may not be there */
} weir_store_stats;

/* Creates an empty store, or opens the one in `file`. options NULL: all defaults, in memory. If the
 * file has other sizes than requested, its states move to a new file. *ret is written on WEIR_OK
 * only.
 * Returns WEIR_OK; WEIR_E_NOMEM; WEIR_E_RANGE (memory_bytes, large_bytes, or another secret than
 * the file's); WEIR_E_IO (no random bytes, a system error, or the file has another owner or is
 * writable by other users); WEIR_E_BUSY if another process uses the file, uses a moved or deleted
 * file that was at this path, or prevents a size change; WEIR_E_SYNTAX if the file is damaged, has
 * another version, or is not a state file of weir. */
WEIR_NODISCARD weir_status weir_store_open(weir_store **ret, const weir_store_options *options);

/* Syncs the file, whatever `sync` is, marks it as cleanly closed, and frees the store. Exiting
 * without closing loses only the clean-shutdown mark. Accepts NULL. No other call may be
 * running. */
void weir_store_close(weir_store *s);

/* What a policy's states are filed under: equal for equal canonical texts, else different. */
uint64_t weir_store_policy_id(const weir_store *s, const weir_policy *p);

/* ---- one key --------------------------------------------------------------------------------- */

/* Decides for one key and charges it; see weir_check().
 *  policy_id  weir_store_policy_id(s, p).
 *  key        key_len bytes, 1..WEIR_KEY_MAX, of any value.
 *  ret        written on WEIR_OK only.
 * Returns WEIR_OK; WEIR_E_RANGE for a bad key, time or cost; WEIR_E_NOMEM if a large state does not
 * fit in the memory even after eviction; WEIR_E_FULL if the key is new, and there is no room, under
 * WEIR_REFUSE. On any but WEIR_OK nothing was charged. */
WEIR_NODISCARD weir_status weir_store_check(weir_store *s, const weir_policy *p, uint64_t policy_id,
                                            const void *key, size_t key_len, int64_t now_ns,
                                            int64_t cost, weir_decision *ret);

/* Says what weir_store_check() would decide, and charges nothing; see weir_peek(). */
WEIR_NODISCARD weir_status weir_store_peek(weir_store *s, const weir_policy *p, uint64_t policy_id,
                                           const void *key, size_t key_len, int64_t now_ns,
                                           int64_t cost, weir_decision *ret);

/* Gives back units; see weir_refund(). Returns also WEIR_E_UNSUPPORTED. */
WEIR_NODISCARD weir_status weir_store_refund(weir_store *s, const weir_policy *p,
                                             uint64_t policy_id, const void *key, size_t key_len,
                                             int64_t now_ns, int64_t cost, weir_decision *ret);

/* Makes a key fresh. Returns WEIR_OK, also if it was; WEIR_E_RANGE for a bad key. */
WEIR_NODISCARD weir_status weir_store_reset(weir_store *s, uint64_t policy_id, const void *key,
                                            size_t key_len);

/* ---- several keys ---------------------------------------------------------------------------- */

/* What weir_store_check() would be asked about one of several, and what it answers. */
typedef struct weir_store_request {
    const weir_policy *policy;
    uint64_t policy_id;
    const void *key;
    size_t key_len;
    int64_t cost;
    weir_status status;     /* out */
    weir_decision decision; /* out, if the status is WEIR_OK */
} weir_store_request;

/* Decides n requests, in order, as that many calls of weir_store_check() at now_ns would, but sees
 * to it that their states are on the way from memory before the first is needed. Requests of one
 * batch may be about the same key. */
void weir_store_check_batch(weir_store *s, weir_store_request *requests, size_t n, int64_t now_ns);

#define WEIR_TAKE_MANY_MAX 16

/* Decides n requests as one: either all are allowed, and then all are charged; or one is denied,
 * and then nothing is written, not even a denial that a policy counts. No other call sees some of
 * them charged and others not. The same key may be in several of them, and is then held to the sum.
 * A process that is killed in the middle of it may leave some of them charged in its file, and
 * others not: nobody was answered then.
 *  n             1..WEIR_TAKE_MANY_MAX.
 *  requests      the statuses are always written; the decisions are written on WEIR_OK: the
 *                charged ones, or, on a denial, what each request alone would have got.
 *  ret_blocking  n if all are allowed; else the index of the denying request with the longest
 *                wait. Ties go to the latest reset. Written on WEIR_OK only.
 * Returns WEIR_OK; else the first status of a request that is not WEIR_OK, as weir_store_check()
 * has them, with nothing charged; WEIR_E_RANGE for a bad n, with nothing written. */
WEIR_NODISCARD weir_status weir_store_take_many(weir_store *s, weir_store_request *requests,
                                                size_t n, int64_t now_ns, size_t *ret_blocking);

/* ---- what is only known afterwards ----------------------------------------------------------- */

/* Reserves `cost` units before the real cost is known: bytes of an upload, tokens of an answer.
 * weir_store_commit() charges the real cost, weir_store_cancel() returns all units, and at now_ns +
 * ttl_ns the store returns them itself: a later decision about the key finds the units there. A
 * reservation survives with the file. Only units that still count are returned: a window that has
 * ended took its charge with it.
 *  ttl_ns   1..WEIR_SPAN_NS_MAX.
 *  ret      as weir_store_check(); a denial reserves nothing.
 *  ret_id   written if allowed; never 0, and not to be guessed.
 * Returns also WEIR_E_UNSUPPORTED for policies that weir_refund() cannot serve; WEIR_E_FULL if as
 * many are open as the store holds: 65536 if the part for them has its 4.5 MiB, else one for each
 * 72 bytes of it. */
WEIR_NODISCARD weir_status weir_store_reserve(weir_store *s, const weir_policy *p,
                                              uint64_t policy_id, const void *key, size_t key_len,
                                              int64_t now_ns, int64_t cost, int64_t ttl_ns,
                                              weir_decision *ret, uint64_t *ret_id);

/* Settles a reservation: gives back what was not used, or charges what is beyond it, as much of
 * that as the policy allows now.
 *  actual   0..WEIR_COST_MAX.
 *  ret      the figures afterwards, as of a peek.
 *  ret_over the units that could not be charged.
 * Returns WEIR_OK; WEIR_E_ABSENT if there is none of that id, or none any more; WEIR_E_RANGE. */
WEIR_NODISCARD weir_status weir_store_commit(weir_store *s, uint64_t id, int64_t now_ns,
                                             int64_t actual, weir_decision *ret, int64_t *ret_over);

/* Gives all of a reservation back. As weir_store_commit() with an actual of 0. */
WEIR_NODISCARD weir_status weir_store_cancel(weir_store *s, uint64_t id, int64_t now_ns,
                                             weir_decision *ret);

/* ---- the rest -------------------------------------------------------------------------------- */

/* All as of about now. It may wait for a lock, but for no disk. */
weir_store_stats weir_store_stats_get(weir_store *s);

/* Reports whether the store's file is still at its path. Call it about once a second while the
 * store is open. It also recreates FILE.lock if that was removed. It makes a few system calls. One
 * thread at a time; other threads may decide meanwhile. */
weir_file weir_store_watch(weir_store *s);

/* A clock for now_ns. It starts at the wall clock, runs at the rate of CLOCK_BOOTTIME, and is
 * slewed towards the wall clock by at most 500 ppm. So setting the wall clock neither locks a key
 * out nor hands out quota. With a file, it continues from the file's time.
 * Returns 0..WEIR_NOW_NS_MAX. */
int64_t weir_store_now(weir_store *s);

/* For arithmetic other than weir_check() on a state of `p`'s format. `state` is a copy of the
 * key's, all zero if it was fresh; what the function changes it to is kept if it returns WEIR_OK.
 * If another thread was faster it runs again for the same call, on a new copy: it must be pure but
 * for *state and what it leaves in ctx, of which the last run counts. It may run under a lock: it
 * must be short and call no store. */
typedef weir_status (*weir_store_fn)(void *ctx, uint64_t *state, int64_t now_ns);

/* Runs fn on the state of a key. Returns what fn does; WEIR_E_RANGE for a bad key or time;
 * WEIR_E_NOMEM as weir_store_check(); WEIR_E_UNSUPPORTED if states of `p` grow. */
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
