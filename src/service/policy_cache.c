/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* The cache of inline policies: a set-associative hash table with LRU eviction in each set. */

#include "service/service.h"
#include "service/service_internal.h"

#include "store/siphash.h"

#include <string.h>

enum {
    WAYS = 4, /* entries of a set */
    SETS = WEIR_SERVICE_POLICIES_MAX / WAYS,
};

typedef struct entry {
    struct entry *next; /* in the list of entries to free */
    weir_policy policy;
    uint64_t id; /* in the store */
    size_t pins;
    bool evicted; /* not in a set any more; freed once it is not pinned */
    size_t text_len, canonical_len;
    char text[]; /* the text as given, followed by the canonical text */
} entry;

struct weir_policy_cache {
    weir_store *store;
    weir_zones zones;
    weir_secret secret;
    entry *evicted;          /* not pinned; weir_policy_cache_collect() frees them */
    entry *sets[SETS][WAYS]; /* the most recently used entry comes first */
};

weir_policy_cache *weir_policy_cache_open(weir_store *store, const weir_zones *zones)
{
    weir_policy_cache *t = port_zalloc(1, sizeof *t);
    if (!t || port_random(&t->secret, sizeof t->secret) != WEIR_OK) {
        port_free(t);
        return NULL;
    }
    t->store = store;
    t->zones = *zones;
    return t;
}

void weir_policy_cache_collect(weir_policy_cache *t)
{
    while (t->evicted) {
        entry *c = t->evicted;
        t->evicted = c->next;
        WEIR_ASSERT(c->evicted && c->pins == 0);
        port_free(c);
    }
}

void weir_policy_cache_close(weir_policy_cache *t)
{
    if (!t)
        return;
    weir_policy_cache_collect(t);
    for (size_t i = 0; i < SETS; i++) {
        for (size_t way = 0; way < WAYS; way++) {
            WEIR_ASSERT(!t->sets[i][way] || t->sets[i][way]->pins == 0);
            port_free(t->sets[i][way]);
        }
    }
    port_free(t);
}

static weir_status parse(const weir_policy_cache *t, const char *text, size_t len, entry **ret,
                         weir_policy_error *ret_error)
{
    char canonical[WEIR_POLICY_TEXT_MAX];
    weir_policy policy;
    weir_status st = weir_policy_parse(&policy, text, len, &t->zones, ret_error);
    if (st != WEIR_OK)
        return st;
    size_t canonical_len = weir_policy_print(&policy, canonical, sizeof canonical);
    entry *c = port_zalloc(1, sizeof *c + len + canonical_len);
    if (!c)
        return WEIR_E_NOMEM;
    c->policy = policy;
    c->id = weir_store_policy_id(t->store, &c->policy);
    c->text_len = len;
    c->canonical_len = canonical_len;
    memcpy(c->text, text, len);
    memcpy(c->text + len, canonical, canonical_len);
    *ret = c;
    return WEIR_OK;
}

/* Frees an entry later: the caller may still use its policy. */
static void free_later(weir_policy_cache *t, entry *c)
{
    c->next = t->evicted;
    t->evicted = c;
}

static entry *entry_of(const weir_policy *p)
{
    return (entry *)((char *)p - offsetof(entry, policy));
}

weir_slice weir_policy_cache_canonical(const weir_policy *p)
{
    const entry *c = entry_of(p);
    return (weir_slice){c->text + c->text_len, c->canonical_len};
}

void weir_policy_cache_pin(const weir_policy *p)
{
    entry_of(p)->pins++;
}

void weir_policy_cache_unpin(weir_policy_cache *t, const weir_policy *p)
{
    entry *c = entry_of(p);
    WEIR_ASSERT(c->pins > 0);
    if (--c->pins == 0 && c->evicted)
        free_later(t, c);
}

/* Moves set[0..way) up by one and puts c first. */
static void put_first(entry **set, size_t way, entry *c)
{
    WEIR_ASSERT(way < WAYS);
    for (; way > 0; way--)
        set[way] = set[way - 1];
    set[0] = c;
}

weir_status weir_policy_cache_find(weir_policy_cache *t, const char *text, size_t len,
                                   const weir_policy **ret, uint64_t *ret_id,
                                   weir_policy_error *ret_error)
{
    entry **set = t->sets[weir_siphash(t->secret, text, len) % SETS];
    size_t way = 0;
    while (way < WAYS && set[way] &&
           (set[way]->text_len != len || memcmp(set[way]->text, text, len) != 0))
        way++;
    entry *c = way < WAYS ? set[way] : NULL;
    if (!c) {
        weir_status st = parse(t, text, len, &c, ret_error);
        if (st != WEIR_OK)
            return st;
        if (way == WAYS) {
            entry *last = set[--way];
            last->evicted = true;
            if (last->pins == 0)
                free_later(t, last);
        }
    }
    put_first(set, way, c);
    *ret = &c->policy;
    *ret_id = c->id;
    return WEIR_OK;
}
