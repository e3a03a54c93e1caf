/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_CMD_SUGGEST_PRINT_H
#define WEIR_CMD_SUGGEST_PRINT_H
/* The output of `weir suggest`: text for a terminal, or one JSON object. */

#include "cmd/out.h"
#include "cmd/suggest/search.h"
#include "cmd/terminal.h"

typedef struct suggest_report {
    const suggest_options *options;
    const suggest_trace *trace;
    const suggest_found *found;
} suggest_report;

/* Prints the curve, the table, the suggestion, and the result on the part that was held out. */
void suggest_print_text(out_stream *out, const suggest_report *r, const terminal_style *style);

/* Prints one JSON object and an LF. */
void suggest_print_json(out_stream *out, const suggest_report *r);

#endif
