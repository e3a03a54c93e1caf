/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* The words of the policy language, and the bounded string writer. */

#include "policy/text.h"

#include "port/assert.h"

const weir_unit weir_units[WEIR_UNITS] = {
    {"ns", 1},          {"us", 1000},         {"ms", 1000000},       {"s", 1000000000},
    {"m", 60000000000}, {"h", 3600000000000}, {"d", 86400000000000}, {"w", 604800000000000},
};

const weir_calendar_word weir_calendar_words[WEIR_CALENDARS] = {
    {"day", "a length: d is 24 hours", WEIR_DAY},
    {"week", "a length: w is 7 days", WEIR_WEEK},
    {"month", "a length such as 30d", WEIR_MONTH},
    {"year", "a length such as 365d", WEIR_YEAR},
};

const char *weir_calendar_name(weir_calendar calendar)
{
    size_t i = 0;
    while (i < WEIR_CALENDARS - 1 && weir_calendar_words[i].unit != calendar)
        i++;
    return weir_calendar_words[i].name;
}

weir_writer weir_writer_init(char *buf, size_t size)
{
    if (size > 0)
        buf[0] = '\0';
    return (weir_writer){buf, size, 0};
}

void weir_write_char(weir_writer *w, char c)
{
    if (w->len + 1 < w->size) {
        w->buf[w->len++] = c;
        w->buf[w->len] = '\0';
    }
}

void weir_write_str(weir_writer *w, const char *s)
{
    while (*s != '\0')
        weir_write_char(w, *s++);
}

void weir_write_bytes(weir_writer *w, const char *s, size_t len)
{
    for (size_t i = 0; i < len; i++)
        weir_write_char(w, s[i]);
}

void weir_write_u64(weir_writer *w, uint64_t n)
{
    char digits[20];
    size_t len = 0;
    do {
        digits[len++] = (char)('0' + n % 10);
        n /= 10;
    } while (n > 0);
    while (len > 0)
        weir_write_char(w, digits[--len]);
}

void weir_write_period(weir_writer *w, int64_t ns, bool bare)
{
    size_t i = WEIR_UNITS - 1;
    WEIR_ASSERT(ns >= 1);
    while (ns % weir_units[i].ns != 0)
        i--;
    int64_t n = ns / weir_units[i].ns;
    if (n != 1 || !bare)
        weir_write_u64(w, (uint64_t)n);
    weir_write_str(w, weir_units[i].name);
}
