/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_SERVICE_EXPLAIN_TEXT_H
#define WEIR_SERVICE_EXPLAIN_TEXT_H
/* What EXPLAIN says, in words: lines that end with "\n". It must not know where a decision came
 * from. */

#include "port/buffer.h"

#include <weir/weir.h>

/* "key      ...": the first 200 bytes, those that do not print as \\xhh. */
void weir_explain_key(weir_buffer *out, const char *key, size_t len);

/* What is free now, when all is, and when one more may go.
 *  d         a peek with the cost 1, at now_ns
 *  shadowed  it was denied, but that holds nobody up */
void weir_explain_state(weir_buffer *out, const weir_policy *p, const weir_decision *d,
                        bool shadowed, int64_t now_ns);

#endif
