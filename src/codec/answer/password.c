/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* The credentials of an Authorization header: Bearer (RFC 6750) and Basic (RFC 7617). */

#define _GNU_SOURCE /* explicit_bzero */

#include "codec/answer/password.h"

#include <string.h>

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

/* The place of the colon between the name and the password; SIZE_MAX without one. */
static size_t find_colon(weir_slice text)
{
    const char *colon = text.len > 0 ? memchr(text.at, ':', text.len) : NULL;
    return colon ? (size_t)(colon - text.at) : SIZE_MAX;
}

/*  colon  of the text. */
static weir_credentials check_pair(weir_access *a, weir_slice text, size_t colon, int64_t now_ns,
                                   weir_login *ret)
{
    static const weir_credentials results[] = {[WEIR_LOGIN_OK] = WEIR_CREDENTIALS_RIGHT,
                                               [WEIR_LOGIN_WRONG] = WEIR_CREDENTIALS_WRONG,
                                               [WEIR_LOGIN_BUSY] = WEIR_CREDENTIALS_BUSY};
    weir_slice name = {WEIR_USER_DEFAULT, sizeof WEIR_USER_DEFAULT - 1}, password = text;
    if (colon != SIZE_MAX) {
        password = (weir_slice){text.at + colon + 1, text.len - colon - 1};
        if (colon > 0 && !weir_access_is_single(a))
            name = (weir_slice){text.at, colon};
    }
    return results[weir_login_try(a, name, password, now_ns, ret)];
}

weir_credentials weir_credentials_check_text(weir_access *a, weir_slice text, int64_t now_ns,
                                             weir_login *ret)
{
    return check_pair(a, text, weir_access_is_single(a) ? SIZE_MAX : find_colon(text), now_ns, ret);
}

static weir_credentials check_basic(weir_access *a, weir_slice basic, int64_t now_ns,
                                    weir_login *ret)
{
    char pair[1024];
    size_t len = base64_decode(basic, pair, sizeof pair);
    size_t colon = len == SIZE_MAX ? SIZE_MAX : find_colon((weir_slice){pair, len});
    if (colon == SIZE_MAX)
        return WEIR_CREDENTIALS_WRONG;
    weir_credentials result = check_pair(a, (weir_slice){pair, len}, colon, now_ns, ret);
    explicit_bzero(pair, sizeof pair);
    return result;
}

weir_credentials weir_credentials_check(weir_access *a, weir_slice authorization, int64_t now_ns,
                                        weir_login *ret)
{
    weir_slice bearer = after_scheme(authorization, "bearer");
    weir_slice basic = after_scheme(authorization, "basic");
    if (!bearer.at && !basic.at)
        return WEIR_CREDENTIALS_NONE;
    return bearer.at ? weir_credentials_check_text(a, bearer, now_ns, ret)
                     : check_basic(a, basic, now_ns, ret);
}
