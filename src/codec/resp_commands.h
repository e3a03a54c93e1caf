/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_CODEC_RESP_COMMANDS_H
#define WEIR_CODEC_RESP_COMMANDS_H
/* RESP requests -> the service -> RESP replies: the commands of the daemon. No sockets: bytes in,
 * bytes out, at a time that is passed in. */

#include "codec/resp.h"
#include "port/buffer.h"
#include "service/service.h"

/* One for each connection. */
typedef struct weir_resp_session {
    weir_service *service;
    weir_resp_parser parser;
    bool closing; /* send what `out` holds, then close; nothing more is read */
} weir_resp_session;

void weir_resp_session_init(weir_resp_session *s, weir_service *service);

/* Answers every whole request in `in`, and drops it from there. All of them are decided at now_ns.
 * Stops early when `out` holds more than out_pause bytes: call again when it has been sent.
 * Returns true if requests may be left in `in` for that reason. */
bool weir_resp_session_run(weir_resp_session *s, weir_buffer *in, weir_buffer *out,
                           size_t out_pause, int64_t now_ns);

#endif
