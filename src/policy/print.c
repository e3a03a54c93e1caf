/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* Prints a policy: as its canonical text, and as an explanation in plain English. */

#include "core/algorithm.h"
#include "core/layer.h"
#include "core/wide.h"
#include "policy/text.h"

#include <weir/weir_zone.h>

static void put_number(weir_writer *t, const char *before, int64_t n)
{
    weir_write_str(t, before);
    weir_write_u64(t, (uint64_t)n);
}

static void put_rate(weir_writer *t, const weir_layer *l)
{
    put_number(t, " ", l->rate);
    weir_write_char(t, '/');
    if (weir_layer_has_calendar(l))
        weir_write_str(t, weir_calendar_name(l->calendar));
    else
        weir_write_period(t, l->period_ns, true);
}

static void put_refill(weir_writer *t, const weir_layer *l)
{
    put_number(t, " ", l->limit);
    weir_write_str(t, " refill");
    if (!l->stepped) {
        put_rate(t, l);
        return;
    }
    put_number(t, " ", l->rate);
    weir_write_str(t, " every ");
    weir_write_period(t, l->period_ns, false);
}

static void put_hold(weir_writer *t, const weir_layer *l)
{
    put_number(t, " ", l->limit);
    weir_write_str(t, " lease ");
    weir_write_period(t, l->period_ns, false);
}

static void put_options(weir_writer *t, const weir_layer *l)
{
    if (l->nodelay > 0)
        put_number(t, " nodelay ", l->nodelay);
    if (l->anchor > 0) {
        weir_write_str(t, " from ");
        weir_anchor_write(t, l->calendar, l->anchor);
    }
    if (weir_layer_has_calendar(l) && l->zone) {
        weir_write_str(t, " tz ");
        weir_write_str(t, l->zone->name);
    }
    if (l->calendar == WEIR_FROM_FIRST)
        weir_write_str(t, " from-first");
    if (l->count_denied)
        weir_write_str(t, " count-denied");
    if (l->relaxed)
        weir_write_str(t, " relaxed");
    if (l->slices > 0)
        put_number(t, " slices ", l->slices);
}

static void put_block(weir_writer *t, const weir_layer *l)
{
    weir_write_char(t, ' ');
    weir_write_period(t, l->period_ns, false);
    if (l->longest_ns == 0)
        return;
    weir_write_str(t, " doubling ");
    weir_write_period(t, l->longest_ns, false);
}

static void put_layer(weir_writer *t, const weir_layer *l)
{
    const weir_algorithm_facts *facts = weir_facts_of(l->algorithm);
    weir_write_str(t, facts->name);
    if (weir_layer_is_block(l)) {
        put_block(t, l);
        return;
    }
    if (facts->family == WEIR_FAMILY_BUCKET && !facts->limit_word)
        put_refill(t, l);
    else if (facts->family == WEIR_FAMILY_HOLD)
        put_hold(t, l);
    else
        put_rate(t, l);
    if (facts->limit_word) {
        weir_write_char(t, ' ');
        weir_write_str(t, facts->limit_word);
        put_number(t, " ", l->limit - weir_layer_can(l, WEIR_CAN_DELAY));
    }
    put_options(t, l);
}

size_t weir_policy_print(const weir_policy *p, char *buf, size_t size)
{
    weir_writer t = weir_writer_init(buf, size);
    for (uint32_t i = 0; i < p->layers; i++) {
        if (i > 0)
            weir_write_str(&t, " & ");
        put_layer(&t, &p->layer[i]);
    }
    return t.len;
}

/* Writes "one every 10ms", or "one every 1s/3" if that is not a whole number of ns. Writes nothing
 * for rates above 1 per ns. */
static void put_interval(weir_writer *t, const weir_layer *l)
{
    if (l->den < l->num)
        return;
    weir_write_str(t, ", one every ");
    if (l->num == 1) {
        weir_write_period(t, (int64_t)l->den, false);
        return;
    }
    weir_write_period(t, l->period_ns, false);
    put_number(t, "/", l->rate);
}

/* Writes ": exactly 7200 a day": the sustained rate in a unit that is easy to compare. */
static void put_a_day(weir_writer *t, const weir_layer *l)
{
    enum { A_DAY = 7 };
    uint64_t day_ns = (uint64_t)weir_units[A_DAY - 1].ns, period_ns = (uint64_t)l->period_ns;
    weir_wide units = weir_wide_mul((uint64_t)l->rate, day_ns);
    uint64_t floor = weir_wide_div_floor(units, period_ns);
    weir_write_str(t, floor == weir_wide_div_ceil(units, period_ns) ? ": exactly " : ": ");
    weir_write_u64(t, floor);
    if (floor != weir_wide_div_ceil(units, period_ns))
        weir_write_char(t, '+');
    weir_write_str(t, " a day");
}

/* Returns whether the windows vary in length. Days and weeks of UTC do not. If they vary, a span as
 * long as the longest window can contain a whole short one, the end of the window before it, and
 * the start of the one after it. */
static bool lengths_vary(const weir_layer *l)
{
    return weir_layer_has_calendar(l) &&
           (l->zone || l->calendar == WEIR_MONTH || l->calendar == WEIR_YEAR);
}

/* The most that can pass in a half-open span as long as the period, or as the longest calendar
 * window. */
static int64_t worst_case(const weir_layer *l)
{
    const weir_algorithm_facts *facts = weir_facts_of(l->algorithm);
    if (facts->family == WEIR_FAMILY_BUCKET)
        return l->limit + l->rate - !l->stepped;
    if (l->calendar == WEIR_FROM_FIRST) /* the request that began the window is outside the span */
        return facts->limits_at_most * l->limit - 1;
    if (l->algorithm == WEIR_SLIDING_COUNTER)
        return facts->limits_at_most * l->limit - !l->relaxed;
    return (facts->limits_at_most + lengths_vary(l)) * l->limit;
}

static void report_bucket(weir_writer *t, const weir_layer *l)
{
    put_number(t, "  sustained   ", l->rate);
    weir_write_str(t, " every ");
    weir_write_period(t, l->period_ns, false);
    if (l->stepped)
        weir_write_str(t, ", in one step at each multiple of the period since 1970");
    else
        put_interval(t, l);
    put_a_day(t, l);
    put_number(t, "\n  at once     ", l->limit);
    if (l->algorithm == WEIR_GCRA && l->limit == 1 && l->rate > 1) {
        put_number(t, ": a second request right after the first is denied; to allow ", l->rate);
        put_number(t, " at once, write burst ", l->rate);
    }
    if (weir_layer_can(l, WEIR_CAN_DELAY)) {
        int64_t waiting = l->limit - 1 - l->nodelay;
        put_number(t, ": ", l->nodelay + 1);
        weir_write_str(t, l->nodelay > 0 ? " are served" : " is served");
        if (waiting > 0)
            put_number(t, ", and up to ", waiting);
        weir_write_str(t, waiting > 0 ? " wait" : ", and none waits");
    }
    weir_write_str(t, "\n  worst case  ");
    weir_write_u64(t, (uint64_t)worst_case(l));
    weir_write_str(t, " within ");
    weir_write_period(t, l->period_ns, false);
    weir_write_str(t, ": a full burst and the refill\n");
}

/* Writes where a calendar window begins, unless that is where its unit does. */
static void put_begin(weir_writer *t, const weir_layer *l)
{
    const int32_t day_29 = 28, leap_day = 59;
    if (l->anchor == 0)
        return;
    weir_write_str(t, l->calendar == WEIR_DAY     ? ", beginning at "
                      : l->calendar == WEIR_MONTH ? ", beginning on day "
                                                  : ", beginning on ");
    weir_anchor_write(t, l->calendar, l->anchor);
    if (l->calendar == WEIR_MONTH ? l->anchor >= day_29
                                  : l->calendar == WEIR_YEAR && l->anchor == leap_day)
        weir_write_str(t, " or the month's last day");
}

static void put_window(weir_writer *t, const weir_layer *l)
{
    if (weir_layer_has_calendar(l)) {
        weir_write_str(t, "calendar ");
        weir_write_str(t, weir_calendar_name(l->calendar));
        weir_write_str(t, " of ");
        weir_write_str(t, l->zone ? l->zone->name : "UTC");
        put_begin(t, l);
    } else {
        weir_write_period(t, l->period_ns, false);
        if (l->calendar == WEIR_FROM_FIRST)
            weir_write_str(t, ", from the key's first request");
    }
}

static void report_window(weir_writer *t, const weir_layer *l)
{
    put_number(t, "  sustained   ", l->limit);
    weir_write_str(t, " every ");
    put_window(t, l);
    if (!weir_layer_has_calendar(l))
        put_a_day(t, l);
    put_number(t, "\n  at once     ", l->limit);
    if (l->algorithm == WEIR_FIXED_WINDOW) {
        put_number(t, "\n  one window  ", l->limit);
        weir_write_str(t, " at most");
    }
    put_number(t, "\n  worst case  ", worst_case(l));
    weir_write_str(t, lengths_vary(l) ? " within the longest window's length"
                                      : " within the window's length");
    if (l->algorithm == WEIR_FIXED_WINDOW)
        weir_write_str(t, lengths_vary(l) ? ": before, in and after a short window"
                                          : ": around the boundary of two windows");
    if (l->algorithm == WEIR_SLIDING_COUNTER)
        weir_write_str(t, ", if the previous limit was used up at the end of its window");
    if (l->algorithm == WEIR_SLIDING_SLICES) {
        put_number(t, "; at most ", l->limit);
        weir_write_str(t, " within a span that is one slice shorter");
    }
    if (l->count_denied)
        weir_write_str(t, "\n  denials     count: a client that keeps retrying stays denied");
    weir_write_char(t, '\n');
}

static void report_hold(weir_writer *t, const weir_layer *l)
{
    put_number(t, "  in flight   ", l->limit);
    weir_write_str(t, " at most\n  lease       ");
    weir_write_period(t, l->period_ns, false);
    weir_write_str(t, ": what is not given back or renewed by then is free again\n");
}

static void report_block(weir_writer *t, const weir_layer *l)
{
    weir_write_str(t, "  a denial    blocks the key: every request is denied for ");
    weir_write_period(t, l->period_ns, false);
    weir_write_str(t, "\n  meanwhile   requests do not count, and do not make the block longer\n");
    if (l->longest_ns == 0)
        return;
    weir_write_str(t,
                   "  again       a block that begins sooner after the last one than that one was "
                   "long\n"
                   "              is twice as long, up to ");
    weir_write_period(t, l->longest_ns, false);
    weir_write_char(t, '\n');
}

static void report_layer(weir_writer *t, const weir_layer *l)
{
    switch (weir_facts_of(l->algorithm)->family) {
    case WEIR_FAMILY_BUCKET:
        report_bucket(t, l);
        return;
    case WEIR_FAMILY_WINDOW:
        report_window(t, l);
        return;
    case WEIR_FAMILY_BLOCK:
        report_block(t, l);
        return;
    case WEIR_FAMILY_HOLD:
        report_hold(t, l);
        return;
    }
}

/* The sum has 64 bits because size_t may have 32, in which the largest level of a log does not fit.
 */
static uint64_t state_bytes(const weir_policy *p, unsigned level)
{
    uint64_t words = 0;
    for (uint32_t i = 0; i < p->layers; i++)
        words += weir_layer_words(&p->layer[i], level);
    return words * 8;
}

static void put_state(weir_writer *t, const weir_policy *p)
{
    uint64_t low = state_bytes(p, 0), high = state_bytes(p, WEIR_LEVEL_MAX);
    weir_write_str(t, "state         ");
    weir_write_u64(t, low);
    if (high != low) {
        weir_write_str(t, " to ");
        weir_write_u64(t, high);
    }
    weir_write_str(t, " bytes a key\n");
}

size_t weir_policy_report(const weir_policy *p, char *buf, size_t size)
{
    weir_writer t = weir_writer_init(buf, size);
    for (uint32_t i = 0; i < p->layers; i++) {
        const weir_layer *l = &p->layer[i];
        put_layer(&t, l);
        weir_write_char(&t, '\n');
        report_layer(&t, l);
    }
    put_state(&t, p);
    return t.len;
}
