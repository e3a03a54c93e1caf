/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_CODEC_GRPC_WIRE_H
#define WEIR_CODEC_GRPC_WIRE_H
/* The fields of a protobuf message, one after the other. Enough for the small services of gRPC
 * sessions: health checks and reflection. All functions are pure. */

#include "port/buffer.h"
#include "port/text.h"

/* A field of a message. */
typedef struct weir_grpc_field {
    uint64_t number;  /* 0: the message is invalid */
    unsigned type;    /* the wire type: 0 varint, 1 64 bits, 2 bytes, 5 32 bits */
    uint64_t value;   /* of a varint */
    weir_slice bytes; /* of type 2 */
} weir_grpc_field;

/* Reads a varint at the front of *rest. Returns false if it is cut off or too long. */
static inline bool weir_grpc_read_varint(weir_slice *rest, uint64_t *ret)
{
    uint64_t v = 0;
    for (unsigned shift = 0; shift < 64 && rest->len > 0; shift += 7) {
        uint8_t byte = (uint8_t)*rest->at;
        rest->at++;
        rest->len--;
        v |= (uint64_t)(byte & 0x7F) << shift;
        if (byte < 0x80) {
            *ret = v;
            return true;
        }
    }
    return false;
}

/* Reads the next field and removes it from *rest. Returns false at the end of the message, or if it
 * is invalid: then ret->number is 0 and *rest is not empty. */
static inline bool weir_grpc_next_field(weir_slice *rest, weir_grpc_field *ret)
{
    weir_slice at = *rest;
    uint64_t tag = 0, len = 0;
    *ret = (weir_grpc_field){0};
    if (rest->len == 0 || !weir_grpc_read_varint(&at, &tag))
        return false;
    unsigned type = (unsigned)(tag & 7);
    if (type == 0) {
        if (!weir_grpc_read_varint(&at, &ret->value))
            return false;
    } else if (type == 2) {
        if (!weir_grpc_read_varint(&at, &len))
            return false;
    } else if (type == 1 || type == 5) {
        len = type == 1 ? 8 : 4;
    } else {
        return false;
    }
    if (len > at.len || tag >> 3 == 0)
        return false;
    *ret = (weir_grpc_field){tag >> 3, type, ret->value, {at.at, (size_t)len}};
    *rest = (weir_slice){at.at + len, at.len - (size_t)len};
    return true;
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
