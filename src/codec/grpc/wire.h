/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_CODEC_GRPC_WIRE_H
#define WEIR_CODEC_GRPC_WIRE_H
/* The fields of a protobuf message, one after the other: for the small services of gRPC sessions,
 * and for the messages of an application. Unknown fields are the caller's to skip; groups, which
 * only unknown fields have, are skipped here. All functions are pure. */

#include "port/buffer.h"
#include "port/text.h"

/* The wire types. */
enum {
    WEIR_GRPC_VARINT = 0,
    WEIR_GRPC_FIXED64 = 1,
    WEIR_GRPC_BYTES = 2,
    WEIR_GRPC_GROUP = 3,
    WEIR_GRPC_GROUP_END = 4,
    WEIR_GRPC_FIXED32 = 5
};

enum { WEIR_GRPC_NUMBER_MAX = (1 << 29) - 1 }; /* of a field */

/* The number and the wire type of a field, for a switch. */
#define WEIR_GRPC_FIELD(number, type) ((number) << 3 | (type))

typedef struct weir_grpc_reader {
    const uint8_t *at, *end;
    const char *error; /* "invalid protobuf: ..."; NULL: none */
} weir_grpc_reader;

typedef struct weir_grpc_field {
    uint32_t tag;     /* WEIR_GRPC_FIELD() */
    uint64_t varint;  /* of WEIR_GRPC_VARINT */
    weir_slice bytes; /* of WEIR_GRPC_BYTES */
} weir_grpc_field;

static inline weir_grpc_reader weir_grpc_reader_of(weir_slice bytes)
{
    const uint8_t *at = (const uint8_t *)bytes.at;
    return (weir_grpc_reader){.at = at, .end = at + bytes.len};
}

/* The number of a field of the type bytes; 0: it has another type. */
static inline uint32_t weir_grpc_bytes_number(const weir_grpc_field *field)
{
    return (field->tag & 7) == WEIR_GRPC_BYTES ? field->tag >> 3 : 0;
}

/* Records an error, and returns false. */
static inline bool weir_grpc_fail(weir_grpc_reader *r, const char *error)
{
    r->error = error;
    return false;
}

/* wire.c: a varint of any length; the rest of a group, and the groups in it. */
bool weir_grpc_read_long_varint(weir_grpc_reader *r, uint64_t *ret);
bool weir_grpc_skip_group(weir_grpc_reader *r, uint32_t tag);

static inline bool weir_grpc_read_varint(weir_grpc_reader *r, uint64_t *ret)
{
    if (r->at == r->end || *r->at >= 0x80)
        return weir_grpc_read_long_varint(r, ret);
    *ret = *r->at++;
    return true;
}

static inline bool weir_grpc_skip(weir_grpc_reader *r, uint64_t n)
{
    if (n > (size_t)(r->end - r->at))
        return weir_grpc_fail(r, "invalid protobuf: a field is longer than its message");
    r->at += n;
    return true;
}

static inline bool weir_grpc_take(weir_grpc_reader *r, uint64_t n, weir_slice *ret)
{
    *ret = (weir_slice){(const char *)r->at, (size_t)n};
    return weir_grpc_skip(r, n);
}

static inline bool weir_grpc_read_tag(weir_grpc_reader *r, uint32_t *ret)
{
    uint64_t tag;
    if (!weir_grpc_read_varint(r, &tag))
        return false;
    if (tag >> 3 < 1 || tag >> 3 > WEIR_GRPC_NUMBER_MAX)
        return weir_grpc_fail(r, "invalid protobuf: a field number is out of range");
    *ret = (uint32_t)tag;
    return true;
}

/* Reads the value of a field that is no group. */
static inline bool weir_grpc_read_value(weir_grpc_reader *r, weir_grpc_field *f)
{
    uint64_t len;
    switch (f->tag & 7) {
    case WEIR_GRPC_VARINT:
        return weir_grpc_read_varint(r, &f->varint);
    case WEIR_GRPC_FIXED64:
        return weir_grpc_skip(r, 8);
    case WEIR_GRPC_FIXED32:
        return weir_grpc_skip(r, 4);
    case WEIR_GRPC_BYTES:
        return weir_grpc_read_varint(r, &len) && weir_grpc_take(r, len, &f->bytes);
    default:
        return weir_grpc_fail(r, "invalid protobuf: a field has an unknown wire type");
    }
}

/* Reads a field of a small number with fewer than 128 bytes, as most fields are. Returns false if
 * the next field is another one. */
static inline bool weir_grpc_read_short_field(weir_grpc_reader *r, weir_grpc_field *ret)
{
    size_t left = (size_t)(r->end - r->at);
    if (left < 2 || (r->at[0] & 0x87) != WEIR_GRPC_BYTES ||
        r->at[0] < WEIR_GRPC_FIELD(1, WEIR_GRPC_BYTES) ||
        r->at[1] > (left - 2 < 0x7F ? left - 2 : 0x7F))
        return false;
    ret->tag = r->at[0];
    ret->bytes = (weir_slice){(const char *)r->at + 2, r->at[1]};
    r->at += 2 + r->at[1];
    return true;
}

/* Reads the next field. Returns false at the end of the message, or with r->error. */
static inline bool weir_grpc_next_field(weir_grpc_reader *r, weir_grpc_field *ret)
{
    if (weir_grpc_read_short_field(r, ret))
        return true;
    if (r->at == r->end || !weir_grpc_read_tag(r, &ret->tag))
        return false;
    if ((ret->tag & 7) == WEIR_GRPC_GROUP)
        return weir_grpc_skip_group(r, ret->tag);
    return weir_grpc_read_value(r, ret);
}

static inline void weir_grpc_put_varint(weir_buffer *b, uint64_t v)
{
    for (; v >= 0x80; v >>= 7)
        weir_buffer_append_byte(b, (uint8_t)(v | 0x80));
    weir_buffer_append_byte(b, (uint8_t)v);
}

/* Appends a field of type bytes. */
static inline void weir_grpc_put_bytes(weir_buffer *b, unsigned number, weir_slice bytes)
{
    weir_grpc_put_varint(b, number << 3 | 2);
    weir_grpc_put_varint(b, bytes.len);
    weir_buffer_append(b, bytes.at, bytes.len);
}

#endif
