/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_PROPERTIES_CELL_H
#define WEIR_PROPERTIES_CELL_H
/* One key under test, for the files of the properties. */

#include "properties.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef __uint128_t u128;
typedef __int128_t i128;

typedef struct cell {
    const weir_policy *policy;
    uint64_t *state;
    unsigned level;
} cell;

static inline cell cell_new(const weir_policy *p)
{
    cell c = {p, calloc(weir_state_words(p, 0), sizeof(uint64_t)), 0};
    if (!c.state)
        abort();
    return c;
}

static inline size_t cell_bytes(const cell *c)
{
    return weir_state_words(c->policy, c->level) * sizeof(uint64_t);
}

static inline cell cell_copy(const cell *from)
{
    cell c = *from;
    c.state = malloc(cell_bytes(from));
    if (!c.state)
        abort();
    memcpy(c.state, from->state, cell_bytes(from));
    return c;
}

static inline void cell_grow(cell *c)
{
    uint64_t *wider = calloc(weir_state_words(c->policy, c->level + 1), sizeof *wider);
    if (!wider)
        abort();
    weir_state_grow(c->policy, c->state, c->level, wider);
    free(c->state);
    c->state = wider;
    c->level++;
}

static inline weir_decision cell_take(cell *c, int64_t t_ns, int64_t cost)
{
    weir_decision d;
    weir_status st;
    while ((st = weir_check(c->policy, c->state, c->level, t_ns, cost, &d)) == WEIR_E_ROOM)
        cell_grow(c);
    if (st != WEIR_OK) {
        fprintf(stderr, "weir_check at %" PRId64 " cost %" PRId64 ": %s\n", t_ns, cost,
                weir_status_str(st));
        abort();
    }
    return d;
}

/* Returns the decision on a request, without changing the key. */
static inline weir_decision cell_try(const cell *c, int64_t t_ns, int64_t cost)
{
    cell copy = cell_copy(c);
    weir_decision d = cell_take(&copy, t_ns, cost);
    free(copy.state);
    return d;
}

static inline bool fail(const input *in, const char *property, size_t i, const char *what)
{
    char text[WEIR_POLICY_TEXT_MAX];
    weir_policy_print(&in->policy, text, sizeof text);
    fprintf(stderr, "%s: '%s' step %zu (t_ns %" PRId64 ", cost %" PRId64 "): %s\n", property, text,
            i, in->step[i].t_ns, in->step[i].cost, what);
    for (size_t k = 0; k <= i; k++)
        fprintf(stderr, "    take t_ns %" PRId64 " cost %" PRId64 "\n", in->step[k].t_ns,
                in->step[k].cost);
    return false;
}

#endif
