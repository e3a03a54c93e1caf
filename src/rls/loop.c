/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* The shared part of the Rate Limit Service and its loops: opening, closing, and activating
 * configurations. */

#include "rls/internal.h"

/* ---- the shared part ------------------------------------------------------------------------- */

weir_rls *weir_rls_open(void)
{
    weir_rls *r = port_zalloc(1, sizeof *r);
    if (!r)
        return NULL;
    r->lock = port_mutex_new();
    if (r->lock && rls_names_open(&r->names))
        return r;
    weir_rls_close(r);
    return NULL;
}

void weir_rls_close(weir_rls *r)
{
    if (!r)
        return;
    WEIR_ASSERT(!r->loops);
    for (size_t i = 0; i < RLS_CHUNKS; i++)
        port_free(r->closed.chunk[i]);
    rls_names_close(&r->names);
    weir_rls_config_drop(r->config);
    port_mutex_free(r->lock);
    port_free(r);
}

void weir_rls_activate(weir_rls *r, weir_rls_config *config)
{
    port_mutex_lock(r->lock);
    weir_rls_config *old = r->config;
    rls_names_add_config(&r->names, config);
    r->config = config;
    port_add_relaxed(&r->loaded, 1);
    port_add_relaxed(&r->generation, 1);
    port_mutex_unlock(r->lock);
    weir_rls_config_drop(old);
}

bool weir_rls_has_limits(weir_rls *r)
{
    port_mutex_lock(r->lock);
    bool has = r->config && weir_rls_config_limits(r->config) > 0;
    port_mutex_unlock(r->lock);
    return has;
}

void weir_rls_count_refused(weir_rls *r)
{
    port_add_relaxed(&r->refused, 1);
}

/* ---- loops ----------------------------------------------------------------------------------- */

weir_rls_loop *weir_rls_loop_open(weir_rls *r, weir_service *service)
{
    weir_rls_loop *l = port_zalloc(1, sizeof *l);
    if (!l)
        return NULL;
    l->shared = r;
    l->service = service;
    port_mutex_lock(r->lock);
    l->next = r->loops;
    r->loops = l;
    port_mutex_unlock(r->lock);
    rls_loop_refresh(l);
    return l;
}

/* Adds the counters of a loop that closes. The caller holds the lock. */
static void add_counters(weir_rls *r, weir_rls_loop *l)
{
    for (size_t i = 0; i < RLS_CHUNKS; i++) {
        rls_counters *from = l->counters.chunk[i], *to = r->closed.chunk[i];
        if (!to) {
            r->closed.chunk[i] = from;
            continue;
        }
        for (size_t k = 0; from && k < RLS_CHUNK; k++) {
            for (int c = 0; c < RLS_COUNTS; c++)
                port_add_relaxed(&to[k].count[c], port_load_relaxed(&from[k].count[c]));
        }
        port_free(from);
    }
    for (int i = 0; i < RLS_LOOP_COUNTS; i++)
        r->closed_own[i] += port_load_relaxed(&l->own[i]);
}

void weir_rls_loop_close(weir_rls_loop *l)
{
    if (!l)
        return;
    weir_rls *r = l->shared;
    port_mutex_lock(r->lock);
    weir_rls_loop **link = &r->loops;
    while (*link != l) {
        WEIR_ASSERT(*link);
        link = &(*link)->next;
    }
    *link = l->next;
    add_counters(r, l);
    port_mutex_unlock(r->lock);
    weir_rls_config_drop(l->config);
    weir_rls_config_drop(l->held);
    weir_arena_free(&l->metadata);
    port_free(l);
}

void rls_loop_refresh(weir_rls_loop *l)
{
    weir_rls *r = l->shared;
    if (__builtin_expect(l->held != NULL, 0)) {
        weir_rls_config_drop(l->held);
        l->held = NULL;
    }
    if (__builtin_expect(l->metadata.blocks != NULL, 0))
        weir_arena_reset(&l->metadata);
    if (port_load_relaxed(&r->generation) == l->generation)
        return;
    weir_rls_config *old = l->config;
    port_mutex_lock(r->lock);
    l->config = r->config; /* not NULL: it was activated */
    weir_rls_config_hold(l->config);
    l->generation = port_load_relaxed(&r->generation);
    port_mutex_unlock(r->lock);
    weir_rls_config_drop(old);
}

const weir_rls_config *weir_rls_loop_config(weir_rls_loop *l)
{
    rls_loop_refresh(l);
    return l->config;
}

void weir_rls_set_fallback(weir_rls_loop *l, const weir_rls_fallback *fallback)
{
    l->has_fallback = fallback != NULL;
    if (fallback)
        l->fallback = *fallback;
}

/* ---- requests that were not charged ---------------------------------------------------------- */

size_t weir_rls_each_not_charged(weir_rls *r, size_t most,
                                 void (*fn)(void *ctx, const weir_rls_not_charged *of), void *ctx)
{
    size_t n = 0;
    port_mutex_lock(r->lock);
    const weir_rls_config *c = r->config;
    for (size_t i = 0; c && i < c->limits_len && n < most; i++) {
        rls_not_charged *of = &c->not_charged[i];
        uint64_t requests = port_word_load_relaxed(&of->requests),
                 last = port_word_load_relaxed(&of->last);
        if (requests == 0)
            continue;
        port_word_add_relaxed(&of->requests, 0 - requests); /* others are counted meanwhile */
        fn(ctx, &(weir_rls_not_charged){c->limits[i].rule, requests, (uint32_t)(last >> 32),
                                        (uint32_t)last});
        n++;
    }
    port_mutex_unlock(r->lock);
    return n;
}
