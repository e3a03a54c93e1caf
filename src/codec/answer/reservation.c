/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* The times-to-live and the identifiers of reservations. */

#include "codec/answer/reservation.h"

#include "policy/scan.h"
#include "port/duration.h"
#include "port/text.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { TTL_LEN_MAX = 64 };

bool weir_ttl_read(const char *at, size_t len, int64_t *ret)
{
    char seconds[24];
    uint64_t n;
    if (len == 0 || len > TTL_LEN_MAX || weir_digits_read(at, len, &n) < len)
        return weir_duration_read(at, len, ret);
    int text_len = snprintf(seconds, sizeof seconds, "%" PRIu64 "s", n);
    return weir_duration_read(seconds, (size_t)text_len, ret);
}

void weir_ttl_refusal(char ret[static WEIR_TTL_REFUSAL_MAX], const char *place, int64_t ttl_ns)
{
    char found[WEIR_DURATION_MAX];
    weir_duration_print(found, ttl_ns, WEIR_DURATION_WHOLE);
    if (ttl_ns > 0)
        snprintf(ret, WEIR_TTL_REFUSAL_MAX,
                 "%s: expected at most the lease of the policy, found %s", place, found);
    else
        snprintf(ret, WEIR_TTL_REFUSAL_MAX,
                 "%s: expected a duration, because the policy has no concurrent layer, found none",
                 place);
}
