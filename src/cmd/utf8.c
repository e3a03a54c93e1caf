/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* UTF-8, one sequence at a time. It must not know what the text is for. */

#include "cmd/utf8.h"

size_t utf8_len(const unsigned char *at, const unsigned char *end, bool *ret_valid)
{
    unsigned lead = at[0], low = 0x80, high = 0xBF;
    size_t want = lead >= 0xF0 ? 4 : lead >= 0xE0 ? 3 : lead >= 0x80 ? 2 : 1, n = 1;
    *ret_valid = want == 1;
    if (want == 1 || lead < 0xC2 || lead > 0xF4)
        return 1;
    if (lead == 0xE0)
        low = 0xA0; /* else it would be overlong */
    else if (lead == 0xED)
        high = 0x9F; /* surrogates */
    else if (lead == 0xF0)
        low = 0x90;
    else if (lead == 0xF4)
        high = 0x8F; /* U+10FFFF is the last */
    while (n < want && at + n < end && at[n] >= low && at[n] <= high) {
        n++;
        low = 0x80;
        high = 0xBF;
    }
    *ret_valid = n == want;
    return n;
}
