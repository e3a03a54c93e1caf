/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* A reply is read in one walk, without recursion: values follow one another, and a map or an array
 * only says how many more there are to come. It must not know what a reply is about. */

#include "codec/resp_reply_reader.h"

#include "codec/resp.h"

#include <string.h>

#define COUNT_LINE_MAX 24   /* a type, digits with a sign, CR LF */
#define TEXT_LINE_MAX  4096 /* of "+" and "-" */

/* The line at `at` without its type and CR LF. */
static weir_resp_reading read_line(const uint8_t *at, size_t left, size_t len_max,
                                   const uint8_t **ret, size_t *ret_len)
{
    size_t window = left < len_max ? left : len_max;
    const uint8_t *lf = memchr(at, '\n', window);
    const uint8_t *cr = memchr(at, '\r', lf ? (size_t)(lf - at) : window);
    if (!lf) {
        bool open = left < len_max && (!cr || cr + 1 == at + left); /* a CR has its LF behind it */
        return open ? WEIR_RESP_READ_MORE : WEIR_RESP_READ_ERROR;
    }
    if (!cr || cr + 1 != lf)
        return WEIR_RESP_READ_ERROR;
    *ret = at + 1;
    *ret_len = (size_t)(cr - at) - 1;
    return WEIR_RESP_READ;
}

/* ---- values ---------------------------------------------------------------------------------- */

static weir_resp_reading read_text(const uint8_t *at, size_t left, weir_resp_node *ret,
                                   size_t *ret_used)
{
    const uint8_t *text;
    weir_resp_reading r = read_line(at, left, TEXT_LINE_MAX, &text, &ret->len);
    if (r != WEIR_RESP_READ)
        return r;
    ret->type = *at == '+' ? WEIR_RESP_SIMPLE : WEIR_RESP_REPLY_FAILED;
    ret->text = (const char *)text;
    *ret_used = ret->len + 3;
    return r;
}

/* What stands on a line with nothing but a word: "_", "#t", "#f". */
static weir_resp_reading read_word(const uint8_t *at, size_t left, weir_resp_node *ret,
                                   size_t *ret_used)
{
    const uint8_t *word;
    size_t len;
    weir_resp_reading r = read_line(at, left, *at == '_' ? 3 : 4, &word, &len);
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

static weir_resp_reading read_bulk(const uint8_t *at, size_t left, size_t head_len,
                                   weir_resp_node *ret, size_t *ret_used)
{
    size_t len = (size_t)ret->integer;
    *ret_used = head_len + len + 2;
    ret->type = WEIR_RESP_BULK;
    ret->text = (const char *)at + head_len;
    ret->len = len;
    ret->integer = 0;
    const uint8_t *end = at + head_len + len;
    if (left > head_len + len && *end != '\r')
        return WEIR_RESP_READ_ERROR;
    if (left < *ret_used)
        return WEIR_RESP_READ_MORE;
    return end[1] == '\n' ? WEIR_RESP_READ : WEIR_RESP_READ_ERROR;
}

/* What begins with a number: ":", "$", "*", "%". */
static weir_resp_reading read_counted(const uint8_t *at, size_t left, weir_resp_node *ret,
                                      size_t *ret_used)
{
    const uint8_t *digits;
    size_t len;
    weir_resp_reading r = read_line(at, left, COUNT_LINE_MAX, &digits, &len);
    if (r != WEIR_RESP_READ)
        return r;
    if (!weir_resp_i64(digits, len, &ret->integer))
        return WEIR_RESP_READ_ERROR;
    *ret_used = len + 3;
    ret->type = WEIR_RESP_INTEGER;
    if (*at == ':')
        return r;
    if (ret->integer == -1 && *at != '%') {
        ret->type = WEIR_RESP_NULL;
        ret->integer = 0;
        return r;
    }
    int64_t most = *at == '$' ? WEIR_RESP_REPLY_LEN_MAX : WEIR_RESP_NODES_MAX;
    if (ret->integer < 0 || ret->integer > most)
        return WEIR_RESP_READ_ERROR;
    if (*at == '$')
        return read_bulk(at, left, *ret_used, ret, ret_used);
    ret->type = *at == '*' ? WEIR_RESP_ARRAY : WEIR_RESP_MAP;
    ret->len = (size_t)ret->integer * (*at == '*' ? 1 : 2);
    ret->integer = 0;
    return r;
}

static weir_resp_reading read_value(const uint8_t *at, size_t left, weir_resp_node *ret,
                                    size_t *ret_used)
{
    *ret = (weir_resp_node){.text = ""};
    switch (*at) {
    case '+':
    case '-':
        return read_text(at, left, ret, ret_used);
    case '_':
    case '#':
        return read_word(at, left, ret, ret_used);
    case ':':
    case '$':
    case '*':
    case '%':
        return read_counted(at, left, ret, ret_used);
    default:
        return WEIR_RESP_READ_ERROR;
    }
}

/* ---- a reply --------------------------------------------------------------------------------- */

static bool holds_others(const weir_resp_node *n)
{
    return n->type == WEIR_RESP_ARRAY || n->type == WEIR_RESP_MAP;
}

weir_resp_reading weir_resp_reply_read(const uint8_t *bytes, size_t len, weir_resp_reply *ret)
{
    size_t pos = 0, n = 0, to_come = 1;
    while (to_come > 0) {
        if (n + to_come > WEIR_RESP_NODES_MAX)
            return WEIR_RESP_READ_ERROR;
        size_t used = 0, left = len - pos;
        weir_resp_reading r =
            left > 0 ? read_value(bytes + pos, left, &ret->node[n], &used) : WEIR_RESP_READ_MORE;
        if (r == WEIR_RESP_READ_ERROR || pos + used > WEIR_RESP_REPLY_LEN_MAX)
            return WEIR_RESP_READ_ERROR;
        if (r == WEIR_RESP_READ_MORE)
            return len < WEIR_RESP_REPLY_LEN_MAX ? r : WEIR_RESP_READ_ERROR;
        pos += used;
        to_come += holds_others(&ret->node[n]) ? ret->node[n].len : 0;
        to_come--;
        n++;
    }
    ret->nodes = n;
    ret->used = pos;
    return WEIR_RESP_READ;
}

const weir_resp_node *weir_resp_node_next(const weir_resp_node *node)
{
    size_t to_come = 1;
    while (to_come > 0) {
        to_come += holds_others(node) ? node->len : 0;
        to_come--;
        node++;
    }
    return node;
}

const weir_resp_node *weir_resp_node_member(const weir_resp_node *map, const char *name)
{
    size_t len = strlen(name);
    if (map->type != WEIR_RESP_MAP)
        return NULL;
    const weir_resp_node *key = map + 1;
    for (size_t i = 0; i < map->len; i += 2) {
        const weir_resp_node *value = weir_resp_node_next(key);
        bool is_text = key->type == WEIR_RESP_BULK || key->type == WEIR_RESP_SIMPLE;
        if (is_text && key->len == len && memcmp(key->text, name, len) == 0)
            return value;
        key = weir_resp_node_next(value);
    }
    return NULL;
}
