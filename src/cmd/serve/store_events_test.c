/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* What is logged of the clock and of the state file. The limiter's clock and the place of the file
 * are fakes (see meson.build). */

#define _GNU_SOURCE /* memfd_create */

#include "cmd/serve/parts.h"

#include "cmd/serve/log_kit_test.h"

/* ---- fakes ----------------------------------------------------------------------------------- */

static struct {
    weir_clock_view clock;
    int nows;
    weir_file place;
} fake;

weir_clock_view __wrap_weir_limiter_clock(weir_limiter *l);
int64_t __wrap_weir_limiter_now(weir_limiter *l);
size_t __wrap_weir_limiter_partitions(weir_limiter *l, weir_partition_stats *ret, size_t n);
weir_file __wrap_weir_store_watch(weir_store *s);

weir_clock_view __wrap_weir_limiter_clock(weir_limiter *l)
{
    (void)l;
    return fake.clock;
}

int64_t __wrap_weir_limiter_now(weir_limiter *l)
{
    (void)l;
    return ++fake.nows;
}

size_t __wrap_weir_limiter_partitions(weir_limiter *l, weir_partition_stats *ret, size_t n)
{
    (void)l, (void)ret, (void)n;
    return 0;
}

weir_file __wrap_weir_store_watch(weir_store *s)
{
    (void)s;
    return fake.place;
}

static store_events events;
static log_target target = {.least = {WEIR_LOG_INFO}};

static int begin(void **unused)
{
    (void)unused;
    memset(&fake, 0, sizeof fake);
    target.fd = log_fd;
    log_read = lseek(log_fd, 0, SEEK_END);
    store_events_begin(&events, &target, NULL, NULL, "state");
    return 0;
}

/* ---- the clock ------------------------------------------------------------------------------- */

#define OFFSET(SECONDS)                                                                            \
    "warning clock-offset seconds=" SECONDS                                                        \
    " text=\"the wall clock differs from the state file's time; weir continues from the file's "   \
    "time and slews towards the wall clock\"\n"

static void clock_offset(void **unused)
{
    (void)unused;
    static const struct {
        int64_t offset_ns;
        const char *expected;
    } rows[] = {
        {1000000000, ""},
        {-1000000000, ""},
        {1000000001, OFFSET("1.000")},
        {-1000000001, OFFSET("-1.000")},
        {INT64_C(2500000000000), OFFSET("2500.000")},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        fake.clock.offset_ns = rows[i].offset_ns;
        store_events_log_offset(&events);
        logged(rows[i].expected);
    }
}

static void clock_step(void **unused)
{
    (void)unused;
    store_events_tick(&events);
    logged("");
    fake.clock = (weir_clock_view){
        .offset_ns = -INT64_C(5000500000000), .steps = 1, .step_ns = INT64_C(3250000000000)};
    fake.nows = 0;
    for (int i = 0; i < 2; i++) {
        store_events_tick(&events);
        logged(
            i > 0 ? ""
                  : "warning clock-stepped by_seconds=3250.000 offset_seconds=-5000.500 text=\"the "
                    "wall clock stepped; limits are unaffected, and weir's clock slews towards "
                    "it\"\n");
        assert_int_equal(fake.nows, i + 1); /* reads the clock, which notices a step */
    }
    fake.clock = (weir_clock_view){
        .steps = 2, .step_ns = INT64_C(7200000000000), .jumps = 1, .jump_ns = 7200000000001};
    for (int i = 0; i < 2; i++) {
        store_events_tick(&events);
        logged(i > 0 ? ""
                     : "warning clock-set by_seconds=7200.000 text=\"the wall clock was ahead by "
                       "more than clock.step_above; weir's clock has stepped to it, and keys "
                       "regain the quota of that time\"\n"
                       "warning clock-stepped by_seconds=7200.000 offset_seconds=0.000 "
                       "text=\"the wall clock stepped, and weir's clock follows\"\n");
    }
}

/* ---- the state file -------------------------------------------------------------------------- */

static void lost_file(void **unused)
{
    (void)unused;
    static const struct {
        weir_file place;
        const char *level, *event, *why, *text;
    } rows[] = {
        {WEIR_FILE_MOVED, "error", "lost", "why=moved ", "the state file was moved; "},
        {WEIR_FILE_REPLACED, "error", "lost", "why=replaced ", "another file has replaced "},
        {WEIR_FILE_IN_PLACE, "info", "back", "", "the state file is at its path again"},
        {WEIR_FILE_REMOVED, "error", "lost", "why=removed ", "the state file was removed; "},
        {WEIR_FILE_SHORTENED, "error", "lost", "why=shortened ", "the state file was truncated; "},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        char expected[200], buf[1000] = "", metric[100];
        fake.place = rows[i].place;
        store_events_tick(&events);
        snprintf(expected, sizeof expected, "Z %s state-file-%s file=state %stext=\"%s",
                 rows[i].level, rows[i].event, rows[i].why, rows[i].text);
        assert_true(pread(log_fd, buf, sizeof buf - 1, log_read) > 0);
        assert_non_null(strstr(buf, expected));
        weir_buffer out;
        weir_buffer_init(&out, 1024);
        store_events_put_metrics(&events, &out);
        weir_buffer_append_byte(&out, '\0');
        snprintf(metric, sizeof metric, "\nweir_store_file_lost %d\n",
                 rows[i].place != WEIR_FILE_IN_PLACE);
        assert_non_null(strstr((const char *)weir_buffer_data(&out), metric));
        weir_buffer_free(&out);
        log_read = lseek(log_fd, 0, SEEK_END);
        store_events_tick(&events);
        logged("");
    }
    events.state_file = NULL; /* without a state file, this means nothing */
    fake.place = WEIR_FILE_MOVED;
    store_events_tick(&events);
    logged("");
}

static void opened_file(void **unused)
{
    (void)unused;
    static const struct {
        weir_found found;
        int64_t ago_ns; /* 0: unknown */
        const char *expected;
    } rows[] = {
        {WEIR_FOUND_NOTHING, 0, "info state file=state found=\"nothing, the file is new\"\n"},
        {WEIR_FOUND_CLOSED, INT64_C(7999999999),
         "info state file=state found=\"closed cleanly\" written_seconds_ago=7\n"},
        {WEIR_FOUND_CLOSED, test_now_ns - 1,
         "info state file=state found=\"closed cleanly\" written_seconds_ago=1763715600\n"},
        {WEIR_FOUND_CLOSED, -5000000000,
         "info state file=state found=\"closed cleanly\" written_seconds_ago=0\n"},
        {WEIR_FOUND_OPEN, 2000000000,
         "info state file=state found=\"open in other processes\" written_seconds_ago=2\n"},
        {WEIR_FOUND_POWER_LOSS, 1000000000,
         "warning state file=state found=\"left by a machine that crashed; what is lost depends "
         "on memory.sync\" written_seconds_ago=1\n"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        const weir_store_opened opened = {rows[i].found,
                                          rows[i].ago_ns ? test_now_ns - rows[i].ago_ns : 0};
        store_events_log_opened(&target, "state", &opened, test_now_ns);
        logged(rows[i].expected);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(clock_offset, begin),
        cmocka_unit_test_setup(clock_step, begin),
        cmocka_unit_test_setup(lost_file, begin),
        cmocka_unit_test_setup(opened_file, begin),
    };
    return cmocka_run_group_tests(tests, open_log, close_log);
}
