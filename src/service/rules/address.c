/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* IP addresses: parsing and printing. */

#include "service/rules/address.h"

#include "port/assert.h"
#include "port/text.h"

#include <string.h>

/* Reads a decimal number 0..255 without leading zeros. Returns its length; 0 if there is none. */
static size_t read_octet(const char *text, size_t len, uint8_t *ret)
{
    uint64_t v;
    size_t n = weir_digits_read(text, len, &v);
    if (n == 0 || n > 3 || v > 255 || (n > 1 && text[0] == '0'))
        return 0;
    *ret = (uint8_t)v;
    return n;
}

static bool parse_v4(uint8_t *ret, const char *text, size_t len)
{
    size_t at = 0;
    for (int i = 0; i < 4; i++) {
        if (i > 0 && (at >= len || text[at++] != '.'))
            return false;
        size_t used = read_octet(text + at, len - at, &ret[i]);
        if (used == 0)
            return false;
        at += used;
    }
    return at == len;
}

static size_t read_group(const char *text, size_t len, uint8_t *ret)
{
    unsigned n = 0;
    size_t i = 0;
    for (; i < len && i < 4 && weir_hex_digit(text[i]) >= 0; i++)
        n = n * 16 + (unsigned)weir_hex_digit(text[i]);
    ret[0] = (uint8_t)(n >> 8);
    ret[1] = (uint8_t)n;
    return i;
}

/* Reads the groups of an IPv6 address into `ret`, which has 20 bytes. Returns the number of bytes
 * read; 0 if the text is not an address.
 *  len      2 or more.
 *  ret_gap  written if there is a "::": the number of bytes before it. */
static size_t read_groups(uint8_t *ret, const char *text, size_t len, size_t *ret_gap)
{
    size_t at = 0, n = 0;
    bool gap = false;
    if (text[0] == ':' && text[1] == ':') {
        gap = true;
        *ret_gap = 0;
        at = 2;
    }
    while (at < len) {
        if (memchr(text + at, '.', len - at) && !memchr(text + at, ':', len - at))
            return parse_v4(ret + n, text + at, len - at) ? n + 4 : 0;
        size_t used = n < 16 ? read_group(text + at, len - at, ret + n) : 0;
        if (used == 0)
            return 0;
        n += 2;
        at += used;
        if (at == len)
            break;
        if (text[at++] != ':' || at == len)
            return 0;
        if (text[at] == ':') {
            if (gap)
                return 0;
            gap = true;
            *ret_gap = n;
            at++;
        }
    }
    return n;
}

/*  ret  16 bytes, all 0. */
static bool parse_v6(uint8_t *ret, const char *text, size_t len)
{
    size_t gap = SIZE_MAX, n;
    uint8_t bytes[20] = {0};
    n = read_groups(bytes, text, len, &gap);
    if (gap == SIZE_MAX ? n != 16 : n > 14 || (n == 0 && len != 2))
        return false;
    if (gap == SIZE_MAX)
        gap = n;
    memcpy(ret, bytes, gap);
    memcpy(ret + 16 - (n - gap), bytes + gap, n - gap);
    return true;
}

bool weir_address_parse(weir_address *ret, const char *text, size_t len)
{
    static const uint8_t mapped[12] = {[10] = 0xFF, [11] = 0xFF};
    if (len < 2 || len > 45 ||
        (weir_hex_digit(text[0]) < 0 && text[0] != ':')) /* most keys are no addresses */
        return false;
    weir_address a = {0};
    if (!memchr(text, ':', len)) {
        if (!parse_v4(a.bytes, text, len))
            return false;
    } else {
        if (!parse_v6(a.bytes, text, len))
            return false;
        a.v6 = memcmp(a.bytes, mapped, sizeof mapped) != 0;
        if (!a.v6) {
            memcpy(a.bytes, a.bytes + 12, 4);
            memset(a.bytes + 4, 0, 12);
        }
    }
    *ret = a;
    return true;
}

bool weir_address_mask(weir_address *a, unsigned bits)
{
    WEIR_ASSERT(bits <= weir_address_bits(a));
    uint8_t cleared = 0;
    for (unsigned i = bits / 8; i < 16; i++) {
        uint8_t keep = i == bits / 8 ? (uint8_t)(0xFF00 >> bits % 8) : 0;
        cleared |= (uint8_t)(a->bytes[i] & ~keep);
        a->bytes[i] &= keep;
    }
    return cleared != 0;
}

static unsigned group(const weir_address *a, unsigned i)
{
    return (unsigned)a->bytes[2 * i] << 8 | a->bytes[2 * i + 1];
}

/* Returns the first group of the longest run of two or more zero groups, the first of equals.
 *  ret_len  its length in groups; 0 if there is none. */
static unsigned longest_zeros(const weir_address *a, unsigned *ret_len)
{
    unsigned best = 0, run = 0;
    *ret_len = 0;
    for (unsigned i = 0; i < 8; i++) {
        run = group(a, i) == 0 ? run + 1 : 0;
        if (run >= 2 && run > *ret_len) {
            *ret_len = run;
            best = i + 1 - run;
        }
    }
    return best;
}

static size_t put_hex(char *buf, unsigned v)
{
    size_t n = 0;
    for (int shift = 12; shift >= 0; shift -= 4) {
        if (shift == 0 || v >> shift != 0)
            buf[n++] = "0123456789abcdef"[v >> shift & 15];
    }
    return n;
}

static size_t print_v6(const weir_address *a, char *buf)
{
    unsigned zeros, from = longest_zeros(a, &zeros);
    size_t n = 0;
    for (unsigned i = 0; i < 8; i++) {
        if (zeros > 0 && i == from) {
            buf[n++] = ':';
            if (i == 0)
                buf[n++] = ':';
            i += zeros - 1;
            continue;
        }
        n += put_hex(buf + n, group(a, i));
        if (i < 7)
            buf[n++] = ':';
    }
    return n;
}

static size_t print_v4(const weir_address *a, char *buf)
{
    size_t n = 0;
    for (unsigned i = 0; i < 4; i++) {
        if (i > 0)
            buf[n++] = '.';
        n += weir_i64_print(buf + n, a->bytes[i]);
    }
    return n;
}

size_t weir_address_print(const weir_address *a, unsigned bits, char *buf)
{
    size_t n = a->v6 ? print_v6(a, buf) : print_v4(a, buf);
    if (bits < weir_address_bits(a)) {
        buf[n++] = '/';
        n += weir_i64_print(buf + n, bits);
    }
    WEIR_ASSERT(n >= 2 && n < WEIR_ADDRESS_TEXT_MAX);
    return n;
}
