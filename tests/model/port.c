/* SPDX-License-Identifier: BSD-2-Clause */
/* The operating system of the simulated processes: no time passes, memory is shared, and locks
 * within a process are free, because each process has one thread. */

#include "port/port.h"

#include "model.h"

#include <stdlib.h>

void *port_zalloc(size_t n, size_t size)
{
    return model_alloc(n * size);
}

void port_free(void *p)
{
    (void)p;
}

port_mutex *port_mutex_new(void)
{
    return model_alloc(1);
}

void port_mutex_free(port_mutex *m)
{
    (void)m;
}

void port_mutex_lock(port_mutex *m)
{
    (void)m;
}

void port_mutex_unlock(port_mutex *m)
{
    (void)m;
}

void port_yield(void)
{
    model_pause();
}

void port_nap(void)
{
    model_pause();
}

int64_t port_steady_ns(void)
{
    return 1000000000;
}

weir_status port_random(void *buf, size_t len)
{
    unsigned char *p = buf;
    for (size_t i = 0; i < len; i++)
        p[i] = (unsigned char)i;
    return WEIR_OK;
}

void port_assert_failed(const char *expression, const char *file, int line)
{
    model_fail(expression, file, line);
    abort();
}

/* assert() of the C library. */
_Noreturn void __assert_fail(const char *expression, const char *file, unsigned line,
                             const char *function);
_Noreturn void __assert_fail(const char *expression, const char *file, unsigned line,
                             const char *function)
{
    (void)function;
    port_assert_failed(expression, file, (int)line);
}
