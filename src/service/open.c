/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* Opens and closes services, and lets them adopt the limiter's active rules. On the path of a
 * decision, only weir_service_refresh() runs. */

#include "service/pending.h"
#include "service/service.h"

weir_status weir_service_open(weir_service **ret, weir_limiter *l)
{
    weir_service *s = port_zalloc(1, sizeof *s);
    if (!s)
        return WEIR_E_NOMEM;
    s->limiter = l;
    s->policies = weir_policy_cache_open(l->store, &l->zones);
    s->counters = port_zalloc(1, sizeof *s->counters);
    s->tracker = l->top.keys > 0 ? weir_top_tracker_open(&l->top, NAMES_MAX) : NULL;
    if (!s->policies || !s->counters || (l->top.keys > 0 && !s->tracker)) {
        weir_top_tracker_close(s->tracker);
        weir_policy_cache_close(s->policies);
        port_free(s->counters);
        port_free(s);
        return WEIR_E_NOMEM;
    }
    port_mutex_lock(l->lock);
    s->next = l->services;
    l->services = s;
    port_mutex_unlock(l->lock);
    weir_service_refresh(s);
    *ret = s;
    return WEIR_OK;
}

void weir_service_close(weir_service *s)
{
    if (!s)
        return;
    weir_limiter *l = s->limiter;
    weir_pending_close(s);
    port_mutex_lock(l->lock);
    weir_service **link = &l->services;
    while (*link != s) {
        WEIR_ASSERT(*link);
        link = &(*link)->next;
    }
    *link = s->next;
    weir_counters_add(l->closed, s->counters, l->names);
    weir_rules_drop(s->rules);
    port_mutex_unlock(l->lock);
    weir_top_tracker_close(s->tracker);
    weir_policy_cache_close(s->policies);
    port_free(s->counters);
    port_free(s);
}

weir_limiter *weir_service_limiter(weir_service *s)
{
    return s->limiter;
}

void weir_service_refresh(weir_service *s)
{
    weir_limiter *l = s->limiter;
    if (__builtin_expect(s->pending.finished != NULL, 0))
        weir_pending_collect(s);
    weir_policy_cache_collect(s->policies);
    if (port_load_relaxed(&l->generation) == s->generation || s->pinned)
        return;
    port_mutex_lock(l->lock);
    weir_pending_keep_rules(s);
    weir_rules_drop(s->rules);
    s->rules = l->rules;
    s->rules->refs++;
    s->default_engine = l->engine;
    s->dispatches = s->rules->remote || s->rules->candidates || l->engine != WEIR_ENGINE_LOCAL ||
                    s->pending.first;
    s->generation = port_load_relaxed(&l->generation);
    port_mutex_unlock(l->lock);
}

void weir_service_pin(weir_service *s)
{
    s->pinned = false;
    weir_service_refresh(s);
    s->pinned = true;
}

void weir_service_unpin(weir_service *s)
{
    s->pinned = false;
}

void weir_service_set_engine(weir_service *s, weir_engine_kind kind, weir_engine *engine)
{
    WEIR_ASSERT(kind != WEIR_ENGINE_LOCAL && kind < WEIR_ENGINES);
    s->engine[kind] = engine;
}

bool weir_service_has_decided(const weir_service *s)
{
    return s->decided > 0;
}

void weir_service_latency(weir_service *s, int64_t elapsed_ns)
{
    uint64_t n = s->decided;
    s->decided = 0;
    weir_service_record_latency(s, n, elapsed_ns);
}

void weir_service_record_latency(weir_service *s, uint64_t n, int64_t elapsed_ns)
{
    uint64_t ns = elapsed_ns > 0 ? (uint64_t)elapsed_ns : 0;
    int bucket = 0;
    while (bucket < WEIR_LATENCY_BUCKETS - 1 && ns > (uint64_t)128 << bucket)
        bucket++;
    port_bump_relaxed(&s->counters->latency[bucket], n);
    port_bump_relaxed(&s->counters->latency_sum_ns, ns * n);
}
