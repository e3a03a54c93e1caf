/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* Prints the report as tables. */

#include "cmd/replay/report.h"

#include "accesslog/cells.h"
#include "port/duration.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum {
    COLS_MIN = 80,
    COLS_MAX = 120,
    LABEL_COLS = 16,
    INDENT = 2 + LABEL_COLS + 2, /* the column of the first figure */
    CHANGE_COLS = 22,            /* of the labels beside several policies */
    KEY_COLS_MIN = 16,           /* of a column of keys */
    SPARK_COLS_MIN = 20,         /* of the sparkline of a key */
    PERCENT_COLS = 6,
};

typedef struct page {
    weir_buffer *out;
    const replay_report *report;
    size_t cols;
    size_t number_cols; /* of the number of requests */
    bool utf8;
} page;

static void put(const page *p, const char *text)
{
    weir_buffer_text(p->out, text);
}

static void put_label(const page *p, const char *label)
{
    weir_buffer_printf(p->out, "  %-*s  ", LABEL_COLS, label);
}

static size_t at_least(size_t n, size_t min)
{
    return n > min ? n : min;
}

/* ---- one policy ------------------------------------------------------------------------------ */

/*  all  the total, for the percentage; 0 for none. */
static void put_count(const page *p, const char *label, uint64_t n, uint64_t all)
{
    char percent[ACCESSLOG_CELL_PERCENT_MAX];
    put_label(p, label);
    weir_buffer_printf(p->out, "%*" PRIu64, (int)p->number_cols, n);
    if (all > 0) {
        accesslog_cell_percent(n, all, percent);
        weir_buffer_printf(p->out, "  %*s", PERCENT_COLS, percent);
    }
    put(p, "\n");
}

/* Appends the second line of a figure: its key. */
static void put_key_line(const page *p, weir_slice key)
{
    size_t cols = accesslog_cell_key_cols(key), max = p->cols - INDENT - 4;
    put_label(p, "");
    put(p, "key ");
    accesslog_cell_key(p->out, key, cols < max ? cols : max);
    put(p, "\n");
}

static void put_lockout(const page *p, const replay_lockouts *l)
{
    char span[WEIR_DURATION_MAX], from[ACCESSLOG_CELL_TIME_MAX];
    put_label(p, "longest lock-out");
    if (!l->key.at) {
        put(p, "none\n");
        return;
    }
    weir_duration_print(span, l->longest_ns, WEIR_DURATION_SHORT);
    accesslog_cell_time(l->from_ns, from);
    weir_buffer_printf(p->out, "%s, from %s\n", span, from);
    put_key_line(p, l->key);
}

static void put_peak(const page *p, const replay_policy_report *policy)
{
    const replay_counts *c = &policy->policy->counts;
    char span[WEIR_DURATION_MAX], at[ACCESSLOG_CELL_TIME_MAX];
    put_label(p, "peak admitted");
    if (!policy->peak_key.at) {
        put(p, "none\n");
        return;
    }
    weir_duration_print(span, c->window_ns, WEIR_DURATION_SHORT);
    accesslog_cell_time(c->peak.at_ns, at);
    weir_buffer_printf(p->out, "%" PRIu64 " in %s, limit %" PRId64 ", at %s\n", c->peak.units, span,
                       c->limit, at);
    put_key_line(p, policy->peak_key);
}

/* Appends the name and the text of a policy. */
static void put_policy_text(const page *p, const replay_policy *policy)
{
    if (policy->by_name) {
        put(p, policy->given);
        put(p, ": ");
    }
    put(p, policy->text);
    if (policy->shadow)
        put(p, " (shadow mode: the limit denies no requests)");
}

static void put_one(const page *p, const replay_policy_report *policy)
{
    const replay_policy *which = policy->policy;
    uint64_t requests = p->report->stats->requests;
    put_policy_text(p, which);
    put(p, "\n\n");
    put_count(p, "requests", requests, 0);
    put_count(p, "keys", policy->keys, 0);
    put_count(p, "allowed", policy->allowed, requests);
    put_count(p, "denied", which->counts.denied, requests);
    if (which->counts.allow_listed > 0)
        put_count(p, "on allow list", which->counts.allow_listed, requests);
    if (which->counts.deny_listed > 0)
        put_count(p, "on deny list", which->counts.deny_listed, requests);
    if (which->shadow)
        put_count(p, "would be denied", which->counts.shadowed, requests);
    put(p, "\n");
    put_count(p, which->shadow ? "would deny keys" : "keys ever denied", policy->keys_denied,
              policy->keys);
    put_lockout(p, &policy->lockout);
    put_peak(p, policy);
}

/* ---- several policies ------------------------------------------------------------------------ */

/* The figures of a policy, one a row. */
typedef enum figure {
    KEYS,
    ALLOWED,
    DENIED,
    ON_ALLOW_LIST,
    ON_DENY_LIST,
    WOULD_BE_DENIED,
    KEYS_DENIED,
    LOCKOUT,
    PEAK,
    LIMIT,
    WINDOW,
    REQUESTS_NEWLY_DENIED,
    REQUESTS_NEWLY_ALLOWED,
    KEYS_NEWLY_DENIED,
    KEYS_NO_LONGER_DENIED,
    FIGURES
} figure;

static const char *const figure_labels[FIGURES] = {"keys",
                                                   "allowed",
                                                   "denied",
                                                   "on allow list",
                                                   "on deny list",
                                                   "would be denied",
                                                   "keys ever denied",
                                                   "longest lock-out",
                                                   "peak admitted",
                                                   "  limit",
                                                   "  within",
                                                   "requests newly denied",
                                                   "requests newly allowed",
                                                   "keys newly denied",
                                                   "keys no longer denied"};

enum { CELL_MAX = 64 };

static void count_text(uint64_t n, uint64_t all, char *ret)
{
    char percent[ACCESSLOG_CELL_PERCENT_MAX];
    accesslog_cell_percent(n, all, percent);
    snprintf(ret, CELL_MAX, "%" PRIu64 " %*s", n, PERCENT_COLS, percent);
}

static void plain_text(uint64_t n, char *ret)
{
    snprintf(ret, CELL_MAX, "%" PRIu64, n);
}

/* Writes a figure of a policy that does not depend on the baseline. */
static void figure_text(const page *p, const replay_policy_report *policy, figure which, char *ret)
{
    const replay_counts *c = &policy->policy->counts;
    uint64_t requests = p->report->stats->requests;
    snprintf(ret, CELL_MAX, "-");
    if (which == KEYS)
        plain_text(policy->keys, ret);
    else if (which == ALLOWED)
        count_text(policy->allowed, requests, ret);
    else if (which == DENIED)
        count_text(c->denied, requests, ret);
    else if (which == ON_ALLOW_LIST && policy->policy->by_name)
        count_text(c->allow_listed, requests, ret);
    else if (which == ON_DENY_LIST && policy->policy->by_name)
        count_text(c->deny_listed, requests, ret);
    else if (which == WOULD_BE_DENIED && policy->policy->shadow)
        count_text(c->shadowed, requests, ret);
    else if (which == KEYS_DENIED)
        count_text(policy->keys_denied, policy->keys, ret);
    else if (which == LOCKOUT && policy->lockout.key.at)
        weir_duration_print(ret, policy->lockout.longest_ns, WEIR_DURATION_SHORT);
    else if (which == PEAK && policy->peak_key.at)
        plain_text(c->peak.units, ret);
    else if (which == LIMIT)
        plain_text((uint64_t)c->limit, ret);
    else if (which == WINDOW)
        weir_duration_print(ret, c->window_ns, WEIR_DURATION_SHORT);
}

/* Writes what a policy changes against the baseline. */
static void change_text(const replay_policy_report *policy, figure which, char *ret)
{
    const replay_counts *c = &policy->policy->counts;
    if (which == REQUESTS_NEWLY_DENIED)
        plain_text(c->newly_denied, ret);
    else if (which == REQUESTS_NEWLY_ALLOWED)
        plain_text(c->newly_allowed, ret);
    else if (which == KEYS_NEWLY_DENIED)
        plain_text(policy->keys_newly_denied, ret);
    else
        plain_text(policy->keys_no_longer_denied, ret);
}

static void put_cell(const page *p, size_t i, figure which, size_t cols)
{
    char text[CELL_MAX] = "-";
    if (which < REQUESTS_NEWLY_DENIED)
        figure_text(p, &p->report->policy[i], which, text);
    else if (i > 0)
        change_text(&p->report->policy[i], which, text);
    weir_buffer_printf(p->out, "  %*s", (int)cols, text);
}

/* Whether the table of several policies has a row: those of lists and of shadow mode only if a
 * policy has a number there. */
static bool has_row(const page *p, figure which)
{
    bool ret = which != ON_ALLOW_LIST && which != ON_DENY_LIST && which != WOULD_BE_DENIED;
    for (size_t i = 0; i < p->report->policies; i++) {
        const replay_policy *policy = p->report->policy[i].policy;
        ret |= which == ON_ALLOW_LIST && policy->counts.allow_listed > 0;
        ret |= which == ON_DENY_LIST && policy->counts.deny_listed > 0;
        ret |= which == WOULD_BE_DENIED && policy->shadow;
    }
    return ret;
}

/* The name of a policy, or its text. */
static weir_slice short_name(const page *p, size_t i)
{
    const replay_policy *policy = p->report->policy[i].policy;
    const char *text = policy->by_name ? policy->given : policy->text;
    return (weir_slice){text, strlen(text)};
}

static size_t longest_name(const page *p)
{
    size_t longest = 0;
    for (size_t i = 0; i < p->report->policies; i++)
        longest = at_least(short_name(p, i).len, longest);
    return longest;
}

/* Appends the name of a policy above its column, cut if it is wider. */
static void put_name(const page *p, size_t i, size_t cols)
{
    weir_slice name = short_name(p, i);
    size_t shown = name.len < cols ? name.len : cols;
    weir_buffer_printf(p->out, "  %*s", (int)(cols - shown), "");
    accesslog_cell_key(p->out, name, shown);
}

/* The width of the columns: the names fit if there is room for them beside each other. */
static size_t column_width(const page *p)
{
    size_t cols = at_least(p->number_cols + 1 + PERCENT_COLS, strlen("1 (baseline)"));
    size_t room = (p->cols - 2 - CHANGE_COLS) / at_least(p->report->policies, 1);
    size_t longest = at_least(longest_name(p), cols);
    return room < cols + 2 ? cols : longest < room - 2 ? longest : room - 2;
}

/* Appends the table of the baseline and of the policies begin..end-1. */
static void put_block(const page *p, size_t begin, size_t end, size_t cols)
{
    weir_buffer_printf(p->out, "\n  %-*s  %*s", CHANGE_COLS, "", (int)cols, "1 (baseline)");
    for (size_t i = begin; i < end; i++)
        weir_buffer_printf(p->out, "  %*zu", (int)cols, i + 1);
    put(p, "\n");
    if (cols >= KEY_COLS_MIN || cols >= longest_name(p)) { /* else too little of them is left */
        weir_buffer_printf(p->out, "  %-*s", CHANGE_COLS, "");
        put_name(p, 0, cols);
        for (size_t i = begin; i < end; i++)
            put_name(p, i, cols);
        put(p, "\n");
    }
    for (figure f = 0; f < FIGURES; f++) {
        if (!has_row(p, f))
            continue;
        if (f == KEYS_DENIED || f == REQUESTS_NEWLY_DENIED)
            put(p, "\n");
        weir_buffer_printf(p->out, "  %-*s", CHANGE_COLS, figure_labels[f]);
        put_cell(p, 0, f, cols);
        for (size_t i = begin; i < end; i++)
            put_cell(p, i, f, cols);
        put(p, "\n");
    }
}

static void put_several(const page *p)
{
    const replay_report *r = p->report;
    for (size_t i = 0; i < r->policies; i++) {
        weir_buffer_printf(p->out, "%2zu  ", i + 1);
        put_policy_text(p, r->policy[i].policy);
        put(p, i == 0 ? " (baseline)\n" : "\n");
    }
    weir_buffer_printf(p->out, "\n  %-*s  %" PRIu64 "\n", CHANGE_COLS, "requests",
                       r->stats->requests);
    size_t cols = column_width(p);
    size_t beside = (p->cols - 2 - CHANGE_COLS) / (cols + 2) - 1; /* the baseline */
    for (size_t begin = 1; begin < r->policies; begin += beside) {
        size_t end = begin + beside < r->policies ? begin + beside : r->policies;
        put_block(p, begin, end, cols);
    }
}

/* ---- over time ------------------------------------------------------------------------------- */

static void put_series(const page *p, const char *label, const uint64_t *counts, size_t step,
                       uint64_t max)
{
    size_t len = p->report->stats->timeline.len;
    put_label(p, label);
    accesslog_cell_spark(p->out, counts, len, step, max, p->utf8);
    weir_buffer_printf(p->out, "  max %" PRIu64 "\n", accesslog_cell_spark_max(counts, len, step));
}

/* Appends the requests, and below them the denials of each policy, all policies to one scale. */
static void put_over_time(const page *p)
{
    size_t max_cols = strlen("  max ") + p->number_cols;
    const replay_report *r = p->report;
    const replay_timeline *t = &r->stats->timeline;
    size_t step = accesslog_cell_spark_step(t->len, p->cols - INDENT - max_cols);
    uint64_t max = 0;
    char label[LABEL_COLS + 8], width[WEIR_DURATION_MAX], from[ACCESSLOG_CELL_TIME_MAX];
    put(p, "\n");
    put_series(p, "requests", r->requests_over_time, step,
               accesslog_cell_spark_max(r->requests_over_time, t->len, step));
    for (size_t i = 0; i < r->policies; i++) {
        uint64_t most = accesslog_cell_spark_max(r->policy[i].denied_over_time, t->len, step);
        max = most > max ? most : max;
    }
    for (size_t i = 0; i < r->policies; i++) {
        bool several = r->policies > 1;
        const char *what = !r->policy[i].policy->shadow ? "denied"
                           : several                    ? "would deny"
                                                        : "would be denied";
        snprintf(label, sizeof label, several ? "%s %zu" : "%s", what, i + 1);
        put_series(p, label, r->policy[i].denied_over_time, step, max);
    }
    weir_duration_print(width, replay_timeline_width_ns(t) * (int64_t)step, WEIR_DURATION_SHORT);
    accesslog_cell_time(replay_timeline_start_ns(t), from);
    put_label(p, "");
    weir_buffer_printf(p->out, "each column is %s; from %s\n", width, from);
}

/* Appends the peak rates of keys. */
static void put_rates(const page *p)
{
    static const char *const labels[REPLAY_PERIODS] = {"in a second", "in a minute", "in an hour"};
    put(p, "\n  peak of each key         p50         p90         p99         max\n");
    for (int i = 0; i < REPLAY_PERIODS; i++) {
        const replay_percentiles *q = &p->report->peaks[i];
        put_label(p, labels[i]);
        weir_buffer_printf(p->out, "%8" PRId64 "  %10" PRId64 "  %10" PRId64 "  %10" PRId64 "\n",
                           q->p50, q->p90, q->p99, q->max);
    }
}

/* ---- the worst keys -------------------------------------------------------------------------- */

typedef struct columns {
    size_t key, denied, requests, lockout, spark;
} columns;

static size_t lockout_text(const replay_worst *w, char *ret)
{
    int64_t ns, from_ns;
    replay_lockout(w->denials, &ns, &from_ns);
    if (from_ns < 0)
        return (size_t)snprintf(ret, WEIR_DURATION_MAX, "-");
    return weir_duration_print(ret, ns, WEIR_DURATION_SHORT);
}

static columns columns_of(const page *p, const replay_policy_report *policy)
{
    char lockout[WEIR_DURATION_MAX];
    columns c = {.key = KEY_COLS_MIN, .denied = 6, .requests = 8, .lockout = 8}; /* the headings */
    for (size_t i = 0; i < policy->worst_len; i++) {
        const replay_worst *w = &policy->worst[i];
        c.key = at_least(accesslog_cell_key_cols(w->text), c.key);
        c.denied = at_least(weir_decimal_len(w->denials->count), c.denied);
        c.requests = at_least(weir_decimal_len(w->key->requests), c.requests);
        c.lockout = at_least(lockout_text(w, lockout), c.lockout);
    }
    size_t rest = p->cols - 2 - 2 - c.denied - 2 - c.requests - 2 - c.lockout - 2;
    size_t key_max = at_least(rest > SPARK_COLS_MIN ? rest - SPARK_COLS_MIN : 0, KEY_COLS_MIN);
    c.key = c.key < key_max ? c.key : key_max;
    c.spark = rest > c.key ? rest - c.key : 0;
    return c;
}

static void put_worst_row(const page *p, const replay_worst *w, const columns *c)
{
    const replay_timeline *t = &p->report->stats->timeline;
    uint64_t counts[REPLAY_BUCKETS_MAX];
    char lockout[WEIR_DURATION_MAX];
    lockout_text(w, lockout);
    put(p, "  ");
    accesslog_cell_key(p->out, w->text, c->key);
    weir_buffer_printf(p->out, "  %*" PRIu64 "  %*" PRIu64 "  %*s", (int)c->denied,
                       w->denials->count, (int)c->requests, w->key->requests, (int)c->lockout,
                       lockout);
    if (c->spark >= SPARK_COLS_MIN && replay_series_read(&w->denials->over_time, t, counts)) {
        size_t step = accesslog_cell_spark_step(t->len, c->spark), len = t->len;
        while (counts[len - 1] == 0) /* no spaces at the end; the key was denied */
            len--;
        put(p, "  ");
        accesslog_cell_spark(p->out, counts, len, step, accesslog_cell_spark_max(counts, len, step),
                             p->utf8);
    }
    put(p, "\n");
}

static void put_worst(const page *p, size_t number)
{
    const replay_policy_report *policy = &p->report->policy[number];
    bool shadow = policy->policy->shadow;
    if (policy->worst_len == 0)
        return;
    columns c = columns_of(p, policy);
    put(p, "\n");
    if (p->report->policies > 1) {
        weir_buffer_printf(p->out, "%2zu  ", number + 1);
        put_policy_text(p, policy->policy);
        put(p, "\n");
    }
    weir_buffer_printf(p->out, "  %-*s  %*s  %*s  %*s  %s\n", (int)c.key,
                       shadow ? "would be denied" : "most denied keys", (int)c.denied, "denied",
                       (int)c.requests, "requests", (int)c.lockout, "lock-out",
                       shadow ? "would be denied over time" : "denied over time");
    for (size_t i = 0; i < policy->worst_len; i++)
        put_worst_row(p, &policy->worst[i], &c);
}

void replay_report_text(weir_buffer *out, const replay_report *r, terminal_style style)
{
    size_t cols = style.cols < COLS_MIN   ? COLS_MIN
                  : style.cols > COLS_MAX ? COLS_MAX
                                          : (size_t)style.cols;
    const page p = {.out = out,
                    .report = r,
                    .cols = cols,
                    .number_cols = weir_decimal_len(r->stats->requests),
                    .utf8 = style.utf8};
    if (r->policies == 1)
        put_one(&p, &r->policy[0]);
    else
        put_several(&p);
    put_over_time(&p);
    put_rates(&p);
    for (size_t i = 0; i < r->policies; i++)
        put_worst(&p, i);
}
