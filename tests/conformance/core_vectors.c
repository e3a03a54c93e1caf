/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* Runs the vectors through the core. */

#include "core_key.h"
#include "vectors.h"

#include "service/rules/keep.h"
#include "service/zone_cache.h"

#include <string.h>

static weir_status decide_once(core *c, const step *s, weir_decision *ret, int64_t *ret_over)
{
    if (s->op == CHARGE)
        return weir_charge(&c->policy, c->state, c->level, s->t_ns, s->cost, ret, ret_over);
    int64_t keep = 0;
    if (s->keep[0] && !weir_keep_read((weir_slice){s->keep, strlen(s->keep)}, &keep))
        return WEIR_E_SYNTAX;
    return s->op == REFUND
               ? weir_refund(&c->policy, c->state, c->level, s->t_ns, s->cost, ret)
               : weir_check_keep(&c->policy, c->state, c->level, s->t_ns, s->cost, keep, ret);
}

static weir_status decide(void *ctx, const step *s, weir_decision *ret, int64_t *ret_over)
{
    core *c = ctx;
    weir_status st;
    while ((st = decide_once(c, s, ret, ret_over)) == WEIR_E_ROOM)
        core_grow(c);
    return st;
}

int main(int argc, char **argv)
{
    weir_zone_cache *cache = weir_zone_cache_open(WEIR_ZONEINFO_DIR);
    core c = {.zones = weir_zone_cache_zones(cache)};
    adapter d = {.name = "core", .begin = core_begin, .decide = decide, .end = core_end, .ctx = &c};
    int status = vectors_run(&d, argc - 1, argv + 1);
    weir_zone_cache_close(cache);
    return status;
}
