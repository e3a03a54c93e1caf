/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_CMD_SUGGEST_SEARCH_H
#define WEIR_CMD_SUGGEST_SEARCH_H
/* Finds the tightest policies that meet a target on the searched part of a trace. */

#include "cmd/suggest/decide.h"
#include "cmd/suggest/options.h"

/* A policy and what it does to the log. */
typedef struct suggest_choice {
    int64_t limit;
    int64_t burst;      /* 0 for an algorithm without one */
    int64_t worst_case; /* the most units of one key within the period; see weir policy */
    char text[WEIR_POLICY_TEXT_MAX]; /* canonical */
    suggest_result result;
} suggest_choice;

enum { SUGGEST_CHOICES_MAX = 64 }; /* the ladder of bursts has at most 58 */

/* The result. */
typedef struct suggest_found {
    /* With a burst: the smallest limit for each burst, by ascending burst and descending limit. All
     * of these meet the target. Without a burst: limits around the smallest one that meets it. */
    suggest_choice choice[SUGGEST_CHOICES_MAX];
    size_t len;        /* 0: no limit meets the target */
    size_t best;       /* the choice with the smallest worst case */
    bool complete;     /* no other limit and burst that meet the target have a smaller worst case */
    uint64_t allowed;  /* how many keys or requests of the searched part may be denied */
    int64_t period_ns; /* of the policies; 0 for a calendar window, or if len is 0 */
    suggest_result totals;
} suggest_found;

/* Parses the policy text of `limit` and `burst`. Prints an error about --per.
 * Returns 0, or the exit status after printing an error. */
int suggest_check_period(const suggest_options *o, const weir_zones *zones);

/* Searches.
 *  o    suggest_check_period() has accepted it.
 *  ret  zeroed by the caller.
 * Returns WEIR_OK, also if no limit meets the target; or WEIR_E_NOMEM. */
WEIR_NODISCARD weir_status suggest_search(const suggest_options *o, const weir_zones *zones,
                                          const suggest_trace *t, suggest_found *ret);

/* Whether the target is met in a part of the log. */
bool suggest_is_met(const suggest_target *t, const suggest_counts *part);

#endif
