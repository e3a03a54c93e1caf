/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* Moves the state to larger memory, one level after the other, until weir_check() can decide. */

#include "cmd/kit/key_state.h"

#include "port/assert.h"
#include "port/port.h"

#include <string.h>

/* Moves the state to `level`: the present level of a state without words, or the next one. */
static weir_status grow(key_state *s, const weir_policy *p, unsigned level)
{
    size_t room = weir_state_words(p, level);
    WEIR_ASSERT(level <= WEIR_LEVEL_MAX && level == s->level + (s->words != NULL));
    uint64_t *larger = port_zalloc(room, sizeof *larger);
    if (!larger)
        return WEIR_E_NOMEM;
    if (s->words)
        weir_state_grow(p, s->words, s->level, larger);
    port_free(s->words);
    *s = (key_state){.words = larger, .room = room, .level = level};
    return WEIR_OK;
}

weir_status key_state_check(key_state *s, const weir_policy *p, int64_t now_ns, int64_t cost,
                            weir_decision *ret)
{
    weir_status st = s->words ? WEIR_OK : grow(s, p, s->level);
    while (st == WEIR_OK) {
        st = weir_check(p, s->words, s->level, now_ns, cost, ret);
        if (st != WEIR_E_ROOM)
            return st;
        st = s->level < WEIR_LEVEL_MAX ? grow(s, p, s->level + 1) : WEIR_E_NOMEM;
    }
    return st;
}

void key_state_reset(key_state *s, const weir_policy *p)
{
    size_t words = weir_state_words(p, 0);
    if (s->room < words)
        key_state_free(s);
    if (s->words)
        memset(s->words, 0, words * sizeof *s->words);
    s->level = 0;
}

void key_state_free(key_state *s)
{
    port_free(s->words);
    *s = (key_state){0};
}
