/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* Slices; UTF-8, one sequence at a time; untrusted text, whose styles are rows of a table. */

#include "port/text.h"

#include "port/assert.h"

#include <string.h>
#include <strings.h>

weir_slice weir_slice_trim(weir_slice text)
{
    while (text.len > 0 && (text.at[0] == ' ' || text.at[0] == '\t')) {
        text.at++;
        text.len--;
    }
    while (text.len > 0 && (text.at[text.len - 1] == ' ' || text.at[text.len - 1] == '\t'))
        text.len--;
    return text;
}

bool weir_slice_is(weir_slice text, const char *word)
{
    if (text.len != strlen(word))
        return false;
    for (size_t i = 0; i < text.len; i++) {
        char a = text.at[i], b = word[i];
        if (a == b)
            continue;
        char lower = (char)(a | 32);
        if (lower != (b | 32) || lower < 'a' || lower > 'z')
            return false;
    }
    return true;
}

size_t weir_utf8_len(const char *at, size_t len, bool *ret_valid)
{
    WEIR_ASSERT(len >= 1);
    const uint8_t *byte = (const uint8_t *)at;
    unsigned lead = byte[0], low = 0x80, high = 0xBF;
    size_t want = lead >= 0xF0 ? 4 : lead >= 0xE0 ? 3 : lead >= 0x80 ? 2 : 1, n = 1;
    *ret_valid = want == 1;
    if (want == 1 || lead < 0xC2 || lead > 0xF4)
        return 1;
    if (lead == 0xE0)
        low = 0xA0; /* anything lower would be overlong */
    else if (lead == 0xED)
        high = 0x9F; /* excludes surrogates */
    else if (lead == 0xF0)
        low = 0x90; /* anything lower would be overlong */
    else if (lead == 0xF4)
        high = 0x8F; /* U+10FFFF is the last code point */
    while (n < want && n < len && byte[n] >= low && byte[n] <= high) {
        n++;
        low = 0x80;
        high = 0xBF;
    }
    *ret_valid = n == want;
    return n;
}

bool weir_utf8_is_invisible(const char *at, size_t len)
{
    static const struct {
        uint32_t first, last;
    } ranges[] = {
        {0x00AD, 0x00AD},   {0x034F, 0x034F},   {0x0600, 0x0605},   {0x061C, 0x061C},
        {0x06DD, 0x06DD},   {0x070F, 0x070F},   {0x0890, 0x0891},   {0x08E2, 0x08E2},
        {0x115F, 0x1160},   {0x17B4, 0x17B5},   {0x180B, 0x180F},   {0x200B, 0x200F},
        {0x2028, 0x202E},   {0x2060, 0x206F},   {0x3164, 0x3164},   {0xFE00, 0xFE0F},
        {0xFEFF, 0xFEFF},   {0xFFA0, 0xFFA0},   {0xFFF0, 0xFFFB},   {0x110BD, 0x110BD},
        {0x110CD, 0x110CD}, {0x13430, 0x1343F}, {0x1BCA0, 0x1BCA3}, {0x1D173, 0x1D17A},
        {0xE0000, 0xE0FFF},
    };
    uint32_t c = weir_utf8_code_point(at, len);
    for (size_t i = 0; i < sizeof ranges / sizeof ranges[0] && ranges[i].first <= c; i++) {
        if (c <= ranges[i].last)
            return true;
    }
    return false;
}

/* ---- untrusted text -------------------------------------------------------------------------- */

typedef struct rules {
    const char *prefix;  /* of an escape */
    const char *digits;  /* of its byte; NULL: the prefix is all */
    const char *invalid; /* replaces bytes that are not UTF-8; NULL: they are escaped; "": copied */
    bool quotes;         /* '"' and '\\' get a backslash */
    bool backslash;      /* '\\' is escaped */
    bool del, c1, invisible; /* is escaped, as C0 is */
    bool by_byte;            /* each byte on its own; otherwise the last one of a sequence */
} rules;

#define LOWER       "0123456789abcdef"
#define UPPER       "0123456789ABCDEF"
#define REPLACEMENT "\xEF\xBF\xBD" /* U+FFFD */

static const rules all_rules[] = {
    [WEIR_JSON_FILE] = {"\\u00", LOWER, REPLACEMENT, .quotes = true},
    [WEIR_JSON_LOG] = {"\\u00", LOWER, REPLACEMENT, .quotes = true, .del = true, .c1 = true},
    [WEIR_JSON_REPLY] = {"\\u00", LOWER, "\\ufffd", .quotes = true, .del = true, .by_byte = true},
    [WEIR_HEX_LINE] = {"\\x", LOWER, "", .del = true, .c1 = true, .by_byte = true},
    [WEIR_HEX_KEY] = {"\\x", LOWER, "", .backslash = true, .del = true, .by_byte = true},
    [WEIR_HEX_LABEL] = {"\\x", UPPER, NULL, .backslash = true, .del = true, .by_byte = true},
    [WEIR_MASKED] = {"?", NULL, "?", .del = true, .c1 = true, .invisible = true},
};

/* Whether all styles copy a byte. */
static bool is_plain(uint8_t c)
{
    return c >= 0x20 && c < 0x7F && c != '"' && c != '\\';
}

static bool is_escaped(const rules *r, const char *at, size_t len)
{
    uint8_t c = (uint8_t)*at;
    if (len == 1)
        return c < 0x20 || (c == 0x7F && r->del) || (c == '\\' && r->backslash);
    return (r->c1 && weir_utf8_is_control(at, len)) ||
           (r->invisible && weir_utf8_is_invisible(at, len));
}

static void put_escape(const rules *r, char byte, weir_put_text *put, void *ctx)
{
    char code[8];
    size_t len = strlen(r->prefix);
    WEIR_ASSERT(len + 2 <= sizeof code);
    memcpy(code, r->prefix, len);
    if (r->digits) {
        code[len++] = r->digits[(uint8_t)byte >> 4];
        code[len++] = r->digits[byte & 15];
    }
    put(ctx, code, len);
}

/* Writes the character at the front, which is not plain. Returns its length. */
static size_t put_character(const rules *r, const char *at, size_t len, weir_put_text *put,
                            void *ctx)
{
    bool valid;
    size_t n = weir_utf8_len(at, len, &valid);
    if (!valid && r->by_byte)
        n = 1;
    if (valid ? is_escaped(r, at, n) : !r->invalid) {
        for (size_t i = r->by_byte ? 0 : n - 1; i < n; i++)
            put_escape(r, at[i], put, ctx);
    } else if (!valid && *r->invalid) {
        put(ctx, r->invalid, strlen(r->invalid));
    } else if (r->quotes && (*at == '"' || *at == '\\')) {
        put(ctx, (const char[]){'\\', *at}, 2);
    } else {
        put(ctx, at, n);
    }
    return n;
}

void weir_text_escape(const char *at, size_t len, weir_escape style, weir_put_text *put, void *ctx)
{
    const rules *r = &all_rules[style];
    WEIR_ASSERT(style < sizeof all_rules / sizeof *all_rules);
    for (size_t i = 0; i < len;) {
        size_t run = i;
        while (run < len && is_plain((uint8_t)at[run]))
            run++;
        if (run > i)
            put(ctx, at + i, run - i);
        i = run;
        if (i < len)
            i += put_character(r, at + i, len - i, put, ctx);
    }
}

typedef struct room {
    char *at;
    size_t left; /* with the NUL */
    bool cut;
} room;

static void put_in_room(void *ctx, const char *at, size_t len)
{
    room *r = ctx;
    if (!r->cut && len >= r->left) {
        r->cut = true;
        len = is_plain((uint8_t)*at) ? r->left - 1 : 0;
    } else if (r->cut) {
        return;
    }
    memcpy(r->at, at, len);
    r->at += len;
    r->left -= len;
}

size_t weir_text_escape_to(char *ret, size_t size, const char *at, size_t len, weir_escape style)
{
    WEIR_ASSERT(size >= 1);
    room r = {ret, size, false};
    weir_text_escape(at, len, style, put_in_room, &r);
    *r.at = '\0';
    return (size_t)(r.at - ret);
}

/* ---- edit distance --------------------------------------------------------------------------- */

enum { EDIT_SIZE = 41 };

static size_t least(size_t a, size_t b)
{
    return a < b ? a : b;
}

static bool same_letter(const char *a, const char *b)
{
    return strncasecmp(a, b, 1) == 0;
}

size_t weir_edit_distance(const char *a, const char *b)
{
    size_t rows[3][EDIT_SIZE] = {{0}}, *before = rows[0], *last = rows[1], *now = rows[2];
    size_t a_len = strlen(a), b_len = strlen(b);
    if (a_len >= EDIT_SIZE || b_len >= EDIT_SIZE)
        return SIZE_MAX;
    for (size_t k = 0; k <= b_len; k++)
        last[k] = k;
    for (size_t i = 1; i <= a_len; i++) {
        now[0] = i;
        for (size_t k = 1; k <= b_len; k++) {
            now[k] = least(least(last[k], now[k - 1]) + 1,
                           last[k - 1] + !same_letter(a + i - 1, b + k - 1));
            if (i > 1 && k > 1 && same_letter(a + i - 1, b + k - 2) &&
                same_letter(a + i - 2, b + k - 1))
                now[k] = least(now[k], before[k - 2] + 1);
        }
        size_t *unused = before;
        before = last;
        last = now;
        now = unused;
    }
    return last[b_len];
}
