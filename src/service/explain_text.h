/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_SERVICE_EXPLAIN_TEXT_H
#define WEIR_SERVICE_EXPLAIN_TEXT_H
/* The text of EXPLAIN, for the daemon and the Redis module. Each line ends with "\n". It must not
 * know who made the decision. */

#include "port/buffer.h"

#include <weir/weir.h>

/* Writes "key      ...": the first 200 bytes of the key. Control characters and backslashes are
 * written as \\xhh. */
void weir_explain_key(weir_buffer *out, const char *key, size_t len);

/* Writes the remaining quota, when the full quota is back, and when the next request is allowed.
 *  d         a peek with cost 1 at now_ns.
 *  shadowed  the limit denies the request, but the rule is in shadow. */
void weir_explain_state(weir_buffer *out, const weir_policy *p, const weir_decision *d,
                        bool shadowed, int64_t now_ns);

#endif
