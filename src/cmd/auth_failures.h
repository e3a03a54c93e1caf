/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_CMD_AUTH_FAILURES_H
#define WEIR_CMD_AUTH_FAILURES_H
/* Wrong passwords: counted for the metrics, and logged at most once a second. It never sees a
 * password. It must not know any clock or socket. */

#include "cmd/log.h"
#include "cmd/protocols.h"
#include "port/buffer.h"

#include <weir/weir.h>

typedef struct auth_failures auth_failures;

/*  log       kept by reference.
 *  held_max  1.., how many replies to wrong passwords are held within a second.
 * Returns WEIR_OK or WEIR_E_NOMEM. */
WEIR_NODISCARD weir_status auth_failures_open(auth_failures **ret, const log_target *log,
                                              uint64_t held_max);

/* Logs what was counted and not logged yet, and frees it. Accepts NULL. */
void auth_failures_close(auth_failures *g);

/* Counts one. The event `wrong-password` says how many there were since the last such event, and
 * where the last one came from.
 *  peer    an address, of fewer than 64 bytes.
 *  now_ns  of a clock that does not step.
 * Returns whether the reply is to be held. If not, held_max replies of this second are held: then
 * it is sent at once and the connection is closed, so that guesses cannot use up all connections.
 * Threads: any. */
bool auth_failures_add(auth_failures *g, protocol_kind protocol, const char *peer, int64_t now_ns);

/* Logs what was counted and not logged yet, if a second has passed since the last event. To be
 * called about once a second. Threads: any. */
void auth_failures_tick(auth_failures *g, int64_t now_ns);

/* Adds weir_wrong_passwords_total. Threads: any. */
void auth_failures_put_metrics(auth_failures *g, weir_buffer *out);

#endif
