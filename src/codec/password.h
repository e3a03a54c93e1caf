/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_CODEC_PASSWORD_H
#define WEIR_CODEC_PASSWORD_H
/* Is it the password? */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* Takes as long for every `given` of one length: it walks over the password, and never stops early.
 * Pure. */
static inline bool weir_password_is(const void *given, size_t given_len, const char *password)
{
    const uint8_t *at = (const uint8_t *)given;
    size_t len = strlen(password);
    unsigned different = given_len != len;
    for (size_t i = 0; i < len; i++)
        different |= (unsigned)(uint8_t)password[i] ^ (i < given_len ? at[i] : 0u);
    return different == 0;
}

#endif
