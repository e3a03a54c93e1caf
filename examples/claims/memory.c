/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* Shows whether the states of many users fit into a store of a given size.
 *
 *     claims_memory POLICY USERS CHARGES SPACING TABLE LARGE
 *
 * Each user is charged CHARGES times one unit, SPACING seconds apart. TABLE and LARGE are the sizes
 * of the store's parts in bytes: for small states, with reservations, and for large ones. A user
 * who does not fit is evicted. */

#include <weir/weir_store.h>

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { NS_PER_S = 1000000000, ARGUMENTS = 7 };

/* Fills the store. Returns how many charges were allowed, or -1 if one failed. */
static int64_t charge_all(weir_store *store, const weir_policy *policy, int64_t users,
                          int64_t charges, int64_t spacing_s)
{
    uint64_t id = weir_store_policy_id(store, policy);
    int64_t allowed = 0;
    for (int64_t i = 0; i < charges; i++) {
        int64_t now_ns = (86400 + i * spacing_s) * NS_PER_S;
        for (int64_t user = 0; user < users; user++) {
            weir_decision d;
            if (weir_store_check(store, policy, id, &user, sizeof user, now_ns, 1, &d) != WEIR_OK)
                return -1;
            allowed += d.allowed;
        }
    }
    return allowed;
}

static void print_stats(weir_store *store, int64_t users, int64_t allowed)
{
    weir_store_stats stats = weir_store_stats_get(store);
    double size = (double)stats.memory_max;
    printf("%" PRId64 " users, %" PRId64 " charges in a store of %.1f MB, %.1f bytes a user: "
           "%" PRIu64 " evicted\n",
           users, allowed, size / 1e6, size / (double)users, stats.evicted);
}

int main(int argc, char **argv)
{
    weir_policy policy;
    if (argc != ARGUMENTS ||
        weir_policy_parse(&policy, argv[1], strlen(argv[1]), NULL, NULL) != WEIR_OK) {
        fprintf(stderr, "usage: claims_memory POLICY USERS CHARGES SPACING TABLE LARGE\n");
        return 2;
    }
    int64_t users = atoll(argv[2]), charges = atoll(argv[3]), spacing_s = atoll(argv[4]);
    size_t table = (size_t)atoll(argv[5]), large = (size_t)atoll(argv[6]);
    weir_store_options options = {.memory_bytes = table + large, .large_bytes = large};
    weir_store *store;
    if (users < 1 || weir_store_open(&store, &options) != WEIR_OK)
        return 1;
    int64_t allowed = charge_all(store, &policy, users, charges, spacing_s);
    if (allowed >= 0)
        print_stats(store, users, allowed);
    weir_store_close(store);
    return allowed < 0;
}
