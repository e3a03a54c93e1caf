/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* A value is a line, or a line and as many bytes as it says; what an array holds follows it. So
 * the reader keeps only how many values each open array still lacks. It must not know what a reply
 * is about. */

#include "engine/redis/client/reply.h"

#include "codec/resp.h"

#include <string.h>

#define NUMBER_LINE_MAX 24 /* a type, digits with a sign, CR LF */

/* The line at `at` without its type and CR LF. */
static weir_redis_reading read_line(const uint8_t *at, size_t left, size_t len_max,
                                    const uint8_t **ret, size_t *ret_len)
{
    size_t window = left < len_max ? left : len_max;
    const uint8_t *cr = memchr(at, '\r', window);
    const uint8_t *lf = memchr(at, '\n', cr ? (size_t)(cr - at) : window);
    if (lf || (!cr && window == len_max))
        return WEIR_REDIS_READ_ERROR;
    if (!cr || cr + 1 == at + left)
        return WEIR_REDIS_READ_MORE;
    if (cr[1] != '\n')
        return WEIR_REDIS_READ_ERROR;
    *ret = at + 1;
    *ret_len = (size_t)(cr - at) - 1;
    return WEIR_REDIS_READ;
}

static weir_redis_reading read_text(const uint8_t *at, size_t left, weir_redis_value *ret,
                                    size_t *ret_used)
{
    const uint8_t *text;
    weir_redis_reading r = read_line(at, left, WEIR_REDIS_VALUE_MAX + 3, &text, &ret->len);
    if (r != WEIR_REDIS_READ)
        return r;
    ret->type = *at == '+' ? WEIR_REDIS_SIMPLE : WEIR_REDIS_FAILED;
    ret->text = (const char *)text;
    *ret_used = ret->len + 3;
    return r;
}

static weir_redis_reading read_bulk(const uint8_t *at, size_t left, size_t head_len, size_t len,
                                    weir_redis_value *ret, size_t *ret_used)
{
    const uint8_t *end = at + head_len + len;
    if (left > head_len + len && *end != '\r')
        return WEIR_REDIS_READ_ERROR;
    if (left < head_len + len + 2)
        return WEIR_REDIS_READ_MORE;
    if (end[1] != '\n')
        return WEIR_REDIS_READ_ERROR;
    ret->type = WEIR_REDIS_BULK;
    ret->text = (const char *)at + head_len;
    ret->len = len;
    *ret_used = head_len + len + 2;
    return WEIR_REDIS_READ;
}

/* What begins with a number: ":", "$", "*". */
static weir_redis_reading read_number(const uint8_t *at, size_t left, weir_redis_value *ret,
                                      size_t *ret_used)
{
    const uint8_t *digits;
    size_t len;
    int64_t v;
    weir_redis_reading r = read_line(at, left, NUMBER_LINE_MAX, &digits, &len);
    if (r != WEIR_REDIS_READ)
        return r;
    if (!weir_resp_i64(digits, len, &v))
        return WEIR_REDIS_READ_ERROR;
    *ret_used = len + 3;
    if (*at == ':') {
        ret->type = WEIR_REDIS_INTEGER;
        ret->integer = v;
        return r;
    }
    if (v == -1) {
        ret->type = WEIR_REDIS_NULL;
        return r;
    }
    if (v < 0 || v > (*at == '$' ? WEIR_REDIS_VALUE_MAX : WEIR_REDIS_VALUES_MAX))
        return WEIR_REDIS_READ_ERROR;
    if (*at == '$')
        return read_bulk(at, left, len + 3, (size_t)v, ret, ret_used);
    ret->type = WEIR_REDIS_ARRAY;
    ret->len = (size_t)v;
    return r;
}

/* Counts a value where it stands, and closes the arrays that end with it. False if there are too
 * many. */
static bool place(weir_redis_reader *r, weir_redis_value *v)
{
    unsigned depth = r->depth;
    bool opens = v->type == WEIR_REDIS_ARRAY && v->len > 0;
    if (r->values == WEIR_REDIS_VALUES_MAX || (opens && depth == WEIR_REDIS_DEPTH_MAX))
        return false;
    r->values++;
    v->depth = depth;
    if (depth > 0) {
        r->left[depth - 1]--;
        r->index[depth]++;
    }
    if (opens) {
        r->left[depth] = (uint32_t)v->len;
        r->index[depth + 1] = UINT32_MAX; /* the first will be 0 */
        r->depth++;
    }
    while (r->depth > 0 && r->left[r->depth - 1] == 0)
        r->depth--;
    v->last = r->depth == 0;
    if (v->last)
        r->values = 0;
    return true;
}

weir_redis_reading weir_redis_read(weir_redis_reader *r, const uint8_t *bytes, size_t len,
                                   weir_redis_value *ret, size_t *ret_used)
{
    if (len == 0)
        return WEIR_REDIS_READ_MORE;
    weir_redis_value v = {.text = ""};
    size_t used = 0;
    weir_redis_reading reading = WEIR_REDIS_READ_ERROR;
    if (*bytes == '+' || *bytes == '-')
        reading = read_text(bytes, len, &v, &used);
    else if (*bytes == ':' || *bytes == '$' || *bytes == '*')
        reading = read_number(bytes, len, &v, &used);
    if (reading != WEIR_REDIS_READ)
        return reading;
    if (!place(r, &v))
        return WEIR_REDIS_READ_ERROR;
    *ret = v;
    *ret_used = used;
    return reading;
}

/* ---- integers at once ------------------------------------------------------------------------ */

/* The line of a number behind `type`; NULL if it is none of up to 18 digits, as decisions have. */
static const uint8_t *number_at(const uint8_t *at, const uint8_t *end, uint8_t type, int64_t *ret)
{
    if (end - at < 4 || *at++ != type)
        return NULL;
    bool minus = *at == '-';
    at += minus;
    const uint8_t *first = at;
    uint64_t v = 0;
    for (; at < end && (uint8_t)(*at - '0') <= 9; at++)
        v = v * 10 + (uint8_t)(*at - '0'); /* may wrap: then there are too many digits */
    size_t digits = (size_t)(at - first);
    if (digits == 0 || digits > 18 || end - at < 2 || at[0] != '\r' || at[1] != '\n')
        return NULL;
    if (*first == '0' && (digits > 1 || minus))
        return NULL;
    *ret = minus ? -(int64_t)v : (int64_t)v;
    return at + 2;
}

size_t weir_redis_read_integers(const uint8_t *bytes, size_t len, int64_t *ret, size_t n)
{
    const uint8_t *end = bytes + len;
    int64_t count;
    const uint8_t *at = len > 0 ? number_at(bytes, end, '*', &count) : NULL;
    if (!at || count != (int64_t)n)
        return 0;
    for (size_t i = 0; i < n; i++) {
        at = number_at(at, end, ':', &ret[i]);
        if (!at)
            return 0;
    }
    return (size_t)(at - bytes);
}
