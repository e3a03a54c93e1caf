/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* Escapes JSON strings. The bytes come from clients and may be anything. */

#include "codec/answer/json.h"

static void put(void *ctx, const char *at, size_t len)
{
    weir_buffer_append(ctx, at, len);
}

void weir_json_put_string(weir_buffer *b, const void *bytes, size_t len)
{
    weir_buffer_append_byte(b, '"');
    weir_text_escape(bytes, len, WEIR_JSON_REPLY, put, b);
    weir_buffer_append_byte(b, '"');
}

void weir_buffer_put_number(weir_buffer *b, const char *at, size_t len, int64_t v)
{
    weir_buffer_append(b, at, len);
    if (weir_buffer_reserve(b, WEIR_I64_MAX_LEN))
        weir_buffer_added(b, weir_i64_print((char *)weir_buffer_tail(b), v));
}
