/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_CODEC_LOG_FILTER_H
#define WEIR_CODEC_LOG_FILTER_H
/* Filters of lines: "path=/login* status=401|403 bytes>1000". All words must hold. It must not know
 * where a line has a field. */

#include "codec/log_names.h"
#include "codec/logline.h"

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

#endif
