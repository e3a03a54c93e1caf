/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_MODULES_REDIS_CLOCK_H
#define WEIR_MODULES_REDIS_CLOCK_H
/* The time that a command goes by. Decisions use the store's clock, which nobody sets: a step of
 * the wall clock neither locks keys out nor empties them. Keys expire by the wall clock, since
 * servers know no other; so that both are told. */

#include <stdint.h>

typedef struct weir_moment {
    int64_t now_ns;  /* for decisions; the same for all commands of a transaction or a script where
                        the server tells its own cached time, which is since 7.2 */
    int64_t wall_ns; /* for expiry */
} weir_moment;

void weir_moment_start(void);
weir_moment weir_moment_now(void);

#endif
