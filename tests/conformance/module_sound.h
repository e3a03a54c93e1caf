/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_TESTS_MODULE_SOUND_H
#define WEIR_TESTS_MODULE_SOUND_H
/* Checks the structure of values of the module. */

#include "core/check.h"
#include "modules/redis/value.h"

static bool is_sound_state(weir_value v, size_t i)
{
    weir_state_view at;
    weir_value_at(v, i, &at);
    const weir_policy *p = &at.interned->policy;
    return weir_value_find(v, at.interned) == i && port_word_load_acquire(&at.interned->refs) > 0 &&
           at.words <= WEIR_STATE_WORDS_MAX && at.words == weir_state_words(p, at.level) &&
           (at.interned->throttle || weir_state_sound(p, at.state, at.level));
}

/* Whether each state is one that the core could have written, and its policy and its delta base
 * have references. */
static bool is_sound_value(weir_value v)
{
    enum { INLINE = 1, TAG = 3, BASE_AT = 2 }; /* as in value.c */
    size_t len = weir_value_len(v);
    uint32_t base = (uint32_t)(v >> BASE_AT) & (WEIR_BASES_MAX - 1);
    bool sound = v == 0 || len > 0;
    if ((v & TAG) == INLINE)
        sound = port_word_load_acquire(&weir_base_at(base)->refs) > 0;
    else if (v != 0 && (v & TAG) == 0)
        sound = len >= 2 && len <= WEIR_STATES_MAX;
    for (size_t i = 0; sound && i < len; i++)
        sound = is_sound_state(v, i);
    return sound;
}

#endif
