/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_CMD_CONFIG_HTTP_H
#define WEIR_CMD_CONFIG_HTTP_H
/* The section `http`: where the key is, and which names and web pages may be used. */

#include "cmd/config/fields.h"

bool config_read_http(config_reader *r, const config_place *place, const config_field *field,
                      void *base);

#endif
