/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_CMD_ENVOY_LIMITS_FILE_H
#define WEIR_CMD_ENVOY_LIMITS_FILE_H
/* Reads a limits file of limitador: a YAML list of limits. */

#include "cmd/config/config.h"
#include "service/rls/limitador.h"

/* Reads and checks a limits file.
 *  sink  receives each error and warning, in the order of the file.
 *  ret   written on WEIR_OK only; for weir_limitador_config_drop().
 * Returns WEIR_OK; WEIR_E_IO if the file cannot be read; WEIR_E_SYNTAX if it is invalid;
 * WEIR_E_NOMEM. */
WEIR_NODISCARD weir_status limits_file_load(const char *path, const weir_limitador_options *options,
                                            const config_sink *sink, weir_limitador_config **ret);

/* Reads limits from memory; otherwise as limits_file_load().
 *  name  for messages. */
WEIR_NODISCARD weir_status limits_file_parse(const char *bytes, size_t len, const char *name,
                                             const weir_limitador_options *options,
                                             const config_sink *sink, weir_limitador_config **ret);

#endif
