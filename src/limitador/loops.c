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

/* `kept` has the number of the configuration, and for each counter a record and its key. */
typedef struct record {
    size_t limit; /* of the namespace */
    size_t key_len;
    bool answered, has_state, is_charged;
    uint64_t remaining;
    int64_t expires_ns;
} record;

typedef struct listing {
    limitador_limit *const *limits;
    size_t limit; /* whose counters are kept */
    int64_t now_ns;
    weir_buffer *kept;
    weir_slice *values; /* as many as the limit has variables */
    char text[WEIR_TOP_TEXT_MAX];
} listing;

/* Decodes the values of a key. Returns false if it has another number of them. */
static bool read_values(listing *s, weir_slice key)
{
    size_t n = s->limits[s->limit]->view.limit.variables_len, i = 0, len = 0, begin = 0;
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

static void keep_counter(listing *s, weir_slice key)
{
    const record r = {.limit = s->limit, .key_len = key.len};
    if (key.len <= sizeof s->text && weir_buffer_reserve(s->kept, sizeof r + key.len)) {
        weir_buffer_append(s->kept, &r, sizeof r);
        weir_buffer_append(s->kept, key.at, key.len);
    }
}

static bool is_listed(const weir_top *t, const weir_top_key *key)
{
    for (size_t i = 0; i < t->len; i++) {
        if (t->key[i].hash == key->hash)
            return true;
    }
    return false;
}

/* Keeps the counters of a limit with variables: its top keys, both lists. */
static void keep_top(listing *s, weir_limiter *limiter)
{
    size_t k = weir_limiter_top_keys(limiter);
    weir_slice rule = {s->limits[s->limit]->rule, strlen(s->limits[s->limit]->rule)};
    weir_top first = {0}, second = {0};
    if (weir_limiter_top(limiter, rule, WEIR_TOP_ALLOWED, k, s->now_ns, &first) != WEIR_OK)
        return;
    for (size_t i = 0; i < first.len; i++)
        keep_counter(s, (weir_slice){first.key[i].text, first.key[i].len});
    if (weir_limiter_top(limiter, rule, WEIR_TOP_DENIED, k, s->now_ns, &second) == WEIR_OK) {
        for (size_t i = 0; i < second.len; i++) {
            if (!is_listed(&first, &second.key[i]))
                keep_counter(s, (weir_slice){second.key[i].text, second.key[i].len});
        }
        weir_top_free(&second);
    }
    weir_top_free(&first);
}

static void keep_all(weir_limitador_loop *l, listing *s, size_t n)
{
    weir_buffer_append(s->kept, &l->generation, sizeof l->generation);
    for (s->limit = 0; s->limit < n; s->limit++) {
        const weir_limitador_view *view = &s->limits[s->limit]->view;
        if (view->rule && view->limit.variables_len == 0)
            keep_counter(s, (weir_slice){LIMITADOR_KEY_SIMPLE, 1});
        else if (view->rule)
            keep_top(s, weir_service_limiter(l->service));
    }
}

/* Reads a record behind which its key is. Returns where the next record begins. */
static size_t read_record(const weir_buffer *kept, size_t at, record *ret, weir_slice *ret_key)
{
    const uint8_t *from = weir_buffer_data(kept) + at;
    memcpy(ret, from, sizeof *ret);
    *ret_key = (weir_slice){(const char *)from + sizeof *ret, ret->key_len};
    return at + sizeof *ret + ret->key_len;
}

/* Asks for a counter. What on_error decides is not its state. Returns false if an engine is
 * pending. */
static bool ask(weir_service *service, weir_completion *completion, const weir_limitador_view *view,
                weir_slice key, record *c, int64_t now_ns)
{
    weir_request r = {.rule = {view->rule, strlen(view->rule)}, .key = key};
    if (!weir_service_peek(service, completion, &r, now_ns))
        return false;
    c->answered = true;
    c->has_state = r.status == WEIR_OK && r.reason != WEIR_BY_ON_ERROR;
    c->is_charged = c->has_state ? r.decision.reset_after_ns > 0 : r.status != WEIR_E_ABSENT;
    if (c->has_state) {
        c->remaining = limitador_left(view->limit.max_value, &r.decision);
        c->expires_ns = r.decision.reset_after_ns;
    }
    return true;
}

static bool ask_all(weir_limitador_loop *l, weir_completion *completion, const listing *s)
{
    record c;
    weir_slice key;
    for (size_t at = sizeof l->generation, next; at < weir_buffer_len(s->kept); at = next) {
        next = read_record(s->kept, at, &c, &key);
        if (c.answered)
            continue;
        if (!ask(l->service, completion, &s->limits[c.limit]->view, key, &c, s->now_ns))
            return false;
        memcpy(weir_buffer_data(s->kept) + at, &c, sizeof c);
    }
    return true;
}

static void list_all(listing *s, void (*fn)(void *ctx, const weir_limitador_counter *counter),
                     void *ctx)
{
    record c;
    weir_slice key;
    for (size_t at = sizeof(uint64_t); at < weir_buffer_len(s->kept);) {
        at = read_record(s->kept, at, &c, &key);
        const weir_limitador_view *view = &s->limits[c.limit]->view;
        s->limit = c.limit;
        s->values = port_zalloc(view->limit.variables_len + 1, sizeof *s->values);
        const weir_limitador_counter counter = {view, s->values, c.has_state, c.remaining,
                                                c.expires_ns};
        if (s->values && c.is_charged && read_values(s, key))
            fn(ctx, &counter);
        port_free(s->values);
    }
}

bool weir_limitador_counters(weir_limitador_loop *l, weir_completion *completion, weir_buffer *kept,
                             weir_slice name_space, int64_t now_ns,
                             void (*fn)(void *ctx, const weir_limitador_counter *counter),
                             void *ctx)
{
    listing s = {.now_ns = now_ns, .kept = kept};
    limitador_refresh(l);
    size_t n = limitador_find(l->config, name_space, &s.limits);
    bool begun = weir_buffer_len(kept) > 0;
    if (begun && memcmp(weir_buffer_data(kept), &l->generation, sizeof l->generation) != 0) {
        weir_completion_cancel(completion); /* the limits are others */
        weir_buffer_clear(kept);
        begun = false;
    }
    if (!begun)
        keep_all(l, &s, n);
    if (!ask_all(l, completion, &s))
        return false;
    if (!kept->failed)
        list_all(&s, fn, ctx);
    return true;
}
