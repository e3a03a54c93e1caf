/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* Gates by their id, and two lists of who waits: one for each gate, and one of all by deadline. */

#include "engine/redis/gate.h"

#include "port/port.h"

#include <string.h>

static weir_gate **chain_of(weir_gates *g, weir_deny_id id)
{
    return &g->chain[id.word[1] % WEIR_GATE_CHAINS];
}

weir_gate *weir_gate_find(const weir_gates *g, weir_deny_id id)
{
    weir_gate *gate = g->chain[id.word[1] % WEIR_GATE_CHAINS];
    while (gate && memcmp(&gate->id, &id, sizeof id) != 0)
        gate = gate->chained;
    return gate;
}

weir_gate *weir_gate_open(weir_gates *g, weir_deny_id id)
{
    weir_gate *gate = port_zalloc(1, sizeof *gate);
    if (!gate)
        return NULL;
    weir_gate **chain = chain_of(g, id);
    gate->id = id;
    gate->chained = *chain;
    *chain = gate;
    return gate;
}

void weir_gate_watch(weir_gates *g, weir_gate *gate)
{
    if (gate->watched)
        return;
    gate->watched = true;
    gate->next_watched = g->watched;
    g->watched = gate;
}

void weir_gate_close(weir_gates *g, weir_gate *gate)
{
    weir_gate **at = chain_of(g, gate->id);
    while (*at != gate)
        at = &(*at)->chained;
    *at = gate->chained;
    port_free(gate);
}

void weir_gate_wait(weir_gates *g, weir_gate *gate, weir_gate_place *place)
{
    place->gate = gate;
    place->next = NULL;
    place->before = gate->last;
    *(gate->last ? &gate->last->next : &gate->first) = place;
    gate->last = place;

    place->next_due = NULL;
    place->before_due = g->last_due;
    *(g->last_due ? &g->last_due->next_due : &g->first_due) = place;
    g->last_due = place;
}

void weir_gate_leave(weir_gates *g, weir_gate_place *place)
{
    weir_gate *gate = place->gate;
    *(place->before ? &place->before->next : &gate->first) = place->next;
    *(place->next ? &place->next->before : &gate->last) = place->before;
    *(place->before_due ? &place->before_due->next_due : &g->first_due) = place->next_due;
    *(place->next_due ? &place->next_due->before_due : &g->last_due) = place->before_due;
    place->gate = NULL;
}
