/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* Formats by name, by trial, and what to say if none fits. It must not know what becomes of a line
 * that was read. */

#include "cmd/replay/format.h"

#include "cmd/replay/say.h"

#include <stdio.h>
#include <string.h>

static const char *const formats[] = {"combined", "common", "tsv", "jsonl"};

/* Why --key or --cost, whichever it was, does not go with the format. */
static int complain_field(const char *option, const char *field, const char *format)
{
    if (strcmp(format, "tsv") == 0)
        return replay_complain(
            REPLAY_USAGE,
            "%s: a tsv line has no fields to choose from: its key is the second, its cost "
            "the third",
            option);
    fprintf(stderr, "weir replay: %s: a %s line has no field '%s', expected one of", option, format,
            field);
    bool common = strcmp(format, "common") == 0;
    for (int i = 0; i < (common ? WEIR_LOGLINE_REFERER : WEIR_LOGLINE_FIELDS); i++)
        fprintf(stderr, " %s", weir_logline_field_name((weir_logline_field)i));
    fputs("\n", stderr);
    return REPLAY_USAGE;
}

int replay_format_set(replay_format *f, const replay_options *o, const char *name)
{
    weir_logline_format unused;
    if (weir_logline_format_init(&f->format, name, o->key, o->cost) == WEIR_OK) {
        f->known = true;
        return 0;
    }
    if (weir_logline_format_init(&unused, name, NULL, NULL) != WEIR_OK)
        return replay_complain(
            REPLAY_USAGE, "--format: expected combined, common, tsv or jsonl, found '%s'", name);
    if (weir_logline_format_init(&unused, name, o->key, NULL) != WEIR_OK)
        return complain_field("--key", o->key, name);
    return complain_field("--cost", o->cost, name);
}

/* A format, but `not_this`, that the line has; NULL if there is none. Combined lines are common
 * ones that go on, so that a common line counts as combined unless `exact`. */
static const char *format_of(const char *line, size_t len, const char *not_this, bool exact,
                             weir_record *scratch)
{
    if (*line == '{') /* a member may be missing, which is for the reader to say */
        return not_this && strcmp(not_this, "jsonl") == 0 ? NULL : "jsonl";
    for (size_t i = 0; i < sizeof formats / sizeof formats[0]; i++) {
        weir_logline_format f;
        weir_logline_error error;
        const char *key = exact && strcmp(formats[i], "combined") == 0 ? "agent" : NULL;
        if (not_this && strcmp(formats[i], not_this) == 0)
            continue;
        if (weir_logline_format_init(&f, formats[i], key, NULL) == WEIR_OK &&
            weir_logline_read(&f, line, len, scratch, &error) == WEIR_OK)
            return formats[i];
    }
    return NULL;
}

const char *replay_format_guess(const char *line, size_t len, weir_record *scratch)
{
    return format_of(line, len, NULL, false, scratch);
}

void replay_format_doubt(replay_format *f, const replay_options *o, const char *line, size_t len,
                         const weir_logline_error *error, weir_record *scratch)
{
    if (f->doubted)
        return;
    f->doubted = true;
    f->key_absent = error->key_absent;
    f->other = format_of(line, len, o->format, true, scratch);
}

void replay_format_hint(const replay_format *f, const replay_options *o)
{
    bool json = f->known && f->format.kind == WEIR_LOGLINE_JSONL;
    if (f->other && o->format)
        replay_complain(0, "hint: try --format %s", f->other);
    else if (f->key_absent)
        replay_complain(0, "hint: --key NAME says which member is the key");
    else if (f->other && !json)
        replay_complain(0, "hint: a common log has no referer and no agent, and what "
                           "--key and --cost ask for must be in each line");
    else
        replay_complain(0, "hint: combined, common, tsv and jsonl can be read, plain or packed "
                           "with gzip or zstd; see weir replay --help");
}
