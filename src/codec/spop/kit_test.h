/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_CODEC_SPOP_KIT_TEST_H
#define WEIR_CODEC_SPOP_KIT_TEST_H
/* Frames as HAProxy sends them, for the tests of sessions and the fuzz target. */

#include "codec/spop/session.h"

#define KIT __attribute__((unused)) static

/* The HELLO frame of HAProxy 2.6.12, with "option pipelining" and without the engine's id. */
#define HELLO                                                                                      \
    "\0\0\0\x51\x01\0\0\0\x01\0\0\x12supported-versions\x08\x03"                                   \
    "2.0\x0Emax-frame-size\x03\xFC\xF0\x06\x0C"                                                    \
    "capabilities\x08\x10pipelining,async"

/* Its health check. */
#define HEALTHCHECK                                                                                \
    "\0\0\0\x4E\x01\0\0\0\x01\0\0\x12supported-versions\x08\x03"                                   \
    "2.0\x0Emax-frame-size\x03\xFC\xF0\x06\x0C"                                                    \
    "capabilities\x08\0\x0Bhealthcheck\x11"

/* A NOTIFY frame of stream 1 with an argument of each kind that HAProxy sends. */
#define NOTIFY                                                                                     \
    "\0\0\0\xAF\x03\0\0\0\x01\0\x01\x0C"                                                           \
    "check-client\x03\x03src\x06\x7F\0\0\x01\x04"                                                  \
    "cost\x04\x01\x04path\x08\x02/a\x09"                                                           \
    "check-all\x08\x03src\x06\x7F\0\0\x01\x04path\x08\x02/a\x03ssl\x01\x04none\0\x02v6\x07\x20"    \
    "\x01\x0D\xB8\0\0\0\0\0\0\0\0\0\0\0\0\x03neg\x04\xFF\xF0\xFE\xFE\xFE\xFE\xFE\xFE\xFE\x0E\x03"  \
    "bin\x09\x14\xDA\x23\x61\x4E\x02\x46\x9A\x0D\x7C\x7B\xD1\xBD\xAB\x5C\x9C\x47\x4B\x19\x04\xDC"  \
    "\x03"                                                                                         \
    "big\x04\xF0\xF1\xA0\xA8\xE9\xE7\0\x05other\x01\x03src\x06\x7F\0\0\x01"

/* Its DISCONNECT frame. */
#define DISCONNECT                                                                                 \
    "\0\0\0\x31\x02\0\0\0\x01\0\0\x0Bstatus-code\x03\x02\x07message\x08\x12"                       \
    "a timeout occurred"

/* ---- other frames ---------------------------------------------------------------------------- */

/* Appends the beginning of a frame, and returns where it is, for end_frame(). */
KIT size_t begin_frame(weir_buffer *b, unsigned type, unsigned flags, unsigned stream,
                       unsigned frame)
{
    size_t at = weir_buffer_len(b);
    const uint8_t head[] = {0,
                            0,
                            0,
                            0,
                            (uint8_t)type,
                            0,
                            0,
                            0,
                            (uint8_t)flags,
                            (uint8_t)stream,
                            (uint8_t)frame}; /* ids below 240 */
    weir_buffer_append(b, head, sizeof head);
    return at;
}

KIT void end_frame(weir_buffer *b, size_t at)
{
    size_t len = weir_buffer_len(b) - at - WEIR_SPOP_PREFIX;
    uint8_t *prefix = weir_buffer_data(b) + at;
    for (int i = 0; i < 4; i++)
        prefix[i] = (uint8_t)(len >> (24 - 8 * i));
}

/* A string of less than 2288 bytes. */
KIT void add_string(weir_buffer *b, const char *text)
{
    size_t len = strlen(text);
    if (len < 240) {
        weir_buffer_append_byte(b, (uint8_t)len);
    } else {
        weir_buffer_append_byte(b, (uint8_t)(0xF0 | (len & 15)));
        weir_buffer_append_byte(b, (uint8_t)((len - 240) >> 4));
    }
    weir_buffer_append(b, text, len);
}

/* Begins a message with n arguments. */
KIT void add_message(weir_buffer *b, const char *name, unsigned n)
{
    add_string(b, name);
    weir_buffer_append_byte(b, (uint8_t)n);
}

/* An argument that is a string. */
KIT void add_text(weir_buffer *b, const char *name, const char *value)
{
    add_string(b, name);
    weir_buffer_append_byte(b, WEIR_SPOP_STRING);
    add_string(b, value);
}

/* A NOTIFY frame with one message that has the arguments `key` and `cost`. */
KIT void add_notify(weir_buffer *b, unsigned stream, const char *message, const char *key,
                    const char *cost)
{
    size_t at = begin_frame(b, WEIR_SPOP_NOTIFY, WEIR_SPOP_FIN, stream, 1);
    add_message(b, message, 2);
    add_text(b, "key", key);
    add_text(b, "cost", cost);
    end_frame(b, at);
}

#endif
