/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_CMD_ENVOY_LIMITS_FILE_H
#define WEIR_CMD_ENVOY_LIMITS_FILE_H
/* Reads a limits file of limitador: a YAML list of limits. */

#include "cmd/config/keys.h"

/* Reads r->config->limitador.file into r->config->limitador.limits, which stays NULL if the file is
 * invalid. The errors of the file are added to the chain of r->errors.
 *  place  the key that names the file.
 * Returns false if it could not be read: it may be replaced just now. */
bool limits_file_read(config_reader *r, const config_place *place);

/* Reads limits from memory; otherwise as limits_file_read().
 *  name  for messages. */
void limits_file_parse(config_reader *r, const char *name, const char *bytes, size_t len);

#endif
