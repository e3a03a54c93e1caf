/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_CORE_SPEC_H
#define WEIR_CORE_SPEC_H
/* The formal specification that the core is proved against: docs/algorithms.md in ACSL, over
 * mathematical integers, which cannot overflow. To a compiler this file is only comments;
 * `tools/proof` runs Frama-C on it, and docs/proof.md lists what is proved. A layer predicate
 * states exactly what weir_layer_init() guarantees for a layer of that format. */

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
  @ // leaky-queue: one request is served and limit - 1 wait, of which K are not delayed.
  @ predicate nodelay_ok(weir_layer *g) = 0 <= g->nodelay < g->limit;
  @
  @ // ---- GCRA with a TAT of one word: T is den ns, and C*T is cap_lo
  @
  @ predicate gcra_layer(weir_layer *g) =
  @     \valid_read(g) && g->format == WEIR_STATE_TAT_NS && 1 <= g->limit <= WEIR_LIMIT_MAX &&
  @     1 <= g->den && g->cap_lo == g->limit * g->den && g->cap_lo <= WEIR_SPAN_NS_MAX;
  @
  @ logic integer tat_of(uint64_t *state) = (int64_t)*state;
  @ logic integer backlog(integer tat, integer now) = tat > now ? tat - now : 0;
  @
  @ logic integer delay(weir_layer *g, integer backlog) =
  @     backlog > g->nodelay * g->den ? backlog - g->nodelay * g->den : 0;
  @
  @ predicate tat_fits(weir_layer *g, integer backlog, integer cost) =
  @     backlog + cost * g->den <= g->cap_lo;
  @ predicate tat_allows(weir_layer *g, integer tat, integer now, integer cost) =
  @     tat_fits(g, backlog(tat, now), cost);
  @
  @ // The request is denied until retry_after_ns have passed, and allowed from then on.
  @ predicate tat_retry(weir_layer *g, integer tat, integer now, integer cost, weir_decision *d) =
  @     (d->never <==> cost > g->limit) &&
  @     (d->never ==> !d->allowed && d->retry_after_ns == INT64_MAX) &&
  @     (d->allowed ==> d->retry_after_ns == 0) &&
  @     (!d->allowed && !d->never ==> d->retry_after_ns > 0 &&
  @         tat_allows(g, tat, now + d->retry_after_ns, cost) &&
  @         !tat_allows(g, tat, now + d->retry_after_ns - 1, cost));
  @
  @ // `left` is the largest cost that is allowed at a backlog, or 0.
  @ predicate tat_remaining(weir_layer *g, integer backlog, integer left) =
  @     0 <= left <= g->limit && !tat_fits(g, backlog, left + 1) &&
  @     (tat_fits(g, backlog, left) || left == 0);
  @
  @ // ---- GCRA with a TAT of two words: its clock counts ticks of 1/num ns, or tokens in steps
  @
  @ logic integer unit(weir_layer *g) =
  @     g->format == WEIR_STATE_TAT_STEPS ? 1 : g->den;
  @ logic integer capacity(weir_layer *g) = wide_of(g->cap_hi, g->cap_lo);
  @ logic integer clock(weir_layer *g, integer t) =
  @     g->format == WEIR_STATE_TAT_STEPS ? t / g->period_ns * g->rate : t * g->num;
  @
  @ predicate gcra_wide_layer(weir_layer *g) =
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
  @ // The clock has advanced by `distance` after wait_ns, and not earlier. INT64_MAX means that
  @ // the wait does not fit in an int64.
  @ predicate moves_on(weir_layer *g, integer now, integer distance, integer wait_ns) =
  @     0 < wait_ns && clock(g, now + wait_ns - 1) < clock(g, now) + distance &&
  @     (wait_ns == INT64_MAX || clock(g, now + wait_ns) >= clock(g, now) + distance);
  @
  @ // ---- fixed-window: the window that contains t, and the count of a state at now
  @
  @ // The contract of a layer's window callback. Assumed.
  @ axiomatic calendar {
  @     logic integer calendar_start(weir_zone *zone, integer unit, integer anchor, integer t);
  @     logic integer calendar_end(weir_zone *zone, integer unit, integer anchor, integer t);
  @     axiom holds: \forall weir_zone *z, integer c, a, t; time_ok(t) ==>
  @         0 <= calendar_start(z, c, a, t) <= t < calendar_end(z, c, a, t) <= INT64_MAX;
  @     axiom one: \forall weir_zone *z, integer c, a, t, u; time_ok(t) && time_ok(u) &&
  @         calendar_start(z, c, a, t) <= u < calendar_end(z, c, a, t) ==>
  @         calendar_start(z, c, a, u) == calendar_start(z, c, a, t) &&
  @         calendar_end(z, c, a, u) == calendar_end(z, c, a, t);
  @     axiom outlasts: \forall weir_zone *z, integer c, a, t; time_ok(t) ==>
  @         calendar_end(z, c, a, t) - calendar_start(z, c, a, t) > WEIR_LIMIT_MAX;
  @ }
  @
  @ predicate calendar(weir_layer *w) = WEIR_DAY <= w->calendar <= WEIR_YEAR;
  @ logic integer start_at(weir_layer *w, integer t) = w->period_ns == 0 ?
  @     calendar_start(w->zone, w->calendar, w->anchor, t) : t / w->period_ns * w->period_ns;
  @ logic integer end_at(weir_layer *w, integer t) = w->period_ns == 0 ?
  @     calendar_end(w->zone, w->calendar, w->anchor, t) : start_at(w, t) + w->period_ns;
  @
  @ predicate window_layer(weir_layer *w) =
  @     \valid_read(w) && 1 <= w->limit <= WEIR_LIMIT_MAX &&
  @     0 <= w->period_ns <= WEIR_SPAN_NS_MAX &&
  @     (calendar(w) <==> w->window != \null) && (calendar(w) <==> w->period_ns == 0) &&
  @     (w->format == WEIR_STATE_WINDOW_WORD || w->format == WEIR_STATE_WINDOW_PAIR) &&
  @     (w->format == WEIR_STATE_WINDOW_WORD ==>
  @         w->calendar != WEIR_FROM_FIRST && (calendar(w) || w->limit < w->period_ns));
  @
  @ logic integer min_of(integer a, integer b) = a < b ? a : b;
  @ logic integer max_of(integer a, integer b) = a > b ? a : b;
  @
  @ // A word is start + count. word_at is an instant in the window that is current.
  @ logic integer word_at(weir_layer *w, integer word, integer now) =
  @     word >= end_at(w, now) ? min_of(word, WEIR_NOW_NS_MAX) : now;
  @ logic integer word_start(weir_layer *w, integer word, integer now) =
  @     start_at(w, word_at(w, word, now));
  @ logic integer word_end(weir_layer *w, integer word, integer now) =
  @     end_at(w, word_at(w, word, now));
  @ logic integer word_count(weir_layer *w, integer word, integer now) =
  @     max_of(0, word - word_start(w, word, now));
  @
  @ // Two words, start and count. A damaged state counts 0.
  @ logic boolean pair_sound(integer start, integer count) =
  @     start >= 0 && start <= WEIR_NOW_NS_MAX && count >= 0;
  @ logic integer pair_from(integer start, integer count) = pair_sound(start, count) ? start : 0;
  @ logic boolean first_runs(weir_layer *w, integer start, integer count, integer now) =
  @     pair_sound(start, count) && count > 0 && now - start < w->period_ns;
  @ logic integer pair_start(weir_layer *w, integer start, integer count, integer now) =
  @     w->calendar == WEIR_FROM_FIRST ? (first_runs(w, start, count, now) ? start : now) :
  @     start_at(w, max_of(pair_from(start, count), now));
  @ logic integer pair_end(weir_layer *w, integer start, integer count, integer now) =
  @     w->calendar == WEIR_FROM_FIRST ? pair_start(w, start, count, now) + w->period_ns :
  @     end_at(w, max_of(pair_from(start, count), now));
  @ logic integer pair_count(weir_layer *w, integer start, integer count, integer now) =
  @     pair_sound(start, count) && (w->calendar == WEIR_FROM_FIRST ?
  @         first_runs(w, start, count, now) : start == pair_start(w, start, count, now)) ?
  @     count : 0;
  @
  @ predicate is_word(weir_layer *w) = w->format == WEIR_STATE_WINDOW_WORD;
  @ logic integer second_of(uint64_t *state) = (int64_t)state[1];
  @ logic integer counted(weir_layer *w, uint64_t *state, integer now) =
  @     w->format == WEIR_STATE_WINDOW_WORD ? word_count(w, tat_of(state), now) :
  @     pair_count(w, tat_of(state), second_of(state), now);
  @ logic integer window_start(weir_layer *w, uint64_t *state, integer now) =
  @     w->format == WEIR_STATE_WINDOW_WORD ? word_start(w, tat_of(state), now) :
  @     pair_start(w, tat_of(state), second_of(state), now);
  @ logic integer window_end(weir_layer *w, uint64_t *state, integer now) =
  @     w->format == WEIR_STATE_WINDOW_WORD ? word_end(w, tat_of(state), now) :
  @     pair_end(w, tat_of(state), second_of(state), now);
  @ predicate window_state(weir_layer *w, uint64_t *state) =
  @     \valid_read(state) && (is_word(w) || \valid_read(state + (0 .. 1)));
  @ predicate window_allows(weir_layer *w, uint64_t *state, integer now, integer cost) =
  @     counted(w, state, now) + cost <= w->limit;
  @
  @ // The request is denied until wait_ns have passed, and allowed from then on.
  @ predicate window_retry(weir_layer *w, uint64_t *state, integer now, integer cost,
  @                        integer wait_ns) =
  @     wait_ns > 0 && (\forall integer t; time_ok(t) && now <= t < now + wait_ns ==>
  @         !window_allows(w, state, t, cost)) &&
  @     (time_ok(now + wait_ns) ==> window_allows(w, state, now + wait_ns, cost));
  @
  @ // ---- block: the end of the last one, and how long it is remembered after that
  @
  @ predicate block_layer(weir_layer *b) =
  @     \valid_read(b) && 1 <= b->period_ns <= WEIR_SPAN_NS_MAX &&
  @     (b->longest_ns == 0 || b->period_ns < b->longest_ns <= WEIR_SPAN_NS_MAX);
  @ predicate block_state(weir_layer *b, uint64_t *state) =
  @     \valid_read(state) && (b->longest_ns == 0 || \valid_read(state + (0 .. 1)));
  @ logic integer block_end(uint64_t *state) = max_of(0, tat_of(state));
  @ logic integer block_memory(weir_layer *b, uint64_t *state) =
  @     b->longest_ns == 0 ? 0 : max_of(0, min_of(second_of(state), b->longest_ns));
  @ logic integer block_length(weir_layer *b, uint64_t *state, integer now) =
  @     now < block_end(state) + block_memory(b, state) ?
  @     min_of(2 * block_memory(b, state), b->longest_ns) : b->period_ns;
  @*/

#endif
