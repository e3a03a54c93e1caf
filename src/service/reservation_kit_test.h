/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_SERVICE_RESERVATION_KIT_TEST_H
#define WEIR_SERVICE_RESERVATION_KIT_TEST_H
/* Reservations that fail: weir_service_reserve() and weir_service_commit() are fakes (see
 * meson.build). */

#include "service/service.h"

static weir_status failure; /* of a reservation; WEIR_OK: it succeeds */

void __wrap_weir_service_reserve(weir_service *s, weir_request *request, int64_t ttl_ns,
                                 int64_t at_ns, uint64_t *ret_id);
void __real_weir_service_reserve(weir_service *s, weir_request *request, int64_t ttl_ns,
                                 int64_t at_ns, uint64_t *ret_id);
weir_status __wrap_weir_service_commit(weir_service *s, uint64_t id, int64_t actual, int64_t at_ns,
                                       weir_decision *ret, int64_t *ret_over, int64_t *ret_next_ns);
weir_status __real_weir_service_commit(weir_service *s, uint64_t id, int64_t actual, int64_t at_ns,
                                       weir_decision *ret, int64_t *ret_over, int64_t *ret_next_ns);

void __wrap_weir_service_reserve(weir_service *s, weir_request *request, int64_t ttl_ns,
                                 int64_t at_ns, uint64_t *ret_id)
{
    if (failure == WEIR_OK)
        __real_weir_service_reserve(s, request, ttl_ns, at_ns, ret_id);
    request->status = failure == WEIR_OK ? request->status : failure;
}

weir_status __wrap_weir_service_commit(weir_service *s, uint64_t id, int64_t actual, int64_t at_ns,
                                       weir_decision *ret, int64_t *ret_over, int64_t *ret_next_ns)
{
    if (failure != WEIR_OK)
        return failure;
    return __real_weir_service_commit(s, id, actual, at_ns, ret, ret_over, ret_next_ns);
}

#endif
