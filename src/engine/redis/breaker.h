/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_ENGINE_REDIS_BREAKER_H
#define WEIR_ENGINE_REDIS_BREAKER_H
/* A breaker stops asking what does not answer: after a few failures in a row it opens, and nothing
 * is sent. After a pause it lets one request through, to see. If that is answered it closes; if
 * not, the next pause is twice as long. It is told what happens, with the time, and decides. */

#include <stdbool.h>
#include <stdint.h>

typedef enum weir_breaker_state {
    WEIR_BREAKER_CLOSED, /* all is well: the state of one that is all zero */
    WEIR_BREAKER_OPEN,
    WEIR_BREAKER_PROBING /* one request is on its way */
} weir_breaker_state;

enum {
    WEIR_BREAKER_FAILURES = 5 /* in a row, that open it */
};
#define WEIR_BREAKER_PAUSE_NS     ((int64_t)100000000) /* the first; each is 1/2 to 1 of its size */
#define WEIR_BREAKER_PAUSE_NS_MAX ((int64_t)2000000000)

typedef struct weir_breaker {
    weir_breaker_state state;
    uint32_t failures;
    int64_t pause_ns; /* the size of the next one */
    int64_t until_ns; /* when the pause is over */
} weir_breaker;

/* Whether a request may go. If the state was OPEN and becomes PROBING, that request is the probe:
 * its end must be told, by weir_breaker_end() or weir_breaker_forget(). */
bool weir_breaker_admits(weir_breaker *b, int64_t now_ns);

/* How a request ended that was let go.
 *  probe     it was the probe.
 *  answered  in time, whatever the answer.
 *  random    any number, for the pause.
 * Returns true if the state is another now. What was sent before it opened and fails afterwards
 * changes nothing; an answer always closes it. */
bool weir_breaker_end(weir_breaker *b, bool probe, bool answered, int64_t now_ns, uint64_t random);

/* The probe is gone, and nobody knows what became of it: the next request is one. */
void weir_breaker_forget(weir_breaker *b);

#endif
