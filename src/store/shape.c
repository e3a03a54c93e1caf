/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* A shape is the text of a policy whose limits are all 1, with the formats of its states. The store
 * and the module in Redis share this file. */

#include "store/shape.h"

#include "core/algorithm.h"

#include <string.h>

size_t weir_policy_shape(const weir_policy *p, char *buf, size_t size)
{
    weir_policy shape = *p;
    for (uint32_t i = 0; i < p->layers; i++) {
        weir_layer *l = &shape.layer[i];
        l->limit = l->rate = 1;
        l->nodelay = 0;
        l->count_denied = false;
    }
    size_t len = weir_policy_print(&shape, buf, size);
    for (uint32_t i = 0; i < p->layers && len + 2 < size; i++) {
        const weir_layer *l = &p->layer[i];
        buf[len++] = weir_layer_is_bucket(l) ? '~' : (char)('0' + l->format);
    }
    return len;
}

bool weir_store_keeps(const weir_policy *a, const weir_policy *b)
{
    char x[WEIR_POLICY_TEXT_MAX], y[WEIR_POLICY_TEXT_MAX];
    size_t len = weir_policy_shape(a, x, sizeof x);
    return len == weir_policy_shape(b, y, sizeof y) && memcmp(x, y, len) == 0;
}
