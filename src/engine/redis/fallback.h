/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_ENGINE_REDIS_FALLBACK_H
#define WEIR_ENGINE_REDIS_FALLBACK_H
/* The fallback answers requests when no server does, as on_error says. It does not know why there
 * was no server. */

#include "service/engine.h"

typedef struct weir_fallback {
    weir_store *store;
    weir_on_error on_error;      /* for requests with WEIR_ON_ERROR_DEFAULT */
    weir_policy throttle_policy; /* the states of CL.THROTTLE in `store`, as a service keeps them */
    uint64_t throttle_id;
} weir_fallback;

/*  store     for WEIR_ON_ERROR_LOCAL. NULL: such requests get WEIR_E_IO.
 *  on_error  any but WEIR_ON_ERROR_DEFAULT. */
void weir_fallback_init(weir_fallback *ret, weir_store *store, weir_on_error on_error);

/* Answers a request. Only WEIR_ON_ERROR_LOCAL can refund or reset; otherwise a refund or a reset
 * gets WEIR_E_IO, as WEIR_VERB_RESET_ALL always does. A cost above the limit is always denied.
 *  wait_ns  1 or more: how long until the server may reply again, for WEIR_ON_ERROR_CLOSED.
 *  why      static: the reason of a request that gets WEIR_E_IO.
 * Returns what decided, never WEIR_ON_ERROR_DEFAULT. */
weir_on_error weir_fallback_answer(const weir_fallback *f, weir_engine_request *q, int64_t now_ns,
                                   int64_t wait_ns, const char *why);

/* Answers takes that are decided as one. The strictest on_error of them applies to all. From strict
 * to lenient: REPORT, CLOSED, LOCAL, OPEN. */
weir_on_error weir_fallback_answer_all(const weir_fallback *f, weir_engine_batch *r, int64_t now_ns,
                                       int64_t wait_ns, const char *why);

#endif
