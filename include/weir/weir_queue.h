/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_WEIR_QUEUE_H
#define WEIR_WEIR_QUEUE_H
/* The leaky bucket as a FIFO queue: items that are pushed can be popped in order, spaced by the
 * rate. The queue stores the waiting items and reports when the next one is due. The caller's event
 * loop does the waiting.
 *
 *     weir_policy_parse(&p, "leaky-queue 10/s depth 20", ...);
 *     weir_queue_item items[21];
 *     weir_queue_init(&q, &p, items, 21);
 *     weir_queue_push(&q, now_ns, 1, id, &d);          // d.allowed, d.delay_ns; denied if 20 wait
 *     while (weir_queue_pop(&q, now_ns, &item)) ...     // every item that is due
 *     weir_queue_next(&q, &due_ns)                      // set a timer to it
 *
 * With `nodelay 8` in the policy, the first 8 items that would wait are due at once.
 */

#include <weir/weir.h>

#ifdef __cplusplus
extern "C" {
#endif
#if defined(__GNUC__) && !defined(__wasm__)
#pragma GCC visibility push(default)
#endif

typedef struct weir_queue_item {
    uint64_t id;    /* chosen by the caller; large enough for a pointer */
    int64_t due_ns; /* when it can be popped */
    int64_t cost;
} weir_queue_item;

/* The caller allocates it. Only the functions below use the fields. */
typedef struct weir_queue {
    const weir_policy *policy;
    weir_queue_item *items; /* a ring buffer */
    size_t capacity, head, len;
    uint64_t state[2];
} weir_queue;

/* Initialises an empty queue.
 *  policy    one leaky-queue layer; must outlive the queue.
 *  items     an array of `capacity` items; must outlive the queue. With capacity >= depth + 1 it
 *            holds everything that the policy can allow at once.
 * Returns WEIR_OK; WEIR_E_UNSUPPORTED for any other policy; WEIR_E_RANGE if capacity is 0. *ret is
 * written only on WEIR_OK. */
WEIR_NODISCARD weir_status weir_queue_init(weir_queue *ret, const weir_policy *policy,
                                           weir_queue_item *items, size_t capacity);

/* Appends an item if the policy allows it.
 *  now_ns  0..WEIR_NOW_NS_MAX.
 *  cost    1..WEIR_COST_MAX.
 *  ret     the decision. If it allows the item, the item is due at now_ns + delay_ns; if not, it
 *          was not queued. Written only on WEIR_OK.
 * Returns WEIR_OK, also for a denial; WEIR_E_RANGE; WEIR_E_FULL, with nothing charged, if the queue
 * holds `capacity` items, including due items that have not been popped.
 * Threads: the caller owns the queue. */
WEIR_NODISCARD weir_status weir_queue_push(weir_queue *q, int64_t now_ns, int64_t cost, uint64_t id,
                                           weir_decision *ret);

/* Removes the first item if it is due at now_ns. Returns false and leaves *ret unchanged if it is
 * not due, or if the queue is empty. */
bool weir_queue_pop(weir_queue *q, int64_t now_ns, weir_queue_item *ret);

/* Reports when the first item is due. Returns false and leaves *ret_due_ns unchanged if the queue
 * is empty. */
bool weir_queue_next(const weir_queue *q, int64_t *ret_due_ns);

#if defined(__GNUC__) && !defined(__wasm__)
#pragma GCC visibility pop
#endif
#ifdef __cplusplus
}
#endif

#endif
