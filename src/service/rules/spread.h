/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_SERVICE_RULES_SPREAD_H
#define WEIR_SERVICE_RULES_SPREAD_H
/* Spreads the waits of denied clients, so that those that are denied together do not come back at
 * the same instant. */

#include "port/text.h"
#include "store/siphash.h"

#include <stdbool.h>

/* Completes an error about a spread. */
#define WEIR_SPREAD_EXPECTED "a share of the wait from 0% to 100%, such as 10%"

/* Reads "10%". Returns false for any other text, and then does not write *ret. Pure.
 *  ret  0..100. */
static inline bool weir_spread_read(weir_slice text, int *ret)
{
    int64_t n;
    if (text.len < 2 || text.at[text.len - 1] != '%' || !weir_i64_read(text.at, text.len - 1, &n) ||
        n < 0 || n > 100)
        return false;
    *ret = (int)n;
    return true;
}

/* What a client waits in addition to wait_s, in whole seconds: 0..ceil(wait_s * percent / 100),
 * each equally often over all keys. The hash has no secret, so the spread of a key is the same in
 * every process. Pure.
 *  percent  0..100.
 *  wait_s   0..INT64_MAX / 1000000000, so that no product overflows. */
static inline int64_t weir_spread_s(int percent, weir_slice name, weir_slice key, int64_t wait_s)
{
    int64_t most_s = (wait_s * percent + 99) / 100;
    if (most_s == 0)
        return 0;
    weir_secret of_name = {weir_siphash((weir_secret){0, 0}, name.at, name.len), 0};
    uint64_t hash = weir_siphash(of_name, key.at, key.len);
    return (int64_t)((unsigned __int128)hash * (uint64_t)(most_s + 1) >> 64);
}

#endif
