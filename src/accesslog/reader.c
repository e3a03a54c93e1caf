/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* Reads lines, parses them, and reports those that cannot be read. */

#include "accesslog/reader.h"

#include "port/assert.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum {
    BAD_LINES_SHOWN = 5,   /* of all files together */
    PROGRESS_LINES = 4096, /* lines between two updates of the progress bar */
};

/* ---- the format ------------------------------------------------------------------------------ */

static int complain_option(const weir_logline_error *error)
{
    char text[512];
    weir_logline_error_text(error, text, sizeof text);
    return accesslog_complain(ACCESSLOG_USAGE, "%s", text);
}

/* Opens a reader of lines with --format, --key, --time, --cost and --where.
 * Returns 0, or the exit status after printing an error. */
static int open_format(accesslog_format *f, const accesslog_options *o)
{
    weir_logline_options options = {.format = o->format,
                                    .key = o->key,
                                    .time = o->time,
                                    .cost = o->cost,
                                    .where = o->where,
                                    .wheres = o->wheres};
    weir_logline_error error;
    weir_status st = weir_logline_open(&f->reader, &options, &error);
    if (st == WEIR_E_NOMEM)
        return accesslog_complain_memory();
    return st == WEIR_OK ? 0 : complain_option(&error);
}

/* Reads line `number`, as weir_logline_read() does. Prints the error of WEIR_LOGLINE_USAGE, and
 * records the first line that is bad. */
static weir_logline_result parse_line(accesslog_format *f, const char *line, size_t len,
                                      uint64_t number, weir_log_record *ret,
                                      weir_logline_error *ret_error)
{
    weir_logline_result result = weir_logline_read(f->reader, line, len, ret, ret_error);
    if (result == WEIR_LOGLINE_USAGE)
        complain_option(ret_error);
    if (result == WEIR_LOGLINE_BAD && !f->doubted) {
        f->doubted = true;
        f->number = number;
        f->key_absent = ret_error->key_absent;
        f->json = *line == '{';
        f->other = weir_logline_detect(line, len);
    }
    return result;
}

/* Warns of a name in a filter that no line has. In formats other than JSON it is an error. */
static void note_absent(const accesslog_format *f)
{
    const char *name = NULL;
    size_t len = 0;
    if (weir_logline_absent(f->reader, &name, &len))
        accesslog_note("WARNING: no line has the member '%.*s' of --where", (int)len, name);
}

void accesslog_reader_note_format(const accesslog_reader *r)
{
    const accesslog_format *f = &r->format;
    note_absent(f);
    const char *name = weir_logline_format(f->reader), *unit = weir_logline_unit(f->reader);
    if (unit)
        accesslog_note("WARNING: the first column is read as nanoseconds since 1970, but the first "
                       "line suggests %s; if so, let a first line name the columns: time, TAB, key",
                       unit);
    if (name && f->other && !weir_logline_alike(name, f->other))
        accesslog_note("WARNING: the lines were read as %s, but line %" PRIu64
                       " is %s; see --format",
                       name, f->number, f->other);
}

/* Prints a hint for a log of which no line could be read. */
static void hint(const accesslog_format *f, const accesslog_options *o)
{
    const char *name = weir_logline_format(f->reader);
    bool other = f->other && (!name || strcmp(f->other, name) != 0);
    if (other && o->format)
        accesslog_note("hint: try --format %s", f->other);
    else if (f->key_absent)
        accesslog_note("hint: set --key to the name of the member that is the key");
    else if (other && !f->json)
        accesslog_note("hint: a common log has no referer and no agent; --key and --cost "
                       "must name fields that every line has");
    else
        accesslog_note("hint: the formats are %s, plain or compressed with gzip or zstd; "
                       "--time names the time of JSON, csv and tsv; see --help",
                       weir_logline_formats());
}

/* ---- lines ----------------------------------------------------------------------------------- */

/* Counts a line that cannot be read, and shows the first few. */
static accesslog_status bad_line(accesslog_reader *r, const weir_logline_error *error)
{
    r->counts.bad++;
    if (r->shared->bad_shown++ < BAD_LINES_SHOWN) {
        char text[640];
        weir_logline_error_text(error, text, sizeof text);
        accesslog_progress_bar_erase(&r->shared->progress);
        fprintf(stderr, "%s:%" PRIu64 ": %s\n", r->in.name, r->in.number, text);
    }
    if (!r->shared->options->strict)
        return ACCESSLOG_END;
    accesslog_complain(ACCESSLOG_FAILED,
                       "stopped at the first line that cannot be read (--strict)");
    return ACCESSLOG_ERROR;
}

static accesslog_status complain_memory(void)
{
    accesslog_complain_memory();
    return ACCESSLOG_ERROR;
}

/* Returns ACCESSLOG_END if the line has no request. */
static accesslog_status read_line(accesslog_reader *r, const char *line, size_t len)
{
    weir_logline_error error;
    switch (parse_line(&r->format, line, len, r->in.number, &r->record, &error)) {
    case WEIR_LOGLINE_REQUEST:
        return ACCESSLOG_REQUEST;
    case WEIR_LOGLINE_LEFT_OUT:
        r->counts.left_out++;
        return ACCESSLOG_END;
    case WEIR_LOGLINE_HEADER:
        r->header = true;
        return ACCESSLOG_END;
    case WEIR_LOGLINE_BAD:
        return bad_line(r, &error);
    case WEIR_LOGLINE_USAGE:
        r->shared->exit_status = ACCESSLOG_USAGE;
        return ACCESSLOG_ERROR;
    case WEIR_LOGLINE_NO_MEMORY:
        break;
    }
    return complain_memory();
}

/* Notes by how much a line is dated before an earlier one. */
static void see_time(accesslog_reader *r)
{
    int64_t back_ns = r->latest_ns - r->record.t_ns;
    WEIR_ASSERT(r->record.t_ns >= 0 && r->record.t_ns <= WEIR_NOW_NS_MAX);
    if (back_ns < 0) {
        r->latest_number = r->in.number;
        r->latest_ns = r->record.t_ns;
    } else if (back_ns > r->ahead_ns_max) {
        r->ahead_ns_max = back_ns;
        r->ahead_number = r->latest_number;
        r->behind_number = r->in.number;
    }
}

static accesslog_status at_end(accesslog_reader *r, accesslog_input_status got)
{
    if (got == ACCESSLOG_INPUT_END)
        return ACCESSLOG_END;
    accesslog_progress_bar_erase(&r->shared->progress);
    accesslog_note("%s: %s", r->in.name, r->in.error);
    return ACCESSLOG_ERROR;
}

static void count_line(accesslog_reader *r)
{
    accesslog_shared *s = r->shared;
    r->counts.lines++;
    if (++s->lines % PROGRESS_LINES != 0 || !s->progress.wanted)
        return;
    int64_t bytes = 0;
    for (size_t i = 0; i < s->readers_len; i++)
        bytes += s->readers[i].in.bytes_read;
    accesslog_progress_bar_show(&s->progress, bytes, s->lines);
}

/* Reads up to the next line with a request, into r->record. */
static accesslog_status read_record(accesslog_reader *r)
{
    static const weir_logline_error too_long = {.column = ACCESSLOG_LINE_MAX + 1,
                                                .expected = "the end of the line: a line has at "
                                                            "most 1 MiB"};
    const char *line = NULL;
    size_t len = 0;
    accesslog_input_status got;
    while ((got = accesslog_input_next(&r->in, &line, &len)) <= ACCESSLOG_INPUT_LINE_TOO_LONG) {
        accesslog_status status = ACCESSLOG_END;
        count_line(r);
        if (got == ACCESSLOG_INPUT_LINE_TOO_LONG)
            status = bad_line(r, &too_long);
        else if (len > 0 && !(len == 1 && *line == '\r'))
            status = read_line(r, line, len);
        if (status == ACCESSLOG_END)
            continue;
        if (status == ACCESSLOG_REQUEST)
            see_time(r);
        return status;
    }
    return at_end(r, got);
}

/* ---- requests -------------------------------------------------------------------------------- */

/* Returns the next request in the order of the lines, without a copy. */
static accesslog_status next_line(accesslog_reader *r)
{
    accesslog_status status = read_record(r);
    if (status == ACCESSLOG_REQUEST)
        r->request = (accesslog_reader_request){.t_ns = r->record.t_ns,
                                                .key = {r->record.key, r->record.key_len},
                                                .cost = r->record.cost,
                                                .line = r->in.number};
    return status;
}

/* Returns the next request in the order of time. After an error, the requests before it follow
 * first. */
static accesslog_status next_held(accesslog_reader *r)
{
    const accesslog_held *held;
    if (r->held)
        accesslog_reorder_remove(&r->reorder);
    r->held = false;
    while (!(held = accesslog_reorder_ready(&r->reorder))) {
        if (r->end == ACCESSLOG_REQUEST)
            r->end = read_record(r);
        else
            return r->end;
        if (r->end != ACCESSLOG_REQUEST)
            accesslog_reorder_end(&r->reorder);
        else if (accesslog_reorder_add(&r->reorder, &r->record, r->in.number) != WEIR_OK)
            return complain_memory();
    }
    r->held = true;
    r->request = (accesslog_reader_request){.t_ns = held->t_ns,
                                            .key = accesslog_held_key(held),
                                            .cost = held->cost,
                                            .line = held->line};
    return ACCESSLOG_REQUEST;
}

accesslog_status accesslog_reader_next(accesslog_reader *r)
{
    return r->shared->options->reorder_ns == 0 ? next_line(r) : next_held(r);
}

/* ---- the rest -------------------------------------------------------------------------------- */

void accesslog_reader_complain_nothing(const accesslog_reader *r, const char *prefix)
{
    const char *name = r->in.name;
    if (r->in.empty) {
        accesslog_note("%s%s: the log is empty", prefix, name);
    } else if (r->counts.bad == 0) {
        accesslog_note("%s%s: the log has only %s", prefix, name,
                       r->header ? "comments or the names of columns" : "empty lines");
    } else {
        accesslog_note("%s%s: no line could be read (%" PRIu64 " tried)", prefix, name,
                       r->counts.bad);
        hint(&r->format, r->shared->options);
    }
}

int accesslog_reader_open(accesslog_reader *r, accesslog_shared *shared, const char *path)
{
    const accesslog_options *o = shared->options;
    size_t files = shared->readers_len;
    WEIR_ASSERT(files > 0);
    size_t held_max = ACCESSLOG_HELD_MAX / files, bytes_max = ACCESSLOG_HELD_BYTES_MAX / files;
    *r = (accesslog_reader){.shared = shared};
    accesslog_reorder_init(&r->reorder, o->reorder_ns, held_max ? held_max : 1, bytes_max);
    int status = open_format(&r->format, o);
    if (status == 0 && !accesslog_input_open(&r->in, path))
        status = accesslog_complain(ACCESSLOG_FAILED, "%s: %s",
                                    strcmp(path, "-") == 0 ? "<stdin>" : path, strerror(errno));
    r->counts.name = r->in.name;
    return status;
}

void accesslog_reader_close(accesslog_reader *r)
{
    accesslog_reorder_free(&r->reorder);
    weir_logline_close(r->format.reader);
    accesslog_input_close(&r->in);
}
