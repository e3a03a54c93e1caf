/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_CMD_CONFIG_TRIAL_H
#define WEIR_CMD_CONFIG_TRIAL_H
/* Whether a daemon could start here with a configuration that is right. */

#include "cmd/config/fields.h"

/* Complains, or warns, of what would keep the daemon from starting on this machine, for the user
 * that runs this process. Creates and changes nothing.
 *  r  has read its tree without an error. */
void config_try(config_reader *r);

#endif
