/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* Escapes JSON strings. The bytes come from clients and may be anything. */

#include "codec/json.h"

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
    const char *at = bytes;
    weir_buffer_append_byte(b, '"');
    for (size_t i = 0; i < len;) {
        size_t run = i;
        while (run < len && plain((uint8_t)at[run]))
            run++;
        weir_buffer_append(b, at + i, run - i);
        i = run;
        if (i == len)
            break;
        bool valid;
        size_t n = weir_utf8_len(at + i, len - i, &valid);
        if (!valid)
            weir_buffer_append(b, "\\ufffd", 6);
        else if (n > 1)
            weir_buffer_append(b, at + i, n);
        else
            put_escaped(b, (uint8_t)at[i]);
        i += valid ? n : 1;
    }
    weir_buffer_append_byte(b, '"');
}

void weir_buffer_put_number(weir_buffer *b, const char *at, size_t len, int64_t v)
{
    weir_buffer_append(b, at, len);
    if (weir_buffer_reserve(b, WEIR_I64_MAX_LEN))
        weir_buffer_added(b, weir_i64_print((char *)weir_buffer_tail(b), v));
}
