/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_CMD_CONFIG_POLICIES_H
#define WEIR_CMD_CONFIG_POLICIES_H
/* `policies`: the tree -> specs for weir_rules_build(). */

#include "cmd/config/fields.h"

/* Reads the section `policies`; a field's read function. */
bool config_read_policies(config_reader *r, const config_place *place, const config_field *field,
                          void *base);

#endif
