/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_STORE_LEASE_H
#define WEIR_STORE_LEASE_H
/* Leases without a record, for programs that are built with the store. What a request holds of a
 * concurrent layer is known by the time at which its lease ends. A holder that remembers this time
 * can give the units back and renew the lease. So there is no limit on the number of holders, and
 * none waits for the lock of the reservations. The charges of the other layers stay, so these need
 * no refunds. If the holder is killed, the lease ends by itself. */

#include <weir/weir_store.h>

/* Decides as weir_store_check_keep(), on the arguments in *request, and writes its results.
 *  ret_ends_ns  when the lease of the request ends; 0 if it holds nothing: it was denied, it has a
 *               cost of 0, or the policy has no concurrent layer. Written on WEIR_OK only.
 * Returns the status of the request. Any thread. */
WEIR_NODISCARD weir_status weir_store_take_lease(weir_store *s, weir_store_request *request,
                                                 int64_t now_ns, int64_t *ret_ends_ns);

/* Renews a lease for its whole length.
 *  of       the request that took it, in this store. Its limit may have changed in the meantime.
 *  ends_ns  in: when the lease ends. out: when the renewed one does; unchanged unless WEIR_OK.
 * Returns WEIR_OK; WEIR_E_ABSENT if nothing of it is held: it has ended, or the key was reset or
 * evicted; WEIR_E_RANGE for a bad time; WEIR_E_NOMEM or WEIR_E_FULL if the leases need more memory.
 * Any thread. */
WEIR_NODISCARD weir_status weir_store_renew_lease(weir_store *s, const weir_store_request *of,
                                                  int64_t now_ns, int64_t *ends_ns);

/* Gives back what is still held of a lease. One that was joined to a later one, because the limit
 * was lowered, is held until that ends. Arguments and statuses as above. */
WEIR_NODISCARD weir_status weir_store_return_lease(weir_store *s, const weir_store_request *of,
                                                   int64_t now_ns, int64_t ends_ns);

#endif
