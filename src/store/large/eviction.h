/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_STORE_EVICTION_H
#define WEIR_STORE_EVICTION_H
/* Eviction of large states: which keys are dropped when the memory for large states is full. It
 * first drops keys that have full quota, then samples keys and evicts the one closest to full
 * quota, then clears a whole stretch of memory. */

#include "store/large/index.h"

/* The block that memory is needed for. */
typedef struct weir_block_request {
    uint64_t hash;
    uint64_t words;
    unsigned level;
    uint64_t keep_at;    /* a block that must not be evicted, or 0 */
    weir_stripe *stripe; /* the stripe of `hash`, locked */
    weir_when_full when_full;
} weir_block_request;

/* Allocates a block for a state, and evicts others for it if there is no free memory. The block is
 * in the stripe's list of pending blocks, as WEIR_PENDING_ADDED.
 * Returns WEIR_OK; WEIR_E_NOMEM if the block cannot fit; WEIR_E_FULL under WEIR_REFUSE; WEIR_E_BUSY
 * if the stripe has too many pending blocks. */
weir_status weir_eviction_alloc(weir_large *l, const weir_block_request *want, uint64_t *ret_at);

#endif
