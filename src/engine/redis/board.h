/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_ENGINE_REDIS_BOARD_H
#define WEIR_ENGINE_REDIS_BOARD_H
/* What the engines of all threads know to be denied, together: what one has heard, none has to ask
 * again; and who of them asks about a key whose denial has ended, while the others wait. An engine
 * looks here for what its own table (deny.h) does not have. Any thread. */

#include "engine/engine.h"
#include "engine/redis/deny.h"

typedef struct weir_board weir_board;

/* Joins the engines that share `stats`; the first makes the board.
 *  bytes  for it, if it is made.
 *  seed   for its secret, where the system has no random.
 * Returns WEIR_OK or WEIR_E_NOMEM. */
WEIR_NODISCARD weir_status weir_board_join(weir_board **ret, weir_redis_stats *stats, size_t bytes,
                                           uint64_t seed);
void weir_board_leave(weir_redis_stats *stats); /* the last takes it away */

/* Under which keys are held there, and should be in an engine's own table. */
const uint64_t *weir_board_secret(const weir_board *b);

/* As weir_deny_look(); on WEIR_DENY_DENIED `own` learns it too. On WEIR_DENY_ENDED the asker is the
 * one who asks, until it says so by weir_board_unclaim(), or until claim_ns. */
weir_deny_known weir_board_look(weir_board *b, weir_deny *own, weir_deny_id id, uint32_t epoch,
                                int64_t now_ns, int64_t claim_ns, weir_engine_request *q);

/* As weir_deny_learn(). */
void weir_board_learn(weir_board *b, weir_deny_id id, uint32_t epoch, int64_t sent_ns,
                      int64_t now_ns, const weir_engine_request *q);

/* Who asked has heard; so many units are left.
 *  left  less than 0: that is not known, or there are none. */
void weir_board_unclaim(weir_board *b, weir_deny_id id, int64_t left);

/* As weir_deny_sweep(), and of all of it. */
void weir_board_sweep(weir_board *b, int64_t now_ns);

/* Whether there is something to sweep. */
bool weir_board_holds(const weir_board *b);

#endif
