/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_CORE_UNITS_H
#define WEIR_CORE_UNITS_H
/* Times in the units of replies and of header fields. */

#include <stdint.h>

/* Converts a time, 0..INT64_MAX, to units of unit_ns. It rounds up: a client that waits for a
 * rounded-down time would be denied again. Pure. */
static inline int64_t weir_units_ceil(int64_t ns, int64_t unit_ns)
{
    return ns / unit_ns + (ns % unit_ns > 0);
}

static inline int64_t weir_ms_ceil(int64_t ns)
{
    return weir_units_ceil(ns, 1000000);
}

static inline int64_t weir_s_ceil(int64_t ns)
{
    return weir_units_ceil(ns, 1000000000);
}

#endif
