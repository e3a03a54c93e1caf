/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* sliding-counter. Both variants test x <= N*W + slack, where x is the left side in
 * windows.h. The slack is 0 for strict. It is W - 1 for relaxed: for whole numbers, x < (N + 1)*W
 * is the same as x <= N*W + (W - 1). */

#include "core/windows.h"

#include "core/wide.h"
#include "port/assert.h"

typedef struct view { /* the windows at the later of now and the stored window's start */
    int64_t start_ns;
    int64_t overlap_ns; /* 1..W: how much of the previous window still counts */
    int64_t behind_ns;  /* how far now is before the stored window, else 0 */
    int64_t prev, cur;
} view;

static view view_at(const weir_layer *c, const uint64_t *state, int64_t now_ns)
{
    int64_t w_ns = c->period_ns, start_ns = (int64_t)state[0];
    int64_t prev = (uint32_t)state[1], cur = (int64_t)(state[1] >> 32);
    if (start_ns < 0 || start_ns > WEIR_NOW_NS_MAX)
        start_ns = prev = cur = 0; /* damaged: treat as never charged */
    int64_t at_ns = start_ns > now_ns ? start_ns : now_ns;
    int64_t age_ns = at_ns - start_ns;
    if (age_ns >= 2 * w_ns) {
        prev = cur = 0;
        start_ns = at_ns - at_ns % w_ns;
    } else if (age_ns >= w_ns) {
        prev = cur;
        cur = 0;
        start_ns += w_ns;
    }
    WEIR_ASSERT(start_ns <= at_ns && at_ns - start_ns < w_ns);
    return (view){start_ns, w_ns - (at_ns - start_ns), at_ns - now_ns, prev, cur};
}

static uint64_t slack(const weir_layer *c)
{
    return c->relaxed ? (uint64_t)c->period_ns - 1 : 0;
}

/* Returns units*W + slack: the largest prev*overlap that leaves `units` of the limit free. units is
 * 0..WEIR_LIMIT_MAX. */
static weir_wide budget(const weir_layer *c, int64_t units)
{
    return weir_wide_add(weir_wide_mul((uint64_t)units, (uint64_t)c->period_ns),
                         (weir_wide){0, slack(c)});
}

static weir_wide weighted(const view *v)
{
    return weir_wide_mul((uint64_t)v->prev, (uint64_t)v->overlap_ns);
}

static bool fits(const weir_layer *c, const view *v, int64_t cost)
{
    int64_t units = c->limit - v->cur - cost;
    return units >= 0 && !weir_wide_less(budget(c, units), weighted(v));
}

/* Returns the wait for a denied cost <= limit. If cur leaves enough of the limit, the request is
 * allowed once the overlap of prev has shrunk to `enough`. Otherwise cur first becomes prev, and
 * its overlap shrinks to `enough` in the next window. */
static int64_t retry_after(const weir_layer *c, const view *v, int64_t cost)
{
    int64_t units = c->limit - v->cur - cost;
    uint64_t enough, wait_ns = (uint64_t)v->overlap_ns;
    WEIR_ASSERT(cost <= c->limit && !fits(c, v, cost));
    if (units >= 0) {
        enough = weir_wide_div_floor(budget(c, units), (uint64_t)v->prev);
    } else {
        enough = weir_wide_div_floor(budget(c, c->limit - cost), (uint64_t)v->cur);
        wait_ns += (uint64_t)c->period_ns;
    }
    return weir_ns_clamp(wait_ns - enough + (uint64_t)v->behind_ns);
}

static int64_t reset_after(const weir_layer *c, const view *v)
{
    uint64_t wait_ns = (uint64_t)v->overlap_ns, enough;
    if (v->cur > 0) {
        enough = slack(c) / (uint64_t)v->cur;
        wait_ns += (uint64_t)c->period_ns;
    } else if (v->prev > 0) {
        enough = slack(c) / (uint64_t)v->prev;
    } else {
        return 0;
    }
    return wait_ns <= enough ? 0 : weir_ns_clamp(wait_ns - enough + (uint64_t)v->behind_ns);
}

static int64_t remaining(const weir_layer *c, const view *v)
{
    uint64_t w_ns = (uint64_t)c->period_ns;
    weir_wide up = weir_wide_add(weighted(v), (weir_wide){0, w_ns - 1 - slack(c)});
    int64_t rest = c->limit - v->cur - (int64_t)weir_wide_div_floor(up, w_ns);
    return rest > 0 ? rest : 0;
}

static void write(uint64_t *state, const view *v)
{
    state[0] = (uint64_t)v->start_ns;
    state[1] = (uint64_t)v->cur << 32 | (uint64_t)v->prev;
}

bool weir_counter_allows(const weir_layer *c, const uint64_t *state, int64_t now_ns, int64_t cost)
{
    view v = view_at(c, state, now_ns);
    return fits(c, &v, cost);
}

void weir_counter_check(const weir_layer *c, uint64_t *state, int64_t now_ns, int64_t cost,
                        weir_decision *ret)
{
    view v = view_at(c, state, now_ns);
    ret->limit = c->limit;
    ret->allowed = fits(c, &v, cost);
    ret->never = cost > c->limit;
    ret->delay_ns = 0;
    ret->retry_after_ns = 0;
    if (!ret->allowed)
        ret->retry_after_ns = ret->never ? INT64_MAX : retry_after(c, &v, cost);
    if (ret->allowed && cost > 0) {
        v.cur += cost;
        write(state, &v);
    }
    ret->remaining = remaining(c, &v);
    ret->reset_after_ns = reset_after(c, &v);
}

int64_t weir_counter_start(const weir_layer *c, const uint64_t *state, int64_t now_ns)
{
    return view_at(c, state, now_ns).start_ns;
}

void weir_counter_counts(const weir_layer *c, const uint64_t *state, int64_t now_ns,
                         int64_t *ret_current, int64_t *ret_previous)
{
    view v = view_at(c, state, now_ns);
    *ret_current = v.cur;
    *ret_previous = v.prev;
}

void weir_counter_refund(const weir_layer *c, uint64_t *state, int64_t charged_ns, int64_t now_ns,
                         int64_t cost)
{
    view v = view_at(c, state, now_ns);
    if (charged_ns < v.start_ns - c->period_ns)
        return;
    int64_t from_cur = charged_ns < v.start_ns ? 0 : cost < v.cur ? cost : v.cur;
    int64_t from_prev = cost - from_cur < v.prev ? cost - from_cur : v.prev;
    if (from_cur + from_prev == 0)
        return;
    v.cur -= from_cur;
    v.prev -= from_prev;
    write(state, &v);
}
