/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_STORE_STORED_H
#define WEIR_STORE_STORED_H
/* One key's state as a store holds it, on its way from one store to another, or out to a person. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct weir_stored {
    uint64_t hash; /* of key and policy, under the store's secret */
    int64_t fresh_at_ns;
    uint32_t form;  /* how the words are to be read: the part of the store that holds it knows */
    uint32_t level; /* of a state that grows, else 0 */
    size_t words_len;
    const uint64_t *words; /* only valid during the call */
} weir_stored;

/* Returns false to stop. */
typedef bool (*weir_stored_fn)(void *ctx, const weir_stored *stored);

#endif
