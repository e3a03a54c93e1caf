/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_STORE_PACK_H
#define WEIR_STORE_PACK_H
/* A state in less room: what follows from the policy and from the time at which the state is fresh
 * is not held, so that the 16-byte states take 18 or 20 bytes with their tag. Nothing is lost but
 * differences that mean nothing. This is the one place of the store that knows what formats of
 * states there are. */

#include "store/table/bucket.h"

#include <weir/weir.h>

/* How many words a state of `p` takes, 1..WEIR_ENTRY_WORDS, or 0 if it is too large or grows. */
size_t weir_pack_words(const weir_policy *p);

/* The state is one word, which is itself the time at which it is fresh. */
static inline bool weir_pack_is_time(const weir_policy *p)
{
    return p->layers == 1 && p->layer[0].format == WEIR_STATE_TAT_NS;
}

/* Fills form, fresh_at_ns and words of an entry from a state of weir_pack_words() words.
 *  now_ns    when it was decided on.
 *  after_ns  weir_fresh_after() of it then, or WEIR_FRESH_UNKNOWN. */
void weir_pack(const weir_policy *p, const uint64_t *state, int64_t now_ns, int64_t after_ns,
               weir_bucket_entry *ret);

/* The state of an entry. False if the entry cannot be one of the policy's: then it is a fresh one.
 *  ret_state  weir_pack_words(p) of WEIR_ENTRY_WORDS are written. */
bool weir_unpack(const weir_policy *p, const weir_bucket_entry *e,
                 uint64_t ret_state[WEIR_ENTRY_WORDS]);

#endif
