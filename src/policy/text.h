/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_POLICY_TEXT_H
#define WEIR_POLICY_TEXT_H
/* Writing text into a bounded buffer without a C library. It knows nothing of policies but how a
 * period is written. */

#include <stddef.h>
#include <stdint.h>

typedef struct weir_text { /* what does not fit is dropped; buf is terminated if size > 0 */
    char *buf;
    size_t size; /* of buf, with the terminator */
    size_t len;  /* without the terminator: at most size - 1 */
} weir_text;

weir_text weir_text_init(char *buf, size_t size);

void weir_text_char(weir_text *t, char c);
void weir_text_str(weir_text *t, const char *s);
void weir_text_bytes(weir_text *t, const char *s, size_t len);
void weir_text_u64(weir_text *t, uint64_t n);

/* A period in its largest whole unit: "90s", "2h", and "1m" or, if bare, "m". ns >= 1. */
void weir_text_period(weir_text *t, int64_t ns, int bare);

#endif
