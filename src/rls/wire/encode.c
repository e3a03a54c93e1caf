/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* Encodes a RateLimitResponse as protobuf, straight into the buffer: fields in the order of their
 * numbers, without those whose value is zero. */

#include "rls/wire/message.h"
#include "rls/wire/varint.h"

enum {
    STATUS_MAX = 64, /* bytes of a status without the limit's name, at most */
    HEADER_MAX = 32, /* bytes of a header without its name and value, at most */
    NS_PER_S = 1000000000
};

/* ---- lengths --------------------------------------------------------------------------------- */

static inline size_t number_len(uint64_t v)
{
    return v > 0 ? 1 + varint_len(v) : 0;
}

static inline size_t string_len(size_t len)
{
    return len > 0 ? bytes_len(len) : 0;
}

/* The lengths of the messages of a status. */
typedef struct lengths {
    size_t limit, reset, status;
} lengths;

static lengths lengths_of(const weir_rls_status *s)
{
    lengths l = {.status = number_len(s->code) + number_len(s->remaining)};
    if (s->has_limit) {
        l.limit = number_len(s->requests_per_unit) + number_len(s->unit) + string_len(s->name.len);
        l.reset = number_len((uint64_t)(s->reset_ns / NS_PER_S)) +
                  number_len((uint64_t)(s->reset_ns % NS_PER_S));
        l.status += bytes_len(l.limit) + bytes_len(l.reset);
    }
    return l;
}

/* ---- fields ---------------------------------------------------------------------------------- */

static inline uint8_t *put_number(uint8_t *at, uint8_t tag, uint64_t v)
{
    if (v == 0)
        return at;
    *at++ = tag;
    return put_varint(at, v);
}

static inline uint8_t *put_string(uint8_t *at, uint8_t tag, const char *text, size_t len)
{
    if (len == 0)
        return at;
    at = put_len(at, tag, len);
    memcpy(at, text, len);
    return at + len;
}

/* ---- messages -------------------------------------------------------------------------------- */

static void put_status(const weir_rls_status *s, weir_buffer *out)
{
    if (!weir_buffer_reserve(out, STATUS_MAX + s->name.len))
        return;
    uint8_t *begin = weir_buffer_tail(out);
    lengths l = lengths_of(s);
    uint8_t *at = put_len(begin, BYTES(2), l.status);
    at = put_number(at, NUMBER(1), s->code);
    if (s->has_limit) {
        at = put_len(at, BYTES(2), l.limit);
        at = put_number(at, NUMBER(1), s->requests_per_unit);
        at = put_number(at, NUMBER(2), s->unit);
        at = put_string(at, BYTES(3), s->name.at, s->name.len);
    }
    at = put_number(at, NUMBER(3), s->remaining);
    if (s->has_limit) {
        at = put_len(at, BYTES(4), l.reset);
        at = put_number(at, NUMBER(1), (uint64_t)(s->reset_ns / NS_PER_S));
        at = put_number(at, NUMBER(2), (uint64_t)(s->reset_ns % NS_PER_S));
    }
    weir_buffer_added(out, (size_t)(at - begin));
}

static void put_header(const weir_answer_field *h, weir_buffer *out)
{
    size_t name_len = strlen(h->name), value_len = h->value.len;
    if (!weir_buffer_reserve(out, HEADER_MAX + name_len + value_len))
        return;
    uint8_t *begin = weir_buffer_tail(out);
    uint8_t *at = put_len(begin, BYTES(3), string_len(name_len) + string_len(value_len));
    at = put_string(at, BYTES(1), h->name, name_len);
    at = put_string(at, BYTES(2), h->value.at, value_len);
    weir_buffer_added(out, (size_t)(at - begin));
}

static void put_headers(const weir_rls_response *response, weir_buffer *out)
{
    weir_answer_field fields[WEIR_RLS_FIELDS_MAX];
    char values[WEIR_ANSWER_ROOM];
    size_t n = weir_rls_fields(response, fields, values);
    for (size_t i = 0; i < n; i++)
        put_header(&fields[i], out);
}

void weir_rls_encode(const weir_rls_response *response, weir_buffer *out)
{
    if (response->code != WEIR_RLS_UNKNOWN) {
        const uint8_t code[2] = {NUMBER(1), (uint8_t)response->code};
        weir_buffer_append(out, code, sizeof code);
    }
    for (size_t i = 0; i < response->statuses_len; i++)
        put_status(&response->statuses[i], out);
    if (response->headers_len + response->decided_len > 0)
        put_headers(response, out);
    if (response->metadata)
        weir_rls_put_struct(out, BYTES(6), response->metadata);
}
