/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* Collects errors and tells them. What is kept is bounded: when the list is full, all but the first
 * ones in the file are let go, for they would not be told anyway. */

#include "cmd/config/errors.h"

#include "cmd/caret.h"

#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { TEXT_SIZE = 400, PATH_SIZE = 200, KEY_SHOWN = 64, WORD_MAX = 40 };

/* ---- collecting ------------------------------------------------------------------------------ */

static int by_place(const void *a, const void *b)
{
    const config_error *x = a, *y = b;
    if (x->at != y->at)
        return x->at < y->at ? -1 : 1;
    return x->order < y->order ? -1 : x->order > y->order;
}

static void sort(config_errors *e)
{
    qsort(e->list, e->kept, sizeof e->list[0], by_place);
}

static bool is_simple(const config_node *key)
{
    for (size_t i = 0; i < key->len; i++) {
        char c = key->text[i];
        bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
        if (!letter && !(c >= '0' && c <= '9') && c != '_' && c != '-')
            return false;
    }
    return key->len > 0;
}

static size_t append(char *buf, size_t at, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

static size_t append(char *buf, size_t at, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    int n = vsnprintf(buf + at, PATH_SIZE - at, format, args);
    va_end(args);
    size_t room = PATH_SIZE - at - 1, len = n < 0 ? 0 : (size_t)n;
    return at + (len < room ? len : room);
}

/* Appends the path of a place: a.b[2]."c d". What lies within a password is not named. */
static size_t append_path(char *buf, const config_place *place, bool *secret)
{
    if (!place->up)
        return 0;
    size_t at = append_path(buf, place->up, secret);
    if (*secret)
        return at;
    if (!place->key)
        return append(buf, at, "[%zu]", place->index);
    const char *quote = is_simple(place->key) ? "" : "\"";
    *secret = config_is_secret(place->key);
    int shown = place->key->len > KEY_SHOWN ? KEY_SHOWN : (int)place->key->len;
    return append(buf, at, "%s%s%.*s%s%s", at > 0 ? "." : "", quote, shown, place->key->text,
                  shown < (int)place->key->len ? "..." : "", quote);
}

__attribute__((format(printf, 5, 0))) static void complain(config_errors *e, size_t at,
                                                           const config_place *place, bool warning,
                                                           const char *format, va_list args)
{
    char text[TEXT_SIZE], path[PATH_SIZE] = "";
    bool secret = false;
    vsnprintf(text, sizeof text, format, args);
    if (place)
        append_path(path, place, &secret);
    e->found++;
    e->warnings += warning;
    if (e->kept == CONFIG_ERRORS_KEPT) {
        sort(e);
        e->kept = CONFIG_ERRORS_MAX;
    }
    const char *kept_path = config_copy(e->arena, path, strlen(path));
    const char *kept_text = config_copy(e->arena, text, strlen(text));
    if (kept_path && kept_text)
        e->list[e->kept++] = (config_error){at, e->found, kept_path, kept_text, warning};
}

void config_complain_at(config_errors *e, size_t at, const config_place *place, const char *format,
                        ...)
{
    va_list args;
    va_start(args, format);
    complain(e, at, place, false, format, args);
    va_end(args);
}

void config_complain(config_errors *e, const config_place *place, const char *format, ...)
{
    if (place->node->bad)
        return;
    va_list args;
    va_start(args, format);
    complain(e, place->node->begin, place, false, format, args);
    va_end(args);
}

void config_warn(config_errors *e, const config_place *place, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    complain(e, place->node->begin, place, true, format, args);
    va_end(args);
}

/* ---- telling --------------------------------------------------------------------------------- */

typedef struct line {
    size_t number; /* from 1 */
    size_t begin;
    size_t end; /* without the line end */
} line;

static size_t line_end(const config_errors *e, size_t at)
{
    while (at < e->len && e->text[at] != '\n' && e->text[at] != '\r')
        at++;
    return at;
}

/* Moves on to the line that holds the byte `at`; one that is at a line end belongs to the line
 * before it. */
static void seek(const config_errors *e, line *l, size_t at)
{
    while (at > l->end && l->end < e->len) {
        bool crlf = e->text[l->end] == '\r' && l->end + 1 < e->len && e->text[l->end + 1] == '\n';
        size_t next = l->end + (crlf ? 2 : 1);
        if (at < next || next == e->len)
            return; /* what ends too early is shown behind the last line that is written */
        l->begin = next;
        l->end = line_end(e, next);
        l->number++;
    }
}

static void hide(const config_errors *e, const line *l, char *source)
{
    for (const config_hidden *h = e->hidden; h; h = h->next) {
        for (size_t at = h->begin > l->begin ? h->begin : l->begin; at < h->end && at < l->end;
             at++)
            source[at - l->begin] = '*';
    }
}

static void tell(const config_errors *e, const config_error *error, const line *l,
                 const config_sink *sink)
{
    size_t len = l->end - l->begin, at = error->at > l->end ? len : error->at - l->begin;
    char *source = config_copy(e->arena, e->text + l->begin, len);
    if (!source)
        return;
    size_t column = caret_columns(source, len, at) + 1;
    hide(e, l, source);
    const config_problem p = {.file = e->file,
                              .line = l->number,
                              .column = column,
                              .path = error->path,
                              .text = error->text,
                              .source = source,
                              .source_len = len,
                              .source_at = at,
                              .warning = error->warning};
    sink->tell(sink->ctx, &p);
}

void config_errors_tell(config_errors *e, const config_sink *sink)
{
    sort(e);
    size_t told = e->kept < CONFIG_ERRORS_MAX ? e->kept : CONFIG_ERRORS_MAX;
    line l = {.number = 1, .begin = 0, .end = line_end(e, 0)};
    for (size_t i = 0; i < told; i++) {
        seek(e, &l, e->list[i].at);
        tell(e, &e->list[i], &l, sink);
    }
    if (told > 0 && e->found > told) {
        char text[64];
        snprintf(text, sizeof text, "and %zu more", e->found - told);
        const config_problem more = {.file = e->file, .path = "", .text = text};
        sink->tell(sink->ctx, &more);
    }
}

void config_problem_print(FILE *out, const config_problem *p)
{
    caret_text(out, p->file, strlen(p->file));
    if (p->line > 0)
        fprintf(out, ":%zu:%zu", p->line, p->column);
    fputs(p->warning ? ": warning: " : ": error: ", out);
    caret_text(out, p->path, strlen(p->path));
    fputs(p->path[0] ? ": " : "", out);
    caret_text(out, p->text, strlen(p->text));
    fputc('\n', out);
    if (p->line > 0)
        caret_print(out, p->source, p->source_len, p->source_at);
}

static void print_problem(void *ctx, const config_problem *problem)
{
    config_problem_print(ctx, problem);
}

config_sink config_print_to(FILE *out)
{
    return (config_sink){print_problem, out};
}

/* ---- words ----------------------------------------------------------------------------------- */

static size_t least(size_t a, size_t b)
{
    return a < b ? a : b;
}

static bool same_letter(char a, char b)
{
    return config_lower(a) == config_lower(b);
}

size_t config_distance(const char *a, const char *b)
{
    size_t rows[3][WORD_MAX + 1], *before = rows[0], *last = rows[1], *now = rows[2];
    size_t a_len = strlen(a), b_len = strlen(b);
    if (a_len > WORD_MAX || b_len > WORD_MAX)
        return SIZE_MAX;
    memset(rows, 0, sizeof rows);
    for (size_t k = 0; k <= b_len; k++)
        last[k] = k;
    for (size_t i = 1; i <= a_len; i++) {
        now[0] = i;
        for (size_t k = 1; k <= b_len; k++) {
            now[k] = least(least(last[k], now[k - 1]) + 1,
                           last[k - 1] + !same_letter(a[i - 1], b[k - 1]));
            if (i > 1 && k > 1 && same_letter(a[i - 1], b[k - 2]) &&
                same_letter(a[i - 2], b[k - 1]))
                now[k] = least(now[k], before[k - 2] + 1);
        }
        size_t *unused = before;
        before = last;
        last = now;
        now = unused;
    }
    return last[b_len];
}
