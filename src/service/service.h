/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_SERVICE_SERVICE_H
#define WEIR_SERVICE_SERVICE_H
/* One request -> one decision: finds the policy of a text, and asks the store. It knows no socket
 * and no protocol. A service belongs to one thread; any number of them may share a store. */

#include "service/throttle.h"

#include <weir/weir_store.h>

typedef struct weir_service weir_service;

/* How many different policy texts a service keeps compiled; the one used longest ago goes first. */
#define WEIR_SERVICE_POLICIES_MAX 1024

/* store and what zones refers to must outlive the service. Returns WEIR_OK or WEIR_E_NOMEM. */
WEIR_NODISCARD weir_status weir_service_open(weir_service **ret, weir_store *store,
                                             const weir_zones *zones);
void weir_service_close(weir_service *s); /* accepts NULL */

/* Decides by a policy text. The state belongs to (the text's canonical form, key).
 *  ret_error  written if the text is not a policy: then the status is that of weir_policy_parse(),
 *             and ret_error->column is not 0. It is 0 on every other failure.
 * Returns also what weir_store_check() does. */
WEIR_NODISCARD weir_status weir_service_check(weir_service *s, const char *text, size_t text_len,
                                              const void *key, size_t key_len, int64_t now_ns,
                                              int64_t cost, weir_decision *ret,
                                              weir_policy_error *ret_error);

/* Decides as CL.THROTTLE does. The state belongs to the key alone.
 *  ret_throttle  why it could not be decided, if the status is WEIR_E_RANGE and this is not
 *                WEIR_THROTTLE_OK.
 * Returns WEIR_OK; WEIR_E_RANGE; WEIR_E_NOMEM. */
WEIR_NODISCARD weir_status weir_service_throttle(weir_service *s, const weir_throttle *t,
                                                 const void *key, size_t key_len, int64_t now_ns,
                                                 weir_throttle_answer *ret,
                                                 weir_throttle_status *ret_throttle);

#endif
