/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_CORE_ALGORITHM_H
#define WEIR_CORE_ALGORITHM_H
/* The table of facts: what is true of each algorithm and of each state format. Every other file
 * asks this one, and never compares with an algorithm to learn what it supports. A new algorithm
 * or format without its row does not compile. */

#include <weir/weir.h>

/* Buckets refill continuously or in steps, and share the arithmetic of core/gcra.h. Windows count
 * what was charged within a period. */
typedef enum weir_family { WEIR_FAMILY_BUCKET, WEIR_FAMILY_WINDOW } weir_family;

/* What an algorithm supports. A layer's options can only take from it. */
typedef enum weir_can {
    WEIR_CAN_REFUND = 1, /* weir_refund(). Not with count-denied */
    WEIR_CAN_SHARE = 2,  /* the hybrid engine may charge now and report the sum later. Not with
                            count-denied */
    WEIR_CAN_LEASE = 4,  /* the hybrid engine may charge in advance what it will admit */
    WEIR_CAN_DRAIN_EVENLY = 8,  /* one more unit of cost waits period / rate longer, and no request
                                   is delayed. Not with a refill in steps */
    WEIR_CAN_EMPTY_AT_ONCE = 16 /* everything charged leaves together, at the end of a window */
} weir_can;

enum { WEIR_ALGORITHMS = 8, WEIR_FORMATS = 8 };

typedef struct weir_algorithm_facts {
    const char *name; /* in a policy text */
    weir_family family;
    unsigned can; /* WEIR_CAN_* bits */
} weir_algorithm_facts;

/* Returns the row of an algorithm. Pure. */
const weir_algorithm_facts *weir_facts_of(weir_algorithm algorithm);

static inline bool weir_layer_is_bucket(const weir_layer *l)
{
    return weir_facts_of(l->algorithm)->family == WEIR_FAMILY_BUCKET;
}

/* Whether the layer supports all of the WEIR_CAN_* bits in `can`. Pure. */
bool weir_layer_can(const weir_layer *l, unsigned can);

/* Whether every layer supports all of the WEIR_CAN_* bits in `can`. Pure. */
bool weir_policy_can(const weir_policy *p, unsigned can);

/* Whether windows follow the calendar and so begin and end where a time zone says. Pure. */
static inline bool weir_layer_has_calendar(const weir_layer *l)
{
    switch (l->calendar) {
    case WEIR_ALIGNED:
    case WEIR_FROM_FIRST:
        return false;
    case WEIR_DAY:
    case WEIR_WEEK:
    case WEIR_MONTH:
    case WEIR_YEAR:
        return true;
    }
    return false;
}

/* Returns the words of a state if its format has a fixed size, else 0: weir_layer_words() knows the
 * rest. Pure. */
static inline size_t weir_format_words(weir_state_format format)
{
    static const unsigned char words[] = {
        [WEIR_STATE_TAT_NS] = 1,      [WEIR_STATE_TAT_TICKS] = 2,
        [WEIR_STATE_TAT_STEPS] = 2,   [WEIR_STATE_WINDOW_WORD] = 1,
        [WEIR_STATE_WINDOW_PAIR] = 2, [WEIR_STATE_LOG] = 0,    /* grows with what it holds */
        [WEIR_STATE_COUNTER] = 2,     [WEIR_STATE_SLICES] = 0, /* by the number of slices */
    };
    _Static_assert(sizeof words == WEIR_FORMATS, "each format has a size");
    return words[format];
}

#endif
