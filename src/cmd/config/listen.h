/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_CMD_CONFIG_LISTEN_H
#define WEIR_CMD_CONFIG_LISTEN_H
/* `listen`: where the daemon can be reached, and by whom. */

#include "cmd/config/fields.h"

/* Reads the section `listen`; a field's read function. */
bool config_read_listen(config_reader *r, const config_place *place, const config_field *field,
                        void *base);

#endif
