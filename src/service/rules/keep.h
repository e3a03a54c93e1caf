/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_SERVICE_RULES_KEEP_H
#define WEIR_SERVICE_RULES_KEEP_H
/* What a request keeps for others, as text: "20" units, or "20%" of each limit. */

#include "port/text.h"

#include <weir/weir.h>

/* Completes an error about such a text. */
#define WEIR_KEEP_EXPECTED                                                                         \
    "expected a whole number from 0 to 2147483647, or a share of the limit from 0% to 100%"

/* Reads such a text, as the `keep` of weir_check_keep(). Returns false for any other text, and then
 * does not write *ret. Pure. */
static inline bool weir_keep_read(weir_slice text, int64_t *ret)
{
    int64_t n;
    bool share = text.len > 0 && text.at[text.len - 1] == '%';
    if (!weir_i64_read(text.at, text.len - share, &n) || n < 0 || n > (share ? 100 : WEIR_COST_MAX))
        return false;
    *ret = share ? WEIR_KEEP_PERCENT(n) : n;
    return true;
}

#endif
