/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* The server's one clock for us. Of the server's main thread. */

#include "clock.h"

#include "abi.h"
#include "store/clock.h"

static weir_clock ticker;
static weir_moment last;
static long long last_cached_us;

void weir_moment_start(void)
{
    weir_clock_start(&ticker, port_clocks_now(), 0, NULL, 0);
    last_cached_us = -1;
}

weir_moment weir_moment_now(void)
{
    if (redis.CachedMicroseconds) {
        long long cached_us = redis.CachedMicroseconds();
        if (cached_us == last_cached_us)
            return last;
        last_cached_us = cached_us;
    }
    port_clocks at = port_clocks_now();
    if (weir_clock_is_due(&ticker, at.boot_ns))
        weir_clock_tick(&ticker, at);
    int64_t now_ns = weir_clock_time(&ticker, at.boot_ns);
    if (now_ns < last.now_ns) /* the clock creeps back by less than a millisecond */
        now_ns = last.now_ns;
    last = (weir_moment){now_ns, at.wall_ns};
    return last;
}
