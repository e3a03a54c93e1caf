/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_CORE_SPEC_H
#define WEIR_CORE_SPEC_H
/* What the core is proved against: docs/algorithms.md in the words of ACSL, over mathematical integers, which cannot
 * overflow. A compiler sees only comments here; `tools/proof` reads them, and docs/proof.md says what is carried. A layer
 * predicate says what weir_layer_init() guarantees of a layer of that format, and nothing more. */

#include <weir/weir.h>

/*@ lemma quotient: \forall integer n, d; n >= 0 && d > 0 ==>
  @     0 <= n / d <= n && (n / d) * d <= n < (n / d + 1) * d;
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
  @ predicate tat_allows(weir_layer *g, integer tat, integer now, integer cost) =
  @     backlog(tat, now) + cost * g->den <= g->cap_lo;
  @
  @ // Denied until retry_after_ns has gone by, allowed from then on.
  @ predicate tat_retry(weir_layer *g, integer tat, integer now, integer cost, weir_decision *d) =
  @     d->limit == g->limit && (d->never <==> cost > g->limit) && (d->never ==> !d->allowed) &&
  @     (d->allowed ==> d->retry_after_ns == 0) &&
  @     (d->never ==> d->retry_after_ns == INT64_MAX) &&
  @     (!d->allowed && !d->never ==> d->retry_after_ns > 0 &&
  @         tat_allows(g, tat, now + d->retry_after_ns, cost) &&
  @         !tat_allows(g, tat, now + d->retry_after_ns - 1, cost));
  @
  @ // remaining: the largest cost that passes now, 0 if none does. reset: until there is no backlog.
  @ predicate tat_figures(weir_layer *g, integer tat, integer now, weir_decision *d) =
  @     (tat_allows(g, tat, now, 0) ?
  @         tat_allows(g, tat, now, d->remaining) && !tat_allows(g, tat, now, d->remaining + 1) &&
  @             0 <= d->remaining <= g->limit :
  @         d->remaining == 0) &&
  @     d->reset_after_ns == backlog(tat, now);
  @*/

#endif
