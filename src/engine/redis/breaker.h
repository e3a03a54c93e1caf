/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_ENGINE_REDIS_BREAKER_H
#define WEIR_ENGINE_REDIS_BREAKER_H
/* A circuit breaker for one node. After several failures in a row it opens, and no request is sent.
 * After a pause it admits one request, the probe. A reply to the probe closes the breaker. A failed
 * probe opens it again, with a pause twice as long (exponential backoff with jitter).
 *
 * Pure: the caller passes the time and a random number. */

#include "port/assert.h"

#include <stdbool.h>
#include <stdint.h>

typedef enum weir_breaker_state {
    WEIR_BREAKER_CLOSED, /* requests are sent; the state of a breaker that is all zero */
    WEIR_BREAKER_OPEN,
    WEIR_BREAKER_PROBING /* the probe is in flight */
} weir_breaker_state;

enum {
    WEIR_BREAKER_FAILURES = 5 /* so many in a row open the breaker */
};
#define WEIR_BREAKER_PAUSE_NS     ((int64_t)100000000) /* the first pause, before jitter */
#define WEIR_BREAKER_PAUSE_NS_MAX ((int64_t)1000000000)

typedef struct weir_breaker {
    weir_breaker_state state;
    uint32_t failures; /* in a row */
    int64_t pause_ns;  /* the next pause, before jitter; 0: the first one */
    int64_t until_ns;  /* when the current pause ends */
} weir_breaker;

/* Whether a request may be sent. If this turns OPEN into PROBING, the request is the probe. End the
 * probe by weir_breaker_record() or weir_breaker_abandon_probe(). */
static inline bool weir_breaker_admits(weir_breaker *b, int64_t now_ns)
{
    if (b->state == WEIR_BREAKER_CLOSED)
        return true;
    if (b->state == WEIR_BREAKER_PROBING || now_ns < b->until_ns)
        return false;
    b->state = WEIR_BREAKER_PROBING;
    return true;
}

/* Opens the breaker for 1/2 to 1 of the pause: jitter keeps many clients of one server from
 * probing it at the same moment. */
static inline void weir_breaker_open(weir_breaker *b, int64_t now_ns, uint64_t random)
{
    int64_t pause_ns = b->pause_ns ? b->pause_ns : WEIR_BREAKER_PAUSE_NS;
    int64_t half_ns = pause_ns / 2;
    WEIR_ASSERT(b->state != WEIR_BREAKER_OPEN && pause_ns <= WEIR_BREAKER_PAUSE_NS_MAX);
    b->state = WEIR_BREAKER_OPEN;
    b->until_ns = now_ns + half_ns + (int64_t)(random % (uint64_t)(half_ns + 1));
    b->pause_ns =
        pause_ns > WEIR_BREAKER_PAUSE_NS_MAX / 2 ? WEIR_BREAKER_PAUSE_NS_MAX : pause_ns * 2;
}

/* Records how an admitted request ended.
 *  probe    it was the probe.
 *  replied  the node replied before the deadline; an error reply counts, too.
 *  random   any number, for the jitter.
 * Returns whether the state changed. Any reply closes the breaker. A failure of a request that was
 * sent before the breaker opened changes nothing. */
static inline bool weir_breaker_record(weir_breaker *b, bool probe, bool replied, int64_t now_ns,
                                       uint64_t random)
{
    weir_breaker_state was = b->state;
    WEIR_ASSERT(was != WEIR_BREAKER_CLOSED || b->failures < WEIR_BREAKER_FAILURES);
    if (replied) {
        *b = (weir_breaker){WEIR_BREAKER_CLOSED, 0, 0, 0};
    } else if (was == WEIR_BREAKER_CLOSED) {
        b->failures++;
        if (b->failures >= WEIR_BREAKER_FAILURES)
            weir_breaker_open(b, now_ns, random);
    } else if (probe && was == WEIR_BREAKER_PROBING) {
        weir_breaker_open(b, now_ns, random);
    }
    return b->state != was;
}

/* The probe was abandoned without a result. The next request is a probe. */
static inline void weir_breaker_abandon_probe(weir_breaker *b)
{
    if (b->state == WEIR_BREAKER_PROBING)
        b->state = WEIR_BREAKER_OPEN;
}

#endif
