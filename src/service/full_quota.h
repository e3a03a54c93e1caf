/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_SERVICE_FULL_QUOTA_H
#define WEIR_SERVICE_FULL_QUOTA_H
/* Figures of decisions that no state is needed for. */

#include <weir/weir.h>

/* Of a fresh key, of which nothing is asked: those of the layer with the lowest limit. Pure. */
static inline weir_decision weir_full_quota(const weir_policy *p)
{
    weir_decision d = {.limit = INT64_MAX, .allowed = true};
    for (uint32_t i = 0; i < p->layers; i++) {
        if (p->layer[i].limit < d.limit) {
            d.limit = p->layer[i].limit;
            d.layer = i;
        }
    }
    d.remaining = d.limit;
    return d;
}

#endif
