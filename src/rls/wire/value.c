/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* Dynamic metadata as a google.protobuf.Struct, and as JSON. */

#include "codec/answer/json.h"
#include "rls/wire/message.h"
#include "rls/wire/varint.h"

#include <stdio.h>
#include <stdlib.h>

/* ---- protobuf -------------------------------------------------------------------------------- */

static size_t value_len(const weir_rls_value *v);

/* Of a Struct or a ListValue, by its members. */
static size_t members_len(const weir_rls_value *v)
{
    size_t len = 0;
    for (const weir_rls_value *m = v->first; m; m = m->next) {
        size_t one = value_len(m);
        if (v->kind == WEIR_RLS_MAP)
            one = bytes_len(m->name.len) + bytes_len(one);
        len += bytes_len(one);
    }
    return len;
}

static size_t value_len(const weir_rls_value *v)
{
    switch (v->kind) {
    case WEIR_RLS_NULL:
    case WEIR_RLS_BOOL:
        return 2;
    case WEIR_RLS_NUMBER:
        return 1 + sizeof v->number;
    case WEIR_RLS_TEXT:
        return bytes_len(v->text.len);
    case WEIR_RLS_LIST:
    case WEIR_RLS_MAP:
        return bytes_len(members_len(v));
    }
    return 0;
}

static uint8_t *put_bytes(uint8_t *at, uint8_t tag, weir_slice text)
{
    at = put_len(at, tag, text.len);
    if (text.len > 0)
        memcpy(at, text.at, text.len);
    return at + text.len;
}

static uint8_t *put_value(uint8_t *at, const weir_rls_value *v);

static uint8_t *put_members(uint8_t *at, const weir_rls_value *v)
{
    for (const weir_rls_value *m = v->first; m; m = m->next) {
        size_t one = value_len(m);
        if (v->kind == WEIR_RLS_MAP) {
            at = put_len(at, BYTES(1), bytes_len(m->name.len) + bytes_len(one));
            at = put_bytes(at, BYTES(1), m->name);
            at = put_len(at, BYTES(2), one);
        } else {
            at = put_len(at, BYTES(1), one);
        }
        at = put_value(at, m);
    }
    return at;
}

/* A Value is a oneof: its field is there also if it is 0 or empty. */
static uint8_t *put_value(uint8_t *at, const weir_rls_value *v)
{
    switch (v->kind) {
    case WEIR_RLS_NULL:
    case WEIR_RLS_BOOL:
        *at++ = v->kind == WEIR_RLS_NULL ? NUMBER(1) : NUMBER(4);
        *at++ = v->kind == WEIR_RLS_BOOL && v->truth;
        break;
    case WEIR_RLS_NUMBER: {
        uint64_t bits;
        memcpy(&bits, &v->number, sizeof bits);
        *at++ = NUMBER(2) | 1; /* 64 bits, the lowest byte first */
        for (size_t i = 0; i < sizeof bits; i++)
            *at++ = (uint8_t)(bits >> 8 * i);
        break;
    }
    case WEIR_RLS_TEXT:
        return put_bytes(at, BYTES(3), v->text);
    case WEIR_RLS_LIST:
    case WEIR_RLS_MAP:
        at = put_len(at, v->kind == WEIR_RLS_MAP ? BYTES(5) : BYTES(6), members_len(v));
        return put_members(at, v);
    }
    return at;
}

void weir_rls_put_struct(weir_buffer *out, uint8_t tag, const weir_rls_value *map)
{
    size_t len = members_len(map);
    if (!weir_buffer_reserve(out, bytes_len(len)))
        return;
    put_members(put_len(weir_buffer_tail(out), tag, len), map);
    weir_buffer_added(out, bytes_len(len));
}

/* ---- JSON ------------------------------------------------------------------------------------ */

/* As few digits as tell the number. */
static void put_number_text(weir_buffer *out, double number)
{
    char text[32];
    for (int digits = 15; digits <= 17; digits += 2) {
        snprintf(text, sizeof text, "%.*g", digits, number);
        if (strtod(text, NULL) == number)
            break;
    }
    weir_buffer_printf(out, "%s", text);
}

void weir_rls_put_value_json(weir_buffer *out, const weir_rls_value *v)
{
    bool map = v->kind == WEIR_RLS_MAP;
    switch (v->kind) {
    case WEIR_RLS_NULL:
        weir_buffer_printf(out, "null");
        return;
    case WEIR_RLS_BOOL:
        weir_buffer_printf(out, v->truth ? "true" : "false");
        return;
    case WEIR_RLS_NUMBER:
        put_number_text(out, v->number);
        return;
    case WEIR_RLS_TEXT:
        weir_json_put_string(out, v->text.at, v->text.len);
        return;
    case WEIR_RLS_LIST:
    case WEIR_RLS_MAP:
        break;
    }
    weir_buffer_append_byte(out, map ? '{' : '[');
    for (const weir_rls_value *m = v->first; m; m = m->next) {
        weir_buffer_append(out, ",", m != v->first);
        if (map) {
            weir_json_put_string(out, m->name.at, m->name.len);
            weir_buffer_append_byte(out, ':');
        }
        weir_rls_put_value_json(out, m);
    }
    weir_buffer_append_byte(out, map ? '}' : ']');
}
