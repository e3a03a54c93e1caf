/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* Four threads share a store and charge three keys. Together they admit exactly the limit. */

#include <weir/weir_store.h>

#include <pthread.h>
#include <stdio.h>
#include <string.h>

enum { THREADS = 4, USERS = 3, REQUESTS = 1000 };

static const char *const users[USERS] = {"alice", "bob", "carol"};

typedef struct worker {
    weir_store *store;
    const weir_policy *policy;
    uint64_t policy_id;
    int allowed[USERS];
} worker;

static void *work(void *arg)
{
    worker *w = arg;
    for (int i = 0; i < REQUESTS; i++) {
        const char *user = users[i % USERS];
        int64_t now_ns = 1000000000 + i; /* a real program reads its clock once a batch */
        weir_decision d;
        if (weir_store_check(w->store, w->policy, w->policy_id, user, strlen(user), now_ns, 1,
                             &d) == WEIR_OK)
            w->allowed[i % USERS] += d.allowed;
    }
    return NULL;
}

int main(void)
{
    static const char text[] = "sliding-log 100/m";
    weir_policy policy;
    weir_store *store;
    if (weir_policy_parse(&policy, text, strlen(text), NULL, NULL) != WEIR_OK ||
        weir_store_open(&store, NULL) != WEIR_OK)
        return 1;
    pthread_t threads[THREADS];
    worker workers[THREADS] = {0};
    for (int t = 0; t < THREADS; t++) {
        workers[t] = (worker){store, &policy, weir_store_policy_id(store, &policy), {0}};
        if (pthread_create(&threads[t], NULL, work, &workers[t]) != 0)
            return 1;
    }
    int allowed[USERS] = {0};
    for (int t = 0; t < THREADS; t++) {
        pthread_join(threads[t], NULL);
        for (int u = 0; u < USERS; u++)
            allowed[u] += workers[t].allowed[u];
    }
    for (int u = 0; u < USERS; u++)
        printf("%s: %d allowed\n", users[u], allowed[u]);
    weir_store_close(store);
    return 0;
}
