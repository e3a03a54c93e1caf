/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* Decides on a batch of requests. The decisions are the same as one by one, but faster: the store
 * prefetches the states of all keys before it decides on the first. */

#include <weir/weir_store.h>

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { REQUESTS = 5 };

int main(void)
{
    static const char text[] = "gcra 1/s burst 2";
    static const char *const users[REQUESTS] = {"alice", "bob", "alice", "alice", "carol"};
    weir_policy policy;
    weir_store *store;
    if (weir_policy_parse(&policy, text, strlen(text), NULL, NULL) != WEIR_OK ||
        weir_store_open(&store, NULL) != WEIR_OK)
        return 1;
    weir_store_request requests[REQUESTS] = {0};
    for (int i = 0; i < REQUESTS; i++) {
        requests[i].policy = &policy;
        requests[i].policy_id = weir_store_policy_id(store, &policy);
        requests[i].key = users[i];
        requests[i].key_len = strlen(users[i]);
        requests[i].cost = 1;
    }
    weir_store_check_batch(store, requests, REQUESTS, 1000000000);
    for (int i = 0; i < REQUESTS; i++) {
        const weir_decision *d = &requests[i].decision;
        if (requests[i].status != WEIR_OK)
            return 1;
        printf("%s: %s, %" PRId64 " remaining\n", users[i], d->allowed ? "allowed" : "denied",
               d->remaining);
    }
    weir_store_close(store);
    return 0;
}
