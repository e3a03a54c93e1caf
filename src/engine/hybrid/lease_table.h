/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_ENGINE_HYBRID_LEASE_TABLE_H
#define WEIR_ENGINE_HYBRID_LEASE_TABLE_H
/* The busy keys and their leases, in a hash table of fixed size. A slot first counts the requests
 * for a key. Once the key is busy, the slot holds its lease, a copy of the key and a reference to a
 * copy of the policy. Requests for a key without a lease are forwarded. */

#include "engine/hybrid/lease.h"
#include "engine/redis/client/client.h"
#include "service/engine.h"
#include "store/key_hash.h"

/* A longer key gets no lease. */
#define WEIR_LEASE_KEY_MAX 128

/* The most different policies of leases, by text and by the rule's name. */
#define WEIR_LEASE_POLICIES_MAX 1024

/* The data that all leases of one policy share, with a reference count. */
typedef struct weir_lease_policy {
    struct weir_lease_policy *next; /* in its chain of the hash table */
    size_t refs;                    /* slots */
    uint64_t id;
    uint64_t token; /* of its latest reset, as table.resets had it */
    weir_policy policy;
    weir_lease_plan plan;
    weir_slice text, name; /* in `bytes` */
    char bytes[];
} weir_lease_policy;

typedef struct weir_lease_slot {
    uint64_t hash;     /* of the policy's id and the key; 0: the slot is free */
    int64_t since_ns;  /* when counting began */
    uint32_t requests; /* requests since then */
    uint32_t key_len;
    weir_lease_policy *policy;              /* NULL: no lease, the slot only counts */
    struct weir_lease_slot *before, *after; /* in the list of leases, by check_ns */
    int64_t check_ns;
    int64_t seen_ns;          /* when the lease last could not admit a request */
    int64_t forward_until_ns; /* no waiting and no sync before then */
    struct wait *waits;       /* requests that wait for a probe */
    uint32_t probes;          /* probes in flight */
    uint32_t uses;            /* increases with each new key in the slot */
    weir_lease lease;
    char key[WEIR_LEASE_KEY_MAX];
} weir_lease_slot;

enum { WEIR_LEASE_CHAINS = 256 };

typedef struct weir_lease_table {
    weir_hash_keys hash;
    uint32_t *tag; /* of each slot: 32 bits of its hash; 0: free */
    weir_lease_slot *slot;
    size_t mask;                   /* slots - 1 */
    weir_lease_slot *first, *last; /* the list of leases */
    size_t leases;
    size_t policies;
    weir_lease_policy *chain[WEIR_LEASE_CHAINS];
    const weir_redis_resets *resets; /* may be NULL */
    int64_t interval_ns, idle_ns, count;
} weir_lease_table;

/*  memory_bytes  for the table. The number of slots is a power of two.
 *  t             to be closed in any case.
 * Returns WEIR_OK; WEIR_E_NOMEM; WEIR_E_IO without random. */
WEIR_NODISCARD weir_status weir_lease_table_open(weir_lease_table *t, size_t memory_bytes,
                                                 int64_t interval_ns, int64_t idle_ns,
                                                 int64_t count);
void weir_lease_table_close(weir_lease_table *t);

/* The slot with the lease of a request's key, or NULL. */
weir_lease_slot *weir_lease_table_find(weir_lease_table *t, const weir_engine_request *q,
                                       uint64_t hash);

/* The hash of a request's policy and key; never 0. */
uint64_t weir_lease_table_hash(const weir_lease_table *t, const weir_engine_request *q);

/* Counts a request for a key without a lease. The third request within idle_ns gives it a lease.
 *  q  with a key of 1..WEIR_LEASE_KEY_MAX bytes.
 * Returns the slot if it has a lease now, else NULL. */
weir_lease_slot *weir_lease_table_count(weir_lease_table *t, const weir_engine_request *q,
                                        uint64_t hash, int64_t now_ns);

/* Moves a slot with a lease to the end of the list: its interval begins. */
void weir_lease_table_reschedule(weir_lease_table *t, weir_lease_slot *s, int64_t now_ns);

/* Discards the leases of the policies that were reset since their tokens were read: all that is
 * known of a key, and its balance. */
void weir_lease_table_drop_resets(weir_lease_table *t);

/* Removes a lease. No request waits for it, and none is in flight. */
void weir_lease_table_remove(weir_lease_table *t, weir_lease_slot *s);

#endif
