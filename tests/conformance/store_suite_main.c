/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* Runs the conformance suite of stores on the in-memory store. */

#include "store_suite.h"

#include "tests/store/check.h"

#include <assert.h>
#include <stdlib.h>

enum { BATCH_MAX = 128 };

static void *open_store(size_t memory_bytes)
{
    static const uint8_t secret[16] = "0123456789abcde"; /* fixed: reproducible */
    weir_store *s;
    weir_store_options options = {.memory_bytes = memory_bytes, .secret = secret};
    if (weir_store_open(&s, &options) != WEIR_OK)
        abort();
    return s;
}

static void close_store(void *e)
{
    WEIR_CHECK(weir_store_check_all(e, false));
    weir_store_close(e);
}

/* Every second call prepares and prefetches the key first, which must make no difference. */
static weir_status check(void *e, const weir_policy *p, const char *key, size_t key_len,
                         int64_t now_ns, int64_t cost, weir_decision *ret)
{
    static _Thread_local unsigned calls;
    uint64_t id = weir_store_policy_id(e, p);
    weir_key prepared = {0};
    if (calls++ % 2 == 0)
        return weir_store_check(e, p, id, key, key_len, now_ns, cost, ret);
    weir_status st = weir_store_key(e, id, key, key_len, &prepared);
    if (st != WEIR_OK)
        return st;
    weir_store_prefetch(e, prepared);
    return weir_store_check_key(e, p, prepared, now_ns, cost, ret);
}

static weir_status refund(void *e, const weir_policy *p, const char *key, size_t key_len,
                          int64_t now_ns, int64_t cost, weir_decision *ret)
{
    return weir_store_refund(e, p, weir_store_policy_id(e, p), key, key_len, now_ns, cost, ret);
}

static weir_status reset(void *e, const weir_policy *p, const char *key, size_t key_len)
{
    return weir_store_reset(e, weir_store_policy_id(e, p), key, key_len);
}

static void batch(void *e, store_request *requests, size_t n, int64_t now_ns)
{
    weir_store_request r[BATCH_MAX];
    assert(n <= BATCH_MAX);
    for (size_t i = 0; i < n; i++)
        r[i] = (weir_store_request){.policy = requests[i].policy,
                                    .policy_id = weir_store_policy_id(e, requests[i].policy),
                                    .key = requests[i].key,
                                    .key_len = requests[i].key_len,
                                    .cost = requests[i].cost};
    weir_store_check_batch(e, r, n, now_ns);
    for (size_t i = 0; i < n; i++) {
        requests[i].status = r[i].status;
        requests[i].decision = r[i].decision;
    }
}

static weir_store_stats stats(void *e)
{
    return weir_store_stats_get(e);
}

int main(void)
{
    static const store_engine engine = {open_store, close_store, check, refund,
                                        reset,      batch,       stats};
    return store_suite_run(&engine);
}
