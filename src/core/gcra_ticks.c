/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* GCRA in ticks of 1/num ns, in 64-bit arithmetic. The decisions are those of gcra_wide.c. The TAT
 * is given as a number of ns and a rest. Quantities that might overflow are refused. */

#include "core/gcra.h"

#include "port/assert.h"

/* With a TAT at most 2^44 ns (4.9 hours) ahead and num up to 2^16, the backlog is below 2^60. A
 * capacity below 2^62 then leaves no sum above 2^63. */
enum { AHEAD_BITS = 44, NUM_BITS = 16, CAPACITY_BITS = 62 };

static uint64_t div_ceil(uint64_t n, uint64_t d)
{
    return n / d + (n % d != 0);
}

/* Returns the delay of an allowed leaky-queue request. `backlog` is the one before its charge. */
static int64_t delay_at(const weir_layer *g, uint64_t backlog)
{
    uint64_t undelayed = (uint64_t)g->nodelay * g->den;
    return backlog > undelayed ? (int64_t)div_ceil(backlog - undelayed, g->num) : 0;
}

bool weir_gcra_ticks_check(const weir_layer *g, int64_t *f_ns, uint64_t *rest, int64_t now_ns,
                           int64_t cost, weir_decision *ret)
{
    uint64_t cap = g->cap_lo, ahead_ns = *f_ns > now_ns ? (uint64_t)(*f_ns - now_ns) : 0;
    WEIR_ASSERT(g->format == WEIR_STATE_TAT_TICKS && *rest < g->num);
    if (g->cap_hi != 0 || cap >> CAPACITY_BITS != 0 || g->num >> NUM_BITS != 0 ||
        ahead_ns >> AHEAD_BITS != 0)
        return false;
    uint64_t backlog = ahead_ns > 0 ? ahead_ns * g->num - *rest : 0;
    ret->limit = g->limit;
    ret->never = cost > g->limit;
    ret->allowed = false;
    ret->delay_ns = 0;
    ret->retry_after_ns = INT64_MAX;
    if (!ret->never) {
        uint64_t charge = (uint64_t)cost * g->den, room = cap - charge;
        ret->allowed = backlog <= room;
        ret->retry_after_ns = ret->allowed ? 0 : (int64_t)div_ceil(backlog - room, g->num);
        if (ret->allowed && g->algorithm == WEIR_LEAKY_QUEUE)
            ret->delay_ns = delay_at(g, backlog);
        backlog += ret->allowed ? charge : 0;
    }
    uint64_t reset_ns = div_ceil(backlog, g->num);
    ret->reset_after_ns = (int64_t)reset_ns;
    ret->remaining = backlog < cap ? (int64_t)((cap - backlog) / g->den) : 0;
    if (ret->allowed && cost > 0) {
        *f_ns = now_ns + (int64_t)reset_ns;
        *rest = reset_ns * g->num - backlog;
    }
    return true;
}
