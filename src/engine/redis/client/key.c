/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* Names of keys, and hash slots as the Redis Cluster specification defines them. */

#include "engine/redis/client/wire.h"

#include <string.h>

/* ---- names ----------------------------------------------------------------------------------- */

uint64_t weir_redis_hash(weir_slice text)
{
    uint64_t h = 0xcbf29ce484222325;
    for (size_t i = 0; i < text.len; i++)
        h = (h ^ (uint8_t)text.at[i]) * 0x100000001b3;
    return h;
}

typedef struct writer {
    char *at;
    size_t len, size;
} writer;

static void add(writer *w, const char *bytes, size_t len)
{
    size_t space = w->len < w->size ? w->size - w->len : 0;
    size_t fits = len < space ? len : space;
    if (fits > 0)
        memcpy(w->at + w->len, bytes, fits);
    w->len += len;
}

static void add_hex(writer *w, char mark, uint64_t v)
{
    char text[17] = {mark};
    weir_hex64_print(v, text + 1);
    add(w, text, sizeof text);
}

size_t weir_redis_key(const char *prefix, const weir_engine_request *q, bool for_module,
                      uint64_t token, char *buf, size_t size)
{
    writer w = {buf, 0, size};
    add(&w, prefix, strlen(prefix));
    if (q->verb == WEIR_VERB_RESET_ALL) {
        add(&w, "#resets", 7);
        return w.len;
    }
    add(&w, "{", 1);
    add(&w, q->key.at, q->key.len);
    add(&w, "}:", 2);
    if (q->verb == WEIR_VERB_THROTTLE) {
        add(&w, "#throttle", 9);
        return w.len;
    }
    add(&w, q->name.at, q->name.len);
    if (token != 0)
        add_hex(&w, '?', token);
    if (!for_module && q->name.len > 0)
        add(&w, "#", 1);
    else if (!for_module)
        add_hex(&w, '#', weir_redis_hash(q->text));
    return w.len;
}

/* ---- slots ----------------------------------------------------------------------------------- */

/* CRC-16/XMODEM: polynomial 0x1021, initial value 0, not reflected. Four bits at a time. */
static uint32_t crc16(const char *bytes, size_t len)
{
    static const uint16_t of_nibble[16] = {0x0000, 0x1021, 0x2042, 0x3063, 0x4084, 0x50a5,
                                           0x60c6, 0x70e7, 0x8108, 0x9129, 0xa14a, 0xb16b,
                                           0xc18c, 0xd1ad, 0xe1ce, 0xf1ef};
    uint32_t crc = 0;
    for (size_t i = 0; i < len; i++) {
        uint32_t byte = (uint8_t)bytes[i];
        crc = ((crc << 4) & 0xffff) ^ of_nibble[(crc >> 12) ^ (byte >> 4)];
        crc = ((crc << 4) & 0xffff) ^ of_nibble[(crc >> 12) ^ (byte & 15)];
    }
    return crc;
}

uint32_t weir_redis_slot_of_tag(const char *tag, size_t len)
{
    return crc16(tag, len) % WEIR_REDIS_SLOTS;
}

uint32_t weir_redis_slot(const char *key, size_t len)
{
    const char *open = memchr(key, '{', len);
    if (open) {
        size_t left = len - (size_t)(open + 1 - key);
        const char *end = memchr(open + 1, '}', left);
        if (end && end > open + 1)
            return crc16(open + 1, (size_t)(end - open - 1)) % WEIR_REDIS_SLOTS;
    }
    return crc16(key, len) % WEIR_REDIS_SLOTS;
}
