/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_RLS_WIRE_HTTP_H
#define WEIR_RLS_WIRE_HTTP_H
/* The HTTP endpoints of the Rate Limit Service: /json, /healthcheck, /rlconfig and /stats. */

#include "codec/http/call.h"
#include "rls/wire/message.h"

/* The endpoints for an event loop. GET / and /metrics show them if the service has limits. */
weir_http_guest weir_rls_http(weir_rls_door *door);

#endif
