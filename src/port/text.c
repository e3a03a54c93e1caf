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

bool weir_utf8_is_invisible(const char *at, size_t len)
{
    static const struct {
        uint32_t first, last;
    } ranges[] = {
        {0x00AD, 0x00AD},   {0x034F, 0x034F},   {0x0600, 0x0605},   {0x061C, 0x061C},
        {0x06DD, 0x06DD},   {0x070F, 0x070F},   {0x0890, 0x0891},   {0x08E2, 0x08E2},
        {0x115F, 0x1160},   {0x17B4, 0x17B5},   {0x180B, 0x180F},   {0x200B, 0x200F},
        {0x2028, 0x202E},   {0x2060, 0x206F},   {0x3164, 0x3164},   {0xFE00, 0xFE0F},
        {0xFEFF, 0xFEFF},   {0xFFA0, 0xFFA0},   {0xFFF0, 0xFFFB},   {0x110BD, 0x110BD},
        {0x110CD, 0x110CD}, {0x13430, 0x1343F}, {0x1BCA0, 0x1BCA3}, {0x1D173, 0x1D17A},
        {0xE0000, 0xE0FFF},
    };
    uint32_t c = weir_utf8_code_point(at, len);
    for (size_t i = 0; i < sizeof ranges / sizeof ranges[0] && ranges[i].first <= c; i++) {
        if (c <= ranges[i].last)
            return true;
    }
    return false;
}
