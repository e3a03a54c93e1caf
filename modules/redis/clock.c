/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* Reads the clocks, at most once for each cached time of the server. */

#include "clock.h"

#include "abi.h"
#include "store/clock.h"

static weir_clock ticker;
static int64_t wall_base_ns; /* the wall clock minus boot_ns, at the last tick */
static weir_moment last;
static long long last_cached_us;

void weir_moment_start(void)
{
    weir_clock_start(&ticker, port_clocks_now(), 0, NULL, 0); /* a tick is due at once */
    last_cached_us = -1;
}

/* The wall clock is read once a second. If it was stepped since then, the keys written now expire
 * as the keys written before the step do. */
weir_moment weir_moment_now(void)
{
    if (redis.CachedMicroseconds) {
        long long cached_us = redis.CachedMicroseconds();
        if (cached_us == last_cached_us)
            return last;
        last_cached_us = cached_us;
    }
    int64_t boot_ns = port_boot_ns();
    if (weir_clock_is_due(&ticker, boot_ns)) {
        port_clocks at = port_clocks_now();
        weir_clock_tick(&ticker, at);
        wall_base_ns = at.wall_ns - at.boot_ns;
    }
    int64_t now_ns = weir_clock_time(&ticker, boot_ns);
    if (now_ns < last.now_ns) /* the clock may slew back by less than a millisecond */
        now_ns = last.now_ns;
    last = (weir_moment){now_ns, boot_ns + wall_base_ns};
    return last;
}
