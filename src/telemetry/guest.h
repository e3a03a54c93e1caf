/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_TELEMETRY_GUEST_H
#define WEIR_TELEMETRY_GUEST_H
/* OpenTelemetry as a guest of the daemon: metrics and traces that it sends to a collector. */

#include "cmd/config/keys.h"

/* The section `telemetry`. */
typedef struct telemetry_settings {
    const char *endpoint;        /* as otlp_endpoint_read() accepts it; NULL: nothing is sent */
    const char *headers;         /* lines with CR LF; NULL: none */
    const char *attributes;      /* of the resource, each with a comma; NULL: none */
    bool has_name, has_instance; /* service.name and service.instance.id are among them */
    bool metrics, traces;
    int64_t interval_ns, timeout_ns;
    const char *ca, *cert, *key; /* of TLS */
} telemetry_settings;

extern const config_guest telemetry_guest;     /* section.c */
extern const struct feature telemetry_feature; /* feature.c */

#endif
