/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_TESTS_CRASH_H
#define WEIR_TESTS_CRASH_H
/* The kit of the crash tests: processes that charge keys in one state file, or in memory that they
 * share, and are killed at any moment. They record what the store returned to them, in memory of
 * their parent. Time stands still, so charges can be counted: the remaining quota of a key is its
 * limit less all charges. */

#include "port/atomic.h"

#include <weir/weir_store.h>

#include <sys/types.h>

enum { CRASH_POLICIES = 5, CRASH_KEYS = 16, CRASH_PROCESSES = 4 };

/* Charges of a key, as sums that only grow. `begun` grows before a call that charges, `answered`
 * after it. `released` grows before a call that gives units back, `returned` after it; a denied
 * charge counts as returned. So at any time at least answered - released is charged, and at most
 * begun - returned. */
typedef struct crash_sums {
    port_counter begun, answered, released, returned;
} crash_sums;

/* In memory that survives the processes. */
typedef struct crash_record {
    crash_sums sums[CRASH_POLICIES][CRASH_KEYS];
    port_counter calls[CRASH_PROCESSES];
} crash_record;

typedef struct crash {
    const char *program; /* for messages */
    uint64_t random;     /* the state of the random generator */
    char dir[64], file[96];
    size_t memory_bytes;
    bool shared;
    void *memory; /* of memory_bytes bytes, in the place of the file; NULL: the file */
    crash_record *record;
    weir_policy policy[CRASH_POLICIES];
} crash;

/* Parses "[SECONDS [SEED]]", prints the seed, and creates a directory for the file. Exits if that
 * fails.
 *  seconds      the default
 *  ret_seconds  how long to run */
void crash_init(crash *c, int argc, char **argv, int seconds, int *ret_seconds);
void crash_end(crash *c); /* removes the directory */

uint64_t crash_random(crash *c);
uint64_t crash_below(crash *c, uint64_t n); /* 0..n-1 */
int64_t crash_ms(void);                     /* monotonic */

/* Prints a message and exits. The child processes end with this one. */
_Noreturn void crash_fail(const crash *c, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Opens the store. Returns its status; the message is in *ret_error. */
weir_status crash_open(const crash *c, weir_store **ret, weir_store_error *ret_error);

/* When a process kills itself; all zero: never. */
typedef struct crash_when {
    uint64_t calls; /* after this many calls of its first thread; the others may be anywhere */
    uint64_t us;    /* or this many microseconds after its start */
} crash_when;

/* Starts a process that opens the store and charges keys in threads until it is killed.
 *  i  0..CRASH_PROCESSES - 1: the index of its counter of calls. */
pid_t crash_start(crash *c, unsigned i, unsigned threads, crash_when when);

/* Waits until a process is killed. Fails if it ends in another way. */
void crash_wait(crash *c, pid_t pid);

/* Waits until process i has made `calls` more calls. Fails if the process ends, or after half a
 * minute. */
void crash_await(crash *c, pid_t pid, unsigned i, uint64_t calls);

void crash_kill(crash *c, pid_t pid);

/* Runs fn in a child process and waits for it. Returns the result of fn. Fails if the child
 * crashes. */
int crash_apart(crash *c, int (*fn)(crash *c));

/* Checks each key against the record: at least what was answered is charged, and at most what was
 * begun. Fails otherwise.
 *  update  no process is running. What is charged now becomes the record's value, and keys with
 *          little quota left are reset. */
void crash_verify(crash *c, weir_store *s, bool update);

/* Clears the record, for a new file. */
void crash_clear(crash *c);

#endif
