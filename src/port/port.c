/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* The operating system, by POSIX and Linux. */

#define _GNU_SOURCE /* getentropy, madvise */

#include "port/port.h"

#include "port/assert.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/random.h> /* getentropy() of macOS */
#include <time.h>
#include <unistd.h>

#include "port/system.h"

static int64_t read_clock(clockid_t clock)
{
    struct timespec t;
    if (clock_gettime(clock, &t) != 0 || t.tv_sec < 0)
        return 0;
    if (t.tv_sec >= WEIR_NOW_NS_MAX / 1000000000)
        return WEIR_NOW_NS_MAX;
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

int64_t port_now_ns(void)
{
    return read_clock(CLOCK_REALTIME);
}

int64_t port_boot_ns(void)
{
    return read_clock(CLOCK_BOOTTIME);
}

/* The best of three tries, since the thread may be preempted between the two readings. */
port_clocks port_clocks_now(void)
{
    port_clocks best = {0, 0};
    int64_t best_ns = INT64_MAX;
    for (int i = 0; i < 3; i++) {
        int64_t before_ns = port_boot_ns();
        int64_t wall_ns = port_now_ns();
        int64_t took_ns = port_boot_ns() - before_ns;
        if (took_ns < best_ns) {
            best = (port_clocks){before_ns + took_ns / 2, wall_ns};
            best_ns = took_ns;
        }
    }
    return best;
}

int64_t port_steady_ns(void)
{
    return read_clock(CLOCK_MONOTONIC);
}

void *port_zalloc(size_t n, size_t size)
{
    WEIR_ASSERT(n > 0 && size > 0);
    return calloc(n, size);
}

void port_free(void *p)
{
    free(p);
}

void *port_map(size_t len)
{
    void *p =
        mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (p == MAP_FAILED)
        return NULL;
    (void)madvise(p, len, MADV_HUGEPAGE); /* a hint: small pages work too, but slower */
    return p;
}

void port_unmap(void *p, size_t len)
{
    if (p)
        munmap(p, len);
}

struct port_mutex {
    pthread_mutex_t os;
};

/* With assertions, locking twice and unlocking what another thread holds are errors. */
static bool init_mutex(pthread_mutex_t *m)
{
    pthread_mutexattr_t attr;
    if (pthread_mutexattr_init(&attr) != 0)
        return false;
#ifdef WEIR_ASSERTS
    pthread_mutexattr_settype(&attr, PTHREAD_MUTEX_ERRORCHECK);
#endif
    bool good = pthread_mutex_init(m, &attr) == 0;
    pthread_mutexattr_destroy(&attr);
    return good;
}

port_mutex *port_mutex_new(void)
{
    port_mutex *m = malloc(sizeof *m);
    if (m && !init_mutex(&m->os)) {
        free(m);
        return NULL;
    }
    return m;
}

void port_mutex_free(port_mutex *m)
{
    int err = m ? pthread_mutex_destroy(&m->os) : 0;
    WEIR_ASSERT(err == 0); /* no thread has the lock */
    (void)err;
    free(m);
}

void port_mutex_lock(port_mutex *m)
{
    int err = pthread_mutex_lock(&m->os);
    WEIR_ASSERT(err == 0); /* the thread does not have the lock */
    (void)err;
}

void port_mutex_unlock(port_mutex *m)
{
    int err = pthread_mutex_unlock(&m->os);
    WEIR_ASSERT(err == 0); /* the thread has the lock */
    (void)err;
}

void port_yield(void)
{
    sched_yield();
}

void port_nap(void)
{
    nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
}

/* ---- the presence of processes --------------------------------------------------------------- */

#if PORT_LINUX
_Static_assert(sizeof(pthread_mutex_t) <= sizeof((port_presence *)0)->os, "there is space");
_Static_assert(_Alignof(pthread_mutex_t) <= _Alignof(uint64_t), "it is aligned");

static pthread_mutex_t *mutex_of(port_presence *p)
{
    return (pthread_mutex_t *)(void *)p->os;
}

bool port_presence_init(port_presence *p)
{
    pthread_mutexattr_t attr;
    if (pthread_mutexattr_init(&attr) != 0)
        return false;
    port_word_store_relaxed(&p->id, 0);
    bool good = pthread_mutexattr_setpshared(&attr, PTHREAD_PROCESS_SHARED) == 0 &&
                pthread_mutexattr_setrobust(&attr, PTHREAD_MUTEX_ROBUST) == 0 &&
                pthread_mutex_init(mutex_of(p), &attr) == 0;
    pthread_mutexattr_destroy(&attr);
    return good;
}

/* Locks the mutex if no living thread holds it. */
static bool try_lock(port_presence *p)
{
    int err = pthread_mutex_trylock(mutex_of(p));
    if (err == EOWNERDEAD)
        err = pthread_mutex_consistent(mutex_of(p));
    return err == 0;
}

bool port_presence_take(port_presence *p, uint64_t id)
{
    WEIR_ASSERT(id != 0);
    if (!try_lock(p))
        return false;
    port_word_store_relaxed(&p->id, id);
    /* A process that finds the id elsewhere, in the lock of a bucket, also finds it here. */
    port_stores_in_order();
    return true;
}

void port_presence_release(port_presence *p)
{
    port_word_store_relaxed(&p->id, 0);
    int err = pthread_mutex_unlock(mutex_of(p));
    WEIR_ASSERT(err == 0); /* this thread has the lock */
    (void)err;
}

bool port_presence_is_held(port_presence *p, uint64_t id)
{
    /* The caller computed the address of `p` from the id, so this load is made after that of the
     * id. */
    if (port_word_load_acquire(&p->id) != id)
        return false;
    if (!try_lock(p))
        return true;
    pthread_mutex_unlock(mutex_of(p));
    return false;
}

#else
/* Without robust mutexes: memory cannot be shared, because its opening fails. */
bool port_presence_init(port_presence *p)
{
    (void)p;
    return false;
}

bool port_presence_take(port_presence *p, uint64_t id)
{
    (void)p, (void)id;
    return false;
}

void port_presence_release(port_presence *p)
{
    (void)p;
}

bool port_presence_is_held(port_presence *p, uint64_t id)
{
    (void)p, (void)id;
    return true;
}
#endif

/* ---- condition variables --------------------------------------------------------------------- */

struct port_cond {
    pthread_cond_t os;
};

static struct timespec timespec_of(int64_t ns)
{
    return (struct timespec){.tv_sec = ns / 1000000000, .tv_nsec = ns % 1000000000};
}

#ifdef __APPLE__ /* has no pthread_condattr_setclock(), but waits for a span of time */
static int set_steady(pthread_condattr_t *attr)
{
    (void)attr;
    return 0;
}

static int wait_for(port_cond *c, port_mutex *m, int64_t ns)
{
    const struct timespec span = timespec_of(ns);
    return pthread_cond_timedwait_relative_np(&c->os, &m->os, &span);
}
#else
static int set_steady(pthread_condattr_t *attr)
{
    return pthread_condattr_setclock(attr, CLOCK_MONOTONIC);
}

static int wait_for(port_cond *c, port_mutex *m, int64_t ns)
{
    const struct timespec until = timespec_of(port_steady_ns() + ns);
    return pthread_cond_timedwait(&c->os, &m->os, &until);
}
#endif

port_cond *port_cond_new(void)
{
    port_cond *c = malloc(sizeof *c);
    pthread_condattr_t steady; /* by the monotonic clock */
    if (!c || pthread_condattr_init(&steady) != 0) {
        free(c);
        return NULL;
    }
    bool good = set_steady(&steady) == 0 && pthread_cond_init(&c->os, &steady) == 0;
    pthread_condattr_destroy(&steady);
    if (!good) {
        free(c);
        return NULL;
    }
    return c;
}

void port_cond_free(port_cond *c)
{
    if (c)
        pthread_cond_destroy(&c->os);
    free(c);
}

void port_cond_wait(port_cond *c, port_mutex *m)
{
    int err = pthread_cond_wait(&c->os, &m->os);
    WEIR_ASSERT(err == 0); /* the thread has the lock */
    (void)err;
}

void port_cond_wait_for(port_cond *c, port_mutex *m, int64_t ns)
{
    WEIR_ASSERT(ns >= 0);
    int err = wait_for(c, m, ns);
    WEIR_ASSERT(err == 0 || err == ETIMEDOUT);
    (void)err;
}

void port_cond_wake(port_cond *c)
{
    pthread_cond_broadcast(&c->os);
}

struct port_thread {
    pthread_t os;
    void (*fn)(void *arg);
    void *arg;
};

static void *joined_main(void *arg)
{
    port_thread *t = arg;
    t->fn(t->arg);
    return NULL;
}

/* The thread frees *arg, since no other thread joins it. */
static void *detached_main(void *arg)
{
    port_thread t = *(port_thread *)arg;
    free(arg);
    pthread_detach(pthread_self());
    t.fn(t.arg);
    return NULL;
}

static port_thread *start(void *(*run)(void *arg), void (*fn)(void *arg), void *arg)
{
    port_thread *t = malloc(sizeof *t);
    pthread_t os;
    if (!t)
        return NULL;
    t->fn = fn;
    t->arg = arg;
    sigset_t all, before; /* a new thread inherits the signal mask */
    sigfillset(&all);
    /* Do not block faults: a blocked fault kills the process without calling its handler. */
    static const int faults[] = {SIGBUS, SIGFPE, SIGILL, SIGSEGV};
    for (size_t i = 0; i < sizeof faults / sizeof faults[0]; i++)
        sigdelset(&all, faults[i]);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int err = pthread_create(&os, NULL, run, t);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (err != 0) {
        free(t);
        return NULL;
    }
    if (run == joined_main)
        t->os = os;
    return t;
}

port_thread *port_thread_start(void (*fn)(void *arg), void *arg)
{
    return start(joined_main, fn, arg);
}

bool port_thread_run(void (*fn)(void *arg), void *arg)
{
    return start(detached_main, fn, arg) != NULL;
}

void port_thread_join(port_thread *t)
{
    if (t)
        pthread_join(t->os, NULL);
    free(t);
}

weir_status port_random(void *buf, size_t len)
{
    enum { ONCE = 256 }; /* the most that getentropy() gives */
    unsigned char *at = buf;
    while (len > 0) {
        size_t n = len < ONCE ? len : ONCE;
        if (getentropy(at, n) != 0)
            return WEIR_E_IO;
        at += n;
        len -= n;
    }
    return WEIR_OK;
}

/* Reads more than max bytes if the file has them, to detect that it is too large. */
static weir_status read_all(FILE *f, size_t max, uint8_t **ret_buf, size_t *ret_len)
{
    size_t cap = 4096, len = 0;
    uint8_t *buf = malloc(cap);
    while (buf) {
        len += fread(buf + len, 1, cap - len, f);
        if (len < cap || len > max)
            break;
        uint8_t *more = realloc(buf, cap *= 2);
        if (!more)
            free(buf);
        buf = more;
    }
    if (!buf)
        return WEIR_E_NOMEM;
    if (ferror(f) || len > max) {
        free(buf);
        return len > max ? WEIR_E_RANGE : WEIR_E_IO;
    }
    *ret_buf = buf;
    *ret_len = len;
    return WEIR_OK;
}

weir_status port_read_file(const char *path, size_t max, uint8_t **ret_buf, size_t *ret_len)
{
    FILE *f = fopen(path, "rbe");
    if (!f)
        return WEIR_E_IO;
    weir_status st = read_all(f, max, ret_buf, ret_len);
    fclose(f);
    return st;
}
