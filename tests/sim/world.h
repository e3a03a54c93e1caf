/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_TESTS_SIM_WORLD_H
#define WEIR_TESTS_SIM_WORLD_H
/* A discrete-event simulator for engines: a clock that jumps from event to event, and random
 * numbers. The same seed gives the same run. */

#include "port/dial.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct world_event {
    int64_t at_ns;
    uint64_t order; /* events at the same time run in the order in which they were added */
    void (*fn)(void *ctx, uint64_t arg);
    void *ctx;
    uint64_t arg;
} world_event;

typedef struct world {
    int64_t now_ns;
    uint64_t dice, order;
    void (*after)(void *ctx); /* called after each event; may be NULL */
    void *ctx;
    world_event *event; /* a heap */
    size_t len, room;
} world;

void world_init(world *w, uint64_t seed, int64_t now_ns);
void world_free(world *w);

uint64_t world_random(world *w);
uint64_t world_below(world *w, uint64_t n);            /* 0..n-1 */
bool world_chance(world *w, unsigned of_1000);         /* true with this probability */
int64_t world_between(world *w, int64_t a, int64_t b); /* a..b */

/* Adds an event; if at_ns is past, it is due at once. */
void world_add(world *w, int64_t at_ns, void (*fn)(void *, uint64_t), void *ctx, uint64_t arg);

/* Runs all events before until_ns, and sets the clock to it. */
void world_run(world *w, int64_t until_ns);

/* A dialer with timers, and with a clock that has an offset. It makes no connections. */
typedef struct world_dialer {
    port_dialer face;
    world *world;
    int64_t offset_ns;
} world_dialer;

void world_dialer_init(world_dialer *d, world *w, int64_t offset_ns);

#endif
