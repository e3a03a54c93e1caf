/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* Policies by their text, in a set-associative cache. */

#include "service/policy_cache.h"

#include "port/port.h"
#include "service/service.h"
#include "store/siphash.h"

#include <string.h>

enum {
    WAYS = 4, /* places a text may lie in */
    SETS = WEIR_SERVICE_POLICIES_MAX / WAYS,
};

typedef struct compiled {
    struct compiled *next; /* among those to be freed */
    weir_policy policy;
    uint64_t id; /* in the store */
    size_t pins;
    bool evicted; /* no longer found; freed as soon as it is not pinned */
    size_t text_len, canonical_len;
    char text[]; /* as it came, which need not be canonical; behind it, the canonical one */
} compiled;

struct weir_policy_cache {
    weir_store *store;
    weir_zones zones;
    weir_secret secret;
    compiled *gone;               /* no longer found, but perhaps still in use */
    compiled *places[SETS][WAYS]; /* the one used last comes first */
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
    while (t->gone) {
        compiled *c = t->gone;
        t->gone = c->next;
        port_free(c);
    }
}

void weir_policy_cache_close(weir_policy_cache *t)
{
    if (!t)
        return;
    weir_policy_cache_collect(t);
    for (size_t i = 0; i < SETS; i++) {
        for (size_t way = 0; way < WAYS; way++)
            port_free(t->places[i][way]);
    }
    port_free(t);
}

static weir_status compile(const weir_policy_cache *t, const char *text, size_t len, compiled **ret,
                           weir_policy_error *ret_error)
{
    char canonical[WEIR_POLICY_TEXT_MAX];
    weir_policy policy;
    weir_status st = weir_policy_parse(&policy, text, len, &t->zones, ret_error);
    if (st != WEIR_OK)
        return st;
    size_t canonical_len = weir_policy_print(&policy, canonical, sizeof canonical);
    compiled *c = port_zalloc(1, sizeof *c + len + canonical_len);
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

/* Has an entry freed that is no longer found, once the caller of now has gone. */
static void let_go(weir_policy_cache *t, compiled *c)
{
    c->next = t->gone;
    t->gone = c;
}

static compiled *compiled_of(const weir_policy *p)
{
    return (compiled *)((char *)p - offsetof(compiled, policy));
}

weir_slice weir_policy_cache_canonical(const weir_policy *p)
{
    const compiled *c = compiled_of(p);
    return (weir_slice){c->text + c->text_len, c->canonical_len};
}

void weir_policy_cache_pin(const weir_policy *p)
{
    compiled_of(p)->pins++;
}

void weir_policy_cache_unpin(weir_policy_cache *t, const weir_policy *p)
{
    compiled *c = compiled_of(p);
    if (--c->pins == 0 && c->evicted)
        let_go(t, c);
}

/* Moves places[0..way) up by one and puts c first. */
static void put_first(compiled **places, size_t way, compiled *c)
{
    for (; way > 0; way--)
        places[way] = places[way - 1];
    places[0] = c;
}

weir_status weir_policy_cache_find(weir_policy_cache *t, const char *text, size_t len,
                                   const weir_policy **ret, uint64_t *ret_id,
                                   weir_policy_error *ret_error)
{
    compiled **places = t->places[weir_siphash(t->secret, text, len) % SETS];
    size_t way = 0;
    while (way < WAYS && places[way] &&
           (places[way]->text_len != len || memcmp(places[way]->text, text, len) != 0))
        way++;
    compiled *c = way < WAYS ? places[way] : NULL;
    if (!c) {
        weir_status st = compile(t, text, len, &c, ret_error);
        if (st != WEIR_OK)
            return st;
        if (way == WAYS) {
            compiled *last = places[--way];
            last->evicted = true;
            if (last->pins == 0)
                let_go(t, last);
        }
    }
    put_first(places, way, c);
    *ret = &c->policy;
    *ret_id = c->id;
    return WEIR_OK;
}
