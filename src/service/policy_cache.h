/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_SERVICE_POLICY_CACHE_H
#define WEIR_SERVICE_POLICY_CACHE_H
/* A cache of parsed inline policies, by their text. Clients choose the texts, so the hash is keyed:
 * a client cannot choose which entries collide. For one thread. */

#include "port/text.h"
#include "service/engine.h"

typedef struct weir_policy_cache weir_policy_cache;

/* Opens an empty cache; NULL if memory is exhausted. The store, and what `zones` refers to, must
 * outlive it. */
weir_policy_cache *weir_policy_cache_open(weir_store *store, const weir_zones *zones);
void weir_policy_cache_close(weir_policy_cache *t); /* accepts NULL */

/* Finds or parses a policy. The policy is valid until weir_policy_cache_collect(), or while it is
 * pinned.
 *  ret_id     the id under which the store keeps the policy's states.
 *  ret_error  written if the text is not a policy.
 * Returns WEIR_OK; WEIR_E_NOMEM; or as weir_policy_parse(). */
WEIR_NODISCARD weir_status weir_policy_cache_find(weir_policy_cache *t, const char *text,
                                                  size_t len, const weir_policy **ret,
                                                  uint64_t *ret_id, weir_policy_error *ret_error);

/* The text of a cached policy as weir_policy_print() writes it; valid as long as the policy. */
weir_slice weir_policy_cache_canonical(const weir_policy *p);

/* Pins a cached policy, which keeps it valid. Unpin it as many times. */
void weir_policy_cache_pin(const weir_policy *p);
void weir_policy_cache_unpin(weir_policy_cache *t, const weir_policy *p);

/* Frees the evicted entries that are not pinned. */
void weir_policy_cache_collect(weir_policy_cache *t);

#endif
