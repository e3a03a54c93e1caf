/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* The writers of RESP replies also encode a question, which is an array of bulk strings.
 * The integers of a reply are checked, because a wrong type or a value out of range means that
 * questions and replies no longer match. */

#include "daemon_wire.h"

#include "codec/resp/reply_reader.h"
#include "codec/resp/resp.h"
#include "core/decision.h"
#include "port/assert.h"

#define MS_NS 1000000

enum {
    HEAD_MAX = 24,   /* type, digits, CR LF */
    NUMBER_MAX = 48, /* a number as a bulk string */
    FIXED_MAX = 128, /* the words that do not depend on the question */
    INDEX = WEIR_DECISION_FIELDS,
    FIELDS_MAX
};

_Static_assert(WEIR_NGX_QUESTION_LEN_MAX == WEIR_RESP_REQUEST_LEN_MAX, "the daemon's maximum");
_Static_assert(2 + 3 * WEIR_NGX_ASK_MAX <= WEIR_RESP_ARGS_MAX, "a question is one request");

/* ---- questions ------------------------------------------------------------------------------- */

size_t weir_ngx_wire_size(const weir_ngx_ask_limit *limit, size_t limits)
{
    size_t size = FIXED_MAX;
    for (size_t i = 0; i < limits; i++)
        size += limit[i].text.len + limit[i].key.len + 2 * HEAD_MAX + 2 * NUMBER_MAX;
    return size;
}

static void put_slice(weir_buffer *out, weir_slice s)
{
    weir_resp_put_bulk(out, s.at, s.len);
}

static void put_number(weir_buffer *out, int64_t v)
{
    char digits[WEIR_I64_MAX_LEN];
    weir_resp_put_bulk(out, digits, weir_i64_print(digits, v));
}

enum { KEEP_MAX = WEIR_I64_MAX_LEN + 1 };

/* Writes what a limit keeps: "20" or "20%". Returns the length. */
static size_t print_keep(char buf[KEEP_MAX], int64_t keep)
{
    size_t len = weir_i64_print(buf, keep < 0 ? -keep : keep);
    if (keep < 0)
        buf[len++] = '%';
    return len;
}

static void put_check(weir_buffer *out, const weir_ngx_ask_limit *limit)
{
    bool by_one = limit->cost == 1; /* the default */
    char keep[KEEP_MAX];
    weir_resp_put_array(out, (by_one ? 3u : 5u) + (limit->keep != 0 ? 2u : 0u));
    weir_resp_put_text(out, "WEIR.CHECK");
    put_slice(out, limit->text);
    put_slice(out, limit->key);
    if (!by_one) {
        weir_resp_put_text(out, "COST");
        put_number(out, limit->cost);
    }
    if (limit->keep != 0) {
        weir_resp_put_text(out, "KEEP");
        weir_resp_put_bulk(out, keep, print_keep(keep, limit->keep));
    }
}

/* Puts a cost, with what is kept behind a '+'. */
static void put_units(weir_buffer *out, const weir_ngx_ask_limit *limit)
{
    char units[WEIR_I64_MAX_LEN + 1 + KEEP_MAX];
    size_t len = weir_i64_print(units, limit->cost);
    if (limit->keep != 0) {
        units[len++] = '+';
        len += print_keep(units + len, limit->keep);
    }
    weir_resp_put_bulk(out, units, len);
}

void weir_ngx_wire_put(weir_buffer *out, const weir_ngx_ask_limit *limit, size_t limits)
{
    WEIR_ASSERT(limits >= 1 && limits <= WEIR_NGX_ASK_MAX);
    if (!weir_buffer_reserve(out, weir_ngx_wire_size(limit, limits)))
        return;
    if (limits == 1) {
        put_check(out, limit);
        return;
    }
    weir_resp_put_array(out, 2 + 3 * limits);
    weir_resp_put_text(out, "WEIR.TAKEALL");
    put_number(out, (int64_t)limits);
    for (size_t i = 0; i < limits; i++) {
        put_slice(out, limit[i].text); /* has a space: the daemon takes it for a text, not a name */
        put_slice(out, limit[i].key);
        put_units(out, &limit[i]);
    }
}

void weir_ngx_wire_put_greeting(weir_buffer *out, weir_slice password)
{
    bool has_password = password.len > 0;
    weir_resp_put_array(out, has_password ? 2 : 1);
    weir_resp_put_text(out, has_password ? "AUTH" : "PING");
    if (has_password)
        put_slice(out, password);
}

/* ---- replies --------------------------------------------------------------------------------- */

/* The fields of a decision, then the index of a question of several limits. */
static weir_ngx_reading to_decision(const int64_t *f, size_t limits, weir_ngx_reply *ret)
{
    int64_t index = limits == 1 ? 0 : f[INDEX];
    if (!weir_decision_fields_are_good(f, INT64_MAX) || index < 0 || (uint64_t)index >= limits)
        return WEIR_NGX_READ_BAD;
    ret->index = (size_t)index;
    ret->decision = weir_decision_of_fields(f, MS_NS);
    return WEIR_NGX_READ_DECISION;
}

typedef struct reader {
    weir_resp_stream stream;
    const uint8_t *bytes;
    size_t len, pos;
} reader;

/* Returns WEIR_NGX_READ_DECISION if a value was read. */
static weir_ngx_reading next_value(reader *r, weir_resp_value *ret)
{
    size_t used = 0;
    switch (weir_resp_stream_read(&r->stream, r->bytes + r->pos, r->len - r->pos, ret, &used)) {
    case WEIR_RESP_READ_MORE:
        return WEIR_NGX_READ_MORE;
    case WEIR_RESP_READ_ERROR:
        return WEIR_NGX_READ_BAD;
    case WEIR_RESP_READ:
        break;
    }
    r->pos += used;
    return WEIR_NGX_READ_DECISION;
}

/* The slow path: reads value by value. */
static weir_ngx_reading read_values(const uint8_t *bytes, size_t len, size_t limits, size_t fields,
                                    weir_ngx_reply *ret)
{
    reader r = {.bytes = bytes, .len = len};
    weir_resp_value v;
    int64_t f[FIELDS_MAX];
    weir_ngx_reading reading = next_value(&r, &v);
    if (reading != WEIR_NGX_READ_DECISION)
        return reading;
    if (v.type == WEIR_RESP_ERROR_REPLY || (v.type == WEIR_RESP_SIMPLE && limits == 0)) {
        ret->used = r.pos;
        ret->error = (weir_slice){v.text, v.len};
        return v.type == WEIR_RESP_SIMPLE ? WEIR_NGX_READ_GREETING : WEIR_NGX_READ_ERROR;
    }
    if (limits == 0 || v.type != WEIR_RESP_ARRAY || v.len != fields)
        return WEIR_NGX_READ_BAD;
    for (size_t i = 0; i < fields; i++) {
        reading = next_value(&r, &v);
        if (reading != WEIR_NGX_READ_DECISION)
            return reading;
        if (v.type != WEIR_RESP_INTEGER)
            return WEIR_NGX_READ_BAD;
        f[i] = v.integer;
    }
    ret->used = r.pos;
    return to_decision(f, limits, ret);
}

weir_ngx_reading weir_ngx_wire_read(const uint8_t *bytes, size_t len, size_t limits,
                                    weir_ngx_reply *ret)
{
    size_t fields = limits == 1 ? WEIR_DECISION_FIELDS : FIELDS_MAX;
    int64_t f[FIELDS_MAX];
    size_t used = limits > 0 ? weir_resp_read_integers(bytes, len, f, fields) : 0;
    if (used == 0)
        return read_values(bytes, len, limits, fields, ret);
    ret->used = used;
    return to_decision(f, limits, ret);
}
