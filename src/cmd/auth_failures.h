/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_CMD_AUTH_FAILURES_H
#define WEIR_CMD_AUTH_FAILURES_H
/* Authentication failures (wrong passwords): counted for the metrics, logged at most once a second,
 * and rate limited. It never sees a password. It must not know any clock or socket. */

#include "cmd/log.h"
#include "cmd/protocols.h"
#include "port/buffer.h"

#include <weir/weir.h>

typedef struct auth_failures auth_failures;

/*  log       kept by reference.
 *  held_max  1 or more: how many replies to wrong passwords may be delayed per second.
 * Returns WEIR_OK or WEIR_E_NOMEM. */
WEIR_NODISCARD weir_status auth_failures_open(auth_failures **ret, const log_target *log,
                                              uint64_t held_max);

/* Logs the failures that are not logged yet, and frees *g. Accepts NULL. */
void auth_failures_close(auth_failures *g);

/* Counts a failure. The log event `wrong-password` has the number of failures since the previous
 * event and the address of the last client.
 *  peer    the client's address, fewer than 64 bytes.
 *  now_ns  of a clock that does not step.
 * Returns true to delay the reply. Returns false if held_max replies of this second are delayed:
 * send the reply at once and close the connection, so that password guessing cannot use up all
 * connections. Threads: any. */
bool auth_failures_add(auth_failures *g, protocol_kind protocol, const char *peer, int64_t now_ns);

/* Logs the failures that are not logged yet, if a second has passed since the last event. Call it
 * about once a second. Threads: any. */
void auth_failures_tick(auth_failures *g, int64_t now_ns);

/* Appends the metric weir_wrong_passwords_total. Threads: any. */
void auth_failures_put_metrics(auth_failures *g, weir_buffer *out);

#endif
