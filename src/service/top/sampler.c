/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* Sampling: draws one unit of each interval. */

#include "service/top/sampler.h"

#include "port/assert.h"

uint64_t weir_sampler_random(uint64_t *state)
{
    WEIR_ASSERT(*state != 0);
    uint64_t x = *state;
    x ^= x << 13;
    x ^= x >> 7;
    x ^= x << 17;
    return *state = x;
}

static uint64_t draw(weir_sampler *s, uint64_t *random)
{
    return s->at = weir_sampler_random(random) & ((UINT64_C(1) << s->shift) - 1);
}

void weir_sampler_begin(weir_sampler *s, int64_t *left, uint64_t *random)
{
    WEIR_ASSERT(s->next <= WEIR_SAMPLER_SHIFT_MAX);
    s->shift = s->next;
    *left = (int64_t)draw(s, random) + 1;
}

uint64_t weir_sampler_hit(weir_sampler *s, int64_t *left, uint64_t *random)
{
    unsigned shift = s->shift;
    uint64_t interval = UINT64_C(1) << shift;
    WEIR_ASSERT(*left <= 0 && s->at < interval);
    /* The units from the start of the interval to the end of the request. The request ends -*left
     * units after the drawn unit. */
    uint64_t done = s->at + 1 + (uint64_t) - *left;
    uint64_t hits = 1, intervals = done >> shift;
    done &= interval - 1;
    if (intervals > 0)
        hits += intervals - 1; /* intervals entirely within the request */
    if (intervals > 0 && done > 0) {
        uint64_t at = draw(s, random);
        if (at >= done) {
            *left = (int64_t)(at - done) + 1;
            return hits << shift;
        }
        hits++;
    }
    weir_sampler_begin(s, left, random);
    if (done > 0)
        *left += (int64_t)(interval - done); /* skip the rest of this interval */
    return hits << shift;
}
