/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_ENGINE_REDIS_DENY_H
#define WEIR_ENGINE_REDIS_DENY_H
/* The keys that are known to be denied, and until when: a hot key that has run dry is answered from
 * here instead of asking for the same answer again. It never says "denied" for longer than the
 * server would: a denial that came back with "retry after d" is held for d from the time that the
 * request was sent, less a part of it for clocks that do not run alike.
 *
 * A key is held by 128 bits of keyed hash over the rule's name, the policy's text and the key, so
 * that no key is ever denied for another. The memory is fixed: a new denial takes the place of the
 * one of its bucket of 8 that ends soonest. One thread's. */

#include "service/engine.h"

typedef struct weir_deny weir_deny;

typedef struct weir_deny_id {
    uint64_t word[2];
} weir_deny_id;

typedef enum weir_deny_known {
    WEIR_DENY_NOTHING,
    WEIR_DENY_ENDED, /* it was denied until a moment ago, and the wait was much longer than the way
                          to the server: one should ask before all do ... */
    WEIR_DENY_CLAIMED, /* ... and one does */
    WEIR_DENY_DENIED
} weir_deny_known;

/*  bytes   for the table; at least 4096 are taken.
 *  secret  that nobody can guess: random.
 * Returns WEIR_OK or WEIR_E_NOMEM. */
WEIR_NODISCARD weir_status weir_deny_open(weir_deny **ret, size_t bytes, const uint64_t secret[4]);
void weir_deny_close(weir_deny *d); /* accepts NULL */

/* Whether a denial of this request changes nothing at the server, and holds until its time: so for
 * takes, peeks and grants by policies in which denials are not counted. */
bool weir_deny_holds(const weir_engine_request *q);

weir_deny_id weir_deny_id_of(const weir_deny *d, const weir_engine_request *q);

/* What is known of a request that weir_deny_holds() of.
 *  epoch  a number that changes when the key is reset or refunded: what was learned in another one
 *         is forgotten.
 * On WEIR_DENY_DENIED the request's status, decision and granted are written: the times are whole
 * microseconds, rounded up; `remaining` may be less than the server would say by now, never more. A
 * cost larger than the one that was denied is answered where its wait follows from that one's (one
 * layer of gcra, token-bucket, leaky-bucket or fixed-window); else nothing is known of it. */
weir_deny_known weir_deny_look(weir_deny *d, weir_deny_id id, uint32_t epoch, int64_t now_ns,
                               weir_engine_request *q);

/* Learns from the answer of a request that weir_deny_holds() of, if it is a denial.
 *  sent_ns  not later than the server decided.
 *  now_ns   not earlier than that. */
void weir_deny_learn(weir_deny *d, weir_deny_id id, uint32_t epoch, int64_t sent_ns, int64_t now_ns,
                     const weir_engine_request *q);

/* Of a key whose denial has ended: so many units were left when a server was asked. Requests for
 * no more than that in all need not wait for one that asks first: nothing is known of them. */
void weir_deny_left(weir_deny *d, weir_deny_id id, int64_t left);

/* Of a key whose denial has ended: somebody asks, and is waited for until then; INT64_MIN: nobody
 * does. */
void weir_deny_claim(weir_deny *d, weir_deny_id id, int64_t until_ns);

/* Has what is known of a key known in another table too, of the same secret. */
void weir_deny_copy(weir_deny *to, const weir_deny *from, weir_deny_id id);

/* Forgets what has ended a second ago or earlier, in the next part of the table. */
void weir_deny_sweep(weir_deny *d, int64_t now_ns);

/* Keys that are held. */
size_t weir_deny_keys(const weir_deny *d);

#endif
