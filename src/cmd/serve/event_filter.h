/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_CMD_SERVE_EVENT_FILTER_H
#define WEIR_CMD_SERVE_EVENT_FILTER_H
/* Removes duplicates from the log events of the Redis clients. Each event loop has its own
 * connection to each server and reports its changes. The log has one line when the last loop has
 * lost a server and one when the first loop has it back. */

#include <stdbool.h>
#include <stdint.h>

enum {
    EVENT_FILTER_LOOPS_MAX = 256,
    EVENT_FILTER_NODES_MAX = 256, /* events of further servers always pass */
    EVENT_FILTER_RECENT = 16,
    EVENT_FILTER_NAME_SIZE = 280,
};

typedef struct event_filter_node {
    char name[EVENT_FILTER_NAME_SIZE];
    char text[256]; /* the reason of the last "redis-down" that was logged */
    char why[256];  /* of the last one; "": there was none */
    uint64_t up[EVENT_FILTER_LOOPS_MAX / 64],
        open[EVENT_FILTER_LOOPS_MAX / 64]; /* bit sets of loops: connected; circuit breaker open */
    bool is_sentinel, logged_up, logged_down, logged_open, logged_probing;
} event_filter_node;

typedef struct event_filter { /* all zero at first; one thread at a time */
    event_filter_node node[EVENT_FILTER_NODES_MAX];
    unsigned nodes;
    struct {
        uint64_t hash;
        int64_t at_ns;
    } recent[EVENT_FILTER_RECENT];
    unsigned recent_next;
} event_filter;

/* Returns whether to log an event.
 *  loop    the loop that reports it, 0..EVENT_FILTER_LOOPS_MAX - 1.
 *  event   "redis-up", "redis-down" and "redis-breaker" (open, probing, closed) are tracked for
 *          each server. Any other event passes unless it was logged with the same text in the last
 *          10 s.
 *  now_ns  of a clock that does not step. */
bool event_filter_passes(event_filter *t, unsigned loop, const char *event, const char *node,
                         const char *text, int64_t now_ns);

/* Returns whether a loop is connected to a server that is not a Sentinel.
 *  admitted  ignore servers whose circuit breaker is open. */
bool event_filter_reaches(const event_filter *t, unsigned loop, bool admitted);

/* Returns the number of servers that are known to fail: no loop is connected to them, and a reason
 * is known. */
unsigned event_filter_failed(const event_filter *t);

/* Returns a server (not a Sentinel) to which one of the first `loops` loops is not connected, and
 * for which a reason is known; NULL: there is none.
 *  ret_why  set to the reason, if there is such a server.
 * The results are valid until the next event. */
const char *event_filter_why(const event_filter *t, unsigned loops, const char **ret_why);

#endif
