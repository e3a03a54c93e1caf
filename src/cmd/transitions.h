/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_CMD_TRANSITIONS_H
#define WEIR_CMD_TRANSITIONS_H
/* Which of the things that many threads tell of the same servers are news. Every loop has a line of
 * its own to every server, and tells of it; a log wants one line when a server has gone for all of
 * them, and one when it is there again. */

#include <stdbool.h>
#include <stdint.h>

enum {
    TRANSITIONS_LOOPS_MAX = 256,
    TRANSITIONS_NODES_MAX = 256, /* what is told of others is always news */
    TRANSITIONS_RECENT = 16,
};

typedef struct transitions_node {
    char name[280], text[256]; /* text: of the last "redis-down" */
    uint64_t up[TRANSITIONS_LOOPS_MAX / 64], open[TRANSITIONS_LOOPS_MAX / 64]; /* sets of loops */
    bool is_sentinel, said_up, said_down, said_open, said_probing;
} transitions_node;

typedef struct transitions { /* all zero to begin with; one thread at a time */
    transitions_node node[TRANSITIONS_NODES_MAX];
    unsigned nodes;
    struct {
        uint64_t hash;
        int64_t at_ns;
    } recent[TRANSITIONS_RECENT];
    unsigned recent_next;
} transitions;

/* Whether it is to be said.
 *  loop    that tells it, 0..TRANSITIONS_LOOPS_MAX - 1.
 *  event   "redis-up", "redis-down" and "redis-breaker" (open, probing, closed) are followed for
 *          each server; of all others, what was told a moment ago is no news.
 *  now_ns  of a clock that does not step. */
bool transitions_is_news(transitions *t, unsigned loop, const char *event, const char *node,
                         const char *text, int64_t now_ns);

/* Whether a loop has a connection to a server that decides: one that is up and no Sentinel.
 *  admitted  one whose breaker is open does not count. */
bool transitions_reaches(const transitions *t, unsigned loop, bool admitted);

#endif
