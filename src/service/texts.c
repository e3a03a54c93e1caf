/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* Policies by their text, in a set-associative cache. */

#include "service/texts.h"

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
    size_t text_len;
    char text[]; /* as it came, which need not be canonical */
} compiled;

struct weir_texts {
    weir_store *store;
    weir_zones zones;
    weir_secret secret;
    compiled *gone;               /* no longer found, but perhaps still in use */
    compiled *places[SETS][WAYS]; /* the one used last comes first */
};

weir_texts *weir_texts_open(weir_store *store, const weir_zones *zones)
{
    weir_texts *t = port_zalloc(1, sizeof *t);
    if (!t || port_random(&t->secret, sizeof t->secret) != WEIR_OK) {
        port_free(t);
        return NULL;
    }
    t->store = store;
    t->zones = *zones;
    return t;
}

void weir_texts_settle(weir_texts *t)
{
    while (t->gone) {
        compiled *c = t->gone;
        t->gone = c->next;
        port_free(c);
    }
}

void weir_texts_close(weir_texts *t)
{
    if (!t)
        return;
    weir_texts_settle(t);
    for (size_t i = 0; i < SETS; i++) {
        for (size_t way = 0; way < WAYS; way++)
            port_free(t->places[i][way]);
    }
    port_free(t);
}

static weir_status compile(const weir_texts *t, const char *text, size_t len, compiled **ret,
                           weir_policy_error *ret_error)
{
    compiled *c = port_zalloc(1, sizeof *c + len);
    if (!c)
        return WEIR_E_NOMEM;
    weir_status st = weir_policy_parse(&c->policy, text, len, &t->zones, ret_error);
    if (st != WEIR_OK) {
        port_free(c);
        return st;
    }
    c->id = weir_store_policy_id(t->store, &c->policy);
    c->text_len = len;
    memcpy(c->text, text, len);
    *ret = c;
    return WEIR_OK;
}

/* Moves places[0..way) up by one and puts c first. */
static void put_first(compiled **places, size_t way, compiled *c)
{
    for (; way > 0; way--)
        places[way] = places[way - 1];
    places[0] = c;
}

weir_status weir_texts_find(weir_texts *t, const char *text, size_t len, const weir_policy **ret,
                            uint64_t *ret_id, weir_policy_error *ret_error)
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
            last->next = t->gone;
            t->gone = last;
        }
    }
    put_first(places, way, c);
    *ret = &c->policy;
    *ret_id = c->id;
    return WEIR_OK;
}
