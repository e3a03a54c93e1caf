/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_CODEC_LOG_JSON_H
#define WEIR_CODEC_LOG_JSON_H
/* Lines that are JSON objects. A flavour knows under which names a server writes the fields. */

#include "codec/log_line.h"
#include "codec/log_names.h"

#include <jansson.h>

typedef struct log_flavour log_flavour;

/* One line. Zeroed by the caller. */
typedef struct log_json {
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

/* Reads the time of the line, from the first member that log_time_names has. Returns false after
 * writing *e. */
bool log_json_time(const log_json *j, int64_t *ret, weir_logline_error *e);

/* The text of a member or field. `at` is NULL if it is missing, or no string, number or boolean.
 * Valid until the next call or log_json_unload(). */
weir_slice log_json_value(log_json *j, const log_flavour *f, const log_name *name);

/* Whether the line has a member of exactly this name or path. */
bool log_json_has(const log_json *j, weir_slice name);

/* Writes an error of a member. Returns false. */
bool log_json_fail(const log_json *j, const char *expected, weir_slice name, weir_logline_error *e);

#endif
