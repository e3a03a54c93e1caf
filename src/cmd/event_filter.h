/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_CMD_EVENT_FILTER_H
#define WEIR_CMD_EVENT_FILTER_H
/* Which of the things that many threads tell of the same servers are news. Every loop has a line of
 * its own to every server, and tells of it; a log wants one line when a server has gone for all of
 * them, and one when it is there again. */

#include <stdbool.h>
#include <stdint.h>

enum {
    EVENT_FILTER_LOOPS_MAX = 256,
    EVENT_FILTER_NODES_MAX = 256, /* what is told of others is always news */
    EVENT_FILTER_RECENT = 16,
};

typedef struct event_filter_node {
    char name[280], text[256]; /* text: of the last "redis-down" */
    uint64_t up[EVENT_FILTER_LOOPS_MAX / 64], open[EVENT_FILTER_LOOPS_MAX / 64]; /* sets of loops */
    bool is_sentinel, said_up, said_down, said_open, said_probing;
} event_filter_node;

typedef struct event_filter { /* all zero to begin with; one thread at a time */
    event_filter_node node[EVENT_FILTER_NODES_MAX];
    unsigned nodes;
    struct {
        uint64_t hash;
        int64_t at_ns;
    } recent[EVENT_FILTER_RECENT];
    unsigned recent_next;
} event_filter;

/* Whether it is to be said.
 *  loop    that tells it, 0..EVENT_FILTER_LOOPS_MAX - 1.
 *  event   "redis-up", "redis-down" and "redis-breaker" (open, probing, closed) are followed for
 *          each server; of all others, what was told a moment ago is no news.
 *  now_ns  of a clock that does not step. */
bool event_filter_passes(event_filter *t, unsigned loop, const char *event, const char *node,
                         const char *text, int64_t now_ns);

/* Whether a loop has a connection to a server that decides: one that is up and no Sentinel.
 *  admitted  one whose breaker is open does not count. */
bool event_filter_reaches(const event_filter *t, unsigned loop, bool admitted);

#endif
