/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_CODEC_LIMITADOR_METRICS_H
#define WEIR_CODEC_LIMITADOR_METRICS_H
/* The metrics of limitador's limits, in Prometheus's text format. */

#include "port/buffer.h"
#include "service/rls/limitador.h"

/* Appends limitador_up, authorized_calls, authorized_hits and limited_calls, which have the label
 * limitador_namespace. Any thread. */
void weir_limitador_metrics_put(weir_buffer *out, weir_limitador *l);

#endif
