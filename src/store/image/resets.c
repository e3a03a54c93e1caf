/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* The table of generations. */

#include "store/image/resets.h"

#include "port/assert.h"

static uint64_t mark_in(uint64_t entry)
{
    return entry & ~WEIR_GENERATION_MAX;
}

/* The hash of a policy: not 0, with no bits of a generation. */
static uint64_t mark_of(uint64_t policy)
{
    uint64_t mark = mark_in(policy * 0x9e3779b97f4a7c15U); /* spreads ids that count up */
    return mark ? mark : WEIR_GENERATION_MAX + 1;
}

/* Finds the slot of a mark: the one that has it, else the first empty one. Returns false if the
 * table has neither, as only damage can cause.
 *  ret_entry  what is in the slot; 0: it is empty. */
static bool find(const weir_resets *r, uint64_t mark, size_t *ret_slot, uint64_t *ret_entry)
{
    size_t home = (size_t)(mark >> 56);
    for (size_t i = 0; i < WEIR_RESETS_SLOTS; i++) {
        *ret_slot = (home + i) % WEIR_RESETS_SLOTS;
        *ret_entry = port_word_load_relaxed(&r->slot[*ret_slot]);
        if (*ret_entry == 0 || mark_in(*ret_entry) == mark)
            return true;
    }
    return false;
}

uint64_t weir_resets_generation(const weir_resets *r, uint64_t policy)
{
    size_t slot;
    uint64_t entry;
    return find(r, mark_of(policy), &slot, &entry) ? entry & WEIR_GENERATION_MAX : 0;
}

size_t weir_resets_entries(const weir_resets *r, uint64_t ret[WEIR_RESETS_SLOTS])
{
    size_t n = 0;
    for (size_t i = 0; i < WEIR_RESETS_SLOTS; i++) {
        uint64_t entry = port_word_load_relaxed(&r->slot[i]);
        if (entry == 0)
            continue;
        if (ret)
            ret[n] = entry;
        n++;
    }
    return n;
}

/* Sets the generation of a mark to `generation`, or, if that is 0, raises it by one. Never lowers
 * it. The loop ends: it repeats only after another thread has changed the slot.
 *  most  entries, with a new one. */
static weir_status set(weir_resets *r, uint64_t mark, uint64_t generation, size_t most)
{
    WEIR_ASSERT(mark_in(mark) == mark && mark != 0 && generation <= WEIR_GENERATION_MAX);
    port_word_add_relaxed(&r->begun, 1); /* first: a process may be killed in between */
    for (;;) {
        size_t slot;
        uint64_t entry;
        if (!find(r, mark, &slot, &entry) || (entry == 0 && weir_resets_entries(r, NULL) >= most))
            return WEIR_E_FULL;
        uint64_t now = entry & WEIR_GENERATION_MAX;
        if (generation != 0 && generation <= now)
            return WEIR_OK;
        if (generation == 0 && now == WEIR_GENERATION_MAX)
            return WEIR_E_FULL;
        uint64_t next = mark | (generation != 0 ? generation : now + 1);
        if (port_word_cas_relaxed(&r->slot[slot], &entry, next))
            return WEIR_OK;
    }
}

weir_status weir_resets_raise(weir_resets *r, uint64_t policy, size_t most)
{
    return set(r, mark_of(policy), 0, most);
}

weir_status weir_resets_merge(weir_resets *r, uint64_t entry)
{
    uint64_t mark = mark_in(entry), generation = entry & WEIR_GENERATION_MAX;
    return mark == 0 || generation == 0 ? WEIR_E_RANGE : set(r, mark, generation, WEIR_RESETS_MAX);
}
