/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* The clock of the module, with fake clocks of the system and of the server. */

#include "modules/redis/abi.h"
#include "modules/redis/keyspace.h"
#include "port/port.h"
#include "tests/kit/check.h"

#include <stdio.h>
#include <stdlib.h>

#define SECOND    INT64_C(1000000000)
#define START_NS  (50 * SECOND)
#define MARGIN_NS (SECOND / 10)

redis_api redis;

static int64_t wall_ns = INT64_C(1767225600) * SECOND; /* later for each test: no time goes back */
static port_clocks system_clocks;
static long long cached_us;
static unsigned boot_reads, wall_reads;

int64_t __wrap_port_boot_ns(void);
port_clocks __wrap_port_clocks_now(void);

int64_t __wrap_port_boot_ns(void)
{
    boot_reads++;
    return system_clocks.boot_ns;
}

port_clocks __wrap_port_clocks_now(void)
{
    wall_reads++;
    return system_clocks;
}

static long long fake_cached(void)
{
    return cached_us;
}

static void begin(long long (*cached)(void))
{
    wall_ns += 3600 * SECOND;
    redis.CachedMicroseconds = cached;
    system_clocks = (port_clocks){.wall_ns = wall_ns, .boot_ns = START_NS};
    weir_moment_start();
    boot_reads = wall_reads = 0;
}

static void pass(int64_t ns)
{
    system_clocks.wall_ns += ns;
    system_clocks.boot_ns += ns;
}

static weir_moment expect(int64_t now_ns)
{
    weir_moment at = weir_moment_now();
    CHECK(at.now_ns == now_ns && at.ahead_ns == MARGIN_NS && at.epoch > 0);
    return at;
}

/* No key expires early, nor much later than the wall clock is ahead. */
static void check_ahead(weir_moment at)
{
    int64_t ahead_ns = system_clocks.wall_ns - at.now_ns, least_ns = ahead_ns > 0 ? ahead_ns : 0;
    CHECK(at.ahead_ns >= least_ns + MARGIN_NS / 2);
    CHECK(at.ahead_ns <= 2 * (least_ns + MARGIN_NS) + SECOND / 500);
}

/* The commands of a transaction have one time. */
static void once_for_each_cached_time(void)
{
    static const long long first_us[] = {0, 1, 1767225600000000};
    for (int i = 0; i < 3; i++) {
        cached_us = first_us[i];
        begin(fake_cached);
        expect(wall_ns);
        pass(1000);
        expect(wall_ns);
        CHECK(boot_reads == 1);
        cached_us++;
        expect(wall_ns + 1000);
        CHECK(boot_reads == 2 && wall_reads == 1);
    }
}

/* A step of the wall clock moves the expiry from the next second on, in a new epoch if it is a step
 * forward. The time of decisions is only slewed, and never goes back. */
static void the_wall_clock_is_stepped(void)
{
    static const int64_t steps_ns[] = {1800 * SECOND, -1800 * SECOND};
    for (int i = 0; i < 2; i++) {
        begin(NULL);
        weir_moment first = expect(wall_ns);
        int64_t last_ns = first.now_ns;
        system_clocks.wall_ns += steps_ns[i];
        pass(SECOND - 1);
        last_ns = expect(wall_ns + SECOND - 1).now_ns;
        CHECK(wall_reads == 1 && boot_reads == 2);
        for (int tick = 1; tick < 20; tick++) {
            pass(tick == 1 ? 1 : SECOND);
            weir_moment at = weir_moment_now();
            CHECK(wall_reads == 1 + (unsigned)tick);
            CHECK(at.epoch == first.epoch + (steps_ns[i] > 0));
            check_ahead(at);
            CHECK(llabs(at.now_ns - (wall_ns + system_clocks.boot_ns - START_NS)) < SECOND / 50);
            CHECK(at.now_ns >= last_ns);
            last_ns = at.now_ns;
        }
    }
}

/* At a tick of a clock that is slewed back, no time passes for less than a millisecond. */
static void a_slew_does_not_go_back(void)
{
    begin(NULL);
    weir_moment_now();
    system_clocks.wall_ns -= SECOND / 2;
    pass(2 * SECOND - 1);
    int64_t before_ns = wall_ns + 2 * SECOND - 1;
    for (int i = 0; i < 3; i++) {
        weir_moment at = weir_moment_now();
        CHECK(at.now_ns <= before_ns && at.now_ns > before_ns - SECOND / 500);
        pass(SECOND);
        before_ns += SECOND;
    }
    pass(1 - SECOND);
    int64_t first_ns = weir_moment_now().now_ns;
    system_clocks.boot_ns -= 1000;
    CHECK(weir_moment_now().now_ns == first_ns);
    system_clocks.boot_ns += 1001;
    CHECK(weir_moment_now().now_ns == first_ns + 1);
}

/* While a step is slewed away, the epoch changes only when half of it is gone. */
static void a_step_makes_few_epochs(void)
{
    begin(NULL);
    weir_moment first = weir_moment_now(), at = first;
    system_clocks.wall_ns += 10 * SECOND;
    for (int tick = 0; tick < 25000; tick++) {
        pass(SECOND);
        at = weir_moment_now();
        check_ahead(at);
    }
    CHECK(at.ahead_ns <= 2 * MARGIN_NS && at.now_ns == system_clocks.wall_ns);
    CHECK(at.epoch > first.epoch + 3 && at.epoch < first.epoch + 10);
}

int main(void)
{
    once_for_each_cached_time();
    the_wall_clock_is_stepped();
    a_slew_does_not_go_back();
    a_step_makes_few_epochs();
    printf("4 passed, 0 failed\n");
    return 0;
}
