/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* The measured loops. They contain only the calls and what any caller must do for them. */

#include "subject.h"

#include "kit.h"

#include <string.h>

void subject_open(subject *s, const char *text, size_t memory_bytes, size_t large_bytes)
{
    const weir_store_options options = {.memory_bytes = memory_bytes, .large_bytes = large_bytes};
    if (weir_policy_parse(&s->policy, text, strlen(text), NULL, NULL) != WEIR_OK)
        die("a policy is invalid");
    if (weir_store_open(&s->store, &options) != WEIR_OK)
        die("cannot open a store");
    s->policy_id = weir_store_policy_id(s->store, &s->policy);
}

void subject_close(subject *s)
{
    weir_store_close(s->store);
}

uint64_t subject_single(const subject *s, const request_key *keys, size_t n, int64_t now_ns,
                        int64_t cost)
{
    uint64_t allowed = 0;
    for (size_t i = 0; i < n; i++) {
        weir_decision d;
        if (weir_store_check(s->store, &s->policy, s->policy_id, keys[i].text, keys[i].len, now_ns,
                             cost, &d) != WEIR_OK)
            die("a check failed");
        allowed += d.allowed;
    }
    return allowed;
}

void subject_prepare(const subject *s, const request_key *keys, size_t n, weir_key *ret)
{
    for (size_t i = 0; i < n; i++) {
        if (weir_store_key(s->store, s->policy_id, keys[i].text, keys[i].len, &ret[i]) != WEIR_OK)
            die("cannot prepare a key");
    }
}

static inline uint64_t take_prepared(const subject *s, weir_key key, int64_t now_ns, int64_t cost)
{
    weir_decision d;
    if (weir_store_check_key(s->store, &s->policy, key, now_ns, cost, &d) != WEIR_OK)
        die("a check failed");
    return d.allowed;
}

uint64_t subject_prepared(const subject *s, const weir_key *keys, size_t n, int64_t now_ns,
                          int64_t cost)
{
    uint64_t allowed = 0;
    for (size_t i = 0; i < n; i++)
        allowed += take_prepared(s, keys[i], now_ns, cost);
    return allowed;
}

uint64_t subject_prefetched(const subject *s, const weir_key *keys, size_t n, int64_t now_ns,
                            int64_t cost)
{
    uint64_t allowed = 0;
    for (size_t i = 0; i < n; i++) {
        if (i + SUBJECT_AHEAD < n)
            weir_store_prefetch(s->store, keys[i + SUBJECT_AHEAD]);
        allowed += take_prepared(s, keys[i], now_ns, cost);
    }
    return allowed;
}

uint64_t subject_batch(const subject *s, const request_key *keys, size_t n, int64_t now_ns,
                       int64_t cost)
{
    weir_store_request batch[KEY_BATCH];
    uint64_t allowed = 0;
    for (size_t i = 0; i < KEY_BATCH; i++)
        batch[i] =
            (weir_store_request){.policy = &s->policy, .policy_id = s->policy_id, .cost = cost};
    for (size_t at = 0; at < n; at += KEY_BATCH) {
        for (size_t i = 0; i < KEY_BATCH; i++) {
            batch[i].key = keys[at + i].text;
            batch[i].key_len = keys[at + i].len;
        }
        weir_store_check_batch(s->store, batch, KEY_BATCH, now_ns);
        for (size_t i = 0; i < KEY_BATCH; i++) {
            if (batch[i].status != WEIR_OK)
                die("a check failed");
            allowed += batch[i].decision.allowed;
        }
    }
    return allowed;
}

uint64_t subject_sweep(const subject *s, uint64_t keys, int64_t now_ns, int64_t cost)
{
    enum { SOME = 32 * KEY_BATCH };
    request_key some[SOME];
    uint64_t allowed = 0;
    for (uint64_t at = 0; at < keys; at += SOME) {
        size_t n = keys - at < SOME ? (size_t)(keys - at) : SOME, whole = n - n % KEY_BATCH;
        keys_write(some, at, n);
        allowed += subject_batch(s, some, whole, now_ns, cost);
        allowed += subject_single(s, some + whole, n - whole, now_ns, cost);
    }
    return allowed;
}
