/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* scrypt (RFC 7914) in the notation of PHC strings, and HMAC-SHA256, both of OpenSSL. */

#include "service/users/users.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <string.h>

enum { LN_MIN = 10, LN_MAX = 14, R = 8, P = 1, SALT_MIN = 8, SALT_MAX = 64, HASH = 32 };

typedef struct hash {
    unsigned ln;
    uint8_t salt[SALT_MAX], key[HASH];
    size_t salt_len;
} hash;

static int digit_of(char c)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    const char *at = c ? strchr(digits, c) : NULL;
    return at ? (int)(at - digits) : -1;
}

/* Reads base64 without padding up to a byte that is no digit. Returns the end of the text; NULL if
 * the bytes do not fit. */
static const char *read_base64(const char *text, uint8_t *ret, size_t size, size_t *ret_len)
{
    unsigned word = 0, bits = 0;
    *ret_len = 0;
    for (int digit; (digit = digit_of(*text)) >= 0; text++) {
        word = (word << 6 | (unsigned)digit) & 0xFFFF;
        bits += 6;
        if (bits < 8)
            continue;
        if (*ret_len == size)
            return NULL;
        bits -= 8;
        ret[(*ret_len)++] = (uint8_t)(word >> bits);
    }
    return text;
}

static bool read_hash(const char *text, hash *ret)
{
    static const char head[] = "$scrypt$ln=", tail[] = ",r=8,p=1$";
    size_t len;
    uint64_t ln;
    if (strncmp(text, head, sizeof head - 1) != 0)
        return false;
    text += sizeof head - 1;
    if (!weir_decimal_read(text, 2, LN_MAX, &ln) || ln < LN_MIN ||
        strncmp(text + 2, tail, sizeof tail - 1) != 0)
        return false;
    ret->ln = (unsigned)ln;
    text = read_base64(text + 2 + sizeof tail - 1, ret->salt, SALT_MAX, &ret->salt_len);
    if (!text || *text != '$' || ret->salt_len < SALT_MIN)
        return false;
    text = read_base64(text + 1, ret->key, HASH, &len);
    return text && *text == '\0' && len == HASH;
}

bool weir_scrypt_check(const char *text)
{
    hash h;
    return read_hash(text, &h);
}

bool weir_scrypt_is(const char *text, const void *password, size_t len)
{
    hash h;
    uint8_t key[HASH];
    return read_hash(text, &h) &&
           EVP_PBE_scrypt(password, len, h.salt, h.salt_len, UINT64_C(1) << h.ln, R, P, 64 << 20,
                          key, HASH) == 1 &&
           CRYPTO_memcmp(key, h.key, HASH) == 0;
}

bool weir_password_digest(const uint8_t key[32], const void *password, size_t len, uint64_t ret[4])
{
    uint8_t digest[EVP_MAX_MD_SIZE];
    unsigned digest_len;
    if (!HMAC(EVP_sha256(), key, 32, password, len, digest, &digest_len))
        return false;
    memcpy(ret, digest, 32);
    return true;
}
