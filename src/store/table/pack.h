/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_STORE_PACK_H
#define WEIR_STORE_PACK_H
/* Compact encoding of states in the table. It does not store values that can be computed from the
 * policy and from the time at which the key is idle. So a state of 16 bytes takes 18 or 20 bytes
 * including its tag. The encoding loses only differences that have no effect. No other part of the
 * store knows the formats of states. */

#include "store/table/bucket.h"

#include <weir/weir.h>

/* The size of a state of `p` in words, 1..WEIR_ENTRY_WORDS; 0 if it is too large or grows. */
size_t weir_pack_words(const weir_policy *p);

/* Whether the state is one word, and that word is the time at which the key is idle. */
static inline bool weir_pack_is_time(const weir_policy *p)
{
    return p->layers == 1 && p->layer[0].format == WEIR_STATE_TAT_NS;
}

/* Encodes a state of weir_pack_words() words: sets form, fresh_at_ns and words of an entry.
 *  now_ns    the time of the decision.
 *  after_ns  weir_fresh_after() of the state at now_ns, or WEIR_FRESH_UNKNOWN. */
void weir_pack(const weir_policy *p, const uint64_t *state, int64_t now_ns, int64_t after_ns,
               weir_bucket_entry *ret);

/* Decodes the state of an entry. Returns false, with the state of an idle key, if the entry cannot
 * belong to the policy.
 *  ret_state  weir_pack_words(p) of WEIR_ENTRY_WORDS are written. */
bool weir_unpack(const weir_policy *p, const weir_bucket_entry *e,
                 uint64_t ret_state[WEIR_ENTRY_WORDS]);

#endif
