/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_CORE_SLIDING_LOG_H
#define WEIR_CORE_SLIDING_LOG_H
/* sliding-log: every charge is kept with its time; L(now) is the sum of those in (now - W, now].
 *
 *     allowed  iff  L(now) + cost <= N,   and then   log (now, cost)
 *
 * Bound (P1): sum(cost in (t - W, t]) <= N for every t. count_denied: denied costs are logged too;
 * only the latest N units are kept, since more than N never changes a verdict.
 *
 * State (WEIR_STATE_LOG): a ring of `cap` entries, cap = min(N, 4 << level). Words: {head in the
 * low half and len in the high half; base; cap stamps in ns; cap running totals of 32 bits, two a
 * word}. An entry's running total, modulo 2^32, is taken after it; `base` is the total before the
 * head. So any sum is one subtraction and any search is binary. Equal stamps share an entry. A
 * clock behind the latest stamp is read as that stamp. */

#include <weir/weir.h>

size_t weir_log_words(const weir_layer *l, unsigned level);

/* Copies a state of `level` into one of `level + 1`. */
void weir_log_grow(const weir_layer *l, const uint64_t *from, unsigned level, uint64_t *to);

/* False if the state cannot have been written by this file. Every other function asks for a sound
 * state. */
bool weir_log_sound(const weir_layer *l, const uint64_t *state, unsigned level);

/* Would charging `cost` at now_ns need a larger ring? Never at the level where cap = N. */
bool weir_log_full(const weir_layer *l, const uint64_t *state, unsigned level, int64_t now_ns,
                   int64_t cost);

/* Would `cost` be allowed? now_ns 0..WEIR_NOW_NS_MAX, cost 0..WEIR_COST_MAX. Pure. */
bool weir_log_allows(const weir_layer *l, const uint64_t *state, unsigned level, int64_t now_ns,
                     int64_t cost);

/* Decides and logs; fills all of *ret but `layer`. Writes *state if cost > 0 and it is allowed, or
 * denied and to be counted; then it must not be full. Work: the logarithm of the entries. */
void weir_log_check(const weir_layer *l, uint64_t *state, unsigned level, int64_t now_ns,
                    int64_t cost, bool count_denied, weir_decision *ret);

/* The time at which the log decides: now_ns, or the latest stamp if that is later. Pure. */
int64_t weir_log_time(const weir_layer *l, const uint64_t *state, unsigned level, int64_t now_ns);

/* Takes `cost` of the units that were charged at charged_ns or before out of the log, the latest
 * first. Work: the logarithm of the entries, and each that was stamped after charged_ns. */
void weir_log_refund(const weir_layer *l, uint64_t *state, unsigned level, int64_t charged_ns,
                     int64_t now_ns, int64_t cost);

/* The words that weir_log_check() at now_ns may write, or with `refund` units weir_log_refund() of
 * the latest charge: see weir_state_writes(). Work: the logarithm of the entries. */
enum { WEIR_LOG_WRITES = 5 };
size_t weir_log_writes(const weir_layer *l, const uint64_t *state, unsigned level, int64_t now_ns,
                       int64_t refund, size_t ret[WEIR_LOG_WRITES]);

#endif
