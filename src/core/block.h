/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_CORE_BLOCK_H
#define WEIR_CORE_BLOCK_H
/* block: denies every request for a time after another layer has denied one.
 *
 *     allowed  iff  end <= now
 *     begin         length = the first length, or twice the last one;   end = now + length
 *
 * A request changes nothing while a block is running, so a block ends on time whatever the client
 * does. If the clock steps back, the end stays where it is.
 *
 * WEIR_STATE_BLOCK stores the end. WEIR_STATE_BLOCK_PAIR stores {end, length}: a block doubles if
 * it begins less than `length` after the end of the last one. Any words are safe. */

#include <weir/weir.h>

/* Returns whether no block is running. Pure. */
bool weir_block_allows(const uint64_t *state, int64_t now_ns);

/* Decides. Sets every field of *ret except `layer`, and writes nothing else. A block that allows
 * has a `remaining` of INT64_MAX, so that a decision never describes it.
 *  now_ns  0..WEIR_NOW_NS_MAX.
 *  cost    0..WEIR_COST_MAX. */
void weir_block_check(const weir_layer *b, const uint64_t *state, int64_t now_ns, int64_t cost,
                      weir_decision *ret);

/* Begins a block. None may be running.
 *  now_ns  0..WEIR_NOW_NS_MAX. */
void weir_block_begin(const weir_layer *b, uint64_t *state, int64_t now_ns);

#endif
