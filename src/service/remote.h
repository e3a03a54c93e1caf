/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_SERVICE_REMOTE_H
#define WEIR_SERVICE_REMOTE_H
/* The calls that engines may have to be asked for; weir_turn says how they wait. For this room
 * only. */

#include "service/pending.h"

/* weir_service_take(), whatever engines the states are with. */
bool weir_remote_take(weir_service *s, weir_turn *turn, weir_ask *asks, size_t n, int64_t now_ns);

/* Asks about one ask that was found, and is on no list; not a take. */
bool weir_remote_ask(weir_service *s, weir_turn *turn, weir_verb verb, weir_ask *ask,
                     int64_t now_ns, const weir_place *at);

/* The answer to that, once it is there. The place is good until the next call on the service. */
bool weir_remote_answer(weir_service *s, weir_turn *turn, weir_ask *ask, weir_place *ret_at);

/* weir_service_throttle(), but for the counting. */
bool weir_remote_throttle(weir_service *s, weir_turn *turn, const weir_throttle *t, weir_slice key,
                          int64_t now_ns, weir_throttled *ret, bool *ret_by_error);

/* Whether the engine that has the state can be asked; if not, the ask says why. */
bool weir_remote_is_there(const weir_service *s, const weir_turn *turn, weir_engine_kind engine,
                          weir_ask *ask);

/* The ask could not be asked about, for want of room. */
void weir_remote_refuse(weir_ask *ask);

/* An engine's answer, as it came. */
void weir_remote_read(const weir_engine_request *q, weir_ask *ask);

/* All that is written of an ask when it is answered. */
void weir_remote_copy(weir_ask *to, const weir_ask *from);

#endif
