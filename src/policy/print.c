/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* A policy as text: the canonical form, and a report in plain words of what it admits. */

#include "core/layer.h"
#include "core/wide.h"
#include "policy/text.h"
#include "policy/units.h"

#include <weir/weir_zone.h>

static void put_number(weir_text *t, const char *before, int64_t n)
{
    weir_text_str(t, before);
    weir_text_u64(t, (uint64_t)n);
}

static bool has_calendar(const weir_layer *l)
{
    return l->calendar >= WEIR_DAY;
}

static void put_rate(weir_text *t, const weir_layer *l)
{
    put_number(t, " ", l->rate);
    weir_text_char(t, '/');
    if (has_calendar(l))
        weir_text_str(t, weir_calendar_words[l->calendar - WEIR_DAY].name);
    else
        weir_text_period(t, l->period_ns, 1);
}

static void put_refill(weir_text *t, const weir_layer *l)
{
    put_number(t, " ", l->limit);
    weir_text_str(t, " refill");
    if (!l->stepped) {
        put_rate(t, l);
        return;
    }
    put_number(t, " ", l->rate);
    weir_text_str(t, " every ");
    weir_text_period(t, l->period_ns, 0);
}

static void put_options(weir_text *t, const weir_layer *l)
{
    if (has_calendar(l) && l->zone) {
        weir_text_str(t, " tz ");
        weir_text_str(t, l->zone->name);
    }
    if (l->calendar == WEIR_FROM_FIRST)
        weir_text_str(t, " from-first");
    if (l->count_denied)
        weir_text_str(t, " count-denied");
    if (l->relaxed)
        weir_text_str(t, " relaxed");
    if (l->slices > 0)
        put_number(t, " slices ", l->slices);
}

static void put_layer(weir_text *t, const weir_layer *l)
{
    weir_text_str(t, weir_algorithm_names[l->algorithm]);
    if (l->algorithm == WEIR_TOKEN_BUCKET)
        put_refill(t, l);
    else
        put_rate(t, l);
    if (l->algorithm == WEIR_GCRA)
        put_number(t, " burst ", l->limit);
    if (l->algorithm == WEIR_LEAKY_BUCKET)
        put_number(t, " capacity ", l->limit);
    if (l->algorithm == WEIR_LEAKY_QUEUE)
        put_number(t, " depth ", l->limit - 1);
    put_options(t, l);
}

size_t weir_policy_print(const weir_policy *p, char *buf, size_t size)
{
    weir_text t = weir_text_init(buf, size);
    for (uint32_t i = 0; i < p->layers; i++) {
        if (i > 0)
            weir_text_str(&t, " & ");
        put_layer(&t, &p->layer[i]);
    }
    return t.len;
}

/* "one every 10ms", or "one every 1s/3" where that is not whole ns; for rates above one a ns,
 * nothing. */
static void put_interval(weir_text *t, const weir_layer *l)
{
    if (l->den < l->num)
        return;
    weir_text_str(t, ", one every ");
    if (l->num == 1) {
        weir_text_period(t, (int64_t)l->den, 0);
        return;
    }
    weir_text_period(t, l->period_ns, 0);
    put_number(t, "/", l->rate);
}

/* ", exactly 7200 a day": the sustained rate in a unit that peers can be compared in. */
static void put_a_day(weir_text *t, const weir_layer *l)
{
    enum { A_DAY = 7 };
    uint64_t day_ns = (uint64_t)weir_units[A_DAY - 1].ns, period_ns = (uint64_t)l->period_ns;
    weir_wide units = weir_wide_mul((uint64_t)l->rate, day_ns);
    uint64_t floor = weir_wide_div_floor(units, period_ns);
    weir_text_str(t, floor == weir_wide_div_ceil(units, period_ns) ? ": exactly " : ": ");
    weir_text_u64(t, floor);
    if (floor != weir_wide_div_ceil(units, period_ns))
        weir_text_char(t, '+');
    weir_text_str(t, " a day");
}

static void report_bucket(weir_text *t, const weir_layer *l)
{
    put_number(t, "  sustained   ", l->rate);
    weir_text_str(t, " every ");
    weir_text_period(t, l->period_ns, 0);
    if (l->stepped)
        weir_text_str(t, ", all at once at each multiple of it since 1970");
    else
        put_interval(t, l);
    put_a_day(t, l);
    put_number(t, "\n  at once     ", l->limit);
    if (l->algorithm == WEIR_LEAKY_QUEUE)
        put_number(t, ": one is served, and at most so many wait: ", l->limit - 1);
    weir_text_str(t, "\n  worst case  ");
    weir_text_u64(t, (uint64_t)l->limit + (uint64_t)l->rate - !l->stepped);
    weir_text_str(t, " within ");
    weir_text_period(t, l->period_ns, 0);
    weir_text_str(t, ": what was saved up and what came in\n");
}

static void put_window(weir_text *t, const weir_layer *l)
{
    if (has_calendar(l)) {
        weir_text_str(t, "calendar ");
        weir_text_str(t, weir_calendar_words[l->calendar - WEIR_DAY].name);
        weir_text_str(t, " of ");
        weir_text_str(t, l->zone ? l->zone->name : "UTC");
    } else {
        weir_text_period(t, l->period_ns, 0);
        if (l->calendar == WEIR_FROM_FIRST)
            weir_text_str(t, ", from the key's first request");
    }
}

/* Days and weeks of UTC are all of one length. Others vary, and a span as long as the longest may
 * hold a shorter one whole, with the end of the one before and the start of the one after. */
static bool lengths_vary(const weir_layer *l)
{
    return has_calendar(l) && (l->zone || l->calendar >= WEIR_MONTH);
}

/* The most that can pass in a half-open span as long as the (longest) window. */
static int64_t worst_case(const weir_layer *l)
{
    switch (l->algorithm) {
    case WEIR_SLIDING_LOG:
        return l->limit;
    case WEIR_SLIDING_COUNTER:
        return 2 * l->limit - !l->relaxed;
    case WEIR_FIXED_WINDOW:
        if (l->calendar == WEIR_FROM_FIRST) /* what began the window lies outside the span */
            return 2 * l->limit - 1;
        return (lengths_vary(l) ? 3 : 2) * l->limit;
    default:
        return 2 * l->limit;
    }
}

static void report_window(weir_text *t, const weir_layer *l)
{
    put_number(t, "  sustained   ", l->limit);
    weir_text_str(t, " every ");
    put_window(t, l);
    if (!has_calendar(l))
        put_a_day(t, l);
    put_number(t, "\n  at once     ", l->limit);
    put_number(t, "\n  worst case  ", worst_case(l));
    weir_text_str(t,
                  lengths_vary(l) ? " within the longest window" : " within the window's length");
    if (l->algorithm == WEIR_FIXED_WINDOW)
        weir_text_str(t, lengths_vary(l) ? ": the end of one, a short one, the start of the next"
                                         : ": the end of one and the start of the next");
    if (l->algorithm == WEIR_SLIDING_COUNTER)
        weir_text_str(t, ", if the window before was used at its very end");
    if (l->algorithm == WEIR_SLIDING_SLICES)
        weir_text_str(t, "; the limit within what is one slice shorter");
    if (l->count_denied)
        weir_text_str(t, "\n  denials     count: a client that goes on asking stays denied");
    weir_text_char(t, '\n');
}

/* In 64 bits: where size_t has 32, weir_state_words() need not fit at a level that memory
 * cannot. */
static uint64_t state_bytes(const weir_policy *p, unsigned level)
{
    uint64_t words = 0;
    for (uint32_t i = 0; i < p->layers; i++)
        words += weir_layer_words(&p->layer[i], level);
    return words * 8;
}

static void put_state(weir_text *t, const weir_policy *p)
{
    uint64_t low = state_bytes(p, 0), high = state_bytes(p, WEIR_LEVEL_MAX);
    weir_text_str(t, "state         ");
    weir_text_u64(t, low);
    if (high != low) {
        weir_text_str(t, " to ");
        weir_text_u64(t, high);
    }
    weir_text_str(t, " bytes a key\n");
}

size_t weir_policy_report(const weir_policy *p, char *buf, size_t size)
{
    weir_text t = weir_text_init(buf, size);
    for (uint32_t i = 0; i < p->layers; i++) {
        const weir_layer *l = &p->layer[i];
        put_layer(&t, l);
        weir_text_char(&t, '\n');
        if (l->algorithm <= WEIR_LEAKY_QUEUE)
            report_bucket(&t, l);
        else
            report_window(&t, l);
    }
    put_state(&t, p);
    return t.len;
}
