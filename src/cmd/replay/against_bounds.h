/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_CMD_REPLAY_AGAINST_BOUNDS_H
#define WEIR_CMD_REPLAY_AGAINST_BOUNDS_H
/* Which decisions of a daemon are possible, if it decided each request at an unknown moment between
 * two times: when the request was sent, and when the reply arrived. For each key there are states
 * that are at least as strict as that of the daemon, and one that is at most as strict. If both
 * allow a request, the daemon must allow it; if both deny it, the daemon must deny it.
 *
 * This module knows neither logs nor connections. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <weir/weir.h>

typedef struct against_bounds against_bounds;

/* What was asked. */
typedef struct against_question {
    const void *key; /* identifies the key. It has a state for each policy text */
    const weir_policy *policy;
    int64_t cost;              /* 0..WEIR_COST_MAX */
    int64_t early_ns, late_ns; /* the daemon decided at a moment between them */
    uint64_t batch; /* questions of a batch have the same times; times of a later batch are later.
                       Begins at 1 */
    bool shadow;    /* the daemon allows also what the limit denies */
} against_question;

/* What the daemon said. */
typedef struct against_answer {
    bool allowed;
    bool reasoned; /* `shadowed` is known */
    bool shadowed; /* the limit denied the request, but the policy is in shadow mode */
    int64_t limit, remaining;
} against_answer;

typedef enum against_verdict {
    AGAINST_SAME,
    AGAINST_UNDECIDED, /* either answer is possible */
    AGAINST_DIFFERENT,
    AGAINST_NO_MEMORY
} against_verdict;

/* Returns NULL if there is no memory. */
against_bounds *against_bounds_open(void);
void against_bounds_close(against_bounds *b); /* accepts NULL */

/* Compares an answer with what is possible, and charges the request. After AGAINST_UNDECIDED the
 * answer of the daemon counts, after AGAINST_DIFFERENT that of the states. In a policy of one
 * layer, `limit` and `remaining` are compared, too.
 *  ret_offline  the decision of the strict state; written unless AGAINST_NO_MEMORY is returned.
 *               `allowed` is before the shadow. */
against_verdict against_bounds_judge(against_bounds *b, const against_question *q,
                                     const against_answer *answer, weir_decision *ret_offline);

/* Whether the key was judged before, by the same policy. */
bool against_bounds_knows(const against_bounds *b, const against_question *q);

#endif
