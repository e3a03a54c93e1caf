/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_LIMITADOR_HTTP_H
#define WEIR_LIMITADOR_HTTP_H
/* limitador's HTTP API: /check, /report, /check_and_report, /limits, /counters and /status. Its
 * metrics are limitador_up, authorized_calls, authorized_hits and limited_calls, which have the
 * label limitador_namespace. */

#include "codec/http/call.h"
#include "limitador/limitador.h"

/* The endpoints for an event loop. */
weir_http_guest weir_limitador_http(weir_limitador_loop *loop);

#endif
