/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* UTF-8, one sequence at a time. */

#include "port/text.h"

#include "port/assert.h"

size_t weir_utf8_len(const char *at, size_t len, bool *ret_valid)
{
    WEIR_ASSERT(len >= 1);
    const uint8_t *byte = (const uint8_t *)at;
    unsigned lead = byte[0], low = 0x80, high = 0xBF;
    size_t want = lead >= 0xF0 ? 4 : lead >= 0xE0 ? 3 : lead >= 0x80 ? 2 : 1, n = 1;
    *ret_valid = want == 1;
    if (want == 1 || lead < 0xC2 || lead > 0xF4)
        return 1;
    if (lead == 0xE0)
        low = 0xA0; /* anything lower would be overlong */
    else if (lead == 0xED)
        high = 0x9F; /* excludes surrogates */
    else if (lead == 0xF0)
        low = 0x90; /* anything lower would be overlong */
    else if (lead == 0xF4)
        high = 0x8F; /* U+10FFFF is the last code point */
    while (n < want && n < len && byte[n] >= low && byte[n] <= high) {
        n++;
        low = 0x80;
        high = 0xBF;
    }
    *ret_valid = n == want;
    return n;
}
