/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* A refused policy text, and a caret below the place. It must not know what a policy may say. */

#include "cmd/policy_error.h"

#include "cmd/caret.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

void policy_error_print(const char *prefix, const char *text, const weir_policy_error *error)
{
    fprintf(stderr, "%s: column %" PRIu32 ": %s\n", prefix, error->column, error->text);
    caret_print(stderr, text, strlen(text), error->column > 0 ? error->column - 1 : 0);
}
