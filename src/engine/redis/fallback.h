/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_ENGINE_REDIS_FALLBACK_H
#define WEIR_ENGINE_REDIS_FALLBACK_H
/* What is answered without a server: as `on_error` says. It decides, and knows neither why there is
 * no server nor which. */

#include "service/engine.h"

typedef struct weir_fallback {
    weir_store *store;
    weir_on_error on_error;      /* of requests that say nothing themselves */
    weir_policy throttle_policy; /* CL.THROTTLE's states in `store`, filed as a service does */
    uint64_t throttle_id;
} weir_fallback;

/*  store     for WEIR_ON_ERROR_LOCAL; NULL: there is none, and such requests get WEIR_E_IO.
 *  on_error  any but WEIR_ON_ERROR_DEFAULT. */
void weir_fallback_init(weir_fallback *ret, weir_store *store, weir_on_error on_error);

/* Answers a request. A refund or a reset is done by WEIR_ON_ERROR_LOCAL, and never pretended:
 * else its status is WEIR_E_IO. What a fresh key could never be allowed is denied.
 *  wait_ns  until the server may answer again, for WEIR_ON_ERROR_CLOSED; 1 or more.
 *  why      static; for those whose status is WEIR_E_IO.
 * Returns what decided, never WEIR_ON_ERROR_DEFAULT. */
weir_on_error weir_fallback_answer(const weir_fallback *f, weir_engine_request *q, int64_t now_ns,
                                   int64_t wait_ns, const char *why);

/* Answers takes that are allowed or denied as one. If they say different things, the strictest
 * holds for all: TELL, CLOSED, LOCAL, OPEN. */
weir_on_error weir_fallback_answer_all(const weir_fallback *f, weir_engine_batch *r, int64_t now_ns,
                                       int64_t wait_ns, const char *why);

#endif
