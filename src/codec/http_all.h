/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_CODEC_HTTP_ALL_H
#define WEIR_CODEC_HTTP_ALL_H
/* The endpoints that take from several keys at once, and those that take for the time being; for
 * http_answer.c. Each makes exactly one answer of parameters that were read. */

#include "codec/http_params.h"

/* /v1/takeall. Returns false if an engine is asked. */
bool weir_http_take_all(const weir_http_options *o, weir_completion *completion,
                        const weir_http_params *p, int64_t now_ns, weir_http_answer *a);

/* /v1/reserve; the ask was read. */
void weir_http_reserve(const weir_http_options *o, const weir_http_params *p, weir_request *ask,
                       int64_t now_ns, weir_http_answer *a);

/* /v1/commit, which has an `actual`, and /v1/cancel, which has none. */
void weir_http_commit(const weir_http_options *o, const weir_http_params *p, bool has_actual,
                      int64_t now_ns, weir_http_answer *a);

#endif
