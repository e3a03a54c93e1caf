/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* A time-to-live is parsed by the parser of the policy language, as the period of a policy text.
 * Only letters and digits are passed to it. */

#include "codec/reservation.h"

#include <weir/weir.h>

#include <string.h>

bool weir_ttl_read(const char *at, size_t len, int64_t *ret)
{
    static const char head[] = "fixed-window 1/";
    enum { HEAD = sizeof head - 1, LEN_MAX = 64 };
    char text[HEAD + LEN_MAX + 1];
    bool plain = true;
    if (len == 0 || len > LEN_MAX || at[0] < '0' || at[0] > '9')
        return false;
    for (size_t i = 0; i < len; i++) {
        bool digit = at[i] >= '0' && at[i] <= '9';
        if (!digit && (at[i] < 'a' || at[i] > 'z'))
            return false;
        plain = plain && digit;
    }
    memcpy(text, head, HEAD);
    memcpy(text + HEAD, at, len);
    text[HEAD + len] = 's';
    weir_policy p;
    if (weir_policy_parse(&p, text, HEAD + len + plain, NULL, NULL) != WEIR_OK ||
        p.layer[0].period_ns < 1)
        return false;
    *ret = p.layer[0].period_ns;
    return true;
}
