/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_CODEC_METRICS_H
#define WEIR_CODEC_METRICS_H
/* What has been counted, as Prometheus reads it (text exposition format 0.0.4). */

#include "port/buffer.h"
#include "service/service.h"

/* Adds the metrics of the decisions and of the store.
 *  version  of weir, for weir_build_info. */
void weir_metrics_put(weir_buffer *out, weir_limiter *limiter, const char *version);

/* Adds one metric without labels, with its HELP and TYPE lines.
 *  type  "counter" or "gauge".
 *  help  one line, no backslash in it. */
void weir_metrics_put_one(weir_buffer *out, const char *name, const char *type, const char *help,
                          uint64_t value);

/* Adds the keys that weigh most, WEIR_TOP_K of each policy and verdict, if they are weighed: at
 * most WEIR_METRICS_KEYS_MAX in all. Two keys never have the same labels. */
#define WEIR_METRICS_KEYS_MAX 1000
void weir_metrics_put_top(weir_buffer *out, weir_service *s, int64_t now_ns);

/* Adds a label value with its quotes. */
void weir_metrics_put_label(weir_buffer *out, const char *value);

#endif
