/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* Formats numbers for people, and writes JSON with its names in a fixed order. */

#include "cmd/accuracy/accuracy.h"

#include "codec/answer/json.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { CELL_MAX = 32, NAME_COLS_MIN = 30, NAME_COLS_MAX = 36 };

static double share(uint64_t part, uint64_t whole)
{
    return whole > 0 ? (double)part / (double)whole : 0;
}

static double mean_difference(const accuracy_tally *t)
{
    return t->estimates > 0 ? t->difference_sum / (double)t->estimates : 0;
}

/* ---- the table ------------------------------------------------------------------------------- */

/* Writes a share as a percentage with four digits after the point at most: "0.0031 %", "12.5 %". */
static const char *percent(double x, char ret[CELL_MAX])
{
    double p = 100 * x;
    int digits = p >= 100 || p == 0 ? 0 : p >= 10 ? 1 : p >= 1 ? 2 : p >= 0.1 ? 3 : 4;
    if (p > 0 && p < 0.0001)
        snprintf(ret, CELL_MAX, "<0.0001 %%");
    else
        snprintf(ret, CELL_MAX, "%.*f %%", digits, p);
    return ret;
}

/* Writes a number with commas between groups of three digits. */
static const char *grouped(uint64_t n, char ret[CELL_MAX])
{
    char digits[CELL_MAX];
    size_t len = (size_t)snprintf(digits, sizeof digits, "%" PRIu64, n), at = 0;
    for (size_t i = 0; i < len; i++) {
        if (i > 0 && (len - i) % 3 == 0)
            ret[at++] = ',';
        ret[at++] = digits[i];
    }
    ret[at] = '\0';
    return ret;
}

static void put_source(weir_buffer *b, const accuracy_measure *m, const accesslog *log)
{
    char requests[CELL_MAX], keys[CELL_MAX];
    weir_buffer_printf(b, "%s request%s of %s key%s (", grouped(m->requests, requests),
                       m->requests == 1 ? "" : "s", grouped(m->keys, keys),
                       m->keys == 1 ? "" : "s");
    if (accesslog_files(log) > 1)
        weir_buffer_printf(b, "%zu files", accesslog_files(log));
    else
        weir_buffer_text(b, accesslog_file_get(log, 0).name);
    weir_buffer_text(b, ")\n");
}

static void put_against(weir_buffer *b, const accuracy_measure *m, const char *limit)
{
    static const char *const text[ACCURACY_AGAINST] = {
        "what the algorithm itself allowed in the window",
        "the decisions of sliding-log",
        "the rate of all requests in the window",
    };
    char denied[CELL_MAX];
    weir_buffer_printf(b, "Limit %s, measured against %s.\n", limit, text[m->against]);
    if (m->against != ACCURACY_OWN)
        weir_buffer_printf(b, "Denied by the exact decision: %s of the requests.\n",
                           percent(share(m->exact_denied, m->requests), denied));
    weir_buffer_text(b, "\n");
}

static void put_row(weir_buffer *b, const accuracy_measure *m, const accuracy_policy *p, int cols)
{
    char denied[CELL_MAX], too_many[CELL_MAX], too_few[CELL_MAX], mean[CELL_MAX] = "-",
                                                                  peak[CELL_MAX] = "-";
    const accuracy_tally *t = &p->tally;
    if (accuracy_estimates(p))
        percent(mean_difference(t), mean);
    if (m->against == ACCURACY_OWN)
        snprintf(peak, sizeof peak, "%" PRId64, t->peak);
    int wide = (int)strlen(p->text) > cols;
    weir_buffer_printf(b, "%-*s%s%*s %9s %9s %9s %9s %6s\n", cols, p->text, wide ? "\n" : "",
                       wide ? cols : 0, "", percent(share(t->denied, m->requests), denied),
                       percent(share(t->wrongly_allowed, m->requests), too_many),
                       percent(share(t->wrongly_denied, m->requests), too_few), mean, peak);
}

void accuracy_put_table(weir_buffer *b, const accuracy_measure *m, const accesslog *log,
                        const char *limit)
{
    int cols = NAME_COLS_MIN;
    for (size_t i = 0; i < m->len; i++) {
        int len = (int)strlen(m->policy[i].text);
        cols = len > cols && len <= NAME_COLS_MAX ? len : cols;
    }
    put_source(b, m, log);
    put_against(b, m, limit);
    weir_buffer_printf(b, "%-*s %9s %9s %9s %9s\n", cols, "", "", "wrongly", "wrongly", "mean");
    weir_buffer_printf(b, "%-*s %9s %9s %9s %9s %6s\n", cols, "policy", "denied", "allowed",
                       "denied", "error", "peak");
    for (size_t i = 0; i < m->len; i++)
        put_row(b, m, &m->policy[i], cols);
}

/* ---- JSON ------------------------------------------------------------------------------------ */

static void put_policy(weir_buffer *b, const accuracy_measure *m, const accuracy_policy *p)
{
    const accuracy_tally *t = &p->tally;
    weir_buffer_text(b, "{\"policy\":");
    weir_json_put_string(b, p->text, strlen(p->text));
    weir_buffer_printf(b,
                       ",\"allowed\":%" PRIu64 ",\"denied\":%" PRIu64
                       ",\"wrongly_allowed\":%" PRIu64 ",\"wrongly_denied\":%" PRIu64
                       ",\"keys_missed\":%" PRIu64 ",\"keys_wrongly_denied\":%" PRIu64,
                       t->allowed, t->denied, t->wrongly_allowed, t->wrongly_denied, t->keys_missed,
                       t->keys_wrongly_denied);
    if (m->against == ACCURACY_OWN)
        weir_buffer_printf(b, ",\"peak\":%" PRId64, t->peak);
    if (accuracy_estimates(p))
        weir_buffer_printf(b, ",\"error\":{\"mean\":%.6g,\"max\":%.6g}", mean_difference(t),
                           t->difference_max);
    weir_buffer_text(b, "}");
}

static void put_logs(weir_buffer *b, const accesslog *log)
{
    weir_buffer_text(b, ",\"logs\":[");
    for (size_t i = 0; i < accesslog_files(log); i++) {
        accesslog_file f = accesslog_file_get(log, i);
        weir_buffer_printf(b, "%s{\"name\":", i > 0 ? "," : "");
        weir_json_put_string(b, f.name, strlen(f.name));
        weir_buffer_printf(b,
                           ",\"lines\":%" PRIu64 ",\"requests\":%" PRIu64 ",\"bad\":%" PRIu64
                           ",\"left_out\":%" PRIu64 "}",
                           f.lines, f.requests, f.bad, f.left_out);
    }
    weir_buffer_printf(b, "],\"late\":%" PRIu64, accesslog_counts_get(log).late);
}

void accuracy_put_json(weir_buffer *b, const accuracy_measure *m, const accesslog *log)
{
    weir_buffer_printf(b,
                       "{\"weir\":\"accuracy\",\"version\":1,\"limit\":%" PRId64
                       ",\"period_ns\":%" PRId64 ",\"against\":\"%s\"",
                       m->limit, m->period_ns, accuracy_against_name(m->against));
    put_logs(b, log);
    weir_buffer_printf(b, ",\"requests\":%" PRIu64 ",\"keys\":%" PRIu64, m->requests, m->keys);
    if (m->against != ACCURACY_OWN)
        weir_buffer_printf(b, ",\"exactly_denied\":%" PRIu64, m->exact_denied);
    weir_buffer_text(b, ",\"policies\":[");
    for (size_t i = 0; i < m->len; i++) {
        weir_buffer_text(b, i > 0 ? "," : "");
        put_policy(b, m, &m->policy[i]);
    }
    weir_buffer_text(b, "]}\n");
}
