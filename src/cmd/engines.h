/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_CMD_ENGINES_H
#define WEIR_CMD_ENGINES_H
/* The daemon's remote engines: for each event loop, a redis engine and a hybrid engine on top of
 * it. They exist if the configuration has `redis`, even if no policy uses them yet. */

#include "cmd/config/config.h"
#include "cmd/log.h"
#include "service/service.h"

typedef struct engines engines;

/* Loads the TLS certificates. Does not connect yet.
 *  config, log  kept by reference.
 *  ret_error    written on WEIR_E_IO; `size` bytes.
 * Returns WEIR_OK, with *ret NULL if there is no Redis; WEIR_E_IO; WEIR_E_NOMEM. */
WEIR_NODISCARD weir_status engines_open(engines **ret, const weir_config *config, weir_store *store,
                                        const log_target *log, char *ret_error, size_t size);

/* Opens the engines of a loop and attaches them to its service; detaches and closes them. Call both
 * on the loop's thread. They accept NULL for e.
 *  loop  0..255, each once. */
void engines_begin(engines *e, unsigned loop, weir_service *service, port_dialer *dialer);
void engines_end(engines *e, unsigned loop, weir_service *service);

/* Returns whether any loop is without a server: it has no connection, or, for the calling loop, the
 * circuit breakers of all connected servers are open. Call it on a loop's thread.
 *  loop   the calling loop.
 *  loops  number of loops. */
bool engines_are_down(engines *e, unsigned loop, unsigned loops, int64_t now_ns);

/* Appends the metrics of the engines. Accepts NULL. Threads: any. */
void engines_put_metrics(const engines *e, weir_buffer *out);

/* Appends the state of the engines as a JSON value: null for NULL, otherwise an object with `name`,
 * `up`, `failures` and `by_error`. Call it on a loop's thread; see engines_are_down(). */
void engines_put_live(engines *e, unsigned loop, unsigned loops, int64_t now_ns, weir_buffer *out);

/* Call it after the last engines_end(). Accepts NULL. */
void engines_close(engines *e);

#endif
