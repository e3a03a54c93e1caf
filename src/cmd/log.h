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

/* A field of an event. In JSON a text is a string, and a number is a number. */
typedef struct log_pair {
    const char *name; /* of letters, digits, '-' and '_'; NULL: the end of the list */
    enum { LOG_TEXT, LOG_INTEGER, LOG_SECONDS } kind;
    const char *text; /* any bytes; NULL: the field is left out */
    int64_t number;   /* LOG_SECONDS: in milliseconds, printed with three decimals */
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

/* Writes an event with the time of now, in one write(2); what the system does not take is lost.
 *  event  of letters, digits and '-'.
 *  pairs  up to one without a name. A line that would be too long loses the end of the text that
 *         does not fit, and the fields behind it.
 * Threads: any. */
void log_event(const log_target *log, weir_log_level level, const char *event,
               const log_pair *pairs);

/* The line of an event at now_ns, with its end; as log_event().
 *  buf  WEIR_LOG_LINE_MAX bytes; not terminated.
 * Returns its length. Threads: pure. */
size_t log_line(bool json, int64_t now_ns, weir_log_level level, const char *event,
                const log_pair *pairs, char *buf);

#endif
