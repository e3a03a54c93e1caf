/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* Reads lines, parses them, and reports those that cannot be read or that went back in time. */

#include "cmd/accesslog/source.h"

#include "cmd/accesslog/format.h"
#include "cmd/accesslog/input.h"
#include "cmd/accesslog/messages.h"
#include "cmd/duration.h"
#include "port/port.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum {
    BAD_LINES_SHOWN = 5,
    PROGRESS_LINES = 4096, /* lines between two updates of the progress bar */
};

#define AHEAD_NS_MAX INT64_C(3600000000000) /* warn if the log is out of order by more than this */

struct accesslog {
    const accesslog_options *options;
    accesslog_input in;
    accesslog_format format;
    weir_log_record record;
    accesslog_progress_bar progress;
    int64_t latest_ns, back_ns_max;
    uint64_t latest_number; /* the line that set latest_ns */
    uint64_t back_number;   /* the line that had set latest_ns when back_ns_max was found */
    accesslog_counts counts;
    int exit_status; /* after ACCESSLOG_ERROR */
};

/* ---- lines ----------------------------------------------------------------------------------- */

/* Counts a line that cannot be read, and shows the first few. */
static accesslog_status bad_line(accesslog *a, const weir_logline_error *error)
{
    if (a->counts.bad++ < BAD_LINES_SHOWN) {
        char text[640];
        weir_logline_error_text(error, text, sizeof text);
        accesslog_progress_bar_erase(&a->progress);
        fprintf(stderr, "%s:%" PRIu64 ": %s\n", a->in.name, a->in.number, text);
    }
    if (!a->options->strict)
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

/* Returns the time at which the line is decided: its own, or the latest one so far if that is
 * later. Time never goes back, as in the daemon. */
static int64_t decision_time(accesslog *a)
{
    int64_t back_ns = a->latest_ns - a->record.t_ns;
    if (back_ns <= 0) {
        a->latest_number = back_ns < 0 ? a->in.number : a->latest_number;
        a->latest_ns = a->record.t_ns;
        return a->latest_ns;
    }
    a->counts.late++;
    if (back_ns > a->back_ns_max) {
        a->back_ns_max = back_ns;
        a->back_number = a->latest_number;
    }
    return a->latest_ns;
}

/* Returns ACCESSLOG_END if the line has no request. */
static accesslog_status read_line(accesslog *a, const char *line, size_t len)
{
    weir_logline_error error;
    switch (accesslog_format_read(&a->format, line, len, a->in.number, &a->record, &error)) {
    case WEIR_LOGLINE_REQUEST:
        return ACCESSLOG_REQUEST;
    case WEIR_LOGLINE_LEFT_OUT:
    case WEIR_LOGLINE_HEADER:
        return ACCESSLOG_END;
    case WEIR_LOGLINE_BAD:
        return bad_line(a, &error);
    case WEIR_LOGLINE_USAGE:
        a->exit_status = ACCESSLOG_USAGE;
        return ACCESSLOG_ERROR;
    case WEIR_LOGLINE_NO_MEMORY:
        break;
    }
    return complain_memory();
}

/* Reports that no line could be read, with a guess at the reason. */
static void complain_nothing(const accesslog *a)
{
    const char *name = a->in.name;
    if (a->in.empty) {
        accesslog_note("%s: the log is empty", name);
    } else if (a->counts.bad == 0) {
        accesslog_note("%s: the log has only empty lines", name);
    } else {
        accesslog_note("%s: no line could be read (%" PRIu64 " tried)", name, a->counts.bad);
        accesslog_format_hint(&a->format, a->options);
    }
}

static accesslog_status at_end(accesslog *a, accesslog_input_status got)
{
    accesslog_progress_bar_erase(&a->progress);
    if (got == ACCESSLOG_INPUT_FAILED)
        accesslog_note("%s: %s", a->in.name, a->in.error);
    else if (a->counts.requests == 0)
        complain_nothing(a);
    else
        return ACCESSLOG_END;
    return ACCESSLOG_ERROR;
}

accesslog_status accesslog_next(accesslog *a, accesslog_request *ret)
{
    static const weir_logline_error too_long = {.column = ACCESSLOG_LINE_MAX + 1,
                                                .expected = "the end of the line: a line has at "
                                                            "most 1 MiB"};
    const char *line = NULL;
    size_t len = 0;
    accesslog_input_status got;
    while ((got = accesslog_input_next(&a->in, &line, &len)) <= ACCESSLOG_INPUT_LINE_TOO_LONG) {
        accesslog_status status = ACCESSLOG_END;
        if (a->progress.wanted && a->in.number % PROGRESS_LINES == 0)
            accesslog_progress_bar_show(&a->progress, &a->in);
        if (got == ACCESSLOG_INPUT_LINE_TOO_LONG)
            status = bad_line(a, &too_long);
        else if (len > 0 && !(len == 1 && *line == '\r'))
            status = read_line(a, line, len);
        if (status == ACCESSLOG_ERROR)
            return status;
        if (status == ACCESSLOG_END)
            continue;
        a->counts.requests++;
        *ret = (accesslog_request){.t_ns = a->record.t_ns,
                                   .now_ns = decision_time(a),
                                   .key = {a->record.key, a->record.key_len},
                                   .cost = a->record.cost,
                                   .file = a->in.name,
                                   .line = a->in.number};
        return ACCESSLOG_REQUEST;
    }
    return at_end(a, got);
}

/* ---- messages -------------------------------------------------------------------------------- */

/* Reports lines that were out of order. A little disorder is common in logs. A line dated far ahead
 * is a problem, because time stands still for all lines that follow it. */
static void note_back(const accesslog *a)
{
    char span[DURATION_TEXT_MAX], ahead[80] = "";
    bool far = a->back_ns_max > AHEAD_NS_MAX, one = a->counts.late == 1;
    duration_text(a->back_ns_max, span);
    if (far)
        snprintf(ahead, sizeof ahead, "; is the time of line %" PRIu64 " right?", a->back_number);
    accesslog_note("%s%" PRIu64 " line%s went back in time, by up to %s; %s was decided at the "
                   "latest time seen%s",
                   far ? "WARNING: " : "", a->counts.late, one ? "" : "s", span,
                   one ? "it" : "each", ahead);
}

void accesslog_notes(const accesslog *a)
{
    uint64_t bad = a->counts.bad;
    if (bad > 0)
        accesslog_note("%" PRIu64 " line%s could not be read and %s left out", bad,
                       bad == 1 ? "" : "s", bad == 1 ? "was" : "were");
    accesslog_format_note(&a->format);
    if (a->counts.late > 0)
        note_back(a);
}

int accesslog_exit_status(const accesslog *a)
{
    return a->exit_status;
}

accesslog_counts accesslog_counts_get(const accesslog *a)
{
    return a->counts;
}

void accesslog_progress(accesslog *a)
{
    accesslog_progress_bar_begin(&a->progress, !a->options->no_progress && a->in.size > 0 &&
                                                   isatty(STDERR_FILENO));
}

void accesslog_progress_erase(accesslog *a)
{
    accesslog_progress_bar_erase(&a->progress);
}

/* ---- opening and closing --------------------------------------------------------------------- */

int accesslog_open(accesslog **ret, const accesslog_options *o)
{
    accesslog *a = port_zalloc(1, sizeof *a);
    if (!a)
        return accesslog_complain_memory();
    a->options = o;
    a->exit_status = ACCESSLOG_FAILED;
    *ret = a;
    int status = accesslog_format_open(&a->format, o);
    if (status == 0 && !accesslog_input_open(&a->in, o->path))
        status =
            accesslog_complain(ACCESSLOG_FAILED, "%s: %s",
                               strcmp(o->path, "-") == 0 ? "<stdin>" : o->path, strerror(errno));
    return status;
}

void accesslog_close(accesslog *a)
{
    if (!a)
        return;
    accesslog_format_close(&a->format);
    accesslog_input_close(&a->in);
    port_free(a);
}
