/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_CMD_ENGINES_H
#define WEIR_CMD_ENGINES_H
/* The engines that a daemon has beside its own memory: for each of its loops one that asks Redis,
 * and a hybrid over that. They are there if the configuration says where Redis is, also if no
 * policy needs them yet. */

#include "cmd/config/config.h"
#include "cmd/log.h"
#include "service/service.h"

typedef struct engines engines;

/* Reads the files of TLS, and connects to nothing yet.
 *  config, log  kept by reference.
 *  ret_error    written on WEIR_E_IO; `size` bytes.
 * Returns WEIR_OK, with *ret NULL if there is no Redis; WEIR_E_IO; WEIR_E_NOMEM. */
WEIR_NODISCARD weir_status engines_open(engines **ret, const weir_config *config, weir_store *store,
                                        const log_target *log, char *ret_error, size_t size);

/* Gives a loop's service its engines, and takes them away; both by the loop's thread. Accept NULL
 * for e.
 *  loop  0..255, each once. */
void engines_begin(engines *e, unsigned loop, weir_service *service, port_dialer *dialer);
void engines_end(engines *e, unsigned loop, weir_service *service);

/* Whether some loop reaches no server that decides: none is up, or the breakers of all that are up
 * are open. Call on a loop's thread; checks that loop's breakers.
 *  loop   index of that loop.
 *  loops  number of loops. */
bool engines_are_down(engines *e, unsigned loop, unsigned loops, int64_t now_ns);

/* Adds their metrics. Accepts NULL: there are none. Any thread. */
void engines_put_metrics(const engines *e, weir_buffer *out);

/* After the last engines_end(). Accepts NULL. */
void engines_close(engines *e);

#endif
