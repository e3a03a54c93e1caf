/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* Blocks. The end of a block is at most WEIR_NOW_NS_MAX + WEIR_SPAN_NS_MAX, which fits in int64_t.
 * The time at which it is forgotten may not, so only differences of times are computed. */

#include "core/block.h"

#include "core/spec.h"
#include "port/assert.h"

_Static_assert(WEIR_NOW_NS_MAX <= INT64_MAX - WEIR_SPAN_NS_MAX, "now + length must fit in int64_t");

/*@ requires \valid_read(state);
  @ assigns \nothing;
  @ ensures \result == block_end(state) >= 0; */
static int64_t end_of(const uint64_t *state)
{
    int64_t end_ns = (int64_t)state[0];
    return end_ns > 0 ? end_ns : 0;
}

/* How long the last block is remembered after its end. */
/*@ requires block_layer(b) && block_state(b, state);
  @ assigns \nothing;
  @ ensures \result == block_memory(b, state) && 0 <= \result <= b->longest_ns; */
static int64_t memory_of(const weir_layer *b, const uint64_t *state)
{
    int64_t length_ns = b->longest_ns > 0 ? (int64_t)state[1] : 0;
    if (length_ns < 0)
        return 0;
    return length_ns < b->longest_ns ? length_ns : b->longest_ns;
}

/*@ requires \valid_read(state) && time_ok(now_ns);
  @ assigns \nothing;
  @ ensures \result == backlog(block_end(state), now_ns) >= 0; */
static int64_t left_at(const uint64_t *state, int64_t now_ns)
{
    int64_t end_ns = end_of(state);
    return end_ns > now_ns ? end_ns - now_ns : 0;
}

/*@ requires block_layer(b) && block_state(b, state) && time_ok(now_ns);
  @ assigns \nothing;
  @ ensures \result ==
  @     min_of(backlog(block_end(state) + block_memory(b, state), now_ns), INT64_MAX); */
static int64_t forgotten_after(const weir_layer *b, const uint64_t *state, int64_t now_ns)
{
    int64_t memory_ns = memory_of(b, state), left_ns = left_at(state, now_ns);
    if (left_ns > 0)
        return left_ns < INT64_MAX - memory_ns ? left_ns + memory_ns : INT64_MAX;
    int64_t since_ns = now_ns - end_of(state);
    return since_ns < memory_ns ? memory_ns - since_ns : 0;
}

/*@ requires \valid_read(state) && time_ok(now_ns);
  @ assigns \nothing;
  @ ensures \result <==> block_end(state) <= now_ns; */
bool weir_block_allows(const uint64_t *state, int64_t now_ns)
{
    return left_at(state, now_ns) == 0;
}

/*@ requires block_layer(b) && block_state(b, state) && time_ok(now_ns) && cost_ok(cost);
  @ requires \valid(ret) && \separated(b, state + (0 .. 1), ret);
  @ assigns *ret;
  @ ensures verdict: ret->allowed <==> block_end(state) <= now_ns;
  @ ensures never: ret->never <==> !ret->allowed && cost > b->limit;
  @ ensures retry: ret->retry_after_ns ==
  @     (ret->never ? INT64_MAX : backlog(block_end(state), now_ns));
  @ ensures reset: ret->reset_after_ns ==
  @     min_of(backlog(block_end(state) + block_memory(b, state), now_ns), INT64_MAX);
  @ ensures remaining: ret->remaining == (ret->allowed ? INT64_MAX : 0);
  @ ensures others: ret->limit == b->limit && ret->delay_ns == 0; */
void weir_block_check(const weir_layer *b, const uint64_t *state, int64_t now_ns, int64_t cost,
                      weir_decision *ret)
{
    int64_t left_ns = left_at(state, now_ns);
    ret->limit = b->limit;
    ret->allowed = left_ns == 0;
    ret->never = !ret->allowed && cost > b->limit;
    ret->retry_after_ns = ret->never ? INT64_MAX : left_ns;
    ret->reset_after_ns = forgotten_after(b, state, now_ns);
    ret->remaining = ret->allowed ? INT64_MAX : 0;
    ret->delay_ns = 0;
}

/*@ requires block_layer(b) && block_state(b, state) && time_ok(now_ns);
  @ requires \valid(state) && (b->longest_ns == 0 || \valid(state + (0 .. 1)));
  @ requires \separated(b, state + (0 .. 1)) && block_end(state) <= now_ns;
  @ assigns state[0 .. 1];
  @ ensures end: tat_of(state) == now_ns + \old(block_length(b, state, now_ns)) > now_ns;
  @ ensures kept: b->longest_ns == 0 ==> state[1] == \old(state[1]);
  @ ensures length: b->longest_ns > 0 ==>
  @     second_of(state) == \old(block_length(b, state, now_ns)); */
void weir_block_begin(const weir_layer *b, uint64_t *state, int64_t now_ns)
{
    int64_t length_ns = b->period_ns, memory_ns = memory_of(b, state);
    WEIR_ASSERT(weir_block_allows(state, now_ns));
    if (now_ns - end_of(state) < memory_ns)
        length_ns = memory_ns < b->longest_ns - memory_ns ? 2 * memory_ns : b->longest_ns;
    if (b->longest_ns > 0)
        state[1] = (uint64_t)length_ns;
    state[0] = (uint64_t)(now_ns + length_ns);
}
