/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* Reads and writes the frames of SPOP. */

#include "codec/spop/frame.h"

#include "port/assert.h"
#include "service/rules/address.h"

#include <stdlib.h>

const char *weir_spop_status_text(weir_spop_status status)
{
    static const char *const texts[WEIR_SPOP_STATUSES] = {
        [WEIR_SPOP_NORMAL] = "normal",
        [WEIR_SPOP_TOO_BIG] = "frame is too big",
        [WEIR_SPOP_INVALID] = "invalid frame received",
        [WEIR_SPOP_NO_VERSION] = "version value not found",
        [WEIR_SPOP_NO_FRAME_SIZE] = "max-frame-size value not found",
        [WEIR_SPOP_NO_CAPABILITIES] = "capabilities value not found",
        [WEIR_SPOP_BAD_VERSION] = "unsupported version, expected 2.0",
        [WEIR_SPOP_BAD_FRAME_SIZE] = "max-frame-size too big or too small",
        [WEIR_SPOP_FRAGMENTED] = "fragmentation not supported",
    };
    const char *text = (unsigned)status < WEIR_SPOP_STATUSES ? texts[status] : NULL;
    return text ? text : "unknown";
}

/* ---- reading --------------------------------------------------------------------------------- */

/* The first byte has 4 bits of the value, if it is 240 or more; each further byte has 7, and its
 * highest bit says that another one follows. */
bool weir_spop_read_varint(weir_spop_reader *r, uint64_t *ret)
{
    if (r->at == r->end)
        return false;
    uint64_t v = *r->at++;
    bool more = v >= 240;
    for (unsigned shift = 4; more; shift += 7) {
        if (r->at == r->end || shift > 60)
            return false;
        uint64_t byte = *r->at++, add = byte << shift;
        if (add >> shift != byte || v + add < v)
            return false;
        v += add;
        more = byte >= 128;
    }
    *ret = v;
    return true;
}

static bool read_bytes(weir_spop_reader *r, uint64_t len, weir_slice *ret)
{
    if (len > (size_t)(r->end - r->at))
        return false;
    *ret = (weir_slice){(const char *)r->at, (size_t)len};
    r->at += len;
    return true;
}

bool weir_spop_read_string(weir_spop_reader *r, weir_slice *ret)
{
    uint64_t len;
    return weir_spop_read_varint(r, &len) && read_bytes(r, len, ret);
}

bool weir_spop_read_value(weir_spop_reader *r, weir_spop_value *ret)
{
    if (r->at == r->end)
        return false;
    unsigned byte = *r->at++;
    *ret = (weir_spop_value){.type = (weir_spop_data)(byte & 15), .number = byte >> 4 & 1};
    switch (ret->type) {
    case WEIR_SPOP_NULL:
    case WEIR_SPOP_BOOL:
        return true;
    case WEIR_SPOP_INT32:
    case WEIR_SPOP_UINT32:
    case WEIR_SPOP_INT64:
    case WEIR_SPOP_UINT64:
        return weir_spop_read_varint(r, &ret->number);
    case WEIR_SPOP_IPV4:
        return read_bytes(r, 4, &ret->bytes);
    case WEIR_SPOP_IPV6:
        return read_bytes(r, 16, &ret->bytes);
    case WEIR_SPOP_STRING:
    case WEIR_SPOP_BINARY:
        return weir_spop_read_string(r, &ret->bytes);
    }
    return false;
}

bool weir_spop_read_frame(weir_spop_reader *r, weir_spop_frame *ret)
{
    if (r->end - r->at < 5)
        return false;
    ret->type = r->at[0];
    ret->flags =
        (uint32_t)r->at[1] << 24 | (uint32_t)r->at[2] << 16 | (uint32_t)r->at[3] << 8 | r->at[4];
    r->at += 5;
    if (!weir_spop_read_varint(r, &ret->stream_id) || !weir_spop_read_varint(r, &ret->frame_id))
        return false;
    ret->payload = *r;
    return true;
}

/* An IPv4-mapped IPv6 address is printed as the IPv4 address, as for keys everywhere. */
static size_t print_address(const weir_slice *bytes, char *buf)
{
    static const uint8_t mapped[12] = {[10] = 0xFF, [11] = 0xFF};
    bool v4 = bytes->len == 4 || memcmp(bytes->at, mapped, sizeof mapped) == 0;
    weir_address a = {.v6 = !v4};
    memcpy(a.bytes, bytes->at + (v4 ? bytes->len - 4 : 0), v4 ? 4 : 16);
    return weir_address_print(&a, weir_address_bits(&a), buf);
}

_Static_assert(WEIR_SPOP_TEXT_MAX >= WEIR_ADDRESS_TEXT_MAX && WEIR_SPOP_TEXT_MAX > WEIR_I64_MAX_LEN,
               "a text fits");

static size_t print_unsigned(uint64_t v, char *buf)
{
    size_t len = weir_decimal_len(v);
    weir_decimal_before((uint8_t *)buf + len, v);
    return len;
}

bool weir_spop_text(const weir_spop_value *v, char *buf, weir_slice *ret, bool *ret_is_address)
{
    *ret = (weir_slice){buf, 0};
    switch (v->type) {
    case WEIR_SPOP_NULL:
        return false;
    case WEIR_SPOP_BOOL:
    case WEIR_SPOP_UINT64:
        ret->len = print_unsigned(v->number, buf);
        break;
    case WEIR_SPOP_UINT32:
        ret->len = print_unsigned((uint32_t)v->number, buf);
        break;
    case WEIR_SPOP_INT32:
        ret->len = weir_i64_print(buf, (int32_t)(uint32_t)v->number);
        break;
    case WEIR_SPOP_INT64:
        ret->len = weir_i64_print(buf, (int64_t)v->number);
        break;
    case WEIR_SPOP_IPV4:
    case WEIR_SPOP_IPV6:
        ret->len = print_address(&v->bytes, buf);
        *ret_is_address = true;
        break;
    case WEIR_SPOP_STRING:
    case WEIR_SPOP_BINARY:
        *ret = v->bytes;
        break;
    }
    return true;
}

/* ---- writing --------------------------------------------------------------------------------- */

static bool has_room(weir_spop_writer *w, size_t n)
{
    w->full |= (size_t)(w->end - w->at) < n;
    return !w->full;
}

void weir_spop_put_byte(weir_spop_writer *w, unsigned byte)
{
    if (has_room(w, 1))
        *w->at++ = (uint8_t)byte;
}

void weir_spop_put_varint(weir_spop_writer *w, uint64_t v)
{
    if (v < 240) {
        weir_spop_put_byte(w, (unsigned)v);
        return;
    }
    weir_spop_put_byte(w, (unsigned)(v & 15) | 240);
    for (v = (v - 240) >> 4; v >= 128; v = (v - 128) >> 7)
        weir_spop_put_byte(w, (unsigned)(v & 127) | 128);
    weir_spop_put_byte(w, (unsigned)v);
}

void weir_spop_put_string(weir_spop_writer *w, const char *at, size_t len)
{
    weir_spop_put_varint(w, len);
    if (len == 0 || !has_room(w, len))
        return;
    memcpy(w->at, at, len);
    w->at += len;
}

void weir_spop_put_bool(weir_spop_writer *w, bool v)
{
    weir_spop_put_byte(w, WEIR_SPOP_BOOL | (v ? 16U : 0));
}

void weir_spop_put_uint32(weir_spop_writer *w, uint32_t v)
{
    weir_spop_put_byte(w, WEIR_SPOP_UINT32);
    weir_spop_put_varint(w, v);
}

void weir_spop_put_int64(weir_spop_writer *w, int64_t v)
{
    weir_spop_put_byte(w, WEIR_SPOP_INT64);
    weir_spop_put_varint(w, (uint64_t)v);
}

void weir_spop_put_text(weir_spop_writer *w, const char *at, size_t len)
{
    weir_spop_put_byte(w, WEIR_SPOP_STRING);
    weir_spop_put_string(w, at, len);
}

static void put_big_endian(uint8_t *at, size_t v)
{
    at[0] = (uint8_t)(v >> 24);
    at[1] = (uint8_t)(v >> 16);
    at[2] = (uint8_t)(v >> 8);
    at[3] = (uint8_t)v;
}

weir_spop_writer weir_spop_begin(weir_buffer *out, size_t size, weir_spop_type type, uint32_t flags,
                                 uint64_t stream_id, uint64_t frame_id)
{
    weir_spop_writer w = {.full = true};
    if (!weir_buffer_reserve(out, WEIR_SPOP_PREFIX + size))
        return w;
    w.at = weir_buffer_tail(out) + WEIR_SPOP_PREFIX;
    w.end = w.at + size;
    w.full = false;
    weir_spop_put_byte(&w, type);
    put_big_endian(w.at, flags);
    w.at += 4;
    weir_spop_put_varint(&w, stream_id);
    weir_spop_put_varint(&w, frame_id);
    return w;
}

void weir_spop_end(weir_buffer *out, const weir_spop_writer *w)
{
    if (!w->at)
        return;
    uint8_t *begin = weir_buffer_tail(out);
    size_t len = (size_t)(w->at - begin);
    WEIR_ASSERT(w->at <= w->end && len > WEIR_SPOP_PREFIX);
    put_big_endian(begin, len - WEIR_SPOP_PREFIX);
    weir_buffer_added(out, len);
}
