/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* The shared part and the loops: the active configuration, the counts of namespaces, and the list
 * of counters. */

#include "limitador/internal.h"
#include "port/assert.h"
#include "service/top/top.h"

#include <stdlib.h>

/* ---- opening, closing ------------------------------------------------------------------------ */

weir_limitador *weir_limitador_open(void)
{
    const weir_limitador_options none = {.headers = false};
    weir_limitador *l = port_zalloc(1, sizeof *l);
    if (!l)
        return NULL;
    l->mutex = port_mutex_new();
    if (l->mutex && weir_limitador_config_build(&l->config, &none, NULL, 0, NULL, NULL) == WEIR_OK)
        return l;
    weir_limitador_close(l);
    return NULL;
}

void weir_limitador_close(weir_limitador *l)
{
    if (!l)
        return;
    WEIR_ASSERT(!l->loops);
    weir_limitador_config_drop(l->config);
    port_mutex_free(l->mutex);
    port_free(l);
}

void weir_limitador_activate(weir_limitador *l, weir_limitador_config *config)
{
    port_mutex_lock(l->mutex);
    weir_limitador_config *old = l->config;
    l->config = config;
    /* Only a holder of the mutex writes it. A loop that sees the old number a little longer decides
     * by the old limits, so relaxed is enough. */
    port_word_store_relaxed(&l->generation, port_word_load_relaxed(&l->generation) + 1);
    port_mutex_unlock(l->mutex);
    weir_limitador_config_drop(old);
}

/* Takes over the active configuration. The mutex is held. */
static void hold_active(weir_limitador_loop *l)
{
    l->config = l->shared->config;
    l->generation = port_word_load_relaxed(&l->shared->generation);
    weir_limitador_config_hold(l->config);
}

void limitador_refresh(weir_limitador_loop *l)
{
    if (port_word_load_relaxed(&l->shared->generation) == l->generation)
        return;
    weir_limitador_config *old = l->config;
    port_mutex_lock(l->shared->mutex);
    hold_active(l);
    port_mutex_unlock(l->shared->mutex);
    weir_limitador_config_drop(old);
}

weir_limitador_loop *weir_limitador_loop_open(weir_limitador *l, weir_service *service)
{
    weir_limitador_loop *loop = port_zalloc(1, sizeof *loop);
    if (!loop)
        return NULL;
    loop->shared = l;
    loop->service = service;
    port_mutex_lock(l->mutex);
    hold_active(loop);
    loop->next = l->loops;
    l->loops = loop;
    port_mutex_unlock(l->mutex);
    return loop;
}

void weir_limitador_loop_close(weir_limitador_loop *l)
{
    if (!l)
        return;
    port_mutex_lock(l->shared->mutex);
    weir_limitador_loop **at = &l->shared->loops;
    while (*at != l)
        at = &(*at)->next;
    *at = l->next;
    port_mutex_unlock(l->shared->mutex);
    weir_limitador_config_drop(l->config);
    for (size_t i = 0; i < port_word_load_relaxed(&l->tallies_len); i++)
        port_free(l->tallies[i]);
    port_free(l->keys.at);
    port_free(l);
}

weir_limitador *weir_limitador_of(weir_limitador_loop *l)
{
    return l->shared;
}

uint64_t weir_limitador_version(const weir_limitador *l)
{
    return port_word_load_relaxed(&l->generation);
}

const weir_limitador_config *weir_limitador_loop_config(weir_limitador_loop *l)
{
    limitador_refresh(l);
    return l->config;
}

bool weir_limitador_has(weir_limitador_loop *l, weir_slice name_space)
{
    limitador_limit *const *limits;
    limitador_refresh(l);
    return limitador_find(l->config, name_space, &limits) > 0;
}

/* ---- counts ---------------------------------------------------------------------------------- */

static limitador_tally *new_tally(weir_limitador_loop *l, weir_slice name, uint16_t *slot)
{
    size_t len = port_word_load_relaxed(&l->tallies_len);
    limitador_tally *t = port_zalloc(1, sizeof *t + name.len);
    if (!t)
        return NULL;
    t->len = name.len;
    memcpy(t->name, name.at, name.len);
    l->tallies[len] = t;
    *slot = (uint16_t)(len + 1);
    /* Pairs with the acquire in collect(): the tally is complete before its number is seen. */
    port_word_store_release(&l->tallies_len, len + 1);
    return t;
}

static const weir_slice others = {"(others)", 8};

/* Finds the tally of a name, and adds it if there is none. Returns NULL if memory is exhausted. */
static limitador_tally *find_tally(weir_limitador_loop *l, weir_slice name)
{
    size_t len = port_word_load_relaxed(&l->tallies_len);
    uint64_t hash = limitador_hash(LIMITADOR_HASH_SEED, name.at, name.len);
    for (size_t i = hash % LIMITADOR_TABLE;; i = (i + 1) % LIMITADOR_TABLE) {
        if (l->table[i] == 0) {
            if (len < LIMITADOR_NAMES_MAX)
                return new_tally(l, name, &l->table[i]);
            uint16_t unused;
            return len == LIMITADOR_NAMES_MAX ? new_tally(l, others, &unused)
                                              : l->tallies[LIMITADOR_NAMES_MAX];
        }
        limitador_tally *t = l->tallies[l->table[i] - 1];
        if (t->len == name.len && memcmp(t->name, name.at, name.len) == 0)
            return t;
    }
}

void limitador_count(weir_limitador_loop *l, weir_slice name_space, uint64_t calls, uint64_t hits,
                     uint64_t limited)
{
    if (name_space.len == 0)
        name_space.at = "";
    limitador_tally *t =
        find_tally(l, name_space.len > WEIR_LIMITADOR_NAME_MAX ? others : name_space);
    if (!t)
        return;
    port_bump_relaxed(&t->calls, calls);
    port_bump_relaxed(&t->hits, hits);
    port_bump_relaxed(&t->limited, limited);
}

static int by_name(const void *a, const void *b)
{
    const weir_limitador_count *x = a, *y = b;
    size_t n = x->name_space.len < y->name_space.len ? x->name_space.len : y->name_space.len;
    int order = memcmp(x->name_space.at, y->name_space.at, n);
    return order
               ? order
               : (x->name_space.len > y->name_space.len) - (x->name_space.len < y->name_space.len);
}

/* Appends the counts of a loop. */
static size_t collect(weir_limitador_loop *l, weir_limitador_count *to, size_t room)
{
    size_t n = port_word_load_acquire(&l->tallies_len);
    if (n > room)
        n = room;
    for (size_t i = 0; i < n; i++) {
        const limitador_tally *t = l->tallies[i];
        to[i] = (weir_limitador_count){{t->name, t->len},
                                       port_load_relaxed(&t->calls),
                                       port_load_relaxed(&t->hits),
                                       port_load_relaxed(&t->limited)};
    }
    return n;
}

/* Calls fn with the sums of equal names.
 *  all  sorted. */
static void sum(const weir_limitador_count *all, size_t n,
                void (*fn)(void *ctx, const weir_limitador_count *count), void *ctx)
{
    for (size_t i = 0; i < n;) {
        weir_limitador_count c = all[i];
        for (i++; i < n && by_name(&all[i], &c) == 0; i++) {
            c.authorized_calls += all[i].authorized_calls;
            c.authorized_hits += all[i].authorized_hits;
            c.limited_calls += all[i].limited_calls;
        }
        fn(ctx, &c);
    }
}

void weir_limitador_counts(weir_limitador *l,
                           void (*fn)(void *ctx, const weir_limitador_count *count), void *ctx)
{
    size_t room = 0, n = 0;
    port_mutex_lock(l->mutex); /* keeps the loops and their tallies */
    for (weir_limitador_loop *loop = l->loops; loop; loop = loop->next)
        room += port_word_load_acquire(&loop->tallies_len);
    weir_limitador_count *all = port_zalloc(room + 1, sizeof *all);
    for (weir_limitador_loop *loop = l->loops; loop && all; loop = loop->next)
        n += collect(loop, all + n, room - n);
    if (all) {
        qsort(all, n, sizeof *all, by_name);
        sum(all, n, fn, ctx);
    }
    port_mutex_unlock(l->mutex);
    port_free(all);
}

/* ---- counters -------------------------------------------------------------------------------- */

typedef struct listing {
    weir_limitador_loop *loop;
    const limitador_limit *limit;
    int64_t now_ns;
    void (*fn)(void *ctx, const weir_limitador_counter *counter);
    void *ctx;
    weir_slice *values; /* as many as the limit has variables */
    char text[WEIR_TOP_TEXT_MAX];
} listing;

/* Decodes the values of a key. Returns false if it has another number of them. */
static bool read_values(listing *s, weir_slice key)
{
    size_t n = s->limit->view.limit.variables_len, i = 0, len = 0, begin = 0;
    bool empty = key.len == 1 && key.at[0] == LIMITADOR_KEY_EMPTY[0];
    if (n == 0)
        return true;
    for (size_t at = 0; at <= key.len; at++) {
        if (at == key.len || key.at[at] == '|') {
            if (i == n)
                return false;
            s->values[i++] = (weir_slice){s->text + begin, len - begin};
            begin = len;
            continue;
        }
        at += key.at[at] == '\\' && at + 1 < key.len && !empty;
        if (!empty)
            s->text[len++] = key.at[at];
    }
    return i == n;
}

/* Lists a counter, unless it has no charges. */
static void list_counter(listing *s, weir_slice key)
{
    const weir_limitador_view *view = &s->limit->view;
    weir_request r = {.rule = {view->rule, strlen(view->rule)}, .key = key};
    if (key.len > sizeof s->text || !read_values(s, key) ||
        !weir_service_peek(s->loop->service, NULL, &r, s->now_ns))
        return;
    weir_limitador_counter c = {.limit = view, .values = s->values};
    c.has_state = r.status == WEIR_OK;
    if (c.has_state) {
        c.remaining = limitador_left(view->limit.max_value, &r.decision);
        c.expires_ns = r.decision.reset_after_ns;
    }
    if ((c.has_state && c.expires_ns > 0) || r.status == WEIR_E_UNSUPPORTED)
        s->fn(s->ctx, &c);
}

static bool is_listed(const weir_top *t, const weir_top_key *key)
{
    for (size_t i = 0; i < t->len; i++) {
        if (t->key[i].hash == key->hash)
            return true;
    }
    return false;
}

/* Lists the counters of a limit with variables: its top keys, both lists. */
static void list_top(listing *s)
{
    weir_limiter *limiter = weir_service_limiter(s->loop->service);
    size_t k = weir_limiter_top_keys(limiter);
    weir_slice rule = {s->limit->rule, strlen(s->limit->rule)};
    weir_top first = {0}, second = {0};
    if (weir_limiter_top(limiter, rule, WEIR_TOP_ALLOWED, k, s->now_ns, &first) != WEIR_OK)
        return;
    for (size_t i = 0; i < first.len; i++)
        list_counter(s, (weir_slice){first.key[i].text, first.key[i].len});
    if (weir_limiter_top(limiter, rule, WEIR_TOP_DENIED, k, s->now_ns, &second) == WEIR_OK) {
        for (size_t i = 0; i < second.len; i++) {
            if (!is_listed(&first, &second.key[i]))
                list_counter(s, (weir_slice){second.key[i].text, second.key[i].len});
        }
        weir_top_free(&second);
    }
    weir_top_free(&first);
}

void weir_limitador_counters(weir_limitador_loop *l, weir_slice name_space, int64_t now_ns,
                             void (*fn)(void *ctx, const weir_limitador_counter *counter),
                             void *ctx)
{
    limitador_limit *const *limits;
    limitador_refresh(l);
    size_t n = limitador_find(l->config, name_space, &limits);
    for (size_t i = 0; i < n; i++) {
        const weir_limitador_limit *of = &limits[i]->view.limit;
        listing s = {.loop = l, .limit = limits[i], .now_ns = now_ns, .fn = fn, .ctx = ctx};
        s.values = port_zalloc(of->variables_len + 1, sizeof *s.values);
        if (s.values && limits[i]->view.rule && of->variables_len == 0)
            list_counter(&s, (weir_slice){LIMITADOR_KEY_SIMPLE, 1});
        else if (s.values && limits[i]->view.rule)
            list_top(&s);
        port_free(s.values);
    }
}
