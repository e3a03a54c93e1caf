/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_CODEC_ANSWER_JSON_H
#define WEIR_CODEC_ANSWER_JSON_H
/* Serialises JSON strings and decimal numbers into a buffer. */

#include "port/buffer.h"
#include "port/text.h"

#include <string.h>

/* Appends a JSON string with its quotes. Each byte that is not part of valid UTF-8 becomes U+FFFD,
 * so the result is always valid JSON. */
void weir_json_put_string(weir_buffer *b, const void *bytes, size_t len);

/* Appends `len` bytes and a number. */
void weir_buffer_put_number(weir_buffer *b, const char *at, size_t len, int64_t v);

/* Appends a string and a number, as a printf of "%s%lld" would. The compiler computes the length of
 * a literal. */
static inline void weir_buffer_put(weir_buffer *b, const char *text, int64_t v)
{
    weir_buffer_put_number(b, text, strlen(text), v);
}

#endif
