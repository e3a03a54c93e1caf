/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_STORE_PAIR_H
#define WEIR_STORE_PAIR_H
/* The states of two layers in one entry of the table. Each of the two is a word of word.h, but not
 * one of TAT_TICKS. The later of the two words is the entry's time. The other word is stored in one
 * of two ways:
 *
 *     SHORT, LONG  two TATs: how much earlier the other one is
 *     ONE          the other word, which is below 2^62
 *
 * Each form has two more bits: which word is later, and whether a layer has used more than a
 * quarter of its limit (WEIR_CHEAP). */

#include "store/table/bucket.h"
#include "store/table/word.h"

/* Whether the states of a policy usually fit. Pure. */
bool weir_pair_fits(const weir_policy *p);

/* Encodes two words. Returns false if they do not fit.
 *  used  the larger share of the two layers; see weir_used_share(). */
bool weir_pair_encode(const weir_policy *p, const uint64_t words[2], unsigned used,
                      weir_bucket_entry *ret);

/* Decodes an entry. Returns false if it cannot belong to the policy. */
bool weir_pair_decode(const weir_policy *p, const weir_bucket_entry *e, uint64_t ret_words[2]);

/* Decides as weir_check() on two words. Returns false, with `words` and *ret undefined, if
 * weir_check() must decide.
 *  used  the share of the new state, written only if the words change. */
bool weir_pair_take(const weir_policy *p, uint64_t words[2], int64_t now_ns, int64_t cost,
                    weir_decision *ret, unsigned *used);

/* The used share of an entry of the form SHORT, LONG or ONE, see weir_used_share(): 128 if a layer
 * has used more than a quarter of its limit, else 0. */
unsigned weir_pair_used(const weir_bucket_entry *e);

#endif
