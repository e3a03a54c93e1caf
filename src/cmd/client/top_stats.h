/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_CMD_CLIENT_TOP_STATS_H
#define WEIR_CMD_CLIENT_TOP_STATS_H
/* What `weir top` knows of a daemon: samples of its counters, from INFO, the limits of its
 * policies, from WEIR.POLICY LIST, and the top keys of one policy, from WEIR.TOP. Replies are
 * copied, so they need not stay valid. All functions are pure. */

#include "codec/resp/reply_reader.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    TOP_NAME_MAX = 64,
    TOP_LIMIT_MAX = 120, /* bytes of a limit's text, with the terminator; longer ones are cut */
    TOP_POLICIES_MAX = 4100,
    TOP_RULES_MAX = 1024,
    TOP_BUCKETS = 24, /* [i]: up to 2^(i+7) ns; the last one: or longer */
    TOP_KEYS_MAX = 50,
    TOP_KEY_TEXT_MAX = 128,
    TOP_NOTE_MAX = 200
};

typedef struct top_counts {
    uint64_t allowed, denied, shadowed, allow_listed, deny_listed, failed, unreached;
} top_counts;

typedef struct top_policy {
    char name[TOP_NAME_MAX + 1];
    top_counts counts; /* since the daemon was started */
} top_policy;

typedef struct top_sample {
    int64_t at_ns; /* on the caller's steady clock */
    char version[32];
    uint64_t uptime_s, connections, connections_max;
    uint64_t keys, bytes, bytes_max, evicted, refused;
    uint64_t latency[TOP_BUCKETS]; /* decisions */
    size_t policies;
    top_policy policy[TOP_POLICIES_MAX];
} top_sample;

/* Reads the text of INFO. Fields that it does not have are 0.
 *  ret  written only on success.
 * Returns false if this is not the INFO of a weir daemon. */
bool top_read_info(const weir_resp_reply *reply, int64_t at_ns, top_sample *ret);

/* Requests per second between two samples. */
typedef struct top_rates {
    double decided, denied, shadowed, failed;
} top_rates;

/* The rates of now->policy[i] since `before`; all zero if `before` is NULL, not earlier, or of
 * another run of the daemon, whose counters were larger. */
top_rates top_policy_rates(const top_sample *before, const top_sample *now, size_t i);

/* An estimate of a quantile of the latencies between two samples, in ns: linear within the bucket,
 * as histogram_quantile() of Prometheus. Negative if there was no decision.
 *  q  0..1. */
double top_latency_ns(const top_sample *before, const top_sample *now, double q);

typedef struct top_rule {
    char name[TOP_NAME_MAX + 1];
    char limit[TOP_LIMIT_MAX];
    bool shadow;
} top_rule;

typedef struct top_rules {
    size_t len;
    top_rule rule[TOP_RULES_MAX];
} top_rules;

/* Reads the reply of WEIR.POLICY LIST. Returns false, and ret->len is 0, if it is something
 * else. */
bool top_read_rules(const weir_resp_reply *reply, top_rules *ret);

/* NULL if there is no such rule. */
const top_rule *top_find_rule(const top_rules *rules, const char *name);

typedef struct top_key {
    char text[TOP_KEY_TEXT_MAX]; /* any bytes */
    size_t len;
    bool cut; /* the key is longer than `text` */
    int64_t units, at_least, requests;
} top_key;

typedef struct top_keys {
    char policy[TOP_NAME_MAX + 1];
    bool allowed; /* the list of allowed requests, else of denied ones */
    size_t len;
    top_key key[TOP_KEYS_MAX];
    char note[TOP_NOTE_MAX]; /* why there are no keys; or "" */
} top_keys;

/* Reads the reply of WEIR.TOP, which may be an error: `note` says it then. Leaves `policy` and
 * `allowed` as they are. Returns false if it is something else. */
bool top_read_keys(const weir_resp_reply *reply, top_keys *ret);

#endif
