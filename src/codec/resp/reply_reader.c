/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* A value is one line, or a line with a length and as many bytes. The members of an array or a map
 * follow it as values. The parser therefore needs no recursion: a counter of missing members
 * replaces the stack. */

#include "codec/resp/reply_reader.h"

#include "port/assert.h"
#include "port/text.h"

#include <string.h>

#define NUMBER_LINE_MAX 24 /* bytes before the LF: a type, digits with a sign, CR */

/* What a caller accepts. */
typedef struct limits {
    size_t line_max; /* bytes of a simple string or an error, with its type and CR */
    int64_t bulk_max;
    int64_t values_max;
    bool resp3; /* accepts null, booleans and maps */
} limits;

static const limits whole = {4095, WEIR_RESP_REPLY_LEN_MAX, WEIR_RESP_VALUES_MAX, true};
static const limits stream = {WEIR_RESP_STREAM_TEXT_MAX + 3, WEIR_RESP_STREAM_TEXT_MAX,
                              WEIR_RESP_STREAM_VALUES_MAX, false};

/* ---- values ---------------------------------------------------------------------------------- */

/* Finds the line at `at`, without its type and CR LF. */
static weir_resp_reading read_line(const uint8_t *at, size_t left, size_t len_max,
                                   const uint8_t **ret, size_t *ret_len)
{
    size_t window = left < len_max ? left : len_max;
    const uint8_t *cr = memchr(at, '\r', window);
    const uint8_t *lf = memchr(at, '\n', cr ? (size_t)(cr - at) : window);
    if (lf || (!cr && window == len_max))
        return WEIR_RESP_READ_ERROR;
    if (!cr || cr + 1 == at + left)
        return WEIR_RESP_READ_MORE;
    if (cr[1] != '\n')
        return WEIR_RESP_READ_ERROR;
    *ret = at + 1;
    *ret_len = (size_t)(cr - at) - 1;
    return WEIR_RESP_READ;
}

static weir_resp_reading read_text(const uint8_t *at, size_t left, const limits *max,
                                   weir_resp_value *ret, size_t *ret_used)
{
    const uint8_t *text;
    weir_resp_reading r = read_line(at, left, max->line_max, &text, &ret->len);
    if (r != WEIR_RESP_READ)
        return r;
    ret->type = *at == '+' ? WEIR_RESP_SIMPLE : WEIR_RESP_ERROR_REPLY;
    ret->text = (const char *)text;
    *ret_used = ret->len + 3;
    return r;
}

/* "_", "#t" or "#f". */
static weir_resp_reading read_word(const uint8_t *at, size_t left, weir_resp_value *ret,
                                   size_t *ret_used)
{
    const uint8_t *word;
    size_t len;
    weir_resp_reading r = read_line(at, left, *at == '_' ? 2 : 3, &word, &len);
    if (r != WEIR_RESP_READ)
        return r;
    ret->type = *at == '_' ? WEIR_RESP_NULL : WEIR_RESP_BOOL;
    *ret_used = len + 3;
    if (*at == '_')
        return len == 0 ? r : WEIR_RESP_READ_ERROR;
    if (len != 1 || (*word != 't' && *word != 'f'))
        return WEIR_RESP_READ_ERROR;
    ret->integer = *word == 't';
    return r;
}

static weir_resp_reading read_bulk(const uint8_t *at, size_t left, size_t head_len, size_t len,
                                   weir_resp_value *ret, size_t *ret_used)
{
    const uint8_t *end = at + head_len + len;
    *ret_used = head_len + len + 2;
    if (left > head_len + len && *end != '\r')
        return WEIR_RESP_READ_ERROR;
    if (left < *ret_used)
        return WEIR_RESP_READ_MORE;
    ret->type = WEIR_RESP_BULK;
    ret->text = (const char *)at + head_len;
    ret->len = len;
    return end[1] == '\n' ? WEIR_RESP_READ : WEIR_RESP_READ_ERROR;
}

/* An integer, or the head of a bulk string, an array or a map. */
static weir_resp_reading read_number(const uint8_t *at, size_t left, const limits *max,
                                     weir_resp_value *ret, size_t *ret_used)
{
    const uint8_t *digits;
    size_t len;
    int64_t v;
    weir_resp_reading r = read_line(at, left, NUMBER_LINE_MAX, &digits, &len);
    if (r != WEIR_RESP_READ)
        return r;
    if (!weir_i64_read((const char *)digits, len, &v))
        return WEIR_RESP_READ_ERROR;
    *ret_used = len + 3;
    if (*at == ':') {
        ret->type = WEIR_RESP_INTEGER;
        ret->integer = v;
        return r;
    }
    if (v == -1 && *at != '%') {
        ret->type = WEIR_RESP_NULL;
        return r;
    }
    if (v < 0 || v > (*at == '$' ? max->bulk_max : max->values_max))
        return WEIR_RESP_READ_ERROR;
    if (*at == '$')
        return read_bulk(at, left, len + 3, (size_t)v, ret, ret_used);
    ret->type = *at == '*' ? WEIR_RESP_ARRAY : WEIR_RESP_MAP;
    ret->len = (size_t)v * (*at == '*' ? 1 : 2);
    return r;
}

static weir_resp_reading read_value(const uint8_t *at, size_t left, const limits *max,
                                    weir_resp_value *ret, size_t *ret_used)
{
    *ret = (weir_resp_value){.text = ""};
    if (*at == ':' || *at == '$' || *at == '*')
        return read_number(at, left, max, ret, ret_used);
    if (*at == '+' || *at == '-')
        return read_text(at, left, max, ret, ret_used);
    if (max->resp3 && *at == '%')
        return read_number(at, left, max, ret, ret_used);
    if (max->resp3 && (*at == '_' || *at == '#'))
        return read_word(at, left, ret, ret_used);
    return WEIR_RESP_READ_ERROR;
}

/* ---- whole replies --------------------------------------------------------------------------- */

static size_t members(const weir_resp_value *v)
{
    return v->type == WEIR_RESP_ARRAY || v->type == WEIR_RESP_MAP ? v->len : 0;
}

weir_resp_reading weir_resp_reply_read(const uint8_t *bytes, size_t len, weir_resp_reply *ret)
{
    size_t pos = 0, n = 0, missing = 1;
    while (missing > 0) {
        if (n + missing > WEIR_RESP_VALUES_MAX)
            return WEIR_RESP_READ_ERROR;
        size_t used = 0, left = len - pos;
        weir_resp_value *v = &ret->value[n];
        weir_resp_reading r =
            left > 0 ? read_value(bytes + pos, left, &whole, v, &used) : WEIR_RESP_READ_MORE;
        if (r == WEIR_RESP_READ_ERROR || pos + used > WEIR_RESP_REPLY_LEN_MAX)
            return WEIR_RESP_READ_ERROR;
        if (r == WEIR_RESP_READ_MORE)
            return len < WEIR_RESP_REPLY_LEN_MAX ? r : WEIR_RESP_READ_ERROR;
        pos += used;
        missing += members(v);
        missing--;
        n++;
    }
    ret->values = n;
    ret->used = pos;
    return WEIR_RESP_READ;
}

const weir_resp_value *weir_resp_value_next(const weir_resp_value *v)
{
    for (size_t missing = 1; missing > 0; v++) {
        missing += members(v);
        missing--;
    }
    return v;
}

const weir_resp_value *weir_resp_value_member(const weir_resp_value *map, const char *name)
{
    size_t len = strlen(name);
    if (map->type != WEIR_RESP_MAP)
        return NULL;
    const weir_resp_value *key = map + 1;
    for (size_t i = 0; i < map->len; i += 2) {
        const weir_resp_value *value = weir_resp_value_next(key);
        bool is_text = key->type == WEIR_RESP_BULK || key->type == WEIR_RESP_SIMPLE;
        if (is_text && key->len == len && memcmp(key->text, name, len) == 0)
            return value;
        key = weir_resp_value_next(value);
    }
    return NULL;
}

/* ---- value by value -------------------------------------------------------------------------- */

/* Enters a value at the current position, and closes the arrays that end with it. Returns false if
 * the reply is nested too deeply or holds too many values. */
static bool advance(weir_resp_stream *r, weir_resp_value *v)
{
    unsigned depth = r->depth;
    bool opens = v->type == WEIR_RESP_ARRAY && v->len > 0;
    if (r->values == WEIR_RESP_STREAM_VALUES_MAX || (opens && depth == WEIR_RESP_STREAM_DEPTH_MAX))
        return false;
    r->values++;
    v->depth = depth;
    if (depth > 0) {
        r->left[depth - 1]--;
        r->index[depth]++;
    }
    if (opens) {
        r->left[depth] = (uint32_t)v->len;
        r->index[depth + 1] = UINT32_MAX; /* the first member makes it 0 */
        r->depth++;
    }
    while (r->depth > 0 && r->left[r->depth - 1] == 0)
        r->depth--;
    v->last = r->depth == 0;
    if (v->last)
        r->values = 0;
    return true;
}

weir_resp_reading weir_resp_stream_read(weir_resp_stream *r, const uint8_t *bytes, size_t len,
                                        weir_resp_value *ret, size_t *ret_used)
{
    weir_resp_value v;
    size_t used = 0;
    if (len == 0)
        return WEIR_RESP_READ_MORE;
    weir_resp_reading reading = read_value(bytes, len, &stream, &v, &used);
    if (reading != WEIR_RESP_READ)
        return reading;
    if (!advance(r, &v))
        return WEIR_RESP_READ_ERROR;
    *ret = v;
    *ret_used = used;
    return reading;
}

/* ---- arrays of integers ---------------------------------------------------------------------- */

/* Parses a line of `type` and a number of at most 18 digits. Returns the end of the line, or
 * NULL. */
static const uint8_t *number_at(const uint8_t *at, const uint8_t *end, uint8_t type, int64_t *ret)
{
    if (end - at < 4 || *at++ != type)
        return NULL;
    bool minus = *at == '-';
    at += minus;
    const uint8_t *first = at;
    uint64_t v = 0;
    for (; at < end && (uint8_t)(*at - '0') <= 9; at++)
        v = v * 10 + (uint8_t)(*at - '0'); /* wraps only with more than 18 digits: refused below */
    size_t digits = (size_t)(at - first);
    if (digits == 0 || digits > 18 || end - at < 2 || at[0] != '\r' || at[1] != '\n')
        return NULL;
    if (*first == '0' && (digits > 1 || minus))
        return NULL;
    *ret = minus ? -(int64_t)v : (int64_t)v;
    return at + 2;
}

size_t weir_resp_read_integers(const uint8_t *bytes, size_t len, int64_t *ret, size_t n)
{
    const uint8_t *end = bytes + len;
    int64_t count;
    const uint8_t *at = len > 0 ? number_at(bytes, end, '*', &count) : NULL;
    WEIR_ASSERT(n >= 1);
    if (!at || count != (int64_t)n)
        return 0;
    for (size_t i = 0; i < n; i++) {
        at = number_at(at, end, ':', &ret[i]);
        if (!at)
            return 0;
    }
    return (size_t)(at - bytes);
}
