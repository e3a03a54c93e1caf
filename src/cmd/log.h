/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_CMD_LOG_H
#define WEIR_CMD_LOG_H
/* The daemon's log: one event, one line.
 *
 *     2026-11-21T09:00:00.123Z info listening resp=127.0.0.1:6380
 *     {"time":"2026-11-21T09:00:00.123Z","level":"info","event":"listening","resp":"..."}
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef enum weir_log_level {
    WEIR_LOG_DEBUG,
    WEIR_LOG_INFO,
    WEIR_LOG_WARNING,
    WEIR_LOG_ERROR
} weir_log_level;

typedef struct log_target { /* only read by what is below */
    int fd;
    bool json;
    weir_log_level least; /* what is below this level is left out */
} log_target;

/* The longest line, with its end: as much as a pipe takes at once, so that lines of several threads
 * never mix. */
#define WEIR_LOG_LINE_MAX 4096

/* Writes an event with the time of now, in one write(2); what the system does not take is lost.
 *  event  of letters, digits and '-', as every name.
 *  ...    pairs of a name and a value, both const char *, then NULL. A value may hold any bytes; a
 *         NULL one is left out with its name. A line that would be too long loses the end of the
 *         value that does not fit, and the pairs behind it.
 * Threads: any. */
__attribute__((sentinel)) void log_event(const log_target *log, weir_log_level level,
                                         const char *event, ...);

/* The line of an event at now_ns, with its end; as log_event().
 *  pairs  names and values by turns, then NULL.
 *  buf    WEIR_LOG_LINE_MAX bytes; not terminated.
 * Returns its length. Threads: pure. */
size_t log_line(bool json, int64_t now_ns, weir_log_level level, const char *event,
                const char *const *pairs, char *buf);

#endif
