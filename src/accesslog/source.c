/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* Merges the requests of the files with a binary heap, and reports those that were out of order. */

#include "accesslog/accesslog.h"

#include "accesslog/messages.h"
#include "accesslog/reader.h"
#include "port/assert.h"
#include "port/duration.h"
#include "port/port.h"

#include <inttypes.h>
#include <stdio.h>
#include <unistd.h>

#define AHEAD_NS_MAX INT64_C(3600000000000) /* warn if the log is out of order by more than this */

struct accesslog {
    accesslog_shared shared;
    accesslog_reader *readers, **heap;
    size_t readers_len, heap_len;
    bool begun;
    int64_t latest_ns;   /* the latest time of a decision */
    int64_t late_ns_max; /* the most by which a request is decided after its time */
    uint64_t late;
};

/* ---- merging --------------------------------------------------------------------------------- */

static bool is_before(const accesslog_reader *a, const accesslog_reader *b)
{
    return a->request.t_ns != b->request.t_ns ? a->request.t_ns < b->request.t_ns : a < b;
}

/* Moves the reader at `i` down to its place. */
static void sift_down(accesslog *a, size_t i)
{
    WEIR_ASSERT(i < a->heap_len);
    accesslog_reader *moved = a->heap[i];
    for (size_t child; (child = 2 * i + 1) < a->heap_len; i = child) {
        child += child + 1 < a->heap_len && is_before(a->heap[child + 1], a->heap[child]);
        if (!is_before(a->heap[child], moved))
            break;
        a->heap[i] = a->heap[child];
    }
    a->heap[i] = moved;
}

/* Reads the first request of each file. Returns ACCESSLOG_END after success. */
static accesslog_status begin(accesslog *a)
{
    a->begun = true;
    for (size_t i = 0; i < a->readers_len; i++) {
        accesslog_status status = accesslog_reader_next(&a->readers[i]);
        if (status == ACCESSLOG_ERROR)
            return status;
        if (status == ACCESSLOG_REQUEST)
            a->heap[a->heap_len++] = &a->readers[i];
    }
    for (size_t i = a->heap_len / 2; i-- > 0;)
        sift_down(a, i);
    return ACCESSLOG_END;
}

/* Replaces the request of the earliest file by its next one. Returns ACCESSLOG_END after
 * success. */
static accesslog_status advance(accesslog *a)
{
    if (a->heap_len == 0)
        return ACCESSLOG_END;
    accesslog_status status = accesslog_reader_next(a->heap[0]);
    if (status == ACCESSLOG_ERROR)
        return status;
    if (status == ACCESSLOG_END)
        a->heap[0] = a->heap[--a->heap_len];
    if (a->heap_len > 1)
        sift_down(a, 0);
    return ACCESSLOG_END;
}

/* Reports that no file has a request. */
static accesslog_status complain_nothing(accesslog *a)
{
    uint64_t left_out = accesslog_counts_get(a).left_out;
    accesslog_progress_bar_erase(&a->shared.progress);
    if (left_out > 0)
        accesslog_note("--where: no request matches (%" PRIu64 " left out)", left_out);
    for (size_t i = 0; i < a->readers_len && left_out == 0; i++)
        accesslog_reader_complain_nothing(&a->readers[i], "");
    return ACCESSLOG_ERROR;
}

/* Returns the time at which a request is decided: its own, or the latest one so far if that is
 * later. Time never goes back, as in the daemon. */
static int64_t decision_time(accesslog *a, int64_t t_ns)
{
    int64_t late_ns = a->latest_ns - t_ns;
    if (late_ns <= 0) {
        a->latest_ns = t_ns;
        return t_ns;
    }
    a->late++;
    a->late_ns_max = late_ns > a->late_ns_max ? late_ns : a->late_ns_max;
    return a->latest_ns;
}

accesslog_status accesslog_next(accesslog *a, accesslog_request *ret)
{
    accesslog_status status = a->begun ? advance(a) : begin(a);
    if (status == ACCESSLOG_ERROR)
        return status;
    if (a->heap_len == 0)
        return accesslog_counts_get(a).requests == 0 ? complain_nothing(a) : ACCESSLOG_END;
    accesslog_reader *r = a->heap[0];
    r->counts.requests++;
    *ret = (accesslog_request){.t_ns = r->request.t_ns,
                               .now_ns = decision_time(a, r->request.t_ns),
                               .key = r->request.key,
                               .cost = r->request.cost,
                               .file = r->in.name,
                               .line = r->request.line};
    WEIR_ASSERT(ret->now_ns >= ret->t_ns);
    return ACCESSLOG_REQUEST;
}

/* ---- messages -------------------------------------------------------------------------------- */

/* The file with the line that is dated furthest ahead of a line after it. */
static const accesslog_reader *furthest_ahead(const accesslog *a)
{
    const accesslog_reader *ret = a->readers;
    for (size_t i = 1; i < a->readers_len; i++)
        ret = a->readers[i].ahead_ns_max > ret->ahead_ns_max ? &a->readers[i] : ret;
    return ret;
}

/* Writes " of FILE" if there are several files. */
static const char *of_file(const accesslog *a, const accesslog_reader *r, char *ret, size_t size)
{
    bool several = a->readers_len > 1;
    snprintf(ret, size, "%s%s", several ? " of " : "", several ? r->in.name : "");
    return ret;
}

/* Reports requests that were out of order. A little disorder is common in logs. A line dated far
 * ahead is a problem: without --reorder, time stands still for all lines that follow it. */
static void note_order(const accesslog *a)
{
    const accesslog_reader *r = furthest_ahead(a);
    char span[WEIR_DURATION_MAX], window[WEIR_DURATION_MAX], file[400], question[480] = "";
    bool far = r->ahead_ns_max > AHEAD_NS_MAX, one = a->late == 1;
    of_file(a, r, file, sizeof file);
    if (far)
        snprintf(question, sizeof question,
                 "; are the times of lines %" PRIu64 " and %" PRIu64 "%s right?", r->ahead_number,
                 r->behind_number, file);
    weir_duration_print(span, a->late > 0 ? a->late_ns_max : r->ahead_ns_max, WEIR_DURATION_SHORT);
    weir_duration_print(window, a->shared.options->reorder_ns, WEIR_DURATION_SHORT);
    if (a->late == 0 && far)
        accesslog_note("WARNING: line %" PRIu64 "%s is dated %s after line %" PRIu64
                       ", which follows it; are both times right?",
                       r->ahead_number, file, span, r->behind_number);
    else if (a->late > 0 && a->shared.options->reorder_ns == 0)
        accesslog_note("%s%" PRIu64 " line%s went back in time, by up to %s; %s was decided at the "
                       "latest time seen%s",
                       far ? "WARNING: " : "", a->late, one ? "" : "s", span, one ? "it" : "each",
                       question);
    else if (a->late > 0)
        accesslog_note("%s%" PRIu64 " line%s came too late to be put in order (--reorder %s), and "
                       "%s decided up to %s after %s time%s",
                       far ? "WARNING: " : "", a->late, one ? "" : "s", window,
                       one ? "was" : "were", span, one ? "its" : "their", question);
}

static void note_bad(const accesslog *a, const accesslog_reader *r)
{
    uint64_t bad = r->counts.bad;
    bool several = a->readers_len > 1;
    if (bad > 0 && r->counts.requests == 0 && r->counts.left_out == 0)
        accesslog_reader_complain_nothing(r, "WARNING: ");
    else if (bad > 0)
        accesslog_note("%s%s%" PRIu64 " line%s could not be read and %s left out",
                       several ? r->in.name : "", several ? ": " : "", bad, bad == 1 ? "" : "s",
                       bad == 1 ? "was" : "were");
    accesslog_reader_note_format(r);
}

/* Reports that a file ended before the size that it had when it was opened. */
static void note_shorter(const accesslog_reader *r)
{
    if (r->in.bytes_read < r->in.size)
        accesslog_note("WARNING: %s became shorter while it was read: %" PRId64 " of %" PRId64
                       " bytes are missing",
                       r->in.name, r->in.size - r->in.bytes_read, r->in.size);
}

void accesslog_notes(const accesslog *a)
{
    for (size_t i = 0; i < a->readers_len; i++) {
        note_bad(a, &a->readers[i]);
        note_shorter(&a->readers[i]);
    }
    note_order(a);
}

int accesslog_exit_status(const accesslog *a)
{
    return a->shared.exit_status;
}

size_t accesslog_files(const accesslog *a)
{
    return a->readers_len;
}

accesslog_file accesslog_file_get(const accesslog *a, size_t i)
{
    WEIR_ASSERT(i < a->readers_len);
    return a->readers[i].counts;
}

accesslog_counts accesslog_counts_get(const accesslog *a)
{
    accesslog_counts ret = {.late = a->late};
    for (size_t i = 0; i < a->readers_len; i++) {
        const accesslog_file *f = &a->readers[i].counts;
        ret.lines += f->lines;
        ret.requests += f->requests;
        ret.bad += f->bad;
        ret.left_out += f->left_out;
    }
    return ret;
}

void accesslog_progress(accesslog *a)
{
    bool wanted = !a->shared.options->no_progress && isatty(STDERR_FILENO);
    int64_t size = 0;
    for (size_t i = 0; i < a->readers_len && wanted; i++) {
        wanted = a->readers[i].in.size >= 0; /* of a pipe the size is unknown */
        size += a->readers[i].in.size;
    }
    accesslog_progress_bar_begin(&a->shared.progress, wanted && size > 0, size);
}

void accesslog_progress_erase(accesslog *a)
{
    accesslog_progress_bar_erase(&a->shared.progress);
}

/* ---- opening and closing --------------------------------------------------------------------- */

int accesslog_open(accesslog **ret, const accesslog_options *o)
{
    accesslog *a = port_zalloc(1, sizeof *a);
    *ret = a;
    if (!a)
        return accesslog_complain_memory();
    a->shared = (accesslog_shared){.options = o, .exit_status = ACCESSLOG_FAILED};
    a->readers = port_zalloc(o->paths_len, sizeof *a->readers);
    a->heap = port_zalloc(o->paths_len, sizeof *a->heap);
    if (!a->readers || !a->heap)
        return accesslog_complain_memory();
    a->shared.readers = a->readers;
    a->shared.readers_len = o->paths_len;
    int status = 0;
    while (status == 0 && a->readers_len < o->paths_len) {
        const char *path = o->paths[a->readers_len];
        status = accesslog_reader_open(&a->readers[a->readers_len++], &a->shared, path);
    }
    return status;
}

void accesslog_close(accesslog *a)
{
    if (!a)
        return;
    for (size_t i = 0; i < a->readers_len; i++)
        accesslog_reader_close(&a->readers[i]);
    port_free(a->readers);
    port_free(a->heap);
    port_free(a);
}
