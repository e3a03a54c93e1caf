/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* Tracks for each server which loops are connected to it and which have an open circuit breaker. */

#include "cmd/serve/event_filter.h"

#include <stdio.h>
#include <string.h>

static const int64_t recent_ns = 10000000000;

/* ---- bit sets of loops ----------------------------------------------------------------------- */

static void put(uint64_t *set, unsigned loop, bool is_in)
{
    uint64_t bit = UINT64_C(1) << loop % 64;
    set[loop / 64] = is_in ? set[loop / 64] | bit : set[loop / 64] & ~bit;
}

static bool has(const uint64_t *set, unsigned loop)
{
    return set[loop / 64] >> loop % 64 & 1;
}

static bool is_empty(const uint64_t *set)
{
    uint64_t all = 0;
    for (unsigned i = 0; i < EVENT_FILTER_LOOPS_MAX / 64; i++)
        all |= set[i];
    return all == 0;
}

/* ---- servers --------------------------------------------------------------------------------- */

/* Returns NULL if the table is full or the name too long. */
static event_filter_node *find(event_filter *t, const char *name)
{
    for (unsigned i = 0; i < t->nodes; i++) {
        if (strcmp(t->node[i].name, name) == 0)
            return &t->node[i];
    }
    if (t->nodes == EVENT_FILTER_NODES_MAX || strlen(name) >= EVENT_FILTER_NAME_SIZE)
        return NULL;
    event_filter_node *n = &t->node[t->nodes++];
    (void)snprintf(n->name, sizeof n->name, "%s", name);
    return n;
}

static bool passes_connection(event_filter_node *n, unsigned loop, bool is_up, const char *text)
{
    put(n->up, loop, is_up);
    if (is_up) {
        n->is_sentinel = strcmp(text, "a Sentinel") == 0; /* the text of the Redis client */
        bool news = !n->logged_up;
        n->logged_up = true;
        n->logged_down = false;
        return news;
    }
    (void)snprintf(n->why, sizeof n->why, "%s", text);
    bool again = n->logged_down && strncmp(n->text, text, sizeof n->text - 1) == 0;
    if (again || !is_empty(n->up))
        return false;
    (void)snprintf(n->text, sizeof n->text, "%s", text);
    n->logged_up = false;
    n->logged_down = true;
    return true;
}

static bool passes_breaker(event_filter_node *n, unsigned loop, const char *text)
{
    bool news = false;
    if (strcmp(text, "probing") == 0) {
        news = n->logged_open && !n->logged_probing;
        n->logged_probing = true;
        return news;
    }
    bool is_open = strcmp(text, "open") == 0;
    put(n->open, loop, is_open);
    if (is_open) {
        news = !n->logged_open;
        n->logged_probing = n->logged_probing && !news;
    } else {
        news = n->logged_open && is_empty(n->open);
    }
    n->logged_open = !is_empty(n->open);
    return news;
}

/* ---- other events ---------------------------------------------------------------------------- */

/* FNV-1a. A collision suppresses one log line. */
static uint64_t hash_of(const char *event, const char *text)
{
    uint64_t h = UINT64_C(0xcbf29ce484222325);
    for (const char *at = event; *at; at++)
        h = (h ^ (uint8_t)*at) * UINT64_C(0x100000001b3);
    for (const char *at = text; *at; at++)
        h = (h ^ (uint8_t)*at) * UINT64_C(0x100000001b3);
    return h;
}

static bool passes_other(event_filter *t, const char *event, const char *text, int64_t now_ns)
{
    uint64_t hash = hash_of(event, text);
    for (unsigned i = 0; i < EVENT_FILTER_RECENT; i++) {
        if (t->recent[i].hash == hash && now_ns - t->recent[i].at_ns < recent_ns)
            return false;
    }
    t->recent[t->recent_next].hash = hash;
    t->recent[t->recent_next].at_ns = now_ns;
    t->recent_next = (t->recent_next + 1) % EVENT_FILTER_RECENT;
    return true;
}

bool event_filter_passes(event_filter *t, unsigned loop, const char *event, const char *node,
                         const char *text, int64_t now_ns)
{
    bool is_up = strcmp(event, "redis-up") == 0, is_down = strcmp(event, "redis-down") == 0;
    bool is_breaker = strcmp(event, "redis-breaker") == 0;
    if (!is_up && !is_down && !is_breaker)
        return passes_other(t, event, text, now_ns);
    event_filter_node *n = find(t, node);
    if (!n)
        return true;
    return is_breaker ? passes_breaker(n, loop, text) : passes_connection(n, loop, is_up, text);
}

bool event_filter_reaches(const event_filter *t, unsigned loop, bool admitted)
{
    for (unsigned i = 0; i < t->nodes; i++) {
        const event_filter_node *n = &t->node[i];
        if (has(n->up, loop) && !n->is_sentinel && !(admitted && has(n->open, loop)))
            return true;
    }
    return false;
}

unsigned event_filter_failed(const event_filter *t)
{
    unsigned failed = 0;
    for (unsigned i = 0; i < t->nodes; i++)
        failed += t->node[i].why[0] && is_empty(t->node[i].up);
    return failed;
}

const char *event_filter_why(const event_filter *t, unsigned loops, const char **ret_why)
{
    for (unsigned i = 0; i < t->nodes; i++) {
        const event_filter_node *n = &t->node[i];
        *ret_why = n->why;
        for (unsigned loop = 0; !n->is_sentinel && n->why[0] && loop < loops; loop++) {
            if (!has(n->up, loop))
                return n->name;
        }
    }
    return NULL;
}
