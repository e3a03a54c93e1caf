/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* The byte queue: growing, moving, formatting and freeing. It must not know what the bytes mean. */

#include "port/buffer.h"

#include "port/assert.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#define CAPACITY_FIRST 512 /* bytes that an idle connection keeps */

void weir_buffer_free(weir_buffer *b)
{
    free(b->bytes);
    *b = (weir_buffer){.len_max = b->len_max};
}

void weir_buffer_clear(weir_buffer *b)
{
    b->begin = b->end = 0;
    b->failed = false;
    b->limit = b->capacity < b->len_max ? b->capacity : b->len_max;
}

static void move_to_front(weir_buffer *b)
{
    size_t len = weir_buffer_len(b);
    WEIR_ASSERT(b->begin <= b->end && len <= b->len_max);
    if (b->begin > 0 && len > 0)
        memmove(b->bytes, b->bytes + b->begin, len);
    b->begin = 0;
    b->end = len;
    b->limit = b->capacity < b->len_max ? b->capacity : b->len_max;
}

static bool fail(weir_buffer *b)
{
    b->failed = true;
    b->limit = b->end;
    return false;
}

bool weir_buffer_grow(weir_buffer *b, size_t n)
{
    size_t len = weir_buffer_len(b);
    if (b->failed || n > b->len_max - len)
        return fail(b);
    /* Moving len bytes is amortised by the `begin` bytes that were consumed since the last move. */
    bool cheap = b->begin >= len && len + n <= b->capacity;
    move_to_front(b);
    if (cheap)
        return true;
    WEIR_ASSERT(b->capacity < 2 * b->len_max); /* at the maximum, moving is cheap */
    size_t capacity = b->capacity < CAPACITY_FIRST ? CAPACITY_FIRST : 2 * b->capacity;
    if (capacity < len + n)
        capacity = len + n;
    if (capacity > 2 * b->len_max)
        capacity = 2 * b->len_max;
    uint8_t *bytes = realloc(b->bytes, capacity);
    if (bytes) {
        b->bytes = bytes;
        b->capacity = capacity;
        move_to_front(b); /* sets the limit */
    }
    WEIR_ASSERT(b->end <= b->limit && b->limit <= b->capacity && b->capacity <= 2 * b->len_max);
    return len + n <= b->capacity || fail(b);
}

void weir_buffer_printf(weir_buffer *b, const char *format, ...)
{
    char text[WEIR_PRINTF_MAX];
    va_list args;
    va_start(args, format);
    int len = vsnprintf(text, sizeof text, format, args);
    va_end(args);
    WEIR_ASSERT(len >= 0);
    weir_buffer_append(b, text, (size_t)len < sizeof text ? (size_t)len : sizeof text - 1);
}
