/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_SERVICE_DISPATCH_H
#define WEIR_SERVICE_DISPATCH_H
/* Dispatches requests to engines, and reads the engines' answers. The calls return whether the
 * requests are answered; see weir_completion. Private to src/service. */

#include "service/pending.h"

/* weir_service_take() for requests that may need an engine. */
bool weir_dispatch_take(weir_service *s, weir_completion *completion, weir_request *requests,
                        size_t n, int64_t now_ns);

/* Sends one resolved request to its engine.
 *  verb  not WEIR_VERB_TAKE; only WEIR_VERB_RESET for a key on a list. */
bool weir_dispatch_one(weir_service *s, weir_completion *completion, weir_verb verb,
                       weir_request *request, int64_t now_ns, const weir_resolved *at);

/* Reads the answer to weir_dispatch_one(), if it has arrived.
 *  ret_at  valid until the next call on the service. */
bool weir_dispatch_answer(weir_service *s, weir_completion *completion, weir_request *request,
                          weir_resolved *ret_at);

/* weir_service_throttle(), without the counting.
 *  ret_by_error  whether on_error decided. */
bool weir_dispatch_throttle(weir_service *s, weir_completion *completion, const weir_throttle *t,
                            weir_slice key, int64_t now_ns, weir_throttle_result *ret,
                            bool *ret_by_error);

/* Whether the service has the engine. If not, writes the request's status and why. */
bool weir_dispatch_has_engine(const weir_service *s, const weir_completion *completion,
                              weir_engine_kind engine, weir_request *request);

/* Fails a request for which there is no memory. */
void weir_dispatch_refuse(weir_request *request);

/* Copies an engine's answer to the request. */
void weir_dispatch_read(const weir_engine_request *q, weir_request *request);

/* Copies the outputs of a request to another. */
void weir_dispatch_copy(weir_request *to, const weir_request *from);

#endif
