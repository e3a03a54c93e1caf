/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_CMD_KIT_LOG_H
#define WEIR_CMD_KIT_LOG_H
/* The daemon's log: one line for each event, as text or as JSON.
 *
 *     2026-11-21T09:00:00.123Z info listening resp=127.0.0.1:6380
 *     {"time":"2026-11-21T09:00:00.123Z","level":"info","event":"listening","resp":"..."}
 */

#include "port/atomic.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef enum weir_log_level {
    WEIR_LOG_DEBUG,
    WEIR_LOG_INFO,
    WEIR_LOG_WARNING,
    WEIR_LOG_ERROR
} weir_log_level;

/* Where the log goes. Relaxed: each word has a meaning of its own. */
typedef struct log_target {
    int fd;
    port_counter json;  /* 1: lines are JSON */
    port_counter least; /* a weir_log_level: events below it are dropped */
} log_target;

/* Sets the level and the format of all later events. Threads: any. */
void log_configure(log_target *log, weir_log_level least, bool json);

static inline bool log_is_json(const log_target *log)
{
    return port_load_relaxed(&log->json) > 0;
}

/* The longest line, with its LF. It is PIPE_BUF, so that each write to a pipe is atomic and lines
 * of several threads never mix. */
#define WEIR_LOG_LINE_MAX 4096

/* A field of an event. In JSON, LOG_TEXT is a string and the other kinds are numbers. */
typedef struct log_pair {
    const char *name; /* letters, digits, '-' and '_'; NULL ends the list */
    enum { LOG_TEXT, LOG_INTEGER, LOG_SECONDS } kind;
    const char *text; /* any bytes; NULL omits the field */
    int64_t number;   /* for LOG_SECONDS in milliseconds, printed as seconds with three decimals */
} log_pair;

static inline log_pair log_text(const char *name, const char *text)
{
    return (log_pair){name, LOG_TEXT, text, 0};
}

static inline log_pair log_integer(const char *name, int64_t number)
{
    return (log_pair){name, LOG_INTEGER, NULL, number};
}

static inline log_pair log_seconds(const char *name, int64_t ms)
{
    return (log_pair){name, LOG_SECONDS, NULL, ms};
}

/* A list of fields for log_event(): LOG(log_text("a", "b"), log_integer("c", 1)). */
#define LOG(...) ((const log_pair[]){__VA_ARGS__, {0}})

/* Writes an event with the current time, in one write(2). If the write is partial or fails, the
 * rest of the line is lost.
 *  event  letters, digits and '-'.
 *  pairs  ends at the first one without a name. In a line that would be too long, the first text
 *         that does not fit is truncated and the fields behind it are dropped.
 * Threads: any. */
void log_event(const log_target *log, weir_log_level level, const char *event,
               const log_pair *pairs);

#define LOG_TIME_MAX 64

/* Writes a time as in the log: "2026-11-21T09:00:00.123Z". Threads: pure.
 *  ns  0..INT64_MAX, since 1970. */
void log_time_text(int64_t ns, char ret[LOG_TIME_MAX]);

/* Formats the line that log_event() writes, with its LF.
 *  buf  WEIR_LOG_LINE_MAX bytes; gets no NUL.
 * Returns the length of the line. Threads: pure. */
size_t log_line(bool json, int64_t now_ns, weir_log_level level, const char *event,
                const log_pair *pairs, char *buf);

#endif
