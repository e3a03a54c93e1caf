/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_TESTS_FUZZ_H
#define WEIR_TESTS_FUZZ_H
/* Shared by the libFuzzer targets: the entry point, assertions, copies of the input, and the
 * comparison of a session's runs. */

#include "port/buffer.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define CHECK(condition)                                                                           \
    do {                                                                                           \
        if (!(condition))                                                                          \
            abort();                                                                               \
    } while (0)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Copies the bytes to an allocation of exactly their size, so that ASan detects reads beyond it. */
static inline void *exact_copy(const void *bytes, size_t len)
{
    void *copy = malloc(len + (len == 0));
    CHECK(copy);
    if (len > 0)
        memcpy(copy, bytes, len);
    return copy;
}

/* Whether the input contains one of the words, in any case. */
static inline bool mentions(const uint8_t *bytes, size_t len, const char *const *words, size_t n)
{
    for (size_t i = 0; i < len; i++) {
        for (size_t w = 0; w < n; w++) {
            size_t word_len = strlen(words[w]);
            if (word_len <= len - i &&
                strncasecmp((const char *)bytes + i, words[w], word_len) == 0)
                return true;
        }
    }
    return false;
}

static inline void check_same_bytes(const weir_buffer *a, const weir_buffer *b)
{
    size_t len = weir_buffer_len(a);
    CHECK(weir_buffer_len(b) == len);
    CHECK(len == 0 || memcmp(weir_buffer_data(a), weir_buffer_data(b), len) == 0);
}

/* The output of a session for the same input in four runs. */
typedef struct session_runs {
    weir_buffer whole, pieces;               /* the store decides; the input is whole, or split */
    weir_buffer engine_whole, engine_pieces; /* an engine decides */
} session_runs;

/* Checks that the output does not depend on how the input was split, nor, unless
 * `engine_visible`, on the engine. Frees the buffers. */
static inline void check_runs(session_runs *r, bool engine_visible)
{
    check_same_bytes(&r->whole, &r->pieces);
    check_same_bytes(&r->engine_whole, &r->engine_pieces);
    if (!engine_visible)
        check_same_bytes(&r->whole, &r->engine_whole);
    weir_buffer_free(&r->whole);
    weir_buffer_free(&r->pieces);
    weir_buffer_free(&r->engine_whole);
    weir_buffer_free(&r->engine_pieces);
}

#endif
