/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_CODEC_LOG_LINE_H
#define WEIR_CODEC_LOG_LINE_H
/* The fields that a grammar finds in a line of text, and the parts of lines that several grammars
 * have in common. Nothing is copied: the fields point into the line. */

#include "codec/log_fields.h"
#include "codec/logline.h"
#include "port/text.h"

#include <string.h>

typedef struct log_line {
    const char *begin, *end; /* the line without its LF or CR LF */
    int64_t t_ns;
    weir_slice field[LOG_FIELDS]; /* `at` is NULL for a missing field */
    const char *stop;             /* where the first missing field should begin */
    const char *request;          /* where the request begins; NULL if it is missing */
} log_line;

/* Finds the fields of a line.
 *  l     `begin` and `end` are set, the rest is zero.
 *  need  the LOG_BIT()s of the fields that are needed; others may stay missing.
 * Returns false for a line of another shape, after writing *e. */
typedef bool log_grammar(log_line *l, uint32_t need, weir_logline_error *e);

log_grammar log_read_common, log_read_combined, log_read_vhost_common, log_read_vhost_combined;
log_grammar log_read_traefik, log_read_envoy, log_read_haproxy, log_read_alb;

static inline weir_slice log_between(const char *begin, const char *end)
{
    return (weir_slice){begin, (size_t)(end - begin)};
}

static inline const char *log_find(const char *at, const char *end, char c)
{
    return at < end ? memchr(at, c, (size_t)(end - at)) : NULL;
}

static inline bool log_is_dash(weir_slice text)
{
    return text.len == 1 && *text.at == '-';
}

/* Skips a byte order mark. */
static inline const char *log_skip_mark(const char *at, const char *end)
{
    return end - at >= 3 && *at == '\xef' && memcmp(at, "\xef\xbb\xbf", 3) == 0 ? at + 3 : at;
}

extern const char log_expect_time_range[], log_expect_key[], log_expect_cost[];

/* Writes an error at a place of the line. Returns false. */
bool log_fail(const char *line, const char *at, const char *expected, weir_logline_error *e);

/* Finds the next quote that is not escaped by a backslash; NULL if there is none. The byte before
 * `at` is no backslash. */
const char *log_find_quote(const char *at, const char *end);

/* Splits a request into method, URI, path, query and protocol; each may be missing. Old and broken
 * clients omit the protocol, or put spaces into the URI. */
void log_split_request(weir_slice request, weir_slice *field);

/* Splits a URI into path and query. */
void log_split_uri(weir_slice uri, weir_slice *field);

/* The address of "1.2.3.4:80", "[::1]:80" or "::1:80"; the text itself if it has no port. */
weir_slice log_without_port(weir_slice text);

/* The last of a list like "1.2.3.4, 5.6.7.8". */
weir_slice log_last_of_list(weir_slice list);

/* Reads one or more digits up to `end`. Numbers above INT64_MAX become INT64_MAX. Returns false for
 * anything else. */
bool log_read_saturated(weir_slice text, int64_t *ret);

/* Splits a line at single spaces. A word may be in quotes, with quotes escaped by a backslash; then
 * its text is between the quotes. */
typedef struct log_words {
    const char *at, *end; /* the next word, or NULL behind the last */
} log_words;

/* Returns the next word; `at` is NULL if there is none, or a quote is not closed. */
weir_slice log_next_word(log_words *w);

#endif
