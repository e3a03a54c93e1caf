/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* The lexer of policy texts. */

#include "policy/scan.h"

#include "port/assert.h"

enum { FOUND_MAX = 32 }; /* the most bytes of the text that an error quotes */

static bool is_space(char c)
{
    return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static bool is_letter(char c)
{
    return c >= 'a' && c <= 'z';
}

static bool same(const char *word, size_t len, const char *name)
{
    size_t i = 0;
    while (i < len && name[i] != '\0' && word[i] == name[i])
        i++;
    return i == len && name[i] == '\0';
}

weir_status weir_scan_refuse(weir_scan *s, size_t column, weir_status st, const char *found,
                             const char *expected)
{
    if (s->error) {
        weir_writer t = weir_writer_init(s->error->text, sizeof s->error->text);
        s->error->column = (uint32_t)column + 1;
        weir_write_str(&t, found);
        weir_write_str(&t, ", expected ");
        weir_write_str(&t, expected);
    }
    return st;
}

/* Appends the text from `from` to `end` in quotes, with '?' for each byte that is not printable. */
static void quote(const weir_scan *s, size_t from, size_t end, weir_writer *t)
{
    weir_write_char(t, '\'');
    size_t i = from;
    for (; i < end && i - from < FOUND_MAX; i++)
        weir_write_char(t, s->text[i] >= ' ' && s->text[i] <= '~' ? s->text[i] : '?');
    weir_write_str(t, i < end ? "...'" : "'");
}

weir_status weir_scan_unexpected_to(weir_scan *s, size_t from, size_t end, const char *expected)
{
    char found[FOUND_MAX + 16];
    weir_writer t = weir_writer_init(found, sizeof found);
    weir_write_str(&t, "found ");
    if (from >= s->len)
        weir_write_str(&t, "the end");
    else if (is_space(s->text[from]))
        weir_write_str(&t, "a space");
    else
        quote(s, from, end, &t);
    return weir_scan_refuse(s, from, WEIR_E_SYNTAX, found, expected);
}

weir_status weir_scan_unexpected(weir_scan *s, size_t from, const char *expected)
{
    size_t end = from + (from < s->len);
    while (end < s->len && !is_space(s->text[end]) && s->text[end] != '&')
        end++;
    return weir_scan_unexpected_to(s, from, end, expected);
}

void weir_scan_space(weir_scan *s)
{
    WEIR_ASSERT(s->at <= s->len);
    while (s->at < s->len && is_space(s->text[s->at]))
        s->at++;
}

bool weir_scan_end(const weir_scan *s)
{
    return s->at == s->len;
}

bool weir_scan_char(weir_scan *s, char c)
{
    bool next = s->at < s->len && s->text[s->at] == c;
    s->at += next;
    return next;
}

size_t weir_scan_word(weir_scan *s, const char **ret_word)
{
    size_t from = s->at;
    while (s->at < s->len && (is_letter(s->text[s->at]) || (s->at > from && s->text[s->at] == '-')))
        s->at++;
    *ret_word = s->text + from;
    return s->at - from;
}

bool weir_scan_keyword(weir_scan *s, const char *word)
{
    size_t from = s->at;
    const char *found;
    size_t len = weir_scan_word(s, &found);
    if (same(found, len, word))
        return true;
    s->at = from;
    return false;
}

/* Consumes digits. Returns their number, or high + 1 if it exceeds `high`. */
static int64_t digits(weir_scan *s, int64_t high)
{
    int64_t n = 0;
    for (; s->at < s->len && is_digit(s->text[s->at]); s->at++) {
        int64_t digit = s->text[s->at] - '0';
        n = n > high || n > (high - digit) / 10 ? high + 1 : n * 10 + digit;
    }
    return n;
}

weir_status weir_scan_number(weir_scan *s, const char *what, int64_t low, int64_t high,
                             int64_t *ret)
{
    char expected[96];
    weir_writer t = weir_writer_init(expected, sizeof expected);
    weir_write_str(&t, what);
    weir_write_str(&t, ", from ");
    weir_write_u64(&t, (uint64_t)low);
    weir_write_str(&t, " to ");
    weir_write_u64(&t, (uint64_t)high);
    size_t from = s->at;
    WEIR_ASSERT(0 <= low && low <= high && high < INT64_MAX);
    int64_t n = digits(s, high);
    if (s->at == from)
        return weir_scan_unexpected(s, from, expected);
    if (n < low || n > high) {
        weir_scan_unexpected(s, from, expected);
        return WEIR_E_RANGE;
    }
    *ret = n;
    return WEIR_OK;
}

static weir_status refuse_unit(weir_scan *s, size_t from, size_t len, bool calendar_too)
{
    char found[FOUND_MAX + 24], expected[96];
    weir_writer f = weir_writer_init(found, sizeof found),
                e = weir_writer_init(expected, sizeof expected);
    weir_write_str(&f, "unknown unit '");
    weir_write_bytes(&f, s->text + from, len < FOUND_MAX ? len : FOUND_MAX);
    weir_write_str(&f, "'");
    const char *unit = weir_hint_unit(s->text + from, len);
    if (unit)
        return weir_scan_refuse(s, from, WEIR_E_SYNTAX, found, unit);
    weir_write_str(&e, "one of");
    for (size_t i = 0; i < WEIR_UNITS; i++) {
        weir_write_char(&e, ' ');
        weir_write_str(&e, weir_units[i].name);
    }
    for (size_t i = 0; calendar_too && i < WEIR_CALENDARS; i++) {
        weir_write_char(&e, ' ');
        weir_write_str(&e, weir_calendar_words[i].name);
    }
    return weir_scan_refuse(s, from, WEIR_E_SYNTAX, found, expected);
}

/* Reports a calendar word where it is not allowed, and what to write instead. */
static weir_status refuse_calendar(weir_scan *s, size_t column, const weir_calendar_word *word,
                                   bool counted)
{
    char found[80];
    weir_writer f = weir_writer_init(found, sizeof found);
    weir_write_char(&f, '\'');
    weir_write_str(&f, word->name);
    weir_write_str(&f, counted ? "' is a calendar period and takes no number"
                               : "' is a calendar period, supported only by fixed-window");
    return weir_scan_refuse(s, column, WEIR_E_SYNTAX, found, word->instead);
}

static const weir_calendar_word *calendar_word(const char *word, size_t len)
{
    for (size_t i = 0; i < WEIR_CALENDARS; i++) {
        if (same(word, len, weir_calendar_words[i].name))
            return &weir_calendar_words[i];
    }
    return NULL;
}

/* Consumes a unit that is smaller than `below_ns`. */
static weir_status scan_unit(weir_scan *s, int64_t below_ns, bool calendar_too, int64_t *ret_ns)
{
    const char *word;
    size_t from = s->at, len = weir_scan_word(s, &word);
    for (size_t i = 0; i < WEIR_UNITS; i++) {
        if (!same(word, len, weir_units[i].name))
            continue;
        if (weir_units[i].ns >= below_ns)
            return weir_scan_unexpected(s, from,
                                        "units from the largest to the smallest, as in 1h30m");
        *ret_ns = weir_units[i].ns;
        return WEIR_OK;
    }
    const weir_calendar_word *calendar = calendar_word(word, len);
    if (calendar)
        return refuse_calendar(s, from, calendar, true);
    if (len == 0)
        return weir_scan_unexpected(s, from, "a unit: one of ns us ms s m h d w");
    return refuse_unit(s, from, len, calendar_too);
}

static weir_status refuse_long(weir_scan *s, size_t from)
{
    weir_scan_unexpected(s, from, "a period of at most 1152921504606846975ns (36.5 years)");
    return WEIR_E_RANGE;
}

weir_status weir_scan_period(weir_scan *s, int64_t *ret_ns, weir_calendar *ret_calendar)
{
    size_t from = s->at;
    const char *word;
    size_t len = weir_scan_word(s, &word);
    const weir_calendar_word *calendar = calendar_word(word, len);
    if (calendar && ret_calendar) {
        *ret_ns = 0;
        *ret_calendar = calendar->unit;
        return WEIR_OK;
    }
    if (calendar)
        return refuse_calendar(s, from, calendar, false);
    s->at = from;
    if (weir_scan_end(s) || (len == 0 && !is_digit(s->text[from])))
        return weir_scan_unexpected(s, from, "a period such as s, 90s or 1h30m");

    int64_t total_ns = 0, unit_ns = INT64_MAX;
    bool bare = len > 0; /* "s" is "1s", and then nothing follows */
    do {
        int64_t n = bare ? 1 : digits(s, WEIR_SPAN_NS_MAX);
        weir_status st = scan_unit(s, unit_ns, ret_calendar != NULL, &unit_ns);
        if (st != WEIR_OK)
            return st;
        WEIR_ASSERT(unit_ns >= 1 && total_ns <= WEIR_SPAN_NS_MAX);
        if (n > (WEIR_SPAN_NS_MAX - total_ns) / unit_ns)
            return refuse_long(s, from);
        total_ns += n * unit_ns;
    } while (!bare && !weir_scan_end(s) && is_digit(s->text[s->at]));
    if (total_ns == 0) {
        weir_scan_unexpected(s, from, "a period of at least 1ns");
        return WEIR_E_RANGE;
    }
    *ret_ns = total_ns;
    return WEIR_OK;
}

bool weir_duration_read(const char *text, size_t len, int64_t *ret_ns)
{
    enum { LEN_MAX = 64 };
    weir_scan s = {.text = text, .len = len};
    int64_t ns;
    if (len == 0 || len > LEN_MAX || !is_digit(text[0]) ||
        weir_scan_period(&s, &ns, NULL) != WEIR_OK || s.at < len)
        return false;
    *ret_ns = ns;
    return true;
}
