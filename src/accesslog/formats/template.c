/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* Parses templates, and appends fields to keys. */

#include "accesslog/formats/formats.h"

#include "port/assert.h"
#include "service/rules/address.h"

#include <stdio.h>
#include <string.h>

static const char key_option[] = "--key";

bool log_option_fail(const char *option, const char *text, const char *at, const char *expected,
                     weir_logline_error *e)
{
    *e = (weir_logline_error){
        .option = option, .column = at ? (size_t)(at - text) + 1 : 0, .expected = expected};
    return false;
}

int log_names_add(log_names *names, weir_slice text)
{
    for (size_t i = 0; i < names->n; i++)
        if (names->name[i].text.len == text.len &&
            memcmp(names->name[i].text.at, text.at, text.len) == 0)
            return (int)i;
    if (names->n == LOG_NAMES_MAX)
        return -1;
    names->name[names->n] = (log_name){.text = text, .field = log_field_find(text.at, text.len)};
    return (int)names->n++;
}

/* ---- parsing --------------------------------------------------------------------------------- */

typedef struct parser {
    log_template *t;
    log_names *names;
    const char *text, *at;
    weir_logline_error *e;
} parser;

static bool fail(const parser *p, const char *at, const char *expected)
{
    return log_option_fail(key_option, p->text, at, expected, p->e);
}

static bool is_letter(char c)
{
    return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || c == '_' || c == '@';
}

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static log_part *add_part(parser *p)
{
    if (p->t->parts == LOG_PARTS_MAX)
        return NULL;
    log_part *part = &p->t->part[p->t->parts++];
    *part = (log_part){.name = -1};
    return part;
}

static bool add_text(parser *p, const char *begin, const char *end)
{
    log_part *part = begin < end ? add_part(p) : NULL;
    if (part)
        part->text = (weir_slice){begin, (size_t)(end - begin)};
    return part || begin == end || fail(p, begin, "at most 32 parts");
}

/* Reads a number and what follows it.
 *  ret  written on success.
 * Returns its end; NULL if there is no number from `min` to `max`. */
static const char *read_number(const char *at, unsigned min, unsigned max, unsigned *ret)
{
    uint64_t v;
    size_t digits = weir_digits_read(at, strlen(at), &v);
    if (digits == 0 || v < min || v > max)
        return NULL;
    *ret = (unsigned)v;
    return at + digits;
}

/* Reads "[2]", "/64" or "/24/64" behind the name of a field.
 *  braces  whether "}" must follow. Without, "/64" is a prefix only if no letter follows. */
static bool read_suffix(parser *p, log_part *part, bool braces)
{
    const char *at = p->at, *after;
    if (*at == '[') {
        at = read_number(at + 1, 1, 1000, &part->nth);
        if (!at || *at != ']')
            return fail(p, p->at, "the part of a path: [1] to [1000]");
        p->at = at + 1;
    } else if (*at == '/' && (braces || is_digit(at[1]))) {
        unsigned first = 0, second = 0;
        at = read_number(at + 1, 1, 128, &first);
        after = at && *at == '/' && is_digit(at[1]) ? read_number(at + 1, 1, 128, &second) : at;
        if (!after || (second > 0 && first > 32))
            return fail(p, p->at,
                        "the prefix of an IPv6 address: /1 to /128, or those of IPv4 and "
                        "IPv6, like /24/64");
        part->v4 = second > 0 ? first : 0;
        part->v6 = second > 0 ? second : first;
        p->at = after;
    }
    return true;
}

/* The template is parsed before all filters, so there is room for the names of its parts. */
_Static_assert(LOG_PARTS_MAX <= LOG_NAMES_MAX, "a template has at most one name for each part");

/* Reads a field behind its '$'. */
static bool read_field(parser *p)
{
    bool braces = *p->at == '{';
    const char *begin = p->at + braces;
    const char *end = begin;
    if (braces)
        end += strcspn(begin, "}[/$");
    else if (is_letter(*end))
        while (is_letter(*end) || is_digit(*end))
            end++;
    if (end == begin)
        return fail(p, begin, "the name of a field; '$$' is a '$'");
    log_part *part = add_part(p);
    if (!part)
        return fail(p, begin, "at most 32 parts");
    part->name = log_names_add(p->names, (weir_slice){begin, (size_t)(end - begin)});
    p->at = end;
    if (!read_suffix(p, part, braces))
        return false;
    if (braces && *p->at != '}')
        return fail(p, p->at, "'}' after the name of the field");
    p->at += braces;
    return true;
}

static bool read_template(parser *p)
{
    while (*p->at) {
        const char *begin = p->at;
        p->at += strcspn(begin, "$");
        bool dollar = *p->at == '$', escaped = dollar && p->at[1] == '$';
        if (!add_text(p, begin, p->at + escaped))
            return false;
        p->at += dollar + escaped;
        if (dollar && !escaped && !read_field(p))
            return false;
    }
    return true;
}

bool log_template_parse(log_template *ret, const char *text, log_names *names,
                        weir_logline_error *e)
{
    parser p = {ret, names, text, text, e};
    ret->parts = 0;
    if (!*text)
        return fail(&p, text, "the name of a field, or a template like '$client $uri[1]'");
    if (strchr(text, '$')) {
        if (!read_template(&p))
            return false;
    } else {
        int name = log_names_add(names, (weir_slice){text, strlen(text)});
        *add_part(&p) = (log_part){.name = name};
    }
    const log_part *first = ret->part;
    ret->is_field = ret->parts == 1 && first->name >= 0 && !first->nth && !first->v4 && !first->v6;
    return true;
}

/* ---- values ---------------------------------------------------------------------------------- */

/* The nth part of a path: of "/a/b?c", the first is "a". */
static weir_slice nth_of(weir_slice path, unsigned nth)
{
    WEIR_ASSERT(nth > 0);
    const char *at = path.at, *end = at + path.len;
    const char *query = path.len > 0 ? memchr(at, '?', path.len) : NULL;
    end = query ? query : end;
    if (at < end && *at == '/')
        at++;
    for (;;) {
        const char *slash = at < end ? memchr(at, '/', (size_t)(end - at)) : NULL;
        if (--nth == 0)
            return (weir_slice){at, (size_t)((slash ? slash : end) - at)};
        if (!slash)
            return (weir_slice){end, 0};
        at = slash + 1;
    }
}

void log_part_append(const log_part *part, weir_slice value, weir_buffer *ret)
{
    weir_address a;
    WEIR_ASSERT(part->name >= 0); /* literal text is appended as it is */
    if (part->nth > 0)
        value = nth_of(value, part->nth);
    if ((part->v4 || part->v6) && weir_address_parse(&a, value.at, value.len)) {
        unsigned bits = a.v6 ? part->v6 : part->v4 ? part->v4 : 32;
        char text[WEIR_ADDRESS_TEXT_MAX];
        weir_address_mask(&a, bits);
        weir_buffer_append(ret, text, weir_address_print(&a, bits, text));
    } else {
        weir_buffer_append(ret, value.at, value.len);
    }
}
