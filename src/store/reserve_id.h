/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_STORE_RESERVE_ID_H
#define WEIR_STORE_RESERVE_ID_H
/* The id of a reservation: the encryption of a counter and the number of its record, by a Feistel
 * network under the store's secret. So an id leads to its record without an index, and ids cannot
 * be guessed. For reserve.c alone. */

#include "store/siphash.h"

enum {
    WEIR_RESERVE_SLOT_BITS = 24,       /* bits of a record's number in an id */
    WEIR_RESERVE_FORMER_SLOT_BITS = 16 /* in the ids of state files of earlier versions */
};

enum { WEIR_RESERVE_ID_ROUNDS = 4 }; /* of the Feistel network */

static inline uint32_t weir_reserve_id_half(weir_secret secret, uint32_t word, uint32_t round)
{
    const uint32_t in[2] = {word, round};
    return (uint32_t)weir_siphash((weir_secret){secret.k0, ~secret.k1}, in, sizeof in);
}

static inline uint64_t weir_reserve_encrypt(weir_secret secret, uint64_t number)
{
    uint32_t left = (uint32_t)(number >> 32), right = (uint32_t)number;
    for (uint32_t i = 0; i < WEIR_RESERVE_ID_ROUNDS; i++) {
        uint32_t next = left ^ weir_reserve_id_half(secret, right, i);
        left = right;
        right = next;
    }
    return (uint64_t)left << 32 | right;
}

static inline uint64_t weir_reserve_decrypt(weir_secret secret, uint64_t id)
{
    uint32_t left = (uint32_t)(id >> 32), right = (uint32_t)id;
    for (uint32_t i = WEIR_RESERVE_ID_ROUNDS; i > 0; i--) {
        uint32_t before = right ^ weir_reserve_id_half(secret, left, i - 1);
        right = left;
        left = before;
    }
    return (uint64_t)left << 32 | right;
}

/* Returns a new id, which is not 0. */
static inline uint64_t weir_reserve_id(weir_secret secret, uint64_t *counter, uint32_t slot)
{
    uint64_t id = 0;
    while (id == 0)
        id = weir_reserve_encrypt(secret, ++*counter << WEIR_RESERVE_SLOT_BITS | slot);
    return id;
}

/* The numbers of the records that may have an id. */
typedef struct weir_reserve_slots {
    uint32_t of[2];
} weir_reserve_slots;

static inline weir_reserve_slots weir_reserve_slots_of(weir_secret secret, uint64_t id)
{
    uint32_t low = (uint32_t)weir_reserve_decrypt(secret, id);
    return (weir_reserve_slots){{low & ((1u << WEIR_RESERVE_SLOT_BITS) - 1),
                                 low & ((1u << WEIR_RESERVE_FORMER_SLOT_BITS) - 1)}};
}

#endif
