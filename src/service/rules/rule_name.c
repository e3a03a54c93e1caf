/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* The names that policies and routes may have. A file of its own, because the module in Redis links
 * it without the rules. */

#include "service/rules/routes.h"

#include <stdio.h>
#include <string.h>

weir_status weir_rule_name_check(const char *name, size_t len, weir_rule_error *ret_error)
{
    static const char good[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.:/";
    bool fits = len >= 1 && len <= WEIR_RULE_NAME_MAX;
    size_t fine = 0;
    while (fits && fine < len && memchr(good, name[fine], sizeof good - 1))
        fine++;
    if (fits && fine == len)
        return WEIR_OK;
    if (!ret_error)
        return WEIR_E_SYNTAX;
    ret_error->column = 0;
    if (fits)
        snprintf(ret_error->text, sizeof ret_error->text,
                 "byte %zu of a policy's name: expected a letter, a digit or one of - _ . : /",
                 fine + 1);
    else
        snprintf(ret_error->text, sizeof ret_error->text,
                 "a policy's name has 1 to %d bytes, this one has %zu", WEIR_RULE_NAME_MAX, len);
    return WEIR_E_SYNTAX;
}
