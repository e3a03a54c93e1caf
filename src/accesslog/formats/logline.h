/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_ACCESSLOG_FORMATS_LOGLINE_H
#define WEIR_ACCESSLOG_FORMATS_LOGLINE_H
/* Parses the lines of an access log into times, keys and costs. docs/replay.md describes the
 * formats, the fields, templates and filters.
 *
 *     weir_logline_options o = {.format = "combined", .key = "$client $uri[1]"};
 *     weir_logline_reader *r;
 *     if (weir_logline_open(&r, &o, &error) != WEIR_OK) ...
 *     for each line:
 *         if (weir_logline_read(r, line, len, &record, &error) == WEIR_LOGLINE_REQUEST)
 *             use(&record);
 *     weir_logline_close(r);
 *
 * This module does not know files or policies. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <weir/weir.h>

#define WEIR_LOGLINE_KEY_LEN_MAX 65536

typedef struct weir_logline_reader weir_logline_reader;

/* The arguments of a command line. Zeros are the defaults. */
typedef struct weir_logline_options {
    const char *format;       /* one of weir_logline_formats(); NULL: detected */
    const char *key;          /* a field's name, or a template with '$'; NULL: the client */
    const char *time;         /* a member or column; NULL: the first of weir_logtime_names */
    const char *cost;         /* a field's name; NULL: the cost of a line that has one, or 1 */
    const char *const *where; /* filters, which must all hold */
    size_t wheres;
} weir_logline_options;

typedef struct weir_log_record {
    int64_t t_ns;    /* 0..WEIR_NOW_NS_MAX */
    const char *key; /* points into the line or the reader, valid until the next read */
    size_t key_len;  /* 1..WEIR_LOGLINE_KEY_LEN_MAX */
    int64_t cost;    /* 0..INT64_MAX; larger costs become INT64_MAX. May exceed WEIR_COST_MAX */
} weir_log_record;

typedef struct weir_logline_error {
    const char *option;   /* the option that is wrong, such as "--key"; NULL: the line is wrong */
    size_t column;        /* in bytes, from 1: where the expected text should begin; 0: unknown */
    const char *expected; /* a static string: "'[' and a time like ..."; NULL: see `detail` */
    char detail[320];     /* more: the message of the JSON parser, a member's name; or "" */
    bool key_absent;      /* JSON: the only error is that the member for the key is missing */
} weir_logline_error;

typedef enum weir_logline_result {
    WEIR_LOGLINE_REQUEST,
    WEIR_LOGLINE_LEFT_OUT, /* a filter does not hold */
    WEIR_LOGLINE_HEADER,   /* an empty line, a comment, or the names of the columns */
    WEIR_LOGLINE_BAD,      /* the line cannot be read */
    WEIR_LOGLINE_USAGE, /* an option does not fit the detected format or the columns; no line can be
                           read from here on */
    WEIR_LOGLINE_NO_MEMORY
} weir_logline_result;

/* The names of all formats, in the order of detection, as in "combined, common or jsonl". */
const char *weir_logline_formats(void);

/* Makes a reader for the lines of one file.
 *  o          must outlive the reader, with its texts.
 *  ret        written only on WEIR_OK. Free it with weir_logline_close().
 *  ret_error  written unless WEIR_OK or WEIR_E_NOMEM.
 * Returns WEIR_OK; WEIR_E_SYNTAX for an option that cannot be parsed; WEIR_E_UNSUPPORTED for a
 * field that lines of the format do not have; WEIR_E_NOMEM. */
WEIR_NODISCARD weir_status weir_logline_open(weir_logline_reader **ret,
                                             const weir_logline_options *o,
                                             weir_logline_error *ret_error);
void weir_logline_close(weir_logline_reader *r); /* accepts NULL */

/* Reads the next line of the file.
 *  line       `len` bytes, with or without its LF or CR LF; no other LF. A byte order mark before
 *             it is skipped.
 *  ret        written only for WEIR_LOGLINE_REQUEST. In access logs the key is the raw text of its
 *             fields: escapes are not decoded, and "-" is an ordinary key. In JSON a number or a
 *             boolean is a key, too: its JSON text (1.50 is "1.5"). An integer of any size keeps
 *             its digits.
 *  ret_error  written for WEIR_LOGLINE_BAD and WEIR_LOGLINE_USAGE.
 *
 * A line of another format is WEIR_LOGLINE_BAD, so that a virtual host is never taken for the
 * client. common and combined refuse a line whose second field is an address, and a line with one
 * field too many before the time that begins with a virtual host. The vhost formats refuse a line
 * whose second field is '-'. All of them refuse a client that is a list or in quotes, and '-' if
 * the client is needed.
 *
 * The time of a line in an access log is the one directly before the request line. A user name or a
 * quoted field may look like a time; it is not taken for one. If the server does not escape quotes,
 * a line may have two times that are each followed by a request: it is WEIR_LOGLINE_BAD. So is a
 * line with two times and no request.
 *
 * A line needs only the time and the fields of the options: a malformed request still has a client.
 * The closing quote of the request is the first unescaped quote that a status follows, since old
 * servers did not escape quotes. Times are parsed by formats/time.h.
 * Threads: one at a time.
 * Source: Apache mod_log_config, "Common Log Format"; RFC 3339 section 5.6; RFC 4180. */
WEIR_NODISCARD weir_logline_result weir_logline_read(weir_logline_reader *r, const char *line,
                                                     size_t len, weir_log_record *ret,
                                                     weir_logline_error *ret_error);

/* The format of the lines; NULL if it is not detected yet. */
const char *weir_logline_format(const weir_logline_reader *r);

/* The unit in which the times of a tsv file without names of columns probably are; NULL if that is
 * nanoseconds, in which they are read. A static string. */
const char *weir_logline_unit(const weir_logline_reader *r);

/* Finds the name of a field in a filter that no JSON line had; it is probably misspelt.
 *  ret  points into the options, without a NUL; written on success. */
bool weir_logline_absent(const weir_logline_reader *r, const char **ret, size_t *ret_len);

/* Detects the format of one line from the line alone, or returns NULL. A line without referer and
 * agent is "common", although a reader takes it for "combined". */
const char *weir_logline_detect(const char *line, size_t len);

/* Whether lines of the two formats differ only in the fields at their end, as those of combined and
 * common, or are both JSON. */
bool weir_logline_alike(const char *a, const char *b);

/* Writes "column 1: expected ..." or "--key: ..." with a NUL to `ret`, cut to `size` bytes, at
 * least 1. Control characters become escapes like \x1b. */
void weir_logline_error_text(const weir_logline_error *error, char *ret, size_t size);

#endif
