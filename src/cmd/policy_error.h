/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_CMD_POLICY_ERROR_H
#define WEIR_CMD_POLICY_ERROR_H
/* Shows where a policy text is wrong, in the same words for every command. */

#include <weir/weir.h>

/* Prints to standard error "PREFIX: column N: why", then the text, and a caret below column N.
 * The text is safe for a terminal and takes one line of at most 80 columns: control characters are
 * spaces, each maximal subpart of what is not UTF-8 is a '?', and of a long text the part around
 * the column is shown, with "..." where it was cut. Each character counts as one column, though
 * error->column counts bytes.
 *  prefix  who says so: "weir policy".
 *  text    the whole text that was refused.
 *  error   error->column 1..strlen(text) + 1. */
void policy_error_print(const char *prefix, const char *text, const weir_policy_error *error);

#endif
