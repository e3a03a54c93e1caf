/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_SERVICE_FULL_QUOTA_H
#define WEIR_SERVICE_FULL_QUOTA_H
/* A decision that needs no state. A file of its own, since engines and the module use it. */

#include <weir/weir.h>

/* Returns the decision for a peek with cost 0 at an idle key: it is allowed, with the full quota of
 * the layer with the lowest limit. Pure. */
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
