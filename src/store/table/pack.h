/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_STORE_PACK_H
#define WEIR_STORE_PACK_H
/* Compact encoding of states in the table. It does not store values that can be computed from the
 * policy and from the time at which the key is idle. Most states of
 * up to 16 bytes take 14 bytes including the tag, see word.h; others take 18 or 20. The encoding
 * loses only differences that have no effect. Only this file, word.h and pair.h know the formats of
 * states. */

#include "store/table/bucket.h"

#include "store/state.h"
#include "store/table/word.h"

/* The size of a state of `p` in words, 1..WEIR_ENTRY_WORDS; 0 if it is too large or grows. */
size_t weir_pack_words(const weir_policy *p);

static inline bool weir_pack_is_word(const weir_layer *l)
{
    const unsigned formats = 1u << WEIR_STATE_TAT_NS | 1u << WEIR_STATE_TAT_TICKS |
                             1u << WEIR_STATE_WINDOW_WORD | 1u << WEIR_STATE_COUNTER;
    return formats >> l->format & 1;
}

/* Whether the states may be words or pairs of words, see word.h and pair.h. If so, a call should
 * try weir_table_take_one(). Its states may still be of another form. */
static inline bool weir_pack_is_fast(const weir_policy *p)
{
    if (__builtin_expect(p->layers == 1, 1))
        return weir_pack_is_word(&p->layer[0]);
    return p->layers == 2 && weir_pack_is_word(&p->layer[0]) && weir_pack_is_word(&p->layer[1]);
}

/* Encodes a state of weir_pack_words() words: sets form, fresh_at_ns and words of an entry.
 *  now_ns  the time of the decision.
 *  usage   of the state at now_ns, or WEIR_USAGE_UNKNOWN. */
void weir_pack(const weir_policy *p, const uint64_t *state, int64_t now_ns, weir_usage usage,
               weir_bucket_entry *ret);

/* Decodes the state of an entry. Returns false, with the state of an idle key, if the entry cannot
 * belong to the policy.
 *  ret_state  weir_pack_words(p) of WEIR_ENTRY_WORDS are written. */
bool weir_unpack(const weir_policy *p, const weir_bucket_entry *e,
                 uint64_t ret_state[WEIR_ENTRY_WORDS]);

/* ---- what an eviction forgives --------------------------------------------------------------- */

/* An eviction gives a key its whole quota back. So the entry to evict is the one that has used the
 * smallest share of its own limit. An entry does not say which policy it belongs to, but the low
 * WEIR_CLASS_BITS of its tag are the class of that policy: see word.h. */

/* The class of a policy, 0..WEIR_CLASS_MASK. */
unsigned weir_pack_class(const weir_policy *p);

/* weir_rank() of an entry. */
uint64_t weir_pack_rank(const weir_bucket_entry *e, int64_t now_ns);

/* The time from which on the key of an entry is idle. A mark is up to 511 ns later. For a TIME
 * entry, see weir_word_time(). */
static inline int64_t weir_pack_time(const weir_bucket_entry *e)
{
    return e->form == WEIR_FORM_TIME ? weir_word_time((uint64_t)e->fresh_at_ns) : e->fresh_at_ns;
}

#endif
