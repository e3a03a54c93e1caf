/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* Suggestions for common mistakes in a policy text. */

#include "policy/scan.h"

#include "port/assert.h"

enum {
    FRACTION_DIGITS_MAX = 6, /* after the point; with NUMBER_MAX no product below overflows */
    NUMBER_MAX = 1000000000,
};

typedef struct spelling {
    const char *from; /* in lower case; a '-' matches any number of '-', '_' and spaces */
    const char *to;
} spelling;

#define NO_LIMIT                                                                                   \
    "an algorithm; to exempt keys from the limit, put them on the policy's list 'allow'"

/* A spelling comes before its own prefixes. */
static const spelling algorithms[] = {
    {"gcra", "gcra"},
    {"token-bucket", "token-bucket"},
    {"leaky-bucket", "leaky-bucket"},
    {"leaky-queue", "leaky-queue"},
    {"fixed-window", "fixed-window"},
    {"sliding-window-log", "sliding-log"},
    {"sliding-window-counter", "sliding-counter"},
    {"sliding-log", "sliding-log"},
    {"sliding-counter", "sliding-counter"},
    {"sliding-slices", "sliding-slices"},
    {"sliding-window", "sliding-log (exact), sliding-counter (16 bytes a key) or sliding-slices (a "
                       "count for each part of the window)"},
    {"sliding", "sliding-log, sliding-counter or sliding-slices"},
    {"token", "token-bucket"},
    {"leaky", "leaky-bucket (denies) or leaky-queue (requests wait)"},
    {"fixed", "fixed-window"},
    {"concurrent", "concurrent"},
    {"concurrency", "concurrent"},
    {"in-flight", "concurrent"},
    {"unlimited", NO_LIMIT},
    {"infinite", NO_LIMIT},
    {"infinity", NO_LIMIT},
    {"disabled", NO_LIMIT},
    {"none", NO_LIMIT},
    {"off", NO_LIMIT},
    {"allow", NO_LIMIT},
    {"deny", "an algorithm; " WEIR_HINT_DENY},
    {"block", "block"},
};

/* The plural of each is recognised too. */
static const spelling units[] = {
    {"nsec", "ns"}, {"nanosecond", "ns"},  {"usec", "us"}, {"microsecond", "us"},
    {"msec", "ms"}, {"millisecond", "ms"}, {"sec", "s"},   {"second", "s"},
    {"min", "m"},   {"minute", "m"},       {"hr", "h"},    {"hour", "h"},
    {"day", "d"},   {"week", "w"},
};

static char lower(char c)
{
    return c >= 'A' && c <= 'Z' ? (char)(c - 'A' + 'a') : c;
}

static bool is_letter(char c)
{
    return lower(c) >= 'a' && lower(c) <= 'z';
}

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static bool is_gap(char c)
{
    return c == '-' || c == '_' || c == ' ';
}

static char byte(const weir_scan *s, size_t at)
{
    return at < s->len ? s->text[at] : '\0';
}

static size_t past_spaces(const weir_scan *s, size_t at)
{
    while (byte(s, at) == ' ')
        at++;
    return at;
}

/* Returns the length of `name` if the word starts with it, else 0. */
static size_t begins(const char *word, size_t len, const char *name)
{
    size_t n = 0;
    while (n < len && name[n] != '\0' && word[n] == name[n])
        n++;
    return name[n] == '\0' ? n : 0;
}

const char *weir_hint_unit(const char *word, size_t len)
{
    for (size_t i = 0; i < sizeof units / sizeof units[0]; i++) {
        size_t n = begins(word, len, units[i].from);
        if (n > 0 && (n == len || (n + 1 == len && word[n] == 's')))
            return units[i].to;
    }
    return NULL;
}

/* Returns the unit that a word is or means, or NULL. */
static const char *unit_of(const char *word, size_t len)
{
    for (size_t i = 0; i < WEIR_UNITS; i++) {
        size_t n = begins(word, len, weir_units[i].name);
        if (n > 0 && n == len)
            return weir_units[i].name;
    }
    return weir_hint_unit(word, len);
}

/* Returns the end of the words at s->at that match `from`, or s->at if they do not match. */
static size_t spelt(const weir_scan *s, const char *from)
{
    size_t at = s->at;
    for (; *from != '\0'; from++) {
        if (*from == '-') {
            while (is_gap(byte(s, at)))
                at++;
        } else if (lower(byte(s, at++)) != *from) {
            return s->at;
        }
    }
    char next = byte(s, at);
    return is_letter(next) || next == '-' || next == '_' ? s->at : at;
}

/* Handles a rate without an algorithm, as in "5/s" or "10r/s". Returns its end. */
static size_t bare_rate(const weir_scan *s, weir_writer *expected)
{
    size_t end = s->at;
    while (is_digit(byte(s, end)))
        end++;
    bool is_rate = byte(s, end) == '/';
    while (byte(s, end) > ' ' && byte(s, end) <= '~' && byte(s, end) != '&')
        end++;
    weir_write_str(expected, "an algorithm before the rate, as in gcra ");
    if (is_rate)
        weir_write_bytes(expected, s->text + s->at, end - s->at < 20 ? end - s->at : 20);
    else
        weir_write_str(expected, "10/s");
    return end;
}

size_t weir_hint_algorithm(const weir_scan *s, weir_writer *expected)
{
    for (size_t i = 0; i < sizeof algorithms / sizeof algorithms[0]; i++) {
        size_t end = spelt(s, algorithms[i].from);
        if (end > s->at) {
            weir_write_str(expected, algorithms[i].to);
            return end;
        }
    }
    size_t before = s->at;
    while (before > 0 && byte(s, before - 1) == ' ')
        before--;
    if (byte(s, s->at) == '&' && before > 0) {
        weir_write_str(expected, "one '&' between two layers");
        return s->at + 1;
    }
    return is_digit(byte(s, s->at)) ? bare_rate(s, expected) : s->at;
}

/* Consumes all digits at *at. The result exceeds NUMBER_MAX if the number does. */
static uint64_t take_number(const weir_scan *s, size_t *at)
{
    uint64_t n = 0;
    for (; is_digit(byte(s, *at)); (*at)++)
        n = n > NUMBER_MAX ? n : n * 10 + (uint64_t)(byte(s, *at) - '0');
    return n;
}

static uint64_t common_divisor(uint64_t a, uint64_t b)
{
    while (b > 0) {
        uint64_t rest = a % b;
        a = b;
        b = rest;
    }
    return a;
}

/* Writes ": write N/Pu" for num / den requests in the period at `at`, if there is a period. */
static void whole_rate(const weir_scan *s, size_t at, uint64_t num, uint64_t den, weir_writer *t)
{
    weir_scan rest = *s;
    const char *word;
    uint64_t periods = 1;
    rest.at = at;
    if (is_digit(byte(s, rest.at)))
        periods = take_number(s, &rest.at);
    size_t len = weir_scan_word(&rest, &word);
    const char *unit = unit_of(word, len);
    if (num == 0 || periods == 0 || periods > NUMBER_MAX || !unit)
        return;
    den *= periods;
    uint64_t divisor = common_divisor(num, den);
    WEIR_ASSERT(divisor >= 1);
    weir_write_str(t, ": write ");
    weir_write_u64(t, num / divisor);
    weir_write_char(t, '/');
    if (den / divisor > 1)
        weir_write_u64(t, den / divisor);
    weir_write_str(t, unit);
}

bool weir_hint_fraction(const weir_scan *s, weir_writer *expected)
{
    size_t at = s->at, digits = 0;
    uint64_t whole = take_number(s, &at), num = whole, den = 1;
    if (at == s->at || byte(s, at) != '.' || !is_digit(byte(s, at + 1)))
        return false;
    for (at++; is_digit(byte(s, at)); at++) {
        if (++digits > FRACTION_DIGITS_MAX)
            continue;
        num = num * 10 + (uint64_t)(byte(s, at) - '0');
        den *= 10;
    }
    weir_write_str(expected, "a whole number");
    if (whole <= NUMBER_MAX && digits <= FRACTION_DIGITS_MAX && byte(s, at) == '/')
        whole_rate(s, at + 1, num, den, expected);
    return true;
}

/* Returns the end of the word of digits, letters and '/' at `at`. */
static size_t word_end(const weir_scan *s, size_t at)
{
    while (is_digit(byte(s, at)) || is_letter(byte(s, at)) || byte(s, at) == '/')
        at++;
    return at;
}

void weir_hint_slash(const weir_scan *s, size_t from, weir_writer *expected)
{
    char next = byte(s, s->at);
    if ((next == ',' || next == '_') && is_digit(byte(s, s->at + 1))) {
        weir_write_str(expected, "digits only, as in 1000/s");
        return;
    }
    weir_write_str(expected, "'/' and a period, as in 100/s");
    if (next != 'r' || byte(s, s->at + 1) != '/') /* as nginx writes it */
        return;
    weir_write_str(expected, ": write ");
    weir_write_bytes(expected, s->text + from, s->at - from < 20 ? s->at - from : 20);
    for (size_t at = s->at + 1;
         is_letter(byte(s, at)) || is_digit(byte(s, at)) || byte(s, at) == '/'; at++)
        weir_write_char(expected, byte(s, at));
}

bool weir_hint_equals(const weir_scan *s, const char *keyword, weir_writer *expected)
{
    if (byte(s, s->at) != '=')
        return false;
    weir_write_str(expected, "a space: write ");
    weir_write_str(expected, keyword);
    weir_write_char(expected, ' ');
    for (size_t at = s->at + 1; at - s->at <= 24; at++) {
        if (byte(s, at) <= ' ' || byte(s, at) > '~' || byte(s, at) == '&')
            break;
        weir_write_char(expected, byte(s, at));
    }
    return true;
}

void weir_hint_token_bucket(const weir_scan *s, size_t from, weir_writer *expected)
{
    size_t rate_end = word_end(s, from), at = past_spaces(s, rate_end), capacity = from;
    while (is_letter(byte(s, at)))
        at++;
    at = past_spaces(s, at);
    if (is_digit(byte(s, at)))
        capacity = at;
    weir_write_str(expected, "a capacity and a refill: write token-bucket ");
    for (; is_digit(byte(s, capacity)); capacity++)
        weir_write_char(expected, byte(s, capacity));
    weir_write_str(expected, " refill ");
    weir_write_bytes(expected, s->text + from, rate_end - from < 24 ? rate_end - from : 24);
}
