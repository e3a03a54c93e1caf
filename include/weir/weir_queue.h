/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_WEIR_QUEUE_H
#define WEIR_WEIR_QUEUE_H
/* The leaky bucket as a real queue: what is pushed comes out in order, spaced by the rate. It holds
 * what waits and says when the next is due; the loop that waits, whichever it is, is the caller's.
 *
 *     weir_policy_parse(&p, "leaky-queue 10/s depth 20", ...);
 *     weir_queue_item room[21];
 *     weir_queue_init(&q, &p, room, 21);
 *     weir_queue_push(&q, now_ns, 1, id, &d);          // d.allowed, d.delay_ns; denied if 20 wait
 *     while (weir_queue_pop(&q, now_ns, &item)) ...     // everything due, in order
 *     weir_queue_next(&q, &due_ns)                      // arm a timer for it
 */

#include <weir/weir.h>

#ifdef __cplusplus
extern "C" {
#endif
#if defined(__GNUC__) && !defined(__wasm__)
#pragma GCC visibility push(default)
#endif

typedef struct weir_queue_item {
    uint64_t id;    /* the caller's; a pointer fits */
    int64_t due_ns; /* when it may leave */
    int64_t cost;
} weir_queue_item;

/* Placed by the caller; the fields belong to the functions below. */
typedef struct weir_queue {
    const weir_policy *policy;
    weir_queue_item *items; /* a ring */
    size_t capacity, head, len;
    uint64_t state[2];
} weir_queue;

/* Makes an empty queue.
 *  policy    one leaky-queue layer; must outlive the queue.
 *  items     room for `capacity` items; capacity >= depth + 1 takes all that the policy can admit
 *            at once.
 * Returns WEIR_OK; WEIR_E_UNSUPPORTED for another policy; WEIR_E_RANGE if capacity is 0. *ret is
 * written on success. */
WEIR_NODISCARD weir_status weir_queue_init(weir_queue *ret, const weir_policy *policy,
                                           weir_queue_item *items, size_t capacity);

/* Puts an item at the end if the policy allows it.
 *  now_ns  0..WEIR_NOW_NS_MAX.  cost  1..WEIR_COST_MAX.
 *  ret     the decision; if allowed, the item is due at now_ns + delay_ns.
 * Returns WEIR_OK (a denial is an answer: nothing was queued); WEIR_E_RANGE; WEIR_E_FULL if the
 * ring holds `capacity` items, due ones that nobody popped included: then nothing was charged.
 * Threads: the caller owns the queue. */
WEIR_NODISCARD weir_status weir_queue_push(weir_queue *q, int64_t now_ns, int64_t cost, uint64_t id,
                                           weir_decision *ret);

/* Takes the first item if it is due at now_ns. Returns false, with *ret as it was, if none is. */
bool weir_queue_pop(weir_queue *q, int64_t now_ns, weir_queue_item *ret);

/* When the first item is due. Returns false, with *ret_due_ns as it was, if the queue is empty. */
bool weir_queue_next(const weir_queue *q, int64_t *ret_due_ns);

#if defined(__GNUC__) && !defined(__wasm__)
#pragma GCC visibility pop
#endif
#ifdef __cplusplus
}
#endif

#endif
