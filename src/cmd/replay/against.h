/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_CMD_REPLAY_AGAINST_H
#define WEIR_CMD_REPLAY_AGAINST_H
/* `weir replay --against URL`: sends the requests of the log to a running daemon as well, at the
 * pace of the log, and compares each of its decisions with the offline one. */

#include "cmd/replay/policies.h"

typedef struct replay_against replay_against;

#define REPLAY_SPEED_EXPECTED "a factor from 0.001 to 1000000, or max"

/* Reads the text of --speed.
 *  ret  0 for max; written only on success. */
bool replay_speed_read(const char *text, double *ret);

/* Connects to the daemon.
 *  ret    free it with replay_against_close(), also after a failure.
 *  speed  how many times as fast as the log requests are sent; 0: as fast as the daemon answers.
 *  p      opened; outlives *ret.
 * Returns 0, or the exit status after printing an error. */
int replay_against_open(replay_against **ret, const char *url, double speed, replay_policies *p);
void replay_against_close(replay_against *a); /* accepts NULL */

/* Decides on all requests of the log, and compares. Prints the first differences.
 *  decide  decides on a request offline, and returns 0 or an exit status, which ends the run. The
 *          now_ns of the request is the time when it was sent.
 * Returns 0, or the exit status after printing an error. */
int replay_against_run(replay_against *a, accesslog *log,
                       int (*decide)(void *ctx, const accesslog_request *request), void *ctx);

/* Prints the counts. Returns the exit status: 1 if any decision differs. */
int replay_against_finish(const replay_against *a);

#endif
