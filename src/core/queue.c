/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* The FIFO queue of leaky-queue: a ring buffer of items, beside the GCRA state that admits them. */

#include <weir/weir_queue.h>

#include "core/algorithm.h"
#include "core/wide.h"
#include "port/assert.h"

weir_status weir_queue_init(weir_queue *ret, const weir_policy *policy, weir_queue_item *items,
                            size_t capacity)
{
    if (policy->layers != 1 || !weir_policy_can(policy, WEIR_CAN_DELAY))
        return WEIR_E_UNSUPPORTED;
    if (capacity == 0)
        return WEIR_E_RANGE;
    ret->policy = policy;
    ret->items = items;
    ret->capacity = capacity;
    ret->head = ret->len = 0;
    ret->state[0] = ret->state[1] = 0;
    return WEIR_OK;
}

weir_status weir_queue_push(weir_queue *q, int64_t now_ns, int64_t cost, uint64_t id,
                            weir_decision *ret)
{
    if (cost < 1)
        return WEIR_E_RANGE;
    if (q->len == q->capacity)
        return WEIR_E_FULL;
    weir_status st = weir_check(q->policy, q->state, 0, now_ns, cost, ret);
    if (st != WEIR_OK || !ret->allowed)
        return st;
    WEIR_ASSERT(q->head < q->capacity && q->len < q->capacity);
    size_t until_wrap = q->capacity - q->head;
    size_t at = q->len < until_wrap ? q->head + q->len : q->len - until_wrap;
    q->items[at] = (weir_queue_item){id, weir_ns_add(now_ns, ret->delay_ns), cost};
    q->len++;
    return WEIR_OK;
}

bool weir_queue_pop(weir_queue *q, int64_t now_ns, weir_queue_item *ret)
{
    if (q->len == 0 || q->items[q->head].due_ns > now_ns)
        return false;
    WEIR_ASSERT(q->head < q->capacity && q->len <= q->capacity);
    *ret = q->items[q->head];
    q->head = q->head + 1 == q->capacity ? 0 : q->head + 1;
    q->len--;
    return true;
}

bool weir_queue_next(const weir_queue *q, int64_t *ret_due_ns)
{
    if (q->len == 0)
        return false;
    *ret_due_ns = q->items[q->head].due_ns;
    return true;
}
