/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* JSON strings out of bytes that a client chose, and decimal numbers. */

#include "codec/json.h"

#include "codec/decimal.h"

size_t weir_utf8_len(const uint8_t *at, size_t len)
{
    uint8_t c = at[0];
    if (c < 0x80)
        return 1;
    if (c < 0xC2 || c > 0xF4)
        return 0;
    size_t n = c < 0xE0 ? 2 : c < 0xF0 ? 3 : 4;
    if (n > len)
        return 0;
    uint8_t low = c == 0xE0 ? 0xA0 : c == 0xF0 ? 0x90 : 0x80;
    uint8_t high = c == 0xED ? 0x9F : c == 0xF4 ? 0x8F : 0xBF;
    if (at[1] < low || at[1] > high)
        return 0;
    for (size_t i = 2; i < n; i++) {
        if (at[i] < 0x80 || at[i] > 0xBF)
            return 0;
    }
    return n;
}

static bool plain(uint8_t c)
{
    return c >= 0x20 && c < 0x7F && c != '"' && c != '\\';
}

static void put_escaped(weir_buffer *b, uint8_t c)
{
    if (c == '"' || c == '\\')
        weir_buffer_printf(b, "\\%c", c);
    else
        weir_buffer_printf(b, "\\u%04x", c);
}

void weir_json_put_string(weir_buffer *b, const void *bytes, size_t len)
{
    const uint8_t *at = bytes;
    weir_buffer_append_byte(b, '"');
    for (size_t i = 0; i < len;) {
        size_t run = i;
        while (run < len && plain(at[run]))
            run++;
        weir_buffer_append(b, at + i, run - i);
        i = run;
        if (i == len)
            break;
        size_t n = weir_utf8_len(at + i, len - i);
        if (n > 1)
            weir_buffer_append(b, at + i, n);
        else if (n == 1)
            put_escaped(b, at[i]);
        else
            weir_buffer_append(b, "\\ufffd", 6);
        i += n ? n : 1;
    }
    weir_buffer_append_byte(b, '"');
}

size_t weir_i64_print(char *buf, int64_t v)
{
    uint64_t rest = v < 0 ? 0 - (uint64_t)v : (uint64_t)v;
    size_t minus = v < 0, len = minus + weir_decimal_len(rest);
    buf[0] = '-'; /* or the first digit is written over it */
    weir_decimal_before((uint8_t *)buf + len, rest);
    return len;
}

void weir_buffer_put(weir_buffer *b, const char *text, int64_t v)
{
    weir_buffer_append(b, text, strlen(text));
    if (weir_buffer_reserve(b, WEIR_I64_MAX_LEN))
        weir_buffer_added(b, weir_i64_print((char *)weir_buffer_tail(b), v));
}
