/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_CMD_REPLAY_MESSAGES_H
#define WEIR_CMD_REPLAY_MESSAGES_H
/* Messages and the progress bar of `weir replay`, on standard error. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cmd/replay/input.h"

enum { REPLAY_FAILED = 1, REPLAY_USAGE = 2 }; /* exit statuses */

/* Prints one line, "weir replay: " and the formatted text. */
__attribute__((format(printf, 1, 2))) void replay_note(const char *text, ...);

/* The same. Returns `status`. */
__attribute__((format(printf, 2, 3))) int replay_complain(int status, const char *text, ...);

/* Prints "out of memory". Returns REPLAY_FAILED. */
int replay_complain_memory(void);

/* The progress bar. The caller sets `wanted`; the other fields are private. */
typedef struct replay_progress {
    bool wanted, shown;
    int64_t begun_ns, last_ns;
} replay_progress;

/* Starts the bar. Reads the clock only if the bar is wanted. */
void replay_progress_begin(replay_progress *p, bool wanted);

/* Updates the bar, at most ten times a second. in->size is above 0. */
void replay_progress_show(replay_progress *p, const replay_input *in);

/* Erases the bar before another message is printed. */
void replay_progress_erase(replay_progress *p);

#endif
