/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* Slots of openings. Ids ascend, so an id is used again only after 2^20 - 1 openings, as in a state
 * file. */

#include "store/image/process_slots.h"

#include "port/assert.h"
#include "store/robust_lock.h"

#define IDS ((UINT64_C(1) << WEIR_PROCESS_ID_BITS) - 1)

static port_presence *slot_of(const weir_process_slots *s, uint64_t id)
{
    return &s->slot[id % s->len];
}

bool weir_process_slots_init(weir_process_slots *s)
{
    for (uint64_t i = 0; i < s->len; i++) {
        if (!port_presence_init(&s->slot[i]))
            return false;
    }
    return true;
}

/* Counts an opening. Returns its id. */
static uint64_t next_id(port_word *openings)
{
    uint64_t n = port_word_load_relaxed(openings);
    while (!port_word_cas_relaxed(openings, &n, n + 1))
        continue;
    return n % IDS + 1;
}

bool weir_process_slots_take(weir_process_slots *s, port_word *openings, uint64_t *ret_id)
{
    WEIR_ASSERT(s->len > 0);
    /* Twice as often as there are slots: when ids start again at 1, slots are skipped. */
    for (uint64_t tries = 0; tries < 2 * s->len; tries++) {
        uint64_t id = next_id(openings);
        if (port_presence_take(slot_of(s, id), id)) {
            *ret_id = id;
            return true;
        }
    }
    return false;
}

void weir_process_slots_release(weir_process_slots *s, uint64_t id)
{
    port_presence_release(slot_of(s, id));
}

bool weir_process_slots_has(const weir_process_slots *s, uint64_t id)
{
    return port_presence_is_held(slot_of(s, id), id);
}
