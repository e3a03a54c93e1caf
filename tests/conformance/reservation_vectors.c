/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* Runs vectors with reservations through the functions of the core that reservations consist of,
 * with a clock that may step back. The records are kept here. */

#include "core_key.h"
#include "vectors.h"

#include "core/algorithm.h"
#include "core/check.h"
#include "service/zone_cache.h"

typedef struct record {
    weir_charged of;
    bool open, settled;
} record;

typedef struct reservations {
    core key; /* the first member: core_begin() gets it */
    record made[RESERVATIONS_MAX];
} reservations;

static bool begin(void *ctx, const char *policy)
{
    reservations *r = ctx;
    memset(r->made, 0, sizeof r->made);
    return core_begin(&r->key, policy);
}

/* Calls the core again with a larger state while it needs one. */
#define GROWING(c, st, call)                                                                       \
    while (((st) = (call)) == WEIR_E_ROOM)                                                         \
    core_grow(c)

static record *due(reservations *r, int64_t now_ns)
{
    record *first = NULL;
    for (size_t i = 0; i < RESERVATIONS_MAX; i++) {
        record *one = &r->made[i];
        if (one->open && one->of.ends_ns <= now_ns &&
            (!first || one->of.ends_ns < first->of.ends_ns))
            first = one;
    }
    return first;
}

/* Gives back the units of reservations that have expired, as of their expiry. */
static void expire(reservations *r, int64_t now_ns)
{
    core *c = &r->key;
    weir_decision d;
    for (record *one; (one = due(r, now_ns)) != NULL;) {
        one->open = false;
        if (weir_refund_charge(&c->policy, c->state, c->level, &one->of, one->of.ends_ns,
                               one->of.units, &d) != WEIR_OK)
            abort();
        one->of.units = 0;
    }
}

static weir_status reserve(reservations *r, const step *s, weir_decision *ret)
{
    core *c = &r->key;
    weir_status st = WEIR_E_UNSUPPORTED;
    if (!weir_policy_can(&c->policy, WEIR_CAN_REFUND))
        return st;
    const weir_layer *hold = weir_policy_hold(&c->policy);
    int64_t ttl_ns = s->ttl_ns > 0 ? s->ttl_ns : hold->period_ns;
    int64_t at_ns = weir_state_time(&c->policy, c->state, c->level, s->t_ns);
    weir_policy with = c->policy;
    if (hold)
        with.layer[hold - c->policy.layer].den = (uint64_t)ttl_ns;
    GROWING(c, st, weir_check(&with, c->state, c->level, at_ns, s->cost, ret));
    if (st == WEIR_OK && ret->allowed)
        r->made[s->id] = (record){{at_ns, at_ns + ttl_ns, s->cost}, true, false};
    return st;
}

static weir_status renew(reservations *r, const step *s, weir_decision *ret)
{
    core *c = &r->key;
    record *one = &r->made[s->id];
    weir_status st = WEIR_E_ABSENT;
    if (!one->open)
        return st;
    const weir_layer *hold = weir_policy_hold(&c->policy);
    int64_t ttl_ns = s->ttl_ns > 0 ? s->ttl_ns : hold->period_ns, ends_ns;
    GROWING(c, st,
            weir_renew(&c->policy, c->state, c->level, &one->of, ttl_ns, s->t_ns, ret, &ends_ns));
    if (st == WEIR_OK)
        one->of.ends_ns = ends_ns;
    return st;
}

static weir_status commit(reservations *r, const step *s, weir_decision *ret, int64_t *ret_over)
{
    core *c = &r->key;
    record *one = &r->made[s->id];
    weir_status st = WEIR_OK;
    if (one->settled)
        return WEIR_E_ABSENT;
    int64_t rest = one->of.units - s->cost;
    one->open = false;
    one->settled = true;
    *ret_over = 0;
    if (rest < 0 && weir_policy_counts(&c->policy))
        GROWING(c, st, weir_charge(&c->policy, c->state, c->level, s->t_ns, -rest, ret, ret_over));
    return st != WEIR_OK ? st
                         : weir_refund_charge(&c->policy, c->state, c->level, &one->of, s->t_ns,
                                              rest > 0 ? rest : 0, ret);
}

static weir_status decide(void *ctx, const step *s, weir_decision *ret, int64_t *ret_over)
{
    reservations *r = ctx;
    core *c = &r->key;
    weir_status st = WEIR_E_RANGE;
    expire(r, s->t_ns);
    switch (s->op) {
    case TAKE:
        GROWING(c, st, weir_check(&c->policy, c->state, c->level, s->t_ns, s->cost, ret));
        break;
    case REFUND:
        GROWING(c, st, weir_refund(&c->policy, c->state, c->level, s->t_ns, s->cost, ret));
        break;
    case CHARGE:
        GROWING(c, st,
                weir_charge(&c->policy, c->state, c->level, s->t_ns, s->cost, ret, ret_over));
        break;
    case RESERVE:
        return reserve(r, s, ret);
    case RENEW:
        return renew(r, s, ret);
    case COMMIT:
    case CANCEL:
        return commit(r, s, ret, ret_over);
    }
    return st;
}

int main(int argc, char **argv)
{
    static reservations r;
    weir_zone_cache *cache = weir_zone_cache_open(WEIR_ZONEINFO_DIR);
    r.key.zones = weir_zone_cache_zones(cache);
    adapter d = {.name = "charged",
                 .reserves = true,
                 .begin = begin,
                 .decide = decide,
                 .end = core_end,
                 .ctx = &r};
    int status = vectors_run(&d, argc - 1, argv + 1);
    weir_zone_cache_close(cache);
    return status;
}
