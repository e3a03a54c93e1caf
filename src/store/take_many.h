/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_STORE_TAKE_MANY_H
#define WEIR_STORE_TAKE_MANY_H
/* Transactions on keys of several stores, for programs that are built with the store. */

#include <weir/weir_store.h>

/* Does what weir_store_take_many() does, for requests of different stores.
 *  stores  the store of each request. Stores are locked in an order that follows from their
 *          secrets, so that processes cannot wait for each other, whatever the order of their
 *          requests. Two openings of one store, and stores with equal secrets, cannot be in one
 *          transaction.
 *  now_ns  the requests of a store are decided at the later of now_ns and the store's time.
 *  ret_ends_ns  NULL, or n times: when the leases of the requests end, as weir_store_take_lease()
 *               does. Written on WEIR_OK only.
 * Returns as weir_store_take_many(); WEIR_E_RANGE also for stores with equal secrets, with nothing
 * written. If the process is killed during the call, some stores may keep the charges, and others
 * not. Any thread. */
WEIR_NODISCARD weir_status weir_stores_take_many(weir_store *const stores[],
                                                 weir_store_request *requests, size_t n,
                                                 int64_t now_ns, size_t *ret_blocking,
                                                 int64_t *ret_ends_ns);

#endif
