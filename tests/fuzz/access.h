/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef TESTS_FUZZ_ACCESS_H
#define TESTS_FUZZ_ACCESS_H
/* Users for the fuzz targets of protocols: `default` with the password "p" may do everything, and
 * `u` with the password "q" little. */

#include "service/users/users.h"

#include <stdlib.h>

/*  limited  whether there are users. */
static inline void fuzz_access_open(weir_access *ret, bool limited)
{
    static const char *const patterns[] = {"a*"};
    const weir_user_spec specs[] = {
        {.name = WEIR_USER_DEFAULT, .password = {"p"}, .may = WEIR_MAY_ALL},
        {.name = "u",
         .password = {"q"},
         .policies = {patterns, 1},
         .keys = {patterns, 1},
         .may = WEIR_MAY_TAKE | WEIR_MAY_METRICS}};
    *ret = (weir_access){.users = NULL};
    if (!limited)
        return;
    if (weir_users_open(&ret->users) != WEIR_OK ||
        weir_users_set(ret->users, specs, 2, false) != WEIR_OK)
        abort();
    weir_access_refresh(ret);
}

static inline void fuzz_access_close(weir_access *a)
{
    weir_access_close(a);
    weir_users_close(a->users);
}

#endif
