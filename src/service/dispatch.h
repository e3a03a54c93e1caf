/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_SERVICE_DISPATCH_H
#define WEIR_SERVICE_DISPATCH_H
/* The calls that engines may have to be asked for; weir_completion says how they wait. For this room
 * only. */

#include "service/pending.h"

/* weir_service_take(), whatever engines the states are with. */
bool weir_dispatch_take(weir_service *s, weir_completion *completion, weir_request *asks, size_t n,
                        int64_t now_ns);

/* Asks about one ask that was found, and is on no list; not a take. */
bool weir_dispatch_one(weir_service *s, weir_completion *completion, weir_verb verb,
                       weir_request *ask, int64_t now_ns, const weir_resolved *at);

/* The answer to that, once it is there. The place is good until the next call on the service. */
bool weir_dispatch_answer(weir_service *s, weir_completion *completion, weir_request *ask,
                          weir_resolved *ret_at);

/* weir_service_throttle(), but for the counting. */
bool weir_dispatch_throttle(weir_service *s, weir_completion *completion, const weir_throttle *t,
                            weir_slice key, int64_t now_ns, weir_throttle_result *ret,
                            bool *ret_by_error);

/* Whether the engine that has the state can be asked; if not, the ask says why. */
bool weir_dispatch_has_engine(const weir_service *s, const weir_completion *completion,
                              weir_engine_kind engine, weir_request *ask);

/* The ask could not be asked about, for want of room. */
void weir_dispatch_refuse(weir_request *ask);

/* An engine's answer, as it came. */
void weir_dispatch_read(const weir_engine_request *q, weir_request *ask);

/* All that is written of an ask when it is answered. */
void weir_dispatch_copy(weir_request *to, const weir_request *from);

#endif
