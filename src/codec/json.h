/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_CODEC_JSON_H
#define WEIR_CODEC_JSON_H
/* JSON strings, and numbers, into a buffer. It must not know what they are for. */

#include "port/buffer.h"

/* Adds a JSON string with its quotes. What is not UTF-8 among the bytes becomes U+FFFD, one for
 * each byte, so that the result is always valid. */
void weir_json_put_string(weir_buffer *b, const void *bytes, size_t len);

/* The length of the UTF-8 sequence at the front of `at`, which has 1 byte or more; 0 if there is
 * none: Unicode, table 3-7. Pure. */
size_t weir_utf8_len(const uint8_t *at, size_t len);

/* Writes a number in decimal, without a NUL. Returns its length. */
#define WEIR_I64_MAX_LEN 20
size_t weir_i64_print(char *buf, int64_t v);

/* Adds text, and a number: as a printf of "%s%lld" would. */
void weir_buffer_put(weir_buffer *b, const char *text, int64_t v);

#endif
