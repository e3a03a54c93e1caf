/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* Reads the clocks, at most once for each cached time of the server. */

#include "keyspace.h"

#include "store/clock.h"

static weir_clock ticker;
static weir_moment last;
static long long last_cached_us;

void weir_moment_start(void)
{
    weir_clock_start(&ticker, port_clocks_now(), 0, NULL, 0); /* a tick is due at once */
    last_cached_us = -1;
}

/* Keeps last.ahead_ns at or above the offset of the wall clock, with a margin until the next tick.
 * Slewing away a step may take weeks. Each change of last.ahead_ns makes every key set its expiry
 * once, so it is lowered only when it can be halved. */
static void follow_wall(int64_t ahead_ns)
{
    enum { MARGIN_NS = 100000000 };
    int64_t least_ns = ahead_ns > 0 ? ahead_ns : 0;
    if (last.epoch > 0 && least_ns + MARGIN_NS / 2 <= last.ahead_ns &&
        last.ahead_ns / 2 <= least_ns + MARGIN_NS)
        return;
    last.ahead_ns = least_ns + MARGIN_NS;
    last.epoch++;
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
        follow_wall(at.wall_ns - weir_clock_time(&ticker, at.boot_ns));
    }
    int64_t now_ns = weir_clock_time(&ticker, boot_ns);
    if (now_ns < last.now_ns) /* the clock may slew back by less than a millisecond */
        now_ns = last.now_ns;
    last.now_ns = now_ns;
    return last;
}
