/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* Reservations, for a cost that is known only afterwards: reserve the largest possible cost before
 * the work, and commit the real cost after it. The units return when a reservation expires. */

#include <weir/weir_store.h>

#include <inttypes.h>
#include <stdio.h>

#define SECOND_NS INT64_C(1000000000)

static weir_store *store;
static weir_policy policy;

/* Returns the id of the reservation, or 0 if it was denied. */
static uint64_t reserve(int64_t now_ns, int64_t units, int64_t ttl_ns)
{
    uint64_t id = 0;
    weir_decision d;
    weir_status st = weir_store_reserve(store, &policy, weir_store_policy_id(store, &policy),
                                        "alice", 5, now_ns, units, ttl_ns, &d, &id);
    if (st != WEIR_OK) {
        printf("%s\n", weir_status_str(st));
        return 0;
    }
    printf("%" PRId64 " reserved: %s, %" PRId64 " remaining\n", units,
           d.allowed ? "allowed" : "denied", d.remaining);
    return d.allowed ? id : 0;
}

static void commit(uint64_t id, int64_t now_ns, int64_t units)
{
    int64_t over;
    weir_decision d;
    weir_status st = weir_store_commit(store, id, now_ns, units, &d, &over);
    if (st == WEIR_OK)
        printf("it was %" PRId64 ": %" PRId64 " remaining%s\n", units, d.remaining,
               d.allowed ? "" : ", in debt");
    else
        printf("it was %" PRId64 ": %s\n", units, weir_status_str(st));
}

int main(void)
{
    const int64_t now_ns = SECOND_NS;
    if (weir_policy_parse(&policy, "fixed-window 1000/day", 21, NULL, NULL) != WEIR_OK ||
        weir_store_open(&store, NULL) != WEIR_OK)
        return 1;
    uint64_t one = reserve(now_ns, 800, 60 * SECOND_NS);
    (void)reserve(now_ns, 800, 60 * SECOND_NS); /* denied: 200 of 1000 are left */
    commit(one, now_ns, 300);
    uint64_t two = reserve(now_ns, 500, 60 * SECOND_NS);
    commit(two, now_ns, 900); /* 200 more than are left: a debt, until the day ends */

    if (weir_store_reset(store, weir_store_policy_id(store, &policy), "alice", 5) != WEIR_OK)
        return 1;
    uint64_t late = reserve(now_ns, 600, 60 * SECOND_NS);
    (void)reserve(now_ns + 60 * SECOND_NS, 1000,
                  SECOND_NS);                   /* allowed: the 600 units have returned */
    commit(late, now_ns + 60 * SECOND_NS, 600); /* too late, and charged nevertheless */
    weir_store_close(store);
    return 0;
}
