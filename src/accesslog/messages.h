/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_ACCESSLOG_MESSAGES_H
#define WEIR_ACCESSLOG_MESSAGES_H
/* What the commands print that read access logs: messages and the progress bar on standard error,
 * and their results. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "port/buffer.h"

enum { ACCESSLOG_FAILED = 1, ACCESSLOG_USAGE = 2 }; /* exit statuses */

/* Sets the command that messages begin with, such as "weir replay"; must outlive the messages.
 *  name  NULL: leaves it as it is.
 * Returns the command. */
const char *accesslog_command(const char *name);

/* Prints one line, the command and the formatted text. */
__attribute__((format(printf, 1, 2))) void accesslog_note(const char *text, ...);

/* The same. Returns `status`. */
__attribute__((format(printf, 2, 3))) int accesslog_complain(int status, const char *text, ...);

/* Prints "out of memory". Returns ACCESSLOG_FAILED. */
int accesslog_complain_memory(void);

/* Prints bytes to standard output or error. Returns 0, or the exit status after printing why that
 * failed. */
int accesslog_print(int fd, const void *bytes, size_t len);

/* The same with the bytes of a buffer, which is freed. It is an error if it is incomplete. */
int accesslog_print_buffer(int fd, weir_buffer *b);

/* Prints that `fd` could not be written. Returns ACCESSLOG_FAILED. */
int accesslog_complain_output(int fd, int error);

/* The progress bar. Callers may read `wanted`; the other fields are private. */
typedef struct accesslog_progress_bar {
    bool wanted;
    bool shown;
    int64_t size, begun_ns, last_ns;
} accesslog_progress_bar;

/* Starts the bar. Reads the clock only if the bar is wanted. From then on, SIGINT and SIGTERM erase
 * the bar before they end the process, unless the process ignores or handles them.
 *  size  the bytes of all files, above 0. */
void accesslog_progress_bar_begin(accesslog_progress_bar *p, bool wanted, int64_t size);

/* Updates the bar, at most ten times a second.
 *  bytes  read so far, before decompression.
 *  lines  read so far. */
void accesslog_progress_bar_show(accesslog_progress_bar *p, int64_t bytes, uint64_t lines);

/* Erases the bar before another message is printed. */
void accesslog_progress_bar_erase(accesslog_progress_bar *p);

#endif
