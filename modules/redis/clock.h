/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_MODULES_REDIS_CLOCK_H
#define WEIR_MODULES_REDIS_CLOCK_H
/* The two clocks of a command. Decisions use a clock that follows the wall clock but is never
 * stepped, as the store's does: a step of the wall clock neither blocks keys nor fills their
 * quotas. Expiry uses the wall clock, the only one that the server knows. It is computed as a time
 * of the first clock plus `ahead_ns`. That rarely changes, so most keys can keep their expiry. Main
 * thread only. */

#include <stdint.h>

typedef struct weir_moment {
    int64_t now_ns;   /* for decisions. Since Redis 7.2 it is the same for all commands of a
                         transaction or a script */
    int64_t ahead_ns; /* at least the wall clock minus now_ns, and at least 0 */
    uint32_t epoch;   /* how often ahead_ns has changed; from 1 */
} weir_moment;

void weir_moment_start(void);
weir_moment weir_moment_now(void);

#endif
