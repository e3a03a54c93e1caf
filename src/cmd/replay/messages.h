/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_CMD_REPLAY_MESSAGES_H
#define WEIR_CMD_REPLAY_MESSAGES_H
/* What `weir replay` says on standard error while it runs: what is wrong, and how far it is. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cmd/replay/input.h"

enum { REPLAY_FAILED = 1, REPLAY_USAGE = 2 }; /* exit statuses */

/* Says what is wrong, in one line, as printf would; returns `status`. */
__attribute__((format(printf, 2, 3))) int replay_complain(int status, const char *text, ...);

/* The same for "the memory is full". */
int replay_complain_memory(void);

/* A bar of how far it is. `wanted` is for the caller to set; the other fields are private. */
typedef struct replay_progress {
    bool wanted, shown;
    int64_t begun_ns, last_ns;
} replay_progress;

/* Begins to measure; the clock is read only if the bar is wanted. */
void replay_progress_begin(replay_progress *p, bool wanted);

/* Shows how far it is, if that was not done a moment ago. `in` has a size above 0. */
void replay_progress_show(replay_progress *p, const replay_input *in);

/* Clears the line of the bar, for something else to be said. */
void replay_progress_erase(replay_progress *p);

#endif
