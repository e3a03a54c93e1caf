/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_CODEC_FIGURES_H
#define WEIR_CODEC_FIGURES_H
/* The figures of a decision as RESP has them, by name and in order: for the daemon and for the
 * module, which must answer alike. */

#include "codec/round.h"

#include <weir/weir.h>

enum { WEIR_FIGURES = 6 };

static const char *const weir_figure_names[WEIR_FIGURES] = {
    "allowed", "limit", "remaining", "retry_after_ms", "reset_after_ms", "delay_ms"};

/* Times in milliseconds, rounded up; -1: no wait helps. Pure. */
static inline void weir_figures_ms(const weir_decision *d, int64_t ret[WEIR_FIGURES])
{
    ret[0] = d->allowed;
    ret[1] = d->limit;
    ret[2] = d->remaining;
    ret[3] = d->never ? -1 : weir_ms_ceil(d->retry_after_ns);
    ret[4] = weir_ms_ceil(d->reset_after_ns);
    ret[5] = weir_ms_ceil(d->delay_ns);
}

#endif
