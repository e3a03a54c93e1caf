/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_PORT_TEXT_H
#define WEIR_PORT_TEXT_H
/* Text as bytes: slices, decimal numbers, hexadecimal digits, UTF-8. All functions are pure. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Bytes that another object owns. They are not NUL-terminated. `at` is NULL if the slice is
 * absent. */
typedef struct weir_slice {
    const char *at;
    size_t len;
} weir_slice;

/* Returns `text` without spaces and tabs at its ends. */
weir_slice weir_slice_trim(weir_slice text);

/* Returns whether `text` equals `word`; ASCII letters are case-insensitive. */
bool weir_slice_is(weir_slice text, const char *word);

/* ---- decimal --------------------------------------------------------------------------------- */

/* Reads the decimal digits at the front of a text. Returns the number of digits.
 *  ret  the value; UINT64_MAX if it is larger; 0 without digits. */
static inline size_t weir_digits_read(const char *at, size_t len, uint64_t *ret)
{
    size_t n = 0;
    uint64_t v = 0;
    for (; n < len && at[n] >= '0' && at[n] <= '9'; n++) {
        unsigned digit = (unsigned)(at[n] - '0');
        v = v > (UINT64_MAX - digit) / 10 ? UINT64_MAX : v * 10 + digit;
    }
    *ret = v;
    return n;
}

/* Reads a text that consists of one or more decimal digits. Leading zeros are allowed.
 *  ret  0..max; written only on success.
 * Returns false if the text has another byte or the number is above `max`. */
static inline bool weir_decimal_read(const char *at, size_t len, uint64_t max, uint64_t *ret)
{
    uint64_t v;
    unsigned last = len > 0 ? (unsigned)((unsigned char)at[len - 1] - '0') : 10;
    if (last > 9 || weir_digits_read(at, len - 1, &v) != len - 1 || last > max ||
        v > (max - last) / 10)
        return false;
    *ret = v * 10 + last;
    return true;
}

/* Reads a signed integer in its shortest form, as RESP writes integers: no '+', no leading zero, no
 * "-0".
 *  ret  written only on success. */
static inline bool weir_i64_read(const char *at, size_t len, int64_t *ret)
{
    size_t minus = len > 0 && at[0] == '-';
    uint64_t v = 0; /* 19 digits stay below 2^64 */
    if (len == minus || len - minus > 19 || (at[minus] == '0' && len > 1))
        return false;
    for (size_t i = minus; i < len; i++) {
        unsigned digit = (unsigned)((unsigned char)at[i] - '0');
        if (digit > 9)
            return false;
        v = v * 10 + digit;
    }
    if (v > (uint64_t)INT64_MAX + minus)
        return false;
    *ret = minus ? (int64_t)(0 - v) : (int64_t)v;
    return true;
}

/* The number of decimal digits of `v`, 1..20. */
static inline unsigned weir_decimal_len(uint64_t v)
{
    unsigned n = 1;
    for (; v >= 1000; v /= 1000)
        n += 3;
    return n + (v >= 10) + (v >= 100);
}

/* Writes the decimal digits of `v` so that the last one is just before `end`. Returns the first. */
static inline uint8_t *weir_decimal_before(uint8_t *end, uint64_t v)
{
    for (; v >= 10; v /= 10)
        *--end = (uint8_t)('0' + v % 10);
    *--end = (uint8_t)('0' + v);
    return end;
}

/* Writes `v` in decimal, without a NUL. Returns the length.
 *  buf  WEIR_I64_MAX_LEN bytes. */
#define WEIR_I64_MAX_LEN 20
static inline size_t weir_i64_print(char *buf, int64_t v)
{
    if (v >= 0 && v <= 99) { /* the common case */
        unsigned tens = (unsigned)v / 10;
        buf[0] = (char)('0' + tens);
        buf[tens > 0] = (char)('0' + (unsigned)v % 10);
        return 1 + (tens > 0);
    }
    uint64_t rest = v < 0 ? 0 - (uint64_t)v : (uint64_t)v;
    size_t minus = v < 0, len = minus + weir_decimal_len(rest);
    buf[0] = '-'; /* overwritten by the first digit if v >= 0 */
    weir_decimal_before((uint8_t *)buf + len, rest);
    return len;
}

/* ---- hexadecimal ----------------------------------------------------------------------------- */

#define WEIR_HEX64_LEN 16

/* The value of a hexadecimal digit in either case, 0..15; -1 for any other byte. */
static inline int weir_hex_digit(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    c |= 0x20;
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* Writes 16 hexadecimal digits in lower case, without a NUL. */
static inline void weir_hex64_print(uint64_t v, char ret[WEIR_HEX64_LEN])
{
    for (int i = 0; i < WEIR_HEX64_LEN; i++)
        ret[i] = "0123456789abcdef"[v >> (60 - 4 * i) & 15];
}

/* Reads exactly 16 hexadecimal digits in either case.
 *  ret  written only on success. */
static inline bool weir_hex64_read(const char *at, size_t len, uint64_t *ret)
{
    uint64_t v = 0;
    if (len != WEIR_HEX64_LEN)
        return false;
    for (size_t i = 0; i < len; i++) {
        int digit = weir_hex_digit(at[i]);
        if (digit < 0)
            return false;
        v = v << 4 | (uint64_t)digit;
    }
    *ret = v;
    return true;
}

/* Makes A-Z a-z; in no locale. */
static inline char weir_lower(char c)
{
    return c >= 'A' && c <= 'Z' ? (char)(c - 'A' + 'a') : c;
}

/* Decodes the percent-encoding "%41" at the front of a text (RFC 3986, 2.1). Returns the byte,
 * 0..255; -1 if the text does not begin with '%' and two hexadecimal digits. */
static inline int weir_percent_read(const char *at, size_t len)
{
    int high = len > 2 && at[0] == '%' ? weir_hex_digit(at[1]) : -1;
    int low = high >= 0 ? weir_hex_digit(at[2]) : -1;
    return low >= 0 ? high * 16 + low : -1;
}

/* ---- UTF-8 ----------------------------------------------------------------------------------- */

/* The length of the UTF-8 sequence at the front of a text, 1 or more. If the bytes are not UTF-8,
 * *ret_valid is false and the length is that of the maximal subpart (Unicode 15, table 3-7).
 *  len  1 or more. */
size_t weir_utf8_len(const char *at, size_t len, bool *ret_valid);

/* The code point of a valid UTF-8 sequence of `len` bytes. */
static inline uint32_t weir_utf8_code_point(const char *at, size_t len)
{
    const uint8_t *byte = (const uint8_t *)at;
    uint32_t c = len == 1 ? byte[0] : byte[0] & (0x7FU >> len);
    for (size_t i = 1; i < len; i++)
        c = c << 6 | (byte[i] & 0x3F);
    return c;
}

/* Whether a valid UTF-8 sequence of `len` bytes is a character without a shape of its own, which
 * may hide in a text or turn its direction: a format character (Unicode category Cf), a line or
 * paragraph separator, or one with the property Default_Ignorable_Code_Point, such as a variation
 * selector. */
bool weir_utf8_is_invisible(const char *at, size_t len);

/* Whether a valid UTF-8 sequence of `len` bytes is a control character, which a terminal may obey:
 * C0, DEL or C1 (U+0080 to U+009F). */
static inline bool weir_utf8_is_control(const char *at, size_t len)
{
    const uint8_t *byte = (const uint8_t *)at;
    return (len == 1 && (byte[0] < 0x20 || byte[0] == 0x7F)) ||
           (len == 2 && byte[0] == 0xC2 && byte[1] < 0xA0);
}

/* ---- untrusted text -------------------------------------------------------------------------- */

/* How a text from a client is written. Characters that a style does not name are copied. "Controls"
 * are those of weir_utf8_is_control(). */
typedef enum weir_escape {
    /* The contents of a JSON string. '"' and '\' get a backslash, controls become \u00hh. */
    WEIR_JSON_FILE,  /* only C0 controls; U+FFFD replaces each maximal subpart that is not UTF-8 */
    WEIR_JSON_LOG,   /* all controls; the same replacement */
    WEIR_JSON_REPLY, /* C0 and DEL; the escape \ufffd replaces each byte that is not UTF-8 */

    /* Bytes of controls become \xhh. */
    WEIR_HEX_LINE,  /* all controls; bytes that are not UTF-8 are copied */
    WEIR_HEX_KEY,   /* C0, DEL and '\'; bytes that are not UTF-8 are copied */
    WEIR_HEX_LABEL, /* C0, DEL, '\' and bytes that are not UTF-8, in upper case: two texts never
                       become the same one */

    WEIR_MASKED /* '?' replaces a control, an invisible character and what is not UTF-8 */
} weir_escape;

/* Writes a text in pieces. Each is a run of copied ASCII, one copied character, or one escape. */
typedef void weir_put_text(void *ctx, const char *at, size_t len);
void weir_text_escape(const char *at, size_t len, weir_escape style, weir_put_text *put, void *ctx);

/* Writes the text into a buffer, with a NUL. Cuts it before the first character that does not fit.
 * Returns the length.
 *  size  1 or more. */
size_t weir_text_escape_to(char *ret, size_t size, const char *at, size_t len, weir_escape style);

/* ---- spelling -------------------------------------------------------------------------------- */

/* The edit distance of two strings, ignoring case: how many letters must be added, removed, changed
 * or swapped with their neighbour (Damerau-Levenshtein).
 *  a, b  of any length. Returns SIZE_MAX if one has more than 40 bytes. */
size_t weir_edit_distance(const char *a, const char *b);

#endif
