/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_CODEC_ROUND_H
#define WEIR_CODEC_ROUND_H
/* Nanoseconds as the protocols have them: in units that are coarser, and so rounded up, for who
 * waits too short a time is denied again. */

#include <stdint.h>

/* ns 0..INT64_MAX. Pure. */
static inline int64_t weir_ms_ceil(int64_t ns)
{
    return ns / 1000000 + (ns % 1000000 > 0);
}

static inline int64_t weir_s_ceil(int64_t ns)
{
    return ns / 1000000000 + (ns % 1000000000 > 0);
}

#endif
