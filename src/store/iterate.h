/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_STORE_ITERATE_H
#define WEIR_STORE_ITERATE_H
/* One key's state as a store holds it, on its way from one store to another, or out to a person. */

#include <weir/weir_store.h>

#include "store/clock.h"
#include "store/image/image.h"
#include "store/state.h"

/* Calls fn for every key that the store holds, fresh or not, each as a whole, but not all as of one
 * moment. Any thread; fn must not call the store. */
void weir_store_each(weir_store *s, weir_key_state_fn fn, void *ctx);

/* Files a state that weir_store_each() told, of this store or of one with the same secret, in the
 * place of what the store has of that hash. Returns WEIR_OK, also if it is fresh by now and not
 * kept; WEIR_E_RANGE if it cannot be a state; WEIR_E_FULL, WEIR_E_NOMEM. Any thread. */
WEIR_NODISCARD weir_status weir_store_put(weir_store *s, const weir_key_state *stored);

/* What weir_store_now() goes by, as of about a second ago. Any thread. */
weir_clock_view weir_store_clock(const weir_store *s);

/* Makes weir_store_now() time_ns. No other thread may use the store. */
void weir_store_set_time(weir_store *s, int64_t time_ns);

/* Calls fn for every policy whose text the store's memory has, until it returns false. Any
 * thread. */
void weir_store_policies(weir_store *s,
                         bool (*fn)(void *ctx, uint64_t id, const char *text, size_t len),
                         void *ctx);

/* Notes a text that weir_store_policies() told, of this store or of one with the same secret. False
 * if there is no room. Any thread. */
bool weir_store_note_text(weir_store *s, uint64_t policy_id, const char *text, size_t len);

/* The memory of the store's file. */
weir_mapping weir_store_mapping(const weir_store *s);

/* The store's time: decisions are made at this or later. */
int64_t weir_store_seen_ns(const weir_store *s);

/* Notes what a policy's states are filed under, if it is not weir_store_policy_id(): for those who
 * look into a file. Any thread. */
void weir_store_note_policy(const weir_store *s, uint64_t policy_id, const weir_policy *p);

#endif
