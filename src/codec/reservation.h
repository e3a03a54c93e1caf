/* SPDX-License-Identifier: BSD-2-Clause
 * Copyright (c) 2026 the weir authors */
#ifndef WEIR_CODEC_RESERVATION_H
#define WEIR_CODEC_RESERVATION_H
/* Lengths of time as clients write them. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Why there is none, of WEIR_E_FULL. */
#define WEIR_RESERVE_FULL                                                                          \
    "as many reservations are open as the store holds, or it is full and refuses new keys"

#define WEIR_ID_EXPECTED "16 hex digits, as the reservation was answered with"

/* What weir_ttl_read() takes, for an error. */
#define WEIR_TTL_EXPECTED "a length from 1ns to 36.5 years: seconds, or as 30s, 500ms, 1h30m"

/* Reads a length of time: a period of the policy language, or a whole number of seconds.
 *  ret  1..WEIR_SPAN_NS_MAX; written only if true. Pure. */
bool weir_ttl_read(const char *at, size_t len, int64_t *ret);

#endif
