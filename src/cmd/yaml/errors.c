/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* Keeps the errors that are first in the file, sorted, and counts the others. */

#include "cmd/yaml/yaml.h"

#include "cmd/kit/caret.h"
#include "port/assert.h"

#include <stdarg.h>
#include <stdint.h>
#include <string.h>

enum { TEXT_SIZE = 400, PATH_SIZE = 200, KEY_SHOWN = 64 };

/* ---- collecting ------------------------------------------------------------------------------ */

config_errors *config_errors_of(weir_arena *arena, config_errors *first, const char *name,
                                const char *text, size_t len)
{
    config_errors *e = weir_arena_alloc(arena, 1, sizeof *e), *last = first;
    size_t mark = len >= 3 && memcmp(text, "\xEF\xBB\xBF", 3) == 0 ? 3 : 0; /* of byte order */
    if (!e)
        return NULL;
    *e = (config_errors){
        .arena = arena, .file = name, .text = text ? text + mark : NULL, .len = len - mark};
    while (last && last->next)
        last = last->next;
    e->number = last ? last->number + 1 : 0;
    if (last)
        last->next = e;
    return e;
}

static bool needs_quotes(const config_node *key)
{
    static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-";
    return key->len == 0 || strspn(key->text, plain) != key->len;
}

__attribute__((format(printf, 3, 4))) static size_t append(char *buf, size_t at, const char *format,
                                                           ...)
{
    va_list args;
    va_start(args, format);
    size_t len = (size_t)vsnprintf(buf + at, PATH_SIZE - at, format, args);
    va_end(args);
    size_t rest = PATH_SIZE - at - 1;
    return at + (len < rest ? len : rest);
}

/* Appends the path of a place: a.b[2]."c d". Keys within a password are left out. */
static size_t append_path(char *buf, const config_place *place, bool *in_password)
{
    if (!place->up)
        return 0;
    size_t at = append_path(buf, place->up, in_password);
    if (*in_password)
        return at;
    if (!place->key)
        return append(buf, at, "[%zu]", place->index);
    const char *quote = needs_quotes(place->key) ? "\"" : "";
    *in_password = config_is_password(place->key);
    int shown = place->key->len > KEY_SHOWN ? KEY_SHOWN : (int)place->key->len;
    return append(buf, at, "%s%s%.*s%s%s", at > 0 ? "." : "", quote, shown, place->key->text,
                  shown < (int)place->key->len ? "..." : "", quote);
}

/* Drops the last warning of a list that is full or, if there is none, the last error. Returns false
 * if the new one should be dropped instead. */
static bool make_room(config_errors *e, size_t at, bool warning)
{
    size_t i = e->kept - 1;
    while (i > 0 && !e->list[i].warning)
        i--;
    if (!e->list[i].warning)
        i = e->kept - 1;
    if (e->list[i].warning == warning ? at >= e->list[i].at : warning)
        return false;
    e->kept--;
    memmove(&e->list[i], &e->list[i + 1], (e->kept - i) * sizeof e->list[0]);
    return true;
}

/* Inserts an error behind those at the same position. The list is not full. */
static void insert(config_errors *e, const config_found_error *error)
{
    size_t i = e->kept;
    WEIR_ASSERT(e->kept < CONFIG_ERRORS_MAX);
    while (i > 0 && e->list[i - 1].at > error->at)
        i--;
    memmove(&e->list[i + 1], &e->list[i], (e->kept++ - i) * sizeof e->list[0]);
    e->list[i] = *error;
}

__attribute__((format(printf, 5, 0))) static void add(config_errors *e, size_t at,
                                                      const config_place *place, bool warning,
                                                      const char *format, va_list args)
{
    char text[TEXT_SIZE], path[PATH_SIZE] = "";
    bool in_password = false;
    e->found++;
    e->warnings += warning;
    if (e->kept == CONFIG_ERRORS_MAX && !make_room(e, at, warning))
        return;
    vsnprintf(text, sizeof text, format, args);
    if (place)
        append_path(path, place, &in_password);
    const config_found_error error = {at, weir_arena_copy(e->arena, path, strlen(path)),
                                      weir_arena_copy(e->arena, text, strlen(text)), warning};
    if (error.path && error.text)
        insert(e, &error);
}

/* The errors of the file that a node is from. */
static config_errors *errors_of(config_errors *e, const config_node *node)
{
    return node && node->file ? node->file : e;
}

void config_error_at(config_errors *e, size_t at, const config_place *place, const char *format,
                     ...)
{
    va_list args;
    va_start(args, format);
    add(errors_of(e, place ? place->node : NULL), at, place, false, format, args);
    va_end(args);
}

void config_error_on(config_errors *e, const config_node *node, const config_place *place,
                     const char *format, ...)
{
    va_list args;
    va_start(args, format);
    add(errors_of(e, node), node->begin, place, false, format, args);
    va_end(args);
}

void config_error(config_errors *e, const config_place *place, const char *format, ...)
{
    if (place->node && place->node->bad)
        return;
    va_list args;
    va_start(args, format);
    add(errors_of(e, place->node), place->node ? place->node->begin : 0, place->node ? place : NULL,
        false, format, args);
    va_end(args);
}

void config_warn(config_errors *e, const config_place *place, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    add(errors_of(e, place->node), place->node ? place->node->begin : 0, place->node ? place : NULL,
        true, format, args);
    va_end(args);
}

/* ---- reporting ------------------------------------------------------------------------------- */

typedef struct line {
    size_t number; /* from 1 */
    size_t begin;
    size_t end; /* without the line break */
} line;

size_t config_line_end(const config_errors *e, size_t at)
{
    while (at < e->len && e->text[at] != '\n' && e->text[at] != '\r')
        at++;
    return at;
}

/* Advances to the line that holds byte `at`. A line break belongs to the line that it ends. The
 * end of the file is shown behind the last line that has text. */
static void seek(const config_errors *e, line *l, size_t at)
{
    WEIR_ASSERT(at <= e->len);
    while (at > l->end) {
        bool crlf = e->text[l->end] == '\r' && l->end + 1 < e->len && e->text[l->end + 1] == '\n';
        size_t next = l->end + (crlf ? 2 : 1);
        if (at < next || next == e->len)
            return;
        *l = (line){l->number + 1, next, config_line_end(e, next)};
    }
}

static void redact(const config_errors *e, const line *l, char *source)
{
    for (const config_redaction *r = e->redactions; r; r = r->next) {
        for (size_t at = r->begin > l->begin ? r->begin : l->begin; at < r->end && at < l->end;
             at++)
            source[at - l->begin] = '*';
    }
}

static void report(const config_errors *e, const config_found_error *error, const line *l,
                   const config_sink *sink)
{
    size_t len = l->end - l->begin, at = error->at > l->end ? len : error->at - l->begin;
    char *source = weir_arena_copy(e->arena, e->text + l->begin, len);
    if (!source)
        return;
    size_t column = caret_columns(source, len, at) + 1;
    redact(e, l, source);
    const config_problem p = {.file = e->file,
                              .line = l->number,
                              .column = column,
                              .path = e->hidden ? "" : error->path,
                              .text = error->text,
                              .source = e->hidden ? NULL : source,
                              .source_len = len,
                              .source_at = at,
                              .warning = error->warning};
    sink->report(sink->ctx, &p);
}

size_t config_errors_in(const config_errors *e)
{
    size_t n = 0;
    for (; e; e = e->next)
        n += e->found - e->warnings;
    return n;
}

/* Reports errors that are about no file. */
static void report_whole(const config_errors *e, const config_sink *sink)
{
    for (size_t i = 0; i < e->kept; i++) {
        const config_problem p = {.file = e->file,
                                  .path = e->list[i].path,
                                  .text = e->list[i].text,
                                  .warning = e->list[i].warning};
        sink->report(sink->ctx, &p);
    }
}

static void report_file(const config_errors *e, const config_sink *sink)
{
    line l = {.number = 1, .begin = 0, .end = config_line_end(e, 0)};
    for (size_t i = 0; i < e->kept; i++) {
        seek(e, &l, e->list[i].at);
        report(e, &e->list[i], &l, sink);
    }
    if (e->kept > 0 && e->found > e->kept) {
        char text[64];
        snprintf(text, sizeof text, "and %zu more", e->found - e->kept);
        const config_problem more = {.file = e->file,
                                     .path = "",
                                     .text = text,
                                     .warning = e->found - e->warnings <= CONFIG_ERRORS_MAX};
        sink->report(sink->ctx, &more);
    }
}

void config_errors_report(const config_errors *e, const config_sink *sink)
{
    for (; e; e = e->next)
        (e->text ? report_file : report_whole)(e, sink);
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
    if (p->source)
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
