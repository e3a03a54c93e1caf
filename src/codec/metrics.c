/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* Serialises the limiter's counters. It must not know the protocol. */

#include "codec/metrics.h"

#include "codec/json.h"
#include "service/top/top.h"

#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

static void put_head(weir_buffer *out, const char *name, const char *type, const char *help)
{
    weir_buffer_printf(out, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, type);
}

void weir_metrics_put_one(weir_buffer *out, const char *name, const char *type, const char *help,
                          uint64_t value)
{
    put_head(out, name, type, help);
    weir_buffer_printf(out, "%s %" PRIu64 "\n", name, value);
}

void weir_metrics_put_label(weir_buffer *out, const char *value)
{
    weir_buffer_append_byte(out, '"');
    for (; *value; value++) {
        if (*value == '\n') {
            weir_buffer_append(out, "\\n", 2);
            continue;
        }
        if (*value == '"' || *value == '\\')
            weir_buffer_append_byte(out, '\\');
        weir_buffer_append_byte(out, (uint8_t)*value);
    }
    weir_buffer_append_byte(out, '"');
}

static void put_count(weir_buffer *out, const char *policy, const char *verdict, uint64_t value)
{
    weir_buffer_printf(out, "weir_decisions_total{policy=");
    weir_metrics_put_label(out, policy);
    weir_buffer_printf(out, ",verdict=\"%s\"} %" PRIu64 "\n", verdict, value);
}

static void put_counts(void *ctx, const char *name, const weir_counts *c)
{
    weir_buffer *out = ctx;
    put_count(out, name, "allowed", c->allowed);
    put_count(out, name, "denied", c->denied);
    put_count(out, name, "shadowed", c->shadowed);
    put_count(out, name, "allow_listed", c->allow_listed);
    put_count(out, name, "deny_listed", c->deny_listed);
    put_count(out, name, "unreached", c->unreached);
    put_count(out, name, "failed", c->failed);
}

static void put_candidate(void *ctx, const char *name, size_t index, const weir_candidate_counts *c)
{
    static const char *const verdicts[] = {"allowed", "denied"};
    const uint64_t value[2][2] = {{c->both_allow, c->only_candidate_denies},
                                  {c->only_current_denies, c->both_deny}};
    weir_buffer *out = ctx;
    (void)index;
    for (int current = 0; current < 2; current++) {
        for (int candidate = 0; candidate < 2; candidate++) {
            weir_buffer_printf(out, "weir_candidate_decisions_total{policy=");
            weir_metrics_put_label(out, name);
            weir_buffer_printf(out, ",current=\"%s\",candidate=\"%s\"} %" PRIu64 "\n",
                               verdicts[current], verdicts[candidate], value[current][candidate]);
        }
    }
}

/* ---- keys ------------------------------------------------------------------------------------ */

/* Appends a key as a label value. Bytes that are not printable UTF-8, and the backslash, become
 * \xHH, so different keys have different labels. A truncated key is followed by its length and
 * hash. */
static void put_key(weir_buffer *out, const weir_top_key *key)
{
    char label[4 * WEIR_TOP_TEXT_MAX + 64];
    size_t len = 0;
    for (size_t i = 0; i < key->text_len;) {
        const uint8_t *at = (const uint8_t *)key->text + i;
        bool valid;
        size_t n = weir_utf8_len(key->text + i, key->text_len - i, &valid);
        if (!valid || *at < 0x20 || *at == 0x7F || *at == '\\') {
            len += (size_t)snprintf(label + len, sizeof label - len, "\\x%02X", *at);
            n = 1;
        } else {
            memcpy(label + len, at, n);
            len += n;
        }
        i += n;
    }
    label[len] = '\0';
    if (key->text_len < key->len)
        snprintf(label + len, sizeof label - len, "\\... %zu bytes #%016" PRIx64, key->len,
                 key->hash);
    weir_metrics_put_label(out, label);
}

typedef struct tops {
    weir_buffer *out;
    weir_limiter *limiter;
    int64_t now_ns;
    size_t left; /* keys that may still be listed */
} tops;

static void put_tops(tops *t, const char *policy)
{
    size_t keys = weir_limiter_top_keys(t->limiter);
    for (int of = 0; of < WEIR_TOP_OFS; of++) {
        weir_top top;
        size_t k = keys < WEIR_TOP_K ? keys : WEIR_TOP_K;
        if (weir_limiter_top(t->limiter, (weir_slice){policy, strlen(policy)}, (weir_top_of)of, k,
                             t->now_ns, &top) != WEIR_OK)
            continue;
        for (size_t i = 0; i < top.len && t->left > 0; i++, t->left--) {
            weir_buffer_printf(t->out, "weir_top_cost{policy=");
            weir_metrics_put_label(t->out, policy);
            weir_buffer_printf(t->out, ",verdict=\"%s\",key=", weir_top_of_name((weir_top_of)of));
            put_key(t->out, &top.key[i]);
            weir_buffer_printf(t->out, "} %" PRId64 "\n", top.key[i].cost);
        }
        weir_top_free(&top);
    }
}

static bool put_tops_of_rule(void *ctx, const weir_rule_view *rule)
{
    tops *t = ctx;
    put_tops(t, rule->name);
    return t->left > 0;
}

void weir_metrics_put_top(weir_buffer *out, weir_service *s, int64_t now_ns)
{
    tops t = {out, weir_service_limiter(s), now_ns, WEIR_METRICS_KEYS_MAX};
    if (weir_limiter_top_keys(t.limiter) == 0)
        return;
    put_head(out, "weir_top_cost", "gauge",
             "Recent cost of the top keys, in units; halves every minute.");
    weir_service_rules(s, put_tops_of_rule, &t);
    put_tops(&t, WEIR_COUNTS_TEXTS);
    put_tops(&t, WEIR_COUNTS_THROTTLE);
}

/* ---- decisions and store --------------------------------------------------------------------- */

/* Appends nanoseconds as exact seconds. */
static void put_seconds(weir_buffer *out, uint64_t ns)
{
    weir_buffer_printf(out, "%" PRIu64 ".%09" PRIu64, ns / 1000000000, ns % 1000000000);
}

/* put_seconds() for a time that may be negative. */
static void put_signed_seconds(weir_buffer *out, int64_t ns)
{
    if (ns < 0)
        weir_buffer_append_byte(out, '-');
    put_seconds(out, ns < 0 ? (uint64_t)-ns : (uint64_t)ns);
}

static void put_latency(weir_buffer *out, const weir_latency *l)
{
    put_head(out, "weir_decision_duration_seconds", "histogram",
             "Time from receiving a batch of requests to deciding all of them.");
    uint64_t count = 0;
    for (unsigned i = 0; i < WEIR_LATENCY_BUCKETS; i++) {
        count += l->count[i];
        if (i == WEIR_LATENCY_BUCKETS - 1)
            break; /* the last bucket has no upper bound */
        weir_buffer_printf(out, "weir_decision_duration_seconds_bucket{le=\"");
        put_seconds(out, UINT64_C(1) << (i + 7));
        weir_buffer_printf(out, "\"} %" PRIu64 "\n", count);
    }
    weir_buffer_printf(out, "weir_decision_duration_seconds_bucket{le=\"+Inf\"} %" PRIu64 "\n",
                       count);
    weir_buffer_printf(out, "weir_decision_duration_seconds_sum ");
    put_seconds(out, l->sum_ns);
    weir_buffer_printf(out, "\nweir_decision_duration_seconds_count %" PRIu64 "\n", count);
}

typedef struct partition_row {
    const char *name, *type, *help;
    size_t offset; /* of the value in weir_partition_stats */
} partition_row;

/* The policies that have memory of their own. */
static void put_partitions(weir_buffer *out, weir_limiter *limiter)
{
    static const partition_row rows[] = {
        {"weir_policy_keys", "gauge", "Keys of a policy that has its own memory.",
         offsetof(weir_partition_stats, keys)},
        {"weir_policy_memory_bytes", "gauge", "Memory used by the keys of the policy.",
         offsetof(weir_partition_stats, memory_bytes)},
        {"weir_policy_memory_max_bytes", "gauge", "Size of a policy's own memory.",
         offsetof(weir_partition_stats, memory_max)},
        {"weir_policy_evicted_total", "counter",
         "Keys without full quota that were evicted because their policy's memory was full.",
         offsetof(weir_partition_stats, evicted)},
        {"weir_policy_refused_total", "counter",
         "Requests for new keys that were refused because their policy's memory was full.",
         offsetof(weir_partition_stats, refused)},
    };
    weir_partition_stats stats[WEIR_PARTITIONS_MAX];
    size_t n = weir_limiter_partitions(limiter, stats, WEIR_PARTITIONS_MAX);
    for (size_t r = 0; r < sizeof rows / sizeof rows[0] && n > 0; r++) {
        put_head(out, rows[r].name, rows[r].type, rows[r].help);
        for (size_t i = 0; i < n; i++) {
            uint64_t value;
            memcpy(&value, (const char *)&stats[i] + rows[r].offset, sizeof value);
            weir_buffer_printf(out, "%s{policy=", rows[r].name);
            weir_metrics_put_label(out, stats[i].name);
            weir_buffer_printf(out, "} %" PRIu64 "\n", value);
        }
    }
}

void weir_metrics_put(weir_buffer *out, weir_limiter *limiter, const char *version)
{
    put_head(out, "weir_build_info", "gauge", "Always 1; the version is the label.");
    weir_buffer_printf(out, "weir_build_info{version=");
    weir_metrics_put_label(out, version);
    weir_buffer_printf(out, "} 1\n");

    put_head(out, "weir_decisions_total", "counter", "Requests decided, by policy and verdict.");
    weir_limiter_counts(limiter, put_counts, out);
    put_head(out, "weir_candidate_decisions_total", "counter",
             "Requests that a candidate decided too, by the verdicts of both limits.");
    weir_limiter_candidates(limiter, put_candidate, out);

    weir_latency latency = weir_limiter_latency(limiter);
    put_latency(out, &latency);

    weir_store_stats store = weir_limiter_store_stats(limiter);
    weir_metrics_put_one(out, "weir_store_keys", "gauge",
                         "Keys stored, including keys with full quota that were not yet removed.",
                         store.keys);
    weir_metrics_put_one(out, "weir_store_memory_bytes", "gauge",
                         "Memory used by the states of keys.", store.memory_bytes);
    weir_metrics_put_one(out, "weir_store_memory_max_bytes", "gauge",
                         "Memory that the states of keys may use.", store.memory_max);
    weir_metrics_put_one(out, "weir_store_evicted_total", "counter",
                         "Keys without full quota that were evicted because the memory was full.",
                         store.evicted);
    weir_metrics_put_one(out, "weir_store_refused_total", "counter",
                         "Refusals of new keys because the memory was full, for requests and "
                         "for candidates.",
                         store.refused);
    weir_metrics_put_one(out, "weir_store_damaged_total", "counter",
                         "Entries of the state file that were damaged and discarded.",
                         store.damaged);
    weir_metrics_put_one(out, "weir_store_sync_failures_total", "counter",
                         "Failed attempts to sync the state file to disk.", store.syncs_failed);
    weir_metrics_put_one(out, "weir_store_reservations", "gauge", "Open reservations.",
                         store.reserved);
    put_partitions(out, limiter);
    put_head(out, "weir_clock_offset_seconds", "gauge",
             "How far the wall clock is ahead of weir's own clock.");
    weir_buffer_printf(out, "weir_clock_offset_seconds ");
    weir_clock_view clock = weir_limiter_clock(limiter);
    put_signed_seconds(out, clock.offset_ns);
    weir_buffer_append_byte(out, '\n');
    weir_metrics_put_one(out, "weir_clock_steps_total", "counter",
                         "How often the wall clock was stepped by more than a second.",
                         clock.steps);
}
