/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_CODEC_DENIAL_BODY_H
#define WEIR_CODEC_DENIAL_BODY_H
/* The operator's template for the body of a denial: a text in which {retry_after} and other
 * placeholders are replaced. The nginx module uses it too. This file must not know messages. */

#include "codec/answer_fields.h"
#include "port/buffer.h"

#define WEIR_DENIAL_BODY_MAX 16384 /* bytes of a template */

/* Checks a template. A '{' that is followed by lower-case letters or '_' and a '}' must be one of
 * {policy} {limit} {remaining} {cost} {retry_after} {retry_after_ms} {reset_after} {reset_at};
 * every other brace stands for itself, so that JSON needs no escaping. Pure.
 *  ret_at  the offset of an unknown placeholder or a NUL byte; 0 if the text is too long.
 * Returns NULL, or what is wrong; static. */
const char *weir_denial_body_check(const char *text, size_t len, size_t *ret_at);

/* The name of placeholder i, 0.., without braces; NULL after the last. Static. */
const char *weir_denial_body_placeholder(size_t i);

/* The longest body that a template can become: the policy's name replaces a name of 8 bytes. */
#define WEIR_DENIAL_BODY_ROOM (WEIR_DENIAL_BODY_MAX / 8 * WEIR_RATELIMIT_NAME_MAX)

/* Appends the body, at most WEIR_DENIAL_BODY_ROOM bytes. Times are whole seconds, rounded up, but
 * retry_after_ms; reset_at is in seconds since the epoch. Times that do not apply, because waiting
 * does not help, are 0.
 *  text  a template that weir_denial_body_check() accepts.
 *  cost  of the denied request. */
void weir_denial_body_put(weir_buffer *out, const char *text, const weir_answered *a, int64_t cost,
                          int64_t now_ns);

#endif
