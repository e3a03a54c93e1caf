/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* The facts of the algorithms, one row each. */

#include "core/algorithm.h"

enum {
    COUNTS_ALONE = WEIR_CAN_REFUND | WEIR_CAN_SHARE,
    DRAINS = COUNTS_ALONE | WEIR_CAN_LEASE | WEIR_CAN_DRAIN_EVENLY,
};

static const weir_algorithm_facts facts[] = {
    [WEIR_GCRA] = {"gcra", WEIR_FAMILY_BUCKET, DRAINS},
    [WEIR_TOKEN_BUCKET] = {"token-bucket", WEIR_FAMILY_BUCKET, DRAINS},
    [WEIR_LEAKY_BUCKET] = {"leaky-bucket", WEIR_FAMILY_BUCKET, DRAINS},
    [WEIR_LEAKY_QUEUE] = {"leaky-queue", WEIR_FAMILY_BUCKET, 0}, /* others queue behind a request */
    [WEIR_FIXED_WINDOW] = {"fixed-window", WEIR_FAMILY_WINDOW,
                           COUNTS_ALONE | WEIR_CAN_EMPTY_AT_ONCE},
    [WEIR_SLIDING_LOG] = {"sliding-log", WEIR_FAMILY_WINDOW, COUNTS_ALONE},
    [WEIR_SLIDING_COUNTER] = {"sliding-counter", WEIR_FAMILY_WINDOW, COUNTS_ALONE},
    [WEIR_SLIDING_SLICES] = {"sliding-slices", WEIR_FAMILY_WINDOW, COUNTS_ALONE},
};

_Static_assert(sizeof facts / sizeof facts[0] == WEIR_ALGORITHMS, "each algorithm has a row");

const weir_algorithm_facts *weir_facts_of(weir_algorithm algorithm)
{
    return &facts[algorithm];
}

bool weir_layer_can(const weir_layer *l, unsigned can)
{
    unsigned supported = facts[l->algorithm].can;
    if (l->count_denied)
        supported &= ~(unsigned)(WEIR_CAN_REFUND | WEIR_CAN_SHARE);
    if (l->stepped)
        supported &= ~(unsigned)WEIR_CAN_DRAIN_EVENLY;
    return (supported & can) == can;
}

bool weir_policy_can(const weir_policy *p, unsigned can)
{
    for (uint32_t i = 0; i < p->layers; i++) {
        if (!weir_layer_can(&p->layer[i], can))
            return false;
    }
    return true;
}
