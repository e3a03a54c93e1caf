/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_ENGINE_REDIS_DENY_CACHE_H
#define WEIR_ENGINE_REDIS_DENY_CACHE_H
/* The deny cache holds the denials of servers until they expire, for at most one second. A key that
 * has used up its quota is answered from here, without a request to a server for the same answer.
 *
 * The cache never denies for longer than the server would, unless another process has reset or
 * refunded the key: this it does not know, so no denial is held for more than a second. A denial
 * with "retry after d" is held for d from the time when the request was sent, less a small part of
 * d, since two clocks may run at different rates.
 *
 * An entry is found by 128 bits of keyed hash over the rule's name, the policy's text and the key,
 * so no key is denied in place of another. The memory is fixed. In a full bucket of eight entries,
 * a new denial evicts the entry that expires first. A cache belongs to one thread. */

#include "service/engine.h"

typedef struct weir_deny_cache weir_deny_cache;

typedef struct weir_deny_key {
    uint64_t word[2];
} weir_deny_key;

/*  bytes   for the table; a value below 4096 is raised to 4096.
 *  secret  random: clients must not be able to guess it.
 * Returns WEIR_OK or WEIR_E_NOMEM. */
WEIR_NODISCARD weir_status weir_deny_cache_open(weir_deny_cache **ret, size_t bytes,
                                                const uint64_t secret[4]);
void weir_deny_cache_close(weir_deny_cache *d); /* accepts NULL */

/* Whether denials of this request may be cached: it is a take, a peek or a grant, keeps nothing,
 * and its policy does not count denials. Then a denial changes nothing at the server until it
 * expires. */
bool weir_deny_cache_may_hold(const weir_engine_request *q);

weir_deny_key weir_deny_key_of(const weir_deny_cache *d, const weir_engine_request *q);

/* Answers a request from the cache. The request is one that weir_deny_cache_may_hold().
 *  epoch  a number that changes when the key is reset or refunded. A denial of another epoch is
 *         removed.
 * Returns true if the request is denied. Then its status, decision, `granted` and next_ns are
 * written. False also if the cache does not know the figures that the request wants.
 * Times are whole microseconds, rounded up. `remaining` is at most what the server would return.
 * A cost larger than the denied one is answered if its wait follows from the cached wait: for one
 * layer of gcra, token-bucket, leaky-bucket or fixed-window. */
bool weir_deny_cache_find(weir_deny_cache *d, weir_deny_key key, uint32_t epoch, int64_t now_ns,
                          weir_engine_request *q);

/* Adds the reply to a request that weir_deny_cache_may_hold(), if the reply is a denial.
 *  sent_ns  at or before the server's decision.
 *  now_ns   at or after it. */
void weir_deny_cache_add(weir_deny_cache *d, weir_deny_key key, uint32_t epoch, int64_t sent_ns,
                         int64_t now_ns, const weir_engine_request *q);

/* Removes denials that expired at least one second ago, from the next part of the table. */
void weir_deny_cache_sweep(weir_deny_cache *d, int64_t now_ns);

/* The number of denials in the cache. */
size_t weir_deny_cache_keys(const weir_deny_cache *d);

/* For tests and assertions: whether each entry is found by its key, and the number of denials is
 * right. Reads the whole table. */
bool weir_deny_cache_sound(const weir_deny_cache *d);

#endif
