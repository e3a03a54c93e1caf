/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_ENGINE_REDIS_GATE_H
#define WEIR_ENGINE_REDIS_GATE_H
/* Gates keep a crowd away from a key that was denied a moment ago. When a denial ends, all who want
 * the key would ask at once, and all but a few for nothing: so one asks, and the others wait for
 * what it hears. This file keeps who waits where; engine.c decides who is let go. One thread's. */

#include "engine/redis/deny.h"

struct weir_gate;

/* Who waits, or is waited for; a part of something larger. */
typedef struct weir_gate_place {
    struct weir_gate *gate;                        /* NULL: neither */
    struct weir_gate_place *next, *before;         /* in the gate, in the order they came */
    struct weir_gate_place *next_due, *before_due; /* of all that wait, by their deadlines */
    int64_t deadline_ns; /* to be set before waiting; never earlier than any before it */
} weir_gate_place;

typedef struct weir_gate {
    weir_deny_id id;
    weir_gate_place *probe; /* who asks; NULL: somebody of another thread */
    weir_gate_place *first, *last;
    struct weir_gate *chained;
    struct weir_gate *next_watched; /* of those that wait for another thread ... */
    bool watched;                   /* ... if it does */
} weir_gate;

enum { WEIR_GATE_CHAINS = 256 };

typedef struct weir_gates { /* all zero: none */
    weir_gate *chain[WEIR_GATE_CHAINS];
    weir_gate_place *first_due, *last_due;
    weir_gate *watched;
} weir_gates;

/* NULL if there is none. */
weir_gate *weir_gate_find(const weir_gates *g, weir_deny_id id);

/* NULL if there is no memory. There must be none of that id. */
weir_gate *weir_gate_open(weir_gates *g, weir_deny_id id);

/* Puts it among those that wait for another thread, if it is not. */
void weir_gate_watch(weir_gates *g, weir_gate *gate);

/* Nobody waits there, and it is not watched. */
void weir_gate_close(weir_gates *g, weir_gate *gate);

/* Joins those who wait. */
void weir_gate_wait(weir_gates *g, weir_gate *gate, weir_gate_place *place);

/* Leaves them, for whatever reason. */
void weir_gate_leave(weir_gates *g, weir_gate_place *place);

#endif
