/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* The generator. A uniform number u of 64 bits becomes an exponential one as -ln(u), with log2 from
 * a table of 1024 steps and linear interpolation; the relative error is below 2^-20. Products have
 * 128 bits, so that nothing depends on floating point. */

#include "cmd/accuracy/traffic.h"

#include "port/random.h"

#include <weir/weir.h>

typedef unsigned __int128 wide;

/* bursty: 1 of 20 requests begins a burst. Within a burst the mean gap is 1/10 of the mean gap of
 * the source, and before it 181/10, since 19/20 * 1/10 + 1/20 * 181/10 = 1. */
enum { BURST = 20, GAP_PARTS = 10, GAP_WITHIN = 1, GAP_BEFORE = 181 };

#define SHARE_FIRST ((uint64_t)1 << 30) /* heavy-tailed: the share of the first source */
#define LN2_Q32     UINT64_C(2977044472)
#define LOG_Q       40

const char *traffic_kind_name(traffic_kind kind)
{
    static const char *const names[TRAFFIC_KINDS] = {"steady", "poisson", "bursty", "heavy-tailed"};
    return names[kind];
}

/* The share of a source, counted from 0, in all requests. */
static uint64_t share(const traffic *t, uint64_t source)
{
    return t->options.kind == TRAFFIC_HEAVY_TAILED ? SHARE_FIRST / (source + 1) : 1;
}

/* Returns log2(1 + i/1024) by squaring, one bit at a time. */
static uint64_t table_log(uint64_t i)
{
    uint64_t x = (((uint64_t)1 << TRAFFIC_LOG_BITS) + i) << (31 - TRAFFIC_LOG_BITS), ret = 0;
    if (i == TRAFFIC_LOG_LEN - 1)
        return (uint64_t)1 << LOG_Q;
    for (int bit = LOG_Q - 1; bit >= 0; bit--) { /* x is 1..2 in units of 2^-31 */
        x = x * x >> 31;
        if (x >> 32) {
            x >>= 1;
            ret |= (uint64_t)1 << bit;
        }
    }
    return ret;
}

bool traffic_init(traffic *ret, const traffic_options *o)
{
    wide span_ns =
        (wide)o->requests * (uint64_t)o->period_ns / ((wide)o->sources * (uint64_t)o->rate);
    if (span_ns > TRAFFIC_SPAN_NS_MAX)
        return false;
    *ret = (traffic){.options = *o, .span_ns = (uint64_t)span_ns};
    for (uint64_t i = 0; i < o->sources; i++)
        ret->shares += share(ret, i);
    for (uint64_t i = 0; i < TRAFFIC_LOG_LEN; i++)
        ret->log[i] = table_log(i);
    return true;
}

/* Returns -log2(u) in units of 2^-40, for a random u in (0, 1]. */
static uint64_t random_log(traffic *t)
{
    uint64_t u = port_random_next(&t->random) | 1;
    unsigned zeros = (unsigned)__builtin_clzll(u);
    uint64_t mantissa = u << zeros << 1; /* without the leading one */
    uint64_t at = mantissa >> (64 - TRAFFIC_LOG_BITS);
    uint64_t rest = mantissa << TRAFFIC_LOG_BITS >> 32;
    uint64_t log = t->log[at] + ((t->log[at + 1] - t->log[at]) * rest >> 32);
    return ((uint64_t)(zeros + 1) << LOG_Q) - log;
}

/* An exponential number with the mean parts/GAP_PARTS * gap_ns. */
static uint64_t random_gap(traffic *t, unsigned parts)
{
    wide gap_ns = (wide)t->gap_unit_ns * random_log(t) >> LOG_Q;
    if (parts != GAP_PARTS)
        gap_ns = gap_ns * parts / GAP_PARTS;
    return gap_ns < (uint64_t)WEIR_NOW_NS_MAX ? (uint64_t)gap_ns : (uint64_t)WEIR_NOW_NS_MAX;
}

static uint64_t next_gap(traffic *t)
{
    switch (t->options.kind) {
    case TRAFFIC_STEADY:
        return t->gap_ns;
    case TRAFFIC_BURSTY: {
        bool begins = (wide)port_random_next(&t->random) * BURST >> 64 == 0;
        return random_gap(t, begins ? GAP_BEFORE : GAP_WITHIN);
    }
    case TRAFFIC_POISSON:
    case TRAFFIC_HEAVY_TAILED:
        break;
    }
    return random_gap(t, GAP_PARTS);
}

/* Moves the time on, at most to the end of time. */
static void move(traffic *t, uint64_t gap_ns)
{
    uint64_t room_ns = (uint64_t)(WEIR_NOW_NS_MAX - t->t_ns);
    t->t_ns += (int64_t)(gap_ns < room_ns ? gap_ns : room_ns);
}

bool traffic_source(traffic *t)
{
    const traffic_options *o = &t->options;
    do {
        if (t->source == o->sources)
            return false;
        uint64_t parts = share(t, t->source++) * o->requests + t->carry;
        t->left = parts / t->shares;
        t->carry = parts % t->shares;
    } while (t->left == 0);
    uint64_t seed = o->seed;
    t->random = port_random_next(&seed) ^ t->source * UINT64_C(0xd1342543de82ef95);
    t->random = port_random_next(&t->random); /* so that the generators have nothing in common */
    t->gap_ns = (t->span_ns + t->left - 1) / t->left;
    t->gap_unit_ns = (uint64_t)((wide)t->gap_ns * LN2_Q32 >> 32);
    t->t_ns = TRAFFIC_BEGIN_NS + (int64_t)((wide)port_random_next(&t->random) * t->gap_ns >> 64);
    return true;
}

bool traffic_next(traffic *t, int64_t *ret_t_ns)
{
    if (t->left == 0)
        return false;
    t->left--;
    *ret_t_ns = t->t_ns;
    move(t, next_gap(t));
    return true;
}
