/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* Formats numbers for people, and writes JSON with its names in a fixed order. */

#include "cmd/accuracy/print.h"

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

static void print_source(const accuracy_report *r)
{
    char requests[CELL_MAX], keys[CELL_MAX];
    const accuracy_measure *m = r->measure;
    printf("%s requests of %s key%s", grouped(m->requests, requests), grouped(m->keys, keys),
           m->keys == 1 ? "" : "s");
    if (r->traffic)
        printf(" (%s, %s each on average, seed %" PRIu64 ")\n", traffic_kind_name(r->traffic->kind),
               r->rate, r->traffic->seed);
    else
        printf(" (%s)\n", r->log_name);
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
        printf("Exactly denied: %s of the requests.\n",
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

static void print_policy_json(const accuracy_measure *m, const accuracy_policy *p)
{
    const accuracy_tally *t = &p->tally;
    printf("{\"policy\":\"%s\",\"allowed\":%" PRIu64 ",\"denied\":%" PRIu64
           ",\"wrongly_allowed\":%" PRIu64 ",\"wrongly_denied\":%" PRIu64
           ",\"keys_missed\":%" PRIu64 ",\"keys_wrongly_denied\":%" PRIu64,
           p->text, t->allowed, t->denied, t->wrongly_allowed, t->wrongly_denied, t->keys_missed,
           t->keys_wrongly_denied);
    if (m->against == ACCURACY_OWN)
        printf(",\"peak\":%" PRId64, t->peak);
    if (accuracy_estimates(p))
        printf(",\"error\":{\"mean\":%.6g,\"max\":%.6g}", mean_difference(t), t->difference_max);
    putchar('}');
}

void accuracy_print_json(const accuracy_report *r)
{
    const accuracy_measure *m = r->measure;
    printf("{\"weir\":\"accuracy\",\"version\":1,\"limit\":%" PRId64 ",\"period_ns\":%" PRId64
           ",\"against\":\"%s\"",
           m->limit, m->period_ns, accuracy_against_name(m->against));
    if (r->traffic)
        printf(",\"traffic\":{\"kind\":\"%s\",\"sources\":%" PRIu64 ",\"requests\":%" PRIu64
               ",\"rate\":%" PRId64 ",\"rate_period_ns\":%" PRId64 ",\"seed\":%" PRIu64 "}",
               traffic_kind_name(r->traffic->kind), r->traffic->sources, r->traffic->requests,
               r->traffic->rate, r->traffic->period_ns, r->traffic->seed);
    else
        printf(",\"log\":{\"bad\":%" PRIu64 ",\"late\":%" PRIu64 "}", r->log.bad, r->log.late);
    printf(",\"requests\":%" PRIu64 ",\"keys\":%" PRIu64, m->requests, m->keys);
    if (m->against != ACCURACY_OWN)
        printf(",\"exactly_denied\":%" PRIu64, m->exact_denied);
    fputs(",\"policies\":[", stdout);
    for (size_t i = 0; i < m->len; i++) {
        fputs(i > 0 ? "," : "", stdout);
        print_policy_json(m, &m->policy[i]);
    }
    puts("]}");
}
