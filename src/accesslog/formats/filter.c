/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* Parses and evaluates filters. */

#include "accesslog/formats/formats.h"

#include <string.h>

static const char where_option[] = "--where";

/* ---- numbers --------------------------------------------------------------------------------- */

/* Reads a decimal number like "-12.5". strtod() would depend on the locale. */
static bool read_number(weir_slice text, double *ret)
{
    const char *at = text.at, *end = at + text.len;
    bool minus = text.len > 0 && *at == '-';
    double v = 0, unit = 1;
    at += minus;
    const char *begin = at;
    for (; at < end && *at >= '0' && *at <= '9'; at++)
        v = v * 10 + (*at - '0');
    if (at == begin)
        return false;
    if (at < end && *at == '.')
        for (at++; at < end && *at >= '0' && *at <= '9'; at++)
            v += (*at - '0') * (unit /= 10);
    if (at != end)
        return false;
    *ret = minus ? -v : v;
    return true;
}

/* ---- parsing --------------------------------------------------------------------------------- */

/* Reads the operator between the field and the pattern. Returns its length; 0 if there is none. */
static size_t read_operator(const char *at, log_comparison *ret)
{
    bool equal = at[0] && at[1] == '=';
    switch (at[0]) {
    case '=':
        *ret = LOG_EQUAL;
        return 1;
    case '!':
        *ret = LOG_NOT_EQUAL;
        return equal ? 2 : 0;
    case '<':
        *ret = equal ? LOG_AT_MOST : LOG_BELOW;
        return 1 + equal;
    case '>':
        *ret = equal ? LOG_AT_LEAST : LOG_ABOVE;
        return 1 + equal;
    default:
        return 0;
    }
}

/* Parses one word. Returns its end, or NULL. */
static const char *read_word(log_filter *f, const char *text, const char *word, log_names *names,
                             weir_logline_error *e)
{
    log_test t = {0};
    const char *at = word + strcspn(word, "=!<> \t");
    size_t operator= at> word ? read_operator(at, &t.comparison) : 0;
    const char *value = at + operator;
    const char *end = value + strcspn(value, " \t");
    const char *expected = NULL;
    t.patterns = (weir_slice){value, (size_t)(end - value)};
    if (operator== 0) {
        expected = "a field, one of = != < <= > >=, and a pattern or a number, like status=401";
        value = at > word ? at : word;
    } else if (t.comparison < LOG_BELOW && *value == '=') {
        expected = "a pattern, not another '=', like status=401";
    } else if (t.comparison >= LOG_BELOW && !read_number(t.patterns, &t.number)) {
        expected = "a number";
    } else if (f->tests == LOG_TESTS_MAX) {
        expected = "at most 32 conditions";
    } else if ((t.name = log_names_add(names, (weir_slice){word, (size_t)(at - word)})) < 0) {
        expected = "at most 32 different fields";
    }
    if (expected) {
        log_option_fail(where_option, text, value, expected, e);
        return NULL;
    }
    f->test[f->tests++] = t;
    return end;
}

bool log_filter_parse(log_filter *f, const char *text, log_names *names, weir_logline_error *e)
{
    const char *at = text + strspn(text, " \t");
    if (!*at)
        return log_option_fail(where_option, text, at, "a condition like status=401", e);
    while (*at) {
        at = read_word(f, text, at, names, e);
        if (!at)
            return false;
        at += strspn(at, " \t");
    }
    return true;
}

/* ---- matching -------------------------------------------------------------------------------- */

/* Whether a pattern with '*' matches the whole text. Each '*' is given the shortest text that lets
 * the pattern match up to the next '*', so one step back is enough. */
static bool matches(const char *pattern, const char *pattern_end, const char *at, const char *end)
{
    const char *star = NULL, *retry = NULL;
    while (at < end) {
        if (pattern < pattern_end && *pattern == '*') {
            star = ++pattern;
            retry = at;
        } else if (pattern < pattern_end && *pattern == *at) {
            pattern++;
            at++;
        } else if (star) {
            pattern = star;
            at = ++retry;
        } else {
            return false;
        }
    }
    while (pattern < pattern_end && *pattern == '*')
        pattern++;
    return pattern == pattern_end;
}

static bool matches_one(weir_slice patterns, weir_slice value)
{
    const char *at = patterns.at, *end = at + patterns.len;
    const char *value_end = value.len > 0 ? value.at + value.len : value.at;
    for (;;) {
        const char *bar = at < end ? memchr(at, '|', (size_t)(end - at)) : NULL;
        if (matches(at, bar ? bar : end, value.at, value_end))
            return true;
        if (!bar)
            return false;
        at = bar + 1;
    }
}

bool log_test_holds(const log_test *t, weir_slice value)
{
    double v = 0;
    if (t->comparison >= LOG_BELOW && (!value.at || !read_number(value, &v)))
        return false;
    switch (t->comparison) {
    case LOG_EQUAL:
        return matches_one(t->patterns, value);
    case LOG_NOT_EQUAL:
        return !matches_one(t->patterns, value);
    case LOG_BELOW:
        return v < t->number;
    case LOG_AT_MOST:
        return v <= t->number;
    case LOG_ABOVE:
        return v > t->number;
    case LOG_AT_LEAST:
        return v >= t->number;
    }
    return false;
}
