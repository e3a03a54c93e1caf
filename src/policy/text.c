/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* Text into a bounded buffer. */

#include "policy/text.h"

#include "policy/units.h"

weir_text weir_text_init(char *buf, size_t size)
{
    if (size > 0)
        buf[0] = '\0';
    return (weir_text){buf, size, 0};
}

void weir_text_char(weir_text *t, char c)
{
    if (t->len + 1 < t->size) {
        t->buf[t->len++] = c;
        t->buf[t->len] = '\0';
    }
}

void weir_text_str(weir_text *t, const char *s)
{
    while (*s != '\0')
        weir_text_char(t, *s++);
}

void weir_text_bytes(weir_text *t, const char *s, size_t len)
{
    for (size_t i = 0; i < len; i++)
        weir_text_char(t, s[i]);
}

void weir_text_u64(weir_text *t, uint64_t n)
{
    char digits[20];
    size_t len = 0;
    do {
        digits[len++] = (char)('0' + n % 10);
        n /= 10;
    } while (n > 0);
    while (len > 0)
        weir_text_char(t, digits[--len]);
}

void weir_text_period(weir_text *t, int64_t ns, int bare)
{
    size_t i = WEIR_UNITS - 1;
    while (ns % weir_units[i].ns != 0)
        i--;
    int64_t n = ns / weir_units[i].ns;
    if (n != 1 || !bare)
        weir_text_u64(t, (uint64_t)n);
    weir_text_str(t, weir_units[i].name);
}
