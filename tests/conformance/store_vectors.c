/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* Runs the vectors through the public functions of the store, to the nanosecond. */

#include "vectors.h"

#include "service/rules/keep.h"
#include "service/zone_cache.h"

#include <weir/weir_store.h>

#include <stdio.h>
#include <string.h>

typedef struct store_ctx {
    weir_zones zones;
    weir_store *store;
    weir_policy policy;
    uint64_t policy_id;
    uint64_t id[RESERVATIONS_MAX];
} store_ctx;

/* Each case has a store of its own, because the clock of a store never steps back. */
static bool begin(void *ctx, const char *policy)
{
    store_ctx *c = ctx;
    weir_policy_error e;
    if (weir_store_open(&c->store, &(weir_store_options){.zones = &c->zones}) != WEIR_OK)
        return false;
    if (weir_policy_parse(&c->policy, policy, strlen(policy), &c->zones, &e) != WEIR_OK) {
        fprintf(stderr, "'%s': column %u: %s\n", policy, e.column, e.text);
        return false;
    }
    c->policy_id = weir_store_policy_id(c->store, &c->policy);
    return true;
}

static void end(void *ctx)
{
    store_ctx *c = ctx;
    weir_store_close(c->store);
    c->store = NULL;
}

static weir_status take(store_ctx *c, const step *s, weir_decision *ret)
{
    int64_t keep = 0;
    if (s->keep[0] && !weir_keep_read((weir_slice){s->keep, strlen(s->keep)}, &keep))
        return WEIR_E_SYNTAX;
    return weir_store_check_keep(c->store, &c->policy, c->policy_id, "key", 3, s->t_ns, s->cost,
                                 keep, ret);
}

static weir_status decide(void *ctx, const step *s, weir_decision *ret, int64_t *ret_over)
{
    store_ctx *c = ctx;
    switch (s->op) {
    case TAKE:
        return take(c, s, ret);
    case REFUND:
        return weir_store_refund(c->store, &c->policy, c->policy_id, "key", 3, s->t_ns, s->cost,
                                 ret);
    case CHARGE:
        return weir_store_charge(c->store, &c->policy, c->policy_id, "key", 3, s->t_ns, s->cost,
                                 ret, ret_over);
    case RESERVE:
        return weir_store_reserve(c->store, &c->policy, c->policy_id, "key", 3, s->t_ns, s->cost,
                                  s->ttl_ns, ret, &c->id[s->id]);
    case RENEW:
        return weir_store_renew(c->store, c->id[s->id], s->t_ns, s->ttl_ns, ret);
    case COMMIT:
        return weir_store_commit(c->store, c->id[s->id], s->t_ns, s->cost, ret, ret_over);
    case CANCEL:
        return weir_store_cancel(c->store, c->id[s->id], s->t_ns, ret);
    }
    return WEIR_E_RANGE;
}

int main(int argc, char **argv)
{
    weir_zone_cache *cache = weir_zone_cache_open(WEIR_ZONEINFO_DIR);
    store_ctx c = {.zones = weir_zone_cache_zones(cache)};
    adapter d = {
        .name = "store", .reserves = true, .begin = begin, .decide = decide, .end = end, .ctx = &c};
    int status = vectors_run(&d, argc - 1, argv + 1);
    weir_zone_cache_close(cache);
    return status;
}
