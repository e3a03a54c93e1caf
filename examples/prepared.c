/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* A proxy that knows the client's key once the client has connected. It prepares the key once, and
 * prefetches the key's state while it parses a request. */

#include <weir/weir_store.h>

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* What the proxy keeps of a connection. */
typedef struct connection {
    const char *client;
    weir_key key;
} connection;

enum { CONNECTIONS = 2, REQUESTS = 3 };

int main(void)
{
    static const char text[] = "gcra 1/s burst 2";
    connection connections[CONNECTIONS] = {{.client = "192.0.2.1"}, {.client = "192.0.2.7"}};
    weir_policy policy;
    weir_store *store;
    if (weir_policy_parse(&policy, text, strlen(text), NULL, NULL) != WEIR_OK ||
        weir_store_open(&store, NULL) != WEIR_OK)
        return 1;
    uint64_t policy_id = weir_store_policy_id(store, &policy);
    for (int i = 0; i < CONNECTIONS; i++) {
        connection *c = &connections[i];
        if (weir_store_key(store, policy_id, c->client, strlen(c->client), &c->key) != WEIR_OK)
            return 1;
    }
    for (int i = 0; i < CONNECTIONS * REQUESTS; i++) {
        const connection *c = &connections[i % CONNECTIONS];
        weir_decision d;
        weir_store_prefetch(store, c->key);
        /* Here the proxy parses the request. */
        if (weir_store_check_key(store, &policy, c->key, 1000000000, 1, &d) != WEIR_OK)
            return 1;
        printf("%s: %s, %" PRId64 " remaining\n", c->client, d.allowed ? "allowed" : "denied",
               d.remaining);
    }
    weir_store_close(store);
    return 0;
}
