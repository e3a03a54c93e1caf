/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_PORT_PORT_H
#define WEIR_PORT_PORT_H
/* What weir uses of the operating system and the C library: clocks, memory, locks, threads, random
 * numbers, files. No other module reads a clock, takes a lock, or allocates for a store by itself.
 * port/file.h has the state file, and net/ has the sockets. Only these see errno. */

#include <weir/weir.h>

#include "port/atomic.h"

/* ---- clocks ---------------------------------------------------------------------------------- */

/* The wall clock in ns since the Unix epoch, clamped to 0..WEIR_NOW_NS_MAX. Any thread. */
int64_t port_now_ns(void);

/* The monotonic clock in ns, for deadlines and rates. It is never stepped. Any thread. */
int64_t port_steady_ns(void);

/* The time since the machine was booted in ns, 0..WEIR_NOW_NS_MAX. It is never stepped, and
 * includes the time that the machine was suspended. Any thread. */
int64_t port_boot_ns(void);

/* Both clocks, read at almost the same time. */
typedef struct port_clocks {
    int64_t boot_ns; /* port_boot_ns() */
    int64_t wall_ns; /* port_now_ns() */
} port_clocks;

/* Any thread. */
port_clocks port_clocks_now(void);

/* ---- memory ---------------------------------------------------------------------------------- */

/* Allocates n * size zeroed bytes; NULL if memory is exhausted. Any thread. */
void *port_zalloc(size_t n, size_t size);
void port_free(void *p);

/* Maps `len` zeroed bytes that begin on a page; NULL if memory is exhausted. The system provides
 * memory at the first use of each page, in huge pages if possible. Any thread. */
void *port_map(size_t len);
void port_unmap(void *p, size_t len); /* accepts NULL */

/* ---- locks ----------------------------------------------------------------------------------- */

typedef struct port_mutex port_mutex;

/* Returns NULL if the system's resources are exhausted. */
port_mutex *port_mutex_new(void);
void port_mutex_free(port_mutex *m); /* accepts NULL */
void port_mutex_lock(port_mutex *m);
void port_mutex_unlock(port_mutex *m);

/* Lets other threads run: for a spin loop that has run long enough. */
void port_yield(void);

/* The same, for a thread that has waited long: sleeps for about a millisecond. */
void port_nap(void);

/* A condition variable. */
typedef struct port_cond port_cond;

/* Returns NULL if the system's resources are exhausted. */
port_cond *port_cond_new(void);
void port_cond_free(port_cond *c);                /* accepts NULL; no thread may wait */
void port_cond_wait(port_cond *c, port_mutex *m); /* may return without a wake: check again */
/* The same, for at most `ns`. */
void port_cond_wait_for(port_cond *c, port_mutex *m, int64_t ns);
void port_cond_wake(port_cond *c); /* wakes all threads that wait */

/* ---- threads --------------------------------------------------------------------------------- */

typedef struct port_thread port_thread;

/* Starts a thread that runs fn(arg). It blocks all signals but those of its own faults (SIGBUS,
 * SIGFPE, SIGILL, SIGSEGV). Returns NULL if the system's resources are exhausted. */
port_thread *port_thread_start(void (*fn)(void *arg), void *arg);

/* Waits until the thread has ended, and frees it. Accepts NULL. */
void port_thread_join(port_thread *t);

/* Starts a detached thread, which ends with fn(arg) or with the process. Returns whether it was
 * started. */
bool port_thread_run(void (*fn)(void *arg), void *arg);

/* ---- the presence of processes --------------------------------------------------------------- */

/* A robust mutex with an id, in memory that processes share. A thread holds it to show that it is
 * alive: the kernel releases the mutex when the thread ends in any way, or calls exec(). While it
 * is held, its memory must stay mapped at the same address, because the kernel reads the thread's
 * list of the robust mutexes that it holds. */
typedef struct port_presence {
    port_word id;
    uint64_t os[7];
} port_presence;

/* Initialises *p as not held. Returns false if the system has no robust mutexes. No other thread or
 * process may use *p meanwhile. */
bool port_presence_init(port_presence *p);

/* Takes *p for an id, which is not 0. Returns false if another thread holds it. Only the thread
 * that took *p may release it. A process that sees a later store of it also sees *p held. */
bool port_presence_take(port_presence *p, uint64_t id);
void port_presence_release(port_presence *p);

/* Whether *p is held for this id. May still return true just after a release. Any thread of any
 * process. */
bool port_presence_is_held(port_presence *p, uint64_t id);

/* ---- random ---------------------------------------------------------------------------------- */

/* Fills buf with cryptographically secure random bytes. Returns WEIR_OK or WEIR_E_IO. */
WEIR_NODISCARD weir_status port_random(void *buf, size_t len);

/* ---- files ----------------------------------------------------------------------------------- */

/* Reads a whole regular file.
 *  max      bytes; a larger file is WEIR_E_RANGE.
 *  ret_buf  to be freed by port_free(); written on WEIR_OK only, as is *ret_len.
 * Returns WEIR_OK; WEIR_E_IO if it cannot be opened or read; WEIR_E_RANGE; WEIR_E_NOMEM. */
WEIR_NODISCARD weir_status port_read_file(const char *path, size_t max, uint8_t **ret_buf,
                                          size_t *ret_len);

#endif
