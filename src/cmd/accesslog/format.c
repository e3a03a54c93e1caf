/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* Selects a format by name, or detects it by trying each format on a line. */

#include "cmd/accesslog/format.h"

#include "cmd/accesslog/messages.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* In the order of detection: a format that extends another comes before it. */
static const char *const formats[] = {"combined",     "common", "vhost_combined",
                                      "vhost_common", "tsv",    "jsonl"};
#define FORMATS (sizeof formats / sizeof formats[0])

/* Reports that the format has no such field.
 *  option  "--key" or "--cost". */
static int complain_field(const char *option, const char *field, const char *format,
                          weir_logline_kind kind)
{
    if (kind == WEIR_LOGLINE_TSV)
        return accesslog_complain(
            ACCESSLOG_USAGE,
            "%s: a tsv line has no named fields: its key is always the second field, its cost "
            "the third",
            option);
    fprintf(stderr, "weir replay: %s: a %s line has no field '%s', expected one of", option, format,
            field);
    for (int i = 0; i < WEIR_LOGLINE_FIELDS; i++) {
        if (weir_logline_has(kind, (weir_logline_field)i))
            fprintf(stderr, " %s", weir_logline_field_name((weir_logline_field)i));
    }
    fputs("\n", stderr);
    return ACCESSLOG_USAGE;
}

int accesslog_format_set(accesslog_format *f, const accesslog_options *o, const char *name)
{
    weir_logline_format plain;
    if (weir_logline_format_init(&f->format, name, o->key, o->cost) == WEIR_OK) {
        f->known = true;
        f->name = name;
        return 0;
    }
    if (weir_logline_format_init(&plain, name, NULL, NULL) != WEIR_OK)
        return accesslog_complain(ACCESSLOG_USAGE,
                                  "--format: expected " ACCESSLOG_FORMAT_LIST ", found '%s'", name);
    weir_logline_kind kind = plain.kind;
    if (weir_logline_format_init(&plain, name, o->key, NULL) != WEIR_OK)
        return complain_field("--key", o->key, name, kind);
    return complain_field("--cost", o->cost, name, kind);
}

/* Returns a format other than `not_this` that the line has, or NULL. Combined lines extend common
 * ones, so without `exact` a common line is taken for combined; the same holds for the vhost
 * formats. */
static const char *format_of(const char *line, size_t len, const char *not_this, bool exact,
                             weir_log_record *scratch)
{
    if (*line == '{') /* JSON, even if a member is missing: weir_logline_read() reports that */
        return not_this && strcmp(not_this, "jsonl") == 0 ? NULL : "jsonl";
    for (size_t i = 0; i < FORMATS; i++) {
        weir_logline_format f;
        weir_logline_error error;
        const char *key = exact && strstr(formats[i], "combined") ? "agent" : NULL;
        if (not_this && strcmp(formats[i], not_this) == 0)
            continue;
        if (weir_logline_format_init(&f, formats[i], key, NULL) == WEIR_OK &&
            weir_logline_read(&f, line, len, scratch, &error) == WEIR_OK)
            return formats[i];
    }
    return NULL;
}

const char *accesslog_format_guess(const char *line, size_t len, weir_log_record *scratch)
{
    return format_of(line, len, NULL, false, scratch);
}

void accesslog_format_doubt(accesslog_format *f, const accesslog_options *o, const char *line,
                            size_t len, uint64_t number, const weir_logline_error *error,
                            weir_log_record *scratch)
{
    if (f->doubted)
        return;
    f->doubted = true;
    f->number = number;
    f->key_absent = error->key_absent;
    f->other = format_of(line, len, o->format, true, scratch);
}

/* Whether the two kinds differ only in the fields at the end of a line. */
static bool alike(weir_logline_kind a, weir_logline_kind b)
{
    bool both_access =
        weir_logline_has(a, WEIR_LOGLINE_HOST) && weir_logline_has(b, WEIR_LOGLINE_HOST);
    return a == b || (both_access && weir_logline_has(a, WEIR_LOGLINE_VHOST) ==
                                         weir_logline_has(b, WEIR_LOGLINE_VHOST));
}

void accesslog_format_note(const accesslog_format *f)
{
    weir_logline_format other;
    if (!f->known || !f->other ||
        weir_logline_format_init(&other, f->other, NULL, NULL) != WEIR_OK ||
        alike(f->format.kind, other.kind))
        return;
    accesslog_note("WARNING: the lines were read as %s, but line %" PRIu64 " is %s; see --format",
                   f->name, f->number, f->other);
}

void accesslog_format_hint(const accesslog_format *f, const accesslog_options *o)
{
    bool json = f->known && f->format.kind == WEIR_LOGLINE_JSONL;
    if (f->other && o->format)
        accesslog_note("hint: try --format %s", f->other);
    else if (f->key_absent)
        accesslog_note("hint: set --key to the name of the member that is the key");
    else if (f->other && !json)
        accesslog_note("hint: a common log has no referer and no agent; --key and --cost "
                       "must name fields that every line has");
    else
        accesslog_note("hint: the formats are " ACCESSLOG_FORMAT_LIST
                       ", plain or compressed with gzip "
                       "or zstd; see --help");
}
