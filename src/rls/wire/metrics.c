/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* Serialises the statistics of the Rate Limit Service. Statistics come sorted by name, so those
 * with the same labels are adjacent. */

#include "rls/wire/metrics.h"

#include "codec/answer/metrics.h"

#include <inttypes.h>
#include <stdio.h>

/* ---- /stats ---------------------------------------------------------------------------------- */

static void put_line(void *ctx, const weir_rls_stat *stat)
{
    weir_buffer *out = ctx;
    weir_buffer_append(out, stat->name, strlen(stat->name));
    weir_buffer_printf(out, ": %" PRIu64 "\n", stat->value);
}

void weir_rls_stats_put(weir_buffer *out, weir_rls *rls)
{
    weir_rls_each_stat(rls, put_line, out);
}

/* ---- metrics of limits ----------------------------------------------------------------------- */

/* A metric of a limit. */
typedef struct metric {
    const char *what; /* the last part of a statistic's name */
    const char *name; /* its name here; the reference's is ratelimit_service_rate_limit_WHAT */
    const char *help;
} metric;

static const metric metrics[] = {
    {"total_hits", "weir_rls_hits_total", "Hits of requests that matched the limit."},
    {"over_limit", "weir_rls_over_limit_total", "Hits above the limit."},
    {"near_limit", "weir_rls_near_limit_total",
     "Hits within the limit but above near_limit_ratio of it."},
    {"within_limit", "weir_rls_within_limit_total", "Hits within the limit."},
    {"shadow_mode", "weir_rls_shadow_mode_total",
     "Hits above the limit that were allowed by shadow_mode."},
};

/* The labels that the reference exports: the first parts of DOMAIN.KEY between dots. */
static const char *const parts[] = {"domain", "key1", "key2"};
enum { PARTS = sizeof parts / sizeof parts[0] };

/* The samples of one metric. The sample that is collected is kept as long as its labels repeat. */
typedef struct samples {
    weir_buffer *out;
    const metric *metric;
    bool exported;          /* by the reference's name and labels */
    size_t n;               /* samples that were begun */
    weir_buffer held, next; /* the labels of the sample that is collected, and of a statistic: each
                               value with a NUL */
    uint64_t value, others;
} samples;

static void put_label(weir_buffer *out, const char *before, const char *name, const char *value)
{
    weir_buffer_printf(out, "%s%s=", before, name);
    weir_metrics_put_label(out, value);
}

static void put_name(const samples *s)
{
    weir_buffer_printf(s->out, s->exported ? "ratelimit_service_rate_limit_%s" : "%s",
                       s->exported ? s->metric->what : s->metric->name);
}

static void put_sample(samples *s, const char *labels, size_t len, uint64_t value)
{
    put_name(s);
    weir_buffer_text(s->out, "{");
    const char *end = labels + len;
    for (size_t i = 0; labels < end && i < PARTS; i++) {
        const char *name = i == 1 && !s->exported ? "key" : parts[i];
        put_label(s->out, i > 0 ? "," : "", name, labels);
        labels += strlen(labels) + 1;
    }
    weir_buffer_printf(s->out, "} %" PRIu64 "\n", value);
}

/* Writes the sample that is collected, if any. Its metric begins with the first one. */
static void flush(samples *s)
{
    if (s->n == 1) {
        weir_buffer_text(s->out, "# HELP ");
        put_name(s);
        weir_buffer_printf(s->out, " %s\n# TYPE ", s->metric->help);
        put_name(s);
        weir_buffer_text(s->out, " counter\n");
    }
    if (s->n > 0 && s->n <= WEIR_RLS_METRICS_MAX)
        put_sample(s, (const char *)weir_buffer_data(&s->held), weir_buffer_len(&s->held),
                   s->value);
    else
        s->others += s->value;
    s->value = 0;
}

static void add_label(weir_buffer *b, const char *at, size_t len)
{
    weir_buffer_append(b, at, len);
    weir_buffer_append(b, "", 1);
}

/* Appends the first parts of DOMAIN.KEY. */
static void add_parts(weir_buffer *b, const weir_rls_stat *stat)
{
    const weir_slice both[] = {stat->domain, stat->key};
    int n = 0;
    for (int i = 0; i < 2; i++) {
        const char *at = both[i].at, *end = at + both[i].len;
        for (; both[i].len > 0 && at <= end && n < PARTS; n++) {
            const char *dot = memchr(at, '.', (size_t)(end - at));
            size_t len = (size_t)((dot ? dot : end) - at);
            add_label(b, at, len);
            at += len + 1;
        }
    }
}

static void add_labels(weir_buffer *b, const weir_rls_stat *stat, bool exported)
{
    if (exported) {
        add_parts(b, stat);
    } else {
        add_label(b, stat->domain.at, stat->domain.len);
        add_label(b, stat->key.at, stat->key.len);
    }
}

static void collect(void *ctx, const weir_rls_stat *stat)
{
    samples *s = ctx;
    if (stat->key.len == 0 || stat->what.len != strlen(s->metric->what) ||
        memcmp(stat->what.at, s->metric->what, stat->what.len) != 0)
        return;
    weir_buffer_clear(&s->next);
    add_labels(&s->next, stat, s->exported);
    size_t len = weir_buffer_len(&s->next);
    bool same = len == weir_buffer_len(&s->held) && s->n > 0 &&
                memcmp(weir_buffer_data(&s->next), weir_buffer_data(&s->held), len) == 0;
    if (!same) {
        weir_buffer held = s->held;
        flush(s);
        s->held = s->next;
        s->next = held;
        s->n++;
    }
    s->value += stat->value;
}

static void put_metric(weir_buffer *out, weir_rls *rls, const metric *m, bool exported)
{
    static const char others[] = "(others)\0(others)";
    samples s = {.out = out, .metric = m, .exported = exported};
    weir_buffer_init(&s.held, 1 << 18);
    weir_buffer_init(&s.next, 1 << 18);
    weir_rls_each_stat(rls, collect, &s);
    flush(&s);
    if (s.n > WEIR_RLS_METRICS_MAX)
        put_sample(&s, others, sizeof others, s.others);
    weir_buffer_free(&s.held);
    weir_buffer_free(&s.next);
}

/* ---- metrics of the service ------------------------------------------------------------------ */

/* A statistic of the service, and the name under which the reference exports it. */
static const struct service_metric {
    const char *stat, *name, *labels, *help; /* no help: the metric of the row before it */
} service_metrics[] = {
    {"ratelimit.service.config_load_success", "ratelimit_service_config_load_success", "",
     "Configurations of limits that were loaded."},
    {"ratelimit.service.config_load_error", "ratelimit_service_config_load_error", "",
     "Configurations of limits that were refused."},
    {"ratelimit.service.call.should_rate_limit.redis_error",
     "ratelimit_service_should_rate_limit_error", "{err_type=\"redis_error\"}",
     "Requests that failed, by the reason."},
    {"ratelimit.service.call.should_rate_limit.service_error",
     "ratelimit_service_should_rate_limit_error", "{err_type=\"service_error\"}", NULL},
    {"ratelimit_server.ShouldRateLimit.total_requests", "ratelimit_service_total_requests",
     "{grpc_method=\"ShouldRateLimit\"}", "Requests."},
};

static void put_service_metric(void *ctx, const weir_rls_stat *stat)
{
    weir_buffer *out = ctx;
    for (size_t i = 0; i < sizeof service_metrics / sizeof service_metrics[0]; i++) {
        const struct service_metric *m = &service_metrics[i];
        if (strcmp(stat->name, m->stat) != 0)
            continue;
        if (m->help)
            weir_buffer_printf(out, "# HELP %s %s\n# TYPE %s counter\n", m->name, m->help, m->name);
        weir_buffer_printf(out, "%s%s %" PRIu64 "\n", m->name, m->labels, stat->value);
    }
}

void weir_rls_metrics_put(weir_buffer *out, weir_rls *rls)
{
    for (int exported = 0; exported < 2; exported++) {
        for (size_t i = 0; i < sizeof metrics / sizeof metrics[0]; i++)
            put_metric(out, rls, &metrics[i], exported);
    }
    weir_rls_each_stat(rls, put_service_metric, out);
}
