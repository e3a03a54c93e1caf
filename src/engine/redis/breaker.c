/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
/* The breaker's three states. Pure; who asks brings the time and the chance. */

#include "engine/redis/breaker.h"

bool weir_breaker_admits(weir_breaker *b, int64_t now_ns)
{
    if (b->state == WEIR_BREAKER_CLOSED)
        return true;
    if (b->state == WEIR_BREAKER_PROBING || now_ns < b->until_ns)
        return false;
    b->state = WEIR_BREAKER_PROBING;
    return true;
}

/* So that many clients of one server do not come back in step. */
static int64_t jittered(int64_t pause_ns, uint64_t random)
{
    int64_t half = pause_ns / 2;
    return half + (int64_t)(random % (uint64_t)(half + 1));
}

static void open(weir_breaker *b, int64_t now_ns, uint64_t random)
{
    int64_t pause_ns = b->pause_ns ? b->pause_ns : WEIR_BREAKER_PAUSE_NS;
    b->state = WEIR_BREAKER_OPEN;
    b->until_ns = now_ns + jittered(pause_ns, random);
    b->pause_ns =
        pause_ns > WEIR_BREAKER_PAUSE_NS_MAX / 2 ? WEIR_BREAKER_PAUSE_NS_MAX : pause_ns * 2;
}

bool weir_breaker_end(weir_breaker *b, bool probe, bool answered, int64_t now_ns, uint64_t random)
{
    weir_breaker_state was = b->state;
    if (answered) {
        *b = (weir_breaker){WEIR_BREAKER_CLOSED, 0, 0, 0};
    } else if (was == WEIR_BREAKER_CLOSED) {
        b->failures++;
        if (b->failures >= WEIR_BREAKER_FAILURES)
            open(b, now_ns, random);
    } else if (probe && was == WEIR_BREAKER_PROBING) {
        open(b, now_ns, random);
    }
    return b->state != was;
}

void weir_breaker_forget(weir_breaker *b)
{
    if (b->state == WEIR_BREAKER_PROBING)
        b->state = WEIR_BREAKER_OPEN;
}
