/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_PORT_BUFFER_H
#define WEIR_PORT_BUFFER_H
/* A byte queue with a maximum length: the input or the output buffer of a connection. Bytes are
 * added at the tail and consumed at the front. It must not know what the bytes mean, nor any
 * socket. */

#include <assert.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* For one thread at a time. `failed` is public; the other fields are private. */
typedef struct weir_buffer {
    uint8_t *bytes;
    size_t begin;    /* the first byte held */
    size_t end;      /* one past the last byte held */
    size_t limit;    /* `end` may reach it without weir_buffer_grow(); equal to `end` once failed */
    size_t capacity; /* bytes allocated, at most 2 * len_max */
    size_t len_max;  /* of end - begin */
    bool failed;
} weir_buffer;

/* Makes `b` empty; allocates nothing.
 *  len_max  the maximum length in bytes, 1..SIZE_MAX/4. The buffer allocates up to twice that, so
 *           that on average each byte is moved at most once. */
static inline void weir_buffer_init(weir_buffer *b, size_t len_max)
{
    assert(len_max >= 1 && len_max <= SIZE_MAX / 4);
    *b = (weir_buffer){.len_max = len_max};
}

/* Frees the memory, empties `b` and clears `failed`. `b` may be used again. Accepts zeros. */
void weir_buffer_free(weir_buffer *b);

/* Empties `b` and clears `failed`; keeps the memory. */
void weir_buffer_clear(weir_buffer *b);

/* Bytes held, 0..len_max. */
static inline size_t weir_buffer_len(const weir_buffer *b)
{
    return b->end - b->begin;
}

/* Bytes allocated, 0..2 * len_max. */
static inline size_t weir_buffer_memory(const weir_buffer *b)
{
    return b->capacity;
}

/* The bytes held, weir_buffer_len() of them; may be NULL if there are none. Valid until the next
 * call that adds, reserves, clears or frees. */
static inline uint8_t *weir_buffer_data(const weir_buffer *b)
{
    return b->begin == 0 ? b->bytes : b->bytes + b->begin; /* NULL + 0 is undefined in C */
}

/* The slow path of weir_buffer_reserve(), with the same contract. */
bool weir_buffer_grow(weir_buffer *b, size_t n);

/* Reserves space for `n` more bytes at weir_buffer_tail(). Returns false and sets `failed` if that
 * would exceed len_max, or memory is exhausted; the bytes held do not change. `failed` is sticky:
 * nothing can be added any more, so that no reply follows a truncated one. */
static inline bool weir_buffer_reserve(weir_buffer *b, size_t n)
{
    return n <= b->limit - b->end || weir_buffer_grow(b, n);
}

/* The address of the next byte. Valid after a weir_buffer_reserve() of at least 1 returned true. */
static inline uint8_t *weir_buffer_tail(const weir_buffer *b)
{
    return b->end == 0 ? b->bytes : b->bytes + b->end; /* as above */
}

/* Adds `n` bytes that the caller wrote at weir_buffer_tail(), at most as many as reserved. */
static inline void weir_buffer_added(weir_buffer *b, size_t n)
{
    assert(n <= b->limit - b->end);
    b->end += n;
}

/* Adds `n` bytes, or sets `failed` and adds none; see weir_buffer_reserve().
 *  bytes  not inside `b`; may be NULL if n is 0. */
static inline void weir_buffer_append(weir_buffer *b, const void *bytes, size_t n)
{
    if (n == 0 || !weir_buffer_reserve(b, n))
        return;
    memcpy(b->bytes + b->end, bytes, n);
    b->end += n;
}

/* Adds a string, as weir_buffer_append() does. */
static inline void weir_buffer_text(weir_buffer *b, const char *text)
{
    weir_buffer_append(b, text, strlen(text));
}

/* Adds one byte, as weir_buffer_append() does. */
static inline void weir_buffer_append_byte(weir_buffer *b, uint8_t byte)
{
    if (weir_buffer_reserve(b, 1))
        b->bytes[b->end++] = byte;
}

/* Drops `n` bytes from the front, 0..weir_buffer_len(). Moves and frees nothing. */
static inline void weir_buffer_consume(weir_buffer *b, size_t n)
{
    assert(n <= weir_buffer_len(b));
    b->begin += n;
    if (b->begin == b->end)
        b->begin = b->end = 0;
    if (b->failed)
        b->limit = b->end;
    else
        b->limit = b->capacity - b->begin > b->len_max ? b->begin + b->len_max : b->capacity;
}

/* Adds formatted text, as printf() does. Text beyond WEIR_PRINTF_MAX - 1 bytes is cut off. */
#define WEIR_PRINTF_MAX 1536
__attribute__((format(printf, 2, 3))) void weir_buffer_printf(weir_buffer *b, const char *format,
                                                              ...);

#endif
