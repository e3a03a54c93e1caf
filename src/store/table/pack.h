/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_STORE_PACK_H
#define WEIR_STORE_PACK_H
/* Compact encoding of states in the table. It does not store values that can be computed from the
 * policy and from the time at which the key is idle. So a state of 16 bytes takes 18 or 20 bytes
 * including its tag. The encoding loses only differences that have no effect. No other part of the
 * store knows the formats of states. */

#include "store/table/bucket.h"

#include "store/state.h"

/* The size of a state of `p` in words, 1..WEIR_ENTRY_WORDS; 0 if it is too large or grows. */
size_t weir_pack_words(const weir_policy *p);

/* Whether the state is one word, and that word is the time at which the key is idle. */
static inline bool weir_pack_is_time(const weir_policy *p)
{
    return p->layers == 1 && p->layer[0].format == WEIR_STATE_TAT_NS;
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
 * WEIR_CLASS_BITS of its tag are the class of that policy: of GCRA and of a token or leaky bucket,
 * the time in which it refills, rounded up to a power of two; of other policies, how their counts
 * are encoded. */
enum { WEIR_CLASS_MASK = (1 << WEIR_CLASS_BITS) - 1, WEIR_CLASS_TIME_MAX = 40 };

/* The class of a policy, 0..WEIR_CLASS_MASK. */
unsigned weir_pack_class(const weir_policy *p);

/* weir_rank() of an entry. */
uint64_t weir_pack_rank(const weir_bucket_entry *e, int64_t now_ns);

/* The used share of a key of GCRA that has its full quota again after left_ns. 2^(20 + class) ns is
 * the time in which a used-up key refills, rounded up: at most twice that time, except below
 * 1 ms. */
static inline unsigned weir_time_used(unsigned class, int64_t left_ns)
{
    uint64_t used = left_ns > 0 ? (uint64_t)left_ns >> (12 + class) : 0;
    return used < WEIR_USED_MAX ? (unsigned)used : WEIR_USED_MAX;
}

/* weir_pack_rank() of a TIME entry. */
static inline uint64_t weir_time_rank(uint64_t tag, int64_t fresh_at_ns, int64_t now_ns)
{
    unsigned class = (unsigned)tag & WEIR_CLASS_MASK;
    bool good = class <= WEIR_CLASS_TIME_MAX;
    return weir_rank(good ? weir_time_used(class, fresh_at_ns - now_ns) : 0, fresh_at_ns);
}

#endif
