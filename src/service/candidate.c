/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* Candidates: limits that are compared with a rule's own limit on live traffic. A candidate decides
 * the same requests, from states of its own, and only the counters show its verdicts. */

#include "service/service_internal.h"

/* Returns the candidate that decides requests like this one, or NULL. A key with an override has
 * the override's limit on both sides, so there is nothing to compare. */
static const weir_rule_limit *candidate_of(const weir_resolved *at)
{
    const weir_rule *rule = at->rule;
    bool has = rule && rule->candidate.text && at->limit == &rule->limit;
    return has ? &rule->candidate : NULL;
}

/* The id of the candidate's states, which are reset with all keys of the rule. */
static uint64_t current_id(const weir_service *s, const weir_resolved *at)
{
    return weir_store_current_id(s->limiter->store, at->rule->candidate.id, at->rule->reset_id);
}

/* Returns whether a request is compared, unless its key has an override. */
static bool is_compared(const weir_resolved *at, const weir_request *request)
{
    return request->status == WEIR_OK && at->rule && at->rule->candidate.text &&
           !weir_resolved_is_listed(at) && request->cost > 0;
}

static int counter_of(const weir_request *request, bool candidate_allows)
{
    bool allows = request->decision.allowed && request->reason != WEIR_BY_SHADOW;
    if (allows)
        return candidate_allows ? CANDIDATE_BOTH_ALLOW : CANDIDATE_ONLY_CANDIDATE_DENIES;
    return candidate_allows ? CANDIDATE_ONLY_CURRENT_DENIES : CANDIDATE_BOTH_DENY;
}

void weir_candidates_take(weir_service *s, const weir_resolved *at, const weir_request *requests,
                          size_t n, int64_t now_ns)
{
    weir_store_request takes[WEIR_BATCH_MAX];
    size_t of[WEIR_BATCH_MAX], len = 0;
    WEIR_ASSERT(n <= WEIR_BATCH_MAX);
    for (size_t i = 0; i < n; i++) {
        if (!is_compared(&at[i], &requests[i]))
            continue;
        const weir_rule_limit *candidate = candidate_of(&at[i]);
        if (!candidate) {
            port_counter *counts = s->counters->candidate[at[i].rule->counts];
            port_bump_relaxed(&counts[CANDIDATE_OVERRIDDEN], 1);
            continue;
        }
        weir_resolved_fill(&takes[len], &at[i], &requests[i]);
        takes[len].policy = &candidate->policy;
        takes[len].policy_id = current_id(s, &at[i]);
        of[len++] = i;
    }
    weir_store_check_batch(s->limiter->store, takes, len, now_ns);
    for (size_t j = 0; j < len; j++) {
        if (takes[j].status != WEIR_OK) /* such as a key that the full store refuses */
            continue;
        uint32_t name = at[of[j]].rule->counts;
        int which = counter_of(&requests[of[j]], takes[j].decision.allowed);
        port_bump_relaxed(&s->counters->candidate[name][which], 1);
    }
}

void weir_candidate_repeat(weir_service *s, weir_verb verb, const weir_resolved *at,
                           const weir_request *request, int64_t now_ns)
{
    weir_store *store = s->limiter->store;
    const weir_rule_limit *candidate = candidate_of(at);
    weir_decision d;
    int64_t over;
    WEIR_ASSERT(verb == WEIR_VERB_RESET || verb == WEIR_VERB_REFUND || verb == WEIR_VERB_CHARGE);
    if (!candidate)
        return;
    /* A failure, such as of a policy without refunds, changes no answer. */
    if (verb == WEIR_VERB_RESET)
        (void)!weir_store_reset(store, current_id(s, at), at->key.at, at->key.len);
    else if (verb == WEIR_VERB_CHARGE)
        (void)!weir_store_charge(store, &candidate->policy, current_id(s, at), at->key.at,
                                 at->key.len, now_ns, request->cost, &d, &over);
    else
        (void)!weir_store_refund(store, &candidate->policy, current_id(s, at), at->key.at,
                                 at->key.len, now_ns, request->cost, &d);
}
