/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_MODULES_REDIS_CLOCK_H
#define WEIR_MODULES_REDIS_CLOCK_H
/* The two clocks of a command. Decisions use a clock that follows the wall clock but is never
 * stepped, as the store's does: a step of the wall clock neither blocks keys nor fills their
 * quotas. Expiry uses the wall clock, since the server knows no other. Main thread only. */

#include <stdint.h>

typedef struct weir_moment {
    int64_t
        now_ns; /* for decisions. Since Redis 7.2 it is the same for all commands of a transaction
                        or a script */
    int64_t wall_ns; /* for expiry */
} weir_moment;

void weir_moment_start(void);
weir_moment weir_moment_now(void);

#endif
