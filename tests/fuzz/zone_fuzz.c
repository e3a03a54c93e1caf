/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* libFuzzer target: TZif files (time zones). In a zone that weir_zone_read() accepts, the calendar
 * windows partition time: each contains its instants, starts where the previous one ends, and is
 * made of whole days. */

#include "core/algorithm.h"
#include "fuzz.h"

#include <weir/weir_zone.h>

static bool same(weir_span a, weir_span b)
{
    return a.start_ns == b.start_ns && a.end_ns == b.end_ns;
}

static weir_span checked_window(const weir_zone *z, weir_calendar unit, int32_t anchor,
                                int64_t t_ns)
{
    weir_span w = weir_calendar_window(z, unit, anchor, t_ns);
    CHECK(0 <= w.start_ns && w.start_ns <= t_ns && t_ns < w.end_ns);
    CHECK(w.end_ns - t_ns < WEIR_SPAN_NS_MAX);
    return w;
}

static void check_at(const weir_zone *z, weir_calendar unit, int32_t anchor, int64_t t_ns)
{
    weir_span w = checked_window(z, unit, anchor, t_ns);
    CHECK(same(w, weir_calendar_window(z, unit, anchor, w.start_ns)));
    if (w.end_ns > WEIR_NOW_NS_MAX)
        return;
    CHECK(same(w, weir_calendar_window(z, unit, anchor, w.end_ns - 1)));
    CHECK(checked_window(z, unit, anchor, w.end_ns).start_ns == w.end_ns);
    if (unit == WEIR_DAY)
        return;
    /* Longer windows start and end with a day. */
    CHECK(weir_calendar_window(z, WEIR_DAY, 0, w.start_ns).start_ns == w.start_ns);
    CHECK(weir_calendar_window(z, WEIR_DAY, 0, w.end_ns).start_ns == w.end_ns);
}

static void check_all(const weir_zone *z, int64_t t_ns)
{
    if (t_ns < 0 || t_ns > WEIR_NOW_NS_MAX)
        return;
    for (int unit = WEIR_DAY; unit <= WEIR_YEAR; unit++) {
        int32_t anchors = 1 + weir_anchor_max((weir_calendar)unit);
        check_at(z, (weir_calendar)unit, 0, t_ns);
        check_at(z, (weir_calendar)unit, (int32_t)(t_ns / 1000000000 % anchors), t_ns);
        check_at(z, (weir_calendar)unit, anchors - 1, t_ns);
    }
}

/* Four bytes of the file, as seconds: sometimes the time of a transition. */
static int64_t word_ns(const uint8_t *p)
{
    uint32_t s = (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
    return (int64_t)s * 1000000000;
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len)
{
    static const int64_t years[] = {0, 1 << 29, 1 << 30, 2100000000, 4102444800, 8000000000};
    weir_zone z;
    if (weir_zone_read(&z, "Fuzz", 4, bytes, len) != WEIR_OK)
        return 0;
    check_all(&z, WEIR_NOW_NS_MAX);
    for (size_t i = 0; i < sizeof years / sizeof years[0]; i++)
        check_all(&z, years[i] * 1000000000);
    for (size_t at = 44; at + 4 <= len; at += 1 + len / 64) {
        int64_t t_ns = word_ns(bytes + at);
        check_all(&z, t_ns);
        check_all(&z, t_ns - 1);
        check_all(&z, t_ns + (int64_t)bytes[at] * 1000000000 * 600);
    }
    return 0;
}
