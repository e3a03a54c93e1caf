/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_ENGINE_HYBRID_LEASE_TABLE_H
#define WEIR_ENGINE_HYBRID_LEASE_TABLE_H
/* Which keys are busy, and their leases: a table of fixed size under a keyed hash. A key that is
 * asked about is counted in a slot first; only one that is busy gets a share, and with it a copy of
 * its text and of its policy. What finds no slot has no share: it is asked about below. */

#include "engine/hybrid/lease.h"
#include "service/engine.h"
#include "store/key_hash.h"

/* Bytes of a key that may have a share. */
#define WEIR_LEASE_KEY_MAX 128

/* Different policies, by text and by the name of their rule, that have leases at once. */
#define WEIR_LEASE_POLICIES_MAX 1024

/* What the leases of one policy have in common. */
typedef struct weir_lease_policy {
    struct weir_lease_policy *next; /* in its chain */
    size_t refs;                    /* slots */
    uint64_t id;
    weir_policy policy;
    weir_lease_plan plan;
    weir_slice text, name; /* in `bytes` */
    char bytes[];
} weir_lease_policy;

typedef struct weir_lease_slot {
    uint64_t hash;    /* of the policy's id and the key; 0: the slot is free */
    int64_t since_ns; /* requests are counted from here on ... */
    uint32_t asked;   /* ... so many */
    uint32_t key_len;
    weir_lease_policy *policy;              /* NULL: it has no share */
    struct weir_lease_slot *before, *after; /* in the list of those that have leases, by check_ns */
    int64_t check_ns;
    int64_t seen_ns;        /* when it was last asked about, and the share was not enough */
    int64_t below_until_ns; /* what is not answered here is asked below alone, until then */
    struct wait *waits;     /* the engine's: who waits for the answer to another request */
    uint32_t probes;        /* requests below that others wait for */
    uint32_t uses;          /* of this slot by different keys: to know one again */
    weir_lease lease;
    char key[WEIR_LEASE_KEY_MAX];
} weir_lease_slot;

enum { WEIR_LEASE_CHAINS = 256 };

typedef struct weir_lease_table {
    weir_hash_keys hash;
    uint32_t *tag; /* of each slot: a part of its hash, not 0; 0: free */
    weir_lease_slot *slot;
    size_t mask;                   /* slots - 1 */
    weir_lease_slot *first, *last; /* of those that have leases */
    size_t leases;
    size_t policies;
    weir_lease_policy *chain[WEIR_LEASE_CHAINS];
    int64_t interval_ns, idle_ns, count;
} weir_lease_table;

/*  memory_bytes  of the table; as many slots as fit there, a power of two.
 * Returns WEIR_OK; WEIR_E_NOMEM; WEIR_E_IO without random. */
WEIR_NODISCARD weir_status weir_lease_table_open(weir_lease_table *t, size_t memory_bytes,
                                                 int64_t interval_ns, int64_t idle_ns,
                                                 int64_t count);
void weir_lease_table_close(weir_lease_table *t);

/* The slot of a request's key, if it has one. */
weir_lease_slot *weir_lease_table_find(weir_lease_table *t, const weir_engine_request *q,
                                       uint64_t hash);

/* Never 0. */
uint64_t weir_lease_table_hash(const weir_lease_table *t, const weir_engine_request *q);

/* Counts a request about a key that has no share, and gives it one if it is busy: asked about more
 * than twice within idle_ns.
 *  q  with a key of 1..WEIR_LEASE_KEY_MAX bytes.
 * Returns the slot if it has a share now, else NULL. */
weir_lease_slot *weir_lease_table_count(weir_lease_table *t, const weir_engine_request *q,
                                        uint64_t hash, int64_t now_ns);

/* Puts a slot that has a share at the end of the list, to be looked at after an interval. */
void weir_lease_table_reschedule(weir_lease_table *t, weir_lease_slot *s, int64_t now_ns);

/* Takes its share away. Nobody waits there, and nothing is under way. */
void weir_lease_table_remove(weir_lease_table *t, weir_lease_slot *s);

#endif
