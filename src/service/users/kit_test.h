/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_SERVICE_USERS_KIT_TEST_H
#define WEIR_SERVICE_USERS_KIT_TEST_H
/* Users for tests: of one thread, whose access records its callbacks. */

#include "service/users/users.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

typedef struct users_kit {
    weir_access access;
    const char *bound_to, *certified;                    /* what the callbacks answer */
    bool (*wrong_password)(void *ctx, const void *peer); /* NULL: the reply is delayed */
    void *wrong_password_ctx;
    unsigned denied, denied_rights;
    char denied_user[WEIR_USER_NAME_MAX + 1];
} users_kit;

__attribute__((unused)) static void users_kit_denied(void *ctx, const void *peer,
                                                     const weir_user *user, unsigned rights)
{
    users_kit *k = ctx;
    (void)peer;
    k->denied++;
    k->denied_rights = rights;
    snprintf(k->denied_user, sizeof k->denied_user, "%s", user ? weir_user_name(user) : "");
}

__attribute__((unused)) static const char *users_kit_bound_to(void *ctx, const void *peer)
{
    (void)peer;
    return ((users_kit *)ctx)->bound_to;
}

__attribute__((unused)) static bool users_kit_is_certified(void *ctx, const void *peer,
                                                           const char *name)
{
    const char *certified = ((users_kit *)ctx)->certified;
    (void)peer;
    return certified && strcmp(certified, name) == 0;
}

__attribute__((unused)) static bool users_kit_wrong_password(void *ctx, const void *peer)
{
    const users_kit *k = ctx;
    return !k->wrong_password || k->wrong_password(k->wrong_password_ctx, peer);
}

/* Replaces the users. The first call opens them. */
__attribute__((unused)) static void users_kit_set(users_kit *k, const weir_user_spec *specs,
                                                  size_t n, bool single)
{
    if (!k->access.users) {
        k->access.ctx = k;
        k->access.wrong_password = users_kit_wrong_password;
        k->access.denied = users_kit_denied;
        k->access.bound_to = users_kit_bound_to;
        k->access.is_certified = users_kit_is_certified;
        assert_int_equal(weir_users_open(&k->access.users), WEIR_OK);
    }
    assert_int_equal(weir_users_set(k->access.users, specs, n, single), WEIR_OK);
    weir_access_refresh(&k->access);
}

/* There is only a password; NULL: none. */
__attribute__((unused)) static void users_kit_set_password(users_kit *k, const char *password)
{
    const weir_user_spec spec = {
        .name = WEIR_USER_DEFAULT, .password = {password}, .may = WEIR_MAY_ALL};
    users_kit_set(k, &spec, password ? 1 : 0, true);
}

__attribute__((unused)) static void users_kit_close(users_kit *k)
{
    weir_users *users = k->access.users;
    weir_access_close(&k->access);
    weir_users_close(users);
    k->access.users = NULL;
}

#endif
