/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_CODEC_LOG_TEMPLATE_H
#define WEIR_CODEC_LOG_TEMPLATE_H
/* Keys that consist of text and fields: "$client $uri[1]". It must not know where a line has a
 * field. */

#include "codec/log_names.h"
#include "codec/logline.h"
#include "port/buffer.h"

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
