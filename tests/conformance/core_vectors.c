/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* Runs the vectors through the core: a state in memory, which grows when the core needs more
 * words. */

#include "vectors.h"

#include "service/rules/keep.h"
#include "service/zone_cache.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct core {
    weir_zones zones;
    weir_policy policy;
    uint64_t *state;
    unsigned level;
} core;

/* Parses the policy, and checks that its canonical text is parsed to the same canonical text. */
static bool parse(core *c, const char *text)
{
    weir_policy_error e;
    char printed[WEIR_POLICY_TEXT_MAX], again[WEIR_POLICY_TEXT_MAX];
    size_t len = strlen(text);
    for (int round = 0; round < 2; round++) {
        if (weir_policy_parse(&c->policy, text, len, &c->zones, &e) != WEIR_OK) {
            fprintf(stderr, "'%s': column %u: %s\n", text, e.column, e.text);
            return false;
        }
        if (round == 1)
            memcpy(again, printed, sizeof again);
        len = weir_policy_print(&c->policy, printed, sizeof printed);
        text = printed;
    }
    return strcmp(again, printed) == 0;
}

static bool begin(void *ctx, const char *policy)
{
    core *c = ctx;
    if (!parse(c, policy))
        return false;
    c->level = 0;
    c->state = calloc(weir_state_words(&c->policy, 0), sizeof *c->state);
    return c->state != NULL;
}

static void grow(core *c)
{
    uint64_t *wider = calloc(weir_state_words(&c->policy, c->level + 1), sizeof *wider);
    if (!wider)
        abort();
    weir_state_grow(&c->policy, c->state, c->level, wider);
    free(c->state);
    c->state = wider;
    c->level++;
}

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
        grow(c);
    return st;
}

static void end(void *ctx)
{
    core *c = ctx;
    free(c->state);
    c->state = NULL;
}

int main(int argc, char **argv)
{
    weir_zone_cache *cache = weir_zone_cache_open(WEIR_ZONEINFO_DIR);
    core c = {.zones = weir_zone_cache_zones(cache)};
    adapter d = {.name = "core", .begin = begin, .decide = decide, .end = end, .ctx = &c};
    int status = vectors_run(&d, argc - 1, argv + 1);
    weir_zone_cache_close(cache);
    return status;
}
