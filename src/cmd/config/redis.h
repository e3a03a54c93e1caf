/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_CMD_CONFIG_REDIS_H
#define WEIR_CMD_CONFIG_REDIS_H
/* The keys that say where states live beside this machine: engine, redis, hybrid. */

#include "cmd/config/fields.h"

bool config_read_engine(config_reader *r, const config_place *place, const config_field *field,
                        void *base); /* a weir_engine_kind */
bool config_read_on_error(config_reader *r, const config_place *place, const config_field *field,
                          void *base); /* a weir_on_error, never WEIR_ON_ERROR_DEFAULT */
bool config_read_redis(config_reader *r, const config_place *place, const config_field *field,
                       void *base);
bool config_read_hybrid(config_reader *r, const config_place *place, const config_field *field,
                        void *base);

/* Looks at what the file says of engines before anything is read, for it may say so last. */
void config_look_for_engines(config_reader *r);

#endif
