/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* Formats numbers for people, and writes JSON with its names in a fixed order. */

#include "cmd/accuracy/print.h"

#include "codec/json.h"
#include "port/buffer.h"

#include <assert.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum { CELL_MAX = 32, NAME_COLS_MIN = 30, NAME_COLS_MAX = 36, PIECE_MAX = 512, JSON_MAX = 1 << 28 };

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

static void print_log_name(const accesslog *log)
{
    if (accesslog_files(log) > 1)
        printf(" (%zu files)\n", accesslog_files(log));
    else
        printf(" (%s)\n", accesslog_file_get(log, 0).name);
}

static void print_source(const accuracy_report *r)
{
    char requests[CELL_MAX], keys[CELL_MAX];
    const accuracy_measure *m = r->measure;
    printf("%s request%s of %s key%s", grouped(m->requests, requests), m->requests == 1 ? "" : "s",
           grouped(m->keys, keys), m->keys == 1 ? "" : "s");
    if (r->traffic)
        printf(" (%s, %s each on average, seed %" PRIu64 ")\n", traffic_kind_name(r->traffic->kind),
               r->rate, r->traffic->seed);
    else
        print_log_name(r->log);
}

static void print_against(const accuracy_report *r)
{
    static const char *const text[ACCURACY_AGAINST] = {
        "what the algorithm itself allowed in the window",
        "the decisions of sliding-log",
        "the rate of all requests in the window",
    };
    const accuracy_measure *m = r->measure;
    char denied[CELL_MAX];
    printf("Limit %s, measured against %s.\n", r->limit, text[m->against]);
    if (m->against != ACCURACY_OWN)
        printf("Denied by the exact decision: %s of the requests.\n",
               percent(share(m->exact_denied, m->requests), denied));
    putchar('\n');
}

static void print_row(const accuracy_measure *m, const accuracy_policy *p, int cols)
{
    char denied[CELL_MAX], too_many[CELL_MAX], too_few[CELL_MAX], mean[CELL_MAX] = "-",
                                                                  peak[CELL_MAX] = "-";
    const accuracy_tally *t = &p->tally;
    if (accuracy_estimates(p))
        percent(mean_difference(t), mean);
    if (m->against == ACCURACY_OWN)
        snprintf(peak, sizeof peak, "%" PRId64, t->peak);
    int wide = (int)strlen(p->text) > cols;
    printf("%-*s%s%*s %9s %9s %9s %9s %6s\n", cols, p->text, wide ? "\n" : "", wide ? cols : 0, "",
           percent(share(t->denied, m->requests), denied),
           percent(share(t->wrongly_allowed, m->requests), too_many),
           percent(share(t->wrongly_denied, m->requests), too_few), mean, peak);
}

void accuracy_print_table(const accuracy_report *r)
{
    const accuracy_measure *m = r->measure;
    int cols = NAME_COLS_MIN;
    for (size_t i = 0; i < m->len; i++) {
        int len = (int)strlen(m->policy[i].text);
        cols = len > cols && len <= NAME_COLS_MAX ? len : cols;
    }
    print_source(r);
    print_against(r);
    printf("%-*s %9s %9s %9s %9s\n", cols, "", "", "wrongly", "wrongly", "mean");
    printf("%-*s %9s %9s %9s %9s %6s\n", cols, "policy", "denied", "allowed", "denied", "error",
           "peak");
    for (size_t i = 0; i < m->len; i++)
        print_row(m, &m->policy[i], cols);
}

/* ---- JSON ------------------------------------------------------------------------------------ */

/* Appends the formatted text, at most PIECE_MAX - 1 bytes. */
__attribute__((format(printf, 2, 3))) static void put(weir_buffer *b, const char *format, ...)
{
    char piece[PIECE_MAX];
    va_list args;
    va_start(args, format);
    int len = vsnprintf(piece, sizeof piece, format, args);
    va_end(args);
    assert(len >= 0 && (size_t)len < sizeof piece);
    weir_buffer_append(b, piece, (size_t)len);
}

static void put_policy(weir_buffer *b, const accuracy_measure *m, const accuracy_policy *p)
{
    const accuracy_tally *t = &p->tally;
    put(b, "{\"policy\":");
    weir_json_put_string(b, p->text, strlen(p->text));
    put(b,
        ",\"allowed\":%" PRIu64 ",\"denied\":%" PRIu64 ",\"wrongly_allowed\":%" PRIu64
        ",\"wrongly_denied\":%" PRIu64 ",\"keys_missed\":%" PRIu64
        ",\"keys_wrongly_denied\":%" PRIu64,
        t->allowed, t->denied, t->wrongly_allowed, t->wrongly_denied, t->keys_missed,
        t->keys_wrongly_denied);
    if (m->against == ACCURACY_OWN)
        put(b, ",\"peak\":%" PRId64, t->peak);
    if (accuracy_estimates(p))
        put(b, ",\"error\":{\"mean\":%.6g,\"max\":%.6g}", mean_difference(t), t->difference_max);
    put(b, "}");
}

static void put_traffic(weir_buffer *b, const traffic_options *t)
{
    put(b,
        ",\"traffic\":{\"kind\":\"%s\",\"sources\":%" PRIu64 ",\"requests\":%" PRIu64
        ",\"rate\":%" PRId64 ",\"period_ns\":%" PRId64 ",\"seed\":%" PRIu64 "}",
        traffic_kind_name(t->kind), t->sources, t->requests, t->rate, t->period_ns, t->seed);
}

static void put_logs(weir_buffer *b, const accesslog *log)
{
    put(b, ",\"logs\":[");
    for (size_t i = 0; i < accesslog_files(log); i++) {
        accesslog_file f = accesslog_file_get(log, i);
        put(b, "%s{\"name\":", i > 0 ? "," : "");
        weir_json_put_string(b, f.name, strlen(f.name));
        put(b,
            ",\"lines\":%" PRIu64 ",\"requests\":%" PRIu64 ",\"bad\":%" PRIu64
            ",\"left_out\":%" PRIu64 "}",
            f.lines, f.requests, f.bad, f.left_out);
    }
    put(b, "],\"late\":%" PRIu64, accesslog_counts_get(log).late);
}

weir_status accuracy_print_json(const accuracy_report *r)
{
    const accuracy_measure *m = r->measure;
    weir_buffer b;
    weir_buffer_init(&b, JSON_MAX);
    put(&b,
        "{\"weir\":\"accuracy\",\"version\":1,\"limit\":%" PRId64 ",\"period_ns\":%" PRId64
        ",\"against\":\"%s\"",
        m->limit, m->period_ns, accuracy_against_name(m->against));
    if (r->traffic)
        put_traffic(&b, r->traffic);
    else
        put_logs(&b, r->log);
    put(&b, ",\"requests\":%" PRIu64 ",\"keys\":%" PRIu64, m->requests, m->keys);
    if (m->against != ACCURACY_OWN)
        put(&b, ",\"exactly_denied\":%" PRIu64, m->exact_denied);
    put(&b, ",\"policies\":[");
    for (size_t i = 0; i < m->len; i++) {
        put(&b, i > 0 ? "," : "");
        put_policy(&b, m, &m->policy[i]);
    }
    put(&b, "]}\n");
    weir_status st = b.failed ? WEIR_E_NOMEM : WEIR_OK;
    if (st == WEIR_OK)
        fwrite(weir_buffer_data(&b), 1, weir_buffer_len(&b), stdout);
    weir_buffer_free(&b);
    return st;
}
