/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_CODEC_METRICS_H
#define WEIR_CODEC_METRICS_H
/* Metrics in the text format of Prometheus (exposition format 0.0.4). */

#include "port/buffer.h"
#include "service/service.h"

/* Appends the metrics of decisions and of the store.
 *  version  of weir, for weir_build_info. */
void weir_metrics_put(weir_buffer *out, weir_limiter *limiter, const char *version);

/* Appends one metric without labels, with its HELP and TYPE lines.
 *  type  "counter" or "gauge".
 *  help  one line without a backslash. */
void weir_metrics_put_one(weir_buffer *out, const char *name, const char *type, const char *help,
                          uint64_t value);

/* Appends the top keys: at most WEIR_TOP_K for each policy and verdict, and at most
 * WEIR_METRICS_KEYS_MAX in total. Two keys never have the same labels. Appends nothing if top keys
 * are disabled. */
#define WEIR_METRICS_KEYS_MAX 1000
void weir_metrics_put_top(weir_buffer *out, weir_service *s, int64_t now_ns);

/* Appends a label value with its quotes. */
void weir_metrics_put_label(weir_buffer *out, const char *value);

#endif
