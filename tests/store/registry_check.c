/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* The walker of the policy registry. It includes policy_registry.c, which keeps the layout to
 * itself. */

#include "store/image/policy_registry.c" /* NOLINT(bugprone-suspicious-include) */

#include "tests/store/check.h"

enum { PIECES = WEIR_POLICY_REGISTRY_TEXT_BYTES / 8 };

/* Marks the bytes of a text. Returns false if another text has some of them. */
static bool mark(uint64_t marks[PIECES / 64], uint64_t begin, size_t bytes)
{
    bool alone = true;
    for (uint64_t at = begin / 8; at < (begin + bytes) / 8; at++) {
        uint64_t bit = (uint64_t)1 << at % 64;
        alone = alone && !(marks[at / 64] & bit);
        marks[at / 64] |= bit;
    }
    return alone;
}

/* Whether the search for an id reaches an entry. */
static bool is_reachable(const weir_policy_registry *r, uint64_t id, const entry *e)
{
    for (uint64_t i = 0; i < r->entries_len; i++) {
        const entry *other = entry_at(r, id, i);
        if (other == e || port_word_load_relaxed(&other->id) == 0)
            return other == e;
    }
    return false;
}

const char *weir_policy_registry_check(const weir_policy_registry *r)
{
    uint64_t marks[PIECES / 64] = {0}, used = port_word_load_relaxed(&part_of(r)->used);
    if (used % 8 != 0 || used > r->texts_len)
        return weir_wrong("the policies: %llu bytes used", (unsigned long long)used);
    for (size_t i = 0; i < r->entries_len; i++) {
        const entry *e = &part_of(r)->entries[i];
        uint64_t id = port_word_load_relaxed(&e->id), place = port_word_load_relaxed(&e->place);
        uint64_t begin = (place >> LEN_BITS & AT_MASK) - 1;
        copy c;
        size_t len = 0;
        if ((id == 0 && place == 0) || (place & ~USES_MASK) == FORGOTTEN || (place & TAKEN))
            continue;
        if (id == 0 || !is_reachable(r, id, e))
            return weir_wrong("policy %zu: its id is not found", i);
        if (place & FORGOTTEN ? !split(r, place, &begin, &len)
                              : place != 0 && !(len = read_text(r, id, place, &c)))
            return weir_wrong("policy %zu: its text is damaged", i);
        if (place != 0 && begin + bytes_of(len) > used)
            return weir_wrong("policy %zu: its text is beyond the end", i);
        if (place != 0 && !mark(marks, begin, bytes_of(len)))
            return weir_wrong("policy %zu: its text overlaps another", i);
    }
    return NULL;
}
