/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_STORE_STATE_H
#define WEIR_STORE_STATE_H
/* One key's state: the callback that decides on it, when it may be dropped, and its serialised
 * form. */

#include <weir/weir.h>

#include "core/check.h"

/* Decides on a state and changes it. It may run several times for one call, each time on a new
 * copy, and the last run counts. So it must be pure but for *state and what it writes to ctx.
 *  state      weir_state_words(p, level) words, all zero for a key with full quota. They are sound:
 *             see weir_state_sound(). The changed state is kept if the function returns WEIR_OK.
 *  ret_usage  weir_usage_of() the new state. May be left unwritten. */
typedef weir_status (*weir_state_fn)(void *ctx, const weir_policy *p, uint64_t *state,
                                     unsigned level, int64_t now_ns, weir_usage *ret_usage);

/* An internal status of calls on one key: nothing was done; the key is absent, and its state may
 * be under the id of a former limit. See kept.h. */
#define WEIR_E_ELSEWHERE ((weir_status)100)

/* Whether a state is all zero. */
static inline bool weir_state_is_zero(const weir_policy *p, const uint64_t *state, unsigned level)
{
    uint64_t any = 0;
    for (size_t i = weir_state_words(p, level); i-- > 0;)
        any |= state[i];
    return any == 0;
}

#define WEIR_USAGE_UNKNOWN ((weir_usage){-1, 0}) /* the initial value of *ret_usage */

/* The table's time is at most this much earlier than any time at which a decision was made. So it
 * is written at most 1000 times a second. */
enum { WEIR_SEEN_STEP_NS = 1000000 };

/* The lowest bits of a key's hash are the class of its policy, which tells the table how much of
 * its limit an entry has used: see table/word.h. */
enum { WEIR_CLASS_BITS = 6 };

/* The rank of a key in the order of eviction: the lowest goes first. Its high 8 bits are the used
 * share: see weir_used_share(). Among equal shares, the key that is idle first goes first. */
static inline uint64_t weir_rank(unsigned used, int64_t fresh_at_ns)
{
    return (uint64_t)used << 56 | (uint64_t)fresh_at_ns >> 8;
}

static inline unsigned weir_rank_used(uint64_t rank)
{
    return (unsigned)(rank >> 56);
}

/* A key with a larger used share has used much, and its eviction is worth avoiding. */
enum { WEIR_CHEAP = 64 };

/* A mark is the time at which a key is idle, rounded up to a multiple of 256 ns. Its low 8 bits are
 * the used share when the mark was made. */
static inline unsigned weir_mark_used(int64_t mark)
{
    return (unsigned)mark & WEIR_USED_MAX;
}

/* The mark of a state at now_ns. Of an idle key it is now_ns or less.
 *  usage  of the state at now_ns, or WEIR_USAGE_UNKNOWN. */
static inline int64_t weir_mark_of(const weir_policy *p, const uint64_t *state, unsigned level,
                                   int64_t now_ns, weir_usage usage)
{
    if (usage.fresh_after_ns < 0)
        usage = weir_usage_of(p, state, level, now_ns);
    if (usage.fresh_after_ns == 0)
        return now_ns;
    int64_t last_ns = INT64_MAX - WEIR_USED_MAX - 1;
    int64_t at_ns =
        usage.fresh_after_ns < last_ns - now_ns ? now_ns + usage.fresh_after_ns : last_ns;
    return ((at_ns | WEIR_USED_MAX) + 1) | usage.used;
}

/* A key's state in serialised form, for iteration and copying. */
typedef struct weir_key_state {
    uint64_t hash;       /* of key and policy, under the store's secret */
    int64_t fresh_at_ns; /* from then on the key has full quota; in some forms a mark, or a word of
                            table/word.h */
    uint32_t form;       /* how the words are encoded: a weir_form, or WEIR_LARGE_FORM */
    uint32_t level;      /* how far a state that grows has grown, else 0 */
    size_t words_len;
    const uint64_t *words; /* valid during the call only */
    /* weir_partition_name_hash() of its partition; 0: in none. Tables and large states do not read
     * it. */
    uint64_t partition;
} weir_key_state;

/* Returns false to stop the iteration. */
typedef bool (*weir_key_state_fn)(void *ctx, const weir_key_state *state);

#endif
