/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* Reservations as the store's callers see them, by key and policy; and what reserve.c asks of its
 * store. */

#include "store/inside.h"

/* ---- what reserve.c asks for ----------------------------------------------------------------- */

static weir_status run(void *ctx, const weir_policy *p, uint64_t hash, int64_t now_ns,
                       weir_state_fn fn, void *fn_ctx)
{
    return weir_store_run(ctx, p, hash, now_ns, fn, fn_ctx);
}

static weir_status policy_find(void *ctx, uint64_t policy_id, weir_policy *ret)
{
    char text[WEIR_POLICY_TEXT_MAX];
    size_t len = weir_store_policy_text(ctx, policy_id, text);
    bool known =
        len > 0 && weir_policy_parse(ret, text, len, weir_store_zones(ctx), NULL) == WEIR_OK;
    return known ? WEIR_OK : WEIR_E_ABSENT;
}

static void policy_note(void *ctx, uint64_t policy_id, const weir_policy *p)
{
    char text[WEIR_POLICY_TEXT_MAX];
    size_t len = weir_policy_print(p, text, sizeof text);
    weir_store_note_policy(ctx, policy_id, text, len);
}

weir_status weir_store_reserved_open(weir_store *s, weir_reserve **ret, void *part, size_t bytes,
                                     bool is_new, const weir_owners *owners, weir_secret secret)
{
    const weir_reserve_hooks hooks = {s, run, policy_find, policy_note};
    return weir_reserve_open(ret, part, bytes, is_new, owners, secret, &hooks);
}

/* ---- what the store's callers ask for -------------------------------------------------------- */

static bool good_time(int64_t now_ns)
{
    return now_ns >= 0 && now_ns <= WEIR_NOW_NS_MAX;
}

static bool good_cost(int64_t cost)
{
    return cost >= 0 && cost <= WEIR_COST_MAX;
}

weir_status weir_store_reserve(weir_store *s, const weir_policy *p, uint64_t policy_id,
                               const void *key, size_t key_len, int64_t now_ns, int64_t cost,
                               int64_t ttl_ns, weir_decision *ret, uint64_t *ret_id)
{
    if (!key || key_len < 1 || key_len > WEIR_KEY_MAX || !good_time(now_ns) || !good_cost(cost) ||
        ttl_ns < 1 || ttl_ns > WEIR_SPAN_NS_MAX)
        return WEIR_E_RANGE;
    uint64_t hash = weir_store_hash(s, policy_id, key, key_len);
    return weir_reserve_make(weir_store_reserved(s), p, policy_id, hash, now_ns, cost, ttl_ns, ret,
                             ret_id);
}

weir_status weir_store_commit(weir_store *s, uint64_t id, int64_t now_ns, int64_t actual,
                              weir_decision *ret, int64_t *ret_over)
{
    if (!good_time(now_ns) || !good_cost(actual))
        return WEIR_E_RANGE;
    return weir_reserve_settle(weir_store_reserved(s), id, now_ns, actual, ret, ret_over);
}

weir_status weir_store_cancel(weir_store *s, uint64_t id, int64_t now_ns, weir_decision *ret)
{
    int64_t over;
    return weir_store_commit(s, id, now_ns, 0, ret, &over);
}
