/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* Serialises the limiter's counters. It must not know the protocol. */

#include "codec/answer/metrics.h"

#include "codec/answer/json.h"
#include "port/assert.h"

#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

enum { NAME_MAX_LEN = 48 };

/* ---- the tables ------------------------------------------------------------------------------ */

#define AT(member) .offset = offsetof(weir_counts, member)
const weir_counter weir_verdict_counters[WEIR_VERDICTS] = {
    {"allowed", "allowed", NULL, 0, AT(allowed)},
    {"denied", "denied", NULL, 1, AT(denied)},
    {"shadowed", "shadowed", NULL, 2, AT(shadowed)},
    {"allow_listed", "allow_listed", NULL, 3, AT(allow_listed)},
    {"deny_listed", "deny_listed", NULL, 4, AT(deny_listed)},
    {"unreached", "unreached", NULL, 6, AT(unreached)},
    {"failed", "failed", NULL, 5, AT(failed)},
};
#undef AT
_Static_assert(sizeof(weir_counts) == WEIR_VERDICTS * sizeof(uint64_t), "each has a row");

#define AT(member) offsetof(weir_store_stats, member)
const weir_counter weir_store_counters[WEIR_STORE_COUNTERS] = {
    {"keys", "keys", "keys", 0, true,
     "Keys stored, including keys with full quota that were not yet removed.", AT(keys)},
    {"memory_bytes", "memory_bytes", "bytes", 1, true, "Memory used by the states of keys.",
     AT(memory_bytes)},
    {"memory_max_bytes", "memory_max_bytes", "bytes_max", 3, true,
     "Memory that the states of keys may use.", AT(memory_max)},
    {"evicted", "evicted", "evicted", 2, false,
     "Keys without full quota that were evicted because the memory was full.", AT(evicted)},
    {"refused", "refused", "refused", 4, false,
     "Refusals of new keys because the memory was full, for requests and for candidates.",
     AT(refused)},
    {"damaged", NULL, NULL, 0, false,
     "Entries of the state file that were damaged and discarded, and damaged locks.", AT(damaged)},
    {"sync_failures", NULL, NULL, 0, false, "Failed attempts to sync the state file to disk.",
     AT(syncs_failed)},
    {"reservations", NULL, NULL, 0, true, "Open reservations.", AT(reserved)},
};
#undef AT

#define AT(member) offsetof(weir_partition_stats, member)
const weir_counter weir_partition_counters[WEIR_PARTITION_COUNTERS] = {
    {"keys", "keys", NULL, 0, true, "Keys of a policy that has its own memory.", AT(keys)},
    {"memory_bytes", "bytes", NULL, 1, true, "Memory used by the keys of the policy.",
     AT(memory_bytes)},
    {"memory_max_bytes", "max_bytes", NULL, 2, true, "Size of a policy's own memory.",
     AT(memory_max)},
    {"evicted", "evicted", NULL, 3, false,
     "Keys without full quota that were evicted because their policy's memory was full.",
     AT(evicted)},
    {"refused", "refused", NULL, 4, false,
     "Requests for new keys that were refused because their policy's memory was full.",
     AT(refused)},
};
#undef AT

/* ---- decisions and keys ---------------------------------------------------------------------- */

static void put_head(weir_buffer *out, const char *name, const char *type, const char *help)
{
    weir_buffer_printf(out, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, type);
}

/* Writes the full name to `ret`, of NAME_MAX_LEN bytes. */
static void put_counter_head(weir_buffer *out, const char *prefix, const weir_counter *c, char *ret)
{
    int len = snprintf(ret, NAME_MAX_LEN, "%s%s%s", prefix, c->name, c->is_gauge ? "" : "_total");
    WEIR_ASSERT(len > 0 && len < NAME_MAX_LEN);
    put_head(out, ret, c->is_gauge ? "gauge" : "counter", c->help);
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

/* Metrics for a user. */
typedef struct output {
    weir_buffer *out;
    const weir_user *user;
} output;

static bool sees(const weir_user *user, const char *policy)
{
    return weir_user_sees(user, (weir_slice){policy, strlen(policy)});
}

static void put_counts(void *ctx, const char *name, const weir_counts *c)
{
    const output *to = ctx;
    weir_buffer *out = to->out;
    for (size_t i = 0; i < WEIR_VERDICTS && sees(to->user, name); i++)
        put_count(out, name, weir_verdict_counters[i].name,
                  weir_counter_value(&weir_verdict_counters[i], c));
}

static void put_candidate(void *ctx, const char *name, size_t index, const weir_candidate_counts *c)
{
    static const char *const verdicts[] = {"allowed", "denied"};
    const uint64_t value[2][2] = {{c->both_allow, c->only_candidate_denies},
                                  {c->only_current_denies, c->both_deny}};
    const output *to = ctx;
    weir_buffer *out = to->out;
    (void)index;
    for (int current = 0; current < 2 && sees(to->user, name); current++) {
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
    size_t len = weir_text_escape_to(label, sizeof label, key->text, key->text_len, WEIR_HEX_LABEL);
    if (key->text_len < key->len)
        snprintf(label + len, sizeof label - len, "\\... %zu bytes #%016" PRIx64, key->len,
                 key->hash);
    weir_metrics_put_label(out, label);
}

typedef struct tops {
    weir_buffer *out;
    weir_limiter *limiter;
    int64_t now_ns;
    const weir_user *user;
    size_t left; /* keys that may still be listed */
} tops;

void weir_top_hide_keys(weir_top *top, const weir_user *user)
{
    size_t len = 0;
    for (size_t i = 0; i < top->len; i++) {
        const weir_top_key *key = &top->key[i];
        if (weir_user_has_key(user, (weir_slice){key->text, key->text_len}, NULL))
            top->key[len++] = *key;
    }
    top->len = len;
}

static void put_tops(tops *t, const char *policy)
{
    size_t keys = weir_limiter_top_keys(t->limiter);
    for (int of = 0; of < WEIR_TOP_OFS && sees(t->user, policy); of++) {
        weir_top top;
        size_t k = keys < WEIR_TOP_K ? keys : WEIR_TOP_K;
        if (weir_limiter_top(t->limiter, (weir_slice){policy, strlen(policy)}, (weir_top_of)of, k,
                             t->now_ns, &top) != WEIR_OK)
            continue;
        weir_top_hide_keys(&top, t->user);
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

void weir_metrics_put_top(weir_buffer *out, weir_service *s, int64_t now_ns, const weir_user *user)
{
    tops t = {out, weir_service_limiter(s), now_ns, user, WEIR_METRICS_KEYS_MAX};
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

/* The policies that have memory of their own. */
static void put_partitions(const output *to, weir_limiter *limiter)
{
    weir_buffer *out = to->out;
    char name[NAME_MAX_LEN];
    weir_partition_stats stats[WEIR_PARTITIONS_MAX];
    size_t n = weir_limiter_partitions(limiter, stats, WEIR_PARTITIONS_MAX);
    for (size_t r = 0; r < WEIR_PARTITION_COUNTERS && n > 0; r++) {
        const weir_counter *row = &weir_partition_counters[r];
        put_counter_head(out, "weir_policy_", row, name);
        for (size_t i = 0; i < n; i++) {
            if (!sees(to->user, stats[i].name))
                continue;
            weir_buffer_printf(out, "%s{policy=", name);
            weir_metrics_put_label(out, stats[i].name);
            weir_buffer_printf(out, "} %" PRIu64 "\n", weir_counter_value(row, &stats[i]));
        }
    }
}

void weir_metrics_put(weir_buffer *out, weir_limiter *limiter, const char *version,
                      const weir_user *user)
{
    char name[NAME_MAX_LEN];
    output to = {out, user};
    put_head(out, "weir_build_info", "gauge", "Always 1; the version is the label.");
    weir_buffer_printf(out, "weir_build_info{version=");
    weir_metrics_put_label(out, version);
    weir_buffer_printf(out, "} 1\n");

    put_head(out, "weir_decisions_total", "counter", "Requests decided, by policy and verdict.");
    weir_limiter_counts(limiter, put_counts, &to);
    put_head(out, "weir_candidate_decisions_total", "counter",
             "Requests that a candidate decided too, by the verdicts of both limits.");
    weir_limiter_candidates(limiter, put_candidate, &to);

    weir_latency latency = weir_limiter_latency(limiter);
    put_latency(out, &latency);

    weir_store_stats store = weir_limiter_store_stats(limiter);
    for (size_t i = 0; i < WEIR_STORE_COUNTERS; i++) {
        put_counter_head(out, "weir_store_", &weir_store_counters[i], name);
        weir_buffer_printf(out, "%s %" PRIu64 "\n", name,
                           weir_counter_value(&weir_store_counters[i], &store));
    }
    put_partitions(&to, limiter);
    put_head(out, "weir_clock_offset_seconds", "gauge",
             "How far the wall clock is ahead of weir's own clock.");
    weir_buffer_printf(out, "weir_clock_offset_seconds ");
    weir_clock_view clock = weir_limiter_clock(limiter);
    put_signed_seconds(out, clock.offset_ns);
    weir_buffer_append_byte(out, '\n');
    weir_metrics_put_one(out, "weir_clock_steps_total", "counter",
                         "How often the wall clock was stepped by more than a second.",
                         clock.steps);
    weir_metrics_put_one(out, "weir_clock_jumps_total", "counter",
                         "How often weir's own clock stepped forward to the wall clock.",
                         clock.jumps);
}
