/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* The service: policies by their text, in a set-associative cache, over a store. */

#include "service/service.h"

#include "port/port.h"
#include "store/siphash.h"

#include <string.h>

enum {
    WAYS = 4, /* places a text may lie in */
    SETS = WEIR_SERVICE_POLICIES_MAX / WAYS,
};

typedef struct compiled {
    weir_policy policy;
    uint64_t id; /* in the store */
    size_t text_len;
    char text[]; /* as it came, which need not be canonical */
} compiled;

struct weir_service {
    weir_store *store;
    weir_zones zones;
    weir_secret secret; /* texts come from clients: nobody may choose their places */
    weir_policy throttle_policy;
    uint64_t throttle_id;
    compiled *places[SETS][WAYS]; /* the one used last comes first */
};

weir_status weir_service_open(weir_service **ret, weir_store *store, const weir_zones *zones)
{
    static const char throttle_format[] = "gcra 1/ns"; /* any policy with an 8-byte TAT */
    weir_service *s = port_zalloc(1, sizeof *s);
    if (!s)
        return WEIR_E_NOMEM;
    s->store = store;
    s->zones = *zones;
    weir_status st = port_random(&s->secret, sizeof s->secret);
    if (st == WEIR_OK)
        st = weir_policy_parse(&s->throttle_policy, throttle_format, strlen(throttle_format), NULL,
                               NULL);
    if (st != WEIR_OK) {
        weir_service_close(s);
        return st;
    }
    /* Not the id of that policy itself, whose keys are others. */
    s->throttle_id = ~weir_store_policy_id(store, &s->throttle_policy);
    *ret = s;
    return WEIR_OK;
}

void weir_service_close(weir_service *s)
{
    for (size_t i = 0; s && i < SETS; i++) {
        for (size_t way = 0; way < WAYS; way++)
            port_free(s->places[i][way]);
    }
    port_free(s);
}

static weir_status compile(const weir_service *s, const char *text, size_t len, compiled **ret,
                           weir_policy_error *ret_error)
{
    compiled *c = port_zalloc(1, sizeof *c + len);
    if (!c)
        return WEIR_E_NOMEM;
    weir_status st = weir_policy_parse(&c->policy, text, len, &s->zones, ret_error);
    if (st != WEIR_OK) {
        port_free(c);
        return st;
    }
    c->id = weir_store_policy_id(s->store, &c->policy);
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

/* The policy of a text, compiled now or before; good until the next call. */
static weir_status find_policy(weir_service *s, const char *text, size_t len, const compiled **ret,
                               weir_policy_error *ret_error)
{
    compiled **places = s->places[weir_siphash(s->secret, text, len) % SETS];
    size_t way = 0;
    while (way < WAYS && places[way] &&
           (places[way]->text_len != len || memcmp(places[way]->text, text, len) != 0))
        way++;
    compiled *c = way < WAYS ? places[way] : NULL;
    if (!c) {
        weir_status st = compile(s, text, len, &c, ret_error);
        if (st != WEIR_OK)
            return st;
        if (way == WAYS)
            port_free(places[--way]);
    }
    put_first(places, way, c);
    *ret = c;
    return WEIR_OK;
}

weir_status weir_service_check(weir_service *s, const char *text, size_t text_len, const void *key,
                               size_t key_len, int64_t now_ns, int64_t cost, weir_decision *ret,
                               weir_policy_error *ret_error)
{
    const compiled *c;
    ret_error->column = 0;
    weir_status st = find_policy(s, text, text_len, &c, ret_error);
    if (st != WEIR_OK)
        return st;
    return weir_store_check(s->store, &c->policy, c->id, key, key_len, now_ns, cost, ret);
}

typedef struct throttle_call {
    const weir_throttle *throttle;
    weir_throttle_answer *ret;
    weir_throttle_status status;
} throttle_call;

static weir_status throttle_state(void *ctx, uint64_t *state, int64_t now_ns)
{
    throttle_call *call = ctx;
    call->status = weir_throttle_check(call->throttle, state, now_ns, call->ret);
    return call->status == WEIR_THROTTLE_OK ? WEIR_OK : WEIR_E_RANGE;
}

weir_status weir_service_throttle(weir_service *s, const weir_throttle *t, const void *key,
                                  size_t key_len, int64_t now_ns, weir_throttle_answer *ret,
                                  weir_throttle_status *ret_throttle)
{
    throttle_call call = {t, ret, WEIR_THROTTLE_OK};
    weir_status st = weir_store_apply(s->store, &s->throttle_policy, s->throttle_id, key, key_len,
                                      now_ns, throttle_state, &call);
    *ret_throttle = call.status;
    return st;
}
