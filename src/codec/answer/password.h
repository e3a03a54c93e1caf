/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_CODEC_ANSWER_PASSWORD_H
#define WEIR_CODEC_ANSWER_PASSWORD_H
/* Passwords in headers, and the penalty for a wrong password. The reply to a wrong password is
 * delayed. After a few of them, the connection is closed. */

#include "service/users/users.h"

#define WEIR_PASSWORD_DELAY_NS INT64_C(1000000000) /* of the reply to a wrong password */
#define WEIR_PASSWORD_TRIES    3 /* wrong passwords; the reply to the last closes the connection */

typedef enum weir_credentials {
    WEIR_CREDENTIALS_NONE, /* the header is absent, empty, or neither Bearer nor Basic */
    WEIR_CREDENTIALS_WRONG,
    WEIR_CREDENTIALS_RIGHT,
    WEIR_CREDENTIALS_BUSY /* see WEIR_LOGIN_BUSY */
} weir_credentials;

/* Logs in with an Authorization header: "Bearer NAME:PASSWORD", or "Basic". Without a name, the
 * user is `default`. If there is only a password, the whole text after Bearer is the password, and
 * the name in Basic does not matter.
 *  a              with users.
 *  authorization  the header's value; `at` is NULL if the header is absent.
 *  ret            written on WEIR_CREDENTIALS_RIGHT. */
weir_credentials weir_credentials_check(weir_access *a, weir_slice authorization, int64_t now_ns,
                                        weir_login *ret);

/* The same with a text as after Bearer; never WEIR_CREDENTIALS_NONE. */
weir_credentials weir_credentials_check_text(weir_access *a, weir_slice text, int64_t now_ns,
                                             weir_login *ret);

#endif
