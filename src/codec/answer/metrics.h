/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_CODEC_ANSWER_METRICS_H
#define WEIR_CODEC_ANSWER_METRICS_H
/* The counters that /metrics, INFO and /v1/live print, as tables; and metrics in the text format of
 * Prometheus (exposition format 0.0.4). */

#include "port/buffer.h"
#include "service/service.h"
#include "service/top/top.h"
#include "service/users/users.h"

/* A counter or a gauge, which is an uint64_t member of a struct of statistics. */
typedef struct weir_counter {
    const char *name;    /* in /metrics, without its prefix */
    const char *info;    /* in INFO, without its prefix; NULL: not there */
    const char *live;    /* in /v1/live; NULL: not there */
    unsigned info_place; /* in INFO, from 0 on */
    bool is_gauge;       /* if not, /metrics appends "_total" to the name */
    const char *help;
    size_t offset; /* of the member */
} weir_counter;

/* Of weir_counts, by verdict; in /v1/live, the place in an array. */
#define WEIR_VERDICTS 7
extern const weir_counter weir_verdict_counters[WEIR_VERDICTS];

/* Of weir_store_stats. */
#define WEIR_STORE_COUNTERS 8
extern const weir_counter weir_store_counters[WEIR_STORE_COUNTERS];

/* Of weir_partition_stats. */
#define WEIR_PARTITION_COUNTERS 5
extern const weir_counter weir_partition_counters[WEIR_PARTITION_COUNTERS];

/* The value of a counter in its struct of statistics. */
static inline uint64_t weir_counter_value(const weir_counter *c, const void *stats)
{
    uint64_t value;
    memcpy(&value, (const char *)stats + c->offset, sizeof value);
    return value;
}

/* Appends the metrics of decisions and of the store.
 *  version  of weir, for weir_build_info.
 *  user     who sees only some policies; NULL sees all. */
void weir_metrics_put(weir_buffer *out, weir_limiter *limiter, const char *version,
                      const weir_user *user);

/* Appends one metric without labels, with its HELP and TYPE lines.
 *  type  "counter" or "gauge".
 *  help  one line without a backslash. */
void weir_metrics_put_one(weir_buffer *out, const char *name, const char *type, const char *help,
                          uint64_t value);

/* Appends the top keys: at most WEIR_TOP_K for each policy and verdict, and at most
 * WEIR_METRICS_KEYS_MAX in total. Two keys never have the same labels. Appends nothing if top keys
 * are disabled. */
#define WEIR_METRICS_KEYS_MAX 1000
void weir_metrics_put_top(weir_buffer *out, weir_service *s, int64_t now_ns, const weir_user *user);

/* Removes the keys that a user may not use from a list of top keys. */
void weir_top_hide_keys(weir_top *top, const weir_user *user);

/* Appends a label value with its quotes. */
void weir_metrics_put_label(weir_buffer *out, const char *value);

#endif
