/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* The credentials of an Authorization header: Bearer (RFC 6750) and Basic (RFC 7617). */

#include "codec/answer/password.h"

static int base64_digit(char c)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    const char *at = c ? strchr(digits, c) : NULL;
    return at ? (int)(at - digits) : -1;
}

/* Decodes base64. Returns the length, or SIZE_MAX if the input is invalid or does not fit. */
static size_t base64_decode(weir_slice from, char *to, size_t size)
{
    unsigned bits = 0, word = 0;
    size_t end = 0;
    while (from.len > 0 && from.at[from.len - 1] == '=')
        from.len--;
    for (size_t i = 0; i < from.len; i++) {
        int digit = base64_digit(from.at[i]);
        if (digit < 0)
            return SIZE_MAX;
        word = (word << 6 | (unsigned)digit) & 0xFFFF;
        bits += 6;
        if (bits < 8)
            continue;
        if (end == size)
            return SIZE_MAX;
        bits -= 8;
        to[end++] = (char)(word >> bits & 0xFF);
    }
    return end;
}

/* Returns the credentials after "scheme "; `at` is NULL for another scheme. */
static weir_slice after_scheme(weir_slice value, const char *scheme)
{
    size_t len = strlen(scheme);
    weir_slice head = {value.at, len};
    if (value.len <= len || value.at[len] != ' ' || !weir_slice_is(head, scheme))
        return (weir_slice){NULL, 0};
    return weir_slice_trim((weir_slice){value.at + len, value.len - len});
}

static bool basic_is(weir_slice basic, const char *password)
{
    char pair[1024];
    size_t len = base64_decode(basic, pair, sizeof pair);
    const char *colon = len == SIZE_MAX ? NULL : memchr(pair, ':', len);
    return colon && weir_password_is(colon + 1, (size_t)(pair + len - colon - 1), password);
}

weir_credentials weir_credentials_check(weir_slice authorization, const char *password)
{
    weir_slice bearer = after_scheme(authorization, "bearer");
    weir_slice basic = after_scheme(authorization, "basic");
    if (!bearer.at && !basic.at)
        return WEIR_CREDENTIALS_NONE;
    bool right =
        bearer.at ? weir_password_is(bearer.at, bearer.len, password) : basic_is(basic, password);
    return right ? WEIR_CREDENTIALS_RIGHT : WEIR_CREDENTIALS_WRONG;
}
