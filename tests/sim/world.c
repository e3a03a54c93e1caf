/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* Events are in a heap, ordered by time. A freed timer lives on until its pending event, which then
 * does nothing. */

#include "world.h"

#include "port/random_kit_test.h"

#include <stdlib.h>

void world_init(world *w, uint64_t seed, int64_t now_ns)
{
    *w = (world){.now_ns = now_ns, .dice = seed * 0x9e3779b97f4a7c15 + 1};
}

void world_free(world *w)
{
    free(w->event);
    w->event = NULL;
}

/* ---- random numbers -------------------------------------------------------------------------- */

uint64_t world_random(world *w)
{
    return next_random(&w->dice);
}

uint64_t world_below(world *w, uint64_t n)
{
    return world_random(w) % n;
}

bool world_chance(world *w, unsigned of_1000)
{
    return world_below(w, 1000) < of_1000;
}

int64_t world_between(world *w, int64_t a, int64_t b)
{
    return a + (int64_t)world_below(w, (uint64_t)(b - a) + 1);
}

/* ---- events ---------------------------------------------------------------------------------- */

static bool before(const world_event *a, const world_event *b)
{
    return a->at_ns != b->at_ns ? a->at_ns < b->at_ns : a->order < b->order;
}

static void swap(world_event *a, world_event *b)
{
    world_event t = *a;
    *a = *b;
    *b = t;
}

void world_add(world *w, int64_t at_ns, void (*fn)(void *, uint64_t), void *ctx, uint64_t arg)
{
    if (w->len == w->room) {
        w->room = w->room ? 2 * w->room : 256;
        w->event = realloc(w->event, w->room * sizeof *w->event);
        if (!w->event)
            abort();
    }
    if (at_ns < w->now_ns)
        at_ns = w->now_ns;
    size_t i = w->len++;
    w->event[i] = (world_event){at_ns, w->order++, fn, ctx, arg};
    for (; i > 0 && before(&w->event[i], &w->event[(i - 1) / 2]); i = (i - 1) / 2)
        swap(&w->event[i], &w->event[(i - 1) / 2]);
}

static world_event next(world *w)
{
    world_event first = w->event[0];
    w->event[0] = w->event[--w->len];
    for (size_t i = 0, child; (child = 2 * i + 1) < w->len; i = child) {
        if (child + 1 < w->len && before(&w->event[child + 1], &w->event[child]))
            child++;
        if (!before(&w->event[child], &w->event[i]))
            break;
        swap(&w->event[child], &w->event[i]);
    }
    return first;
}

void world_run(world *w, int64_t until_ns)
{
    while (w->len > 0 && w->event[0].at_ns < until_ns) {
        world_event e = next(w);
        w->now_ns = e.at_ns;
        e.fn(e.ctx, e.arg);
        if (w->after)
            w->after(w->ctx);
    }
    w->now_ns = until_ns;
}

/* ---- a dialer -------------------------------------------------------------------------------- */

struct port_timer {
    world_dialer *dialer;
    void (*fn)(void *ctx, int64_t now_ns);
    void *ctx;
    uint64_t set;  /* how many times it was set: older events are ignored */
    size_t events; /* in the heap */
    bool dropped;
};

static void ring(void *ctx, uint64_t set)
{
    port_timer *a = ctx;
    a->events--;
    if (a->dropped) {
        if (a->events == 0)
            free(a);
        return;
    }
    if (set == a->set)
        a->fn(a->ctx, a->dialer->world->now_ns + a->dialer->offset_ns);
}

static port_timer *alarm_new(port_dialer *d, void (*fn)(void *, int64_t), void *ctx)
{
    port_timer *a = calloc(1, sizeof *a);
    if (a)
        *a = (port_timer){.dialer = (world_dialer *)d, .fn = fn, .ctx = ctx};
    return a;
}

static void alarm_set(port_timer *a, int64_t at_ns)
{
    a->set++;
    if (at_ns == INT64_MAX)
        return;
    a->events++;
    world_add(a->dialer->world, at_ns - a->dialer->offset_ns, ring, a, a->set);
}

static void alarm_drop(port_timer *a)
{
    if (!a)
        return;
    a->dropped = true;
    if (a->events == 0)
        free(a);
}

static int64_t dialer_now(port_dialer *d)
{
    const world_dialer *w = (const world_dialer *)d;
    return w->world->now_ns + w->offset_ns;
}

static const port_dialer_calls calls = {
    .new_timer = alarm_new, .set_timer = alarm_set, .free_timer = alarm_drop, .now = dialer_now};

void world_dialer_init(world_dialer *d, world *w, int64_t offset_ns)
{
    *d = (world_dialer){.face = {&calls}, .world = w, .offset_ns = offset_ns};
}
