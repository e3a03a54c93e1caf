/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_SERVICE_PLACE_H
#define WEIR_SERVICE_PLACE_H
/* From an ask to the store's question and back, for all calls that decide. For this room only. */

#include "service/hub.h"

/* Where an ask's state is. */
typedef struct weir_place {
    const weir_rule *rule; /* NULL: by text */
    const weir_held *held; /* of the rule's */
    weir_on_list list;
    uint64_t policy_id;
    weir_slice key;
} weir_place;

/* Finds the policy and the key's place, and begins the answer. Returns a status as
 * weir_service_take() tells.
 *  seen  the caller's, for as long as *ret is used. */
weir_status weir_place_find(weir_service *s, weir_ask *ask, weir_rule_key *seen, weir_place *ret);

static inline bool weir_place_is_listed(const weir_place *at)
{
    return at->list != WEIR_ON_NO_LIST;
}

static inline bool weir_place_is_shadow(const weir_place *at)
{
    return at->rule && at->rule->rest->shadow;
}

/* The engine that has the state, if no list decides. */
static inline weir_engine_kind weir_place_engine(const weir_service *s, const weir_place *at)
{
    return at->rule ? at->rule->rest->engine : s->engine_of_texts;
}

/* The answer to a key that is on a list. */
void weir_place_decide_by_list(const weir_place *at, weir_ask *ask);

/* Fills in what the store is asked. What it answers is not cleared first: that would be most of the
 * work. */
static inline void weir_place_ask(weir_store_request *ret, const weir_place *at,
                                  const weir_ask *ask)
{
    ret->policy = ask->policy;
    ret->policy_id = at->policy_id;
    ret->key = at->key.at;
    ret->key_len = at->key.len;
    ret->cost = ask->cost;
}

/* Makes the store's answer that of the rule: one that only looks on denies nobody. */
void weir_place_finish(const weir_place *at, weir_ask *ask);

/* weir_service_peek(), with the place that was asked about; good until the next call on the
 * service. */
bool weir_place_peek(weir_service *s, weir_turn *turn, weir_ask *ask, int64_t now_ns,
                     weir_place *ret_at);

/* Counts what an ask was answered; not a peek. */
void weir_place_count(weir_service *s, const weir_place *at, const weir_ask *ask, int64_t now_ns);

#endif
