/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_PORT_PORT_H
#define WEIR_PORT_PORT_H
/* Everything weir asks of the operating system and the C library on its own account, on one page.
 * No other room reads a clock, takes a lock, allocates for a store, or opens a file by itself
 * (net/ makes sockets itself, and has libuv). errno stops here, and at those sockets. */

#include <weir/weir.h>

/* ---- time ------------------------------------------------------------------------------------ */

/* The wall clock in ns since the Unix epoch, clamped to 0..WEIR_NOW_NS_MAX. Any thread. */
int64_t port_now_ns(void);

/* A clock that nobody sets, in ns since some moment: for deadlines and rates. Any thread. */
int64_t port_steady_ns(void);

/* Both ways to tell the time, looked at as good as at once. */
typedef struct port_clocks {
    int64_t boot_ns; /* as port_boot_ns() */
    int64_t wall_ns; /* as port_now_ns() */
} port_clocks;

/* Since the machine was started, in ns, 0..WEIR_NOW_NS_MAX. Nobody sets it, and it goes on while
 * the machine sleeps. Any thread. */
int64_t port_boot_ns(void);

/* Any thread. */
port_clocks port_clocks_now(void);

/* ---- processors ------------------------------------------------------------------------------ */

/* How many this process may run on, 1 or more. Any thread. */
unsigned port_cores(void);

/* ---- memory ---------------------------------------------------------------------------------- */

/* n * size zeroed bytes, or NULL. Any thread. */
void *port_zalloc(size_t n, size_t size);
void port_free(void *p);

/* `len` zeroed bytes that begin on a page, or NULL. They take real memory from their first use on,
 * in large pages where the system has them. Any thread. */
void *port_map(size_t len);
void port_unmap(void *p, size_t len); /* accepts NULL */

/* ---- locks ----------------------------------------------------------------------------------- */

typedef struct port_mutex port_mutex;

/* NULL if the system has none left. */
port_mutex *port_mutex_new(void);
void port_mutex_free(port_mutex *m); /* accepts NULL */
void port_mutex_lock(port_mutex *m);
bool port_mutex_trylock(port_mutex *m); /* false if somebody holds it */
void port_mutex_unlock(port_mutex *m);

/* Lets other threads run: for one that has waited long enough for a word to change. */
void port_yield(void);

/* Where threads wait, with a mutex held, for what others do with it held. */
typedef struct port_cond port_cond;

/* NULL if the system has none left. */
port_cond *port_cond_new(void);
void port_cond_free(port_cond *c);                /* accepts NULL; nobody waits there */
void port_cond_wait(port_cond *c, port_mutex *m); /* may end with no call: look again */
/* The same, but not for longer than `ns`. */
void port_cond_wait_for(port_cond *c, port_mutex *m, int64_t ns);
void port_cond_wake(port_cond *c); /* all who wait */

/* ---- threads --------------------------------------------------------------------------------- */

typedef struct port_thread port_thread;

/* Starts a thread that runs fn(arg). Signals go to the other threads, but for those of the thread's
 * own faults (SIGBUS, SIGFPE, SIGILL, SIGSEGV). NULL if the system has none left. */
port_thread *port_thread_start(void (*fn)(void *arg), void *arg);

/* Waits until it has ended. Accepts NULL. */
void port_thread_join(port_thread *t);

/* Starts a detached thread, which is not joined: it ends with fn(arg) or with the process. Returns
 * whether it was started. */
bool port_thread_run(void (*fn)(void *arg), void *arg);

/* ---- random ---------------------------------------------------------------------------------- */

/* Fills buf with bytes nobody can guess. Returns WEIR_OK or WEIR_E_IO. */
WEIR_NODISCARD weir_status port_random(void *buf, size_t len);

/* ---- files ----------------------------------------------------------------------------------- */

/* Reads a whole regular file.
 *  max      bytes; a larger file is WEIR_E_RANGE.
 *  ret_buf  to be given to port_free(); written on WEIR_OK only, as is *ret_len.
 * Returns WEIR_OK; WEIR_E_IO if it cannot be opened or read; WEIR_E_RANGE; WEIR_E_NOMEM. */
WEIR_NODISCARD weir_status port_read_file(const char *path, size_t max, uint8_t **ret_buf,
                                          size_t *ret_len);

#endif
