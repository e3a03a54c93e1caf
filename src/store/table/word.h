/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_STORE_WORD_H
#define WEIR_STORE_WORD_H
/* A state in one word, as a TIME entry of the table has it. Which states fit, and what the word
 * means, follows from the policy's layer:
 *
 *     TAT_NS       the TAT
 *     TAT_TICKS    bit 63; 59 bits of f, in ns since 2020-01-01; 4 bits of rest; where the TAT is
 *                  f - rest / num ns, and weir_layer.num is at most 16
 *     WINDOW_WORD  the end of the window, rounded up to a multiple of 2^bits ns, plus the count
 *     COUNTER      the end of the next window, rounded up likewise, plus both counts
 *
 * 2^bits is at most the length of a window, so the rounded time still tells which window it is. A
 * count is shifted left until the highest bit of the limit is the highest bit of its field, so the
 * used share can be read without the policy.
 *
 * The lowest bits of a tag are the class of the policy. It tells, without the policy, when a key is
 * idle and which share of its limit it has used:
 *
 *     0..40     TAT_NS, TAT_TICKS: a used-up key refills in 2^(20 + class) ns, rounded up to a
 *               power of two
 *     41..47    WINDOW_WORD: a count has 8, 12 .. 32 bits
 *     48..54    COUNTER: a count has 8, 10 .. 20 bits
 *     55..63    entries that are not one word: see pack.c
 *
 * The class is that of the policy id that a caller passes, see WEIR_POLICY_CLASS. If it is wrong,
 * decisions stay exact, but keys are evicted too early or too late. */

#include "store/state.h"

enum {
    WEIR_CLASS_MASK = (1 << WEIR_CLASS_BITS) - 1,
    WEIR_CLASS_TIME_MAX = 40,
    WEIR_CLASS_WINDOW = 41,
    WEIR_CLASS_COUNTER = 48,
    WEIR_CLASS_OTHER = 55
};

/* Whether the states of a layer usually fit in a word. Pure. */
bool weir_word_fits(const weir_layer *l);

/* The class of a layer of GCRA, or of a token or leaky bucket: 0..WEIR_CLASS_TIME_MAX. */
unsigned weir_time_class(const weir_layer *l);

/* The class of a layer for which weir_word_fits() is true. */
unsigned weir_word_class(const weir_layer *l);

/* Encodes a state of the core. Returns false if it does not fit in a word. */
bool weir_word_encode(const weir_layer *l, const uint64_t *state, uint64_t *ret_word);

/* Decodes a word. Returns false if it cannot be a word of this layer. */
bool weir_word_decode(const weir_layer *l, uint64_t word, uint64_t *ret_state);

/* Decides as weir_check() on the state in *word, which is 0 if the key is absent. Returns false,
 * with *word and *ret undefined, if weir_check() must decide: the old or the new state does not fit
 * in a word, the word is damaged, or the time is after 2116.
 *  l             any, also one for which weir_word_fits() is false.
 *  now_ns, cost  in range. */
bool weir_word_take(const weir_layer *l, uint64_t *word, int64_t now_ns, int64_t cost,
                    weir_decision *ret);

/* WEIR_TICKS is set in each word of TAT_TICKS. Such a word holds times from 2020 into 2038. */
#define WEIR_TICKS          ((uint64_t)1 << 63)
#define WEIR_TICKS_EPOCH_NS INT64_C(1577836800000000000)
enum { WEIR_TICKS_REST_BITS = 4 };

/* The time from which on a key is idle. Of a window, it is later than the exact time by less than
 * twice 2^bits ns, which is at most twice the length of the window. */
static inline int64_t weir_word_time(uint64_t word)
{
    if (!(word & WEIR_TICKS))
        return (int64_t)word;
    return WEIR_TICKS_EPOCH_NS + (int64_t)((word & ~WEIR_TICKS) >> WEIR_TICKS_REST_BITS);
}

/* The used share of a key of GCRA that has its full quota again after left_ns. 2^(20 + class) ns is
 * the time in which a used-up key refills, rounded up: at most twice that time, except below
 * 1 ms. */
static inline unsigned weir_time_used(unsigned class, int64_t left_ns)
{
    uint64_t used = left_ns > 0 ? (uint64_t)left_ns >> (12 + class) : 0;
    return used < WEIR_USED_MAX ? (unsigned)used : WEIR_USED_MAX;
}

/* weir_rank() of a word. */
uint64_t weir_word_rank(uint64_t tag, uint64_t word, int64_t now_ns);

#endif
