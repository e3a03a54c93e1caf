/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* Reads lines in their format, and prints hints for lines that have another. */

#include "cmd/accesslog/format.h"

#include "cmd/accesslog/messages.h"

#include <inttypes.h>
#include <string.h>

static int complain_option(const weir_logline_error *error)
{
    char text[512];
    weir_logline_error_text(error, text, sizeof text);
    return accesslog_complain(ACCESSLOG_USAGE, "%s", text);
}

int accesslog_format_open(accesslog_format *f, const accesslog_options *o)
{
    weir_logline_options options = {.format = o->format,
                                    .key = o->key,
                                    .cost = o->cost,
                                    .where = o->where,
                                    .wheres = o->wheres};
    weir_logline_error error;
    weir_status st = weir_logline_open(&f->reader, &options, &error);
    if (st == WEIR_E_NOMEM)
        return accesslog_complain_memory();
    return st == WEIR_OK ? 0 : complain_option(&error);
}

void accesslog_format_close(accesslog_format *f)
{
    weir_logline_close(f->reader);
    f->reader = NULL;
}

weir_logline_result accesslog_format_read(accesslog_format *f, const char *line, size_t len,
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

void accesslog_format_note(const accesslog_format *f)
{
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

void accesslog_format_hint(const accesslog_format *f, const accesslog_options *o)
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
        accesslog_note(
            "hint: the formats are %s, plain or compressed with gzip or zstd; see --help",
            weir_logline_formats());
}
