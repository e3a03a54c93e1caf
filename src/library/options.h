/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_LIBRARY_OPTIONS_H
#define WEIR_LIBRARY_OPTIONS_H
/* Options that outlive the caller's: a copy of all that they point to. */

#include "port/dial.h"

#include <weir/weir_redis.h>

/* Returns a copy in one piece, to be given to port_free(); without zones and ret_error. NULL if
 * there is no memory. */
weir_redis_options *weir_redis_options_copy(const weir_redis_options *options);

/* Reads the files of TLS, if a URL wants it; else *ret is NULL. Returns as net_tls_open(), with
 * *ret_error written. */
WEIR_NODISCARD weir_status weir_redis_options_tls(const weir_redis_options *options, port_tls **ret,
                                                  weir_redis_error *ret_error);

#endif
