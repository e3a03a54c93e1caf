/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_STORE_PACK_H
#define WEIR_STORE_PACK_H
/* Compact encoding of states in the table. It does not store values that can be computed from the
 * policy and from the time at which the key is idle. Most states of up to 16 bytes take 14 bytes
 * with the tag, see word.h; docs/internals/memory.md has the sizes of the others. The encoding
 * loses only differences that have no effect. Only pack.c, pair.c and word.c encode and decode
 * states. */

#include "store/table/bucket.h"

#include "core/algorithm.h"
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

/* How many layers a compact entry has: all but a block, which is over. The entry of a key whose
 * block is running or remembered has the words of the core. Pure. */
static inline uint32_t weir_pack_layers(const weir_policy *p)
{
    return __builtin_expect(p->layers == 1, 1) ? 1 : p->layers - weir_policy_blocks(p);
}

/* Whether the policy has one layer whose states may be words, see word.h. If so, a call should try
 * weir_table_take_word(). Its states may still be of another form. */
static inline bool weir_pack_is_single(const weir_policy *p)
{
    return p->layers == 1 && weir_pack_is_word(&p->layer[0]);
}

/* The same for weir_table_take_one(), if the states may be words or pairs of words, see the last
 * part of this file, beside a block. */
static inline bool weir_pack_is_fast(const weir_policy *p)
{
    if (__builtin_expect(p->layers == 1, 1))
        return weir_pack_is_word(&p->layer[0]);
    uint32_t layers = weir_pack_layers(p);
    return layers <= 2 && weir_pack_is_word(&p->layer[0]) &&
           (layers == 1 || weir_pack_is_word(&p->layer[1]));
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

/* The classes that a policy may have had before: in state version 2, and in the first builds of
 * version 3. */
enum { WEIR_FORMER_CLASSES = 4 };
void weir_pack_former_classes(const weir_policy *p, unsigned ret[WEIR_FORMER_CLASSES]);

/* weir_rank() of an entry. */
uint64_t weir_pack_rank(const weir_bucket_entry *e, int64_t now_ns);

/* The time from which on the key of an entry is idle. A mark is up to 511 ns later. For a TIME
 * entry, see weir_word_time(). */
static inline int64_t weir_pack_time(const weir_bucket_entry *e)
{
    return e->form == WEIR_FORM_TIME ? weir_word_time((uint64_t)e->fresh_at_ns) : e->fresh_at_ns;
}

/* ---- policies of two layers (pair.c) --------------------------------------------------------- */

/* The states of two layers in one entry of the table. Each of the two is a word of word.h, but not
 * one of TAT_TICKS. The later of the two words is the entry's time. The other word is stored in one
 * of two ways:
 *
 *     SHORT, LONG  two TATs: how much earlier the other one is
 *     ONE          the other word, which is below 2^62
 *
 * Each form has two more bits: which word is later, and whether a layer has used more than a
 * quarter of its limit (WEIR_CHEAP). */

/* Whether the states of a policy usually fit. Pure. */
bool weir_pair_fits(const weir_policy *p);

/* Encodes two words. Returns false if they do not fit.
 *  used  the larger share of the two layers; see weir_used_share(). */
bool weir_pair_encode(const weir_policy *p, const uint64_t words[2], unsigned used,
                      weir_bucket_entry *ret);

/* Decodes an entry. Returns false if it cannot belong to the policy. */
bool weir_pair_decode(const weir_policy *p, const weir_bucket_entry *e, uint64_t ret_words[2]);

/* Decides as weir_check() on two words, without a block. Returns false, with `words` and *ret
 * undefined, if weir_check() must decide.
 *  used  the share of the new state, written only if the words change. */
bool weir_pair_take(const weir_policy *p, uint64_t words[2], int64_t now_ns, int64_t cost,
                    weir_decision *ret, unsigned *used);

/* The used share of an entry of the form SHORT, LONG or ONE, see weir_used_share(): 128 if a layer
 * has used more than a quarter of its limit, else 0. */
unsigned weir_pair_used(const weir_bucket_entry *e);

#endif
