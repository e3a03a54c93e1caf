/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_ACCESSLOG_FORMATS_FORMATS_H
#define WEIR_ACCESSLOG_FORMATS_FORMATS_H
/* What the files of this folder share: the fields of a line and the names that options have for
 * them; one part for each shape of a line, which finds the fields; and the two uses of fields, in
 * filters and in keys. Filters and templates must not know where a line has a field. */

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "accesslog/formats/logline.h"
#include "accesslog/formats/time.h"
#include "port/buffer.h"
#include "port/text.h"

/* ---- the fields of a line -------------------------------------------------------------------- */
/* They have one name in all formats. */

typedef enum log_field {
    LOG_CLIENT,
    LOG_IDENT,
    LOG_USER,
    LOG_METHOD,
    LOG_PATH, /* the URI up to its '?' */
    LOG_URI,
    LOG_QUERY, /* the URI behind its '?' */
    LOG_PROTOCOL,
    LOG_STATUS,
    LOG_BYTES,
    LOG_REFERER,
    LOG_AGENT,
    LOG_VHOST,
    LOG_DURATION,   /* in the unit of the log */
    LOG_FORWARDED,  /* X-Forwarded-For */
    LOG_REQUEST_ID, /* X-Request-ID */
    LOG_FIELDS
} log_field;

#define LOG_BIT(field) (UINT32_C(1) << (field))

/* The name of a field, and what a message expects where it is missing. */
const char *log_field_name(log_field field);
const char *log_field_expected(log_field field);

/* Finds the field of a name or of another common name of it, such as "remote_addr" for "client".
 * Returns LOG_FIELDS if there is none. */
log_field log_field_find(const char *name, size_t len);

/* ---- the names in the options ---------------------------------------------------------------- */
/* A format decides where it finds each of them. */

#define LOG_NAMES_MAX 32

typedef struct log_name {
    weir_slice text;    /* points into the option */
    log_field field;    /* LOG_FIELDS if it is the name of no field */
    size_t column;      /* csv and tsv: its column, from 0 */
    bool sought, found; /* by a filter, in some line */
} log_name;

typedef struct log_names {
    log_name name[LOG_NAMES_MAX];
    size_t n;
} log_names;

/* Adds a name, unless it is there. Returns its index, or -1 if there are LOG_NAMES_MAX already. */
int log_names_add(log_names *names, weir_slice text);

/* ---- lines of text --------------------------------------------------------------------------- */
/* A grammar finds the fields; several have parts of lines in common. Nothing is copied: the fields
 * point into the line. */

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

static inline bool log_is(weir_slice text, const char *other)
{
    return text.len == strlen(other) && memcmp(text.at, other, text.len) == 0;
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

/* ---- lines of columns ------------------------------------------------------------------------ */
/* csv, with the quotes of RFC 4180, and tsv, whose text is literal. The first line has the names of
 * the columns. */

#define LOG_COLUMNS_MAX 256

/* Zeroed by the caller, who sets the first two. */
typedef struct log_table {
    char separator;
    const weir_logtime_name *times; /* the names of a time, as weir_logtime_names */
    bool known;                     /* the names of the columns are known */
    size_t columns, time_column;    /* if known */
    int64_t unit_ns;                /* of the time; 0: see weir_logtime_number() */
    weir_buffer names;              /* the line of names */
    weir_slice name[LOG_COLUMNS_MAX];
    const char *line;
    weir_slice cell[LOG_COLUMNS_MAX]; /* of the current line, with its quotes */
    weir_buffer text;                 /* a cell without its quotes */
    bool no_memory;                   /* for the text of a cell of the current line */
} log_table;

void log_table_free(log_table *t);

/* Whether the line may be the names of columns: two or more, one of which is a time. It reads only
 * what the caller sets. */
bool log_table_is_header(const log_table *t, const char *line, const char *end);

/* Reads the names. Returns WEIR_OK; WEIR_E_SYNTAX after writing *e; WEIR_E_NOMEM. */
weir_status log_table_header(log_table *t, const char *line, const char *end,
                             weir_logline_error *e);

/* The column of a name: exactly this, or another name of the same field. Returns `columns` if there
 * is none. */
size_t log_table_find(const log_table *t, const log_name *name);

/* Whether another column has the same name. */
bool log_table_is_twice(const log_table *t, size_t column);

/* Splits a line, and reads its time. Returns false after writing *e. */
bool log_table_read(log_table *t, const char *line, const char *end, int64_t *ret_ns,
                    weir_logline_error *e);

/* The text of a cell, valid until the next call. `at` is NULL without memory. */
weir_slice log_table_value(log_table *t, size_t column);

/* ---- lines of JSON --------------------------------------------------------------------------- */
/* A flavour knows under which names a server writes the fields. */

typedef struct log_flavour log_flavour;

/* One line. Zeroed by the caller, who sets `times`. */
typedef struct log_json {
    const weir_logtime_name *times; /* the names of a time, as weir_logtime_names */
    const char *line;
    json_t *root;
    char number[64]; /* the text of the last value that is a number or a boolean */
} log_json;

/* The flavour of a format's name, such as "caddy"; "jsonl" is the one without names of its own. */
const log_flavour *log_flavour_find(const char *format);

/* The format of an object: "nginx-json", "caddy", "traefik" or "envoy"; "jsonl" for an object with
 * a time that is none of these; NULL for an object without a time. */
const char *log_json_detect(const log_json *j);

/* Parses a line. Integers beyond int64_t become strings. Call log_json_unload() afterwards.
 * Returns WEIR_OK; WEIR_E_SYNTAX after writing *e; WEIR_E_NOMEM. */
weir_status log_json_load(log_json *j, const char *line, const char *end, weir_logline_error *e);
void log_json_unload(log_json *j);

/* Reads the time of the line, from the first member that `times` has. Returns false after
 * writing *e. */
bool log_json_time(const log_json *j, int64_t *ret, weir_logline_error *e);

/* The text of a member or field. `at` is NULL if it is missing, or no string, number or boolean.
 * Valid until the next call or log_json_unload(). */
weir_slice log_json_value(log_json *j, const log_flavour *f, const log_name *name);

/* Whether the line has a member of exactly this name or path. */
bool log_json_has(const log_json *j, weir_slice name);

/* Writes an error of a member. Returns false. */
bool log_json_fail(const log_json *j, const char *expected, weir_slice name, weir_logline_error *e);

/* ---- filters --------------------------------------------------------------------------------- */
/* "path=/login* status=401|403 bytes>1000". All words must hold. */

#define LOG_TESTS_MAX 32

typedef enum log_comparison {
    LOG_EQUAL,     /* one of the patterns matches */
    LOG_NOT_EQUAL, /* none does */
    LOG_BELOW,
    LOG_AT_MOST,
    LOG_ABOVE,
    LOG_AT_LEAST
} log_comparison;

typedef struct log_test {
    int name; /* an index into log_names */
    log_comparison comparison;
    weir_slice patterns; /* separated by '|'; a '*' stands for any text */
    double number;       /* of the last four comparisons */
} log_test;

typedef struct log_filter {
    log_test test[LOG_TESTS_MAX];
    size_t tests;
} log_filter;

/* Parses the text of a --where, and adds its tests and its names.
 *  text  must outlive the filter and the names.
 * Returns false after writing *e. */
bool log_filter_parse(log_filter *f, const char *text, log_names *names, weir_logline_error *e);

/* Whether a field satisfies a test. A field that is no number satisfies no comparison of numbers.
 *  value  a missing field is the empty text. */
bool log_test_holds(const log_test *t, weir_slice value);

/* ---- templates ------------------------------------------------------------------------------- */
/* Keys that consist of text and fields: "$client $uri[1]". */

#define LOG_PARTS_MAX 32

typedef struct log_part {
    weir_slice text; /* literal text if `name` is below 0 */
    int name;        /* an index into log_names */
    unsigned nth;    /* the part of a path, from 1; 0: the whole field */
    unsigned v4, v6; /* bits of the prefix of an address; 0: unchanged */
} log_part;

typedef struct log_template {
    log_part part[LOG_PARTS_MAX];
    size_t parts;
    bool is_field; /* it consists of one whole field, unchanged */
} log_template;

/* Parses the text of --key: a field's name, or a template if it has a '$'. Adds its names.
 *  text  must outlive the template and the names.
 * Returns false after writing *e. */
bool log_template_parse(log_template *ret, const char *text, log_names *names,
                        weir_logline_error *e);

/* Appends a field as the part says. */
void log_part_append(const log_part *part, weir_slice value, weir_buffer *ret);

/* Writes an error of an option. Returns false.
 *  at  where the expected text should begin; NULL: unknown. */
bool log_option_fail(const char *option, const char *text, const char *at, const char *expected,
                     weir_logline_error *e);

#endif
