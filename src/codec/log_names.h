/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_CODEC_LOG_NAMES_H
#define WEIR_CODEC_LOG_NAMES_H
/* The names of fields that the options of a reader mention. A format decides where it finds each of
 * them. */

#include "codec/log_fields.h"
#include "port/text.h"

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

#endif
