/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_TESTS_SIM_WORLD_H
#define WEIR_TESTS_SIM_WORLD_H
/* A world for engines: a clock that jumps from one thing that happens to the next, and dice. The
 * same seed makes the same world. */

#include "port/dial.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct world_event {
    int64_t at_ns;
    uint64_t order; /* of those at one time, the first that was added is the first */
    void (*fn)(void *ctx, uint64_t arg);
    void *ctx;
    uint64_t arg;
} world_event;

typedef struct world {
    int64_t now_ns;
    uint64_t dice, order;
    void (*after)(void *ctx); /* each thing that has happened; or NULL */
    void *ctx;
    world_event *event; /* a heap */
    size_t len, room;
} world;

void world_init(world *w, uint64_t seed, int64_t now_ns);
void world_free(world *w);

uint64_t world_random(world *w);
uint64_t world_below(world *w, uint64_t n);            /* 0..n-1 */
bool world_chance(world *w, unsigned of_1000);         /* so often is it true */
int64_t world_between(world *w, int64_t a, int64_t b); /* a..b */

/* Something that is to happen; at once, if at_ns is past. */
void world_add(world *w, int64_t at_ns, void (*fn)(void *, uint64_t), void *ctx, uint64_t arg);

/* Lets all happen that is to be before until_ns; then it is that. */
void world_run(world *w, int64_t until_ns);

/* A dialer of this world: alarms and a clock, which differs from the world's. It makes no lines. */
typedef struct world_dialer {
    port_dialer face;
    world *world;
    int64_t offset_ns;
} world_dialer;

void world_dialer_init(world_dialer *d, world *w, int64_t offset_ns);

#endif
