/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* The store's clock with a real store. Whatever happens to the wall clock, a denied key waits as
 * long as its policy says, measured with a stopwatch. */

#include "store/clock.h"

#include "store/iterate.h"

#include <weir/weir_store.h>

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

static const int64_t ms_ns = 1000000, s_ns = 1000000000, hour_ns = 3600000000000;
#define DAY_NS (24 * hour_ns)
static const int64_t noon_ns = 1800000000000000000 / 86400000000000 * 86400000000000 +
                               12 * INT64_C(3600000000000); /* a day in 2027, at noon */

/* ---- a machine, its daemon and the daemon's file --------------------------------------------- */

typedef struct machine {
    port_clocks at;  /* the machine's clock readings */
    int64_t gone_ns; /* the stopwatch: time since the start of the test */
    uint64_t boot_id;
    weir_clock_slots file;
    weir_clock clock;
    weir_store *store;
    int64_t last_ns; /* the last time that the store's clock returned */
} machine;

static machine machine_at(int64_t wall_ns)
{
    machine m = {.at = {90 * s_ns, wall_ns}, .boot_id = 1};
    assert_int_equal(weir_store_open(&m.store, NULL), WEIR_OK);
    return m;
}

static void boot(machine *m, weir_clock_slots *file)
{
    weir_clock_start(&m->clock, m->at, m->boot_id, file, 0);
    m->last_ns = 0;
}

/* Reads the clock as weir_store_now() does. It must never step back. */
static int64_t now_of(machine *m)
{
    if (weir_clock_is_due(&m->clock, m->at.boot_ns))
        weir_clock_tick(&m->clock, m->at);
    int64_t now_ns = weir_clock_time(&m->clock, m->at.boot_ns);
    assert_true(now_ns >= m->last_ns - ms_ns / 2);
    m->last_ns = now_ns;
    return now_ns;
}

static void set_wall(machine *m, int64_t by_ns)
{
    m->at.wall_ns += by_ns;
}

/* Lets time pass, without reading the clock. */
static void sleep_for(machine *m, int64_t ns)
{
    m->at.boot_ns += ns;
    m->at.wall_ns += ns;
    m->gone_ns += ns;
}

/* Lets time pass, and reads the clock every second. */
static void run_for(machine *m, int64_t ns)
{
    for (; ns > s_ns; ns -= s_ns) {
        sleep_for(m, s_ns);
        now_of(m);
    }
    sleep_for(m, ns);
    now_of(m);
}

/* ---- events ---------------------------------------------------------------------------------- */

static void nothing(machine *m)
{
    (void)m;
}

static void hour_on(machine *m)
{
    set_wall(m, hour_ns);
}

static void hour_back(machine *m)
{
    set_wall(m, -hour_ns);
}

static void day_on(machine *m)
{
    set_wall(m, DAY_NS);
}

static void day_back(machine *m)
{
    set_wall(m, -DAY_NS);
}

static void there_and_back(machine *m)
{
    set_wall(m, DAY_NS);
    run_for(m, 60 * s_ns);
    set_wall(m, -DAY_NS);
}

static void back_and_there(machine *m)
{
    set_wall(m, -hour_ns);
    run_for(m, 60 * s_ns);
    set_wall(m, hour_ns);
}

static void sleep_of_8_hours(machine *m)
{
    sleep_for(m, 8 * hour_ns);
}

static void jitter(machine *m)
{
    for (int i = 0; i < 300; i++) {
        set_wall(m, (i * 7919 % 21 - 10) * ms_ns);
        run_for(m, s_ns);
    }
}

static void correct_1970(machine *m)
{
    set_wall(m, noon_ns);
}

static void restart(machine *m)
{
    sleep_for(m, 5 * s_ns);
    boot(m, &m->file);
}

static void set_during_restart(machine *m)
{
    set_wall(m, DAY_NS);
    restart(m);
}

static void set_back_during_restart(machine *m)
{
    set_wall(m, -DAY_NS);
    restart(m);
}

static void reboot(machine *m)
{
    sleep_for(m, 60 * s_ns);
    m->at.boot_ns = 20 * s_ns;
    m->boot_id++;
    boot(m, &m->file);
}

/* The file moves to a machine whose clock is a day behind. That machine cannot know how long the
 * move took, so the key waits for that time again. The stopwatch is stopped meanwhile. */
static void from_a_day_ahead(machine *m)
{
    set_wall(m, -DAY_NS);
    m->gone_ns -= 60 * s_ns;
    reboot(m);
}

static void reboot_to_1970(machine *m)
{
    m->at.wall_ns = 0;
    m->gone_ns -= 60 * s_ns;
    reboot(m);
    run_for(m, 10 * s_ns);
    set_wall(m, noon_ns);
}

/* ---- waits ----------------------------------------------------------------------------------- */

static weir_decision take(machine *m, const weir_policy *p)
{
    weir_decision d = {0};
    uint64_t id = weir_store_policy_id(m->store, p);
    assert_int_equal(weir_store_check(m->store, p, id, "key", 3, now_of(m), 1, &d), WEIR_OK);
    return d;
}

/* The key uses its whole quota, then the event happens, then the key waits. By the stopwatch it
 * must wait as long as the denial said, to within 500 ppm and 1 ms. */
static void check_wait(const char *text, int64_t wall_ns, void (*happens)(machine *m))
{
    weir_policy p;
    assert_int_equal(weir_policy_parse(&p, text, strlen(text), NULL, NULL), WEIR_OK);
    machine m = machine_at(wall_ns);
    boot(&m, &m.file);
    run_for(&m, 100 * s_ns);
    while (take(&m, &p).allowed) {
    }
    int64_t wait_ns = take(&m, &p).retry_after_ns;
    assert_true(wait_ns > 5 * 60 * s_ns);
    m.gone_ns = 0;
    happens(&m);
    int64_t slack_ns = wait_ns / 1999 + ms_ns; /* of 2000 s on the stopwatch, at least 1999 count */
    if (m.gone_ns < wait_ns - slack_ns) {
        run_for(&m, wait_ns - slack_ns - m.gone_ns);
        assert_false(take(&m, &p).allowed);
    }
    if (m.gone_ns < wait_ns + slack_ns)
        run_for(&m, wait_ns + slack_ns - m.gone_ns);
    assert_true(take(&m, &p).allowed);
    weir_store_close(m.store);
}

static void check_waits(void **unused)
{
    (void)unused;
    static const char *const policies[] = {"gcra 4/h burst 4", "fixed-window 10/h",
                                           "fixed-window 10/day", "sliding-log 10/h"};
    static void (*const happenings[])(machine * m) = {
        nothing,  hour_on,          hour_back,          day_on,
        day_back, there_and_back,   back_and_there,     sleep_of_8_hours,
        jitter,   restart,          set_during_restart, set_back_during_restart,
        reboot,   from_a_day_ahead, reboot_to_1970,
    };
    for (size_t i = 0; i < sizeof policies / sizeof policies[0]; i++) {
        for (size_t k = 0; k < sizeof happenings / sizeof happenings[0]; k++)
            check_wait(policies[i], noon_ns, happenings[k]);
        check_wait(policies[i], 0, correct_1970);
    }
}

/* ---- the time -------------------------------------------------------------------------------- */

/* The clock is slewed by 500 ppm and ends at the wall clock's time. */
static void check_slew(void **unused)
{
    (void)unused;
    for (int sign = -1; sign <= 1; sign += 2) {
        machine m = machine_at(noon_ns);
        boot(&m, NULL);
        run_for(&m, 10 * s_ns);
        assert_int_equal(now_of(&m), m.at.wall_ns);
        set_wall(&m, sign * 2 * s_ns);
        run_for(&m, 1000 * s_ns);
        assert_int_equal(m.at.wall_ns - now_of(&m), sign * 3 * s_ns / 2);
        assert_int_equal(weir_clock_look(&m.clock).offset_ns, sign * 3 * s_ns / 2);
        run_for(&m, 3000 * s_ns);
        assert_int_equal(now_of(&m), m.at.wall_ns);
        assert_int_equal(weir_clock_look(&m.clock).offset_ns, 0);
        weir_store_close(m.store);
    }
}

/* A step is reported once. A slow drift between the clocks is not a step. */
static void check_steps_are_counted(void **unused)
{
    (void)unused;
    machine m = machine_at(noon_ns);
    boot(&m, NULL);
    run_for(&m, 100 * s_ns);
    for (int i = 0; i < 100; i++) {
        set_wall(&m, 900 * ms_ns);
        run_for(&m, s_ns);
    }
    assert_int_equal(weir_clock_look(&m.clock).steps, 0);
    set_wall(&m, -hour_ns);
    run_for(&m, 100 * s_ns);
    assert_int_equal(weir_clock_look(&m.clock).steps, 1);
    assert_int_equal(weir_clock_look(&m.clock).step_ns, -hour_ns);
    set_wall(&m, DAY_NS);
    sleep_of_8_hours(&m);
    run_for(&m, 100 * s_ns);
    assert_int_equal(weir_clock_look(&m.clock).steps, 2);
    assert_int_equal(weir_clock_look(&m.clock).step_ns, DAY_NS);
    weir_store_close(m.store);
}

/* A wall clock that is ahead by more than an hour is followed at once: of a machine that started in
 * 1970, or of one that was paused. One that is less ahead, or behind, is slewed to. */
static void check_jumps(void **unused)
{
    (void)unused;
    static const struct {
        int64_t wall_ns, by_ns, jumps;
    } cases[] = {{0, noon_ns, 1},       {noon_ns, 8 * hour_ns, 1}, {noon_ns, hour_ns + s_ns, 1},
                 {noon_ns, hour_ns, 0}, {noon_ns, -hour_ns, 0},    {noon_ns, -DAY_NS, 0},
                 {noon_ns, -noon_ns, 0}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        machine m = machine_at(cases[i].wall_ns);
        boot(&m, &m.file);
        port_word_store_relaxed(&m.clock.jump_above, (uint64_t)hour_ns);
        run_for(&m, 100 * s_ns);
        int64_t before_ns = now_of(&m);
        set_wall(&m, cases[i].by_ns);
        run_for(&m, 2 * s_ns);
        int64_t gone_ns = now_of(&m) - before_ns;
        weir_clock_view v = weir_clock_look(&m.clock);
        assert_int_equal(v.steps, 1);
        assert_int_equal(v.jumps, cases[i].jumps);
        assert_int_equal(v.jump_ns, cases[i].jumps ? cases[i].by_ns : 0);
        assert_true((v.offset_ns == 0) == (cases[i].jumps == 1));
        int64_t expected_ns = 2 * s_ns + (cases[i].jumps ? cases[i].by_ns : 0);
        assert_in_range(gone_ns, expected_ns - ms_ns, expected_ns + ms_ns);
        restart(&m); /* goes on from the file */
        assert_in_range(now_of(&m) - before_ns - 5 * s_ns, expected_ns - ms_ns,
                        expected_ns + ms_ns);
        weir_store_close(m.store);
    }
}

/* After a downtime of a day, every key has its full quota, and no more. */
static void check_long_downtime(void **unused)
{
    (void)unused;
    weir_policy p;
    assert_int_equal(weir_policy_parse(&p, "gcra 4/h burst 4", 16, NULL, NULL), WEIR_OK);
    machine m = machine_at(noon_ns);
    boot(&m, &m.file);
    run_for(&m, 100 * s_ns);
    while (take(&m, &p).allowed) {
    }
    sleep_for(&m, DAY_NS);
    reboot(&m);
    assert_int_equal(now_of(&m), m.at.wall_ns);
    assert_int_equal(take(&m, &p).remaining, 3);
    weir_store_close(m.store);
}

/* Setting the clock takes effect at once, and the next opening continues from there. */
static void check_set(void **unused)
{
    (void)unused;
    machine m = machine_at(noon_ns);
    boot(&m, &m.file);
    run_for(&m, 10 * s_ns);
    set_wall(&m, -DAY_NS);
    weir_clock_set(&m.clock, m.at, m.at.wall_ns);
    m.last_ns = 0;
    assert_int_equal(now_of(&m), m.at.wall_ns);
    assert_int_equal(weir_clock_look(&m.clock).offset_ns, 0);
    assert_int_equal(weir_clock_look(&m.clock).steps, 0);
    restart(&m);
    assert_int_equal(now_of(&m), m.at.wall_ns);
    weir_store_close(m.store);
}

/* Whatever the file and the clocks say, the time stays in its range. */
static void check_extremes(void **unused)
{
    (void)unused;
    static const int64_t times[] = {0, 1, 1800000000000000000, WEIR_NOW_NS_MAX - 1,
                                    WEIR_NOW_NS_MAX};
    enum { N = sizeof times / sizeof times[0] };
    for (int i = 0; i < N * N * N * N; i++) {
        weir_clock_slots file = {0};
        const weir_clock_reading e = {times[i % N], times[i / N % N], 0, 1};
        weir_clock_slots_write(&file, &e);
        weir_clock c;
        port_clocks at = {times[i / N / N % N], times[i / N / N / N]};
        weir_clock_start(&c, at, 2, &file, 0);
        int64_t began_ns = weir_clock_time(&c, at.boot_ns);
        assert_true(began_ns >= e.time_ns && began_ns <= WEIR_NOW_NS_MAX);
        weir_clock_tick(&c, at);
        assert_true(weir_clock_time(&c, at.boot_ns) == began_ns);
    }
    weir_clock c;
    weir_clock_start(&c, (port_clocks){5, 100}, 1, NULL, 200); /* the store's time is ahead */
    assert_int_equal(weir_clock_time(&c, 5), 200);
    weir_clock_start(&c, (port_clocks){100, 5}, 1, NULL, 0); /* a reading from before the start */
    assert_int_equal(weir_clock_time(&c, 0), 0);
    assert_int_equal(weir_clock_time(&c, 96), 1);
}

/* ---- clock readings in memory ---------------------------------------------------------------- */

static bool same(const weir_clock_reading *a, const weir_clock_reading *b)
{
    return a->time_ns == b->time_ns && a->wall_ns == b->wall_ns && a->boot_ns == b->boot_ns &&
           a->boot_id == b->boot_id;
}

/* If a write is cut off anywhere, the previous reading or the new one is valid. */
static void check_torn_moments(void **unused)
{
    (void)unused;
    for (int begun = 1; begun < 6; begun++) {
        weir_clock_reading got, a = {0, 2, 3, 4}, b = {begun + 5, 6, 7, 8};
        weir_clock_slots before = {0};
        assert_false(weir_clock_slots_read(&before, &got));
        for (int i = 0; i < begun; i++) {
            a.time_ns++;
            weir_clock_slots_write(&before, &a);
        }
        for (int word = 0; word <= 2 * WEIR_CLOCK_SLOT_WORDS; word++) {
            weir_clock_slots torn = before, after = before;
            weir_clock_slots_write(&after, &b);
            memcpy(&torn, &after, (size_t)word * sizeof(port_word));
            assert_true(weir_clock_slots_read(&torn, &got));
            assert_true(same(&got, &a) || same(&got, &b));
            weir_clock_slots_write(&torn, &b);
            assert_true(weir_clock_slots_read(&torn, &got) && same(&got, &b));
        }
    }
    weir_clock_reading got;
    weir_clock_slots bad = {0};
    const weir_clock_reading late = {WEIR_NOW_NS_MAX, 0, 0, 0},
                             later = {WEIR_NOW_NS_MAX + 1, 0, 0, 0};
    weir_clock_slots_write(&bad, &later);
    assert_false(weir_clock_slots_read(&bad, &got));
    weir_clock_slots_write(&bad, &late);
    assert_true(weir_clock_slots_read(&bad, &got) && same(&got, &late));
}

typedef struct ticker {
    weir_clock *clock;
    port_clocks at;
    int failures;
} ticker;

static void tick_on(void *arg)
{
    ticker *t = arg;
    for (int i = 0; i < 20000; i++, t->at.boot_ns += s_ns, t->at.wall_ns += s_ns) {
        if (weir_clock_is_due(t->clock, t->at.boot_ns))
            weir_clock_tick(t->clock, t->at);
        t->failures += weir_clock_time(t->clock, t->at.boot_ns) != t->at.wall_ns;
    }
}

/* Threads with very different times all tick: that makes no step. */
static void check_threads(void **unused)
{
    (void)unused;
    enum { THREADS = 4 };
    weir_clock c;
    weir_clock_slots file = {0};
    ticker tickers[THREADS];
    port_thread *threads[THREADS];
    weir_clock_start(&c, (port_clocks){0, noon_ns}, 1, &file, 0);
    for (int i = 0; i < THREADS; i++) {
        tickers[i] = (ticker){&c, {i * 1000 * s_ns, noon_ns + i * 1000 * s_ns}, 0};
        threads[i] = port_thread_start(tick_on, &tickers[i]);
        assert_non_null(threads[i]);
    }
    for (int i = 0; i < THREADS; i++) {
        port_thread_join(threads[i]);
        assert_int_equal(tickers[i].failures, 0);
    }
    weir_clock_reading e;
    assert_true(weir_clock_slots_read(&file, &e));
    assert_int_equal(e.time_ns, e.wall_ns);
    assert_int_equal(weir_clock_look(&c).steps, 0);
    assert_int_equal(weir_clock_look(&c).offset_ns, 0);
}

/* The real clocks, as far as they were not stepped during the test. */
static void check_store_now(void **unused)
{
    (void)unused;
    weir_store *s = NULL;
    assert_int_equal(weir_store_open(&s, NULL), WEIR_OK);
    int64_t before_ns = port_boot_ns(), began_ns = weir_store_now(s);
    for (int i = 0; i < 1000; i++)
        assert_true(weir_store_now(s) >= began_ns - ms_ns / 2);
    int64_t most_ns = port_boot_ns() - before_ns;
    assert_true(weir_store_now(s) - began_ns <= port_boot_ns() - before_ns + ms_ns);
    assert_true(most_ns >= 0);
    weir_store_set_time(s, began_ns + 3600 * s_ns);
    assert_true(weir_store_now(s) >= began_ns + 3600 * s_ns);
    weir_store_close(s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(check_waits),
        cmocka_unit_test(check_slew),
        cmocka_unit_test(check_steps_are_counted),
        cmocka_unit_test(check_jumps),
        cmocka_unit_test(check_long_downtime),
        cmocka_unit_test(check_set),
        cmocka_unit_test(check_extremes),
        cmocka_unit_test(check_torn_moments),
        cmocka_unit_test(check_threads),
        cmocka_unit_test(check_store_now),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
