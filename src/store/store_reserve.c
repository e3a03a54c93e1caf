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
    const weir_store *s = ctx;
    size_t len = weir_image_policy_text(s->image, policy_id, text);
    const weir_zones *zones = s->zones.find ? &s->zones : NULL;
    bool known = len > 0 && weir_policy_parse(ret, text, len, zones, NULL) == WEIR_OK;
    return known ? WEIR_OK : WEIR_E_ABSENT;
}

static void policy_note(void *ctx, uint64_t policy_id, const weir_policy *p)
{
    weir_store_note_policy(ctx, policy_id, p);
}

weir_status weir_store_reserved_open(weir_store *s, weir_part part)
{
    const weir_reserve_hooks hooks = {s, run, policy_find, policy_note};
    return weir_reserve_open(&s->reserved, part.at, part.bytes, weir_image_is_new(s->image),
                             weir_image_owners(s->image), s->secret, &hooks);
}

/* ---- what the store's callers ask for -------------------------------------------------------- */

weir_status weir_store_reserve(weir_store *s, const weir_policy *p, uint64_t policy_id,
                               const void *key, size_t key_len, int64_t now_ns, int64_t cost,
                               int64_t ttl_ns, weir_decision *ret, uint64_t *ret_id)
{
    if (!weir_good_key(key, key_len) || !weir_good_time(now_ns) || !weir_good_cost(cost) ||
        ttl_ns < 1 || ttl_ns > WEIR_SPAN_NS_MAX)
        return WEIR_E_RANGE;
    uint64_t hash = weir_store_hash(s, policy_id, key, key_len);
    weir_status st =
        weir_reserve_make(s->reserved, p, policy_id, hash, now_ns, cost, ttl_ns, ret, ret_id);
    weir_store_settle_disk(s);
    return st;
}

weir_status weir_store_commit(weir_store *s, uint64_t id, int64_t now_ns, int64_t actual,
                              weir_decision *ret, int64_t *ret_over)
{
    if (!weir_good_time(now_ns) || !weir_good_cost(actual))
        return WEIR_E_RANGE;
    weir_status st = weir_reserve_settle(s->reserved, id, now_ns, actual, ret, ret_over);
    weir_store_settle_disk(s);
    return st;
}

weir_status weir_store_cancel(weir_store *s, uint64_t id, int64_t now_ns, weir_decision *ret)
{
    int64_t over;
    return weir_store_commit(s, id, now_ns, 0, ret, &over);
}
