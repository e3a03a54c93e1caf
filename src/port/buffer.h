/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_PORT_BUFFER_H
#define WEIR_PORT_BUFFER_H
/* A byte queue with a stated maximum: bytes go in at the tail and come out at the front. It holds
 * what a connection has read or has still to write. It must not know what the bytes mean, nor any
 * socket. */

#include <assert.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* Owned by one thread at a time. `failed` may be read by anybody; the other fields are private. */
typedef struct weir_buffer {
    uint8_t *bytes;
    size_t begin;   /* the first byte held */
    size_t end;     /* one past the last byte held */
    size_t limit;   /* how far `end` may go with no call of weir_buffer_grow(); `end` once failed */
    size_t room;    /* bytes allocated, at most 2 * len_max */
    size_t len_max; /* of end - begin */
    bool failed;
} weir_buffer;

/* Makes `b` empty; allocates nothing.
 *  len_max  the most bytes it may hold, 1..SIZE_MAX/4. The memory behind them is at most twice
 * that, so that bytes are moved to the front no more often, on average, than once each. */
static inline void weir_buffer_init(weir_buffer *b, size_t len_max)
{
    assert(len_max >= 1 && len_max <= SIZE_MAX / 4);
    *b = (weir_buffer){.len_max = len_max};
}

/* Gives the memory back and clears `failed`; `b` is empty and may be used again. Accepts a zeroed
 * `b`. */
void weir_buffer_free(weir_buffer *b);

/* Empties `b` and clears `failed`; keeps the memory. */
void weir_buffer_clear(weir_buffer *b);

/* Bytes held, 0..len_max. */
static inline size_t weir_buffer_len(const weir_buffer *b)
{
    return b->end - b->begin;
}

/* Bytes of memory behind it, 0..2 * len_max. */
static inline size_t weir_buffer_memory(const weir_buffer *b)
{
    return b->room;
}

/* The bytes held, weir_buffer_len() of them; may be NULL if there are none.
 * Valid until the next call that adds, reserves, clears or frees. */
static inline uint8_t *weir_buffer_data(const weir_buffer *b)
{
    return b->begin == 0 ? b->bytes : b->bytes + b->begin; /* NULL + 0 is undefined in C */
}

/* The slow half of weir_buffer_reserve(), with its contract. */
bool weir_buffer_grow(weir_buffer *b, size_t n);

/* Makes room for `n` more bytes at weir_buffer_tail().
 * Returns false, and sets `failed`, if that would exceed len_max or there is no memory; the bytes
 * held stay as they were. `failed` is sticky: from then on nothing can be added, so that a reply
 * cut in the middle is never followed by another. */
static inline bool weir_buffer_reserve(weir_buffer *b, size_t n)
{
    return n <= b->limit - b->end || weir_buffer_grow(b, n);
}

/* Where the next byte goes; only after a weir_buffer_reserve() of at least 1 that returned true. */
static inline uint8_t *weir_buffer_tail(const weir_buffer *b)
{
    return b->end == 0 ? b->bytes : b->bytes + b->end; /* as above */
}

/* Says that `n` bytes were written at weir_buffer_tail(); at most as many as were reserved. */
static inline void weir_buffer_added(weir_buffer *b, size_t n)
{
    assert(n <= b->limit - b->end);
    b->end += n;
}

/* Adds `n` bytes, or none and sets `failed`; see weir_buffer_reserve().
 *  bytes  not inside `b`; may be NULL if n is 0. */
static inline void weir_buffer_append(weir_buffer *b, const void *bytes, size_t n)
{
    if (n == 0 || !weir_buffer_reserve(b, n))
        return;
    memcpy(b->bytes + b->end, bytes, n);
    b->end += n;
}

/* Adds one byte; else as weir_buffer_append(). */
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
        b->limit = b->room - b->begin > b->len_max ? b->begin + b->len_max : b->room;
}

/* Adds formatted text, as printf; at most WEIR_PRINTF_MAX - 1 bytes of it. */
#define WEIR_PRINTF_MAX 1536
__attribute__((format(printf, 2, 3))) void weir_buffer_printf(weir_buffer *b, const char *format,
                                                              ...);

#endif
