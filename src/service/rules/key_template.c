/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* A template is a list of parts: texts and variables. A value that another value follows is written
 * without the separator of the text between them, so the first separator in a key ends the value.
 * This makes the key injective: it can be split into the values again. */

#include "service/rules/key_template.h"

#include "port/assert.h"
#include "port/port.h"
#include "service/rules/address.h"

#include <weir/weir_store.h>

#include <stdio.h>
#include <string.h>

typedef struct part {
    weir_slice text; /* of a text, or the name of a variable; NUL-terminated */
    bool is_variable;
    bool lower, trim; /* the filters of a variable */
    char separator;   /* of a variable: the byte that may not occur in its value; '\0': none */
} part;

struct weir_key_template {
    size_t len, variables;
    part parts[WEIR_KEY_TEMPLATE_PARTS_MAX];
    char *end;                                                      /* of `text` */
    char text[WEIR_KEY_TEMPLATE_MAX + WEIR_KEY_TEMPLATE_PARTS_MAX]; /* of all parts */
};

/* ---- parsing --------------------------------------------------------------------------------- */

typedef struct reader {
    weir_key_template *t;
    const char *text;
    size_t len, at;
    const char *error; /* static; NULL: none */
} reader;

static bool is_inner(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
           c == '.' || c == '-';
}

static bool is_outer(char c)
{
    return is_inner(c) && c != '.' && c != '-';
}

static bool fail(reader *r, const char *error)
{
    r->error = error;
    return false;
}

/* Returns the byte of a text that separates two values; '\0' if it has none. The bytes of an escape
 * cannot separate. */
static char separator_of(weir_slice text)
{
    for (size_t i = 0; i < text.len; i++) {
        if (!memchr("%0123456789ABCDEF", text.at[i], 17))
            return text.at[i];
    }
    return '\0';
}

/* Returns the part that the next bytes belong to, or NULL with an error. Texts that follow each
 * other are one part. */
static part *begin_part(reader *r, bool is_variable)
{
    weir_key_template *t = r->t;
    part *last = t->len > 0 ? &t->parts[t->len - 1] : NULL;
    if (last && !last->is_variable && !is_variable)
        return last;
    if (t->len == WEIR_KEY_TEMPLATE_PARTS_MAX) {
        fail(r, "too many parts, expected at most 16 variables and texts between them");
        return NULL;
    }
    part *p = &t->parts[t->len];
    *p = (part){.is_variable = is_variable};
    if (t->len > 0)
        t->end++; /* the NUL of the last part */
    p->text.at = t->end;
    t->len++;
    return p;
}

static bool add(reader *r, part *p, const char *at, size_t len)
{
    if (!p)
        return false;
    memcpy(r->t->end, at, len);
    r->t->end += len;
    p->text.len += len;
    return true;
}

/* Checks that the value of the last variable ends where that of a new one begins. */
static bool check_separator(reader *r)
{
    weir_key_template *t = r->t;
    if (t->variables == 0)
        return true;
    part *last = &t->parts[t->len - 1];
    if (last->is_variable)
        return fail(r, "expected a separator such as '/' between two variables");
    t->parts[t->len - 2].separator = separator_of(last->text);
    if (t->parts[t->len - 2].separator == '\0')
        return fail(r, "expected a separator between two variables that has a character other "
                       "than '%', 0-9 and A-F, such as '/'");
    return true;
}

/* Reads the filters behind a name, up to the '}'. Returns where that is; 0 with an error. */
static size_t read_filters(reader *r, size_t at, part *p)
{
    while (at < r->len && r->text[at] == '|') {
        size_t begin = ++at;
        while (at < r->len && r->text[at] != '|' && r->text[at] != '}')
            at++;
        const char *name = r->text + begin;
        bool is_lower = at - begin == 5 && memcmp(name, "lower", 5) == 0;
        if (!is_lower && !(at - begin == 4 && memcmp(name, "trim", 4) == 0)) {
            r->at = begin;
            fail(r, "expected the filter lower or trim after '|'");
            return 0;
        }
        p->lower |= is_lower;
        p->trim |= !is_lower;
    }
    if (at < r->len && r->text[at] == '}')
        return at;
    fail(r, "expected ${NAME} or ${NAME|FILTER}, found no '}' after the name");
    return 0;
}

/* Reads a variable. r->at is at its '$', which is not followed by another one. */
static bool read_variable(reader *r)
{
    size_t dollar = r->at, begin = dollar + 1;
    bool braces = begin < r->len && r->text[begin] == '{';
    begin += braces;
    size_t end = begin;
    while (end < r->len && is_inner(r->text[end]))
        end++;
    while (end > begin && !is_outer(r->text[end - 1]))
        end--;
    if (end == begin || !is_outer(r->text[begin]))
        return fail(r, "expected the name of a variable after '$', such as $client; write $$ for "
                       "a dollar sign");
    if (end - begin > WEIR_KEY_TEMPLATE_NAME_MAX)
        return fail(r, "the name of the variable exceeds 64 bytes");
    part filters = {.lower = false};
    size_t name_end = end;
    if (braces && (end = read_filters(r, end, &filters)) == 0)
        return false;
    if (!check_separator(r) || !add(r, begin_part(r, true), r->text + begin, name_end - begin))
        return false;
    r->t->parts[r->t->len - 1].lower = filters.lower;
    r->t->parts[r->t->len - 1].trim = filters.trim;
    r->t->variables++;
    r->at = end + braces;
    return true;
}

static bool read_part(reader *r)
{
    const char *at = r->text + r->at;
    size_t left = r->len - r->at;
    if (*at == '\0')
        return fail(r, "a template has no NUL byte");
    if (*at == '$' && !(left > 1 && at[1] == '$'))
        return read_variable(r);
    if (!add(r, begin_part(r, false), at, 1))
        return false;
    r->at += *at == '$' ? 2 : 1;
    return true;
}

static void read_all(reader *r)
{
    if (r->len > WEIR_KEY_TEMPLATE_MAX) {
        fail(r, "the template exceeds 512 bytes");
        return;
    }
    r->t->end = r->t->text;
    while (r->at < r->len && read_part(r))
        ;
    if (!r->error && r->t->variables == 0) {
        r->at = 0;
        fail(r, "expected a variable such as $client");
    }
}

weir_status weir_key_template_parse(weir_key_template **ret, const char *text, size_t len,
                                    char *ret_error, size_t error_size, size_t *ret_at)
{
    reader r = {.t = port_zalloc(1, sizeof *r.t), .text = text, .len = len};
    if (!r.t)
        return WEIR_E_NOMEM;
    read_all(&r);
    if (!r.error) {
        *ret = r.t;
        return WEIR_OK;
    }
    weir_key_template_free(r.t);
    snprintf(ret_error, error_size, "%s", r.error);
    *ret_at = r.at;
    return WEIR_E_SYNTAX;
}

void weir_key_template_free(weir_key_template *t)
{
    port_free(t);
}

size_t weir_key_template_len(const weir_key_template *t)
{
    return t->variables;
}

weir_slice weir_key_template_name(const weir_key_template *t, size_t i)
{
    WEIR_ASSERT(i < t->variables);
    const part *p = t->parts;
    for (;; p++) {
        if (p->is_variable && i-- == 0)
            return p->text;
    }
}

bool weir_key_template_is(weir_slice variable, const char *prefix, weir_slice *ret_rest)
{
    size_t len = strlen(prefix);
    if (variable.len <= len || memcmp(variable.at, prefix, len) != 0)
        return false;
    *ret_rest = (weir_slice){variable.at + len, variable.len - len};
    return true;
}

bool weir_key_template_header(weir_slice variable, weir_slice *ret)
{
    if (weir_key_template_is(variable, WEIR_KEY_HEADER, ret))
        return true;
    if (!weir_key_template_is(variable, WEIR_KEY_COOKIE, ret))
        return false;
    *ret = (weir_slice){"cookie", 6};
    return true;
}

/* ---- writing --------------------------------------------------------------------------------- */

typedef struct writer {
    char *buf;
    size_t len, size; /* len > size: the key is too long */
} writer;

static void put(writer *w, const char *at, size_t len)
{
    if (w->len <= w->size && len <= w->size - w->len)
        memcpy(w->buf + w->len, at, len);
    else
        w->size = 0;
    w->len += len;
}

/* Puts a part of a value. */
static void put_run(writer *w, const char *at, size_t len, const part *p)
{
    size_t begin = w->len;
    put(w, at, len);
    for (size_t i = begin; p->lower && w->len <= w->size && i < w->len; i++)
        w->buf[i] = weir_lower(w->buf[i]);
}

static void put_escape(writer *w, char c)
{
    static const char digits[] = "0123456789ABCDEF";
    const char escape[] = {'%', digits[(uint8_t)c >> 4], digits[c & 15]};
    put(w, escape, sizeof escape);
}

static void put_escaped(writer *w, weir_slice value, const part *p)
{
    size_t begin = 0;
    for (size_t i = 0; i < value.len; i++) {
        char c = p->lower ? weir_lower(value.at[i]) : value.at[i];
        if (c != '%' && (c != p->separator || p->separator == '\0'))
            continue;
        put_run(w, value.at + begin, i - begin, p);
        put_escape(w, c);
        begin = i + 1;
    }
    put_run(w, value.at + begin, value.len - begin, p);
}

/* Escapes the first byte of a key's first value, if the key is an IP address. A rule would mask it,
 * and different keys would have one state. An address is short, so the key still fits in
 * WEIR_ADDRESS_TEXT_MAX + 2 bytes. */
static void prevent_address(writer *w, size_t first)
{
    weir_address address;
    if (w->len >= WEIR_ADDRESS_TEXT_MAX || !weir_address_parse(&address, w->buf, w->len))
        return;
    char copy[WEIR_ADDRESS_TEXT_MAX] = {0};
    size_t len = w->len;
    memcpy(copy, w->buf, len);
    w->len = first;
    put_escape(w, copy[first]);
    put(w, copy + first + 1, len - first - 1);
}

static weir_slice mask(weir_slice value, weir_key_template_bits bits, char *text)
{
    weir_address address;
    if (!weir_address_parse(&address, value.at, value.len))
        return value;
    unsigned n = address.v6 ? bits.v6 : bits.v4;
    n = n == 0 ? weir_address_bits(&address) : n;
    weir_address_mask(&address, n);
    return (weir_slice){text, weir_address_print(&address, n, text)};
}

static size_t write_single(const weir_key_template *t, weir_key_value *value, void *ctx, writer *w)
{
    bool is_address = false;
    weir_slice v = {NULL, 0};
    if (!value(ctx, t->parts[0].text, &v, &is_address))
        return 0;
    v = t->parts[0].trim ? weir_slice_trim(v) : v;
    if (v.len > w->size)
        return 0;
    put_run(w, v.at, v.len, &t->parts[0]);
    return v.len;
}

size_t weir_key_template_write(const weir_key_template *t, weir_key_template_bits bits,
                               weir_key_value *value, void *ctx, char *buf, size_t size)
{
    writer w = {.buf = buf, .size = size < WEIR_KEY_MAX ? size : WEIR_KEY_MAX};
    size_t first = SIZE_MAX;
    if (t->len == 1)
        return write_single(t, value, ctx, &w);
    for (const part *p = t->parts; p < t->parts + t->len; p++) {
        bool is_address = false;
        char text[WEIR_ADDRESS_TEXT_MAX];
        weir_slice v = {NULL, 0};
        if (!p->is_variable) {
            put(&w, p->text.at, p->text.len);
            continue;
        }
        if (!value(ctx, p->text, &v, &is_address))
            continue;
        v = p->trim ? weir_slice_trim(v) : v;
        if (v.len == 0)
            continue;
        if (first == SIZE_MAX)
            first = w.len;
        put_escaped(&w, is_address ? mask(v, bits, text) : v, p);
    }
    if (first == SIZE_MAX || w.len > w.size)
        return 0;
    prevent_address(&w, first);
    return w.len <= w.size ? w.len : 0;
}
