/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_CORE_ALGORITHM_H
#define WEIR_CORE_ALGORITHM_H
/* The table of facts: what is true of each algorithm and of each state format. Other files query
 * this table, and do not compare a layer's algorithm with an enum constant. An algorithm or a
 * format without a row does not compile. modules/lua/weir.lua has the same table, FACTS. */

#include <weir/weir.h>

/* A bucket refills at a rate and uses the arithmetic of core/gcra.h. A window counts what was
 * charged within a period. A block counts nothing: it begins when another layer denies. A hold
 * counts what has not been given back, see core/leases.h. */
typedef enum weir_family {
    WEIR_FAMILY_BUCKET,
    WEIR_FAMILY_WINDOW,
    WEIR_FAMILY_BLOCK,
    WEIR_FAMILY_HOLD
} weir_family;

/* What an algorithm supports. */
typedef enum weir_can {
    WEIR_CAN_REFUND = 1,       /* it supports weir_refund(), except with count-denied */
    WEIR_CAN_SHARE = 2,        /* the hybrid engine can allow requests locally and charge their sum
                                   at the server later, except with count-denied */
    WEIR_CAN_LEASE = 4,        /* the hybrid engine can charge the server in advance */
    WEIR_CAN_DRAIN_EVENLY = 8, /* each further unit of cost adds period / rate to the wait, except
                                   with a refill in steps; requests are not delayed */
    WEIR_CAN_EMPTY_AT_ONCE = 16, /* the whole count expires at the end of a window */
    WEIR_CAN_DELAY = 32          /* an allowed request can have a weir_decision.delay_ns */
} weir_can;

typedef struct weir_algorithm_facts {
    const char *name; /* in a policy text */
    weir_family family;
    unsigned can;           /* WEIR_CAN_* bits */
    const char *limit_word; /* precedes the limit in a policy text. NULL for a bucket: the limit
                               precedes the rate. NULL for a window: the rate's number is the
                               limit. NULL for a block: it has neither */
    int64_t limits_at_most; /* windows: the most that a span as long as a window can allow, as a
                               multiple of the limit */
} weir_algorithm_facts;

enum { WEIR_ALGORITHMS = 10, WEIR_FORMATS = 11 };

/* Returns the row of an algorithm. Pure. */
static inline const weir_algorithm_facts *weir_facts_of(weir_algorithm algorithm)
{
    enum {
        COUNT = WEIR_CAN_REFUND | WEIR_CAN_SHARE,
        DRAIN = COUNT | WEIR_CAN_LEASE | WEIR_CAN_DRAIN_EVENLY,
        RESET = COUNT | WEIR_CAN_EMPTY_AT_ONCE
    };
    static const weir_algorithm_facts facts[] = {
        [WEIR_GCRA] = {"gcra", WEIR_FAMILY_BUCKET, DRAIN, "burst", 0},
        [WEIR_TOKEN_BUCKET] = {"token-bucket", WEIR_FAMILY_BUCKET, DRAIN, NULL, 0},
        [WEIR_LEAKY_BUCKET] = {"leaky-bucket", WEIR_FAMILY_BUCKET, DRAIN, "capacity", 0},
        [WEIR_LEAKY_QUEUE] = {"leaky-queue", WEIR_FAMILY_BUCKET, WEIR_CAN_DELAY, "depth", 0},
        [WEIR_FIXED_WINDOW] = {"fixed-window", WEIR_FAMILY_WINDOW, RESET, NULL, 2},
        [WEIR_SLIDING_LOG] = {"sliding-log", WEIR_FAMILY_WINDOW, COUNT, NULL, 1},
        [WEIR_SLIDING_COUNTER] = {"sliding-counter", WEIR_FAMILY_WINDOW, COUNT, NULL, 2},
        [WEIR_SLIDING_SLICES] = {"sliding-slices", WEIR_FAMILY_WINDOW, COUNT, NULL, 2},
        [WEIR_BLOCK] = {"block", WEIR_FAMILY_BLOCK, WEIR_CAN_REFUND, NULL, 0},
        [WEIR_CONCURRENT] = {"concurrent", WEIR_FAMILY_HOLD, WEIR_CAN_REFUND, NULL, 0},
    };
    _Static_assert(sizeof facts / sizeof facts[0] == WEIR_ALGORITHMS, "each algorithm has a row");
    return &facts[algorithm];
}

/* The reason of WEIR_E_UNSUPPORTED for a refund: it names the rows without WEIR_CAN_REFUND. */
#define WEIR_NO_REFUNDS "leaky-queue and count-denied policies do not support refunds"

static inline bool weir_layer_is_bucket(const weir_layer *l)
{
    return weir_facts_of(l->algorithm)->family == WEIR_FAMILY_BUCKET;
}

static inline bool weir_layer_is_block(const weir_layer *l)
{
    return weir_facts_of(l->algorithm)->family == WEIR_FAMILY_BLOCK;
}

/* Returns whether the policy has a block, which is its last layer. Pure. */
static inline bool weir_policy_blocks(const weir_policy *p)
{
    return weir_layer_is_block(&p->layer[p->layers - 1]);
}

static inline bool weir_layer_holds(const weir_layer *l)
{
    return weir_facts_of(l->algorithm)->family == WEIR_FAMILY_HOLD;
}

/* Returns the layer whose units are held and given back, of which a policy has at most one, or
 * NULL. Pure. */
static inline const weir_layer *weir_policy_hold(const weir_policy *p)
{
    for (uint32_t i = 0; i < p->layers; i++) {
        if (weir_layer_holds(&p->layer[i]))
            return &p->layer[i];
    }
    return NULL;
}

/* Returns whether the layer counts what is charged, see weir_charge(). A block begins by a denial
 * only, and what is held is not used up. Pure. */
static inline bool weir_layer_counts(const weir_layer *l)
{
    return !weir_layer_is_block(l) && !weir_layer_holds(l);
}

/* Returns whether any layer of the policy counts what is charged. Pure. */
static inline bool weir_policy_counts(const weir_policy *p)
{
    for (uint32_t i = 0; i < p->layers; i++) {
        if (weir_layer_counts(&p->layer[i]))
            return true;
    }
    return false;
}

/* The reason of WEIR_E_UNSUPPORTED for a charge: see weir_policy_counts(). */
#define WEIR_NO_CHARGES "policies with only concurrent and block layers do not support charges"

/* Returns whether the layer supports all of the WEIR_CAN_* bits in `can`. Pure. */
static inline bool weir_layer_can(const weir_layer *l, unsigned can)
{
    unsigned supported = weir_facts_of(l->algorithm)->can;
    if (l->count_denied)
        supported &= ~(unsigned)(WEIR_CAN_REFUND | WEIR_CAN_SHARE);
    if (l->stepped)
        supported &= ~(unsigned)WEIR_CAN_DRAIN_EVENLY;
    return (supported & can) == can;
}

/* Returns whether every layer supports all of the WEIR_CAN_* bits in `can`. Pure. */
static inline bool weir_policy_can(const weir_policy *p, unsigned can)
{
    for (uint32_t i = 0; i < p->layers; i++) {
        if (!weir_layer_can(&p->layer[i], can))
            return false;
    }
    return true;
}

/* Returns whether the layer has calendar windows: days, weeks, months or years of a time zone.
 * Pure. */
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

/* Returns the largest anchor of a calendar window, and 0 for other windows. Pure. */
static inline int32_t weir_anchor_max(weir_calendar calendar)
{
    switch (calendar) {
    case WEIR_DAY:
        return 24 * 60 - 1;
    case WEIR_WEEK:
        return 6;
    case WEIR_MONTH:
        return 30;
    case WEIR_YEAR:
        return 365;
    case WEIR_ALIGNED:
    case WEIR_FROM_FIRST:
        break;
    }
    return 0;
}

/* Returns the number of words of a state if its format has a fixed size, else 0. weir_layer_words()
 * returns it for every format. Pure. */
static inline size_t weir_format_words(weir_state_format format)
{
    static const unsigned char words[] = {
        [WEIR_STATE_TAT_NS] = 1,      [WEIR_STATE_TAT_TICKS] = 2,
        [WEIR_STATE_TAT_STEPS] = 2,   [WEIR_STATE_WINDOW_WORD] = 1,
        [WEIR_STATE_WINDOW_PAIR] = 2, [WEIR_STATE_LOG] = 0,    /* grows with what it holds */
        [WEIR_STATE_COUNTER] = 2,     [WEIR_STATE_SLICES] = 0, /* depends on the number of slices */
        [WEIR_STATE_BLOCK] = 1,       [WEIR_STATE_BLOCK_PAIR] = 2,
        [WEIR_STATE_LEASES] = 0, /* as a log */
    };
    _Static_assert(sizeof words == WEIR_FORMATS, "each format has a size");
    return words[format];
}

#endif
