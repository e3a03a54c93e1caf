/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* A library for LD_PRELOAD: the process reads its wall clock, and the time since boot, from the
 * file $FAKE_CLOCK: an int64_t in ns. All other clocks are real. */
#define _GNU_SOURCE

#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static const volatile int64_t *fake_ns;

__attribute__((constructor)) static void map_clock(void)
{
    int file = open(getenv("FAKE_CLOCK"), O_RDONLY | O_CLOEXEC);
    void *page = mmap(NULL, sizeof *fake_ns, PROT_READ, MAP_SHARED, file, 0);
    if (file < 0 || page == MAP_FAILED)
        _exit(127);
    fake_ns = page;
}

int clock_gettime(clockid_t clock, struct timespec *ret)
{
    if (clock != CLOCK_REALTIME && clock != CLOCK_BOOTTIME)
        return (int)syscall(SYS_clock_gettime, clock, ret);
    int64_t now_ns = *fake_ns;
    *ret = (struct timespec){.tv_sec = now_ns / 1000000000, .tv_nsec = now_ns % 1000000000};
    return 0;
}
