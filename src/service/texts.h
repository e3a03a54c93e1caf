/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_SERVICE_TEXTS_H
#define WEIR_SERVICE_TEXTS_H
/* Policies by their text: a bounded cache of what was read before. Texts come from clients: nobody
 * may choose where in the cache they lie. One thread's. */

#include "service/engine.h"

typedef struct weir_texts weir_texts;

/* NULL if there is no memory. store and what zones refers to must outlive it. */
weir_texts *weir_texts_open(weir_store *store, const weir_zones *zones);
void weir_texts_close(weir_texts *t); /* accepts NULL */

/* The policy of a text, and what its states are filed under; both good until weir_texts_settle(),
 * or as long as the policy is pinned.
 *  ret_error  written if the text is not a policy.
 * Returns WEIR_OK; WEIR_E_NOMEM; or as weir_policy_parse(). */
WEIR_NODISCARD weir_status weir_texts_find(weir_texts *t, const char *text, size_t len,
                                           const weir_policy **ret, uint64_t *ret_id,
                                           weir_policy_error *ret_error);

/* Its text as weir_policy_print() has it; good as long as the policy is. */
weir_slice weir_texts_canonical(const weir_policy *p);

/* Keeps a policy that was found, until it is unpinned as often as it was pinned. */
void weir_texts_pin(const weir_policy *p);
void weir_texts_unpin(weir_texts *t, const weir_policy *p);

/* Frees what had to make room. */
void weir_texts_settle(weir_texts *t);

#endif
