/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_CORE_SPEC_H
#define WEIR_CORE_SPEC_H
/* What the core is proved against: docs/algorithms.md in the words of ACSL, over mathematical integers, which cannot
 * overflow. A compiler sees only comments here; `tools/proof` reads them, and docs/proof.md says what is carried. A layer
 * predicate says what weir_layer_init() guarantees of a layer of that format, and nothing more. */

#include <weir/weir.h>

#include "core/wide.h"

/*@ lemma quotient: \forall integer n, d; n >= 0 && d > 0 ==>
  @     0 <= n / d <= n && (n / d) * d <= n < (n / d + 1) * d;
  @ lemma below: \forall integer n, m, d; n >= 0 && d > 0 && n < m * d ==> n / d <= m - 1;
  @ lemma reached: \forall integer n, m, d; n >= 0 && d > 0 && n >= m * d ==> n / d >= m;
  @*/

/*@ predicate time_ok(integer now) = 0 <= now <= WEIR_NOW_NS_MAX;
  @ predicate cost_ok(integer cost) = 0 <= cost <= WEIR_COST_MAX;
  @
  @ // ---- the 8-byte TAT: T is den ns, and C*T is cap_lo
  @
  @ predicate tat_ns_layer(weir_layer *g) =
  @     \valid_read(g) && g->format == WEIR_STATE_TAT_NS && 1 <= g->limit <= WEIR_LIMIT_MAX &&
  @     1 <= g->den && g->cap_lo == g->limit * g->den && g->cap_lo <= WEIR_SPAN_NS_MAX;
  @
  @ logic integer tat_of(uint64_t *state) = (int64_t)*state;
  @ logic integer backlog(integer tat, integer now) = tat > now ? tat - now : 0;
  @
  @ predicate tat_fits(weir_layer *g, integer backlog, integer cost) =
  @     backlog + cost * g->den <= g->cap_lo;
  @ predicate tat_allows(weir_layer *g, integer tat, integer now, integer cost) =
  @     tat_fits(g, backlog(tat, now), cost);
  @
  @ // Denied until retry_after_ns has gone by, allowed from then on.
  @ predicate tat_retry(weir_layer *g, integer tat, integer now, integer cost, weir_decision *d) =
  @     (d->never <==> cost > g->limit) &&
  @     (d->never ==> !d->allowed && d->retry_after_ns == INT64_MAX) &&
  @     (d->allowed ==> d->retry_after_ns == 0) &&
  @     (!d->allowed && !d->never ==> d->retry_after_ns > 0 &&
  @         tat_allows(g, tat, now + d->retry_after_ns, cost) &&
  @         !tat_allows(g, tat, now + d->retry_after_ns - 1, cost));
  @
  @ // The largest cost that passes at a backlog, 0 if none does.
  @ predicate tat_remaining(weir_layer *g, integer backlog, integer left) =
  @     0 <= left <= g->limit && !tat_fits(g, backlog, left + 1) &&
  @     (tat_fits(g, backlog, left) || left == 0);
  @
  @ // ---- the 16-byte TAT: a clock in ticks of 1/num ns, or in tokens that come in steps
  @
  @ logic integer unit(weir_layer *g) =
  @     g->format == WEIR_STATE_TAT_STEPS ? 1 : g->den;
  @ logic integer capacity(weir_layer *g) = wide_of(g->cap_hi, g->cap_lo);
  @ logic integer clock(weir_layer *g, integer t) =
  @     g->format == WEIR_STATE_TAT_STEPS ? t / g->period_ns * g->rate : t * g->num;
  @
  @ predicate tat_wide_layer(weir_layer *g) =
  @     \valid_read(g) && 1 <= g->limit <= WEIR_LIMIT_MAX && 1 <= g->rate <= WEIR_RATE_MAX &&
  @     1 <= g->period_ns <= WEIR_SPAN_NS_MAX && 1 <= g->num <= g->rate &&
  @     1 <= g->den <= g->period_ns &&
  @     (g->format == WEIR_STATE_TAT_TICKS || g->format == WEIR_STATE_TAT_STEPS) &&
  @     capacity(g) == g->limit * unit(g);
  @
  @ logic integer wide_tat(uint64_t *state) = wide_of(state[0], state[1]);
  @ predicate wide_fits(weir_layer *g, integer backlog, integer cost) =
  @     backlog + cost * unit(g) <= capacity(g);
  @ predicate wide_allows(weir_layer *g, integer tat, integer t, integer cost) =
  @     wide_fits(g, backlog(tat, clock(g, t)), cost);
  @
  @ // The clock has moved on by `distance` after wait_ns, and not earlier; INT64_MAX if that is
  @ // later than an int64 can say.
  @ predicate moves_on(weir_layer *g, integer now, integer distance, integer wait_ns) =
  @     0 < wait_ns && clock(g, now + wait_ns - 1) < clock(g, now) + distance &&
  @     (wait_ns == INT64_MAX || clock(g, now + wait_ns) >= clock(g, now) + distance);
  @*/

#endif
