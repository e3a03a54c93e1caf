/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_CMD_ACCURACY_PRINT_H
#define WEIR_CMD_ACCURACY_PRINT_H
/* The results of `weir accuracy` as a table of at most 80 columns, or as JSON. */

#include "cmd/accesslog/source.h"
#include "cmd/accuracy/measure.h"
#include "cmd/accuracy/traffic.h"

typedef struct accuracy_report {
    const accuracy_measure *measure;
    const char *limit;              /* as given */
    const traffic_options *traffic; /* NULL if a log was read */
    const char *rate;               /* the rate of a source, as given */
    const accesslog *log;           /* NULL if the requests were generated */
} accuracy_report;

/* Both print to standard output; the caller flushes it and reports a write error. */
void accuracy_print_table(const accuracy_report *r);

/* Returns WEIR_OK, or WEIR_E_NOMEM with nothing printed. */
WEIR_NODISCARD weir_status accuracy_print_json(const accuracy_report *r);

#endif
