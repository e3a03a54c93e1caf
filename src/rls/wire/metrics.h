/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_RLS_WIRE_METRICS_H
#define WEIR_RLS_WIRE_METRICS_H
/* The statistics of the Rate Limit Service as text: for /stats, and for Prometheus. */

#include "port/buffer.h"
#include "rls/rls.h"

/* Appends the lines "NAME: VALUE", sorted by name. */
void weir_rls_stats_put(weir_buffer *out, weir_rls *rls);

/* Appends the metrics of each limit twice: as weir_rls_... with the labels domain and key, and with
 * the names and labels of the reference service; these labels are the first parts of DOMAIN.KEY,
 * separated by dots. At most WEIR_RLS_METRICS_MAX samples of a metric are listed; a sample with the
 * key "(others)" has the sum of the rest. */
#define WEIR_RLS_METRICS_MAX 1000
void weir_rls_metrics_put(weir_buffer *out, weir_rls *rls);

#endif
