/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_SERVICE_POLICY_CACHE_H
#define WEIR_SERVICE_POLICY_CACHE_H
/* Policies by their text: a bounded cache of what was read before. Texts come from clients: nobody
 * may choose where in the cache they lie. One thread's. */

#include "service/engine.h"

typedef struct weir_policy_cache weir_policy_cache;

/* NULL if there is no memory. store and what zones refers to must outlive it. */
weir_policy_cache *weir_policy_cache_open(weir_store *store, const weir_zones *zones);
void weir_policy_cache_close(weir_policy_cache *t); /* accepts NULL */

/* The policy of a text, and what its states are filed under; both good until weir_policy_cache_collect(),
 * or as long as the policy is pinned.
 *  ret_error  written if the text is not a policy.
 * Returns WEIR_OK; WEIR_E_NOMEM; or as weir_policy_parse(). */
WEIR_NODISCARD weir_status weir_policy_cache_find(weir_policy_cache *t, const char *text,
                                                  size_t len, const weir_policy **ret,
                                                  uint64_t *ret_id, weir_policy_error *ret_error);

/* Its text as weir_policy_print() has it; good as long as the policy is. */
weir_slice weir_policy_cache_canonical(const weir_policy *p);

/* Keeps a policy that was found, until it is unpinned as often as it was pinned. */
void weir_policy_cache_pin(const weir_policy *p);
void weir_policy_cache_unpin(weir_policy_cache *t, const weir_policy *p);

/* Frees what had to make room. */
void weir_policy_cache_collect(weir_policy_cache *t);

#endif
