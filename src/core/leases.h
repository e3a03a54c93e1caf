/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_CORE_LEASES_H
#define WEIR_CORE_LEASES_H
/* concurrent: units that are held until they are given back, or until their lease ends. H(now) is
 * the sum of the units whose lease ends after now.
 *
 *     allowed  iff  H(now) + cost <= N,   and then   hold cost until at + lease
 *
 * `at` is the later of now and (latest end - P): if the clock steps back, no lease ends earlier
 * because of it. Bound (P1): H(t) <= N for every t.
 *
 * State (WEIR_STATE_LEASES): the ring buffer of a sliding-log, with the ends of leases as its
 * timestamps; see windows.h for its words, weir_log_words() and weir_log_grow(). Units whose leases
 * end at the same instant share an entry. A lease that is shorter than P may end before others, and
 * is inserted among them: O(entries behind it). Otherwise times are as those of a sliding-log.
 *
 * The length of a new lease is l->den, which weir_layer_init() sets to P. It may be set to 1..P.
 *
 *   state    sound: see weir_leases_sound().
 *   now_ns   0..WEIR_NOW_NS_MAX.
 *   cost     0..WEIR_COST_MAX. */

#include <weir/weir.h>

/* Returns false if the functions below cannot have written the state. */
bool weir_leases_sound(const weir_layer *l, const uint64_t *state, unsigned level);

/* Returns whether holding `cost` more units needs a larger ring buffer. */
bool weir_leases_full(const weir_layer *l, const uint64_t *state, unsigned level, int64_t now_ns,
                      int64_t cost);

/* Pure. */
bool weir_leases_allows(const weir_layer *l, const uint64_t *state, unsigned level, int64_t now_ns,
                        int64_t cost);

/* Decides, and holds the units if allowed. Sets every field of *ret except `layer`. Returns false,
 * with nothing written, if that needs a larger ring buffer. */
bool weir_leases_check(const weir_layer *l, uint64_t *state, unsigned level, int64_t now_ns,
                       int64_t cost, weir_decision *ret);

/* Returns `at`. Pure. */
int64_t weir_leases_time(const weir_layer *l, const uint64_t *state, unsigned level,
                         int64_t now_ns);

/* Copies a state to a layer with another limit, see weir_state_convert(). If it is lower than what
 * is held, the leases that end first are joined: see weir_ring_convert(). Returns false if the
 * state does not fit at ret_level. */
bool weir_leases_convert(const weir_layer *l, const uint64_t *from, unsigned level,
                         const weir_layer *to, int64_t now_ns, uint64_t *ret, unsigned ret_level);

/* Gives back up to `cost` units, those whose leases end first. */
void weir_leases_refund(const weir_layer *l, uint64_t *state, unsigned level, int64_t now_ns,
                        int64_t cost);

/* Gives back up to `units` units whose lease ends at ends_ns; none if it has ended, or was joined
 * to a later one. Time: O(log len + the entries behind). */
void weir_leases_release(const weir_layer *l, uint64_t *state, unsigned level, int64_t ends_ns,
                         int64_t now_ns, int64_t units);

/* Moves up to `units` units whose lease ends at ends_ns, if it has not ended: it then ends at
 * until_ns, at most the time weir_leases_time() + P. If the lease was joined to a later one, moves
 * those that end next, but none to an earlier time. Returns false, with nothing written, if that
 * needs a larger ring buffer. Time: O(log len + the entries behind the earlier of both), for each
 * entry that units are taken from. */
bool weir_leases_renew(const weir_layer *l, uint64_t *state, unsigned level, int64_t ends_ns,
                       int64_t until_ns, int64_t now_ns, int64_t units);

#endif
