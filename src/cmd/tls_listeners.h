/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_CMD_TLS_LISTENERS_H
#define WEIR_CMD_TLS_LISTENERS_H
/* The TLS certificates of the daemon's listeners: loading them, replacing them when their files
 * change, their log lines and their metrics. One thread uses it, except where noted. */

#include "cmd/config/config.h"
#include "cmd/log.h"
#include "port/buffer.h"

#include <weir/weir.h>

struct net_tls_server;
struct weir_server;

typedef struct tls_listeners tls_listeners;

/* Loads the certificates of all listeners that use TLS.
 *  config     kept by reference; `log` too.
 *  ret_error  `size` bytes; written on WEIR_E_IO.
 * Returns WEIR_OK; WEIR_E_IO; WEIR_E_NOMEM. */
WEIR_NODISCARD weir_status tls_listeners_open(tls_listeners **ret, const weir_config *config,
                                              const log_target *log, char *ret_error, size_t size);
void tls_listeners_close(tls_listeners *t); /* accepts NULL; close the server first */

/* The certificate of listener i of the configuration; NULL if it accepts plain text. */
struct net_tls_server *tls_listeners_get(const tls_listeners *t, size_t i);

/* Loads certificates again whose files have changed or could not be loaded. A file that cannot be
 * loaded is logged as tls-reload-refused, and the old certificate stays in use.
 *  config  a reloaded configuration, which may name other files; NULL: the same files. */
void tls_listeners_reload(tls_listeners *t, const weir_config *config);

/* Loads certificates again whose files have changed since the last attempt. Renews the keys of
 * session tickets once a day. Call it about once a second.
 *  now_ns  port_steady_ns(). */
void tls_listeners_tick(tls_listeners *t, int64_t now_ns);

/* Appends the metrics, if a listener uses TLS. Threads: any. */
void tls_listeners_put_metrics(const tls_listeners *t, const struct weir_server *server,
                               weir_buffer *out);

#endif
