/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_CODEC_JSON_H
#define WEIR_CODEC_JSON_H
/* JSON strings, and numbers, into a buffer. It must not know what they are for. */

#include "port/buffer.h"
#include "port/text.h"

/* Adds a JSON string with its quotes. What is not UTF-8 among the bytes becomes U+FFFD, one for
 * each byte, so that the result is always valid. */
void weir_json_put_string(weir_buffer *b, const void *bytes, size_t len);

/* Adds text, and a number: as a printf of "%s%lld" would. */
void weir_buffer_put(weir_buffer *b, const char *text, int64_t v);

#endif
