/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_SERVICE_RLS_RULE_NAMES_H
#define WEIR_SERVICE_RLS_RULE_NAMES_H
/* The names of the rules of a configuration's limits. Private to src/service/rls. */

#include "service/rls/config_internal.h"

/* Writes a different name for each of n limits: its full key, if that is a valid name which no
 * other limit has; else a valid name made from it, with '-' and 8 hexadecimal digits of its hash.
 * Sets the limits' `rule`, which points into names.
 * Returns false if memory is exhausted. */
bool rls_name_rules(rls_limit *const *limits, size_t n, char (*names)[WEIR_RULE_NAME_MAX + 1]);

#endif
