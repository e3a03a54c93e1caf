/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_TESTS_CRASH_H
#define WEIR_TESTS_CRASH_H
/* Processes that charge keys in one state file, die at any moment, and leave behind in memory of
 * their parent what they had been answered. Time stands still in all of it, so that charges can be
 * counted: what a key has left is its limit less what was ever charged. */

#include "port/atomic.h"

#include <weir/weir_store.h>

#include <sys/types.h>

enum { CRASH_POLICIES = 5, CRASH_KEYS = 16, CRASH_PROCESSES = 4 };

/* What was charged, in memory that outlives who wrote it. A charge is begun before the store is
 * asked, and answered after. What turns out not to be charged is noted beside them, so that none of
 * the counts ever goes down: they are looked at while others are at work. */
typedef struct crash_record {
    port_counter begun[CRASH_POLICIES][CRASH_KEYS];
    port_counter undone[CRASH_POLICIES]
                       [CRASH_KEYS]; /* of begun, after it was given back or denied */
    port_counter answered[CRASH_POLICIES][CRASH_KEYS];
    port_counter unsure[CRASH_POLICIES][CRASH_KEYS]; /* of answered, before it is given back */
    port_counter calls[CRASH_PROCESSES];
} crash_record;

typedef struct crash {
    const char *program; /* for messages */
    uint64_t random;     /* the state of a generator */
    char dir[64], file[96];
    size_t memory_bytes;
    bool shared;
    crash_record *record;
    weir_policy policy[CRASH_POLICIES];
} crash;

/* Reads "[SECONDS [SEED]]", says the seed, and makes a directory for the file. Ends the program if
 * it cannot.
 *  seconds      how long if nothing is asked for
 *  ret_seconds  how long to go on */
void crash_init(crash *c, int argc, char **argv, int seconds, int *ret_seconds);
void crash_end(crash *c); /* removes the directory */

uint64_t crash_random(crash *c);
uint64_t crash_below(crash *c, uint64_t n); /* 0..n-1 */
int64_t crash_ms(void);                     /* by a clock that nobody sets */

/* Says what is wrong, and ends the program, and with it those that it started. */
_Noreturn void crash_fail(const crash *c, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Opens the store. Returns what it says; the text is in *ret_error. */
weir_status crash_open(const crash *c, weir_store **ret, weir_store_error *ret_error);

/* When a process ends; all zero: when somebody kills it. */
typedef struct crash_when {
    uint64_t
        calls;   /* after so many calls of one of its threads, wherever the others are then ... */
    uint64_t us; /* ... or so long after it was started, wherever it is then */
} crash_when;

/* Starts a process that opens the store and charges keys in threads, until it is killed.
 *  i  0..CRASH_PROCESSES - 1: where it counts its calls. */
pid_t crash_start(crash *c, unsigned i, unsigned threads, crash_when when);

/* Waits until it is killed; fails if it ends in another way. */
void crash_wait(crash *c, pid_t pid);

/* Waits until process i has made so many calls more; fails if it has ended, or if that takes half a
 * minute. */
void crash_await(crash *c, pid_t pid, unsigned i, uint64_t calls);

void crash_kill(crash *c, pid_t pid);

/* Runs fn in a process of its own and waits for it; fails if that crashes. Returns its status. */
int crash_apart(crash *c, int (*fn)(crash *c));

/* Holds each key against the record: at least what was answered is charged, and no more than was
 * begun; fails if not.
 *  settle  nobody is at work: what is charged is from here on what was begun and answered, and keys
 *          that have little left are made fresh. */
void crash_verify(crash *c, weir_store *s, bool settle);

/* Forgets what was charged: the file is a new one. */
void crash_forget(crash *c);

#endif
