/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_CMD_REPLAY_HTML_H
#define WEIR_CMD_REPLAY_HTML_H
/* The report as a web page in one file. The page is built from web/report and contains its script
 * and its style; this module inserts the report's JSON. It must not know what the JSON means. */

#include <stdbool.h>
#include <stddef.h>

/* Whether this program contains the page: it needs clang, lld and esbuild when weir is built. */
bool replay_html_available(void);

/* Checks that the page can be written, before the log is read: that the program contains it, and
 * that `path` is not a directory and may be created or replaced. Only an empty file or another page
 * is replaced, so that a log whose name was given by mistake is not lost. Writes nothing.
 * Returns 0, or an exit status after printing an error: ACCESSLOG_USAGE if the program has no page
 * or `path` is "-", ACCESSLOG_FAILED otherwise. */
int replay_html_check(const char *path);

/* Writes the page. The file appears whole or not at all: the page is written to a temporary file in
 * the same directory, which then replaces `path`. An existing file keeps its mode, and a symbolic
 * link its target. A device or a named pipe is written directly.
 *  json  one JSON value in UTF-8 of `len` bytes
 * Returns 0, or an exit status after printing an error, as replay_html_check(). */
int replay_html_write(const char *path, const char *json, size_t len);

#endif
