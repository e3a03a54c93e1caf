/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_STORE_RESERVATIONS_H
#define WEIR_STORE_RESERVATIONS_H
/* What programs that are built with the store can do with reservations, beside the functions of
 * weir_store.h. */

#include <weir/weir_store.h>

/* As weir_store_commit(), and then writes the time until a cost of 1 is allowed to *ret_next_ns:
 * INT64_MAX if no wait helps, or WEIR_NEXT_UNKNOWN. Any thread.
 *  ret_next_ns  may be NULL. */
WEIR_NODISCARD weir_status weir_store_commit_next(weir_store *s, uint64_t id, int64_t now_ns,
                                                  int64_t actual, weir_decision *ret,
                                                  int64_t *ret_over, int64_t *ret_next_ns);

/* The same for weir_store_renew(). */
WEIR_NODISCARD weir_status weir_store_renew_next(weir_store *s, uint64_t id, int64_t now_ns,
                                                 int64_t ttl_ns, weir_decision *ret,
                                                 int64_t *ret_next_ns);

#endif
