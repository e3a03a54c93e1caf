/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* Prints the result of a search. Only percentages and the curve are rounded. */

#include "cmd/suggest/suggest.h"

#include "accesslog/cells.h"
#include "codec/answer/json.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum {
    TEXT_MAX = SUGGEST_POLICY_MAX + 256,
    PERCENT_MAX = 16,
    POLICY_COLS_MAX = 40,
    ROWS_BEYOND = 4
};

/* Writes a percentage with three digits. "0%" means exactly none, and "100%" exactly all. */
static void percent_text(uint64_t part, uint64_t all, char ret[PERCENT_MAX])
{
    double percent = all > 0 ? (double)part * 100 / (double)all : 0;
    if (part == 0 || part == all)
        snprintf(ret, PERCENT_MAX, "%d%%", part == 0 ? 0 : 100);
    else if (percent < 0.001)
        snprintf(ret, PERCENT_MAX, "<0.001%%");
    else if (percent >= 99.95)
        snprintf(ret, PERCENT_MAX, ">99.9%%");
    else
        snprintf(ret, PERCENT_MAX, "%.*f%%", percent < 1 ? 3 : percent < 10 ? 2 : 1, percent);
}

/* ---- the log --------------------------------------------------------------------------------- */

static const char *plural(uint64_t n, const char *one, const char *many)
{
    return n == 1 ? one : many;
}

static void print_part(weir_buffer *out, const char *name, const suggest_counts *part,
                       int64_t from_ns, int64_t to_ns)
{
    char from[ACCESSLOG_CELL_TIME_MAX], to[ACCESSLOG_CELL_TIME_MAX];
    accesslog_cell_time(from_ns, from);
    accesslog_cell_time(to_ns, to);
    weir_buffer_printf(out, "%-8s  %" PRIu64 " %s of %" PRIu64 " %s\n          %s to %s\n", name,
                       part->requests, plural(part->requests, "request", "requests"), part->keys,
                       plural(part->keys, "key", "keys"), from, to);
}

static void print_log(weir_buffer *out, const suggest_report *r)
{
    const suggest_trace *t = r->trace;
    const suggest_target *target = &r->options->target;
    bool held = t->split_ns != INT64_MAX;
    const suggest_counts *searched = &r->found->totals.searched;
    uint64_t all = target->requests ? searched->requests : searched->keys;
    weir_buffer_printf(out, "%-8s  ", "target");
    weir_buffer_text(out, target->argument);
    weir_buffer_printf(out, ": at most %" PRIu64 " of the %" PRIu64 " searched\n",
                       r->found->allowed, all);
    print_part(out, "searched", &r->found->totals.searched, t->first_ns,
               held ? t->split_ns : t->last_ns);
    if (held)
        print_part(out, "held out", &r->found->totals.held_out, t->split_ns, t->last_ns);
}

/* ---- the curve ------------------------------------------------------------------------------- */

static void print_curve(weir_buffer *out, const suggest_report *r, terminal_style style)
{
    const suggest_found *f = r->found;
    bool bucket = r->options->algorithm->bucket;
    bool requests = r->options->target.requests;
    char limit[16];
    plot_point point[SUGGEST_CHOICES_MAX];
    for (size_t i = 0; i < f->len; i++) {
        const suggest_choice *c = &f->choice[i];
        const suggest_counts *part = &c->result.searched;
        uint64_t denied = requests ? part->requests_denied : part->keys_denied;
        point[i] =
            bucket ? (plot_point){c->burst, c->limit} : (plot_point){c->limit, (int64_t)denied};
    }
    bool brief = strlen(r->options->per) < 5;
    snprintf(limit, sizeof limit, "limit%s%s", brief ? " per " : "", brief ? r->options->per : "");
    plot p = {.point = point,
              .len = f->len,
              .marked = f->best,
              .x_name = bucket ? "burst" : "limit",
              .y_name = bucket     ? limit
                        : requests ? "requests denied"
                                   : "keys denied",
              .cols = style.cols,
              .utf8 = style.utf8};
    weir_buffer_text(out, "\n");
    plot_draw(out, &p);
}

/* ---- the table ------------------------------------------------------------------------------- */

/* Choices far worse than the best one are on the curve only. */
static bool is_row(const suggest_report *r, const suggest_choice *c)
{
    return !r->options->algorithm->bucket ||
           c->worst_case / ROWS_BEYOND <= r->found->choice[r->found->best].worst_case;
}

static int policy_cols(const suggest_report *r)
{
    int cols = 6;
    for (size_t i = 0; i < r->found->len; i++) {
        int len = (int)strlen(r->found->choice[i].text);
        cols = is_row(r, &r->found->choice[i]) && len > cols ? len : cols;
    }
    return cols < POLICY_COLS_MAX ? cols : POLICY_COLS_MAX;
}

static void print_row(weir_buffer *out, const suggest_report *r, const suggest_choice *c, int cols)
{
    char keys[PERCENT_MAX], requests[PERCENT_MAX], held[PERCENT_MAX] = "-";
    const suggest_counts *searched = &c->result.searched, *held_out = &c->result.held_out;
    percent_text(searched->keys_denied, searched->keys, keys);
    percent_text(searched->requests_denied, searched->requests, requests);
    if (held_out->requests > 0 && r->options->target.requests)
        percent_text(held_out->requests_denied, held_out->requests, held);
    else if (held_out->requests > 0)
        percent_text(held_out->keys_denied, held_out->keys, held);
    weir_buffer_printf(out, "%c %-*s %10" PRId64 " %8" PRIu64 " %8s %15s %8s\n",
                       c == &r->found->choice[r->found->best] ? '>' : ' ', cols, c->text,
                       c->worst_case, searched->keys_denied, keys, requests, held);
}

static void print_table(weir_buffer *out, const suggest_report *r)
{
    int cols = policy_cols(r);
    weir_buffer_printf(out, "\n  %-*s %10s %17s %15s %8s\n", cols, "policy", "worst case",
                       "keys denied", "requests denied", "held out");
    for (size_t i = 0; i < r->found->len; i++) {
        if (is_row(r, &r->found->choice[i]))
            print_row(out, r, &r->found->choice[i], cols);
    }
}

/* With --round, no pair is meant to be the tightest one. */
static void print_incomplete(weir_buffer *out, const suggest_report *r)
{
    if (r->found->complete || r->options->round)
        return;
    weir_buffer_text(
        out, r->options->algorithm->bucket
                 ? "\nThe search did not try every pair: one with a smaller worst case may exist.\n"
                 : "\nThe search did not try every limit: a smaller one may meet the target.\n");
}

/* ---- the suggestion -------------------------------------------------------------------------- */

static void print_counts(weir_buffer *out, const char *name, const suggest_counts *part)
{
    char keys[PERCENT_MAX], requests[PERCENT_MAX];
    percent_text(part->keys_denied, part->keys, keys);
    percent_text(part->requests_denied, part->requests, requests);
    weir_buffer_printf(
        out, "  %-9s %8" PRIu64 " of %8" PRIu64 " %8s %10" PRIu64 " of %10" PRIu64 " %8s\n", name,
        part->keys_denied, part->keys, keys, part->requests_denied, part->requests, requests);
}

static uint64_t allows(const suggest_target *t, const suggest_counts *part)
{
    return suggest_target_allows(t, t->requests ? part->requests : part->keys);
}

/* Says whether the target is met in a part of the log. Returns whether it is. */
static bool put_verdict(weir_buffer *out, const char *name, const suggest_target *t,
                        const suggest_counts *part)
{
    enum { COLS = 80 };
    char begin[TEXT_MAX], end[TEXT_MAX];
    bool met = suggest_is_met(t, part);
    uint64_t denied = t->requests ? part->requests_denied : part->keys_denied;
    int cols = snprintf(begin, sizeof begin, "On the %s, the target is %s: %" PRIu64 " %s denied,",
                        name, met ? "met" : "MISSED", denied,
                        t->requests ? plural(denied, "request", "requests")
                                    : plural(denied, "key", "keys"));
    cols += snprintf(end, sizeof end, "and it allows %" PRIu64 ".", allows(t, part));
    weir_buffer_printf(out, "%s%s%s\n", begin, cols < COLS ? " " : "\n", end);
    return met;
}

/* Says whether the target is met where it was not searched. */
static void print_verdict(weir_buffer *out, const suggest_report *r, const suggest_result *result)
{
    const suggest_target *t = &r->options->target;
    if (result->held_out.requests == 0) {
        weir_buffer_text(out, "\nNothing was held out: the result on other requests is unknown.\n");
        return;
    }
    weir_buffer_text(out, "\n");
    if (!put_verdict(out, "held-out part", t, &result->held_out))
        weir_buffer_text(out, "This log does not show that the limit keeps the target.\n");
    if (!put_verdict(out, "whole log", t, &result->all))
        weir_buffer_text(
            out, "The search applies the target to the searched part; --hold-out 0% applies it "
                 "to\nthe whole log.\n");
}

/* Prints a word so that a shell reads it as one word. */
static void put_word(weir_buffer *out, const char *word)
{
    static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
                                "_-./=:,@%+";
    if (*word && strspn(word, plain) == strlen(word)) {
        weir_buffer_text(out, word);
        return;
    }
    weir_buffer_text(out, "'");
    for (; *word; word++) {
        if (*word == '\'')
            weir_buffer_text(out, "'\\''");
        else
            weir_buffer_append(out, word, 1);
    }
    weir_buffer_text(out, "'");
}

/* Prints the command that shows more about a policy. */
static void print_command(weir_buffer *out, const suggest_report *r, const char *policy)
{
    weir_buffer_text(out, "weir replay --policy '");
    weir_buffer_text(out, policy);
    weir_buffer_text(out, "'");
    for (size_t i = 0; i < r->options->words_len; i++) {
        const suggest_word *w = &r->options->words[i];
        weir_buffer_text(out, " ");
        if (w->option) {
            weir_buffer_text(out, "--");
            weir_buffer_text(out, w->option);
            weir_buffer_text(out, w->value ? " " : "");
        }
        if (!w->option && w->value[0] == '-' && w->value[1] != '\0')
            weir_buffer_text(out, "./"); /* else the file would be read as an option */
        if (w->value)
            put_word(out, w->value);
    }
}

static void print_suggestion(weir_buffer *out, const suggest_report *r)
{
    const suggest_choice *c = &r->found->choice[r->found->best];
    weir_buffer_printf(out, "\n  %-9s %29s %34s\n", "", "keys denied", "requests denied");
    print_counts(out, "searched", &c->result.searched);
    if (c->result.held_out.requests > 0)
        print_counts(out, "held out", &c->result.held_out);
    print_counts(out, "whole log", &c->result.all);
    print_verdict(out, r, &c->result);
    weir_buffer_printf(
        out, "\nThe policy, and a command that shows which keys it would have denied:\n\n");
    weir_buffer_text(out, c->text);
    weir_buffer_text(out, "\n");
    print_command(out, r, c->text);
    weir_buffer_text(out, "\n");
}

void suggest_print_text(weir_buffer *out, const suggest_report *r, terminal_style style)
{
    print_log(out, r);
    if (r->found->len > 1)
        print_curve(out, r, style);
    print_table(out, r);
    print_incomplete(out, r);
    print_suggestion(out, r);
}

/* ---- JSON ------------------------------------------------------------------------------------ */

static void json_string(weir_buffer *out, const char *name, const char *text)
{
    weir_buffer_printf(out, "\"%s\":", name);
    weir_json_put_string(out, text, strlen(text));
}

static void json_counts(weir_buffer *out, const char *name, const suggest_counts *part)
{
    weir_buffer_printf(out,
                       "\"%s\":{\"requests\":%" PRIu64 ",\"requests_denied\":%" PRIu64
                       ",\"keys\":%" PRIu64 ",\"keys_denied\":%" PRIu64 "}",
                       name, part->requests, part->requests_denied, part->keys, part->keys_denied);
}

static void json_result(weir_buffer *out, const suggest_report *r, const suggest_result *result)
{
    json_counts(out, "searched", &result->searched);
    if (r->trace->split_ns == INT64_MAX) {
        weir_buffer_text(out, ",\"held_out\":null,");
    } else {
        weir_buffer_text(out, ",");
        json_counts(out, "held_out", &result->held_out);
        weir_buffer_text(out, ",");
    }
    json_counts(out, "all", &result->all);
}

static void json_choice(weir_buffer *out, const suggest_report *r, const suggest_choice *c)
{
    weir_buffer_text(out, "{");
    json_string(out, "policy", c->text);
    weir_buffer_printf(out, ",\"limit\":%" PRId64 ",\"burst\":", c->limit);
    if (r->options->algorithm->bucket)
        weir_buffer_printf(out, "%" PRId64, c->burst);
    else
        weir_buffer_text(out, "null");
    weir_buffer_printf(out, ",\"worst_case\":%" PRId64 ",\"meets_target\":%s,", c->worst_case,
                       suggest_is_met(&r->options->target, &c->result.searched) ? "true" : "false");
    json_result(out, r, &c->result);
    weir_buffer_text(out, "}");
}

static void json_log(weir_buffer *out, const suggest_report *r)
{
    const suggest_trace *t = r->trace;
    weir_buffer_printf(out, ",\"first_ns\":%" PRId64 ",\"last_ns\":%" PRId64 ",\"split_ns\":",
                       t->first_ns, t->last_ns);
    if (t->split_ns == INT64_MAX)
        weir_buffer_text(out, "null");
    else
        weir_buffer_printf(out, "%" PRId64, t->split_ns);
    weir_buffer_printf(out, ",\"cost\":%" PRIu64 ",", t->cost);
    json_result(out, r, &r->found->totals);
}

static void json_suggestion(weir_buffer *out, const suggest_report *r)
{
    const suggest_found *f = r->found;
    if (f->len == 0) {
        weir_buffer_text(out, "\"suggestion\":null,\"held_out_meets_target\":null,"
                              "\"whole_log_meets_target\":null");
        return;
    }
    const suggest_choice *best = &f->choice[f->best];
    const suggest_counts *held = &best->result.held_out;
    weir_buffer_text(out, "\"suggestion\":");
    json_choice(out, r, best);
    weir_buffer_printf(out, ",\"held_out_meets_target\":%s,\"whole_log_meets_target\":%s",
                       held->requests == 0                         ? "null"
                       : suggest_is_met(&r->options->target, held) ? "true"
                                                                   : "false",
                       suggest_is_met(&r->options->target, &best->result.all) ? "true" : "false");
}

void suggest_print_json(weir_buffer *out, const suggest_report *r)
{
    const suggest_found *f = r->found;
    weir_buffer_text(out, "{\"weir\":\"suggest\",\"version\":1,\"target\":{");
    json_string(out, "text", r->options->target.argument);
    weir_buffer_printf(out, ",\"unit\":\"%s\",\"allowed\":%" PRIu64 "},",
                       r->options->target.requests ? "requests" : "keys", f->allowed);
    json_string(out, "algorithm", r->options->algorithm->name);
    weir_buffer_text(out, ",");
    json_string(out, "per", r->options->per);
    json_log(out, r);
    weir_buffer_text(out, ",");
    json_suggestion(out, r);
    weir_buffer_printf(out, ",\"search_complete\":%s,\"choices\":[",
                       f->complete ? "true" : "false");
    for (size_t i = 0; i < f->len; i++) {
        weir_buffer_text(out, i > 0 ? "," : "");
        json_choice(out, r, &f->choice[i]);
    }
    weir_buffer_text(out, "]}\n");
}
