/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_CMD_REPLAY_REPORT_TEXT_H
#define WEIR_CMD_REPLAY_REPORT_TEXT_H
/* The report as tables for people. */

#include "cmd/replay/report.h"
#include "cmd/terminal.h"

/* Appends the report: for one policy a table of its figures, for several a table with a column for
 * each; then the figures of the log, and the worst keys. Only lines with a policy may be longer
 * than the width. Sets out->failed if memory is exhausted.
 *  style  `cols` is limited to 80..120. */
void replay_report_text(weir_buffer *out, const replay_report *r, terminal_style style);

#endif
