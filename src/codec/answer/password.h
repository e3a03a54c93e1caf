/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_CODEC_ANSWER_PASSWORD_H
#define WEIR_CODEC_ANSWER_PASSWORD_H
/* Password authentication: a comparison in constant time, and the penalty for a wrong password. The
 * reply to a wrong password is delayed. After a few of them, the connection is closed. */

#include "port/text.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define WEIR_PASSWORD_DELAY_NS INT64_C(1000000000) /* of the reply to a wrong password */
#define WEIR_PASSWORD_TRIES    3 /* wrong passwords; the reply to the last closes the connection */

/* Returns whether `given` equals the password. The time depends on the lengths only, not on which
 * bytes differ. Pure. */
static inline bool weir_password_is(const void *given, size_t given_len, const char *password)
{
    const uint8_t *at = (const uint8_t *)given;
    size_t len = strlen(password);
    unsigned different = given_len != len;
    for (size_t i = 0; i < len; i++)
        different |= (unsigned)(uint8_t)password[i] ^ (i < given_len ? at[i] : 0u);
    return different == 0;
}

typedef enum weir_credentials {
    WEIR_CREDENTIALS_NONE, /* the header is absent, empty, or neither Bearer nor Basic */
    WEIR_CREDENTIALS_WRONG,
    WEIR_CREDENTIALS_RIGHT
} weir_credentials;

/* Compares `password` with an Authorization header: "Bearer PASSWORD", or "Basic" with any user
 * name. The comparison takes constant time. Pure.
 *  authorization  the header's value; `at` is NULL if the header is absent. */
weir_credentials weir_credentials_check(weir_slice authorization, const char *password);

#endif
